"""The plan and the verdicts of rank_oversubscription, and a small run of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

import pytest

import labkit
from labkit.experiments.rank_oversubscription import EXPERIMENT, predicted_bytes, settings
from labkit.measure.rank_verdicts import judge_ranks
from labkit.records import Environment, Outcome, Setting, Status, Verdict
from labkit.summary import (
    Interval,
    RankFacts,
    SettingSummary,
    StageSeconds,
    Summary,
    TrialSummary,
)

NO_STAGES = StageSeconds(fetch=0, transform=0, collate=0, handover=0)
ENVIRONMENT = Environment(
    machine_id="test", cpu="test", logical_cores=2, usable_cores=2, affinity_cores=2,
    quota_cores=None, memory_total_bytes=32 << 30, memory_available_bytes=24 << 30,
    memory_limit_bytes=None, shm_total_bytes=1 << 30, shm_available_bytes=1 << 30,
    disk_available_bytes=10 << 30, os="Linux 6", python="3.11", torch="2.13", start_method="fork",
    load_cores=0.0,
)  # fmt: skip

Rate = Callable[[int, int], float]


def planned(environment: Environment, **asked: object) -> list[Setting]:
    return list(settings(EXPERIMENT.resolve(asked, size="full"), environment))


def crowded(ranks: int, workers: int) -> float:
    """Images per second of a machine on which every worker beyond the second takes 2 %."""
    return 800 / (1 + 0.02 * ranks * max(0, workers - 1))


def measured(
    rate: Rate = crowded,
    first: Rate = lambda ranks, workers: 0.02 * ranks * workers,
    allreduce: Rate = lambda ranks, workers: 0.01 * ranks,
    asked: Mapping[str, object] = MappingProxyType({}),
) -> Summary:
    items = []
    for setting in planned(ENVIRONMENT, **asked):
        ranks, workers = setting["ranks"], setting["workers"]
        trials = tuple(
            TrialSummary(
                trial=f"000-{turn}", setting=setting.key, repeat=turn, status=Status.COMPLETED,
                detail="", batches=1, samples=1, wait_share=0.5, cpu_seconds_per_sample=4e-3,
                samples_per_second=rate(ranks, workers) * (1 + 0.01 * turn * (workers % 2)),
                first_batch_seconds=first(ranks, workers), peak_bytes=None, stages=NO_STAGES,
                launch="ranks", facts={"switch_seconds": (2e-6,)},
                ranks=RankFacts(
                    hosts=("a",) * ranks, workers=(workers,) * ranks, steps=(26,) * ranks,
                    step_seconds_95=0.1, meeting_seconds=0.01, throttled=None,
                    allreduce_seconds=allreduce(ranks, workers) * (1 + 0.01 * turn),
                    involuntary_per_sample=35.0, voluntary_per_sample=5.0,
                ),
            )
            for turn in range(3)
        )  # fmt: skip
        middle = trials[1].samples_per_second or 0.0
        items.append(
            SettingSummary(
                setting=setting, trials=trials, status=Status.COMPLETED,
                samples_per_second=Interval(median=middle, low=middle, high=middle),
                first_batch_seconds=0.0, wait_share=0.5, cpu_seconds_per_sample=4e-3,
                peak_bytes=None, stages=NO_STAGES,
            )
        )
    return Summary(settings=tuple(items), warnings=(), load_cores=0.0)


def judged(summary: Summary) -> dict[tuple[str, str], Verdict]:
    return {(each.claim, each.story): each for each in judge_ranks(summary, ENVIRONMENT)}


def test_the_map_is_whole_where_it_fits() -> None:
    cells = {(item["ranks"], item["workers"]) for item in planned(ENVIRONMENT)}
    assert cells == {(r, w) for r in (1, 2, 4, 8) for w in (0, 1, 2, 4, 8)}
    assert all(item.ranks == item["ranks"] for item in planned(ENVIRONMENT))
    assert not any(item.note for item in planned(ENVIRONMENT))


def test_the_usable_cores_are_among_the_workers() -> None:
    found = planned(replace(ENVIRONMENT, usable_cores=12))
    assert {item["workers"] for item in found} == {0, 1, 2, 4, 8, 12}


def test_what_takes_over_half_of_the_free_memory_is_left_out_and_named() -> None:
    limit = predicted_bytes(8, 4, ENVIRONMENT)
    found = planned(replace(ENVIRONMENT, memory_available_bytes=2 * limit))
    cells = {(item["ranks"], item["workers"]) for item in found}
    assert (8, 4) in cells
    assert (8, 8) not in cells
    assert all("8 x 8 (73 processes, " in item.note for item in found)
    assert all(item.predicted_peak_bytes[0] <= limit for item in found if item.predicted_peak_bytes)
    assert len(planned(replace(ENVIRONMENT, memory_available_bytes=1))) == 1, "never nothing"


def test_a_crowded_machine() -> None:
    found = judged(measured())
    steady = found["K8", "8 ranks, steady"]
    assert steady.outcome is Outcome.REPRODUCED
    assert steady.effect == pytest.approx(1 / (1 + 0.02 * 8 * 7), rel=0.03)
    assert "8 x 8 against 8 x" in steady.sentence
    epoch = found["K8", "8 ranks, epoch of 2048 images"]
    assert epoch.effect is not None
    assert steady.effect is not None
    assert epoch.effect < steady.effect, "the start of 64 workers counts there"
    assert found["K28", ""].outcome is Outcome.REPRODUCED
    assert "8 x 8 had 64 loader processes" in found["K28", ""].sentence
    assert found["K29", "8 ranks"].outcome is Outcome.NOT_REPRODUCED
    assert any("makes 16 workers" in reason for reason in found["K29", "8 ranks"].reasons)
    assert found["K5", "8 x 8"].effect == pytest.approx(40 * 2e-6 / 4e-3)
    assert found["K5", "8 x 8"].outcome is Outcome.NOT_REPRODUCED
    assert found["K30", "8 ranks"].outcome is Outcome.NOT_REPRODUCED


def test_a_roomy_machine() -> None:
    found = judged(
        measured(
            rate=lambda ranks, workers: 100.0 * ranks * (1 + workers),
            allreduce=lambda ranks, workers: 0.01 * ranks * (1 + workers),
        )
    )
    assert found["K8", "8 ranks, steady"].outcome is Outcome.NOT_REPRODUCED
    assert found["K29", "8 ranks"].outcome is Outcome.REPRODUCED
    assert found["K30", "8 ranks"].outcome is Outcome.REPRODUCED
    assert found["K30", "8 ranks"].effect == pytest.approx(9)


def test_a_rank_that_lacks_a_worker_is_counted() -> None:
    summary = measured(asked={"ranks": [2], "workers": [0, 1]})
    last = summary.settings[-1]
    assert last.trials[0].ranks is not None
    lacking = replace(last.trials[0], ranks=replace(last.trials[0].ranks, workers=(1, 0)))
    broken = replace(last, trials=(lacking, *last.trials[1:]))
    verdict = judged(replace(summary, settings=(*summary.settings[:-1], broken)))["K28", ""]
    assert verdict.outcome is Outcome.NOT_REPRODUCED
    assert verdict.sentence.startswith("2 of 3 trials")


def test_cells_that_are_missing_cannot_tell() -> None:
    found = judged(measured(asked={"ranks": [8], "workers": [8]}))
    assert found["K28", ""].outcome is Outcome.REPRODUCED
    for key in (("K8", "8 ranks, steady"), ("K29", "8 ranks"), ("K30", "8 ranks")):
        assert found[key].outcome is Outcome.CANNOT_TELL
        assert found[key].reasons


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_small_run_counts_every_ranks_own_workers() -> None:
    result = labkit.run("rank_oversubscription", size="small", view="none")
    assert result.status is Status.COMPLETED, result.detail
    verdicts = {(each.claim, each.story): each for each in result.verdicts}
    assert verdicts["K28", ""].outcome is Outcome.REPRODUCED
    assert {claim for claim, _ in verdicts} == set(EXPERIMENT.claims)
    for item in result.summary:
        assert len(item.rates) == 3
        assert item.peak_bytes is not None
        for trial in item.trials:
            assert trial.ranks is not None
            assert trial.ranks.workers == (item.setting["workers"],) * item.setting["ranks"]
            assert trial.ranks.allreduce_seconds is not None
            assert trial.ranks.step_seconds_95 is not None
            assert trial.first_batch_seconds is not None
