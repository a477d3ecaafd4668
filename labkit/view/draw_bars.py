"""Draws what workers cost: a row per setting, time until the first batch beside memory per worker.

It must not display or encode anything.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.patches import Rectangle

from labkit.measure.costs import costs_of
from labkit.records import Environment, Experiment
from labkit.summary import Costs
from labkit.view.drawn import Drawn
from labkit.view.style import AMBER, BLUE, INK, ORANGE, PAPER, SKY, dress, grow

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_ROOM = 0.84
"""Of a row's height, that its bars take together."""
_SMALL_ROWS = 14


@dataclass(frozen=True, slots=True)
class _Kind:
    """One bar of each row."""

    name: str
    color: str
    hatch: str
    value: Callable[[Costs], float | None]


def _mega(value: float | None) -> float | None:
    return None if value is None else value / 1e6


_PANELS = (
    ("seconds until the first batch", (
        _Kind("first epoch", BLUE, "", lambda costs: costs.first_wait_seconds),
        _Kind("later epochs", SKY, "////", lambda costs: costs.later_wait_seconds),
    )),
    ("MB of memory per worker", (
        _Kind("private", ORANGE, "", lambda costs: _mega(costs.worker_private_bytes)),
        _Kind("anonymous PSS", AMBER, "////", lambda costs: _mega(costs.worker_anonymous_bytes)),
    )),
)  # fmt: skip


class BarsDrawing:
    """Two panels of horizontal bars with a point for each trial."""

    def __init__(
        self, figure: Figure, experiment: Experiment, drawn: Sequence[Drawn],
        environment: Environment, *, live: bool,
    ) -> None:  # fmt: skip
        """See `labkit.view.figure.new_drawing`."""
        labels = [item.setting.label for item in drawn]
        grid = figure.add_gridspec(
            1, len(_PANELS), left=0.235, right=0.985, bottom=0.11, top=0.86, wspace=0.06
        )
        self.panels = [
            _Panel(figure.add_subplot(grid[0, place]), title, kinds, labels, named=place == 0,
                   hatched=not live)
            for place, (title, kinds) in enumerate(_PANELS)
        ]  # fmt: skip

    def update(self, drawn: Sequence[Drawn]) -> None:
        """See `labkit.view.figure.Drawing`."""
        costs = [
            [
                found
                for trace in item.traces
                if (found := costs_of(trace.loaded, trace.built, trace.memory, trace.counters))
            ]
            for item in drawn
        ]
        for panel in self.panels:
            panel.update(costs)

    @property
    def moving(self) -> list[tuple[Axes, Artist]]:
        """See `labkit.view.figure.Drawing`."""
        return [(panel.axes, artist) for panel in self.panels for artist in panel.moving]


class _Panel:
    """One quantity: the bars of its kinds, and a point for each trial."""

    def __init__(
        self, axes: Axes, title: str, kinds: Sequence[_Kind], labels: Sequence[str], *,
        named: bool, hatched: bool,
    ) -> None:  # fmt: skip
        self.axes, self.kinds = axes, kinds
        dress(axes, "")
        axes.grid(axis="y", visible=False)
        axes.set_xlabel(title, color=INK)
        axes.set_xlim(0, 1e-6)
        axes.set_ylim(len(labels) - 0.4, -0.6)
        size = 8.5 if len(labels) <= _SMALL_ROWS else 7
        axes.set_yticks(range(len(labels)), labels=labels if named else [], fontsize=size)
        self._height = _ROOM / len(kinds)
        self._costs: Sequence[Sequence[Costs]] = ()
        self.bars = [
            [
                Rectangle((0, self._top(row, place)), 0, self._height, facecolor=kind.color,
                          hatch=kind.hatch if hatched else None, edgecolor=PAPER, linewidth=0.4,
                          label=kind.name)
                for row in range(len(labels))
            ]
            for place, kind in enumerate(kinds)
        ]  # fmt: skip
        for bars in self.bars:
            for bar in bars:
                axes.add_patch(bar)
        self.points: Line2D = axes.plot(
            [], [], "o", color=INK, markersize=2.8, alpha=0.7, linestyle="none", label="a trial"
        )[0]
        axes.legend(
            handles=[*(bars[0] for bars in self.bars if bars), self.points], loc="lower right",
            bbox_to_anchor=(1.0, 1.0), ncols=len(kinds) + 1, fontsize=8, frameon=False,
            handlelength=1.4, columnspacing=1.0,
        )  # fmt: skip
        self.moving: list[Artist] = [*(bar for bars in self.bars for bar in bars), self.points]

    def _top(self, row: int, place: int) -> float:
        return row - _ROOM / 2 + place * self._height

    def update(self, costs: Sequence[Sequence[Costs]]) -> None:
        if costs == self._costs:
            return  # what is not set anew is not drawn anew
        self._costs = costs
        dots: list[tuple[float, float]] = []
        for place, kind in enumerate(self.kinds):
            for row, trials in enumerate(costs):
                values = [v for each in trials if (v := kind.value(each)) is not None]
                self.bars[place][row].set_width(statistics.median(values) if values else 0.0)
                middle = self._top(row, place) + self._height / 2
                dots += [(value, middle) for value in values]
        self.points.set_data([x for x, _ in dots], [y for _, y in dots])
        longest = max((x for x, _ in dots), default=0.0)
        grow(longest, self.axes.get_xlim()[1], lambda high: self.axes.set_xlim(0, high))
