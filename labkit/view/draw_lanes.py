"""Draws who worked on which batch when: a timeline per setting, a lane per worker and consumer.

It must not display or encode anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch

from labkit.events import BatchBuilt
from labkit.records import Environment, Experiment, Setting
from labkit.view.drawn import Drawn
from labkit.view.style import AMBER, BLUE, GREEN, INK, PAPER, PINK, SKY, Box, dress, grow, set_boxes
from labkit.view.trace import Trace

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Name, colour and hatching of what a lane shows; a stage looks the same in every figure.
_KINDS = (
    ("wait", PINK, "\\\\\\"), ("fetch", SKY, ""), ("transform", AMBER, "///"),
    ("collate", GREEN, "..."), ("ready, in the queue", "#d0d0d0", ""), ("hand-over", "#666666", ""),
    ("step", BLUE, ""),
)  # fmt: skip
"""Later ones are drawn over earlier ones: a consumer that builds a batch itself waits for it."""
_WAIT, _FETCH, _TRANSFORM, _COLLATE, _QUEUED, _HANDOVER, _STEP = range(len(_KINDS))
_BAR = (-0.4, 0.32)
"""Edges of a bar around the middle of its lane; what waits in the queue is a strip below."""
_STRIP = (0.36, 0.48)
_NAMED_LANES = 10
_NUMBER_POINTS = 7
_NUMBER_SHARE = 0.012
"""Share of the axis that a batch's number needs."""
_LEAST_SECONDS = 0.1

Bar = tuple[int, int, float, float]
"""Kind, lane, begin and end in seconds since the trial began."""


class LanesDrawing:
    """A timeline for each setting, one below the other on one scale of time."""

    def __init__(
        self, figure: Figure, experiment: Experiment, drawn: Sequence[Drawn],
        environment: Environment, *, live: bool,
    ) -> None:  # fmt: skip
        """See `labkit.view.figure.new_drawing`; the latest trial of each setting is shown."""
        settings = [item.setting for item in drawn]
        lanes = [lane_count(setting) for setting in settings]
        grid = figure.add_gridspec(
            len(settings), 1, height_ratios=[count + 0.7 for count in lanes],
            left=0.105, right=0.985, bottom=0.11, top=0.84, hspace=0.35,
        )  # fmt: skip
        self.timelines = [
            Timeline(figure.add_subplot(grid[place, 0]), lane_count(setting), setting.label,
                     numbered=not live, hatched=not live)
            for place, setting in enumerate(settings)
        ]  # fmt: skip
        for timeline in self.timelines[:-1]:
            timeline.axes.tick_params(labelbottom=False)
        if self.timelines:
            self.timelines[-1].axes.set_xlabel("ms since the trial began", color=INK)
        figure.legend(
            handles=legend(hatched=not live), loc="upper right", bbox_to_anchor=(0.99, 0.93),
            ncols=len(_KINDS), fontsize=8, frameon=False, handlelength=1.4, columnspacing=1.0,
            handletextpad=0.4,
        )  # fmt: skip

    def update(self, drawn: Sequence[Drawn]) -> None:
        """See `labkit.view.figure.Drawing`."""
        for timeline, item in zip(self.timelines, drawn, strict=True):
            shown = [trace for trace in item.traces if trace.loaded]
            timeline.show(shown[-1] if shown else None)
        longest = max((timeline.seconds for timeline in self.timelines), default=0.0)
        high = self.timelines[0].axes.get_xlim()[1] if self.timelines else 0.0
        grow(longest * 1e3, high, self._set_high)

    def _set_high(self, high: float) -> None:
        for timeline in self.timelines:
            timeline.axes.set_xlim(0, high)

    @property
    def moving(self) -> list[tuple[Axes, Artist]]:
        """See `labkit.view.figure.Drawing`."""
        return [
            (timeline.axes, artist) for timeline in self.timelines for artist in timeline.moving
        ]


def lane_count(setting: Setting) -> int:
    """The consumer's lane, and one for each worker that the setting has."""
    return 1 + int(setting.params.get("workers", 0))


def legend(*, hatched: bool) -> list[Patch]:
    """A patch for each kind of bar."""
    return [
        Patch(facecolor=color, hatch=hatch if hatched else None, edgecolor=INK, linewidth=0.3,
              label=name)
        for name, color, hatch in _KINDS
    ]  # fmt: skip


