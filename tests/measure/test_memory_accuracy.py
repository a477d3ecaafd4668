"""What is counted from outside against the control group's own count, at a full queue."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

MIB = 1 << 20

pytestmark = [
    pytest.mark.slow,
    pytest.mark.limits,
    pytest.mark.skipif(sys.platform != "linux", reason="control groups are Linux's"),
]


@pytest.fixture(scope="module")
def accuracy() -> ModuleType:
    """The benchmark that prints the entire table."""
    path = Path(__file__).parents[2] / "benchmarks" / "memory_accuracy.py"
    spec = importlib.util.spec_from_file_location("memory_accuracy", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["memory_accuracy"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("workers", "sample_mib", "prefetch"),
    [(0, 256, 0), (1, 64, 1), (1, 256, 4), (2, 64, 2), (2, 256, 1), (4, 64, 4), (4, 256, 2)],
)
def test_the_total_is_what_the_kernel_counts(
    accuracy: ModuleType, workers: int, sample_mib: int, prefetch: int
) -> None:
    point = accuracy.measure(workers, sample_mib, prefetch)
    if point is None:
        reason = "this user may not make a control group here"
        if os.environ.get("LABKIT_REQUIRE_LIMITS"):
            pytest.fail(f"{reason}, and LABKIT_REQUIRE_LIMITS is set")
        pytest.skip(reason)
    assert point.total == pytest.approx(point.truth, rel=0.02)
    # Every worker's share of the queue is full, and the consumer has one batch in hand.
    batches = workers * prefetch + 1 if workers else 0
    assert 0 <= point.in_flight - batches * sample_mib * MIB < MIB, "beside it: semaphores"
    if workers:
        assert point.pss < 0.9 * point.truth, "PSS alone misses what nobody maps"
