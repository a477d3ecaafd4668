"""Starts a run through its warden and follows it; the kernel's side of measuring.

It must not import torch, must not build a loader, and must not draw. It has no threads: whoever
watches a run calls `Run.poll`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from labkit.errors import MeasureError
from labkit.events import Event, ExperimentEnded, Prepared, TrialEnded
from labkit.measure import plan as plans
from labkit.measure import processes
from labkit.measure.groups import remove_dead_groups
from labkit.measure.leftovers import clean_up
from labkit.measure.plan import Asked
from labkit.measure.store import EventTail, EventWriter, RunFolder, create_run, write_json
from labkit.measure.summary import summarise
from labkit.records import Environment, Experiment, Setting, Status, Trial

_KILL_AFTER_SECONDS = 8.0
"""A warden that was told to stop and is still there after this long is ended by force."""


class Run:
    """A measurement on its way: poll it until it is done."""

    environment: Environment
    settings: tuple[Setting, ...]

    def __init__(
        self, ref: str, experiment: Experiment, asked: Asked, *, runs_root: Path
    ) -> None:
        """Make the run folder and start the warden, whose host imports torch while we plan.

        `begin` hands it the plan, `discard` takes all back.

        Args:
            ref: what `labkit.measure.reference.reference` returned.
            experiment: the experiment of that reference.
            asked: checked parameters.
            runs_root: where run folders are made.

        Raises:
            StoreError: the run folder cannot be written.
        """
        self.experiment = experiment
        self.asked = asked
        self.guesses = asked.guesses
        self.settings = ()
        self.folder = create_run(runs_root, experiment.name, plans.draft(ref, experiment, asked))
        self.trials_total = 0
        self._ordered: set[str] = set()
        self._ended = 0
        self._events: list[Event] = []
        self._tail = EventTail(self.folder)
        self._stop_asked: float | None = None
        self._finish_sent = False
        self.stop_requested = False
        """A signal handler may set this, and nothing else: the next `poll` then stops the run."""
        self._last: ExperimentEnded | None = None
        self._hold: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext
        self._held = contextlib.ExitStack()
        self._warden = self._start_warden()

    def begin(
        self, environment: Environment, settings: tuple[Setting, ...], *,
        datasets: Mapping[str, str], prepare: Sequence[Sequence[str]],
        hold: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> None:  # fmt: skip
        """Complete the plan and hand the warden the first rounds.

        Args:
            environment: the machine now.
            settings: what `labkit.measure.plan.make_settings` made of them.
            datasets: JSON text of a setting's dataset to the folder where it will lie.
            prepare: commands (arguments of this Python) that make the datasets; ``{events}``
                becomes the file for their progress.
            hold: entered once the datasets are there and left at the end of the run: keeps them.
        """
        self.environment, self.settings, self._hold = environment, settings, hold
        details = plans.details(environment, settings, datasets, prepare)
        write_json(self.folder.plan, self.folder.read_plan() | details)
        self._send({"op": "begin"})
        self._order_trials(settings, 0)

    def discard(self) -> None:
        """Take back a run that has not begun: nothing stays of it."""
        self.stop()
        self.wait(_KILL_AFTER_SECONDS + 2)
        shutil.rmtree(self.folder.path, ignore_errors=True)

    def _start_warden(self) -> subprocess.Popen[bytes]:
        environment = os.environ | {processes.LABEL: self.folder.path.name}
        # A session of its own: Ctrl-C in a terminal reaches this process, which stops the run.
        with open(self.folder.path / "warden.err", "wb") as errors:
            return subprocess.Popen(
                [sys.executable, "-u", "-m", "labkit.measure.warden", str(self.folder.path)],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors,
                env=environment, start_new_session=sys.platform != "win32",
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )  # fmt: skip

    def _send(self, order: dict[str, Any]) -> None:
        assert self._warden.stdin is not None
        with contextlib.suppress(OSError):  # a dead warden is noticed by `poll`
            self._warden.stdin.write(json.dumps(order).encode() + b"\n")
            self._warden.stdin.flush()

    def _order_trials(self, settings: Sequence[Setting], first: int) -> None:
        rounds = range(1 if self.experiment.repeated == "deaths" else self.asked.repeats)
        self._order(plans.make_trials(settings, first, self.experiment, self.asked, rounds))

    def _deaths_again(self) -> list[Trial]:
        """The other rounds of settings that died in their first; each is asked for once."""
        if self.experiment.repeated != "deaths" or self._stop_asked is not None:
            return []
        died = {
            event.trial
            for event in self._events
            if isinstance(event.body, TrialEnded) and event.body.status == Status.OUT_OF_MEMORY
        }
        rounds = range(1, self.asked.repeats)
        trials = plans.make_trials(self.settings, 0, self.experiment, self.asked, rounds)
        return [
            trial
            for trial in trials
            if f"{trial.id.partition('-')[0]}-0" in died and trial.id not in self._ordered
        ]

    def _order(self, trials: Sequence[Trial]) -> None:
        self.trials_total += len(trials)
        self._ordered.update(trial.id for trial in trials)
        self._send({"op": "trials", "trials": [trial.to_json() for trial in trials]})

    @property
    def events(self) -> list[Event]:
        """All events that `poll` has returned so far."""
        return self._events

    def poll(self) -> list[Event]:
        """New events since the last call; never waits. Also asks the experiment to refine."""
        if self.stop_requested:
            self.stop()
        gone = self._warden.poll() is not None  # looked at first: the last events come before
        new = self._tail.read()
        self._events.extend(new)
        for event in new:
            if isinstance(event.body, TrialEnded):
                self._ended += 1
            elif isinstance(event.body, Prepared):
                self._held.enter_context(self._hold())
            elif isinstance(event.body, ExperimentEnded):
                self._last = event.body
        if gone and self._last is None:
            new.extend(self._recover())
        elif self._ended >= self.trials_total and not self._finish_sent:
            self._go_on_or_finish()
        if gone:
            self._held.close()
        elif self._overdue():
            self._warden.kill()
        return new

    def _overdue(self) -> bool:
        asked = self._stop_asked
        return asked is not None and time.monotonic() - asked > _KILL_AFTER_SECONDS

    def _go_on_or_finish(self) -> None:
        """All that was asked is measured: ask the experiment whether it wants more."""
        if again := self._deaths_again():
            self._order(again)
            return
        more: list[Setting] = []
        if self.experiment.refine is not None and self._stop_asked is None:
            known = {setting.key for setting in self.settings}
            summary = summarise(self.settings, self._events)
            more = [item for item in self.experiment.refine(summary) if item.key not in known]
        if more:
            first = len(self.settings)
            self.settings = (*self.settings, *more)
            write_json(self.folder.plan, self.folder.read_plan()
                       | {"settings": [asdict(setting) for setting in self.settings]})  # fmt: skip
            self._order_trials(more, first)
        else:
            self._finish_sent = True
            self._send({"op": "finish"})

    def _recover(self) -> list[Event]:
        """The warden died without a word: end what it left, and say so in its place."""
        clean_up(self.folder)
        detail = f"the warden ended with exit code {self._warden.returncode}"
        with EventWriter(self.folder, what="kernel") as writer:
            writer.write("", ExperimentEnded(status=Status.FAILED, detail=detail))
        new = self._tail.read()
        self._events.extend(new)
        self._last = next(e.body for e in new if isinstance(e.body, ExperimentEnded))
        return new

    def done(self) -> bool:
        """Whether the run has ended, its processes included."""
        return self._last is not None and self._warden.poll() is not None

    def stop(self) -> None:
        """End the run; what was measured stays. Poll on until it is done."""
        if self._stop_asked is None and not self.done():
            self._stop_asked = time.monotonic()
            self._send({"op": "stop"})

    def wait(self, timeout: float | None = None, *, poll_seconds: float = 0.05) -> None:
        """Poll until done.

        Raises:
            MeasureError: it is not done after `timeout` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self.done():
            self.poll()
            if deadline is not None and time.monotonic() > deadline:
                raise MeasureError(
                    asked=f"the end of {self.folder.path.name}",
                    found=f"it still runs after {timeout} s",
                    do="wait longer, or stop() it",
                )
            time.sleep(poll_seconds)
        self.poll()
        if self._warden.stdin is not None:
            with contextlib.suppress(OSError):
                self._warden.stdin.close()


def clean_up_dead_runs(runs_root: Path) -> list[int]:
    """End and remove what runs of killed kernels *and* killed wardens left on this machine."""
    ended: list[int] = []
    unfinished = {path.parent.name for path in runs_root.glob("*/warden.json")}
    for name in unfinished | set(processes.labels().values()):
        folder = RunFolder(runs_root / name)
        if not _warden_alive(folder):
            ended.extend(clean_up(folder))
    remove_dead_groups()  # of runs whose folder is elsewhere, or gone
    return ended


def _warden_alive(folder: RunFolder) -> bool:
    """Whether the run's warden still is there to clean up by itself."""
    try:
        entry = json.loads(folder.warden.read_text("utf-8"))
        pid, mark = entry["pid"], entry["mark"]
    except (OSError, ValueError, KeyError, TypeError):
        return True  # it has only just been started, or is of another version, which cleans up
    return processes.is_alive(pid, mark)
