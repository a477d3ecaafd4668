"""The warden: one small process per run that starts trials, watches them, ends them and cleans up.

Run as ``python -m labkit.measure.warden RUN``; JSON lines on stdin tell it what to do
(``begin``, ``trials``, ``finish``, ``stop``), and the end of stdin means that the kernel is gone.
It is single-threaded where it starts processes, uses the standard library alone on Linux, and must
not import torch.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

from labkit.errors import MeasureError
from labkit.events import ExperimentEnded, Prepared, Queued, TrialEnded
from labkit.measure import jobs, processes
from labkit.measure.attempts import Attempt, ColdAttempt, HostedAttempt, TrialHost, end_attempt
from labkit.measure.guard import Guard
from labkit.measure.leftovers import empty_scratch, make_scratch
from labkit.measure.limits import Bound, open_bound
from labkit.measure.rank_launch import RankAttempt, RankLaunch
from labkit.measure.sampler import MEMORY_SHARE, SHARE, LoadMeter, Sampler
from labkit.measure.store import EventWriter, RunFolder, write_json
from labkit.measure.turns import machine_turn
from labkit.records import Status, Trial, trial_from_json

_POLL_SECONDS = 0.01


class Warden:
    """The state of one run: what is asked, what runs, what was started."""

    def __init__(self, run: RunFolder) -> None:
        self.run = run
        self.plan = run.read_plan()
        self.events = EventWriter(run, what="warden")
        self.begun = False
        """Whether the plan is complete: until then there is only its draft."""
        self.trials: deque[Trial] = deque()
        self.finishing = False
        self.cancelled = False
        self.host: TrialHost | None = None
        self.launch: RankLaunch | None = None
        """Ranks that wait for their next trial; launched anew for another number of them."""
        self._launches = 0
        self.load = LoadMeter((os.getpid(), os.getppid()))
        self._sampled: set[str] = set()
        """Settings whose memory has been looked at: none of them goes without."""
        self._sample_from = 0.0
        self.scratch: Path
        self._told: tuple[int, str] | None = None
        self._orders: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def listen(self) -> None:
        """Read orders in a thread of their own: Windows cannot wait for a pipe and a process."""

        def read() -> None:
            for line in sys.stdin:
                self._orders.put(json.loads(line))
            self._orders.put({"op": "stop"})  # the kernel is gone

        threading.Thread(target=read, daemon=True).start()

    def take_orders(self, *, wait_seconds: float = 0.0) -> None:
        """Carry out what has been asked meanwhile."""
        try:
            order = self._orders.get(block=wait_seconds > 0, timeout=wait_seconds or None)
            while True:
                if order["op"] == "begin":
                    self.plan, self.begun = self.run.read_plan(), True
                elif order["op"] == "trials":
                    self.trials.extend(trial_from_json(raw) for raw in order["trials"])
                elif order["op"] == "finish":
                    self.finishing = True
                else:
                    self.cancelled = True
                order = self._orders.get_nowait()
        except queue.Empty:
            pass

    def journal(self, what: str, pids: dict[int, str | None]) -> None:
        """Note the pids that this run started, for whoever cleans up after a killed warden."""
        self.note(*({"what": what, "pid": pid, "mark": mark} for pid, mark in pids.items()))

    def note(self, *entries: dict[str, Any]) -> None:
        """Append to the journal."""
        if entries:
            with open(self.run.journal, "a", encoding="utf-8") as file:
                file.writelines(json.dumps(entry) + "\n" for entry in entries)

    def wait_for_turn(self, position: int, holder: str) -> bool:
        """Say who is before us; give up when cancelled."""
        self.take_orders()
        if (position, holder) != self._told:
            self._told = (position, holder)
            self.events.write("", Queued(position=position, holder=holder), flush=True)
        return not self.cancelled

    def prepare(self) -> str | None:
        """Run the plan's preparation commands; returns what went wrong, or None."""
        for index, command in enumerate(self.plan["prepare"]):
            file = self.run.events / f"{self.events.host}-0-prepare{index}.jsonl"
            arguments = [argument.replace("{events}", str(file)) for argument in command]
            error_path = self.run.path / f"prepare{index}.err"
            with open(error_path, "wb") as errors:
                process = subprocess.Popen(
                    [sys.executable, "-u", *arguments], stdin=subprocess.DEVNULL,
                    stdout=errors, stderr=errors,
                )  # fmt: skip
            self.journal("prepare", {process.pid: processes.start_mark(process.pid)})
            while process.poll() is None:
                time.sleep(_POLL_SECONDS)
                self.take_orders()
                if self.cancelled:
                    process.terminate()  # it leaves nothing half-written behind
                    try:
                        process.wait(3)
                    except subprocess.TimeoutExpired:
                        process.kill()
                        process.wait()
                    return None
            if process.returncode != 0:
                text = error_path.read_text("utf-8", "replace").strip()
                return text or f"preparing the data ended with exit code {process.returncode}"
        return None

    def start(self, trial: Trial, bound: Bound | None) -> Attempt:
        """Start a trial's process, forked from the host, cold, or as ranks, within its limit."""
        write_json(self.run.trial_file(trial.id, "json"), trial.to_json())
        if trial.launch == "ranks":
            return RankAttempt(self.warm_launch(trial.setting.ranks, bound), trial.id)
        self.end_launch()
        if trial.fresh == "cold" or (bound is not None and bound.cold_only):
            return ColdAttempt(self.run, trial.id, () if bound is None else bound.prefix)
        return HostedAttempt(self.warm_host(), trial.id, None if bound is None else bound.join)

    def bound(self, trial: Trial) -> Bound | None:
        """What will hold the trial within its budget; None without one."""
        if trial.setting.budget is None:
            return None
        bound = open_bound(trial.setting.budget, self.run.path.name, trial.id)
        if bound.group is not None:
            group = {"group": str(bound.group.folder), "version": bound.group.version}
            self.note({"what": "group"} | group)
        return bound

    def warm_host(self) -> TrialHost:
        """The host, started if there is none alive."""
        if self.host is None or not self.host.alive():
            self.host = TrialHost(self.run)
            self.journal("host", {self.host.pid: processes.start_mark(self.host.pid)})
            self.load.own.add(self.host.pid)
        return self.host

    def warm_launch(self, ranks: int, bound: Bound | None) -> RankLaunch:
        """So many ranks: those of the trial before, unless this one is to be within a limit."""
        launch = self.launch
        if launch is None or launch.ranks != ranks or bound is not None or not launch.alive():
            self.end_launch()
            prefix = () if bound is None else bound.prefix
            launch = self.launch = RankLaunch(self.run, ranks, self._launches, prefix)
            self._launches += 1
            self.journal("ranks", {launch.pid: processes.start_mark(launch.pid)})
            self.load.own.add(launch.pid)
        return launch

    def end_launch(self) -> None:
        """End the ranks that wait, if there are any."""
        if self.launch is not None:
            self.launch.close()
            self.launch = None

    def kept(self, trial: Trial, attempt: Attempt, forced: Status | None) -> set[int]:
        """Processes that live on after this trial."""
        host, launch = self.host, self.launch
        keep = {host.pid} if host is not None else set()
        if host is not None and forced and attempt.pid in (None, host.pid):
            keep = set()  # the host itself is the trial: it must go too
        if launch is not None:
            keep -= {launch.pid}
            well = forced is None and attempt.exit_code == 0 and trial.setting.budget is None
            keep |= launch.main_pids() if well else set()
        return keep

    def measure(self, trial: Trial) -> None:
        """Run one trial to its end, watch it, and write the last word on it."""
        try:
            bound = self.bound(trial)
        except MeasureError as error:
            ended = TrialEnded(status=Status.FAILED, detail=f"{error.asked}: {error.found}")
            self.events.write(trial.id, ended, flush=True)
            return
        attempt = self.start(trial, bound)
        while attempt.pid is None and attempt.exit_code is None:
            attempt.poll(_POLL_SECONDS)  # the host is still importing
            self.take_orders()
            if self.cancelled:
                break
        sampler = guard = None
        forced: Status | None = None
        if attempt.pid is not None:
            key = trial.setting.key
            not_before = self._sample_from if key in self._sampled else 0.0
            sampler = Sampler(attempt.pid, self.load, not_before=not_before,
                              share=SHARE if bound is None else MEMORY_SHARE)  # fmt: skip
            self.journal(trial.id, dict(sampler.seen))
            if bound is not None:
                bound.started(attempt.pid)
                guard = Guard(bound, attempt.pid, [self.host.pid] if self.host else [])
            forced = self._watch(trial, attempt, sampler, guard)
            if sampler.spent_seconds:
                self._sampled.add(key)
                self._sample_from = sampler.due_at
        elif self.cancelled:
            forced = Status.CANCELLED
        keep = self.kept(trial, attempt, forced)
        waited = {held.pid for held in (self.host, self.launch) if held is not None}
        ended = end_attempt(self.run, trial, attempt, sampler, forced, keep, waited, guard)
        if self.launch is not None and self.launch.pid not in keep:
            self.end_launch()
        if bound is not None:
            bound.close()
        if attempt.pid not in keep:
            empty_scratch(self.scratch)  # who runs more trials itself still uses its own part
        self.events.write(trial.id, ended, flush=True)

    def _watch(self, trial: Trial, attempt: Attempt, sampler: Sampler,
               guard: Guard | None) -> Status | None:  # fmt: skip
        """Watch until the trial ends; returns why it was ended, None when it ended by itself."""
        deadline = time.monotonic() + trial.timeout_seconds
        asked = self.run.trial_file(trial.id, "look")
        while True:
            attempt.poll(_POLL_SECONDS if guard is None else guard.look_seconds)
            if attempt.exit_code is not None:
                return None
            self.take_orders()
            if self.cancelled:
                return Status.CANCELLED
            if time.monotonic() > deadline:
                return Status.TIMED_OUT
            if guard is not None and self._look(trial, sampler, guard):
                return Status.OUT_OF_MEMORY
            held = asked.exists()
            if held or (sampler.due() and attempt.stands()):
                known = set(sampler.seen)
                sampled, counted = sampler.sample(held=held)
                self.journal(trial.id, {p: m for p, m in sampler.seen.items() if p not in known})
                if not sampled.processes:
                    continue  # it ended meanwhile
                self.events.write(trial.id, sampled)
                self.events.write(trial.id, counted)
                if held:
                    asked.unlink(missing_ok=True)
                if guard is not None and guard.learn(sampled):
                    return Status.OUT_OF_MEMORY

    def _look(self, trial: Trial, sampler: Sampler, guard: Guard) -> bool:
        """One of many looks at a bounded trial; returns whether it is out of memory."""
        death = guard.look()
        sampler.group = guard.bound.group
        sampler.seen |= guard.new
        self.journal(trial.id, guard.new)
        if death is not None and death.sampled is not None:
            self.events.write(trial.id, death.sampled)
        return death is not None

    def work(self) -> tuple[Status, str]:
        """Prepare, then measure whatever is asked for until told to finish."""
        self.events.write("", Queued(position=0, holder=""), flush=True)
        if self.plan["fresh"] == "forked":
            self.warm_host()  # it imports torch while the kernel plans and the data is prepared
        while not self.begun and not self.cancelled:
            self.take_orders(wait_seconds=1.0)
        problem = None if self.cancelled else self.prepare()
        if problem is not None:
            return Status.FAILED, problem
        self.events.write("", Prepared(), flush=True)
        while not self.cancelled:
            if self.trials:
                self.measure(self.trials.popleft())
            elif self.finishing:
                return Status.COMPLETED, ""
            self.take_orders(wait_seconds=0 if self.trials else _POLL_SECONDS)
        return Status.CANCELLED, "stopped by the reader"

    def main(self) -> None:
        """Take the machine's turn, work, and leave nothing behind."""
        processes.become_subreaper()
        jobs.assign_job()
        own = {"pid": os.getpid(), "mark": processes.start_mark(os.getpid())}
        write_json(self.run.warden, own)
        self.scratch = make_scratch()
        self.note({"what": "scratch", "folder": str(self.scratch)})
        self.listen()
        status, detail = Status.CANCELLED, "stopped while waiting for the machine"
        try:
            with machine_turn(self.plan["name"], self.wait_for_turn) as ours:
                if ours:
                    status, detail = self.work()
        except Exception as error:
            status, detail = Status.FAILED, f"the warden failed: {type(error).__name__}: {error}"
            raise
        finally:
            processes.end_tree(os.getpid())
            shutil.rmtree(self.scratch, ignore_errors=True)
            self.events.write("", ExperimentEnded(status=status, detail=detail), flush=True)
            self.events.close()
            self.run.warden.unlink(missing_ok=True)  # nothing is left to be cleaned up


def main() -> None:
    """Entry of the warden process."""
    # The kernel stops the run through stdin; Ctrl-C in a terminal must not end the cleaner first.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Warden(RunFolder(Path(sys.argv[1]))).main()
    sys.stdout.flush()
    os._exit(0)  # the listening thread may still wait for the kernel


if __name__ == "__main__":
    main()
