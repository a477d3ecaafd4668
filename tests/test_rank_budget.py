"""What ranks x workers ask of made-up machines, by hand, and the words that tell it."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

import labkit
from labkit.errors import ParameterError
from labkit.machine.descriptors import descriptor_limit
from labkit.measure.prediction import TYPICAL
from labkit.rank_budget import Budget, plan_budget
from labkit.records import Environment

MIB, GIB = 1 << 20, 1 << 30


def machine(**changes: Any) -> Environment:
    """64 cores, 64 GiB free beside the reserve of 1 GiB; processes weigh nothing."""
    values: dict[str, Any] = {
        "machine_id": "m", "cpu": "c", "logical_cores": 64, "usable_cores": 64,
        "affinity_cores": 64, "quota_cores": None, "memory_total_bytes": 100 * GIB,
        "memory_available_bytes": 65 * GIB, "memory_limit_bytes": None,
        "shm_total_bytes": 1000 * GIB, "shm_available_bytes": 1000 * GIB,
        "disk_available_bytes": 1, "os": "o", "python": "3", "torch": "2", "start_method": "fork",
        "load_cores": 0.0, "base_bytes": 0, "worker_bytes": 0,
    }  # fmt: skip
    return Environment(**values | changes)


def plan(environment: Environment, **changes: Any) -> Budget:
    asked: dict[str, Any] = {
        "ranks": 2, "workers": 4, "sample_bytes": "1GiB", "batch_size": 1, "prefetch_factor": 2,
    }  # fmt: skip
    return plan_budget(environment, **asked | changes)


def most(budget: Budget) -> list[int | None]:
    return [limit.workers for limit in budget.limits]


def test_processes_cores_and_batches_in_flight() -> None:
    found = plan(machine(usable_cores=16), ranks=8, workers=8, sample_bytes=MIB, batch_size=4)
    assert found.processes == 8 + 64 + 1
    assert found.cores_per_process == pytest.approx(16 / 72)
    assert found.job.batch_bytes == 4 * MIB
    assert found.batches_in_flight == 17
    assert found.in_flight_bytes == 8 * 17 * 4 * MIB
    assert found.peak_bytes == (8 * 17 * 4 * MIB, 8 * 25 * 4 * MIB)
    assert [limit.needed for limit in found.limits] == [
        64, 8 * 25 * 4 * MIB, 8 * 17 * 4 * MIB, 64 + 8 * 4 + 17 * 2
    ]  # fmt: skip


# At 2 ranks and prefetch 2: cores 2W, memory 2(3W + 1) GiB, shared memory 2(2W + 1) GiB.
@pytest.mark.parametrize(
    ("environment", "asked", "limits", "reason"),
    [
        (machine(usable_cores=9), {}, [4, 10, 249, 1024], "cores"),
        (machine(), {}, [32, 10, 249, 1024], "memory"),
        (machine(shm_available_bytes=32 * GIB), {}, [32, 10, 7, 1024], "/dev/shm"),
        # 64 + 4W + 2(2W + 1) of 256.
        (machine(), {"sample_bytes": 1, "descriptors": 256}, [32, 1024, 1024, 23],
         "file descriptors"),
    ],
)  # fmt: skip
def test_each_limit_binds(
    environment: Environment, asked: dict[str, Any], limits: list[int], reason: str
) -> None:
    found = plan(environment, **{"descriptors": 1 << 20} | asked)
    assert most(found) == limits
    assert found.safe_workers == min(limits)
    assert found.reasons == (reason,)
    at_most = plan(environment, **{"descriptors": 1 << 20} | asked, workers=min(limits))
    assert at_most.fits
    over = plan(environment, **{"descriptors": 1 << 20} | asked, workers=min(limits) + 1)
    assert [limit.name for limit in over.limits if limit.exceeded] == [reason]


def test_limits_that_bind_together_are_all_named() -> None:
    found = plan(machine(usable_cores=20), descriptors=None)
    assert most(found) == [10, 10, 249, None]
    assert found.reasons == ("cores", "memory")


def test_without_workers_nothing_is_shared() -> None:
    found = plan(machine(), workers=0)
    assert found.processes == 3
    assert found.cores_per_process == 32
    assert found.in_flight_bytes == 0
    assert found.peak_bytes == (4 * GIB, 6 * GIB)
    assert "none is in shared memory" in repr(found)


def test_fewer_cores_than_ranks_leave_no_worker() -> None:
    found = plan(machine(usable_cores=2), ranks=8, sample_bytes=MIB)
    assert (found.safe_workers, found.reasons) == (0, ("cores",))


def test_not_even_ranks_without_workers_may_fit() -> None:
    found = plan(machine(memory_available_bytes=6 * GIB), workers=0)  # 6 GiB and the reserve
    assert found.safe_workers is None
    assert found.reasons == ("memory",)
    assert "Not even ranks without workers are safe here, because of memory." in repr(found)
    assert "not even 0" in repr(found)
    assert found.to_json()["safe_workers"] is None


def test_what_processes_hold_is_counted() -> None:
    measured = plan(machine(base_bytes=100, worker_bytes=10), sample_bytes=1)
    assert measured.peak_bytes == (3 * 100 + 2 * (40 + 9), 3 * 100 + 2 * (40 + 13))
    guessed = plan(machine(base_bytes=None, worker_bytes=None))
    assert guessed.footprint == TYPICAL
    spawned = plan(machine(base_bytes=None, worker_bytes=None, start_method="spawn"))
    assert spawned.footprint.worker_bytes == TYPICAL.base_bytes


def test_the_reserve_is_that_of_the_tightest_limit() -> None:
    whole = machine(memory_limit_bytes=10 * GIB, memory_available_bytes=10 * GIB)
    assert plan(whole).limits[1].available == 10 * GIB - 512 * MIB  # a twentieth


def test_where_there_is_no_shared_memory_or_limit_of_files() -> None:
    found = plan(machine(shm_available_bytes=None), descriptors=None)
    assert most(found)[2:] == [None, None]
    assert repr(found).count("no limit") == 2


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"ranks": 0}, "below 1"),
        ({"workers": -1}, "below 0"),
        ({"workers": 1.5}, "not a whole number"),
        ({"workers": True}, "not a whole number"),
        ({"batch_size": "many"}, "not a whole number"),
        ({"prefetch_factor": 0}, "below 1"),
        ({"tensors_per_batch": 0}, "below 1"),
        ({"sample_bytes": "1 elephant"}, "not a number with a unit"),
        ({"sample_bytes": "0B"}, "below 1"),
        ({"sample_bytes": 1.5}, "not a whole number"),
    ],
)
def test_what_cannot_be_meant_is_refused(asked: dict[str, Any], found: str) -> None:
    with pytest.raises(ParameterError, match=found) as caught:
        plan(machine(), **asked)
    assert next(iter(asked)) in caught.value.asked


def test_the_text_has_the_numbers() -> None:
    lines = repr(plan(machine(usable_cores=4), ranks=8, workers=8)).splitlines()
    assert lines[:4] == [
        "8 ranks x 8 workers: 73 processes (8 ranks, 64 workers and torchrun's launcher) on "
        "4 usable cores, 0.056 cores for each rank and worker.",
        "Up to 17 batches of 1 GiB are in flight in each rank, 136 GiB of shared memory in all; "
        "all processes hold 136 GiB to 200 GiB at the peak.",
        "This goes over the limit of cores and memory.",
        "At most 0 workers per rank are safe, because of cores. The limit of the cores is meant "
        "for workers that compute; those that wait for storage may be more.",
    ]
    rows = {line.split("  ")[0]: line.split() for line in lines[6:10]}
    assert rows["cores"] == ["cores", "4", "64", "over", "0"]
    assert rows["memory"] == ["memory", "64", "GiB", "200", "GiB", "over", "2"]
    assert rows["/dev/shm"] == ["/dev/shm", "0.977", "TiB", "136", "GiB", "62"]


def test_html_holds_the_same() -> None:
    told = plan(machine())._repr_html_()
    assert told.count("<tr>") == 5
    assert "This keeps within every limit." in told
    assert "torchrun&#x27;s" in told


def test_json_holds_every_limit() -> None:
    raw = json.loads(json.dumps(plan(machine(), descriptors=4096).to_json()))
    assert raw["format"] == 1
    assert raw["asked"]["sample_bytes"] == GIB
    assert [limit["name"] for limit in raw["limits"]] == [
        "cores", "memory", "/dev/shm", "file descriptors"
    ]  # fmt: skip
    assert raw["limits"][3]["available"] == 4096
    assert (raw["safe_workers"], raw["reasons"], raw["fits"]) == (10, ["memory"], True)


def test_this_machine_is_read() -> None:
    found = labkit.budget(ranks=1, workers=1)
    assert found.job.batch_bytes == 32 * 3 * 224 * 224 * 4
    assert found.environment.usable_cores >= 1
    assert found.limits[3].available == descriptor_limit()


@pytest.mark.skipif(sys.platform == "win32", reason="no such limit there")
def test_the_limit_of_files_is_the_soft_one(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    monkeypatch.setattr(resource, "getrlimit", lambda _: (123, 456))
    assert descriptor_limit() == 123
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, 456))
    assert descriptor_limit() is None
