"""Sees when a trial's tree outgrows its budget, where the kernel does not, and guards the machine.

Two hundred cheap looks a second estimate what the tree holds. When the estimate is about to cross
the limit the tree is stopped and measured in full, and is over or goes on. A process that the
kernel fills with memory does not stop before that is done (8 workers in `posix_fallocate`: 0.9 s,
measured), so a tree that grows on while it should stop is judged by the estimate. It must not
end anything: who asks, does.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from labkit.events import MemorySampled
from labkit.machine.control_group import ControlGroup, limits
from labkit.machine.memory_limit import memory_left_bytes
from labkit.measure import memory, processes

LOOK_SECONDS = 0.005

_AHEAD_SECONDS = 0.03
"""From a look to a stopped tree on two busy cores, at worst: growth goes on for so long."""

_TREE_LOOKS = 4
"""The tree is listed in every fourth look: a process of 20 ms has not filled much memory yet."""

_LEAST_GAP_BYTES = 16 << 20
"""After a full measurement the tree must have grown by so much for the next one."""

_STOP_SECONDS = 3.0
"""A process that has not stopped after this long, and does not grow, waits for something else."""

_STOP_LOOK_SECONDS = 0.002
_MEMINFO = re.compile(rb"^(MemTotal|MemAvailable|Shmem): +(\d+) kB$", re.M)
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def tree_of(main_pid: int, others: Collection[int]) -> list[int]:
    """The trial's processes: the main one's descendants, and orphans that this process adopted.

    Args:
        main_pid: the trial's main process, itself included in what is returned.
        others: children of this process that are not of the trial.
    """
    found: dict[int, None] = {}
    waiting = [main_pid, *(set(processes.children(os.getpid())) - set(others))]
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found[pid] = None
            waiting += processes.children(pid)
    return list(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Over:
    """A tree is over its limit."""

    held_bytes: int
    sampled: MemorySampled | None
    """The full measurement of the stopped tree; None when it grew too fast for one."""


class Watchdog:
    """Watches one tree on Linux."""

    def __init__(
        self, main_pid: int, limit_bytes: int, tree: Callable[[], list[int]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self.main_pid = main_pid
        self.limit_bytes = limit_bytes
        self.stops = 0
        """How often the tree was stopped to be measured."""
        self.pids = [main_pid]
        # Between this and the limit only a full measurement decides.
        self._hard_bytes = limit_bytes + max(limit_bytes // 40, 64 << 20)
        self._tree = tree
        self._clock = clock
        self._looks = 0
        self._shared_before = _shared()
        # What a process has at first sight it shares with the one that forked it.
        self._discount: dict[int, int] = {main_pid: 0}
        self._last: tuple[float, int] | None = None
        self._next_check = 0

    def look(self) -> Over | None:
        """Look once; a tree that is over its limit has been told to stop."""
        if self._looks % _TREE_LOOKS == 0:
            self.pids = self._tree()
        self._looks += 1
        now, held = self._clock(), self._estimate()
        before, self._last = self._last, (now, held)
        slope = 0.0
        if before is not None and now > before[0]:
            slope = max(0.0, (held - before[1]) / (now - before[0]))
        if held < 0.9 * self._next_check:
            self._next_check = 0  # it has shrunk: looking ahead is worth its stop again
        if held + slope * _AHEAD_SECONDS <= self.limit_bytes or held < self._next_check:
            return None
        return self._measure_stopped()

    def learn(self, sampled: MemorySampled) -> None:
        """Correct the estimate by a full sample that was taken just now."""
        for process in sampled.processes:
            self._discount[process.pid] = _anonymous(process.pid) - process.anonymous
        self._shared_before = _shared() - sampled.shared_memory
        self._last = None  # the correction is not growth

    def _estimate(self) -> int:
        """Anonymous pages of the tree and what shared memory has grown by, in bytes."""
        held = max(0, _shared() - self._shared_before)
        for pid in self.pids:
            anonymous = _anonymous(pid)
            held += max(0, anonymous - self._discount.setdefault(pid, anonymous))
        return held

    def _measure_stopped(self) -> Over | None:
        self.stops += 1
        stopped: set[int] = set()
        deadline = self._clock() + _STOP_SECONDS
        while self._clock() < deadline:
            new = set(self.pids) - stopped
            _signal(new, signal.SIGSTOP)
            stopped |= new
            if all(processes.is_stopped(pid) for pid in stopped):
                self.pids = self._tree()
                if stopped.issuperset(self.pids):  # none was forked in between
                    break
            held = self._estimate()
            if held > self._hard_bytes:
                return Over(held_bytes=held, sampled=None)
            time.sleep(_STOP_LOOK_SECONDS)
        sampled = memory.sample_memory(self.pids, self.main_pid)
        if sampled.total > self.limit_bytes:
            return Over(held_bytes=sampled.total, sampled=sampled)
        self.learn(sampled)
        gap = max((self.limit_bytes - sampled.total) // 2, _LEAST_GAP_BYTES)
        self._next_check = sampled.total + gap
        _signal(stopped, signal.SIGCONT)
        return None


class SystemWatchdog:
    """Where batches in flight belong to no process: what the whole system has lost since the start.

    Memory that other programs take meanwhile counts as well. Written for macOS and never run there.
    """

    def __init__(self, limit_bytes: int, available: Callable[[], int] | None = None) -> None:
        self.limit_bytes = limit_bytes
        self._available = available or _available_by_psutil
        self._start = self._available()

    def look(self) -> int | None:
        """The bytes that are gone when they are more than the limit."""
        gone = self._start - self._available()
        return gone if gone > self.limit_bytes else None


class Floor:
    """A reserve of free memory that trials may not touch, of the machine and of outer groups."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._outer = _limited_groups(root)
        total = _meminfo(root).get("MemTotal", 0)
        self.floor_bytes = reserve_bytes(total)

    def breach(self) -> tuple[int, int] | None:
        """What is left, and the floor that it is under; None as long as there is enough."""
        left = _meminfo(self._root).get("MemAvailable")
        if left is not None and left < self.floor_bytes:
            return left, self.floor_bytes
        for group, limit in self._outer:
            floor = reserve_bytes(limit)
            used = _number(group.folder / _USED[group.version])
            # Cheap first: page cache counts as used, and what it leaves out takes 2 ms to read.
            if used is not None and limit - used < floor:
                left = memory_left_bytes(self._root)
                if left is not None and left < floor:
                    return left, floor
        return None


