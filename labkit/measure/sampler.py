"""Watches a trial's process tree from outside, spending at most a stated share of one core.

It must not end anything: it tells the warden what it saw.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Collection
from dataclasses import replace

from labkit.events import CountersSampled, MemorySampled
from labkit.measure import memory, processes
from labkit.measure.groups import TrialGroup

SHARE = 0.01
"""Sampling may cost 1 % of one core: the pause after a sample is a hundred times its cost."""

MEMORY_SHARE = 0.05
"""With a budget memory is the subject, not time: 8 workers of 1 GiB are seen twice a second."""

_FIRST_SECONDS = 0.1
"""A trial is first looked at when its loader stands, not while its process is being born."""

_SHORTEST_SECONDS = 0.25
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class LoadMeter:
    """Cores that processes outside the run keep busy; one meter for a whole run."""

    def __init__(
        self, own: Collection[int], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Args: processes of ours beside those of the trial, and the clock."""
        self.own = set(own)
        """May grow: a host that is started later is ours as well."""
        self._clock = clock
        self._before: tuple[float, float, float] | None = None

    def read(self, pids: Collection[int]) -> float:
        """Cores kept busy by others since the last reading; -1 for the first, or if unknown.

        Args:
            pids: the trial's processes. What ended meanwhile is counted with its parent, which has
                waited for it, so that the meter goes on from trial to trial.
        """
        if sys.platform != "linux":
            return -1.0
        now, busy = self._clock(), _machine_busy_seconds()
        own = sum(map(processes.cpu_ticks, self.own.union(pids))) / _TICKS
        before, self._before = self._before, (now, busy, own)
        if before is None or now <= before[0]:
            return -1.0
        return max(0.0, (busy - before[1] - (own - before[2])) / (now - before[0]))


class Sampler:
    """Samples one trial: memory, counters, and the load that others put on the machine."""

    def __init__(
        self, main_pid: int, load: LoadMeter, *, not_before: float = 0.0,
        share: float = SHARE, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """Begin to watch a trial.

        Args:
            main_pid: the trial's process.
            load: the run's meter.
            not_before: moment of `clock` until which the pause of an earlier trial's sampler lasts:
                short trials share it, or each would pay for a first sample of its own.
            share: of one core, that sampling may take.
            clock: for tests.
        """
        self.group: TrialGroup | None = None
        """The trial's control group, once there is one."""
        self._share = share
        self.main_pid = main_pid
        self.seen: dict[int, str | None] = {main_pid: processes.start_mark(main_pid)}
        """Every process of the trial that was seen, with its start mark."""
        self.peak_bytes = 0
        self.spent_seconds = 0.0
        self.due_at = max(clock() + _FIRST_SECONDS, not_before)
        self._load = load
        self._clock = clock

    def due(self) -> bool:
        """Whether the next sample may be taken."""
        return self._clock() >= self.due_at

    def sample(self, *, held: bool = False) -> tuple[MemorySampled, CountersSampled]:
        """Look at the tree once; `held` marks a sample that the trial asked for."""
        start = time.process_time()
        pids = [self.main_pid, *processes.descendants(self.main_pid, quick=True)]
        for pid in pids:
            if pid not in self.seen:
                self.seen[pid] = processes.start_mark(pid)
        sampled = memory.sample_memory(pids, self.main_pid, self.group)
        if held:
            sampled = replace(sampled, held=True)
        voluntary, involuntary, read_bytes = processes.counters(pids)
        counted = CountersSampled(
            voluntary_switches=voluntary,
            involuntary_switches=involuntary,
            device_read_bytes=read_bytes,
            load=self._load.read(pids),
            held=held,
        )
        self.peak_bytes = max(self.peak_bytes, sampled.total)
        cost = time.process_time() - start
        self.spent_seconds += cost
        self.due_at = self._clock() + max(_SHORTEST_SECONDS, cost / self._share)
        return sampled, counted


def _machine_busy_seconds() -> float:
    with open("/proc/stat", encoding="ascii") as file:
        fields = [int(field) for field in file.readline().split()[1:]]
    user, nice, system, _idle, _iowait, irq, softirq, *_ = fields
    return (user + nice + system + irq + softirq) / _TICKS
