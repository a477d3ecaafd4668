"""What the memory figure shows of each setting, computed from traces; pure.

It must not draw, and must not read clocks.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from labkit.measure.delivery import asked_samples, block_rates, finished_per_second
from labkit.measure.noise import within_band
from labkit.records import Setting, Status
from labkit.summary import Interval
from labkit.view.drawn import Drawn
from labkit.view.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Memory of a trial's whole tree at one moment, in bytes."""

    seconds: float
    """Since the loader was begun."""
    anonymous: int
    shared: int
    cache: int

    @property
    def held(self) -> int:
        """What the tree holds: the cache can be taken away from it."""
        return self.anonymous + self.shared


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One setting: the memory of its last attempt, and what all attempts delivered."""

    setting: Setting
    moments: tuple[Moment, ...]
    peak: int | None
    """Highest of all attempts."""
    deaths: int
    attempts: int
    """Those that have ended."""
    died_seconds: float | None
    """When the attempt that is shown ran out of memory."""
    delivered: tuple[int, int]
    """Fewest and most samples that an attempt delivered; the running one counts while alone."""
    rate: Interval | None
    """Samples per second of the whole attempt; see `labkit.measure.delivery`."""
    device_bytes: int
    """Read from the disk, most of all attempts."""


def lanes_of(drawn: Sequence[Drawn]) -> tuple[Lane, ...]:
    """A lane per setting; deaths are judged by the slowest completing setting of their story."""
    found = []
    for item in drawn:
        own = [other for other in drawn if other.setting.story == item.setting.story]
        finished = (_seconds(trace) for other in own for trace in other.traces if _lived(trace))
        horizon = max((seconds for seconds in finished if seconds is not None), default=None)
        found.append(_lane(item, horizon))
    return tuple(found)


def _lane(item: Drawn, horizon: float | None) -> Lane:
    traces = item.traces
    shown = next((trace for trace in reversed(traces) if trace.memory), None)
    ended = [trace for trace in traces if trace.ended is not None]
    counted = ended or traces
    counts = [sum(batch.samples for _, batch in trace.loaded) for trace in counted]
    died = [trace for trace in ended if _status(trace) == Status.OUT_OF_MEMORY]
    return Lane(
        setting=item.setting,
        moments=_moments(shown) if shown is not None else (),
        peak=max(filter(None, map(_peak, traces)), default=None),
        deaths=len(died),
        attempts=len(ended),
        died_seconds=_death(shown) if shown in died else None,
        delivered=(min(counts, default=0), max(counts, default=0)),
        rate=_rate(item.setting, counted, horizon),
        device_bytes=max(
            (body.device_read_bytes for trace in traces for _, body in trace.counters), default=0
        ),
    )


def _moments(trace: Trace) -> tuple[Moment, ...]:
    start = trace.started.started if trace.started else trace.memory[0][0]
    return tuple(
        Moment(
            seconds=max(0.0, t - start),
            anonymous=sum(process.anonymous for process in body.processes),
            shared=body.shared_memory,
            cache=body.cache,
        )
        for t, body in trace.memory
    )


def _status(trace: Trace) -> str:
    return trace.ended[1].status if trace.ended else ""


def _lived(trace: Trace) -> bool:
    return _status(trace) == Status.COMPLETED


def _death(trace: Trace | None) -> float | None:
    if trace is None or trace.ended is None or trace.started is None:
        return None
    return trace.ended[0] - trace.started.started


def _peak(trace: Trace) -> int | None:
    sampled = max((body.total for _, body in trace.memory), default=0)
    told = trace.ended[1].evidence.get("peak_bytes") if trace.ended else None
    return max(sampled, told or 0) or None


def _seconds(trace: Trace) -> float | None:
    """Of the whole attempt, up to its last batch."""
    if trace.started is None or not trace.loaded:
        return None
    return trace.loaded[-1][0] - trace.started.started


def _rate(setting: Setting, traces: Sequence[Trace], horizon: float | None) -> Interval | None:
    """Finished samples per second; one that runs counts as if it had ended with this batch."""
    rates, blocks = [], []
    for trace in traces:
        delivered = sum(batch.samples for _, batch in trace.loaded)
        alive = trace.ended is None or _lived(trace)
        rate = finished_per_second(delivered, _seconds(trace), alive, horizon)
        if rate is not None:
            rates.append(rate)
            blocks.append(_blocks(setting, trace) if alive else ())
    if not rates:
        return None
    band = Interval(median=statistics.median(rates), low=min(rates), high=max(rates))
    return within_band(band, [block for block in blocks if block])


def _blocks(setting: Setting, trace: Trace) -> tuple[float, ...]:
    warm = [t for t, batch in trace.loaded if batch.warmup]
    rest = [(t, batch.samples) for t, batch in trace.loaded if not batch.warmup]
    if not rest:
        return ()
    start = warm[-1] if warm else rest.pop(0)[0]
    workers = setting.params.get("workers", 1)
    return block_rates(start, rest, workers if isinstance(workers, int) else 1)


def delivered_text(lane: Lane) -> str:
    """``24 of 24``, or ``0 to 2 of 24`` over several attempts."""
    low, high = lane.delivered
    return f"{low if low == high else f'{low} to {high}'} of {asked_samples(lane.setting)}"


def death_text(lane: Lane) -> str:
    """``out of memory``, with how often when there were several attempts; empty without."""
    if not lane.deaths:
        return ""
    often = f" in {lane.deaths} of {lane.attempts} attempts" if lane.attempts > 1 else ""
    return f"out of memory{often}"


def top_bytes(lanes: Sequence[Lane]) -> float:
    """How high the lanes of one story reach: a little over limit and peak, whatever is higher.

    A prediction far above the limit is told in words: drawn, it would leave no room for the rest.
    """
    limits = [lane.setting.budget.limit_bytes for lane in lanes if lane.setting.budget]
    peaks = [lane.peak for lane in lanes if lane.peak]
    stacked = [moment.held + moment.cache for lane in lanes for moment in lane.moments]
    highest = max([*limits, *peaks, *stacked], default=1)
    return 1.18 * highest