_USED = {1: "memory.usage_in_bytes", 2: "memory.current"}
_LIMIT = {1: "memory.limit_in_bytes", 2: "memory.max"}


def reserve_bytes(total: int) -> int:
    """A twentieth, but at least 128 MiB and at most 1 GiB; a quarter of a very small whole."""
    return min(max(total // 20, 128 << 20), 1 << 30, total // 4)


def _limited_groups(root: Path) -> list[tuple[ControlGroup, int]]:
    found = [
        (group, int(text)) for group, text in limits("memory", _LIMIT, root) if text.isdecimal()
    ]
    return [(group, limit) for group, limit in found if limit < 1 << 60]


def _number(path: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        return int(path.read_bytes())
    return None


def _meminfo(root: Path = Path("/")) -> dict[str, int]:
    """Three lines of /proc/meminfo, in bytes, in 20 us; empty elsewhere."""
    try:
        descriptor = os.open(root / "proc/meminfo", os.O_RDONLY)
    except OSError:
        return {}
    try:
        text = os.read(descriptor, 4096)
    finally:
        os.close(descriptor)
    found = _MEMINFO.findall(text)
    return {name.decode(): int(kibibytes) * 1024 for name, kibibytes in found}


def _anonymous(pid: int) -> int:
    """Resident anonymous bytes, those that a fork shares in full; 0 when it is gone."""
    try:
        descriptor = os.open(f"/proc/{pid}/statm", os.O_RDONLY)
    except OSError:
        return 0
    try:
        fields = os.read(descriptor, 128).split()
        return (int(fields[1]) - int(fields[2])) * _PAGE
    except (OSError, IndexError):
        return 0
    finally:
        os.close(descriptor)


def _shared() -> int:
    """Shared memory of the whole machine, in bytes: whoever's, named, unlinked or anonymous."""
    return _meminfo().get("Shmem", 0)


def _signal(pids: Collection[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def _available_by_psutil() -> int:
    import psutil

    return int(psutil.virtual_memory().available)
