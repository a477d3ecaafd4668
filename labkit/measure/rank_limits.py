"""What ranks x workers need of each thing that runs out, and how many workers fit; arithmetic.

Pure: it must not look at the machine, and must not import torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from labkit.measure.prediction import Footprint, predicted_peak, shared_when_full
from labkit.measure.watchdog import reserve_bytes
from labkit.records import Environment
from labkit.units import format_bytes

MOST_WORKERS = 1024
"""Of one rank, that are looked at."""

CORES, MEMORY, SHARED_MEMORY, DESCRIPTORS = "cores", "memory", "/dev/shm", "file descriptors"

# Counted with torch 2.13 on Linux, 0 to 8 workers, 1 to 4 tensors a batch: the consumer has 4 open
# for each worker (a queue's two ends, two sentinels), and one for every tensor that lies in shared
# memory and has reached it: all but those still in workers, at worst all in flight.
_DESCRIPTORS_OF_A_RANK, _DESCRIPTORS_OF_A_WORKER = 64, 4
_LONG = 1 << 40
"""Batches of an epoch that is never too short to fill its queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One of the things that run out."""

    name: str
    unit: str
    """``bytes`` or ``count``."""
    available: int | None
    """None: not limited on this system."""
    needed: int
    """By what was asked for."""
    workers: int | None
    """The most per rank that keep within it, `MOST_WORKERS` are looked at; None: it sets no bound.
    0 also where not even ranks without workers fit: see `possible`."""
    possible: bool
    """Whether ranks without workers keep within it."""
    counted: str
    """What `needed` counts."""

    @property
    def exceeded(self) -> bool:
        """Whether what was asked for needs more than there is."""
        return self.available is not None and self.needed > self.available


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is asked for."""

    ranks: int
    workers: int
    sample_bytes: int
    batch_size: int
    prefetch_factor: int
    tensors_per_batch: int

    @property
    def batch_bytes(self) -> int:
        """Of one batch."""
        return self.sample_bytes * self.batch_size


def limits_of(
    job: Job, environment: Environment, descriptors: int | None, footprint: Footprint
) -> tuple[Limit, ...]:
    """Cores, memory, shared memory and file descriptors, in this order.

    Args:
        job: what is asked for.
        environment: of the machine.
        descriptors: how many files a process may have open; None: no such limit.
        footprint: what processes hold without samples.
    """
    return (
        _cores(job, environment), _memory(job, environment, footprint),
        _shared_memory(job, environment), _descriptors(job, descriptors),
    )  # fmt: skip


def batches_in_flight(job: Job, workers: int) -> int:
    """Batches of one rank that lie in shared memory when its queue is full."""
    return shared_when_full(workers, job.prefetch_factor, 1, _LONG)


def peak_of(job: Job, footprint: Footprint, workers: int) -> tuple[int, int]:
    """Of all ranks, and the launcher, which has imported torch as they have."""
    low, high = predicted_peak(
        workers=workers, prefetch_factor=job.prefetch_factor, batch_bytes=job.batch_bytes,
        batches=_LONG, footprint=footprint,
    )  # fmt: skip
    return (job.ranks * low + footprint.base_bytes, job.ranks * high + footprint.base_bytes)


def _limit(
    name: str, unit: str, available: int | None, job: Job, need: Callable[[int], int], counted: str
) -> Limit:
    """Look for the most workers; `need` never falls when workers are added."""
    workers = None
    if available is not None:
        low, high = 0, MOST_WORKERS  # low fits, or is 0
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if need(middle) <= available else (low, middle - 1)
        workers = low
    return Limit(
        name=name, unit=unit, available=available, needed=need(job.workers), workers=workers,
        possible=available is None or need(0) <= available, counted=counted,
    )  # fmt: skip


def _cores(job: Job, environment: Environment) -> Limit:
    return _limit(
        CORES, "count", environment.usable_cores, job, lambda workers: job.ranks * workers,
        "ranks x workers, a core for each worker",
    )  # fmt: skip


def _memory(job: Job, environment: Environment, footprint: Footprint) -> Limit:
    whole = environment.memory_total_bytes
    if environment.memory_limit_bytes is not None:
        whole = min(whole, environment.memory_limit_bytes)
    reserve = reserve_bytes(whole)
    base, worker = map(format_bytes, (footprint.base_bytes, footprint.worker_bytes))
    return _limit(
        MEMORY, "bytes", max(0, environment.memory_available_bytes - reserve), job,
        lambda workers: peak_of(job, footprint, workers)[1],
        "highest peak: in each rank workers x prefetch + 1 batches in flight and one that each "
        f"worker builds (3 without workers), {base} a rank and the launcher, {worker} a worker; "
        f"the model is not counted; {format_bytes(reserve)} of what is free is kept free",
    )  # fmt: skip


def _shared_memory(job: Job, environment: Environment) -> Limit:
    return _limit(
        SHARED_MEMORY, "bytes", environment.shm_available_bytes, job,
        lambda workers: job.ranks * batches_in_flight(job, workers) * job.batch_bytes,
        "all ranks' workers x prefetch + 1 batches in flight",
    )  # fmt: skip


def _descriptors(job: Job, available: int | None) -> Limit:
    def need(workers: int) -> int:
        own = _DESCRIPTORS_OF_A_RANK + workers * _DESCRIPTORS_OF_A_WORKER
        return own + batches_in_flight(job, workers) * job.tensors_per_batch

    return _limit(
        DESCRIPTORS, "count", available, job, need,
        f"open in one rank's process: {job.tensors_per_batch} per batch in flight (one a tensor), "
        f"{_DESCRIPTORS_OF_A_WORKER} a worker, {_DESCRIPTORS_OF_A_RANK} else",
    )  # fmt: skip
