"""Draws memory over time against its limit, a lane per setting, and what each setting finished.

It must not display or encode anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from matplotlib.collections import PolyCollection
from matplotlib.patches import Rectangle

from labkit.figures import Stack
from labkit.records import Environment, Experiment
from labkit.units import format_bytes, format_rate
from labkit.view.drawn import Drawn
from labkit.view.lanes_of_memory import (
    Lane,
    death_text,
    delivered_text,
    lanes_of,
    top_bytes,
)
from labkit.view.legend_of_stack import LAYERS, StackLegend
from labkit.view.style import BLUE, GREY, GRID, INK, ORANGE, PAPER, dress, grow

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

_LEFT, _LANES_END, _BARS, _RIGHT = 0.15, 0.585, 0.745, 0.895
_HEADER_INCHES, _AXIS_INCHES, _TOP_INCHES, _BOTTOM_INCHES, _GAP_INCHES = 0.3, 0.3, 0.62, 0.2, 0.09


class StackDrawing:
    """The artists of one figure, to be updated as samples arrive."""

    def __init__(
        self, figure: Figure, experiment: Experiment, drawn: Sequence[Drawn],
        environment: Environment, *, live: bool,
    ) -> None:  # fmt: skip
        """See `labkit.view.figure.new_drawing`."""
        spec = experiment.figure
        assert isinstance(spec, Stack)
        lanes = lanes_of(drawn)
        stories = list(dict.fromkeys(lane.setting.story for lane in lanes))
        height = figure.get_figheight()
        fixed = _TOP_INCHES + _BOTTOM_INCHES + len(stories) * (_HEADER_INCHES + _AXIS_INCHES)
        step = (height - fixed) / max(1, len(lanes))
        top = height - _TOP_INCHES
        self.blocks = []
        for story in stories:
            own = [lane for lane in lanes if lane.setting.story == story]
            self.blocks.append(_Block(figure, spec, own, top, step, hatched=not live))
            top -= _HEADER_INCHES + len(own) * step + _AXIS_INCHES
        self.legend = StackLegend(figure, hatched=not live)

    def update(self, drawn: Sequence[Drawn]) -> None:
        """See `labkit.view.figure.Drawing`."""
        lanes = {lane.setting.key: lane for lane in lanes_of(drawn)}
        for block in self.blocks:
            block.update(lanes)
        self.legend.update(drawn)

    @property
    def moving(self) -> list[tuple[Axes, Artist]]:
        """See `labkit.view.figure.Drawing`."""
        found: list[tuple[Axes, Artist]] = []
        for block in self.blocks:
            for row in block.rows:
                found += [(row.axes, artist) for artist in row.moving]
            found += [(block.bars.axes, artist) for artist in block.bars.moving]
        return found


class _Words:
    """Text of a lane that changes while its first attempt runs, and then stays.

    Drawing a text takes milliseconds: only that of the lane which runs is drawn in every frame.
    """

    def __init__(self, make: Callable[[], Text]) -> None:
        self.now, self.rest = make(), make()
        self._state: tuple[bool, int] | None = None

    def update(self, text: str, lane: Lane) -> None:
        """Show a text."""
        running = bool(lane.moments) and not lane.attempts
        self.now.set_text(text if running else "")
        state = (running, lane.attempts)
        if state != self._state:
            self._state = state
            self.rest.set_text("" if running else text)

    @property
    def text(self) -> str:
        """What is shown."""
        return self.now.get_text() or self.rest.get_text()


class _Block:
    """The lanes of one story, below one another, on one time axis; bars beside them."""

    def __init__(
        self, figure: Figure, spec: Stack, lanes: Sequence[Lane], top: float, step: float, *,
        hatched: bool,
    ) -> None:  # fmt: skip
        height = figure.get_figheight()
        setting = lanes[0].setting
        head = ": ".join(filter(None, (setting.story or spec.y_label, setting.note)))
        below = top - _HEADER_INCHES
        figure.text(0.065, (below + 0.08) / height, head, fontsize=10, color=INK, weight="bold")
        figure.text(_BARS, (below + 0.08) / height, spec.rate_label, fontsize=9, color=INK)
        self.rows: list[_Row] = []
        for place, lane in enumerate(lanes):
            bottom = (below - (place + 1) * step + _GAP_INCHES / 2) / height
            box = (_LEFT, bottom, _LANES_END - _LEFT, (step - _GAP_INCHES) / height)
            last = place == len(lanes) - 1
            self.rows.append(_Row(figure.add_axes(box), lane, first=place == 0, last=last,
                                  hatched=hatched))  # fmt: skip
        tall = len(lanes) * step
        box = (_BARS, (below - tall) / height, _RIGHT - _BARS, tall / height)
        self.bars = _Bars(figure.add_axes(box), [lane.setting.key for lane in lanes], spec)
        self.rows[0].axes.set_xlim(0, 0.5)

    def update(self, lanes: dict[str, Lane]) -> None:
        own = [lanes[row.key] for row in self.rows]
        latest = [lane.moments[-1].seconds for lane in own if lane.moments]
        latest += [lane.died_seconds for lane in own if lane.died_seconds is not None]
        grow(max(latest, default=0.0), self.rows[0].axes.get_xlim()[1], self._set_time)
        grow(top_bytes(own) / 1.15, self.rows[0].axes.get_ylim()[1], self._set_bytes)
        self.bars.update(own)
        for row, lane in zip(self.rows, own, strict=True):
            row.update(lane)

    def _set_time(self, high: float) -> None:
        for row in self.rows:
            row.axes.set_xlim(0, high)

    def _set_bytes(self, high: float) -> None:
        for row in self.rows:
            row.set_top(high)


class _Row:
    """The memory of one setting over time."""

    def __init__(
        self, axes: Axes, lane: Lane, *, first: bool, last: bool, hatched: bool
    ) -> None:
        setting = lane.setting
        self.axes, self.key = axes, setting.key
        dress(axes, "")
        axes.grid(axis="y", visible=False)
        axes.set_ylim(0, 1)
        name = setting.label.replace(", ", ",\n")
        axes.text(-0.14, 0.5, name, transform=axes.transAxes, ha="right", va="center",
                  fontsize=9, color=INK)  # fmt: skip
        axes.tick_params(labelbottom=last, labelsize=8)
        if last:
            axes.set_xlabel("seconds since the attempt began", fontsize=8, color=INK, labelpad=1)
        self.limit = setting.budget.limit_bytes if setting.budget else None
        if self.limit is not None:
            axes.axhline(self.limit, color=ORANGE, linewidth=1.4, linestyle="--")
        self.predicted = setting.predicted_peak_bytes
        if self.predicted is not None:
            low, high = self.predicted
            ghost = Rectangle((0, low), 1, high - low, transform=axes.get_yaxis_transform(),
                              facecolor=GRID, edgecolor=GREY, linestyle=":",
                              zorder=0.5)  # fmt: skip
            axes.add_patch(ghost)
        self.layers = [
            PolyCollection([], facecolor=color, edgecolor=PAPER, linewidth=0.3,
                           hatch=hatch if hatched else None, zorder=2)
            for _, color, hatch in LAYERS
        ]  # fmt: skip
        for layer in self.layers:
            axes.add_collection(layer, autolim=False)
        self.cross = axes.plot([], [], marker="X", markersize=10, color=ORANGE,
                               markeredgecolor=INK, markeredgewidth=0.8, zorder=4,
                               linestyle="", clip_on=False)[0]  # fmt: skip
        self.word = axes.text(0, 0.42, "", transform=axes.get_xaxis_transform(), fontsize=8.5,
                              color=INK, weight="bold", va="center", zorder=4,
                              bbox={"facecolor": PAPER, "edgecolor": "none", "alpha": 0.75,
                                    "pad": 1})  # fmt: skip
        self.facts = _Words(lambda: axes.text(
            1.03, 0.5, "", transform=axes.transAxes, fontsize=7.5, color=INK, va="center",
            linespacing=1.25,
        ))  # fmt: skip
        self.moving: list[Artist] = [*self.layers, self.facts.now]
        self._state: tuple[object, ...] = ()
        self._death: tuple[object, ...] = ()

    def set_top(self, high: float) -> None:
        """Let the lane reach this high; the limit is written beside it."""
        self.axes.set_ylim(0, high)
        ticks = [0.0] if self.limit is None else [0.0, float(self.limit)]
        self.axes.set_yticks(ticks, labels=["0", *(format_bytes(tick) for tick in ticks[1:])])

    def update(self, lane: Lane) -> None:
        """Show what the lane holds now."""
        if (state := (lane, self.axes.get_xlim()[1])) == self._state:
            return  # what is not set anew is not drawn anew
        self._state = state
        xs = [moment.seconds for moment in lane.moments]
        floor = [0.0] * len(xs)
        for place, layer in enumerate(self.layers):
            tops = [
                below + (moment.anonymous, moment.shared, moment.cache)[place]
                for below, moment in zip(floor, lane.moments, strict=True)
            ]
            edge = [*zip(xs, tops, strict=True), *reversed([*zip(xs, floor, strict=True)])]
            layer.set_verts([edge] if len(xs) > 1 else [])
            floor = tops
        self.facts.update(_facts(lane), lane)
        death = (lane.died_seconds, lane.deaths, lane.attempts, self.axes.get_xlim()[1])
        if death != self._death:  # to set what does not move makes all be drawn again
            self._death = death
            self._mark_death(lane)

    def _mark_death(self, lane: Lane) -> None:
        died, high = lane.died_seconds, self.axes.get_xlim()[1]
        height = min(lane.peak or 0, self.limit or lane.peak or 0)
        self.cross.set_data([] if died is None else [died], [] if died is None else [height])
        right = died is not None and died > 0.5 * high  # the word stands on the side with room
        self.word.set_x((died or 0.0) + (-0.03 if right else 0.03) * high)
        self.word.set_horizontalalignment("right" if right else "left")
        self.word.set_text(death_text(lane) if died is not None else "")


def _facts(lane: Lane) -> str:
    """Numbers of a lane, one a line."""
    found = [f"peak {format_bytes(lane.peak)}"] if lane.peak else []
    if lane.setting.predicted_peak_bytes is not None:
        low, high = lane.setting.predicted_peak_bytes
        found.append(f"predicted {_span(low, high)}")
    if lane.device_bytes >= 1 << 20:
        found.append(f"{format_bytes(lane.device_bytes)} from disk")
    return "\n".join(found)


def _span(low: int, high: int) -> str:
    """``17.3 to 25.3 GiB``, the unit once where both have the same."""
    first, second = format_bytes(low), format_bytes(high)
    number, _, unit = first.partition(" ")
    return f"{number if second.endswith(unit) else first} to {second}"


class _Bars:
    """Finished samples per second of the whole attempt, a bar per lane."""

    def __init__(self, axes: Axes, keys: Sequence[str], spec: Stack) -> None:
        self.axes = axes
        dress(axes, "")
        axes.grid(axis="y", visible=False)
        axes.set_ylim(len(keys) - 0.5, -0.5)
        axes.set_yticks([])
        axes.set_xlim(0, 1e-6)
        axes.tick_params(labelsize=8)
        axes.set_xlabel("of the whole attempt", fontsize=8, color=INK, labelpad=1)
        self.bars = [Rectangle((0, row - 0.26), 0, 0.52, facecolor=BLUE, edgecolor=INK,
                               linewidth=0.6, alpha=0.85) for row in range(len(keys))]  # fmt: skip
        for bar in self.bars:
            axes.add_patch(bar)
        self.whiskers = [axes.plot([], [], color=INK, linewidth=1.4, marker="|", markersize=7)[0]
                         for _ in keys]  # fmt: skip
        self.words = [_Words(partial(
            axes.text, 1.04, row, "", transform=axes.get_yaxis_transform(), fontsize=8, color=INK,
            va="center", linespacing=1.25,
        )) for row in range(len(keys))]  # fmt: skip
        self._state: tuple[object, ...] = ()
        texts = [words.now for words in self.words]
        self.moving: list[Artist] = [*self.bars, *self.whiskers, *texts]

    def update(self, lanes: Sequence[Lane]) -> None:
        ends = [lane.rate.median for lane in lanes if lane.rate is not None]
        longest = max(ends, default=0.0)
        grow(longest, self.axes.get_xlim()[1], lambda high: self.axes.set_xlim(0, high))
        high = self.axes.get_xlim()[1]
        if (state := (lanes, high)) == self._state:
            return  # what is not set anew is not drawn anew
        self._state = state
        for row, lane in enumerate(lanes):
            rate = lane.rate
            self.bars[row].set_width(rate.median if rate else 0.0)
            self.bars[row].set_facecolor(ORANGE if lane.deaths else BLUE)
            spread = rate is not None and rate.high > rate.low and not lane.deaths
            self.whiskers[row].set_data(
                [rate.low, min(rate.high, high)] if rate and spread else [],
                [row, row] if spread else [],
            )
            self.words[row].update(_bar_words(lane), lane)


def _bar_words(lane: Lane) -> str:
    """What was delivered, and how fast or how it ended."""
    if not lane.attempts and lane.rate is None:
        return ""
    end = f"{format_rate(lane.rate.median)}/s" if lane.rate else ""
    return f"{delivered_text(lane)}\n{'then dead' if lane.deaths else end}"
