"""Stamps fetch, transform and collate on unpatched torch; lives in trial processes only.

It must not be imported by the kernel (it imports torch), and must not alter the reader's objects.
"""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch.utils.data import Dataset, IterableDataset, default_collate, get_worker_info

_TRANSFORMS = ("transform", "transforms")
"""Where torchvision-style datasets keep what they apply to a sample."""


@dataclass(slots=True)
class StampedSample:
    """A sample on its way to collate, with what it cost; durations in seconds."""

    value: Any
    started: float
    total_seconds: float
    transform_seconds: float


@dataclass(slots=True)
class StampedBatch:
    """A batch on its way to the consumer, with what it cost; see `labkit.events.BatchBuilt`."""

    batch: Any
    worker: int
    pid: int
    samples: int
    started: float
    fetch_seconds: float
    transform_seconds: float
    collate_seconds: float
    done: float
    cpu_seconds: float

    def pin_memory(self, device: str | None = None) -> StampedBatch:
        """Pins what it carries: torch calls this on batches of a type that it does not know."""
        from torch.utils.data._utils.pin_memory import pin_memory

        self.batch = pin_memory(self.batch, device)  # type: ignore[no-untyped-call]
        return self


class _TimedTransform:
    """Adds up the seconds that a transform takes in this process."""

    def __init__(self, transform: Callable[..., Any]) -> None:
        self.transform = transform
        self.seconds = 0.0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return self.transform(*args, **kwargs)
        finally:
            self.seconds += time.perf_counter() - start


class _Stamping:
    """What the stamped datasets share: a copy of the dataset whose transforms are timed."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = copy.copy(dataset)
        self.timers: list[_TimedTransform] = []
        for name in _TRANSFORMS:
            transform = getattr(dataset, name, None)
            if callable(transform):
                timer = _TimedTransform(transform)
                setattr(self.dataset, name, timer)
                self.timers.append(timer)

    def stamp(self, get: Callable[[], Any]) -> StampedSample:
        """Run `get` and stamp what it returned."""
        started = time.monotonic()
        before = sum(timer.seconds for timer in self.timers)
        start = time.perf_counter()
        value = get()
        total = time.perf_counter() - start
        transform = sum(timer.seconds for timer in self.timers) - before
        return StampedSample(value, started, total, transform)


class StampedDataset(_Stamping, Dataset[Any]):
    """A map-style dataset whose samples carry their cost."""

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> StampedSample:
        return self.stamp(lambda: self.dataset[index])


class StampedBatchDataset(StampedDataset):
    """The same for datasets that fetch a whole batch at once (``__getitems__``)."""

    def __getitems__(self, indices: Sequence[Any]) -> list[StampedSample]:
        whole = self.stamp(lambda: self.dataset.__getitems__(indices))
        first, *rest = whole.value
        # The cost was paid for all of them at once: the first carries it.
        head = StampedSample(first, whole.started, whole.total_seconds, whole.transform_seconds)
        return [head, *(StampedSample(value, whole.started, 0.0, 0.0) for value in rest)]


class StampedIterable(_Stamping, IterableDataset[Any]):
    """An iterable dataset whose samples carry their cost."""

    def __iter__(self) -> Iterator[StampedSample]:
        iterator = iter(self.dataset)
        while True:
            try:
                sample = self.stamp(lambda: next(iterator))
            except StopIteration:
                return
            yield sample



class StampedCollate:
    """Collates stamped samples into a stamped batch."""

    def __init__(self, collate: Callable[[Any], Any]) -> None:
        self.collate = collate

    def __call__(self, items: Any) -> StampedBatch:
        samples: list[StampedSample] = items if isinstance(items, list) else [items]
        values = [sample.value for sample in samples]
        start = time.perf_counter()
        batch = self.collate(values if isinstance(items, list) else values[0])
        collate_seconds = time.perf_counter() - start
        transform = sum(sample.transform_seconds for sample in samples)
        worker = get_worker_info()
        return StampedBatch(
            batch=batch,
            worker=-1 if worker is None else worker.id,
            pid=os.getpid(),
            samples=len(samples),
            started=samples[0].started,
            fetch_seconds=sum(sample.total_seconds for sample in samples) - transform,
            transform_seconds=transform,
            collate_seconds=collate_seconds,
            done=time.monotonic(),
            cpu_seconds=time.process_time(),
        )


def stamped(
    dataset: Any, collate_fn: Callable[[Any], Any] | None = None
) -> tuple[Any, Callable[[Any], Any]]:
    """See `labkit.measure.instrument`, which is this without importing torch too early."""
    collate = StampedCollate(default_collate if collate_fn is None else collate_fn)
    if isinstance(dataset, IterableDataset):
        return StampedIterable(dataset), collate
    if hasattr(dataset, "__getitems__"):
        return StampedBatchDataset(dataset), collate
    return StampedDataset(dataset), collate
