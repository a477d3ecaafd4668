"""Watches one bounded trial: did the kernel end part of it, must the watchdog end it, and who died.

The warden asks it often; it must not take full samples beside those that the watchdog needs.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from labkit.events import MemorySampled
from labkit.measure import processes
from labkit.measure.limits import Bound
from labkit.measure.watchdog import LOOK_SECONDS, Floor, SystemWatchdog, Watchdog, tree_of
from labkit.units import format_bytes

_CALM_LOOK_SECONDS = 0.01
"""Where the kernel holds the limit only its counter, and the machine's memory, must be seen."""

_SIGKILL = 9
_VICTIM_SECONDS = 0.5
"""A killed process of some GiB takes so long to be gone, and to be known as the victim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """Why a trial is out of memory, and the evidence for it."""

    detail: str
    by: str
    """``kernel`` or ``watchdog``."""
    killed: tuple[int, ...]
    """Pids that died of it; those of the tree when the watchdog ended it whole."""
    sampled: MemorySampled | None = None
    """What the watchdog measured of the stopped tree; None where it could not wait for that."""


class Guard:
    """The watch over one trial with a budget."""

    def __init__(self, bound: Bound, main_pid: int, others: Collection[int]) -> None:
        """Args: what holds it, its main process, and our children that are not of the trial."""
        self.bound = bound
        self.main_pid = main_pid
        self.death: Death | None = None
        self.peak_bytes = 0
        self.spent_seconds = 0.0
        self.new: dict[int, str | None] = {}
        """Processes that were not seen before the last look, for the journal."""
        self._known: set[int] = set()
        self._members: list[int] = [main_pid]
        self._others = others
        self._floor = Floor()
        self.look_seconds = LOOK_SECONDS if bound.mechanism == "watchdog" else _CALM_LOOK_SECONDS
        """How long to wait between looks."""
        self._watchdog: Watchdog | SystemWatchdog | None = None
        if bound.mechanism == "watchdog":
            self._watchdog = Watchdog(main_pid, bound.limit_bytes, self._tree)
        elif bound.mechanism == "system watchdog":
            self._watchdog = SystemWatchdog(bound.limit_bytes)

    def _tree(self) -> list[int]:
        return tree_of(self.main_pid, self._others)

    def look(self) -> Death | None:
        """Look once, in well under a millisecond unless the end is near."""
        start = time.process_time()
        if self.bound.kills() > 0:  # asked before the members, which then still hold the victim
            self.death = self._killed_by_kernel()
        elif isinstance(self._watchdog, Watchdog):
            over = self._watchdog.look()
            if over is not None:
                self.death = self._ended_by_watchdog(over.held_bytes, over.sampled)
        elif self._watchdog is not None and (gone := self._watchdog.look()) is not None:
            self.death = self._ended_by_watchdog(gone, None)
        if self.death is None and (breach := self._floor.breach()) is not None:
            self.death = self._ended_for_the_machine(*breach)
        self._note_members()
        self.spent_seconds += time.process_time() - start
        return self.death

    def learn(self, sampled: MemorySampled) -> Death | None:
        """Take a full sample of the running tree into account."""
        self.peak_bytes = max(self.peak_bytes, sampled.total)
        if isinstance(self._watchdog, Watchdog):
            self._watchdog.learn(sampled)
            if sampled.total > self.bound.limit_bytes:
                self.death = self._ended_by_watchdog(sampled.total, None)
        return self.death

    def before_end(self) -> None:
        """The rest of the tree is about to be ended: who is gone by now was not ended by us."""
        if self.death is None and self.bound.kills() > 0:
            self.death = self._killed_by_kernel()

    def settle(self, exit_code: int | None) -> None:
        """The main process's exit code is known: tell its own end from the kernel's deed."""
        if self.death is None or self.death.by != "kernel":
            return
        ended_by_itself = exit_code != -_SIGKILL  # of what it saw: a worker that vanished
        killed = [
            pid for pid in self.death.killed if not (pid == self.main_pid and ended_by_itself)
        ]
        if len(killed) > self.bound.kills():
            killed = []  # it was noticed late: it cannot be told who went first
        who = " and ".join(map(self._name, killed)) or "a process of it"
        self.death = Death(
            detail=f"the kernel killed {who} at the limit of "
            f"{format_bytes(self.bound.limit_bytes)} ({self.bound.mechanism})",
            by="kernel", killed=tuple(killed),
        )  # fmt: skip

    def evidence(self) -> dict[str, Any]:
        """What the result must tell of the budget, and of a death."""
        told: dict[str, Any] = {
            "mechanism": self.bound.mechanism,
            "limit_bytes": self.bound.limit_bytes,
        }
        group = self.bound.group
        if group is not None and (peak := group.peak_bytes()) is not None:
            told["group_peak_bytes"] = peak
        if self.death is not None:
            told["by"] = self.death.by
            told["killed"] = [
                {"pid": pid, "role": "main" if pid == self.main_pid else "worker"}
                for pid in self.death.killed
            ]
            if self.death.by == "kernel":
                told["oom_kills"] = self.bound.kills()
        return told

    def _note_members(self) -> None:
        group = self.bound.group
        if group is not None:
            members = group.members()
            self.peak_bytes = max(self.peak_bytes, group.held_bytes() or 0)
        elif isinstance(self._watchdog, Watchdog):
            members = self._watchdog.pids
        else:
            members = []
        self._members = members or self._members
        self.new = {pid: processes.start_mark(pid) for pid in members if pid not in self._known}
        self._known |= self.new.keys()

    def _killed_by_kernel(self) -> Death:
        """Those that vanish first after the counter rose; workers outlive even a main process."""
        deadline = time.monotonic() + _VICTIM_SECONDS
        while True:
            gone = sorted(pid for pid in self._members if processes.start_mark(pid) is None)
            if len(gone) >= self.bound.kills() or time.monotonic() > deadline:
                return Death(detail="", by="kernel", killed=tuple(gone))
            time.sleep(0.001)

    def _name(self, pid: int) -> str:
        return f"the main process ({pid})" if pid == self.main_pid else f"worker {pid}"

    def _ended_by_watchdog(self, held: int, sampled: MemorySampled | None) -> Death:
        killed = self._end()
        self.peak_bytes = max(self.peak_bytes, held)
        return Death(
            detail=f"the {self.bound.mechanism} ended it at {format_bytes(held)}, over the limit "
            f"of {format_bytes(self.bound.limit_bytes)}",
            by="watchdog", killed=tuple(killed), sampled=sampled,
        )  # fmt: skip

    def _ended_for_the_machine(self, left: int, floor: int) -> Death:
        killed = self._end()
        return Death(
            detail=f"the watchdog ended it since {format_bytes(left)} of memory were left, under "
            f"the {format_bytes(floor)} that labkit keeps free",
            by="watchdog", killed=tuple(killed),
        )  # fmt: skip

    def _end(self) -> list[int]:
        """End what there is of the tree right now; the warden makes sure of the rest."""
        fast = sys.platform == "linux"
        tree = self._tree() if fast else [self.main_pid, *processes.descendants(self.main_pid)]
        tree = [pid for pid in tree if pid != os.getpid()]
        processes.kill_all(tree)
        return sorted(tree)
