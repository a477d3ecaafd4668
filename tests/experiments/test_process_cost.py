"""The plan and the verdicts of process_cost, and a small run of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

import pytest

import labkit
from labkit.experiments.process_cost import EXPERIMENT, KEPT, available, judge, settings
from labkit.records import Environment, Outcome, Setting, Status
from labkit.summary import Costs, Interval, SettingSummary, StageSeconds, Summary, TrialSummary

NO_STAGES = StageSeconds(fetch=0, transform=0, collate=0, handover=0)
ENVIRONMENT = Environment(
    machine_id="test", cpu="test", logical_cores=2, usable_cores=2, affinity_cores=2,
    quota_cores=None, memory_total_bytes=8 << 30, memory_available_bytes=4 << 30,
    memory_limit_bytes=None, shm_total_bytes=1 << 30, shm_available_bytes=1 << 30,
    disk_available_bytes=10 << 30, os="Linux 6", python="3.11", torch="2.13", start_method="fork",
    load_cores=0.0,
)  # fmt: skip
START = {"fork": 0.05, "forkserver": 0.9, "forkserver + torch": 1.4, "spawn": 1.3}

needs_fork = pytest.mark.skipif("fork" not in available(), reason="this system has no fork")


def costs_on_linux(setting: Setting, turn: int) -> Costs:
    """What issue trackers and our own measurements say of Linux."""
    method, noise = setting["method"], 1 + 0.02 * turn
    pickled = 0.0 if method == "fork" else setting["megabytes"] * 1e6
    first = START[method] * noise
    return Costs(
        first_wait_seconds=first,
        later_wait_seconds=0.01 if setting["object"] == KEPT else first / 2,
        worker_private_bytes=11e6 + pickled * noise,
        worker_anonymous_bytes=11e6 + pickled * noise,
        switches_per_sample=4.0,
    )


def measured(
    costs: Callable[[Setting, int], Costs] = costs_on_linux,
    asked: Mapping[str, object] = MappingProxyType({}),
) -> Summary:
    planned = settings(EXPERIMENT.resolve(asked, size="full"), ENVIRONMENT)
    items = []
    for setting in planned:
        trials = tuple(
            TrialSummary(
                trial="000-0", setting=setting.key, repeat=turn, status=Status.COMPLETED, detail="",
                batches=1, samples=1, samples_per_second=1.0, first_batch_seconds=1.0,
                wait_share=0.5, cpu_seconds_per_sample=1e-3, peak_bytes=None, stages=NO_STAGES,
                launch="cold", costs=costs(setting, turn), facts={"switch_seconds": (2e-6,)},
            )
            for turn in range(3)
        )  # fmt: skip
        item = SettingSummary(
            setting=setting, trials=trials, status=Status.COMPLETED,
            samples_per_second=Interval(median=1, low=1, high=1), first_batch_seconds=1.0,
            wait_share=0.5, cpu_seconds_per_sample=1e-3, peak_bytes=None, stages=NO_STAGES,
        )  # fmt: skip
        items.append(item)
    return Summary(settings=tuple(items), warnings=(), load_cores=0.0)


@needs_fork
def test_what_is_known_of_linux_comes_out() -> None:
    found = {(each.claim, each.story): each for each in judge(measured(), ENVIRONMENT)}
    assert found["K3", "fork, the default here"].outcome is Outcome.REPRODUCED
    assert found["K4", "fork, array"].outcome is Outcome.NOT_REPRODUCED
    assert found["K4", "spawn, array"].outcome is Outcome.REPRODUCED
    assert found["K4", "spawn, array"].effect == pytest.approx(1.02, abs=0.03)
    assert found["K5", "fork"].outcome is Outcome.NOT_REPRODUCED
    assert found["K5", "fork"].effect == pytest.approx(4 * 2e-6 / 1e-3)
    assert found["K6", ""].outcome is Outcome.REPRODUCED
    assert found["K6", ""].effect == pytest.approx(1.3 / 0.05)


@needs_fork
@pytest.mark.parametrize("asked", [{"megabytes": [5], "list_megabytes": 5},
                                   {"megabytes": [5], "list_megabytes": 1}])  # fmt: skip
def test_datasets_that_are_no_heavier_tell_nothing_of_copies(asked: dict[str, object]) -> None:
    verdicts = [each for each in judge(measured(asked=asked), ENVIRONMENT) if each.claim == "K4"]
    assert {each.outcome for each in verdicts} == {Outcome.CANNOT_TELL}
    assert all("no heavy dataset was measured" in each.sentence for each in verdicts)


@needs_fork
def test_a_cold_first_round_is_told() -> None:
    def cold(setting: Setting, turn: int) -> Costs:
        found = costs_on_linux(setting, turn)
        assert found.first_wait_seconds is not None
        return replace(found, first_wait_seconds=found.first_wait_seconds * (3 if turn == 0 else 1))

    def says(summary: Summary) -> bool:
        reasons = judge(summary, ENVIRONMENT)[0].reasons
        return any("caches were cold" in reason for reason in reasons)

    assert says(measured(cold))
    assert not says(measured())


def test_the_default_of_each_python_is_told() -> None:
    reasons = judge(measured(), ENVIRONMENT)[0].reasons
    assert any("default of Python 3.11" in reason for reason in reasons)


def test_only_what_the_system_has_is_planned() -> None:
    assert available("win32") == ("spawn",)
    planned = settings(EXPERIMENT.resolve({}, size="full"), ENVIRONMENT)
    assert {setting["method"] for setting in planned} == set(available())


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(sys.platform != "linux", reason="reads private memory from /proc")
def test_a_small_run_sees_what_spawn_copies() -> None:
    result = labkit.run("process_cost", size="small", view="none", repeats=3, methods=["spawn"])
    assert result.status is Status.COMPLETED, result.detail
    found = {(each.claim, each.story): each for each in result.verdicts}
    assert found["K4", "spawn, array"].outcome is Outcome.REPRODUCED
    for item in result.summary:
        for trial in item.trials:
            assert trial.costs is not None
            assert trial.costs.worker_private_bytes
