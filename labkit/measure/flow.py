"""Who built which batch and what ran at the same time, from the stamps of a trial; pure.

Moments of the workers and of the consumer are on one clock: both are of one host.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from labkit.events import BatchBuilt, BatchLoaded
from labkit.summary import Flow

Span = tuple[float, float]
"""Begin and end in seconds of the events' clock."""


def flow_of(
    main_pid: int | None,
    loaded: Sequence[tuple[float, BatchLoaded]],
    built: Mapping[tuple[int, int], BatchBuilt],
) -> Flow | None:
    """The flow of a trial's first epoch; None when none of its batches was stamped.

    Args:
        main_pid: the consuming process.
        loaded: moment at which the batch's step had ended, and the batch.
        built: stamps by epoch and batch.
    """
    first = [(t, batch) for t, batch in loaded if batch.epoch == 0]
    stamps = [built.get((0, batch.batch)) for _, batch in first]
    known = [stamp for stamp in stamps if stamp is not None]
    if main_pid is None or not known:
        return None
    requested = [batch.facts.get("requested") for _, batch in first]
    return Flow(
        workers=tuple(stamp.worker for stamp in known),
        pids=tuple(stamp.pid for stamp in known),
        main_pid=main_pid,
        in_flight=tuple(
            int(count) - done for done, count in enumerate(requested) if count is not None
        ),
        overlap_share=overlap_share(
            [(t - batch.step_seconds, t) for t, batch in first],
            [(stamp.started, stamp.done) for stamp in built.values()],
        ),
    )


def overlap_share(spans: Iterable[Span], others: Iterable[Span]) -> float | None:
    """Share of the length of `spans` that lies within any of `others`; None without length."""
    merged = _merged(others)
    whole = shared = 0.0
    for begin, end in spans:
        whole += end - begin
        shared += sum(max(0.0, min(end, b) - max(begin, a)) for a, b in merged)
    return shared / whole if whole > 0 else None


def _merged(spans: Iterable[Span]) -> list[Span]:
    """The same time in spans that do not touch each other."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found
