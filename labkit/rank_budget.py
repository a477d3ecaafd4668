"""What ranks x workers ask of one machine, and how many workers are safe; arithmetic, no run.

It must not start processes and must not import torch. Its name is not `labkit.budget`: a module of
that name would hide the function `labkit.budget`.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from labkit.errors import ParameterError
from labkit.machine.descriptors import descriptor_limit
from labkit.measure.prediction import TYPICAL, Footprint
from labkit.measure.rank_limits import Job, batches_in_flight, limits_of, peak_of
from labkit.records import Environment

FORMAT = 1
"""Version of the JSON object that `labkit budget --json` prints."""

IMAGE_BYTES = 3 * 224 * 224 * 4  # 588 KiB
"""A colour image of 224 x 224 in float32: what a sample is taken for unless told."""


class Budget:
    """Ranks, workers and the limits of one machine. Its repr is some sentences and a table."""

    def __init__(
        self, job: Job, environment: Environment, descriptors: int | None, footprint: Footprint
    ) -> None:
        self.job, self.environment, self.footprint = job, environment, footprint
        self.processes = job.ranks * (1 + job.workers) + 1
        """Ranks, their workers, and torchrun's launcher."""
        self.cores_per_process = environment.usable_cores / (job.ranks * (1 + job.workers))
        """Without the launcher, which sleeps."""
        self.batches_in_flight = batches_in_flight(job, job.workers)
        """Of one rank, in shared memory at most: those of each worker, and the one in hand."""
        self.in_flight_bytes = job.ranks * self.batches_in_flight * job.batch_bytes
        """Shared memory of all ranks when every queue is full."""
        self.peak_bytes = peak_of(job, footprint, job.workers)
        """Lowest and highest peak of all processes, shared memory included."""
        self.limits = limits_of(job, environment, descriptors, footprint)

    @property
    def safe_workers(self) -> int | None:
        """The most workers per rank that keep within every limit; None: not even 0 do."""
        if not all(limit.possible for limit in self.limits):
            return None
        # The cores always set a bound.
        return min(limit.workers for limit in self.limits if limit.workers is not None)

    @property
    def reasons(self) -> tuple[str, ...]:
        """The limits that set the safe number of workers."""
        safe = self.safe_workers
        return tuple(
            limit.name for limit in self.limits
            if (not limit.possible if safe is None else limit.workers == safe)
        )  # fmt: skip

    @property
    def fits(self) -> bool:
        """Whether what was asked for keeps within every limit."""
        return not any(limit.exceeded for limit in self.limits)

    def to_json(self) -> dict[str, Any]:
        """The object that ``labkit budget --json`` prints."""
        return {
            "format": FORMAT,
            "asked": asdict(self.job),
            "usable_cores": self.environment.usable_cores,
            "processes": self.processes,
            "cores_per_process": self.cores_per_process,
            "batch_bytes": self.job.batch_bytes,
            "batches_in_flight_per_rank": self.batches_in_flight,
            "in_flight_bytes": self.in_flight_bytes,
            "peak_bytes": list(self.peak_bytes),
            "base_bytes": self.footprint.base_bytes,
            "worker_bytes": self.footprint.worker_bytes,
            "limits": [asdict(limit) | {"exceeded": limit.exceeded} for limit in self.limits],
            "fits": self.fits,
            "safe_workers": self.safe_workers,
            "reasons": list(self.reasons),
        }

    def __repr__(self) -> str:
        from labkit.view.budget_text import to_text

        return to_text(self)

    def _repr_html_(self) -> str:
        from labkit.view.budget_text import to_html

        return to_html(self)


def plan_budget(
    environment: Environment, *, ranks: int, workers: int, sample_bytes: int | str = IMAGE_BYTES,
    batch_size: int = 32, prefetch_factor: int = 2, tensors_per_batch: int = 2,
    descriptors: int | None = None,
) -> Budget:  # fmt: skip
    """The budget on a given machine; pure. See `budget` for the rest.

    Args:
        environment: of the machine.
        descriptors: how many files a process may have open; None: no such limit.

    Raises:
        ParameterError: a number or a size cannot be meant.
    """
    job = Job(
        ranks=_whole("ranks", ranks, 1),
        workers=_whole("workers", workers, 0),
        sample_bytes=_size("sample_bytes", sample_bytes),
        batch_size=_whole("batch_size", batch_size, 1),
        prefetch_factor=_whole("prefetch_factor", prefetch_factor, 1),
        tensors_per_batch=_whole("tensors_per_batch", tensors_per_batch, 1),
    )
    return Budget(job, environment, descriptors, _footprint(environment))


def _footprint(environment: Environment) -> Footprint:
    """Measured where the environment has it; a worker that is not forked imports all once more."""
    base, worker = environment.base_bytes, environment.worker_bytes
    base = TYPICAL.base_bytes if base is None else base
    if worker is None:
        worker = TYPICAL.worker_bytes if environment.start_method == "fork" else base
    return Footprint(base_bytes=base, worker_bytes=worker)


def budget(
    ranks: int = 8, workers: int = 8, sample_bytes: int | str = IMAGE_BYTES, *,
    batch_size: int = 32, prefetch_factor: int = 2, tensors_per_batch: int = 2,
) -> Budget:  # fmt: skip
    """What ranks x workers would ask of this machine, and the most workers that are safe.

    Nothing is started: the bounds are those of `labkit.measure.prediction`.

    Args:
        ranks: training processes on this host, usually one per accelerator.
        workers: loader workers of each rank; 0 loads in the rank itself.
        sample_bytes: of one sample as the worker hands it over; a number of bytes or a text such
            as ``1GiB``. An image of 224 x 224 in float32 unless given.
        batch_size: samples of one rank's batch.
        prefetch_factor: batches in flight for each worker.
        tensors_per_batch: how many a batch is made of, such as image and label.

    Raises:
        ParameterError: a number or a size cannot be meant.
    """
    from labkit.machine.environment import read_environment
    from labkit.machine.folders import data_folder

    return plan_budget(
        read_environment(data_folder(), load_seconds=0), ranks=ranks, workers=workers,
        sample_bytes=sample_bytes, batch_size=batch_size, prefetch_factor=prefetch_factor,
        tensors_per_batch=tensors_per_batch, descriptors=descriptor_limit(),
    )  # fmt: skip


def _whole(name: str, value: Any, least: int) -> int:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or value < least:
        raise ParameterError(
            asked=f"{name}={value!r}",
            found=f"it is below {least}" if whole else "it is not a whole number",
            do=f"give a whole number from {least}",
        )
    return int(value)


def _size(name: str, value: int | str) -> int:
    from data_gen.errors import SpecError
    from data_gen.sizes import parse_bytes

    if not isinstance(value, str):
        return _whole(name, value, 1)
    try:
        return _whole(name, parse_bytes(value), 1)
    except SpecError as error:
        raise ParameterError(asked=f"{name}={value!r}", found=error.found, do=error.do) from None
