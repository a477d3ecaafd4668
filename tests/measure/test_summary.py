"""Hand-made events with an exact clock: every number of a summary is known beforehand."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from labkit.events import (
    BatchBuilt,
    BatchLoaded,
    Body,
    CountersSampled,
    Event,
    ExperimentEnded,
    MemorySampled,
    ProcessMemory,
    TrialEnded,
    TrialStarted,
    WarningCaught,
)
from labkit.measure.summary import summarise
from labkit.records import Setting, Status

SETTING = Setting(params={"workers": 2}, label="2 workers", batches=4, warmup=2)
MAIN = 100
SAMPLES = 10


def event(t: float, body: Body, trial: str = "000-0") -> Event:
    return Event(trial=trial, host="h", rank=0, t=t, body=body)


def built(batch: int, *, pid: int, cpu: float, worker: int = 0, epoch: int = 0) -> BatchBuilt:
    return BatchBuilt(
        worker=worker, pid=pid, epoch=epoch, batch=batch, started=0.0, fetch_seconds=1.0,
        transform_seconds=2.0, collate_seconds=0.5, done=0.0, handover_seconds=0.1,
        cpu_seconds=cpu,
    )  # fmt: skip


def loaded(batch: int, *, warmup: bool, cpu: float = 0.0, epoch: int = 0) -> BatchLoaded:
    return BatchLoaded(
        epoch=epoch, batch=batch, wait_seconds=0.75, step_seconds=0.25, samples=SAMPLES,
        num_bytes=1, warmup=warmup, cpu_seconds=cpu,
    )  # fmt: skip


def ended(t: float, status: Status = Status.COMPLETED, trial: str = "000-0") -> Event:
    return event(t, TrialEnded(status=status, detail="" if status == "completed" else "x"), trial)


def trial(
    name: str = "000-0", *, batches: int = 6, warmup: int = 2, seconds: float = 1.0
) -> list[Event]:
    """A trial from 1000 s on: start-up 10 s, then a batch every `seconds`, two workers in turn."""
    events = [event(1000.0, TrialStarted(pid=MAIN, launch="forked", started=1000.0), name)]
    for batch in range(batches):
        t = 1010.0 + batch * seconds
        # Worker 0 and 1 use 3 CPU seconds a batch, after 50 of start-up; the consumer uses 1.
        cpu = 50.0 + 3.0 * (batch // 2 + 1)
        worker = batch % 2
        events += [
            event(t, built(batch, pid=MAIN + 1 + worker, worker=worker, cpu=cpu), name),
            event(t, loaded(batch, warmup=batch < warmup, cpu=7.0 + batch), name),
        ]
    return events


def one(events: list[Event], setting: Setting = SETTING):  # type: ignore[no-untyped-def]
    (found,) = summarise([setting], events).settings
    return found


def test_rate_counts_from_the_end_of_the_warm_up() -> None:
    found = one([*trial(seconds=0.5), ended(2000)])
    assert found.rates == {0: pytest.approx(4 * SAMPLES / (4 * 0.5))}
    assert found.status is Status.COMPLETED
    assert found.trials[0].batches == 6
    assert found.trials[0].samples == 60
    assert found.trials[0].launch == "forked"


def test_rate_without_warm_up_starts_at_the_first_batch() -> None:
    found = one([*trial(warmup=0, batches=5, seconds=0.5), ended(2000)])
    assert found.rates == {0: pytest.approx(4 * SAMPLES / (4 * 0.5))}


def test_whole_epochs_start_before_the_first_batch_is_asked_for() -> None:
    setting = Setting(params={}, label="", batches=5, whole_epochs=True)
    found = one([*trial(warmup=0, batches=5, seconds=0.5), ended(2000)], setting)
    # The first batch came at 1010 after 0.75 s of waiting and 0.25 s of its step: from 1009 on.
    assert found.rates == {0: pytest.approx(5 * SAMPLES / (1.0 + 4 * 0.5))}
    assert found.wait_share == pytest.approx(0.75)


def test_whole_epochs_after_a_warm_up_start_at_its_end() -> None:
    setting = Setting(params={}, label="", batches=4, warmup=2, whole_epochs=True)
    found = one([*trial(seconds=0.5), ended(2000)], setting)
    assert found.rates == {0: pytest.approx(4 * SAMPLES / (4 * 0.5))}


def test_first_batch_is_without_the_step_and_wait_share_after_warm_up() -> None:
    found = one([*trial(), ended(2000)])
    assert found.first_batch_seconds == pytest.approx(10.0 - 0.25)
    assert found.wait_share == pytest.approx(0.75)


def test_stages_are_per_sample() -> None:
    stages = one([*trial(), ended(2000)]).stages
    assert stages.fetch == pytest.approx(0.1)
    assert stages.transform == pytest.approx(0.2)
    assert stages.collate == pytest.approx(0.05)
    assert stages.handover == pytest.approx(0.01)


def test_cpu_of_consumer_and_workers_after_the_warm_up() -> None:
    # 1 s a batch in the consumer and 3 s in a worker, 10 samples a batch; start-up left out.
    assert one([*trial(), ended(2000)]).cpu_seconds_per_sample == pytest.approx(0.4)


def test_cpu_of_batches_that_the_consumer_built_counts_once() -> None:
    events = [
        replace(e, body=replace(e.body, worker=-1, pid=MAIN)) if isinstance(e.body, BatchBuilt)
        else e
        for e in trial()
    ]  # fmt: skip
    assert one([*events, ended(2000)]).cpu_seconds_per_sample == pytest.approx(0.1)


def test_cpu_of_workers_of_a_later_epoch_leaves_their_start_up_out() -> None:
    events = trial()
    for batch in range(4):
        cpu = 90.0 + 3.0 * (batch // 2)
        worker = batch % 2
        events += [
            event(1020 + batch, built(batch, pid=200 + worker, cpu=cpu, epoch=1)),
            event(1020 + batch, loaded(batch, warmup=False, cpu=13.0 + batch, epoch=1)),
        ]
    assert one([*events, ended(2000)]).cpu_seconds_per_sample == pytest.approx(0.4)


def test_a_loader_without_stamps_has_rates_and_no_stages() -> None:
    found = one([e for e in trial() if not isinstance(e.body, BatchBuilt)] + [ended(2000)])
    assert found.rates[0] > 0
    assert found.stages.total == 0
    assert found.cpu_seconds_per_sample == pytest.approx(0.1)


def test_a_died_trial_keeps_its_numbers_and_gives_no_rate() -> None:
    found = one([*trial(batches=4), ended(2000, Status.OUT_OF_MEMORY)])
    assert found.status is Status.OUT_OF_MEMORY
    assert found.rates == {}
    assert found.samples_per_second is None
    assert found.trials[0].samples_per_second is None
    assert found.trials[0].samples == 40
    assert found.first_batch_seconds is not None


def test_a_trial_that_failed_after_its_batches_keeps_its_rate_outside_of_the_rounds() -> None:
    found = one([*trial(), ended(2000, Status.FAILED)])
    assert found.trials[0].samples_per_second == pytest.approx(10.0)
    assert found.rates == {}


def test_a_trial_that_still_runs_does_not_count_in_the_status() -> None:
    found = one([*trial("000-0"), ended(2000), *trial("000-1", batches=3)])
    assert found.status is Status.COMPLETED
    assert len(found.trials) == 2
    assert found.trials[1].samples == 30
    assert set(found.rates) == {0}


def test_nothing_ended_is_cancelled() -> None:
    found = one([])
    assert found.status is Status.CANCELLED
    assert found.trials == ()
    assert found.samples_per_second is None
    assert found.stages.total == 0


def test_the_worst_status_is_that_of_the_setting() -> None:
    events = [*trial("000-0"), ended(2000), event(1, TrialStarted(pid=1, launch="", started=1),
              "000-1"), ended(2, Status.TIMED_OUT, "000-1")]  # fmt: skip
    assert one(events).status is Status.TIMED_OUT


def test_medians_and_bands_over_trials() -> None:
    events = []
    for repeat, seconds in enumerate((1.0, 2.0, 4.0)):
        name = f"000-{repeat}"
        events += [*trial(name, seconds=seconds), ended(2000, trial=name)]
    band = one(events).samples_per_second
    assert band is not None
    assert band.median == pytest.approx(5.0)
    assert band.low < 5.0 < band.high


def test_peak_warnings_and_load() -> None:
    process = ProcessMemory(pid=1, role="main", rss=9, pss=9, anonymous=5, private=5)
    samples = [
        event(5, MemorySampled(processes=(process,), shared_memory=shm, cache=0, source="smaps"))
        for shm in (1, 7, 2)
    ]
    counters = [
        event(6, CountersSampled(voluntary_switches=0, involuntary_switches=0,
                                 device_read_bytes=0, load=load))
        for load in (0.1, 0.9, 0.2)
    ]  # fmt: skip
    notes = [event(7, WarningCaught(message=text)) for text in ("a", "b", "a")]
    whole = [event(9, ExperimentEnded(status="completed", detail=""), "")]
    events = [*trial(), *samples, *counters, *notes, ended(2000), *whole]
    summary = summarise([SETTING], events)
    assert summary.settings[0].peak_bytes == 12
    assert summary.warnings == ("a", "b")
    assert summary.load_cores == pytest.approx(0.2)


def test_foreign_trial_ids_are_left_alone() -> None:
    assert one([*trial("007-0"), *trial("reference"), *trial("a-b")]).trials == ()


def test_interleaving_of_trials_does_not_matter() -> None:
    events = [*trial("000-0"), ended(3000, trial="000-0")]
    other = [*trial("001-0", seconds=2.0), ended(3000, trial="001-0")]
    settings = [SETTING, replace(SETTING, params={"workers": 3})]
    draw = random.Random(8)
    mixed: list[Event] = []
    queues = [list(events), list(other)]
    while any(queues):
        queue = draw.choice([q for q in queues if q])
        mixed.append(queue.pop(0))
    assert summarise(settings, mixed) == summarise(settings, [*events, *other])
