"""Folds the ranks of a trial into the numbers of the job; pure.

It must not do I/O and must not judge. Ranks run in lockstep: each step ends with an all-reduce. So
the job's rate is the samples of all ranks over the time of the slowest, and no clock of one host
is compared with that of another.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from labkit.events import BatchBuilt, BatchLoaded, Event, TrialStarted
from labkit.measure.tree_counters import CPU, INVOLUNTARY, THROTTLED, VOLUNTARY
from labkit.records import Status
from labkit.summary import RankFacts, TrialSummary

ALLREDUCE, MEETING = "allreduce_seconds", "meeting_seconds"
"""Facts of a step that are understood here, beside those of `labkit.measure.tree_counters`."""


@dataclass(slots=True)
class RankRecord:
    """What has been heard of one rank in one trial."""

    host: str
    started: TrialStarted | None = None
    loaded: list[tuple[float, BatchLoaded]] = field(default_factory=list)
    """Moment at which the batch's step had ended, and the batch."""
    workers: set[int] = field(default_factory=set)
    """Pids of its workers."""

    @property
    def measured(self) -> list[tuple[float, BatchLoaded]]:
        """The first starts the clock, the others count."""
        warm = [item for item in self.loaded if item[1].warmup]
        return [*warm[-1:], *(item for item in self.loaded if not item[1].warmup)]


Ranks = dict[int, RankRecord]
"""Rank to what has been heard of it."""


def take_rank(ranks: Ranks, event: Event) -> None:
    """Add an event of a trial, if it is one of a rank."""
    match event.body:
        case TrialStarted() as body:
            _of(ranks, event).started = body
        case BatchBuilt(worker=worker, pid=pid):
            if worker >= 0:
                _of(ranks, event).workers.add(pid)
        case BatchLoaded() as body:
            _of(ranks, event).loaded.append((event.t, body))


def _of(ranks: Ranks, event: Event) -> RankRecord:
    return ranks.setdefault(event.rank, RankRecord(host=event.host))


def with_ranks(trial: TrialSummary, ranks: Ranks) -> TrialSummary:
    """The trial of rank 0 with the numbers of the job in place of that rank's.

    Args:
        trial: as it is without the others.
        ranks: all that were heard.
    """
    each = [ranks[rank] for rank in sorted(ranks)]
    completed = trial.status is Status.COMPLETED
    return replace(
        trial,
        samples=sum(batch.samples for rank in each for _, batch in rank.loaded),
        samples_per_second=_rate(each) if completed else None,
        first_batch_seconds=_slowest(map(_first_batch, each)),
        cpu_seconds_per_sample=_grown_per_sample(each, CPU) if completed else None,
        wait_share=_wait_share(each),
        seconds=_slowest(map(_whole, each)),
        ranks=RankFacts(
            hosts=tuple(rank.host for rank in each),
            workers=tuple(len(rank.workers) for rank in each),
            steps=tuple(len(rank.loaded) for rank in each),
            step_seconds_95=_quantile_95(
                [b.wait_seconds + b.step_seconds for rank in each for _, b in rank.measured[1:]]
            ),
            allreduce_seconds=_slowest_of_steps(each, ALLREDUCE),
            meeting_seconds=_slowest_of_steps(each, MEETING),
            involuntary_per_sample=_grown_per_sample(each, INVOLUNTARY),
            voluntary_per_sample=_grown_per_sample(each, VOLUNTARY),
            throttled=_throttled(each),
        ),
    )


def _slowest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _first_batch(rank: RankRecord) -> float | None:
    if rank.started is None or not rank.loaded:
        return None
    t, batch = rank.loaded[0]
    return t - batch.step_seconds - rank.started.started


def _whole(rank: RankRecord) -> float | None:
    """Seconds from just before the loader was made to the end of the last step."""
    if rank.started is None or not rank.loaded:
        return None
    return rank.loaded[-1][0] - rank.started.started


def _rate(each: list[RankRecord]) -> float | None:
    seconds, samples = 0.0, 0
    for rank in each:
        measured = rank.measured
        if len(measured) < 2:
            return None
        seconds = max(seconds, measured[-1][0] - measured[0][0])
        samples += sum(batch.samples for _, batch in measured[1:])
    return samples / seconds if seconds > 0 else None


def _wait_share(each: list[RankRecord]) -> float | None:
    batches = [batch for rank in each for _, batch in rank.measured[1:]]
    wait = sum(batch.wait_seconds for batch in batches)
    whole = wait + sum(batch.step_seconds for batch in batches)
    return wait / whole if whole > 0 else None


def _grown_per_sample(each: list[RankRecord], fact: str) -> float | None:
    """How much a counter of all ranks grew while it was measured, per sample of the job."""
    grown = [_growth(rank, fact) for rank in each]
    known = [value for value in grown if value is not None]
    samples = sum(batch.samples for rank in each for _, batch in rank.measured[1:])
    return sum(known) / samples if samples and len(known) == len(grown) else None


def _growth(rank: RankRecord, fact: str) -> float | None:
    """From the batch at whose end the clock starts to the last; None where it was not told."""
    if len(rank.measured) < 2:
        return None
    before, after = (rank.measured[at][1].facts.get(fact) for at in (0, -1))
    return None if before is None or after is None else max(0.0, after - before)


def _throttled(each: list[RankRecord]) -> int | None:
    """The group is one for all ranks of a host: the largest growth counts, not the sum."""
    most = _slowest(_growth(rank, THROTTLED) for rank in each)
    return None if most is None else int(most)


def _slowest_of_steps(each: list[RankRecord], fact: str) -> float | None:
    """Median over the measured steps of the largest value that any rank had in that step."""
    by_rank = [[batch.facts.get(fact) for _, batch in rank.measured[1:]] for rank in each]
    known = (_slowest(values) for values in zip(*by_rank, strict=False))
    found = [value for value in known if value is not None]
    return statistics.median(found) if found else None


def _quantile_95(values: list[float]) -> float | None:
    """The smallest value that 95 % do not exceed."""
    return sorted(values)[math.ceil(0.95 * len(values)) - 1] if values else None
