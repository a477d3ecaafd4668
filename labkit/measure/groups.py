"""Control groups of our own, one per bounded trial: made, read, and removed with what is in them.

A group's name tells its run and who made it, so that a later run can remove what a dead one left.
It must not touch a group whose maker lives, nor end a process that is not of the group's run.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

from labkit.machine.control_group import control_groups
from labkit.measure import processes

_LIMIT = {1: "memory.limit_in_bytes", 2: "memory.max"}
_PEAK = {1: "memory.max_usage_in_bytes", 2: "memory.peak"}
_EVENTS = {1: "memory.oom_control", 2: "memory.events"}
# Nothing may be swapped out: a trial that swaps is neither dead nor measured.
_NO_SWAP = {1: (("memory.swappiness", "0"),), 2: (("memory.swap.max", "0"),)}
_HELD = {1: ("total_rss", "total_shmem"), 2: ("anon", "shmem")}
_CACHE = {1: ("total_cache", "total_shmem"), 2: ("file", "shmem")}
_NAME = re.compile(r"labkit-(?P<run>.+)-(?P<trial>\d+-\d+)-(?P<pid>\d+)-(?P<mark>\d+)")
_SYSTEMD = Path("run/systemd/system")
_REMOVE_SECONDS = 5.0
_EMPTY_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialGroup:
    """A control group that holds one trial, or (with an unknown folder) will hold it."""

    version: int
    folder: Path

    @property
    def procs(self) -> Path:
        """The file through which a process joins: it writes ``0``, which means itself."""
        return self.folder / "cgroup.procs"

    def members(self) -> list[int]:
        """Processes in the group; none when it is gone."""
        return [int(word) for word in _read(self.procs).split()]

    def kills(self) -> int:
        """How many processes of the group the kernel has killed for memory."""
        return _value(_read(self.folder / _EVENTS[self.version]), "oom_kill")

    def peak_bytes(self) -> int | None:
        """The group's own highest count, page cache included; None where it keeps none."""
        text = _read(self.folder / _PEAK[self.version]).strip()
        return int(text) if text.isdecimal() else None

    def held_bytes(self) -> int | None:
        """Anonymous and shared memory now, as the kernel counts it; None when the group is gone."""
        text = _read(self.folder / "memory.stat")
        return sum(_value(text, name) for name in _HELD[self.version]) if text else None

    def cache_bytes(self) -> int:
        """Page cache charged to the group, less its shared memory; 0 when the group is gone."""
        text = _read(self.folder / "memory.stat")
        file, shared = _CACHE[self.version]
        return max(0, _value(text, file) - _value(text, shared))

    def remove(self) -> bool:
        """Remove the group once its (dead) processes have left it; returns whether it is gone."""
        deadline = time.monotonic() + _REMOVE_SECONDS
        while self.folder.exists():
            with contextlib.suppress(OSError):
                self.folder.rmdir()
                break
            if time.monotonic() > deadline:
                return False
            time.sleep(0.005)
        return True


def group_name(run: str, trial: str) -> str:
    """A name that tells the run, the trial, and this process with its start mark."""
    return f"labkit-{_safe(run)}-{trial}-{os.getpid()}-{processes.start_mark(os.getpid())}"


def maker_of(name: str) -> tuple[int, str] | None:
    """Pid and start mark of the process that made a group; None for names that are not ours."""
    made = _NAME.fullmatch(name)
    return None if made is None else (int(made["pid"]), made["mark"])


def _safe(run: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "_", run)


def make_group(
    version: int, limit_bytes: int, name: str, root: Path = Path("/")
) -> TrialGroup | None:
    """Make a group with this limit below the current one.

    Args:
        version: 1 or 2.
        limit_bytes: how much its processes may hold together, without swap.
        name: what `group_name` returned.
        root: where ``proc`` and ``sys`` are found; tests give a made-up tree.

    Returns:
        None where no such group can be made: no such version, or no right to.
    """
    for place in _places(version, root):
        folder = place / name
        try:
            folder.mkdir()
        except OSError:
            continue
        group = TrialGroup(version=version, folder=folder)
        if _set_limit(group, limit_bytes):
            return group
        with contextlib.suppress(OSError):
            folder.rmdir()
    return None


def _places(version: int, root: Path) -> list[Path]:
    """Folders that may hold a group of ours, the best first.

    In version 2 a group that has processes cannot have children with controllers, and ours has
    this process in it. So its parent is asked as well, and so on, as long as no limit is left by
    doing so: an outer limit must still hold. Where systemd keeps the tree only a group that was
    delegated to us is ours to use, and for the rest systemd itself is asked (`systemd_scope`).
    """
    groups = [group for group in control_groups("memory", root) if group.version == version]
    if version == 1:
        return [group.folder for group in groups[:1]]
    places: list[Path] = []
    for group in groups:
        if _lets_children_have_limits(group.folder):
            places.append(group.folder)
        bounded = _read(group.folder / _LIMIT[2]).strip() not in ("", "max")
        if bounded or (root / _SYSTEMD).exists():
            break
    return places


def _lets_children_have_limits(folder: Path) -> bool:
    control = folder / "cgroup.subtree_control"
    if "memory" in _read(control).split():
        return True
    if "memory" not in _read(folder / "cgroup.controllers").split():
        return False
    # Refused (EBUSY) while the group has processes of its own, unless it is the machine's root.
    return _write(control, "+memory") and "memory" in _read(control).split()


def _set_limit(group: TrialGroup, limit_bytes: int) -> bool:
    limit = str(limit_bytes)
    if not _write(group.folder / _LIMIT[group.version], limit):
        return False
    for name, value in _NO_SWAP[group.version]:
        if (group.folder / name).exists():
            _write(group.folder / name, value)
    both = group.folder / "memory.memsw.limit_in_bytes"  # memory and swap together (v1)
    return not both.exists() or _write(both, limit)


def remove_dead_groups(root: Path = Path("/")) -> list[str]:
    """Remove groups below the current one whose makers are dead; returns their names.

    Processes of the dead run that are still in one are ended first; with others in it, it stays.
    """
    return [
        path.name
        for group in control_groups("memory", root)
        for path in sorted(group.folder.glob("labkit-*"))
        if remove_dead_group(TrialGroup(version=group.version, folder=path))
    ]


def remove_dead_group(group: TrialGroup) -> bool:
    """Remove a group that its maker left behind; returns whether it did."""
    made = _NAME.fullmatch(group.folder.name)
    if made is None or not group.folder.exists():
        return False
    if processes.is_alive(int(made["pid"]), made["mark"]):
        return False
    deadline = time.monotonic() + _EMPTY_SECONDS
    # Again and again: one that is dying is still a member, and has no label to be read any more.
    while inside := [pid for pid in group.members() if processes.start_mark(pid) is not None]:
        labels = processes.labels()
        processes.kill_all(pid for pid in inside if _safe(labels.get(pid, "")) == made["run"])
        if time.monotonic() > deadline:
            return False  # somebody else is in it
        time.sleep(0.01)
    return group.remove()


def _read(path: Path) -> str:
    """The text of a small file; empty when it is gone."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return ""
    try:
        return os.read(descriptor, 1 << 16).decode("ascii", "replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def _write(path: Path, text: str) -> bool:
    try:
        path.write_text(text)
    except OSError:
        return False
    return True


def _value(text: str, name: str) -> int:
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return 0
