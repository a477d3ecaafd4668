"""How a trial's process is started, polled and ended: cold, or through the host.

Used by the warden only; it must not decide when to end an attempt.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Collection
from pathlib import Path
from typing import Any, Protocol

from labkit.events import TrialEnded
from labkit.measure import processes
from labkit.measure.guard import Guard
from labkit.measure.sampler import Sampler
from labkit.measure.store import RunFolder
from labkit.measure.trial import EXIT_OUT_OF_MEMORY
from labkit.records import Status, Trial

_KEPT_TEXT = 4000


class Attempt(Protocol):
    """A trial's process on its way."""

    pid: int | None
    """None while the host is still importing."""
    exit_code: int | None
    """None while it runs; minus the signal's number when a signal ended it."""
    problem: str
    """What the host said of its own end; empty when the trial's own words count."""

    def poll(self, wait_seconds: float) -> None:
        """Look for news, at most this long."""

    def stands(self) -> bool:
        """Whether its loaders have started, so that a look at its memory does not slow that."""

    def blame(self, killed: Collection[int] = ()) -> str:
        """Which of several processes failed or kept the others waiting; empty where there is one.

        Args:
            killed: pids that died of the memory limit, where that is known.
        """


class _OneProcess:
    """What every attempt in a single process says of itself."""

    def stands(self) -> bool:
        """See `Attempt.stands`; the sampler's first pause is enough for a few workers."""
        return True

    def blame(self, killed: Collection[int] = ()) -> str:
        """See `Attempt.blame`."""
        return ""


