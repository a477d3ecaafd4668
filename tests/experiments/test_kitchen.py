"""The kitchen's verdicts on made-up flows, and a small run of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

import labkit
from labkit.experiments.kitchen import EXPERIMENT, Orders, judge, settings
from labkit.records import Environment, Outcome, Status, Verdict
from labkit.summary import Flow, Interval, SettingSummary, StageSeconds, Summary, TrialSummary

MAIN = 99
NO_STAGES = StageSeconds(fetch=0, transform=0, collate=0, handover=0)
ENVIRONMENT = Environment(
    machine_id="test", cpu="test", logical_cores=2, usable_cores=2, affinity_cores=2,
    quota_cores=None, memory_total_bytes=8 << 30, memory_available_bytes=4 << 30,
    memory_limit_bytes=None, shm_total_bytes=1 << 30, shm_available_bytes=1 << 30,
    disk_available_bytes=10 << 30, os="test", python="3.11", torch="2.13", start_method="fork",
    load_cores=0.0,
)  # fmt: skip


def flow(workers: int) -> Flow:
    """What torch does with this many workers and a prefetch factor of 2."""
    builders = tuple(k % workers if workers else -1 for k in range(8))
    return Flow(
        workers=builders,
        pids=tuple(MAIN if worker < 0 else worker for worker in builders),
        main_pid=MAIN,
        in_flight=(2 * workers + 1,) * 8,
        overlap_share=0.6 if workers else 0.0,
    )


def summary(flows: dict[int, Flow], first: dict[int, int] | None = None) -> Summary:
    planned = settings(EXPERIMENT.resolve({"workers": list(flows)}, size="full"), ENVIRONMENT)
    items = []
    for setting in planned:
        workers = setting["workers"]
        on_order = (first or {}).get(workers, 2 * workers)
        trial = TrialSummary(
            trial="000-0", setting=setting.key, repeat=0, status=Status.COMPLETED, detail="",
            batches=8, samples=8, samples_per_second=1.0, first_batch_seconds=0.1, wait_share=0.5,
            cpu_seconds_per_sample=0.1, peak_bytes=None, stages=NO_STAGES, launch="forked",
            flow=flows[workers], facts={"requested_first": (float(on_order),) * 8},
        )  # fmt: skip
        item = SettingSummary(
            setting=setting, trials=(trial,), status=Status.COMPLETED,
            samples_per_second=Interval(median=1, low=1, high=1), first_batch_seconds=0.1,
            wait_share=0.5, cpu_seconds_per_sample=0.1, peak_bytes=None, stages=NO_STAGES,
        )  # fmt: skip
        items.append(item)
    return Summary(settings=tuple(items), warnings=(), load_cores=None)


def verdict(found: tuple[Verdict, ...], claim: str, story: str) -> Outcome:
    (one,) = [each for each in found if (each.claim, each.story) == (claim, story)]
    return one.outcome


def test_what_torch_does_is_reproduced() -> None:
    found = judge(summary({0: flow(0), 1: flow(1), 2: flow(2)}), ENVIRONMENT)
    assert {each.outcome for each in found} == {Outcome.REPRODUCED}


WRONG = {
    ("K1", ""): {0: replace(flow(0), pids=(1,) * 8)},
    ("K1", "", "overlap"): {0: replace(flow(0), overlap_share=0.1)},
    ("K2", "order"): {2: replace(flow(2), workers=(1, 0) * 4)},
    ("K2", "processes"): {2: replace(flow(2), pids=(0, MAIN) * 4)},
    ("K2", "in flight"): {2: replace(flow(2), in_flight=(4,) * 8)},
}


@pytest.mark.parametrize("wrong", WRONG)
def test_one_deviation_is_enough(wrong: tuple[str, ...]) -> None:
    flows = {0: flow(0), 1: flow(1), 2: flow(2)} | WRONG[wrong]
    found = judge(summary(flows), ENVIRONMENT)
    assert verdict(found, wrong[0], wrong[1]) is Outcome.NOT_REPRODUCED
    assert sum(each.outcome is not Outcome.REPRODUCED for each in found) == 1


def test_orders_before_the_first_batch_are_counted() -> None:
    found = judge(summary({2: flow(2)}, first={2: 5}), ENVIRONMENT)
    assert verdict(found, "K2", "before the first") is Outcome.NOT_REPRODUCED
    assert verdict(found, "K1", "") is Outcome.CANNOT_TELL


def test_a_sampler_counts_what_is_asked_of_it() -> None:
    orders = Orders()
    orders.batches, orders.batch_size = 3, 2
    batches = iter(orders)
    assert (next(batches), orders.requested) == ([0, 1], 1)
    assert (list(batches), orders.requested) == ([[2, 3], [4, 5]], 3)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_small_run_reproduces_all_of_it() -> None:
    result = labkit.run(
        "kitchen", size="small", view="none", repeats=1, predict={0: 1, 1: 1, 2: 2}
    )
    assert len(result.guesses) == 3
    assert labkit.load(result.path).guesses == result.guesses, "they stay with the run"
    assert result.status is Status.COMPLETED
    assert {each.outcome for each in result.verdicts} == {Outcome.REPRODUCED}
