"""Draws the rate of every combination of two parameters: a coloured cell with its number in it.

It must not display or encode anything.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from matplotlib import colormaps
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize, to_rgba
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from labkit.figures import HeatMap
from labkit.records import Environment, Experiment
from labkit.units import format_rate
from labkit.view.cells_of_map import (
    Cell,
    CellGrid,
    Segment,
    axis_label,
    core_label,
    core_steps,
    grids_of,
    value_label,
)
from labkit.view.drawn import Drawn
from labkit.view.style import GREY, GRID, INK, ORANGE, PAPER, dress, grow
from labkit.view.table import NONE

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Made for readers with and without colour vision: https://doi.org/10.1371/journal.pone.0199239
_COLORS = "cividis"
_WHITE = "#ffffff"
_INSET = 0.035
"""Of a cell, that is left free at each side: the line of the cores lies between the cells."""
_LARGEST, _SMALLEST = 10.0, 5.0
_LETTER, _LINE = 0.58, 1.25
"""Width of a letter and height of a line, in font sizes."""
_NO_RATE = to_rgba(PAPER)
Color = tuple[float, float, float, float]
"""Red, green, blue and opacity."""


class HeatMapDrawing:
    """A panel per story, with one scale of colours for all."""

    def __init__(
        self, figure: Figure, experiment: Experiment, drawn: Sequence[Drawn],
        environment: Environment, *, live: bool,
    ) -> None:  # fmt: skip
        """See `labkit.view.figure.new_drawing`; the line of the usable cores is marked."""
        spec = experiment.figure
        assert isinstance(spec, HeatMap)
        self._spec, self._live = spec, live
        self._top, self._trials = 1.0, -1
        self._scale = ScalarMappable(Normalize(0, self._top), colormaps[_COLORS])
        grids = grids_of(drawn, spec)
        layout = figure.add_gridspec(
            1, max(1, len(grids)), left=0.065, right=0.9, bottom=0.13, top=0.83, wspace=0.06
        )
        self.panels = [
            _Panel(figure.add_subplot(layout[0, place]), grid, self._color,
                   core_steps(grid, spec, environment.usable_cores) or ())
            for place, grid in enumerate(grids)
        ]  # fmt: skip
        for place, panel in enumerate(self.panels):
            panel.axes.set_xlabel(axis_label(spec.x, experiment), color=INK)
            if place == 0:
                panel.axes.set_ylabel(axis_label(spec.y, experiment), color=INK)
            else:
                panel.axes.tick_params(labelleft=False)
        bar = figure.colorbar(
            self._scale, cax=figure.add_axes((0.913, 0.13, 0.012, 0.7)),
            format=lambda value, _: format_rate(value) if value else "0",
        )  # fmt: skip
        bar.set_label(spec.value_label, color=INK, fontsize=9)
        bar.ax.tick_params(colors=INK, labelsize=8)
        bar.outline.set_visible(False)
        if grids:
            label = core_label(grids[0], spec, environment.usable_cores)
            _add_legend(figure, grids, label, live=live)

    def update(self, drawn: Sequence[Drawn]) -> None:
        """See `labkit.view.figure.Drawing`."""
        grids = grids_of(drawn, self._spec)
        rates = [cell.median for grid in grids for cell in grid.cells if cell.median is not None]
        reaches = self._reach(max(rates, default=0.0))
        trials = sum(cell.trials for grid in grids for cell in grid.cells)
        settled = reaches or trials != self._trials
        self._trials = trials
        for panel, grid in zip(self.panels, grids, strict=True):
            panel.update(grid, settled=settled)

    def _reach(self, top: float) -> bool:
        """Let the colours reach from 0, as the length of a bar would, to the highest rate."""
        if self._live:
            return grow(top, self._top, self._set_top)
        if top <= 0 or top == self._top:
            return False
        self._set_top(top)
        return True

    def _set_top(self, high: float) -> None:
        self._top = high
        self._scale.set_clim(0, high)

    def _color(self, rate: float) -> Color:
        return colormaps[_COLORS](rate / self._top)

    @property
    def moving(self) -> list[tuple[Axes, Artist]]:
        """See `labkit.view.figure.Drawing`."""
        return [(panel.axes, artist) for panel in self.panels for artist in panel.moving]


def _add_legend(
    figure: Figure, grids: Sequence[CellGrid], core_text: str, *, live: bool
) -> None:
    handles: list[Artist] = []
    if core_text:
        handles.append(Line2D([], [], color=INK, linewidth=2.2, label=core_text))
    if live or not all(cell.lines for grid in grids for cell in grid.cells):
        name = "not measured yet" if live else "not measured"
        handles.append(Patch(facecolor=PAPER, edgecolor=GREY, hatch="////", label=name))
    if any(grid.gaps for grid in grids):
        dash = Line2D([], [], color=INK, marker="_", linestyle="none", label="not planned")
        handles.append(dash)
    if handles:
        figure.legend(
            handles=handles, loc="upper right", frameon=False, bbox_to_anchor=(0.99, 0.985),
            ncols=len(handles), fontsize=8, handlelength=1.8, columnspacing=1.4,
            labelcolor=INK,
        )  # fmt: skip


class _Panel:
    """The cells of one story; those that are measured cover the hatching that waits for them."""

    def __init__(
        self, axes: Axes, grid: CellGrid, color: Callable[[float], Color],
        steps: Sequence[Segment],
    ) -> None:  # fmt: skip
        self.axes, self._color = axes, color
        dress(axes, ": ".join(filter(None, (grid.name, grid.note))))
        axes.grid(visible=False)
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.tick_params(length=0)
        axes.set_xlim(-0.5, len(grid.xs) - 0.5)
        axes.set_ylim(-0.5, len(grid.ys) - 0.5)
        axes.set_xticks(range(len(grid.xs)), labels=[value_label(x) for x in grid.xs])
        axes.set_yticks(range(len(grid.ys)), labels=[value_label(y) for y in grid.ys])
        box, figure = axes.get_position(), axes.get_figure(root=True)
        assert figure is not None
        width, height = figure.get_size_inches()
        for place in grid.gaps:
            axes.text(*place, NONE, ha="center", va="center", color=INK, fontsize=_LARGEST)
        # They stay: a cell that is measured is drawn over its hatching, which is dear to draw.
        hatched = {"facecolor": PAPER, "edgecolor": GRID, "hatch": "////"}
        self.waiting = [axes.add_patch(_rectangle(cell, **hatched)) for cell in grid.cells]
        self.line = LineCollection(list(steps), colors=INK, linewidths=2.2, capstyle="projecting",
                                   zorder=3, clip_on=False)  # fmt: skip
        axes.add_collection(self.line, autolim=False)
        room = (72 * width * box.width / len(grid.xs), 72 * height * box.height / len(grid.ys))
        self.rest = {cell.key: _Tile(axes, cell, room) for cell in grid.cells}
        self.now = {cell.key: _Tile(axes, cell, room) for cell in grid.cells}
        self.moving: list[Artist] = [
            artist for tile in self.now.values() for artist in (tile.patch, tile.words)
        ]

    def update(self, grid: CellGrid, *, settled: bool) -> None:
        """Show the cells whose trials run; the others, too, when a trial has ended."""
        for cell in grid.cells:
            self.now[cell.key].show(cell if cell.running else None, self._color)
            if settled:
                self.rest[cell.key].show(cell, self._color)


class _Tile:
    """A coloured cell with its words.

    Each cell has two, one over the other: drawing the words of 40 cells takes 30 ms, and only
    that of a cell whose trial runs is drawn in every frame.
    """

    def __init__(self, axes: Axes, cell: Cell, room: tuple[float, float]) -> None:
        self.patch = axes.add_patch(_rectangle(cell))
        self.words = axes.text(cell.column, cell.row, "", ha="center", va="center",
                               linespacing=1.1)  # fmt: skip
        width, height = room
        self._room = (width * (1 - 2 * _INSET), height * (1 - 2 * _INSET))
        self.show(None, lambda _: _NO_RATE)

    def show(self, cell: Cell | None, color: Callable[[float], Color]) -> None:
        """Show a cell; nothing without one, or without anything to say of it."""
        shown = cell is not None and bool(cell.lines)
        self.patch.set_visible(shown)
        self.words.set_visible(shown)
        if cell is None:
            return
        face = _NO_RATE if cell.median is None else color(cell.median)
        self.patch.set_facecolor(face)
        self.patch.set_edgecolor(ORANGE if cell.end else "none")
        text, size = _fit(cell.lines, *self._room)
        self.words.set_text(text)
        self.words.set_fontsize(size)
        self.words.set_color(INK if _luminance(face) > _TURN else _WHITE)


def _fit(lines: Sequence[str], width: float, height: float) -> tuple[str, float]:
    """The lines, broken where the cell is narrow, and the font size at which they fit into it."""
    size = _LARGEST
    while True:
        letters = max(1, int(width / (_LETTER * size)))
        broken = [
            part for line in lines
            for part in textwrap.wrap(line, letters, break_long_words=False)
        ]  # fmt: skip
        wide = max(map(len, broken), default=0) > letters
        tall = len(broken) * _LINE * size > height
        if size <= _SMALLEST or not (wide or tall):
            return "\n".join(broken), size
        size -= 0.5


def _rectangle(cell: Cell, **look: str) -> Rectangle:
    side = 1 - 2 * _INSET
    corner = (cell.column - side / 2, cell.row - side / 2)
    return Rectangle(corner, side, side, linewidth=1.2, **look)  # type: ignore[arg-type]


def _luminance(color: Color) -> float:
    """Relative luminance of WCAG 2: https://www.w3.org/TR/WCAG21/#dfn-relative-luminance"""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color[:3]]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


# From here on the ink has the better contrast: (L + 0.05) / (I + 0.05) = 1.05 / (L + 0.05).
_TURN = (1.05 * (_luminance(to_rgba(INK)) + 0.05)) ** 0.5 - 0.05
