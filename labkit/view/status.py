"""What a run is doing now, in words; pure, for the terminal and the notebook alike."""

from __future__ import annotations

from labkit.units import format_bytes, format_seconds
from labkit.view.fold import Phase, Snapshot


def stage_word(snapshot: Snapshot) -> str:
    """What happens now, without numbers that change: one line in a log for each."""
    if snapshot.phase is Phase.QUEUED:
        return snapshot.queue or "starting"
    if snapshot.phase is Phase.PREPARING:
        return f"preparing {format_bytes(snapshot.preparing_bytes)} of data"
    if snapshot.phase is Phase.MEASURING:
        return f"measuring {snapshot.trials_total} trials"
    return snapshot.detail or "done"


def status_line(snapshot: Snapshot) -> str:
    """What happens now, with its numbers."""
    if snapshot.phase is Phase.PREPARING:
        done, total = snapshot.prepared_bytes, snapshot.preparing_bytes
        told = f"preparing data: {format_bytes(done)} of {format_bytes(total)}"
        speed = snapshot.prepared_per_second
        if not speed:
            return told
        rest = format_seconds(max(1, round((total - done) / speed)))
        return f"{told}, {format_bytes(speed)}/s, about {rest} left"
    if snapshot.phase is not Phase.MEASURING:
        return stage_word(snapshot)
    left = snapshot.seconds_left
    tail = "" if left is None else f", about {format_seconds(max(1, round(left)))} left"
    return f"measured {snapshot.trials_done} of {snapshot.trials_total} trials{tail}"


def progress(snapshot: Snapshot) -> tuple[float, float]:
    """Done and total of what the progress bar shows; the total is at least 1."""
    if snapshot.phase is Phase.PREPARING:
        return snapshot.prepared_bytes, max(1, snapshot.preparing_bytes)
    return snapshot.trials_done, max(1, snapshot.trials_total)
