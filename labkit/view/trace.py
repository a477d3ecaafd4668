"""What single trials did, batch by batch: for figures that show more than rates; pure.

It must not read clocks, do I/O or draw.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from labkit.events import (
    BatchBuilt,
    BatchLoaded,
    CountersSampled,
    Event,
    MemorySampled,
    TrialEnded,
    TrialStarted,
    place_of,
)
from labkit.records import Setting

_OF_ONE_RANK = (TrialStarted, BatchBuilt, BatchLoaded)


@dataclass(slots=True, kw_only=True)
class Trace:
    """One trial in full; moments are seconds of the events' clock."""

    trial: str
    setting: str
    """Key of the setting."""
    repeat: int
    ranks: set[int] = field(default_factory=set)
    """Those whose batches were heard of, also where only one rank's are kept."""
    started: TrialStarted | None = None
    ended: tuple[float, TrialEnded] | None = None
    built: list[BatchBuilt] = field(default_factory=list)
    loaded: list[tuple[float, BatchLoaded]] = field(default_factory=list)
    """Moment at which the batch's step had ended, and the batch."""
    memory: list[tuple[float, MemorySampled]] = field(default_factory=list)
    counters: list[tuple[float, CountersSampled]] = field(default_factory=list)


class Tracer:
    """Takes events one by one and keeps a trace per trial."""

    def __init__(self, settings: Sequence[Setting], rank: int | None = None) -> None:
        """Start without any.

        Args:
            settings: of the run.
            rank: only its batches are kept; those of all ranks when None. Memory and counters are
                of the whole process tree.
        """
        self._rank = rank
        self.settings = settings
        """May be replaced by a plan that has grown."""
        self._traces: dict[str, Trace] = {}

    def take(self, event: Event) -> None:
        """Add one event; those of the run as a whole and of foreign ids are ignored."""
        trace = self._trace(event.trial)
        if trace is None:
            return
        if isinstance(event.body, BatchBuilt | BatchLoaded):
            trace.ranks.add(event.rank)
        if isinstance(event.body, _OF_ONE_RANK) and self._rank not in (None, event.rank):
            return
        match event.body:
            case TrialStarted() as body:
                trace.started = body
            case BatchBuilt() as body:
                trace.built.append(body)
            case BatchLoaded() as body:
                trace.loaded.append((event.t, body))
            case MemorySampled() as body:
                trace.memory.append((event.t, body))
            case CountersSampled() as body:
                trace.counters.append((event.t, body))
            case TrialEnded() as body:
                trace.ended = (event.t, body)

    def _trace(self, trial: str) -> Trace | None:
        found = self._traces.get(trial)
        if found is None:
            place = place_of(trial, len(self.settings))
            if place is None:
                return None
            number, repeat = place
            found = Trace(trial=trial, setting=self.settings[number].key, repeat=repeat)
            self._traces[trial] = found
        return found

    def of(self, key: str) -> tuple[Trace, ...]:
        """The traces of a setting, in the order in which they were heard of."""
        return tuple(trace for trace in self._traces.values() if trace.setting == key)


def trace_events(
    settings: Sequence[Setting], events: Iterable[Event], rank: int | None = None
) -> Tracer:
    """The traces of a whole list of events; see `Tracer`."""
    tracer = Tracer(settings, rank)
    for event in events:
        tracer.take(event)
    return tracer
