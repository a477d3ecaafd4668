"""How near each way of counting comes to the kernel's own count of a loader's memory.

A loader is held at a full queue (its consumer has one batch and waits), in a control group of its
own; then the group's anonymous and shared memory is compared with what is seen from outside.
``python benchmarks/memory_accuracy.py`` prints the table; it needs the right to make a group.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

from labkit.measure import processes
from labkit.measure.groups import TrialGroup
from labkit.measure.limits import GroupBound, open_bound
from labkit.measure.memory import sample_memory, shared_memory_bytes
from labkit.records import MECHANISMS, MemoryBudget

WORKERS, SAMPLE_MIB, PREFETCH = (0, 1, 2, 4), (64, 256), (1, 2, 4)
LIMIT_BYTES = 10 << 30
MIB = 1 << 20
_STILL_SECONDS = 0.4
_FILL_SECONDS = 60.0

LOADER = """
import sys, torch
from torch.utils.data import DataLoader
workers, mib, prefetch = map(int, sys.argv[1:])
class Blocks:
    def __len__(self): return 1000
    def __getitem__(self, index): return torch.ones(mib << 20, dtype=torch.uint8)
more = dict(prefetch_factor=prefetch) if workers else {}
iterator = iter(DataLoader(Blocks(), batch_size=1, num_workers=workers, **more))
batch = next(iterator)
print("held", flush=True)
input()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One loader at one moment, in bytes."""

    truth: int
    """Anonymous and shared memory, as the control group counts it."""
    total: int
    """Anonymous PSS plus shared memory once per inode."""
    pss: int
    rss: int
    in_flight: int
    """The shared memory alone."""


def kernel_bound() -> GroupBound | None:
    """A control group of our own, or None where none can be made."""
    for mechanism in (name for name in MECHANISMS if name.startswith("control group")):
        try:
            budget = MemoryBudget(limit_bytes=LIMIT_BYTES, mechanism=mechanism)
            bound = open_bound(budget, "accuracy", "0-0")
        except Exception:
            continue
        assert isinstance(bound, GroupBound)
        return bound
    return None


@contextmanager
def held_loader(bound: GroupBound, *arguments: int) -> Iterator[int]:
    """A loader in the group with a full queue: its main process, until the block is left."""
    command = [*bound.prefix, sys.executable, "-c", LOADER, *map(str, arguments)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            if process.stdout.readline() != b"held\n":
                raise RuntimeError(f"the loader ended with {process.wait()}")
            workers, mib, prefetch = arguments
            # Every worker's share of the queue, and the batch that the consumer has in hand.
            batches = workers * prefetch + 1 if workers else 0
            _wait_until_full(bound.group, process.pid, batches * mib * MIB)
            yield process.pid
        finally:
            tree = [*processes.descendants(process.pid), process.pid]
            processes.kill_all(tree)
            process.wait()
            processes.remove_shared_memory(tree)


def _wait_until_full(group: TrialGroup | None, pid: int, expected: int) -> None:
    """Until the queue holds what it can, all processes sleep, and the count stays for a while.

    A worker that still copies into a file that has its full length already must not be missed: it
    then frees the sample that it copied.
    """
    assert group is not None
    last, since = -1, time.monotonic()
    deadline = since + _FILL_SECONDS
    while time.monotonic() - since < _STILL_SECONDS and time.monotonic() < deadline:
        held = group.held_bytes() or 0
        tree = [pid, *processes.descendants(pid)]
        full = shared_memory_bytes(tree) >= expected
        asleep = all(psutil.Process(one).status() == psutil.STATUS_SLEEPING for one in tree)
        if not full or not asleep or abs(held - last) > MIB:
            last, since = held, time.monotonic()
        time.sleep(0.02)


def measure(workers: int, sample_mib: int, prefetch: int) -> Point | None:
    """Hold one loader and count its memory in every way; None where no group can be made."""
    bound = kernel_bound()
    if bound is None:
        return None
    try:
        with held_loader(bound, workers, sample_mib, prefetch) as pid:
            sampled = sample_memory([pid, *processes.descendants(pid)], pid, bound.group)
    finally:
        bound.close()
    assert sampled.group_bytes is not None
    return Point(
        truth=sampled.group_bytes,
        total=sampled.total,
        pss=sum(item.pss for item in sampled.processes),
        rss=sum(item.rss for item in sampled.processes),
        in_flight=sampled.shared_memory,
    )


def main() -> None:
    """Print the table: MiB, and each count's deviation from the kernel's."""
    print("workers sample prefetch   kernel  in flight |  anonymous PSS + shm  |  PSS  |  RSS")
    worst = 0.0
    for workers in WORKERS:
        for mib in SAMPLE_MIB:
            for prefetch in PREFETCH if workers else (0,):
                point = measure(workers, mib, prefetch)
                if point is None:
                    print("no control group can be made here")
                    return
                off = {
                    name: 100 * (getattr(point, name) / point.truth - 1)
                    for name in ("total", "pss", "rss")
                }
                worst = max(worst, abs(off["total"]))
                print(
                    f"{workers:7} {mib:6} {prefetch or '-':>8} {point.truth / MIB:8.0f} "
                    f"{point.in_flight / MIB:10.0f} | {point.total / MIB:8.0f} "
                    f"{off['total']:+6.2f} %     | {off['pss']:+5.0f} % | {off['rss']:+5.0f} %",
                    flush=True,
                )
    print(f"largest deviation of anonymous PSS + shared memory once: {worst:.2f} %")


if __name__ == "__main__":
    main()
