"""The running sums of one trial, from which a live view has its rates and stages; pure.

It must not read clocks or do I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from labkit.events import BatchBuilt, BatchLoaded
from labkit.records import Status
from labkit.summary import StageSeconds

_LEAST_BATCHES = 2
"""A running trial shows its rate from here: one batch may have come out of the prefetch queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The rate of one trial, so far or at its end."""

    repeat: int
    samples_per_second: float
    ended: bool


@dataclass(slots=True)
class Tally:
    """Running sums of one trial."""

    number: int
    repeat: int
    whole_epochs: bool
    ranks: int
    """In lockstep: rank 0 is counted, for all of them; 1 without torchrun."""
    clock: float | None = None
    """When the rate's clock started: the end of the last warm-up batch, or of the first batch."""
    samples: int = 0
    batches: int = 0
    last: float = 0.0
    status: Status | None = None
    built: dict[tuple[int, int], BatchBuilt] = field(default_factory=dict)
    """Stamps of batches whose arrival has not been heard of yet."""
    stage_samples: int = 0
    stages: list[float] = field(default_factory=lambda: [0.0] * 4)

    def load(self, t: float, batch: BatchLoaded) -> None:
        """Take over a batch whose step ended at `t`, in seconds of the events' clock."""
        stamps = self.built.pop((batch.epoch, batch.batch), None)
        if batch.warmup or (self.clock is None and not self.whole_epochs):
            self.clock = t
            return
        if self.clock is None:
            self.clock = t - batch.step_seconds - batch.wait_seconds
        self.samples += batch.samples
        self.batches += 1
        self.last = t
        if stamps is not None:
            self.stage_samples += batch.samples
            self.stages[0] += stamps.fetch_seconds
            self.stages[1] += stamps.transform_seconds
            self.stages[2] += stamps.collate_seconds
            self.stages[3] += stamps.handover_seconds

    def point(self) -> Point | None:
        """The rate so far; None when it is not one yet, or when the trial did not complete."""
        wanted = self.status in (None, Status.COMPLETED)
        enough = self.batches >= (_LEAST_BATCHES if self.status is None else 1)
        if not wanted or not enough or self.clock is None or self.last <= self.clock:
            return None
        rate = self.ranks * self.samples / (self.last - self.clock)
        return Point(repeat=self.repeat, samples_per_second=rate, ended=self.status is not None)


def mean_stages(tallies: Sequence[Tally]) -> StageSeconds | None:
    """Seconds per sample of each stage over several trials; None when none was stamped."""
    samples = sum(tally.stage_samples for tally in tallies)
    if not samples:
        return None
    fetch, transform, collate, handover = (
        sum(tally.stages[index] for tally in tallies) / samples for index in range(4)
    )
    return StageSeconds(fetch=fetch, transform=transform, collate=collate, handover=handover)
