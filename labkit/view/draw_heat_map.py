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
    """A panel per story; cells that are measured cover the hatching that waits for them."""

    def __init__(
        self, figure: Figure, experiment: Experiment, drawn: Sequence[Drawn],
        environment: Environment, *, live: bool,
    ) -> None:  # fmt: skip
        """See `labkit.view.figure.new_drawing`; the line of the usable cores is marked."""
        spec = experiment.figure
        assert isinstance(spec, HeatMap)
        self._spec, self._live = spec, live
        self._top = 1.0
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

    def update(self, drawn: Sequence[Drawn]) -> bool:
        """See `labkit.view.figure.Drawing`."""
        grids = grids_of(drawn, self._spec)
        rates = [cell.median for grid in grids for cell in grid.cells if cell.median is not None]
        changed = self._reach(max(rates, default=0.0))
        for panel, grid in zip(self.panels, grids, strict=True):
            panel.update(grid)
        return changed

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
    """The cells of one story."""

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
        self._points = (72 * width * box.width * (1 - 2 * _INSET) / len(grid.xs),
                        72 * height * box.height * (1 - 2 * _INSET) / len(grid.ys))  # fmt: skip
        for place in grid.gaps:
            axes.text(*place, NONE, ha="center", va="center", color=GREY, fontsize=_LARGEST)
        # They stay: a cell that is measured is drawn over its hatching, which is dear to draw.
        self.waiting = [axes.add_patch(_tile(cell, facecolor=PAPER, edgecolor=GRID, hatch="////"))
                        for cell in grid.cells]  # fmt: skip
        self.line = LineCollection(list(steps), colors=INK, linewidths=2.2, capstyle="projecting",
                                   zorder=3, clip_on=False)  # fmt: skip
        axes.add_collection(self.line, autolim=False)
        self.tiles = {cell.key: axes.add_patch(_tile(cell)) for cell in grid.cells}
        self.words = {
            cell.key: axes.text(cell.column, cell.row, "", ha="center", va="center",
                                linespacing=1.1)
            for cell in grid.cells
        }  # fmt: skip
        self.moving: list[Artist] = [*self.tiles.values(), *self.words.values()]

    def update(self, grid: CellGrid) -> None:
        for cell in grid.cells:
            tile, words = self.tiles[cell.key], self.words[cell.key]
            tile.set_visible(bool(cell.lines))
            face = _NO_RATE if cell.median is None else self._color(cell.median)
            tile.set_facecolor(face)
            tile.set_edgecolor(ORANGE if cell.end else "none")
            text, size = self._fit(cell)
            words.set_text(text)
            words.set_fontsize(size)
            words.set_color(INK if _luminance(face) > _TURN else _WHITE)

    def _fit(self, cell: Cell) -> tuple[str, float]:
        """The cell's words, broken where it is narrow, and the size at which they fit."""
        width, height = self._points
        size = _LARGEST
        while True:
            letters = max(1, int(width / (_LETTER * size)))
            lines = [
                part for line in cell.lines
                for part in textwrap.wrap(line, letters, break_long_words=False)
            ]  # fmt: skip
            wide = max(map(len, lines), default=0) > letters
            tall = len(lines) * _LINE * size > height
            if size <= _SMALLEST or not (wide or tall):
                return "\n".join(lines), size
            size -= 0.5


def _tile(cell: Cell, **look: str) -> Rectangle:
    side = 1 - 2 * _INSET
    corner = (cell.column - side / 2, cell.row - side / 2)
    return Rectangle(corner, side, side, linewidth=1.2, **look)  # type: ignore[arg-type]


def _luminance(color: Color) -> float:
    """Relative luminance of WCAG 2: https://www.w3.org/TR/WCAG21/#dfn-relative-luminance"""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color[:3]]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


# From here on the ink has the better contrast: (L + 0.05) / (I + 0.05) = 1.05 / (L + 0.05).
_TURN = (1.05 * (_luminance(to_rgba(INK)) + 0.05)) ** 0.5 - 0.05
