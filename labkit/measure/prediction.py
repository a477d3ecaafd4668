"""Says before a run how much memory a loader will hold, and whether that fits; pure arithmetic.

It must not measure anything and must not import torch. The bounds hold for torch's DataLoader with
workers: of B bytes a batch, W workers and P batches in flight for each,

- shared memory holds at most the W x P batches in flight and the one that the consumer has in
  hand: (W x P + 1) x B, met exactly when the consumer pauses and the queue fills up;
- while a worker copies samples into a batch it holds them a second time, in memory of its own: at
  most W x B more, when all of them do it at once with everybody else's batches waiting.

So the peak is an interval: from a queue that is full while nobody builds, to a queue that is full
while everybody builds. Without workers the consumer holds its last batch while it reads and copies
the next: 2 to 3 batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labkit.records import Setting
from labkit.units import format_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """Memory that has nothing to do with samples, in bytes; `labkit.measure.footprint` measures."""

    base_bytes: int
    """Of the process that consumes: its imports."""
    worker_bytes: int
    """What each worker adds: pages that it has touched since it was forked, or its own imports."""
    loop_bytes: int = 0
    """What a loop may allocate beside its batches; a peak was 0.8 MB over the bound without it."""


LOOP_BYTES = 16 << 20
"""For `Footprint.loop_bytes`, where a reader is told that something will not fit."""
TYPICAL = Footprint(base_bytes=150 << 20, worker_bytes=8 << 20)
"""Torch 2.13 for CPUs under Linux with fork: a guess, for where nothing was measured yet."""


def shared_when_full(workers: int, prefetch_factor: int, batch_bytes: int, batches: int) -> int:
    """Shared memory while the consumer pauses with a batch in hand and the queue is full.

    Args:
        workers: 0 shares nothing.
        prefetch_factor: batches in flight for each worker.
        batch_bytes: of one batch.
        batches: of the whole epoch: a short one never fills the queue.
    """
    return min(workers * prefetch_factor + 1, batches) * batch_bytes if workers else 0


def predicted_peak(
    *, workers: int, prefetch_factor: int, batch_bytes: int, batches: int, footprint: Footprint,
    copied: bool = True,
) -> tuple[int, int]:  # fmt: skip
    """The lowest and the highest peak of the whole process tree, in bytes.

    Args:
        workers, prefetch_factor, batch_bytes, batches: see `shared_when_full`.
        footprint: what is held without any sample.
        copied: samples are read into memory of their own before they become a batch; False for a
            memory map, whose pages belong to the page cache.
    """
    base = footprint.base_bytes + workers * footprint.worker_bytes
    if workers == 0:
        low = min(2, batches) * batch_bytes
        return base + low, base + low + (batch_bytes if copied else 0) + footprint.loop_bytes
    full = base + shared_when_full(workers, prefetch_factor, batch_bytes, batches)
    building = min(workers, batches) * batch_bytes if copied else 0
    return full, full + building + footprint.loop_bytes


def outlook_of(settings: Sequence[Setting]) -> str:
    """One sentence on the largest of these settings, for who is about to run them.

    Returns:
        Its processes, torchrun included, and the highest peak expected; empty without predictions.
    """
    peaks = {item.predicted_peak_bytes[1]: item for item in settings if item.predicted_peak_bytes}
    if not peaks:
        return ""
    most = max(peaks)
    largest = peaks[most]
    workers = largest.params.get("workers")
    each = 1 + workers if isinstance(workers, int) else 1
    count = largest.ranks * each + 1 if largest.ranks else each
    limit = f" (limit {format_bytes(largest.budget.limit_bytes)})" if largest.budget else ""
    told = f"{largest.label}: {count} processes, up to {format_bytes(most)} expected{limit}"
    return f"{told}; {largest.note}" if largest.ranks and largest.note else told


def warning_of(setting: Setting) -> str:
    """One sentence on a setting that will or may not fit into its budget; empty when it fits."""
    if setting.budget is None or setting.predicted_peak_bytes is None:
        return ""
    low, high = setting.predicted_peak_bytes
    limit = setting.budget.limit_bytes
    if high <= limit:
        return ""
    fits = "will not fit" if low > limit else "may not fit"
    return f"{setting.name}: up to {format_bytes(high)}, limit {format_bytes(limit)}: this {fits}"
