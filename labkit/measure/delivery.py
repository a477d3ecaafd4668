"""Counts what settings delivered, when some of them die on the way; pure.

A loader that is killed after two volumes of 24 was fast while it lived. So a death stops delivery,
not the clock: settings are compared by the samples delivered over the time that the slowest
completing setting needs. It must not read events and must not judge.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from labkit.measure.noise import MIN_PAIRS
from labkit.records import Setting, Status
from labkit.summary import SettingSummary

MOST_BLOCKS = 8


def asked_samples(setting: Setting) -> int:
    """Samples that an attempt reads when it lives to its end."""
    size = setting.params.get("batch_size", 1)
    return (setting.warmup + setting.batches) * (size if isinstance(size, int) else 1)


def block_rates(
    start: float, batches: Sequence[tuple[float, int]], workers: int
) -> tuple[float, ...]:
    """Samples per second of consecutive blocks of batches.

    Workers finish together, so that batches come in bursts: a block holds two of each, as long as
    there are enough for three blocks. Shorter blocks differ more, which widens the interval.

    Args:
        start: moment at which the first batch began to count, in seconds.
        batches: moment at which each was done, and its samples.
        workers: 0 counts as one.
    """
    bursts = min(2 * workers, len(batches) // MIN_PAIRS)
    size = max(bursts, math.ceil(len(batches) / MOST_BLOCKS), 1)
    rates = []
    for first in range(0, len(batches) - size + 1, size):
        block = batches[first : first + size]
        seconds = block[-1][0] - start
        if seconds > 0:
            rates.append(sum(samples for _, samples in block) / seconds)
        start = block[-1][0]
    return tuple(rates)


def horizon_seconds(items: Sequence[SettingSummary]) -> float | None:
    """How long the slowest completing attempt took: the clock by which deaths are judged."""
    found = [
        trial.seconds
        for item in items
        for trial in item.trials
        if trial.status is Status.COMPLETED and trial.seconds is not None
    ]
    return max(found, default=None)


def finished_per_second(
    delivered: int, seconds: float | None, completed: bool, horizon: float | None
) -> float | None:
    """Samples delivered per second of the whole attempt; the clock goes on after a death.

    Args:
        delivered: samples that reached the consumer.
        seconds: from just before the loader was made to the end of the last batch.
        completed: whether the attempt lived to its end.
        horizon: of `horizon_seconds`, for those that did not.
    """
    clock = seconds if completed else horizon
    return delivered / clock if clock else None
