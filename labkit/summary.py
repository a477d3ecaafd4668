"""What a run's events add up to; computed on reading, never stored.

Frozen records only: `labkit.measure.summary` computes them. It must not do I/O.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from labkit.records import Outcome, Setting, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A median with the interval that the noise allows."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSeconds:
    """Where a sample's time goes: seconds per sample, medians over trials.

    All are 0 when the loader was not instrumented.
    """

    fetch: float
    transform: float
    collate: float
    handover: float

    @property
    def total(self) -> float:
        """Seconds per sample over all stages."""
        return self.fetch + self.transform + self.collate + self.handover


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Who built which batch, and when the consumer could use its time: counts and orders.

    Of the batches of the first epoch, in the order in which they came.
    """

    workers: tuple[int, ...]
    """Id of the worker that built each batch; -1 for the consuming process."""
    pids: tuple[int, ...]
    """Process that built each batch."""
    main_pid: int
    """The consuming process."""
    in_flight: tuple[int, ...]
    """Batches asked for and not yet done with, the one in hand included, at each arrival; empty
    when the loader does not count what it asks for (the fact ``requested`` of a step)."""
    overlap_share: float | None
    """Share of the time of the steps in which a batch was being built; None without steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What a trial's workers cost beside the work; None where it was not seen."""

    first_wait_seconds: float | None
    """Wait for the first batch of the first epoch, the start of workers included."""
    later_wait_seconds: float | None
    """The same for later epochs, their median."""
    worker_private_bytes: float | None
    """Private memory of a worker while the consumer was held, mean over workers."""
    worker_anonymous_bytes: float | None
    """Anonymous PSS of a worker at that moment, mean over workers."""
    switches_per_sample: float | None
    """Context switches of the tree per sample, between the first and the last held moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFacts:
    """What only a trial of several ranks tells; None where it was not measured.

    The job is as fast as its slowest rank, and clocks of different hosts are never compared.
    """

    hosts: tuple[str, ...]
    """Host of each rank that was heard."""
    workers: tuple[int, ...]
    """Loader workers that each of them was seen to have: processes that built a batch."""
    steps: tuple[int, ...]
    """Steps that each of them did, warm-up included."""
    step_seconds_95: float | None
    """95 % of the measured steps, wait and all, took at most so long, over all ranks."""
    allreduce_seconds: float | None
    """Median over measured steps of the slowest rank's; fact ``allreduce_seconds`` of a step."""
    meeting_seconds: float | None
    """Median over measured steps of the longest wait for the others before it; fact
    ``meeting_seconds``."""
    involuntary_per_sample: float | None
    """Switches that a process did not ask for, of ranks and workers, while it was measured."""
    voluntary_per_sample: float | None
    """Switches of a process that waits."""
    throttled: int | None
    """Times that the quota stopped the control group meanwhile; None without a quota."""

    @property
    def processes(self) -> int:
        """Ranks and their workers, without the launcher."""
        return len(self.workers) + sum(self.workers)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSummary:
    """One trial's numbers; those that a died trial did not reach are None."""

    trial: str
    setting: str
    """Key of the setting."""
    repeat: int
    status: Status
    detail: str
    batches: int
    samples: int
    samples_per_second: float | None
    """Samples over time of the batches after the warm-up."""
    first_batch_seconds: float | None
    """From just before the loader was made to the first batch in hand."""
    wait_share: float | None
    """Wait over wait plus step, after the warm-up."""
    cpu_seconds_per_sample: float | None
    """CPU time of all processes of the trial per sample after the warm-up."""
    peak_bytes: int | None
    """Highest sampled total: anonymous PSS plus shared memory once per inode."""
    stages: StageSeconds
    launch: str
    flow: Flow | None = None
    """None when the loader was not instrumented."""
    costs: Costs | None = None
    """None when it died before its first batch."""
    facts: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """What the steps returned, by name, a value for each batch that had it."""
    seconds: float | None = None
    """Of the whole attempt: from just before the loader was made to the end of the last batch."""
    batch_bytes: int | None = None
    """Of the largest batch that was delivered."""
    block_rates: tuple[float, ...] = ()
    """Samples per second of consecutive blocks of measured batches: the noise within a trial."""
    device_read_bytes: int | None = None
    """Read from the disk rather than the page cache; None where it was not sampled."""
    evidence: dict[str, Any] = field(default_factory=dict)
    """What the status rests on; see `labkit.events.TrialEnded`."""
    ranks: RankFacts | None = None
    """None without torchrun. Rates, first batch and counts are then those of the whole job;
    stages, flow, costs and facts are those of rank 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingSummary:
    """All trials of one setting."""

    setting: Setting
    trials: tuple[TrialSummary, ...]
    status: Status
    """The worst that happened; completed only when every trial completed."""
    samples_per_second: Interval | None
    first_batch_seconds: float | None
    wait_share: float | None
    cpu_seconds_per_sample: float | None
    peak_bytes: int | None
    stages: StageSeconds

    @property
    def delivered(self) -> int | None:
        """Samples that reached the consumer, in the trial that delivered fewest."""
        return min((trial.samples for trial in self.trials), default=None)

    @property
    def mechanism(self) -> str | None:
        """What enforced the budget, as the trials say; None when they do not."""
        found = (trial.evidence.get("mechanism") for trial in self.trials)
        return next((str(name) for name in found if name), None)

    @property
    def death(self) -> dict[str, Any] | None:
        """The evidence of the first trial that ran out of memory."""
        ends = (t.evidence for t in self.trials if t.status is Status.OUT_OF_MEMORY)
        return next(ends, None)

    @property
    def rates(self) -> dict[int, float]:
        """Round to samples per second, completed trials only."""
        return {
            trial.repeat: trial.samples_per_second
            for trial in self.trials
            if trial.samples_per_second is not None and trial.status is Status.COMPLETED
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A run in numbers, settings in the order in which they were planned."""

    settings: tuple[SettingSummary, ...]
    warnings: tuple[str, ...]
    """Distinct warnings of the trials, such as torch's on the number of workers."""
    load_cores: float | None
    """Median load by others during the run; None where it was not sampled."""

    def __iter__(self) -> Iterator[SettingSummary]:
        return iter(self.settings)

    def find(self, story: str, **params: object) -> SettingSummary | None:
        """The first setting of a story whose parameters have these values."""
        for item in self.settings:
            values = item.setting.params
            if item.setting.story == story and all(values.get(k) == v for k, v in params.items()):
                return item
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Something that is not the same in both runs."""

    what: str
    a: Any
    b: Any

    def __str__(self) -> str:
        return f"{self.what}: {self.a} in a, {self.b} in b"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSetting:
    """One setting in both runs."""

    a: SettingSummary
    b: SettingSummary
    ratio: Interval | None
    """Rate of b over that of a. The runs were not interleaved, so a slow hour is in it too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictPair:
    """What both runs said of one claim and story; None where one has not judged it."""

    claim: str
    story: str
    a: Outcome | None
    b: Outcome | None
