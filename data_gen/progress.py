"""How far a build has come; must not draw or print anything."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from data_gen.spec import DatasetSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One message to the progress callback."""

    done_bytes: int
    total_bytes: int
    """Exact for volumes; an estimate for images and text until the last message."""
    done_samples: int
    total_samples: int
    bytes_per_second: float
    """Mean since the build began; 0 in the first message."""
    seconds_left: float | None
    """None while nothing is known."""


ProgressCallback = Callable[[Progress], None]


class Meter:
    """Counts what is done and tells the callback, at most every `interval_seconds`.

    Args:
        spec: what is being made.
        callback: receives each Progress, in the thread that called `build`; may be None.
        clock: seconds, monotonic; passed in so that tests are exact.
    """

    def __init__(
        self,
        spec: DatasetSpec,
        callback: ProgressCallback | None,
        *,
        clock: Callable[[], float] = time.perf_counter,
        interval_seconds: float = 0.1,
    ) -> None:
        self._spec = spec
        self._callback = callback
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._began = self._told = clock()
        self._done_bytes = 0
        self._done_samples = 0
        self._tell()

    def add(self, num_bytes: int, num_samples: int) -> None:
        """So many more bytes and samples are written."""
        self._done_bytes += num_bytes
        self._done_samples += num_samples
        last = self._done_samples == self._spec.count
        if last or self._clock() - self._told >= self._interval_seconds:
            self._tell()

    def _tell(self) -> None:
        if self._callback is None:
            return
        self._told = self._clock()
        self._callback(self._snapshot(self._told - self._began))

    def _snapshot(self, elapsed_seconds: float) -> Progress:
        count, done = self._spec.count, self._done_samples
        total = self._done_bytes if done == count else max(self._spec.total_bytes, self._done_bytes)
        rate = self._done_bytes / elapsed_seconds if elapsed_seconds > 0 else 0.0
        left = (total - self._done_bytes) / rate if rate > 0 else None
        return Progress(
            done_bytes=self._done_bytes,
            total_bytes=total,
            done_samples=done,
            total_samples=count,
            bytes_per_second=rate,
            seconds_left=0.0 if done == count else left,
        )
