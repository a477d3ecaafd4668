"""Watches a trial's process tree from outside, spending at most a stated share of one core.

It must not end anything: it tells the warden what it saw.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

from labkit.events import CountersSampled, MemorySampled
from labkit.measure import memory, processes

SHARE = 0.01
"""Sampling may cost 1 % of one core: the pause after a sample is a hundred times its cost."""

_FIRST_SECONDS = 0.1
"""A trial is first looked at when its loader stands, not while its process is being born."""

_SHORTEST_SECONDS = 0.25
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class Sampler:
    """Samples one trial: memory, counters, and the load that others put on the machine."""

    def __init__(self, main_pid: int, own: tuple[int, ...],
                 clock: Callable[[], float] = time.monotonic) -> None:  # fmt: skip
        """Args: the trial's process, and further processes of ours that are not load by others."""
        self.main_pid = main_pid
        self.seen: dict[int, str | None] = {main_pid: processes.start_mark(main_pid)}
        """Every process of the trial that was seen, with its start mark."""
        self.peak_bytes = 0
        self.spent_seconds = 0.0
        self._own = own
        self._clock = clock
        self._due = clock() + _FIRST_SECONDS
        self._busy: tuple[float, float, dict[int, float]] | None = None

    def due(self) -> bool:
        """Whether the next sample may be taken."""
        return self._clock() >= self._due

    def sample(self) -> tuple[MemorySampled, CountersSampled]:
        """Look at the tree once."""
        start = time.process_time()
        pids = [self.main_pid, *processes.descendants(self.main_pid)]
        for pid in pids:
            if pid not in self.seen:
                self.seen[pid] = processes.start_mark(pid)
        sampled = memory.sample_memory(pids, self.main_pid)
        voluntary, involuntary, read_bytes = processes.counters(pids)
        counted = CountersSampled(
            voluntary_switches=voluntary,
            involuntary_switches=involuntary,
            device_read_bytes=read_bytes,
            load=self._load_by_others(pids),
        )
        self.peak_bytes = max(self.peak_bytes, sampled.total)
        cost = time.process_time() - start
        self.spent_seconds += cost
        self._due = self._clock() + max(_SHORTEST_SECONDS, cost / SHARE)
        return sampled, counted

    def _load_by_others(self, pids: list[int]) -> float:
        """Cores that processes outside the run kept busy since the last sample; -1 if unknown."""
        if sys.platform != "linux":
            return -1.0
        now, busy = self._clock(), _machine_busy_seconds()
        own = {pid: processes.cpu_ticks(pid) / _TICKS for pid in (*pids, *self._own)}
        before, self._busy = self._busy, (now, busy, own)
        if before is None or now <= before[0]:
            return -1.0
        # A process that was not there at the last sample has spent all its time since then.
        spent = sum(max(0.0, value - before[2].get(pid, 0.0)) for pid, value in own.items())
        return max(0.0, (busy - before[1] - spent) / (now - before[0]))


def _machine_busy_seconds() -> float:
    with open("/proc/stat", encoding="ascii") as file:
        fields = [int(field) for field in file.readline().split()[1:]]
    user, nice, system, _idle, _iowait, irq, softirq, *_ = fields
    return (user + nice + system + irq + softirq) / _TICKS
