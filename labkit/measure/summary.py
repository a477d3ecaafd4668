"""Folds a run's events into numbers; pure, so that any stored run can be summed up again.

It must not do I/O, must not read clocks and must not judge.

The rate of a trial is the samples of the measured batches over the time from the end of the last
warm-up batch to the end of the last batch. A trial without warm-up starts the clock at its first
batch, whose samples then do not count: they were made while workers were still starting. Where
whole epochs are asked for, starting workers is part of what is measured: without warm-up the clock
then starts before the first batch was asked for, and all batches count.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from labkit.events import (
    BatchBuilt,
    BatchLoaded,
    CountersSampled,
    Event,
    MemorySampled,
    TrialEnded,
    TrialStarted,
    WarningCaught,
    place_of,
)
from labkit.measure.costs import costs_of
from labkit.measure.delivery import block_rates
from labkit.measure.flow import flow_of
from labkit.measure.noise import bands, within_band
from labkit.measure.ranks_summary import Ranks, take_rank, with_ranks
from labkit.records import Setting, Status
from labkit.summary import Interval, SettingSummary, StageSeconds, Summary, TrialSummary

_WORST_FIRST = (
    Status.OUT_OF_MEMORY, Status.FAILED, Status.TIMED_OUT, Status.CANCELLED, Status.COMPLETED,
)  # fmt: skip
_NO_STAGES = StageSeconds(fetch=0.0, transform=0.0, collate=0.0, handover=0.0)


@dataclass(slots=True)
class _Record:
    """What has been heard of one trial so far."""

    started: TrialStarted | None = None
    ended: TrialEnded | None = None
    loaded: list[tuple[float, BatchLoaded]] = field(default_factory=list)
    """Moment at which the batch's step had ended, and the batch."""
    built: dict[tuple[int, int], BatchBuilt] = field(default_factory=dict)
    peak: int | None = None
    read_bytes: int | None = None
    memory: list[tuple[float, MemorySampled]] = field(default_factory=list)
    counters: list[tuple[float, CountersSampled]] = field(default_factory=list)
    ranks: Ranks = field(default_factory=dict)
    """Empty without torchrun."""

    def split(
        self, setting: Setting
    ) -> tuple[float | None, BatchLoaded | None, list[tuple[float, BatchLoaded]]]:
        """When the clock starts, the batch at whose end it does so, and the batches that count."""
        warm = [item for item in self.loaded if item[1].warmup]
        rest = [item for item in self.loaded if not item[1].warmup]
        if warm:
            return *warm[-1], rest
        if not rest:
            return None, None, []
        if setting.whole_epochs:
            t, first = rest[0]
            return t - first.step_seconds - first.wait_seconds, None, rest
        return *rest[0], rest[1:]


def summarise(settings: Sequence[Setting], events: Iterable[Event]) -> Summary:
    """A run in numbers.

    Args:
        settings: in the order of the plan; the trial ``003-1`` is repeat 1 of ``settings[3]``.
        events: of the run, those of one trial in the order in which they were written.

    Returns:
        One entry per setting. A trial that has not ended keeps its numbers, as cancelled, but
        does not count in the setting's status; a setting of which nothing has ended is cancelled.
    """
    records: dict[tuple[int, int], _Record] = {}
    names: dict[tuple[int, int], str] = {}
    warnings: dict[str, None] = {}
    loads: list[float] = []
    for event in events:
        match event.body:
            case WarningCaught(message=message):
                warnings[message] = None
            case CountersSampled(load=load) if load >= 0:
                loads.append(load)
        place = place_of(event.trial, len(settings))
        if place is not None:
            names[place] = event.trial
            record = records.setdefault(place, _Record())
            _take(record, event)
            if settings[place[0]].ranks:
                take_rank(record.ranks, event)
    trials: dict[int, list[TrialSummary]] = {number: [] for number in range(len(settings))}
    running = {names[place] for place, record in records.items() if record.ended is None}
    for place in sorted(records):
        number, repeat = place
        trial = _trial(names[place], settings[number], repeat, records[place])
        trials[number].append(trial)
    return Summary(
        settings=_settings(settings, trials, running),
        warnings=tuple(warnings),
        load_cores=statistics.median(loads) if loads else None,
    )


