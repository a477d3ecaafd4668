"""Draws rates over workers, a panel per story, and the times of the stages beside them.

It must not display or encode anything.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch

from labkit.figures import Curves
from labkit.records import Environment, Experiment, Setting
from labkit.view.drawn import Drawn
from labkit.view.style import (
    BLUE,
    GREEN,
    INK,
    ORANGE,
    PAPER,
    PINK,
    STAGES,
    Box,
    dress,
    grow,
    set_boxes,
)

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_STYLES = ((BLUE, "o", "-"), (ORANGE, "s", "--"), (GREEN, "^", "-."), (PINK, "D", ":"))
YOURS = "your prediction"
_LEAST_TICK_GAP = 0.06
"""Share of the axis that two tick labels keep between them."""


class CurvesDrawing:
    """The artists of one figure, to be updated as points arrive."""

    def __init__(
        self, figure: Figure, experiment: Experiment, drawn: Sequence[Drawn],
        environment: Environment, *, live: bool,
    ) -> None:  # fmt: skip
        """See `labkit.view.figure.new_drawing`; usable cores are marked."""
        spec = experiment.figure
        assert isinstance(spec, Curves)
        settings = [item.setting for item in drawn]
        # Live, stages may come yet; hatching makes 17 of the 25 ms that a frame takes.
        stages = spec.stages and (live or any(item.stages for item in drawn))
        stories = list(dict.fromkeys(setting.story for setting in settings))
        guessed = any(item.guess is not None for item in drawn)
        widths = [1.0] * len(stories) + ([0.9] if stages else [])
        grid = figure.add_gridspec(
            1, len(widths), width_ratios=widths,
            left=0.065, right=0.985, bottom=0.13, top=0.83, wspace=0.3,
        )  # fmt: skip
        self.panels = [
            _StoryPanel(
                figure.add_subplot(grid[0, place]), story, place, spec,
                [setting for setting in settings if setting.story == story], environment,
                guessed=guessed,
            )
            for place, story in enumerate(stories)
        ]  # fmt: skip
        named = max((panel.curves for panel in self.panels), key=len, default=[])
        handles = [curve.line for curve in named] if named[1:] else []
        handles += [ghost for curve in named[:1] for ghost in curve.ghost]
        if handles:  # one legend for all: a series looks the same in every panel
            figure.legend(
                handles=handles, loc="upper right", frameon=False, bbox_to_anchor=(0.99, 0.985),
                ncols=len(handles), fontsize=8, handlelength=2.6, columnspacing=1.2,
            )  # fmt: skip
        self.stages = (
            _StagePanel(figure.add_subplot(grid[0, -1]), settings, bool(stories[1:]), not live)
            if stages
            else None
        )

    def update(self, drawn: Sequence[Drawn]) -> None:
        """See `labkit.view.figure.Drawing`."""
        for panel in self.panels:
            panel.update(drawn)
        if self.stages is not None:
            self.stages.update(drawn)

    @property
    def moving(self) -> list[tuple[Axes, Artist]]:
        """See `labkit.view.figure.Drawing`."""
        found = [(panel.axes, artist) for panel in self.panels for artist in panel.moving]
        if self.stages is not None:
            found += [(self.stages.axes, bars) for bars in self.stages.bars]
        return found


class _StoryPanel:
    """Rates over the horizontal axis for one story, a curve for each of its series."""

    def __init__(
        self, axes: Axes, story: str, place: int, spec: Curves,
        settings: Sequence[Setting], environment: Environment, *, guessed: bool,
    ) -> None:  # fmt: skip
        self.axes, self.story, self._log = axes, story, spec.log
        xs = sorted({setting.x for setting in settings})
        dress(axes, story)
        label = spec.x_labels.get(story, spec.x_label)
        axes.set_xlabel(label, color=INK)
        if place == 0:
            axes.set_ylabel(spec.y_label, color=INK)
        if spec.log:
            _set_log(axes, xs)
        else:
            _set_linear(axes, xs)
            axes.set_ylim(0, 1)
        if label == "workers" and xs[0] <= environment.usable_cores <= xs[-1]:
            _mark_cores(axes, xs, environment.usable_cores)
        series = list(dict.fromkeys(setting.series for setting in settings))
        looks = _STYLES if series[1:] else _STYLES[place % len(_STYLES) :]
        self.curves = [
            _Curve(axes, name, looks[number % len(looks)], guessed=guessed)
            for number, name in enumerate(series)
        ]
        self.moving = [artist for curve in self.curves for artist in curve.moving]

    def update(self, drawn: Sequence[Drawn]) -> None:
        own = sorted(
            (item for item in drawn if item.setting.story == self.story),
            key=lambda item: item.setting.x,
        )
        for curve in self.curves:
            curve.show([item for item in own if item.setting.series == curve.series])
        rates = [rate for item in own for rate in item.rates]
        rates += [item.expected for item in own if item.expected is not None]
        # A band of few, noisy rounds may be very high: it is cut rather than hiding the points.
        if self._log:
            _fit_log(self.axes, rates)
            return
        top = max(rates, default=0.0)
        grow(top, self.axes.get_ylim()[1], lambda high: self.axes.set_ylim(0, high))


class _Curve:
    """Points, median line and band of one series, and what the learner had expected of it."""

    def __init__(
        self, axes: Axes, series: str, look: tuple[str, str, str], *, guessed: bool
    ) -> None:
        color, marker, style = look
        self.series = series
        self._shown: Sequence[tuple[object, ...]] = ()
        self.band = PolyCollection([], facecolor=color, alpha=0.2, linewidth=0)
        axes.add_collection(self.band, autolim=False)
        self.points: Line2D = axes.plot([], [], marker, color=color, alpha=0.45, markersize=4)[0]
        self.line: Line2D = axes.plot(
            [], [], marker=marker, linestyle=style, color=color, linewidth=2, markersize=6,
            label=series,
        )[0]  # fmt: skip
        self.ghost: list[Line2D] = axes.plot(
            [], [], marker=marker, linestyle=(0, (1, 1.5)), color=INK, linewidth=1.2, markersize=6,
            markerfacecolor=PAPER, label=YOURS,
        ) if guessed else []  # fmt: skip
        self.moving: tuple[Artist, ...] = (self.band, self.points, self.line, *self.ghost)

    def show(self, items: Sequence[Drawn]) -> None:
        shown = [(item.setting.x, item.rates, item.band, item.expected) for item in items]
        if shown == self._shown:
            return  # what is not set anew is not drawn anew
        self._shown = shown
        dots = [(item.setting.x, rate) for item in items for rate in item.rates]
        bands = [(item.setting.x, item.band) for item in items if item.band is not None]
        self.points.set_data([x for x, _ in dots], [y for _, y in dots])
        self.line.set_data([x for x, _ in bands], [band.median for _, band in bands])
        edge = [(x, band.low) for x, band in bands] + [(x, b.high) for x, b in reversed(bands)]
        self.band.set_verts([edge] if edge else [])
        guesses = [(i.setting.x, i.expected) for i in items if i.expected is not None]
        for ghost in self.ghost:
            ghost.set_data([x for x, _ in guesses], [rate for _, rate in guesses])


def _set_linear(axes: Axes, xs: Sequence[float]) -> None:
    span = (xs[-1] - xs[0]) or 1.0
    axes.set_xlim(xs[0] - 0.05 * span, xs[-1] + 0.05 * span)
    axes.set_xticks(_apart(xs, span), labels=[f"{x:g}" for x in _apart(xs, span)])


def _set_log(axes: Axes, xs: Sequence[float]) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(xs[0] / 1.5, xs[-1] * 1.5)
    span = math.log(xs[-1] / xs[0]) or 1.0
    shown = [math.exp(x) for x in _apart([math.log(x) for x in xs], 2 * span)]
    axes.set_xticks(shown, labels=[f"{x:.3g}" if x < 1000 else f"{x:,.0f}" for x in shown])
    axes.minorticks_off()


def _fit_log(axes: Axes, rates: Sequence[float]) -> None:
    """Widen a logarithmic axis to whole powers of ten around the rates."""
    if not rates:
        return
    low = 10.0 ** math.floor(math.log10(min(rates)))
    high = 10.0 ** math.ceil(math.log10(max(rates)))
    high = high if high > low else low * 10
    if axes.get_ylim() != (low, high):
        axes.set_ylim(low, high)


def _mark_cores(axes: Axes, xs: Sequence[float], cores: int) -> None:
    axes.axvline(cores, color=INK, linewidth=1, linestyle=(0, (1, 2)))
    right = cores > (xs[0] + xs[-1]) / 2  # written on the side that has room
    axes.text(
        cores, 0.02, f" usable cores: {cores} ", fontsize=8, color=INK,
        ha="right" if right else "left", transform=axes.get_xaxis_transform(),
    )  # fmt: skip


class _StagePanel:
    """Milliseconds per sample of each stage, a stacked bar per setting."""

    def __init__(
        self, axes: Axes, settings: Sequence[Setting], stories: bool, hatched: bool
    ) -> None:
        self.axes = axes
        self._keys = [setting.key for setting in settings]
        names = [f"{s.story} {s.x:g}" if stories else s.label for s in settings]
        dress(axes, "")
        axes.grid(axis="y", visible=False)
        axes.set_yticks(range(len(names)), labels=names, fontsize=8 if len(names) < 15 else 6)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.set_xlim(0, 1e-6)
        axes.set_xlabel("ms per sample", color=INK)
        # One collection, whose colours follow one another, or one for each hatching: a patch for
        # each bar took most of a live frame's time.
        self.bars = [
            PolyCollection([], facecolor=[color for _, color, _ in stages], edgecolor=PAPER,
                           hatch=stages[0][2] if hatched else None, linewidth=0.4)
            for stages in ([[stage] for stage in STAGES] if hatched else [STAGES])
        ]  # fmt: skip
        self._boxes: list[list[Box]] = []
        for bars in self.bars:
            axes.add_collection(bars, autolim=False)
        handles = [
            Patch(facecolor=color, hatch=hatch if hatched else None, edgecolor=PAPER,
                  linewidth=0.4, label=name)
            for name, color, hatch in STAGES
        ]  # fmt: skip
        axes.legend(
            handles=handles, loc="lower center",
            bbox_to_anchor=(0.45, 1.0), ncols=4, fontsize=7.5, frameon=False,
            handlelength=1.2, columnspacing=0.8, handletextpad=0.4,
        )  # fmt: skip

    def update(self, drawn: Sequence[Drawn]) -> None:
        found = {item.setting.key: item.stages for item in drawn}
        boxes: list[list[Box]] = [[] for _ in self.bars]
        longest = 0.0
        for row, key in enumerate(self._keys):
            stages, left = found.get(key), 0.0
            if stages is None:
                continue
            each = (stages.fetch, stages.transform, stages.collate, stages.handover)
            for place, seconds in enumerate(each):
                own = boxes[place % len(boxes)]
                right = left + seconds * 1e3
                own.append([(left, row - 0.38), (left, row + 0.38), (right, row + 0.38),
                            (right, row - 0.38)])  # fmt: skip
                left = right
            longest = max(longest, left)
        if boxes != self._boxes:
            self._boxes = boxes
            for bars, own in zip(self.bars, boxes, strict=True):
                set_boxes(bars, own)
        grow(longest, self.axes.get_xlim()[1], lambda high: self.axes.set_xlim(0, high))


def _apart(xs: Sequence[float], span: float) -> list[float]:
    """The values whose labels do not touch."""
    kept: list[float] = []
    for x in xs:
        if not kept or x - kept[-1] >= _LEAST_TICK_GAP * span:
            kept.append(x)
    return kept
