"""What the control groups leave of the memory; it must not set a limit."""

from __future__ import annotations

from pathlib import Path

from labkit.machine.control_group import limits

# Version 1 writes "no limit" as the largest number of whole pages that a signed 64-bit int holds.
_NO_LIMIT = 1 << 60
_LIMIT = {1: "memory.limit_in_bytes", 2: "memory.max"}
_USED = {1: "memory.usage_in_bytes", 2: "memory.current"}
# Page cache that the kernel gives back when asked counts as used in both versions.
_RECLAIMABLE = {1: "total_inactive_file", 2: "inactive_file"}


def memory_limit_bytes(root: Path = Path("/")) -> int | None:
    """The lowest limit of the control groups around this process; None without one."""
    return min(
        (
            limit
            for _, text in limits("memory", _LIMIT, root)
            if (limit := _number(text)) is not None
        ),
        default=None,
    )


def memory_left_bytes(root: Path = Path("/")) -> int | None:
    """What may still be used below the tightest of the limits; None without a limit."""
    used = {group.folder: text for group, text in limits("memory", _USED, root)}
    stats = dict(limits("memory", {1: "memory.stat", 2: "memory.stat"}, root))
    left: list[int] = []
    for group, text in limits("memory", _LIMIT, root):
        limit, now = _number(text), _number(used.get(group.folder, ""))
        if limit is None or now is None:
            continue
        reclaimable = _stat(stats.get(group, ""), _RECLAIMABLE[group.version])
        left.append(max(0, limit - max(0, now - reclaimable)))
    return min(left, default=None)


def _number(text: str) -> int | None:
    """Bytes, or None for ``max``, version 1's largest number and anything unreadable."""
    return int(text) if text.isdecimal() and int(text) < _NO_LIMIT else None


def _stat(text: str, name: str) -> int:
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return _number(value) or 0
    return 0