class ColdAttempt(_OneProcess):
    """A fresh interpreter for one trial."""

    def __init__(self, run: RunFolder, trial_id: str, prefix: tuple[str, ...] = ()) -> None:
        """Args: where, which, and what the command begins with: it puts itself within a limit."""
        with open(run.trial_file(trial_id, "err"), "ab") as errors:
            self._process = subprocess.Popen(
                [*prefix, sys.executable, "-u", "-m", "labkit.measure.trial", str(run.path),
                 trial_id, str(os.getpid())],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
            )  # fmt: skip
        self.pid: int | None = self._process.pid
        self.exit_code: int | None = None
        self.problem = ""

    def poll(self, wait_seconds: float) -> None:
        """See `Attempt.poll`."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.exit_code = self._process.wait(wait_seconds)


class TrialHost:
    """The warm process that forks trials; see `labkit.measure.host`."""

    def __init__(self, run: RunFolder) -> None:
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        with open(run.path / "host.err", "ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-u", "-m", "labkit.measure.host", str(run.path),
                 str(os.getpid())],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environment,
            )  # fmt: skip
        self._replies: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.pid = self._process.pid
        self._errors = run.path / "host.err"
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with contextlib.suppress(ValueError):
                self._replies.put(json.loads(line))
        code = self._process.wait()
        text = self._errors.read_text("utf-8", "replace")[-_KEPT_TEXT:]
        self._replies.put({"exit": code or 1, "host_ended": text})

    def alive(self) -> bool:
        """Whether it can take another trial."""
        return self._process.poll() is None

    def send(self, trial_id: str, join: Path | None) -> None:
        """Ask for a trial, in a control group; a host that died says so through its replies."""
        assert self._process.stdin is not None
        order = {"trial": trial_id, "join": None if join is None else str(join)}
        with contextlib.suppress(OSError):
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()

    def reply(self, wait_seconds: float) -> dict[str, Any] | None:
        """The next reply, or None when none came in time."""
        try:
            return self._replies.get(timeout=wait_seconds)
        except queue.Empty:
            return None


class HostedAttempt(_OneProcess):
    """A trial that the host forked, or runs itself."""

    def __init__(self, host: TrialHost, trial_id: str, join: Path | None = None) -> None:
        self._host = host
        self.pid: int | None = None
        self.exit_code: int | None = None
        self.problem = ""
        host.send(trial_id, join)

    def poll(self, wait_seconds: float) -> None:
        """See `Attempt.poll`."""
        reply = self._host.reply(wait_seconds)
        if reply is None:
            return
        if "pid" in reply:
            self.pid = reply["pid"]
        if "exit" in reply:
            self.exit_code = reply["exit"]
            self.problem = reply.get("host_ended", "")
        if "failed" in reply:
            self.exit_code, self.problem = 1, reply["failed"]


def end_attempt(run: RunFolder, trial: Trial, attempt: Attempt, sampler: Sampler | None,
                forced: Status | None, keep: Collection[int], waited: Collection[int],
                guard: Guard | None) -> TrialEnded:  # fmt: skip
    """End whatever is left of an attempt, remove what it left, and say how it went.

    Args:
        run: the run folder.
        trial: which trial.
        attempt: at it.
        sampler: that watched it; None if it never came to life.
        forced: why it must end; None when it ended by itself.
        keep: processes that live on for the next trial; their other children do end.
        waited: processes whose exit codes somebody waits for.
        guard: over its budget, if it has one.
    """
    seen = dict(sampler.seen) if sampler is not None else {}
    if guard is not None:
        guard.before_end()
    blame = ""
    if forced is not None or attempt.exit_code != 0:
        blame = attempt.blame(guard.death.killed if guard is not None and guard.death else ())
    # Nothing else runs beside a trial: all that is below the warden, orphans included, is its own.
    ended = processes.end_tree(os.getpid(), keep=keep, waited={attempt.pid or 0, *waited})
    while attempt.exit_code is None and attempt.pid is not None:
        attempt.poll(0.05)
    if guard is not None:
        guard.settle(attempt.exit_code)
    removed = processes.remove_shared_memory([*seen, *ended])
    status, detail, evidence = _judge_end(run, trial, attempt, guard, forced)
    if blame and status not in (Status.COMPLETED, Status.CANCELLED):
        detail = f"{blame}: {detail}"
    if removed:
        evidence["removed_shared_memory"] = removed
    peaks = [watch.peak_bytes for watch in (sampler, guard) if watch is not None]
    if peaks:
        evidence["peak_bytes"] = max(peaks)
    if guard is not None:
        evidence |= guard.evidence()
    return TrialEnded(
        status=status, detail=detail, evidence=evidence,
        sampling_seconds=sum(w.spent_seconds for w in (sampler, guard) if w is not None),
    )  # fmt: skip


def _judge_end(run: RunFolder, trial: Trial, attempt: Attempt, guard: Guard | None,
               forced: Status | None) -> tuple[Status, str, dict[str, Any]]:  # fmt: skip
    code = attempt.exit_code
    evidence: dict[str, Any] = {"exit_code": code}
    if forced is Status.CANCELLED:
        return forced, "stopped by the reader", evidence
    if forced is Status.TIMED_OUT:
        return forced, f"not done after {trial.timeout_seconds:g} s", evidence
    if code == 0 and (guard is None or guard.death is None):
        return Status.COMPLETED, "", {}
    error = _read_error(run, trial.id)
    evidence["traceback"] = error.get("traceback", "")
    for ending, name in (("out", "stdout"), ("err", "stderr")):
        path = run.trial_file(trial.id, ending)
        evidence[name] = path.read_text("utf-8", "replace")[-_KEPT_TEXT:] if path.exists() else ""
    if guard is not None and guard.death is not None:
        # Also when the main process had words of its own: it saw a worker vanish.
        return Status.OUT_OF_MEMORY, guard.death.detail, evidence
    if code == EXIT_OUT_OF_MEMORY:
        return Status.OUT_OF_MEMORY, f"MemoryError: {error.get('message', '')}", evidence
    if error:
        return Status.FAILED, f"{error['type']}: {error['message']}", evidence
    problem = attempt.problem
    if problem:
        return Status.FAILED, problem.strip().splitlines()[-1], evidence | {"stderr": problem}
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        return Status.FAILED, f"ended by signal {-code} ({name})", evidence
    return Status.FAILED, f"ended with exit code {code} and without a word", evidence


def _read_error(run: RunFolder, trial_id: str) -> dict[str, Any]:
    path = run.trial_file(trial_id, "error")
    error: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return error
