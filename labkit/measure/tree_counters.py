"""Counters of this process and its loader workers, read by itself at two moments of a trial.

Linux only; elsewhere nothing is told. It must not be called in every step: it reads a file per
thread (8 workers: some 2 ms).
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from labkit.machine.control_group import limits
from labkit.measure import processes

CPU = "tree_cpu_seconds"
VOLUNTARY, INVOLUNTARY, THROTTLED = "voluntary_switches", "involuntary_switches", "throttled"
"""Names of the facts that `tree_counters` returns; all only grow."""

_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def tree_counters(root: Path = Path("/")) -> dict[str, float]:
    """CPU seconds, context switches of all threads, and how often the quota stopped the group.

    Args:
        root: where ``proc`` and ``sys`` are found for the quota; tests give a made-up tree.

    Returns:
        Facts for a step; without ``throttled`` where there is no quota, empty off Linux.
    """
    if not processes.LINUX:
        return {}
    pids = [os.getpid(), *processes.descendants(os.getpid(), quick=True)]
    # Of each process alone: what its children of earlier trials used is among its own otherwise.
    ticks = sum(processes.cpu_ticks(pid, children=False) for pid in pids)
    found = {CPU: ticks / _TICKS, VOLUNTARY: 0.0, INVOLUNTARY: 0.0}
    for pid in pids:
        for status in Path(f"/proc/{pid}/task").glob("*/status"):
            with contextlib.suppress(OSError):
                voluntary, involuntary = processes.switches(status)
                found[VOLUNTARY] += voluntary
                found[INVOLUNTARY] += involuntary
    throttled = throttled_periods(root)
    return found if throttled is None else found | {THROTTLED: float(throttled)}


def throttled_periods(root: Path = Path("/")) -> int | None:
    """Periods in which a quota stopped a group around this process; None without a quota."""
    most = None
    for _, text in limits("cpu", {1: "cpu.stat", 2: "cpu.stat"}, root):
        values = dict(line.split(maxsplit=1) for line in text.splitlines() if " " in line)
        if int(values.get("nr_periods", 0)) > 0:
            most = max(most or 0, int(values.get("nr_throttled", 0)))
    return most
