"""Draws rates over workers, a panel per story, and the times of the stages beside them.

It must not display or encode anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.collections import PolyCollection
from matplotlib.patches import Rectangle

from labkit.figures import Curves
from labkit.records import Environment, Experiment, Setting
from labkit.view.drawn import Drawn
from labkit.view.style import BLUE, GREEN, INK, ORANGE, PAPER, PINK, STAGES, dress, grow

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_STORIES = ((BLUE, "o", "-"), (ORANGE, "s", "--"), (GREEN, "^", "-."), (PINK, "D", ":"))
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
        widths = [1.0] * len(stories) + ([0.9] if stages else [])
        grid = figure.add_gridspec(
            1, len(widths), width_ratios=widths,
            left=0.065, right=0.985, bottom=0.13, top=0.83, wspace=0.3,
        )  # fmt: skip
        self.panels = [
            _StoryPanel(
                figure.add_subplot(grid[0, place]), story, place, spec,
                [setting for setting in settings if setting.story == story], environment,
            )
            for place, story in enumerate(stories)
        ]  # fmt: skip
        self.stages = (
            _StagePanel(figure.add_subplot(grid[0, -1]), settings, bool(stories[1:]), not live)
            if stages
            else None
        )

    def update(self, drawn: Sequence[Drawn]) -> bool:
        """See `labkit.view.figure.Drawing`."""
        grown = [panel.update(drawn) for panel in self.panels]
        if self.stages is not None:
            grown.append(self.stages.update(drawn))
        return any(grown)

    @property
    def moving(self) -> list[tuple[Axes, Artist]]:
        """See `labkit.view.figure.Drawing`."""
        found = [(panel.axes, artist) for panel in self.panels for artist in panel.moving]
        if self.stages is not None:
            found += [(self.stages.axes, bar) for bars in self.stages.bars for bar in bars]
        return found


class _StoryPanel:
    """Rates over the horizontal axis for one story."""

    def __init__(
        self, axes: Axes, story: str, place: int, spec: Curves,
        settings: Sequence[Setting], environment: Environment,
    ) -> None:  # fmt: skip
        self.axes, self.story = axes, story
        color, marker, style = _STORIES[place % len(_STORIES)]
        xs = sorted({setting.x for setting in settings})
        span = (xs[-1] - xs[0]) or 1.0
        dress(axes, story)
        axes.set_xlim(xs[0] - 0.05 * span, xs[-1] + 0.05 * span)
        axes.set_xticks(_apart(xs, span), labels=[f"{x:g}" for x in _apart(xs, span)])
        axes.set_xlabel(spec.x_label, color=INK)
        if place == 0:
            axes.set_ylabel(spec.y_label, color=INK)
        axes.set_ylim(0, 1)
        cores = environment.usable_cores
        if spec.x_label == "workers" and xs[0] <= cores <= xs[-1]:
            axes.axvline(cores, color=INK, linewidth=1, linestyle=(0, (1, 2)))
            right = cores > (xs[0] + xs[-1]) / 2  # written on the side that has room
            axes.text(
                cores, 0.02, f" usable cores: {cores} ", fontsize=8, color=INK,
                ha="right" if right else "left", transform=axes.get_xaxis_transform(),
            )  # fmt: skip
        self.band = PolyCollection([], facecolor=color, alpha=0.2, linewidth=0)
        axes.add_collection(self.band, autolim=False)
        self.points: Line2D = axes.plot([], [], marker, color=color, alpha=0.45, markersize=4)[0]
        self.curve: Line2D = axes.plot(
            [], [], marker=marker, linestyle=style, color=color, linewidth=2, markersize=6
        )[0]
        self.moving: tuple[Artist, ...] = (self.band, self.points, self.curve)

    def update(self, drawn: Sequence[Drawn]) -> bool:
        own = sorted(
            (item for item in drawn if item.setting.story == self.story),
            key=lambda item: item.setting.x,
        )
        dots = [(item.setting.x, rate) for item in own for rate in item.rates]
        bands = [(item.setting.x, item.band) for item in own if item.band is not None]
        self.points.set_data([x for x, _ in dots], [y for _, y in dots])
        self.curve.set_data([x for x, _ in bands], [band.median for _, band in bands])
        edge = [(x, band.low) for x, band in bands] + [(x, b.high) for x, b in reversed(bands)]
        self.band.set_verts([edge] if edge else [])
        # A band of few, noisy rounds may be very high: it is cut rather than hiding the points.
        top = max([y for _, y in dots], default=0.0)
        return grow(top, self.axes.get_ylim()[1], lambda high: self.axes.set_ylim(0, high))


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
        self.bars = [
            [
                Rectangle((0, row - 0.38), 0, 0.76, facecolor=color,
                          hatch=hatch if hatched else None,
                          edgecolor=PAPER, linewidth=0.4, label=name)
                for row in range(len(names))
            ]
            for name, color, hatch in STAGES
        ]  # fmt: skip
        for bars in self.bars:
            for bar in bars:
                axes.add_patch(bar)
        axes.legend(
            handles=[bars[0] for bars in self.bars], loc="lower center",
            bbox_to_anchor=(0.45, 1.0), ncols=4, fontsize=7.5, frameon=False,
            handlelength=1.2, columnspacing=0.8, handletextpad=0.4,
        )  # fmt: skip

    def update(self, drawn: Sequence[Drawn]) -> bool:
        found = {item.setting.key: item.stages for item in drawn}
        longest = 0.0
        for row, key in enumerate(self._keys):
            stages, left = found.get(key), 0.0
            if stages is None:
                continue
            each = (stages.fetch, stages.transform, stages.collate, stages.handover)
            for bars, seconds in zip(self.bars, each, strict=True):
                bars[row].set_x(left)
                bars[row].set_width(seconds * 1e3)
                left += seconds * 1e3
            longest = max(longest, left)
        return grow(longest, self.axes.get_xlim()[1], lambda high: self.axes.set_xlim(0, high))


def _apart(xs: Sequence[float], span: float) -> list[float]:
    """The values whose labels do not touch."""
    kept: list[float] = []
    for x in xs:
        if not kept or x - kept[-1] >= _LEAST_TICK_GAP * span:
            kept.append(x)
    return kept
