"""Orders and overlaps from hand-made stamps."""

from __future__ import annotations

import pytest

from labkit.events import BatchBuilt, BatchLoaded
from labkit.measure.flow import flow_of, overlap_share


def built(batch: int, worker: int, started: float, done: float, *, epoch: int = 0) -> BatchBuilt:
    return BatchBuilt(
        worker=worker, pid=10 + worker, epoch=epoch, batch=batch, started=started,
        fetch_seconds=0.0, transform_seconds=0.0, collate_seconds=0.0, done=done,
        handover_seconds=0.0, cpu_seconds=0.0,
    )  # fmt: skip


def loaded(batch: int, requested: int, *, epoch: int = 0) -> BatchLoaded:
    return BatchLoaded(
        epoch=epoch, batch=batch, wait_seconds=0.0, step_seconds=1.0, samples=1, num_bytes=0,
        warmup=False, cpu_seconds=0.0, facts={"requested": requested},
    )  # fmt: skip


def test_builders_and_orders_are_those_of_the_first_epoch() -> None:
    stamps = [built(0, 0, 0.0, 1.0), built(1, 1, 0.5, 2.5), built(0, 0, 9.0, 9.5, epoch=1)]
    arrivals = [(2.0, loaded(0, 5)), (4.0, loaded(1, 6)), (10.5, loaded(0, 7, epoch=1))]
    flow = flow_of(9, arrivals, {(stamp.epoch, stamp.batch): stamp for stamp in stamps})
    assert flow is not None
    assert flow.workers == (0, 1)
    assert flow.pids == (10, 11)
    assert flow.main_pid == 9
    assert flow.in_flight == (5, 5)
    # The step from 1 to 2 lies within the building of batch 1, that from 3 to 4 within nothing.
    assert flow.overlap_share == pytest.approx(0.5)


def test_a_loader_without_stamps_has_no_flow() -> None:
    assert flow_of(9, [(2.0, loaded(0, 5))], {}) is None
    assert flow_of(None, [], {(0, 0): built(0, 0, 0.0, 1.0)}) is None


def test_overlap_counts_shared_time_once() -> None:
    assert overlap_share([(0, 4)], [(1, 2), (1.5, 3), (3.5, 9)]) == pytest.approx(2.5 / 4)
    assert overlap_share([(0, 1)], [(1, 2)]) == 0
    assert overlap_share([], [(1, 2)]) is None
