"""The memory figure's legend, which also says what holds the limit and what was not seen.

It must not display or encode anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from labkit.view.drawn import Drawn
from labkit.view.style import AMBER, BLUE, GREY, GRID, INK, ORANGE, PAPER

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

LAYERS = (
    ("anonymous: allocated by processes", BLUE, ""),
    ("in flight: shared memory", AMBER, "//"),
    ("page cache", GREY, ".."),
)
"""Name, colour and hatching of each layer, from below."""


class StackLegend:
    """Names what is drawn; the last two facts are known once a trial has been heard."""

    def __init__(self, figure: Figure, *, hatched: bool) -> None:
        handles: list[Artist] = [
            Patch(facecolor=color, hatch=hatch if hatched else None, edgecolor=PAPER, label=name)
            for name, color, hatch in LAYERS
        ]
        handles.append(Patch(facecolor=GRID, edgecolor=GREY, linestyle=":", label="predicted peak"))
        cross = Line2D([], [], color=ORANGE, marker="X", linestyle="", label="out of memory")
        handles.append(cross)
        handles.append(Line2D([], [], color=ORANGE, linestyle="--", label="limit"))
        self._legend = figure.legend(
            handles=handles, loc="upper left", ncols=6, fontsize=8, frameon=False, labelcolor=INK,
            bbox_to_anchor=(0.055, 1 - 0.38 / figure.get_figheight()), handlelength=1.6,
            columnspacing=1.4, handletextpad=0.5, borderpad=0, borderaxespad=0,
        )  # fmt: skip
        words = self._legend.get_texts()
        self._in_flight, self._limit = words[1], words[-1]

    def update(self, drawn: Sequence[Drawn]) -> None:
        """Say what the trials say."""
        before = self._in_flight.get_text(), self._limit.get_text()
        traces = [trace for item in drawn for trace in item.traces]
        if any(sample.source == "psutil" for trace in traces for _, sample in trace.memory[:1]):
            self._in_flight.set_text("in flight: not seen by psutil")
        ends = (trace.ended[1].evidence for trace in traces if trace.ended is not None)
        if mechanism := next((told["mechanism"] for told in ends if "mechanism" in told), ""):
            self._limit.set_text(f"limit, held by {mechanism}")
        if before != (self._in_flight.get_text(), self._limit.get_text()):
            self._legend.stale = True  # its texts do not say so
