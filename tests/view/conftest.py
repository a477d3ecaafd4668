"""A run that replays hand-made events: two stories, 0 and 2 workers, two rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from labkit.events import (
    BatchBuilt,
    BatchLoaded,
    Body,
    Event,
    ExperimentEnded,
    Prepared,
    Preparing,
    Queued,
    TrialEnded,
    TrialStarted,
    WarningCaught,
)
from labkit.guesses import Guess
from labkit.measure.summary import summarise
from labkit.params import Param
from labkit.records import Environment, Experiment, Outcome, Setting, Status, Verdict
from labkit.summary import Summary

ROUNDS = 2
BATCHES = 4
SAMPLES = 10


def event(body: Body, t: float, trial: str = "") -> Event:
    return Event(trial=trial, host="here", rank=0, t=t, body=body)


def batch(number: int, *, warmup: bool = False) -> BatchLoaded:
    return BatchLoaded(
        epoch=0, batch=number, wait_seconds=0.1, step_seconds=0.0, samples=SAMPLES,
        num_bytes=100, warmup=warmup, cpu_seconds=0.01 * number,
    )  # fmt: skip


def built(number: int) -> BatchBuilt:
    return BatchBuilt(
        worker=-1, pid=7, epoch=0, batch=number, started=0.0, fetch_seconds=0.01,
        transform_seconds=0.02, collate_seconds=0.03, done=0.0, handover_seconds=0.04,
        cpu_seconds=0.0,
    )  # fmt: skip


def trial_events(trial: str, start: float, gap: float, status: Status) -> Iterator[Event]:
    """One warm-up batch and BATCHES that count, one each `gap` seconds."""
    yield event(TrialStarted(pid=7, launch="forked", started=start), start, trial)
    for number in range(1 + BATCHES):
        t = start + gap * (number + 1)
        yield event(built(number), t, trial)
        yield event(batch(number, warmup=number == 0), t, trial)
    detail = "" if status is Status.COMPLETED else "it was ended"
    end = start + gap * (BATCHES + 2)
    yield event(TrialEnded(status=status, detail=detail), end, trial)


def settings() -> tuple[Setting, ...]:
    return tuple(
        Setting(params={"workers": n}, label=f"{n} workers", story=story, x=n, batches=BATCHES)
        for story in ("cpu", "waiting")
        for n in (0, 2)
    )


GAPS = (0.1, 0.05, 0.2, 0.025)
"""Seconds per batch of each setting: 100, 200, 50 and 400 samples a second."""


def whole_run() -> list[Event]:
    """Queued, prepared, measured in two rounds; the last trial is ended by its timeout."""
    events = [
        event(Queued(position=1, holder="someone (pid 3)"), 0.0),
        event(Queued(position=0, holder=""), 1.0),
        event(Preparing(done=512, total=2048), 2.0),
        event(Prepared(), 3.0),
        event(WarningCaught(message="<too many> workers"), 3.5, "000-0"),
    ]
    t = 4.0
    for turn in range(ROUNDS):
        for number, gap in enumerate(GAPS):
            last = turn == ROUNDS - 1 and number == len(GAPS) - 1
            status = Status.TIMED_OUT if last else Status.COMPLETED
            events += trial_events(f"{number:03d}-{turn}", t, gap, status)
            t += 2.0
    return [*events, event(ExperimentEnded(status="completed", detail=""), t)]


@dataclass
class FakeResult:
    experiment: Experiment
    environment: Environment
    summary: Summary
    verdicts: tuple[Verdict, ...]
    headline: str = "K7 holds: 2 workers, 200 samples/s <b>"
    status: Status = Status.COMPLETED
    painter_seconds: float = 0.0
    told_in: int | None = None
    events: list[Event] = field(default_factory=list)
    settings: tuple[Setting, ...] = field(default_factory=settings)
    guesses: tuple[Guess, ...] = ()


@dataclass
class FakeRun:
    """Hands out its events in small portions, as a run that goes on."""

    experiment: Experiment
    environment: Environment
    waiting: list[Event]
    settings: tuple[Setting, ...] = field(default_factory=settings)
    trials_total: int = ROUNDS * len(GAPS)
    events: list[Event] = field(default_factory=list)
    portion: int = 10
    guesses: tuple[Guess, ...] = ()
    stopped: bool = False
    stop_requested: bool = False
    at_poll: Callable[[], object] = lambda: None
    failure: BaseException | None = None

    def poll(self) -> list[Event]:
        self.at_poll()
        if self.failure is not None and self.events:
            raise self.failure
        new, self.waiting = self.waiting[: self.portion], self.waiting[self.portion :]
        self.events.extend(new)
        return new

    def done(self) -> bool:
        return not self.waiting

    def stop(self) -> None:
        self.stopped = True

    def result(self) -> FakeResult:
        verdict = Verdict(
            claim="K7", story="cpu", outcome=Outcome.REPRODUCED, effect=2.0, interval=(1.9, 2.1),
            threshold=1.05, sentence="2 against 0 workers: ratio 2.0", reasons=("few rounds",),
        )  # fmt: skip
        summary = summarise(self.settings, self.events)
        return FakeResult(
            self.experiment, self.environment, summary, (verdict,), events=self.events
        )


@pytest.fixture
def experiment() -> Experiment:
    params = (
        Param(name="workers", label="workers", help="how many", default=None, sweep=True,
              low=0, high=64),
        Param(name="wait_ms", label="wait", help="milliseconds", default=2.5, low=0, high=10),
        Param(name="layout", label="layout", help="of the data", default="files",
              choices=("files", "lmdb")),
    )  # fmt: skip

    def unused(*_: object) -> tuple[Verdict, ...]:
        raise AssertionError("a view neither measures nor judges")

    return Experiment(
        name="fake", title="A fake lab", question="?", claims=("K7",), params=params,
        settings=unused, make_loader=unused, judge=unused,  # type: ignore[arg-type]
    )  # fmt: skip


@pytest.fixture
def environment() -> Environment:
    return Environment(
        machine_id="m", cpu="c", logical_cores=2, usable_cores=1, affinity_cores=1,
        quota_cores=None, memory_total_bytes=1, memory_available_bytes=1,
        memory_limit_bytes=None, shm_total_bytes=None, shm_available_bytes=None,
        disk_available_bytes=1, os="o", python="3", torch="2", start_method="fork",
        load_cores=0.0,
    )  # fmt: skip


@pytest.fixture
def make_run(experiment: Experiment, environment: Environment) -> Callable[[], FakeRun]:
    return lambda: FakeRun(experiment, environment, whole_run())


@pytest.fixture
def result(make_run: Callable[[], FakeRun]) -> FakeResult:
    run = make_run()
    while not run.done():
        run.poll()
    return run.result()


@pytest.fixture
def events() -> list[Event]:
    return whole_run()
