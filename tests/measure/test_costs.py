"""What workers cost, from hand-made events."""

from __future__ import annotations

from typing import Any

import pytest

from labkit.events import BatchBuilt, BatchLoaded, CountersSampled, MemorySampled, ProcessMemory
from labkit.measure.costs import costs_of


def loaded(epoch: int, batch: int, wait: float, samples: int = 10) -> BatchLoaded:
    return BatchLoaded(
        epoch=epoch, batch=batch, wait_seconds=wait, step_seconds=0.5, samples=samples,
        num_bytes=0, warmup=False, cpu_seconds=0.0,
    )  # fmt: skip


def built(worker: int, pid: int) -> BatchBuilt:
    return BatchBuilt(
        worker=worker, pid=pid, epoch=0, batch=0, started=0.0, fetch_seconds=0.0,
        transform_seconds=0.0, collate_seconds=0.0, done=0.0, handover_seconds=0.0, cpu_seconds=0.0,
    )  # fmt: skip


def memory(held: bool, **private: int) -> MemorySampled:
    processes = tuple(
        ProcessMemory(
            pid=int(name[1:]), role="child", rss=0, pss=0, anonymous=2 * size, private=size,
            shared=0,
        )
        for name, size in private.items()
    )  # fmt: skip
    return MemorySampled(
        processes=processes, shared_memory=0, cache=0, source="smaps", held=held
    )


def counters(held: bool, switches: int) -> CountersSampled:
    return CountersSampled(
        voluntary_switches=switches - 5, involuntary_switches=5, device_read_bytes=0, load=0.0,
        held=held,
    )  # fmt: skip


BATCHES: list[Any] = [
    (1.0, loaded(0, 0, 3.0)), (2.0, loaded(0, 1, 0.1)), (3.0, loaded(1, 0, 1.0)),
    (4.0, loaded(1, 1, 0.1)), (5.0, loaded(2, 0, 2.0)),
]  # fmt: skip


def test_first_waits_of_the_first_epoch_and_of_later_ones() -> None:
    found = costs_of(BATCHES, [], [], [])
    assert found is not None
    assert found.first_wait_seconds == 3.0
    assert found.later_wait_seconds == pytest.approx(1.5)
    assert found.worker_private_bytes is None


def test_memory_is_that_of_the_workers_at_the_first_held_moment() -> None:
    stamps = [built(0, 11), built(1, 12), built(-1, 10)]
    samples = [
        (0.5, memory(False, p11=1000)),
        (1.0, memory(True, p10=500, p11=30, p12=50, p13=700)),  # 13: a fork server
        (2.0, memory(True, p11=9000)),
    ]
    found = costs_of(BATCHES, stamps, samples, [])
    assert found is not None
    assert found.worker_private_bytes == 40
    assert found.worker_anonymous_bytes == 80


def test_switches_are_counted_between_held_moments() -> None:
    # The step of batch (0, 1) holds at 1.8, that of (1, 1) at 3.8: 2 batches of 10 lie between.
    counts = [(0.2, counters(False, 7)), (1.8, counters(True, 100)), (3.8, counters(True, 140))]
    found = costs_of(BATCHES, [], [], counts)
    assert found is not None
    assert found.switches_per_sample == pytest.approx(2.0)


def test_nothing_is_known_before_the_first_batch() -> None:
    assert costs_of([], [built(0, 11)], [], []) is None
