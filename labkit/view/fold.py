"""Folds a run's events into what a live view shows; pure, and cheap for each event.

It keeps running sums per trial, by the rule of `labkit.measure.summary`: at the end of a run that
module has the last word. It must not read clocks, do I/O or draw.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from labkit.events import (
    BatchBuilt,
    BatchLoaded,
    Event,
    ExperimentEnded,
    MemorySampled,
    Prepared,
    Preparing,
    Queued,
    TrialEnded,
    TrialStarted,
    WarningCaught,
    place_of,
)
from labkit.records import Setting, Status
from labkit.summary import StageSeconds
from labkit.view.tally import Point, Tally, mean_stages
from labkit.view.trace import Trace, Tracer


class Phase(StrEnum):
    """What a run is doing."""

    QUEUED = "queued"
    PREPARING = "preparing"
    MEASURING = "measuring"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Memory of a setting's trials, in bytes."""

    now: int
    """At the last sample."""
    peak: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A run at one moment; mappings are by `Setting.key` and hold only settings that were heard."""

    phase: Phase
    queue: str
    """Whom the run waits for; empty when the machine is its own."""
    prepared_bytes: int
    preparing_bytes: int
    prepared_per_second: float | None
    """Bytes of the dataset written per second since the first were seen; None until known."""
    trials_done: int
    trials_total: int
    running: str | None
    """Key of the setting that is measured now."""
    points: Mapping[str, tuple[Point, ...]]
    stages: Mapping[str, StageSeconds]
    statuses: Mapping[str, tuple[Status, ...]]
    """How each trial of the setting ended, in the order of the ends."""
    memory: Mapping[str, Held]
    """Only of settings with a budget."""
    traces: Mapping[str, tuple[Trace, ...]]
    """Empty unless the run is traced."""
    warnings: tuple[str, ...]
    deaths: tuple[str, ...]
    """A sentence for each trial that did not complete."""
    seconds_left: float | None
    """None until something can be said."""
    detail: str

    def rates(self, key: str) -> dict[int, float]:
        """Round to samples per second."""
        return {point.repeat: point.samples_per_second for point in self.points.get(key, ())}

    def median(self, key: str) -> float | None:
        """Median over the trials so far."""
        rates = self.rates(key)
        return statistics.median(rates.values()) if rates else None


class Folder:
    """Takes events one by one; `snapshot` says what they add up to."""

    def __init__(
        self, settings: Sequence[Setting], trials_total: int, *, traced: bool = False
    ) -> None:
        """Start with the plan; `traced` keeps single batches and samples of memory, too."""
        self._tracer = Tracer(settings) if traced else None
        self._keys: list[str] = []
        self.plan(settings, trials_total)
        self.changes = 0
        """Grows whenever a snapshot would show something new."""
        self._phase = Phase.QUEUED
        self._queue = ""
        self._prepared = (0, 0)
        self._prepare_began: tuple[float, int] | None = None
        self._prepare_speed: float | None = None
        self._tallies: dict[str, Tally] = {}
        self._running: str | None = None
        self._warnings: dict[str, None] = {}
        self._deaths: list[str] = []
        self._ends: dict[int, list[Status]] = {}
        self._held: dict[int, Held] = {}
        self._seconds: dict[int, list[float]] = {}
        """How long the trials of each setting took, starting and ending included."""
        self._mark: float | None = None
        """When the trial that runs now took its turn."""
        self._detail = ""

    def plan(self, settings: Sequence[Setting], trials_total: int) -> None:
        """Take over a plan that has grown."""
        self._settings = tuple(settings)
        if len(settings) != len(self._keys):  # a key is made anew whenever it is asked for
            self._keys = [setting.key for setting in settings]
        self._total = trials_total
        if self._tracer is not None:
            self._tracer.settings = self._settings

    def take(self, events: Iterable[Event]) -> None:
        """Add events in the order in which they were read."""
        for event in events:
            self._take(event)
            if self._tracer is not None:
                self._tracer.take(event)

    def _take(self, event: Event) -> None:
        if event.rank:
            return
        match event.body:
            case BatchBuilt() as body:
                if (tally := self._tally(event.trial)) is not None:
                    tally.built[body.epoch, body.batch] = body
                return  # shows only with the batch's arrival
            case BatchLoaded() as body:
                if (tally := self._tally(event.trial)) is not None:
                    tally.load(event.t, body)
            case TrialStarted():
                self._phase, self._running = Phase.MEASURING, event.trial
                self._mark = event.t if self._mark is None else self._mark
            case MemorySampled() as body:
                if not self._hold(event.trial, body.total, body.total) and self._tracer is None:
                    return
            case TrialEnded() as body:
                self._hold(event.trial, 0, body.evidence.get("peak_bytes") or 0)
                self._end_trial(event, body)
            case Queued(position=position, holder=holder):
                before = "" if position == 1 else f" and {position - 1} more"
                self._queue = f"waiting for {holder}{before}" if position else ""
            case Preparing(done=done, total=total):
                self._phase, self._prepared = Phase.PREPARING, (done, total)
                self._time_preparing(event.t, done)
            case Prepared():
                self._phase, self._mark = Phase.MEASURING, event.t
            case WarningCaught(message=message):
                self._warnings[message] = None
            case ExperimentEnded(detail=detail):
                self._phase, self._detail, self._running = Phase.ENDED, detail, None
            case _ if self._tracer is None:
                return
        self.changes += 1

    def _tally(self, trial: str) -> Tally | None:
        """The sums of a trial; None for the run as a whole and for foreign ids."""
        found = self._tallies.get(trial)
        if found is None:
            place = place_of(trial, len(self._settings))
            if place is None:
                return None
            number, repeat = place
            setting = self._settings[number]
            found = Tally(
                number=number, repeat=repeat, whole_epochs=setting.whole_epochs,
                ranks=setting.ranks or 1,
            )  # fmt: skip
            self._tallies[trial] = found
        return found

    def _hold(self, trial: str, now: int, peak: int) -> bool:
        """Take over what a trial holds; returns whether that is shown, which needs a budget."""
        tally = self._tally(trial)
        if tally is None or self._settings[tally.number].budget is None:
            return False
        before = self._held.get(tally.number)
        highest = max(peak, before.peak if before else 0)
        self._held[tally.number] = Held(now=now, peak=highest)
        return True

    def _end_trial(self, event: Event, body: TrialEnded) -> None:
        tally = self._tally(event.trial)
        if tally is None:
            return
        tally.status = Status(body.status)
        tally.built.clear()
        self._ends.setdefault(tally.number, []).append(tally.status)
        if self._mark is not None:
            self._seconds.setdefault(tally.number, []).append(event.t - self._mark)
        self._mark, self._running = event.t, None
        if tally.status is not Status.COMPLETED:
            setting = self._settings[tally.number]
            why = f": {body.detail}" if body.detail else ""
            name = " ".join(filter(None, (setting.story, setting.label)))
            self._deaths.append(f"{name}, round {tally.repeat + 1} {tally.status.value}{why}")

    def _time_preparing(self, t: float, done: int) -> None:
        began = self._prepare_began = self._prepare_began or (t, done)
        if t > began[0]:
            self._prepare_speed = (done - began[1]) / (t - began[0])

    def snapshot(self, now: float) -> Snapshot:
        """What has been heard; `now` is on the clock of the events (``time.monotonic``)."""
        points: dict[str, list[Point]] = {}
        stages: dict[int, list[Tally]] = {}
        for tally in self._tallies.values():
            point = tally.point()
            if point is not None:
                points.setdefault(self._keys[tally.number], []).append(point)
                stages.setdefault(tally.number, []).append(tally)
        running = self._tally(self._running) if self._running else None
        return Snapshot(
            phase=self._phase,
            queue=self._queue,
            prepared_bytes=self._prepared[0],
            preparing_bytes=self._prepared[1],
            prepared_per_second=self._prepare_speed,
            trials_done=sum(map(len, self._ends.values())),
            trials_total=self._total,
            running=self._keys[running.number] if running else None,
            points={key: tuple(found) for key, found in points.items()},
            stages={
                self._keys[number]: found
                for number, tallies in stages.items()
                if (found := mean_stages(tallies)) is not None
            },
            statuses={self._keys[n]: tuple(ends) for n, ends in self._ends.items()},
            memory={self._keys[n]: held for n, held in self._held.items()},
            traces={}
            if self._tracer is None
            else {key: self._tracer.of(key) for key in self._keys},
            warnings=tuple(self._warnings),
            deaths=tuple(self._deaths),
            seconds_left=self._seconds_left(now),
            detail=self._detail,
        )

    def _seconds_left(self, now: float) -> float | None:
        """Every open trial at the mean of its setting, or of all where none has ended yet."""
        if self._phase is Phase.ENDED or not self._seconds:
            return None
        means = {number: statistics.fmean(each) for number, each in self._seconds.items()}
        usual = statistics.fmean(means.values())
        rounds = self._total / len(self._settings)
        left = sum(
            means.get(number, usual) * max(0.0, rounds - len(self._ends.get(number, ())))
            for number in range(len(self._settings))
        )
        spent = 0.0 if self._mark is None else max(0.0, now - self._mark)
        return max(0.0, left - spent)


def fold(
    settings: Sequence[Setting], trials_total: int, events: Iterable[Event], *, now: float,
    traced: bool = False,
) -> Snapshot:  # fmt: skip
    """The snapshot of a whole list of events."""
    folder = Folder(settings, trials_total, traced=traced)
    folder.take(events)
    return folder.snapshot(now)
