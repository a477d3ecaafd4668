"""The bounds of a loader's memory: by hand, and against a real loader that is held."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from labkit.measure.footprint import measure_footprint
from labkit.measure.memory import sample_memory
from labkit.measure.prediction import (
    TYPICAL,
    Footprint,
    outlook_of,
    predicted_peak,
    shared_when_full,
    warning_of,
)
from labkit.measure.processes import descendants
from labkit.records import MemoryBudget, Setting

MIB = 1 << 20
LOCKS = 256 << 10
NOTHING = Footprint(base_bytes=0, worker_bytes=0)


@pytest.mark.parametrize(
    ("workers", "prefetch", "batches", "low", "high"),
    [
        (0, 2, 24, 2, 3),
        (1, 2, 24, 3, 4),
        (2, 2, 24, 5, 7),
        (4, 2, 24, 9, 13),
        (8, 2, 24, 17, 25),
        (8, 2, 4, 4, 8),  # a short epoch never fills the queue (measured: 7.2)
        (2, 4, 24, 9, 11),
        (0, 2, 1, 1, 2),
    ],
)
def test_the_bounds_in_batches(
    workers: int, prefetch: int, batches: int, low: int, high: int
) -> None:
    found = predicted_peak(
        workers=workers, prefetch_factor=prefetch, batch_bytes=10, batches=batches,
        footprint=NOTHING,
    )  # fmt: skip
    assert found == (low * 10, high * 10)


def test_what_is_held_without_samples_is_added() -> None:
    footprint = Footprint(base_bytes=1000, worker_bytes=100)
    found = predicted_peak(
        workers=2, prefetch_factor=2, batch_bytes=10, batches=24, footprint=footprint
    )
    assert found == (1250, 1270)


def test_what_a_loop_allocates_beside_raises_the_upper_bound_alone() -> None:
    footprint = Footprint(base_bytes=1000, worker_bytes=100, loop_bytes=7)
    for workers, expected in ((0, (1020, 1037)), (2, (1250, 1277))):
        found = predicted_peak(
            workers=workers, prefetch_factor=2, batch_bytes=10, batches=24, footprint=footprint
        )
        assert found == expected


def test_a_memory_map_is_copied_once() -> None:
    found = [
        predicted_peak(workers=workers, prefetch_factor=2, batch_bytes=10, batches=24,
                       footprint=NOTHING, copied=False)
        for workers in (0, 2)
    ]  # fmt: skip
    assert found == [(20, 20), (50, 50)]


def setting(low: int, high: int, limit: int | None, story: str = "") -> Setting:
    return Setting(
        params={"workers": 8}, label="8 workers", story=story, predicted_peak_bytes=(low, high),
        budget=MemoryBudget(limit_bytes=limit) if limit else None,
    )  # fmt: skip


def test_the_warning_says_what_will_not_fit() -> None:
    gib = 1 << 30
    text = warning_of(setting(17 * gib, 25 * gib, 9 * gib))
    assert text == "8 workers: up to 25 GiB, limit 9 GiB: this will not fit"
    assert warning_of(setting(5 * gib, 10 * gib, 9 * gib)).endswith("this may not fit")
    assert warning_of(setting(5 * gib, 10 * gib, 9 * gib, "memory")).startswith("memory, 8 w")


def test_what_fits_or_has_no_limit_needs_no_warning() -> None:
    assert warning_of(setting(5, 9, 9)) == ""
    assert warning_of(setting(5, 9, None)) == ""
    assert warning_of(Setting(params={}, label="", budget=MemoryBudget(limit_bytes=1))) == ""


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_footprint_is_measured() -> None:
    found = measure_footprint(("labkit.datasets.map_style",))
    assert found is not None
    assert 40 * MIB < found.base_bytes < 2000 * MIB
    assert MIB < found.worker_bytes < found.base_bytes
    assert measure_footprint(("labkit.datasets.map_style",)) is found
    assert measure_footprint(("no.such.module",)) is None


# A loader of zeros whose consumer waits for a line on stdin before each batch that it takes.
LOADER = """
import sys, numpy, torch
from torch.utils.data import DataLoader
workers, prefetch, size, batches = map(int, sys.argv[1:])
class Volumes:
    def __len__(self): return batches
    def __getitem__(self, index): return torch.from_numpy(numpy.full(size, index, dtype="u1"))
torch.set_num_threads(1)
held = None
loader = iter(DataLoader(Volumes(), num_workers=workers,
                         prefetch_factor=prefetch if workers else None))
for _ in range(batches):
    if not sys.stdin.readline(): break
    held = next(loader)
    print("took", flush=True)
sys.stdin.readline()
"""


@contextmanager
def consumer(*arguments: int) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", LOADER, *map(str, arguments)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with process:
        try:
            yield process
        finally:
            for pid in (*descendants(process.pid), process.pid):
                subprocess.run(["kill", "-9", str(pid)], check=False, stderr=subprocess.DEVNULL)


def take(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"took\n"


def totals(process: subprocess.Popen[bytes], until: int, seconds: float) -> tuple[int, int]:
    """Shared memory and the highest total, looked at until so much is shared."""
    deadline, highest, shared = time.monotonic() + seconds, 0, 0
    while shared < until and time.monotonic() < deadline:
        sampled = sample_memory([process.pid, *descendants(process.pid)], process.pid)
        highest, shared = max(highest, sampled.total), sampled.shared_memory
    return shared, highest


@pytest.mark.limits
@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="reads /proc")
@pytest.mark.timeout(120)
@pytest.mark.parametrize(("workers", "prefetch"), [(1, 2), (2, 1), (2, 2), (4, 2), (2, 4)])
def test_a_held_full_queue_is_as_predicted(workers: int, prefetch: int) -> None:
    size, batches = 32 * MIB, workers * (prefetch + 2) + 2
    footprint = measure_footprint() or TYPICAL
    low, high = predicted_peak(
        workers=workers, prefetch_factor=prefetch, batch_bytes=size, batches=batches,
        footprint=footprint,
    )  # fmt: skip
    full = shared_when_full(workers, prefetch, size, batches)
    with consumer(workers, prefetch, size, batches) as process:
        take(process)
        shared, peak = totals(process, full, 30)
        sampled = sample_memory([process.pid, *descendants(process.pid)], process.pid)
        _, later = totals(process, full + size, 0.5)
    # Exactly W x P + 1 batches, and a page for each lock of the queues.
    assert 0 <= shared - full < LOCKS
    assert 0 <= sampled.shared_memory - full < LOCKS
    peak = max(peak, later)
    assert 0.75 * high <= peak <= high * 1.02
    assert peak >= 0.98 * low


def test_the_outlook_tells_the_largest_setting() -> None:
    def setting(ranks: int, workers: int, peak: int | None, note: str = "") -> Setting:
        return Setting(
            params={"workers": workers, "ranks": ranks}, label=f"{ranks} x {workers}", ranks=ranks,
            predicted_peak_bytes=None if peak is None else (1, peak), note=note,
        )  # fmt: skip

    assert outlook_of([]) == ""
    assert outlook_of([setting(8, 8, None)]) == ""
    told = outlook_of([setting(8, 8, 3 << 30, "left out: 64 x 8"), setting(1, 0, 1 << 20)])
    assert told == "8 x 8: 73 processes, up to 3 GiB expected; left out: 64 x 8"
    assert outlook_of([setting(0, 2, 1 << 30)]).startswith("0 x 2: 3 processes")
