"""What workers cost beside the work, from the events of one trial; pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from labkit.events import BatchBuilt, BatchLoaded, CountersSampled, MemorySampled
from labkit.summary import Costs

Loaded = Sequence[tuple[float, BatchLoaded]]
Sampled = Sequence[tuple[float, MemorySampled]]
Counted = Sequence[tuple[float, CountersSampled]]


def costs_of(
    loaded: Loaded, built: Sequence[BatchBuilt], sampled: Sampled, counted: Counted
) -> Costs | None:
    """The costs of a trial; None before its first batch.

    Args:
        loaded: moment at which the batch's step had ended, and the batch.
        built: stamps; they tell workers from other processes, such as a fork server.
        sampled: moments and memory; only held samples count.
        counted: moments and counters; only held ones count.
    """
    waits = [batch.wait_seconds for _, batch in loaded if batch.batch == 0]
    if not waits:
        return None
    workers = {stamp.pid for stamp in built if stamp.worker >= 0}
    held = next((sample for _, sample in sampled if sample.held), None)
    own = [each for each in held.processes if each.pid in workers] if held is not None else []
    return Costs(
        first_wait_seconds=waits[0],
        later_wait_seconds=statistics.median(waits[1:]) if waits[1:] else None,
        worker_private_bytes=statistics.fmean(each.private for each in own) if own else None,
        worker_anonymous_bytes=statistics.fmean(each.anonymous for each in own) if own else None,
        switches_per_sample=_switches(loaded, counted),
    )


def _switches(loaded: Loaded, counted: Counted) -> float | None:
    held = [(t, each) for t, each in counted if each.held]
    if len(held) < 2:
        return None
    (begin, before), (end, after) = held[0], held[-1]
    # A batch whose step asked for the first sample came before it, that of the last within.
    samples = sum(batch.samples for t, batch in loaded if t - batch.step_seconds > begin)
    samples -= sum(batch.samples for t, batch in loaded if t - batch.step_seconds > end)
    switches = (after.voluntary_switches + after.involuntary_switches) - (
        before.voluntary_switches + before.involuntary_switches
    )
    return switches / samples if samples > 0 and switches >= 0 else None
