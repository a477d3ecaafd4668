"""Draws one trial from within: its workers' timeline, the memory of each process, its stages.

It must not display or encode anything.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from labkit.records import Setting
from labkit.view.draw_lanes import Timeline, lane_count, legend
from labkit.view.style import AMBER, BLUE, GREY, INK, PAPER, PINK, STAGES, dress
from labkit.view.trace import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_LANES = 9
"""Processes of the memory panel that get a name of their own in its legend."""
_SHARED = "in flight (shared memory)"
_STYLES = ("-", "--", "-.", ":")


def draw_trace(
    figure: Figure, setting: Setting, repeat: int, trace: Trace | None, rank: int = 0
) -> None:
    """Draw a trial as far as it has come.

    Args:
        figure: is cleared first.
        setting: of the trial.
        repeat: its round, from 0.
        trace: of that rank; None when nothing has been heard of it.
        rank: is named where there are several.
    """
    figure.clear()
    figure.set_facecolor(PAPER)
    top = 1 - 0.286 / figure.get_figheight()
    title = trial_name(setting, repeat, rank)
    figure.text(0.065, top, title, fontsize=13, color=INK, weight="bold")
    grid = figure.add_gridspec(
        2, 2, height_ratios=(1.15, 1), width_ratios=(1.9, 1), left=0.105, right=0.985,
        bottom=0.11, top=0.83, hspace=0.5, wspace=0.3,
    )  # fmt: skip
    lanes = _lanes(setting, trace)
    timeline = Timeline(figure.add_subplot(grid[0, :]), lanes, "ms since the trial began",
                        numbered=True, hatched=True)  # fmt: skip
    timeline.show(trace if trace is not None and trace.loaded else None)
    timeline.axes.set_xlim(0, max(timeline.seconds * 1.02, 0.01) * 1e3)
    figure.legend(
        handles=legend(hatched=True), loc="upper right", bbox_to_anchor=(0.99, 0.94), ncols=7,
        fontsize=8, frameon=False, handlelength=1.4, columnspacing=1.0, handletextpad=0.4,
    )  # fmt: skip
    _draw_memory(figure.add_subplot(grid[1, 0]), trace)
    _draw_stages(figure.add_subplot(grid[1, 1]), trace)


def trial_name(setting: Setting, repeat: int, rank: int = 0) -> str:
    """Setting and round, and the rank where there are several."""
    whose = f", rank {rank}" if setting.ranks > 1 else ""
    return f"{setting.name}, round {repeat + 1}{whose}"


def _lanes(setting: Setting, trace: Trace | None) -> int:
    """The workers that were seen, also where the setting does not call them `workers`."""
    seen = max((stamp.worker + 2 for stamp in trace.built), default=1) if trace is not None else 1
    return max(seen, lane_count(setting))


def _draw_memory(axes: Axes, trace: Trace | None) -> None:
    """Anonymous memory of each process, and what is in flight, over time."""
    dress(axes, "")
    axes.set_xlabel("seconds since the trial began", color=INK, fontsize=9)
    exact = trace is None or all(sample.source != "psutil" for _, sample in trace.memory)
    what = "anonymous PSS" if exact else "private, by psutil: none in flight is seen"
    whose = "all ranks, " if trace is not None and len(trace.ranks) > 1 else ""
    axes.set_title(f"memory by process (MiB, {whose}{what})", loc="left", fontsize=9, color=INK)
    if trace is None or not trace.memory:
        _say(axes, "no sample of its memory: it was too short")
        return
    begin = trace.started.started if trace.started is not None else trace.memory[0][0]
    rows = memory_rows(trace)
    moments = [t - begin for t, _ in trace.memory]
    colors = (BLUE, AMBER, PINK, GREY)
    for place, (name, values) in enumerate(rows.items()):
        shared = name == _SHARED
        axes.plot(
            moments, [math.nan if v is None else v / 2**20 for v in values],
            color=INK if shared else colors[place % 4], linewidth=2.2 if shared else 1.4,
            linestyle=_STYLES[place // 4 % 4], marker="o", markersize=2.5,
            label=name if place < _MOST_LANES or shared else None,
        )  # fmt: skip
    axes.set_xlim(0, max(*moments, 0.1) * 1.03)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=7, frameon=False, ncols=2, loc="upper left", labelcolor=INK)
    top = axes.get_ylim()[1]
    axes.set_ylim(0, top * 1.45)  # room for the legend


def memory_rows(trace: Trace) -> dict[str, list[int | None]]:
    """Bytes at each sample by process, None while it is not there; shared memory comes last."""
    pids = list(dict.fromkeys(p.pid for _, sample in trace.memory for p in sample.processes))
    workers = {stamp.pid: stamp.worker for stamp in trace.built if stamp.worker >= 0}
    rows: dict[str, list[int | None]] = {}
    for pid in pids:
        found: list[int | None] = []
        role = "main"
        for _, sample in trace.memory:
            each = next((p for p in sample.processes if p.pid == pid), None)
            found.append(None if each is None else each.anonymous)
            role = role if each is None else each.role
        name = f"worker {workers[pid]}" if pid in workers else role
        rows[name if name not in rows else f"{name} (pid {pid})"] = found
    rows[_SHARED] = [sample.shared_memory for _, sample in trace.memory]
    return rows


def stage_milliseconds(trace: Trace) -> list[float]:
    """Mean of fetch, transform, collate and hand-over per batch in ms; empty when not stamped."""
    count = len(trace.built)
    if not count:
        return []
    sums = (
        sum(stamp.fetch_seconds for stamp in trace.built),
        sum(stamp.transform_seconds for stamp in trace.built),
        sum(stamp.collate_seconds for stamp in trace.built),
        sum(stamp.handover_seconds for stamp in trace.built),
    )
    return [each / count * 1e3 for each in sums]


def consumer_milliseconds(trace: Trace) -> list[float]:
    """Mean of wait and step per batch in ms; empty when no batch has come."""
    count = len(trace.loaded)
    if not count:
        return []
    wait = sum(batch.wait_seconds for _, batch in trace.loaded)
    step = sum(batch.step_seconds for _, batch in trace.loaded)
    return [wait / count * 1e3, step / count * 1e3]


def _draw_stages(axes: Axes, trace: Trace | None) -> None:
    """One bar for each stage of a batch, and for what the consumer did."""
    dress(axes, "")
    axes.grid(axis="y", visible=False)
    axes.set_title("mean ms of a batch", loc="left", fontsize=9, color=INK)
    stages = stage_milliseconds(trace) if trace is not None else []
    consumer = consumer_milliseconds(trace) if trace is not None else []
    looks: list[tuple[str, str, str]] = [*STAGES] if stages else []
    if consumer:
        looks += [("wait", PINK, "\\\\"), ("step", BLUE, "")]
    if not looks:
        _say(axes, "no batch has come")
        return
    values = [*stages, *consumer]
    bars = axes.barh(
        range(len(looks)), values, color=[color for _, color, _ in looks], edgecolor=INK,
        linewidth=0.3, hatch=[hatch for _, _, hatch in looks],
    )  # fmt: skip
    axes.bar_label(bars, labels=[_short(value) for value in values], padding=3, fontsize=8)
    axes.set_xlim(0, max(*values, 1e-9) * 1.25)
    axes.set_yticks(range(len(looks)), labels=[name for name, _, _ in looks], fontsize=8)
    axes.invert_yaxis()


def _short(value: float) -> str:
    return f"{value:.3g}"


def _say(axes: Axes, text: str) -> None:
    """What stands where there is nothing to draw."""
    axes.grid(visible=False)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.text(0.5, 0.5, text, ha="center", va="center", color=INK, transform=axes.transAxes,
              fontsize=9)  # fmt: skip


