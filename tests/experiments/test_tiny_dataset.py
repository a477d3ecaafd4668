"""The bisection and the verdicts of tiny_dataset on made-up machines whose truth is known."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pytest

import labkit
from labkit.experiments.tiny_dataset import (
    EXPERIMENT,
    SLOW,
    TENSORS,
    crossing,
    judge,
    refine,
    settings,
)
from labkit.measure.noise import bands
from labkit.records import Environment, Outcome, Setting, Status
from labkit.summary import SettingSummary, StageSeconds, Summary, TrialSummary

NO_STAGES = StageSeconds(fetch=0, transform=0, collate=0, handover=0)
ENVIRONMENT = Environment(
    machine_id="test", cpu="test", logical_cores=2, usable_cores=2, affinity_cores=2,
    quota_cores=None, memory_total_bytes=8 << 30, memory_available_bytes=4 << 30,
    memory_limit_bytes=None, shm_total_bytes=1 << 30, shm_available_bytes=1 << 30,
    disk_available_bytes=10 << 30, os="test", python="3.11", torch="2.13", start_method="fork",
    load_cores=0.0,
)  # fmt: skip
TRUTH_MS = 0.2
"""On the made-up machine two workers pay from here on."""


def machine(setting: Setting) -> float:
    """Samples per second: starting a worker costs what 256 samples of TRUTH_MS cost."""
    workers = setting["workers"]
    if setting.story == SLOW:
        samples, cost = setting["few"], setting.x / 1e3
        start = samples * TRUTH_MS / 1e3 / 2 / 2 * workers
        return float(samples / (samples * cost / max(1, min(2, workers)) + start))
    return float(1e5 / (1 + 4 * workers))


def measured(
    planned: Sequence[Setting], rate: Callable[[Setting], float] = machine, rounds: int = 3
) -> Summary:
    """Every setting in three rounds that differ by a percent."""
    items = []
    for setting in planned:
        rates = {turn: rate(setting) * (1 + 0.01 * turn) for turn in range(rounds)}
        trials = tuple(
            TrialSummary(
                trial=f"000-{turn}", setting=setting.key, repeat=turn, status=Status.COMPLETED,
                detail="", batches=1, samples=1, samples_per_second=value, first_batch_seconds=0.1,
                wait_share=0.5, cpu_seconds_per_sample=None, peak_bytes=None, stages=NO_STAGES,
                launch="forked",
            )
            for turn, value in rates.items()
        )  # fmt: skip
        item = SettingSummary(
            setting=setting, trials=trials, status=Status.COMPLETED,
            samples_per_second=bands({"it": rates}).get("it"), first_batch_seconds=0.1,
            wait_share=0.5, cpu_seconds_per_sample=None, peak_bytes=None, stages=NO_STAGES,
        )  # fmt: skip
        items.append(item)
    return Summary(settings=tuple(items), warnings=(), load_cores=0.0)


def plan() -> list[Setting]:
    return list(settings(EXPERIMENT.resolve({}, size="full"), ENVIRONMENT))


def test_the_bisection_closes_in_on_the_truth() -> None:
    known = plan()
    for step in itertools.count():
        more = refine(measured(known))
        if not more:
            break
        assert step < 10, "it goes on for ever"
        assert {setting.key for setting in more}.isdisjoint(setting.key for setting in known)
        known += more
    found = crossing(measured(known))
    assert found is not None
    low, high = found
    assert low < TRUTH_MS < high
    assert high / low < 2


def test_it_stops_where_workers_never_pay() -> None:
    def never(setting: Setting) -> float:
        return 100.0 / (1 + setting["workers"])

    assert refine(measured(plan(), never)) == []
    verdict = judge(measured(plan(), never), ENVIRONMENT)[0]
    assert verdict.outcome is Outcome.REPRODUCED
    assert any("no cost was found" in reason for reason in verdict.reasons)


def test_it_stops_where_the_noise_hides_the_crossing() -> None:
    def unsure(setting: Setting) -> float:
        return 100.0 if setting.story == SLOW and 0.05 < setting.x < 1 else machine(setting)

    known = plan()
    known += refine(measured(known, unsure))
    assert refine(measured(known, unsure)) == []


def test_few_slow_samples_gain_and_many_free_ones_lose() -> None:
    found = {(each.claim, each.story): each for each in judge(measured(plan()), ENVIRONMENT)}
    assert found["K32", "512 samples of 5 ms"].outcome is Outcome.NOT_REPRODUCED
    assert found["K32", "512 free samples"].outcome is Outcome.REPRODUCED
    assert found["K8", f"16,384 samples, {TENSORS}"].outcome is Outcome.REPRODUCED


def test_epochs_are_whole_and_kept_workers_have_one_to_warm_up() -> None:
    for setting in plan():
        size = setting.params.get("samples") or setting["few"]
        epoch = -(-int(size) // setting["batch_size"])
        assert setting.whole_epochs
        assert setting.batches % epoch == 0
        assert setting.warmup in (0, epoch)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_small_run_refines_its_plan() -> None:
    result = labkit.run("tiny_dataset", size="small", view="none")
    assert result.status is Status.COMPLETED
    params = {"workers": (0, 1, 2), "sizes": (64, 512), "few": 64, "slow_ms": 4.0}
    planned = settings(EXPERIMENT.resolve(params, size="small"), ENVIRONMENT)
    assert len(result.settings) >= len(planned)
    assert {each.claim for each in result.verdicts} == {"K8", "K32"}
    rates = result.summary.find(TENSORS, samples=512, workers=0)
    assert rates is not None
    assert len(rates.rates) == 3
