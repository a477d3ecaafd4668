"""How many cores this process may use; it must not import torch.

`os.cpu_count` tells what the machine has. A container's quota and a scheduler's affinity allow
less, and a worker too many is what several labs measure.
"""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

from labkit.machine.control_group import limits


def logical_cores() -> int:
    """What the operating system counts."""
    return os.cpu_count() or 1


def affinity_cores() -> int:
    """The cores that this process may be scheduled on."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return logical_cores()


def quota_cores(root: Path = Path("/")) -> float | None:
    """The lowest quota of the control groups around this process, in cores; None without one."""
    quotas = [
        quota
        for group, text in limits("cpu", {1: "cpu.cfs_quota_us", 2: "cpu.max"}, root)
        if (quota := _quota(group.version, group.folder, text)) is not None
    ]
    return min(quotas, default=None)


def usable_cores(*, affinity: int, quota: float | None, logical: int) -> int:
    """The lowest of the three; part of a core counts as one, since a process needs one to run."""
    return max(1, min(affinity, logical, logical if quota is None else math.ceil(quota)))


def _quota(version: int, folder: Path, text: str) -> float | None:
    """Version 2: ``150000 100000`` or ``max 100000``; version 1: two files, -1 for no quota."""
    try:
        if version == 2:
            allowed, period = text.split()
        else:
            allowed, period = text, (folder / "cpu.cfs_period_us").read_text()
        quota = int(allowed) / int(period) if allowed != "max" else 0.0
    except (OSError, ValueError, ZeroDivisionError):
        return None
    return quota if quota > 0 else None