class Timeline:
    """The lanes of one trial in one pair of axes."""

    def __init__(
        self, axes: Axes, lanes: int, title: str, *, numbered: bool, hatched: bool
    ) -> None:
        """Prepare empty lanes.

        Args:
            axes: to draw into.
            lanes: the consumer's and the workers'.
            title: stands at the left above.
            numbered: write the batches' numbers where they fit; they are not among `moving`.
            hatched: tell kinds apart by more than colour; dear in a live picture, which therefore
                tells wait and step apart by their lane.
        """
        self.axes, self.lanes = axes, lanes
        self.seconds = 0.0
        """How long the trial that is shown has lasted so far."""
        self._numbered = numbered
        self._come: tuple[str, int, int] | None = None
        dress(axes, "")
        axes.set_title(title, loc="left", fontsize=9, color=INK, pad=2, y=1.0)
        axes.grid(axis="y", visible=False)
        axes.tick_params(labelsize=8)
        names = ["consumer", *(f"worker {number}" for number in range(lanes - 1))]
        axes.set_yticks(range(lanes), labels=[*names[:1], *[""] * (lanes - 1)])
        if lanes < _NAMED_LANES:
            axes.set_yticks(range(lanes), labels=names)
        axes.set_ylim(lanes - 0.5, -0.5)
        axes.set_xlim(0, _LEAST_SECONDS * 1e3)
        self.bars = [
            PolyCollection([], facecolor=color, edgecolor=PAPER, linewidth=0.3,
                           hatch=hatch if hatched else None)
            for _, color, hatch in _KINDS
        ]  # fmt: skip
        for collection in self.bars:
            axes.add_collection(collection, autolim=False)
        self.moving: tuple[Artist, ...] = tuple(self.bars)

    def show(self, trace: Trace | None) -> None:
        """Show a trial as far as it has come; None shows none."""
        come = (trace.trial, len(trace.loaded), len(trace.built)) if trace is not None else None
        if come == self._come:
            return  # what is not set anew is not drawn anew
        self._come = come
        bars = bars_of(trace) if trace is not None else []
        by_kind: list[list[Box]] = [[] for _ in _KINDS]
        for kind, lane, begin, end in bars:
            by_kind[kind].append(_box(kind, lane, begin * 1e3, end * 1e3))
        for collection, boxes in zip(self.bars, by_kind, strict=True):
            set_boxes(collection, boxes)
        self.seconds = max((end for _, _, _, end in bars), default=0.0)
        if self._numbered and trace is not None:
            self._write_numbers(trace)

    def _write_numbers(self, trace: Trace) -> None:
        """The number of each batch in the bars of its building and of its step."""
        for text in list(self.axes.texts):
            text.remove()
        origin = _origin(trace)
        places = [(stamp.batch, _lane(stamp), stamp.started, stamp.done) for stamp in trace.built]
        places += [(batch.batch, 0, t - batch.step_seconds, t) for t, batch in trace.loaded]
        for number, lane, begin, end in places:
            if end - begin > _NUMBER_SHARE * self.seconds:
                middle = ((begin + end) / 2 - origin) * 1e3
                self.axes.text(
                    middle, lane, str(number), fontsize=_NUMBER_POINTS, ha="center", va="center",
                    color=INK, clip_on=True,
                    bbox={"boxstyle": "round,pad=0.12", "facecolor": PAPER, "linewidth": 0},
                )  # fmt: skip


def bars_of(trace: Trace) -> list[Bar]:
    """Every bar of a trial's lanes; the consumer's lane is 0, that of worker w is w + 1."""
    origin = _origin(trace)
    bars: list[Bar] = []
    arrived: dict[tuple[int, int], float] = {}
    for t, batch in trace.loaded:
        step = t - batch.step_seconds - origin
        arrived[batch.epoch, batch.batch] = step
        bars.append((_WAIT, 0, step - batch.wait_seconds, step))
        bars.append((_STEP, 0, step, t - origin))
    for stamp in trace.built:
        bars += _built_bars(stamp, origin, arrived.get((stamp.epoch, stamp.batch)))
    return bars


def _built_bars(stamp: BatchBuilt, origin: float, arrived: float | None) -> list[Bar]:
    """Fetch and transform summed over the samples, then collate, the queue and the hand-over."""
    lane, begin, done = _lane(stamp), stamp.started - origin, stamp.done - origin
    fetched = begin + stamp.fetch_seconds
    bars = [
        (_FETCH, lane, begin, fetched),
        (_TRANSFORM, lane, fetched, fetched + stamp.transform_seconds),
        (_COLLATE, lane, done - stamp.collate_seconds, done),
    ]
    if arrived is not None and lane:
        took = arrived - stamp.handover_seconds
        bars.append((_QUEUED, lane, done, took))
        bars.append((_HANDOVER, lane, took, arrived))
    return bars


def _origin(trace: Trace) -> float:
    if trace.started is not None:
        return trace.started.started
    return min((t - b.step_seconds - b.wait_seconds for t, b in trace.loaded), default=0.0)


def _lane(stamp: BatchBuilt) -> int:
    return stamp.worker + 1


def _box(kind: int, lane: int, begin: float, end: float) -> Box:
    low, high = _STRIP if kind in (_QUEUED, _HANDOVER) else _BAR
    return [(begin, lane + low), (begin, lane + high), (end, lane + high), (end, lane + low)]
