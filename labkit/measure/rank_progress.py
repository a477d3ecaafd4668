"""Where each rank of a launch stands, in a small file per rank that it overwrites at every step.

It tells after a death or a hang which rank it was, and how far it had come: in lockstep all ranks
have done the same number of steps, and only the phase tells them apart. A write costs some 3 us.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import IntEnum
from pathlib import Path

_WIDTH = 256
"""Every state is padded to this, so that a shorter one hides the longer one before it."""


class Phase(IntEnum):
    """What a rank is doing, in the order in which it comes about."""

    READY = 0
    LOADING = 1
    STEPPING = 2
    MEETING = 3
    DONE = 4

    @property
    def words(self) -> str:
        """For people."""
        return ("idle", "waiting for a batch", "in its step", "at the barrier", "done")[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankState:
    """Where one rank stands."""

    pid: int
    trial: str
    """Empty before the first."""
    steps: int
    """Done in this trial."""
    phase: Phase
    port: int = 0
    """Where the ranks of its launch met: free again when the launch is over."""


class RankProgress:
    """Written by the rank."""

    def __init__(self, folder: Path, rank: int) -> None:
        self._file = os.open(progress_file(folder, rank), os.O_WRONLY | os.O_CREAT, 0o644)
        self._trial, self._port = "", int(os.environ.get("MASTER_PORT", 0))
        self.steps = 0
        self.mark(Phase.READY)

    def begin(self, trial: str) -> None:
        """A trial begins."""
        self._trial, self.steps = trial, 0
        self.mark(Phase.LOADING)

    def mark(self, phase: Phase) -> None:
        """The rank now does this."""
        state = RankState(
            pid=os.getpid(), trial=self._trial, steps=self.steps, phase=phase, port=self._port
        )
        os.lseek(self._file, 0, os.SEEK_SET)
        os.write(self._file, json.dumps(asdict(state)).ljust(_WIDTH).encode())


def progress_file(folder: Path, rank: int) -> Path:
    """The file of one rank in the folder of its launch."""
    return folder / f"progress-{rank}.json"


def read_state(folder: Path, rank: int) -> RankState | None:
    """Where a rank stands; None before it is ready."""
    try:
        raw = json.loads(progress_file(folder, rank).read_text("utf-8"))
        return RankState(**{**raw, "phase": Phase(raw["phase"])})
    except (OSError, ValueError):
        return None


def hindmost(states: Sequence[RankState | None]) -> int | None:
    """The one rank that keeps all others waiting; None where several are equally far."""
    places = [(-1, 0) if state is None else (state.steps, state.phase) for state in states]
    last = min(places, default=(0, 0))
    behind = [rank for rank, place in enumerate(places) if place == last]
    return behind[0] if len(behind) == 1 else None


def name_rank(rank: int, states: Sequence[RankState | None], *, phase: bool) -> str:
    """The rank with its last step, and what it was doing then."""
    state = states[rank]
    words = [f"rank {rank} of {len(states)}"]
    if state is None:
        words.append("before it was ready")
    elif state.steps:
        words.append(f"after step {state.steps}")
    else:
        words.append("before its first step")
    if phase and state is not None:
        words.append(state.phase.words)
    return ", ".join(words)
