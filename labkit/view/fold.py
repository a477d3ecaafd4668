"""Folds a run's events into what a view shows, event by event; pure, it draws nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from labkit.events import (
    BatchLoaded,
    Event,
    ExperimentEnded,
    Prepared,
    Preparing,
    Queued,
    TrialEnded,
    TrialStarted,
    WarningCaught,
)
from labkit.records import Setting, Status
from labkit.units import format_bytes, format_seconds


@dataclass(slots=True)
class _Rate:
    """Running sums of one trial: samples after the warm-up, and between which moments."""

    first: float | None = None
    last: float = 0.0
    samples: int = 0

    def add(self, t: float, body: BatchLoaded) -> None:
        if body.warmup or self.first is None:
            self.first = t  # the clock starts when the last warm-up batch is done
        else:
            self.last = t
            self.samples += body.samples

    @property
    def per_second(self) -> float | None:
        if self.first is None or self.last <= self.first:
            return None
        return self.samples / (self.last - self.first)


@dataclass(slots=True)
class Progress:
    """What is known of a run so far. `points` maps a setting's index to its finished rates."""

    settings: Sequence[Setting]
    total: int = 0
    phase: str = "starting"
    ended: int = 0
    points: dict[int, list[float]] = field(default_factory=dict)
    statuses: dict[int, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    running: int | None = None
    done: bool = False
    first_t: float | None = None
    last_t: float = 0.0
    version: int = 0
    """Grows whenever something visible changed: a painter redraws only then."""
    _rates: dict[str, _Rate] = field(default_factory=dict)

    def add(self, events: Iterable[Event]) -> None:
        """Take new events in."""
        for event in events:
            self._add(event)

    def _add(self, event: Event) -> None:
        body = event.body
        if isinstance(body, BatchLoaded):
            self._rates.setdefault(event.trial, _Rate()).add(event.t, body)
            return
        if isinstance(body, Queued):
            ours = body.position == 0
            self.phase = "starting" if ours else f"waiting: {body.holder} measures now"
        elif isinstance(body, Preparing):
            of = f"{format_bytes(body.done)} of {format_bytes(body.total)}"
            self.phase = f"making the dataset: {of}"
        elif isinstance(body, Prepared):
            self.phase = "importing torch"
        elif isinstance(body, TrialStarted):
            self.phase = "measuring"
            self.running = _index(event.trial)
            self.first_t = event.t if self.first_t is None else self.first_t
        elif isinstance(body, TrialEnded):
            self._end_trial(event.trial, body)
            self.last_t = event.t
        elif isinstance(body, WarningCaught) and body.message not in self.warnings:
            self.warnings.append(body.message)
        elif isinstance(body, ExperimentEnded):
            self.phase, self.done, self.running = body.status, True, None
        self.version += 1

    def _end_trial(self, trial: str, body: TrialEnded) -> None:
        index = _index(trial)
        self.ended += 1
        rate = self._rates.pop(trial, _Rate()).per_second
        if body.status == Status.COMPLETED:
            self.statuses.setdefault(index, body.status)
            if rate is not None:
                self.points.setdefault(index, []).append(rate)
        else:
            self.statuses[index] = body.status

    @property
    def seconds_left(self) -> float | None:
        """By the time that the trials took so far; None before the first has ended."""
        if not self.ended or self.first_t is None or self.done:
            return None
        return (self.last_t - self.first_t) / self.ended * (self.total - self.ended)

    @property
    def line(self) -> str:
        """The state in one line."""
        left = self.seconds_left
        rest = "" if left is None else f", about {format_seconds(max(left, 1))} left"
        return f"{self.phase}: {self.ended} of {self.total} trials{rest}"


def _index(trial: str) -> int:
    return int(trial.partition("-")[0])