def _take(record: _Record, event: Event) -> None:
    if event.rank:
        return  # the others in lockstep with it: `labkit.measure.ranks_summary` folds them
    match event.body:
        case TrialStarted() as body:
            record.started = body
        case BatchBuilt() as body:
            record.built[body.epoch, body.batch] = body
        case BatchLoaded() as body:
            record.loaded.append((event.t, body))
        case MemorySampled() as body:
            record.peak = max(record.peak or 0, body.total)
            record.memory.append((event.t, body))
        case CountersSampled() as body:
            record.read_bytes = max(record.read_bytes or 0, body.device_read_bytes)
            record.counters.append((event.t, body))
        case TrialEnded() as body:
            record.ended = body


def _trial(name: str, setting: Setting, repeat: int, record: _Record) -> TrialSummary:
    start, _, measured = record.split(setting)
    moments = [(t, batch.samples) for t, batch in measured]
    wait = sum(batch.wait_seconds for _, batch in measured)
    whole = wait + sum(batch.step_seconds for _, batch in measured)
    ended, started = record.ended, record.started
    summary = TrialSummary(
        trial=name,
        setting=setting.key,
        repeat=repeat,
        status=Status(ended.status) if ended else Status.CANCELLED,
        detail=ended.detail if ended else "it has not ended",
        batches=len(record.loaded),
        samples=sum(batch.samples for _, batch in record.loaded),
        samples_per_second=_rate(record, setting),
        first_batch_seconds=_first_batch(record),
        wait_share=wait / whole if whole > 0 else None,
        cpu_seconds_per_sample=_cpu(record, setting),
        peak_bytes=_peak(record),
        stages=_stages(record, setting),
        launch=started.launch if started else "",
        flow=flow_of(started.pid if started else None, record.loaded, record.built),
        costs=costs_of(
            record.loaded, list(record.built.values()), record.memory, record.counters
        ),
        facts=_facts(record),
        seconds=record.loaded[-1][0] - started.started if started and record.loaded else None,
        batch_bytes=max((batch.num_bytes for _, batch in record.loaded), default=None),
        block_rates=block_rates(start, moments, _workers(setting)) if start is not None else (),
        device_read_bytes=record.read_bytes,
        evidence=ended.evidence if ended else {},
    )
    return with_ranks(summary, record.ranks) if record.ranks else summary


def _facts(record: _Record) -> dict[str, tuple[float, ...]]:
    """What the steps returned, by name."""
    found: dict[str, list[float]] = {}
    for _, batch in record.loaded:
        for name, value in batch.facts.items():
            found.setdefault(name, []).append(value)
    return {name: tuple(values) for name, values in found.items()}


def _workers(setting: Setting) -> int:
    value = setting.params.get("workers", 1)
    return value if isinstance(value, int) else 1


def _peak(record: _Record) -> int | None:
    """The highest sample, or what the warden saw between two samples where that is higher."""
    seen = record.ended.evidence.get("peak_bytes") if record.ended else None
    return max((value for value in (record.peak, seen) if value), default=None)


def _rate(record: _Record, setting: Setting) -> float | None:
    """Samples per second; None when the trial died before its measured batches were done."""
    start, _, measured = record.split(setting)
    completed = record.ended is not None and record.ended.status == Status.COMPLETED
    if start is None or not measured or not (completed or len(measured) >= setting.batches):
        return None
    seconds = measured[-1][0] - start
    samples = sum(batch.samples for _, batch in measured)
    return samples / seconds if seconds > 0 and samples > 0 else None


