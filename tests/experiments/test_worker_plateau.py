"""The verdicts of worker_plateau on simulated runs whose truth is known; no children, no torch."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from labkit.events import BatchBuilt, BatchLoaded, Body, Event, TrialEnded, TrialStarted
from labkit.experiments.worker_plateau import CPU, EXPERIMENT, WAITING, sweep
from labkit.measure.summary import summarise
from labkit.params import Params
from labkit.records import Environment, Outcome, Setting, Status, Verdict

ENVIRONMENT = Environment(
    machine_id="test", cpu="test", logical_cores=2, usable_cores=2, affinity_cores=2,
    quota_cores=None, memory_total_bytes=8 << 30, memory_available_bytes=4 << 30,
    memory_limit_bytes=None, shm_total_bytes=1 << 30, shm_available_bytes=1 << 30,
    disk_available_bytes=10 << 30, os="test", python="3.11", torch="2.13", start_method="fork",
    load_cores=0.0,
)  # fmt: skip
Truth = Callable[[str, int], float]
CAN, NOT, CANNOT = Outcome.REPRODUCED, Outcome.NOT_REPRODUCED, Outcome.CANNOT_TELL


def plateau(story: str, workers: int) -> float:
    """CPU-bound stops at 2 cores and suffers from 8 workers; waiting goes on."""
    if story == WAITING:
        return 200.0 * max(1, workers)
    return {0: 250.0, 1: 200.0, 8: 300.0}.get(workers, 400.0)


def trial_events(setting: Setting, name: str, rate: float, status: Status) -> list[Event]:
    """Three batches suffice: the rate is that from the end of the warm-up to the last batch."""
    def event(t: float, body: Body) -> Event:
        return Event(trial=name, host="h", rank=0, t=t, body=body)

    size = setting["batch_size"]
    events = [event(0.0, TrialStarted(pid=1, launch="forked", started=0.0))]
    for batch in range(3):
        t = 1.0 + batch * size / rate
        events.append(event(t, BatchBuilt(
            worker=-1, pid=1, epoch=0, batch=batch, started=0.0, fetch_seconds=0.004,
            transform_seconds=0.006, collate_seconds=0.0, done=t, handover_seconds=0.0,
            cpu_seconds=t)))  # fmt: skip
        events.append(event(t, BatchLoaded(
            epoch=0, batch=batch, wait_seconds=0.01, step_seconds=0.0, samples=size, num_bytes=1,
            warmup=batch == 0, cpu_seconds=t)))  # fmt: skip
    detail = "" if status is Status.COMPLETED else "killed"
    return [*events, event(9e9, TrialEnded(status=status, detail=detail))]


def run(
    truth: Truth, *, noise: float = 0.01, repeats: int = 5, given: Params | None = None,
    died: tuple[str, int] | None = None, environment: Environment = ENVIRONMENT, seed: int = 1,
) -> dict[tuple[str, str], Verdict]:  # fmt: skip
    """The verdicts of a simulated run, by claim and story."""
    draw = random.Random(seed)
    params = EXPERIMENT.resolve(given or {}, size="full")
    settings = EXPERIMENT.settings(params, environment)
    events: list[Event] = []
    for repeat in range(repeats):
        slow = draw.gauss(0, 0.2)
        for number, setting in enumerate(settings):
            rate = truth(setting.story, setting["workers"])
            rate *= math.exp(slow + draw.gauss(0, noise))
            killed = died == (setting.story, setting["workers"])
            status = Status.OUT_OF_MEMORY if killed else Status.COMPLETED
            events += trial_events(setting, f"{number:03d}-{repeat}", rate, status)
    verdicts = EXPERIMENT.judge(summarise(settings, events), environment)
    return {(verdict.claim, verdict.story): verdict for verdict in verdicts}


@pytest.mark.parametrize(
    ("cores", "expected"),
    [
        (1, (0, 1, 2, 4)),
        (2, (0, 1, 2, 3, 4, 8)),
        (8, (0, 1, 2, 4, 8, 12, 16, 32)),
        (64, (0, 1, 2, 32, 64, 96, 128, 256)),
        (512, (0, 1, 2, 256)),
    ],
)
def test_sweep(cores: int, expected: tuple[int, ...]) -> None:
    assert sweep(cores) == expected


def test_clear_effects_are_told() -> None:
    found = run(plateau)
    assert found["K7", CPU].outcome is NOT
    assert found["K7", WAITING].outcome is CAN
    assert found["K8", "cpu, 4 x cores"].outcome is CAN
    assert found["K8", "waiting, 4 x cores"].outcome is NOT
    assert found["K8", "cpu, 1 against 0"].outcome is CAN
    assert found["K10", CPU].outcome is CAN
    assert found["K7", WAITING].effect == pytest.approx(4.0, rel=0.05)
    assert found["K10", CPU].effect == pytest.approx(0.6)


def test_a_sentence_has_numbers_units_interval_and_noise() -> None:
    sentence = run(plateau)["K8", "cpu, 1 against 0"].sentence
    for part in ("1 worker against 0 workers", "samples/s", "95 % interval", "5 rounds", "noise"):
        assert part in sentence


def test_nothing_is_told_from_within_the_noise() -> None:
    found = run(lambda story, workers: 100.0, noise=0.3)
    rates = [verdict for verdict in found.values() if verdict.claim != "K10"]
    assert all(verdict.outcome is not CAN for verdict in rates)
    unknown = [verdict for verdict in rates if verdict.outcome is CANNOT]
    assert len(unknown) >= 4  # no effect is on the failing side of every threshold
    assert all("threshold" in verdict.reasons[0] for verdict in unknown)


def test_without_an_effect_best_of_many_is_rarely_reproduced() -> None:
    runs = [run(lambda story, workers: 100.0, noise=0.1, seed=seed) for seed in range(20)]
    wrong = sum(found["K7", story].outcome is CAN for found in runs for story in (CPU, WAITING))
    assert wrong <= 0.10 * 2 * len(runs)


def test_two_rounds_are_too_few() -> None:
    for verdict in run(plateau, repeats=2).values():
        assert verdict.outcome is CANNOT
        assert "at least 3" in " ".join(verdict.reasons)


def test_a_missing_setting_is_named() -> None:
    found = run(plateau, given={"workers": [0, 2]})
    assert found["K7", CPU].outcome is NOT
    assert found["K8", "cpu, 4 x cores"].outcome is CANNOT
    assert found["K8", "cpu, 4 x cores"].reasons == ("8 workers: not measured",)
    assert "1 worker: not measured" in found["K8", "cpu, 1 against 0"].sentence


def test_without_alternatives_there_is_no_best_of_the_others() -> None:
    found = run(plateau, given={"workers": [2]})
    assert found["K7", CPU].outcome is CANNOT
    assert found["K7", CPU].reasons == ("no other setting was measured",)


def test_died_trials_are_named() -> None:
    found = run(plateau, died=(CPU, 8))["K8", "cpu, 4 x cores"]
    assert found.outcome is CANNOT
    assert found.reasons == ("8 workers: no completed trial (killed)",)


def test_circumstances_are_told() -> None:
    machine = replace(ENVIRONMENT, usable_cores=1, quota_cores=1.0, load_cores=0.7)
    reasons = run(plateau, environment=machine)["K7", WAITING].reasons
    assert [reason.split(" ", 2)[:2] for reason in reasons] == [
        ["one", "usable"], ["a", "quota"], ["others", "kept"],
    ]  # fmt: skip
    assert run(plateau)["K7", WAITING].reasons == ()


def test_warm_up_and_batches_follow_the_rule() -> None:
    settings = EXPERIMENT.settings(EXPERIMENT.resolve({}, size="full"), ENVIRONMENT)
    for setting in settings:
        in_flight = setting["workers"] * setting["prefetch_factor"]
        assert setting.warmup == (in_flight or 2)
        assert setting.batches >= 8 * in_flight
