"""The warden's side of a launch of ranks: starts it, orders trials, and says which rank failed.

Used by the warden only; it must not decide when to end a launch.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from labkit.events import BatchBuilt
from labkit.measure import processes
from labkit.measure.rank_launcher import FAILURES
from labkit.measure.rank_progress import Phase, RankState, hindmost, name_rank, read_state
from labkit.measure.rank_trial import error_file
from labkit.measure.store import RunFolder, read_events, write_json

_JOIN_SECONDS = 180.0
"""Starting 8 ranks took 8 s on two cores; who is not there by now will not come."""
_KEPT_TEXT = 4000


class RankLaunch:
    """A number of ranks under torchrun, which take one trial after the other."""

    def __init__(
        self, run: RunFolder, ranks: int, number: int, prefix: tuple[str, ...] = ()
    ) -> None:
        """Start it; the ranks need seconds to join each other.

        Args:
            run: the run folder.
            ranks: how many.
            number: of the launch within the run.
            prefix: what the command begins with: it puts all ranks within one limit.
        """
        self.ranks = ranks
        self.run = run
        self.folder = run.path / "ranks" / f"launch{number}"
        self.folder.mkdir(parents=True)
        self.given_up_at = time.monotonic() + _JOIN_SECONDS
        environment = dict(os.environ)
        if processes.LINUX:  # all are on this host: gloo need not find out who it is in a network
            environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
        with open(self.folder / "launcher.err", "ab") as errors:
            self._process = subprocess.Popen(
                [*prefix, sys.executable, "-u", "-m", "labkit.measure.rank_launcher",
                 str(run.path), str(self.folder), str(ranks), str(os.getpid())],
                stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, env=environment,
            )  # fmt: skip
        self.pid = self._process.pid
        self._orders = 0

    def alive(self) -> bool:
        """Whether it can take another trial."""
        return self._process.poll() is None

    def order(self, trial_id: str) -> None:
        """Ask every rank for its part of a trial."""
        write_json(self.folder / f"order-{self._orders}.json", {"trial": trial_id})
        self._orders += 1

    def wait(self, seconds: float) -> int | None:
        """The launcher's exit code; None when it still runs after this time."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None

    def states(self) -> list[RankState | None]:
        """Where each rank stands."""
        return [read_state(self.folder, rank) for rank in range(self.ranks)]

    def main_pids(self) -> set[int]:
        """The launcher and the ranks that are ready, without their workers."""
        return {self.pid, *(state.pid for state in self.states() if state is not None)}

    def failures(self) -> dict[int, int]:
        """Rank to exit code (minus a signal's number), as torchrun tells; empty before that."""
        told = _left_in(self.folder / FAILURES)
        return {int(rank): int(code) for rank, code in told.items()}

    def error_of(self, trial_id: str, rank: int) -> dict[str, Any]:
        """What a rank wrote of its own failure; empty without a word."""
        return _left_in(error_file(self.run, trial_id, rank))

    def culprit(self, trial_id: str) -> int | None:
        """The rank that failed first: when one is gone, the others fail of a lost connection."""
        # Those that torchrun ended itself, once the first had failed, are none of it.
        failures = {r: code for r, code in self.failures().items() if code != -signal.SIGTERM}
        if killed := [rank for rank, code in failures.items() if code < 0]:
            return killed[0]
        errors = {rank: self.error_of(trial_id, rank) for rank in range(self.ranks)}
        told = {rank: error["t"] for rank, error in errors.items() if error}
        silent = [rank for rank in failures if rank not in told]
        return silent[0] if silent else min(told, key=told.__getitem__, default=None)

    def rank_of(self, pids: Collection[int]) -> int | None:
        """The rank that one of these processes is, or whose worker it was."""
        for rank, state in enumerate(self.states()):
            if state is not None and state.pid in pids:
                return rank
        for event in reversed(read_events(self.run)):
            if isinstance(event.body, BatchBuilt) and event.body.pid in pids:
                return event.rank
        return None

    def text_of(self, rank: int | None) -> str:
        """What a rank, or without one the launcher, printed as errors."""
        path = self.folder / ("launcher.err" if rank is None else f"{rank}.err")
        return path.read_text("utf-8", "replace")[-_KEPT_TEXT:] if path.exists() else ""

    def close(self) -> None:
        """End it with all its ranks and their workers."""
        tree = [self.pid, *processes.descendants(self.pid)]
        marks = {pid: processes.start_mark(pid) for pid in tree}
        processes.kill_all(tree, marks)
        self._process.wait()


def _left_in(path: Path) -> dict[str, Any]:
    """What a process wrote into this file before it ended; empty without a word."""
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found


class RankAttempt:
    """A trial on its way through the ranks of a launch; see `labkit.measure.attempts.Attempt`."""

    def __init__(self, launch: RankLaunch, trial_id: str) -> None:
        self._launch = launch
        self._trial = trial_id
        self._blamed: str | None = None
        self.pid: int | None = None
        self.exit_code: int | None = None
        self.problem = ""
        launch.order(trial_id)

    def poll(self, wait_seconds: float) -> None:
        """See `labkit.measure.attempts.Attempt.poll`."""
        launch = self._launch
        code = launch.wait(wait_seconds)
        if code is not None:
            self._failed(code)
        elif self.pid is None:
            if all(state is not None for state in launch.states()):
                self.pid = launch.pid  # until now they were joining, which is not the trial's time
            elif time.monotonic() > launch.given_up_at:
                self.exit_code = 1
                self.problem = f"the ranks have not joined each other after {_JOIN_SECONDS:g} s"
        elif all(self._done(rank) for rank in range(launch.ranks)):
            self.exit_code = 0

    def _done(self, rank: int) -> bool:
        state = read_state(self._launch.folder, rank)
        return state is not None and (state.trial, state.phase) == (self._trial, Phase.DONE)

    def stands(self) -> bool:
        """See `labkit.measure.attempts.Attempt.stands`: 64 workers take seconds to start."""
        states = self._launch.states()
        return all(state is not None and state.steps > 0 for state in states)

    def _failed(self, code: int) -> None:
        launch = self._launch
        rank = launch.culprit(self._trial)
        self.exit_code = code if rank is None else launch.failures().get(rank, code or 1)
        error = {} if rank is None else launch.error_of(self._trial, rank)
        if error:
            write_json(launch.run.trial_file(self._trial, "error"), error)
        elif self.exit_code >= 0:
            self.problem = launch.text_of(rank)

    def blame(self, killed: Collection[int] = ()) -> str:
        """See `labkit.measure.attempts.Attempt.blame`; ask before the rest is ended."""
        if self._blamed is None:
            states = self._launch.states()
            rank = self._launch.rank_of(killed) if killed else None
            rank = self._launch.culprit(self._trial) if rank is None else rank
            stands = rank is None
            rank = hindmost(states) if rank is None else rank
            if rank is not None:
                self._blamed = name_rank(rank, states, phase=stands)
            else:
                first = name_rank(0, states, phase=True).partition(", ")[2]
                self._blamed = f"every one of {len(states)} ranks, {first}"
        return self._blamed