def _first_batch(record: _Record) -> float | None:
    if record.started is None or not record.loaded:
        return None
    t, batch = record.loaded[0]
    return t - batch.step_seconds - record.started.started


def _stages(record: _Record, setting: Setting) -> StageSeconds:
    """Seconds per sample of the measured batches that carried stamps."""
    _, _, measured = record.split(setting)
    pairs = [(record.built.get((b.epoch, b.batch)), b.samples) for _, b in measured]
    built = [item for item, _ in pairs if item is not None]
    samples = sum(count for item, count in pairs if item is not None)
    if not samples:
        return _NO_STAGES
    return StageSeconds(
        fetch=sum(item.fetch_seconds for item in built) / samples,
        transform=sum(item.transform_seconds for item in built) / samples,
        collate=sum(item.collate_seconds for item in built) / samples,
        handover=sum(item.handover_seconds for item in built) / samples,
    )


def _cpu(record: _Record, setting: Setting) -> float | None:
    """CPU seconds per sample of the consumer and of the workers, while it was measured.

    The counters are cumulative per process. A worker's starts at its last warm-up batch, or at its
    first batch where it had none (workers of a later epoch): what it used until then is start-up.
    """
    _, start, measured = record.split(setting)
    samples = sum(batch.samples for _, batch in measured)
    if start is None or samples == 0:
        return None
    consumer = measured[-1][1].cpu_seconds - start.cpu_seconds
    main = record.started.pid if record.started else None
    counted = {(b.epoch, b.batch): b.samples for _, b in measured}
    base: dict[int, float] = {}
    last: dict[int, float] = {}
    by_workers = 0
    for place, item in record.built.items():
        if item.worker < 0 or item.pid == main:
            continue  # the consumer built it itself: already in its own counter
        if place in counted and item.pid in base:
            last[item.pid] = item.cpu_seconds
            by_workers += counted[place]
        elif item.pid not in last:
            base[item.pid] = item.cpu_seconds
    workers = sum(seconds - base[pid] for pid, seconds in last.items())
    return consumer / samples + (workers / by_workers if by_workers else 0.0)


def _settings(
    settings: Sequence[Setting], trials: dict[int, list[TrialSummary]], running: set[str]
) -> tuple[SettingSummary, ...]:
    drawn: dict[int, Interval] = {}
    for ranks in dict.fromkeys(setting.ranks for setting in settings):
        # Rounds are neighbours in time within one launch only.
        drawn |= bands(
            {
                number: {
                    trial.repeat: trial.samples_per_second
                    for trial in trials[number]
                    if trial.samples_per_second is not None and trial.status is Status.COMPLETED
                }
                for number in trials
                if settings[number].ranks == ranks
            }
        )
    found = []
    for number, setting in enumerate(settings):
        own = trials[number]
        blocks = [trial.block_rates for trial in own if trial.status is Status.COMPLETED]
        statuses = {trial.status for trial in own if trial.trial not in running}
        found.append(
            SettingSummary(
                setting=setting,
                trials=tuple(own),
                status=next((s for s in _WORST_FIRST if s in statuses), Status.CANCELLED),
                samples_per_second=within_band(drawn.get(number), blocks),
                first_batch_seconds=_median(trial.first_batch_seconds for trial in own),
                wait_share=_median(trial.wait_share for trial in own),
                cpu_seconds_per_sample=_median(trial.cpu_seconds_per_sample for trial in own),
                peak_bytes=max((t.peak_bytes for t in own if t.peak_bytes), default=None),
                stages=_median_stages([t.stages for t in own if t.stages.total > 0]),
            )
        )
    return tuple(found)


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _median_stages(stages: Sequence[StageSeconds]) -> StageSeconds:
    if not stages:
        return _NO_STAGES
    return StageSeconds(
        fetch=statistics.median(item.fetch for item in stages),
        transform=statistics.median(item.transform for item in stages),
        collate=statistics.median(item.collate for item in stages),
        handover=statistics.median(item.handover for item in stages),
    )
