"""Who keeps the others waiting, told by the states that ranks leave behind."""

from __future__ import annotations

from pathlib import Path

from labkit.measure.rank_progress import (
    Phase,
    RankProgress,
    RankState,
    hindmost,
    name_rank,
    read_state,
)


def state(steps: int, phase: Phase) -> RankState:
    return RankState(pid=1, trial="000-0", steps=steps, phase=phase)


def test_a_state_is_read_back(tmp_path: Path) -> None:
    assert read_state(tmp_path, 3) is None
    progress = RankProgress(tmp_path, 3)
    first = read_state(tmp_path, 3)
    assert first is not None
    assert (first.trial, first.phase) == ("", Phase.READY)
    progress.begin("a-long-name-of-a-trial")
    progress.steps = 12345
    progress.mark(Phase.MEETING)
    progress.begin("b")
    assert read_state(tmp_path, 3) == RankState(
        pid=first.pid, trial="b", steps=0, phase=Phase.LOADING, port=first.port
    )


def test_the_hindmost_is_blamed() -> None:
    states = [state(7, Phase.STEPPING), state(7, Phase.LOADING), state(7, Phase.STEPPING)]
    assert hindmost(states) == 1
    assert name_rank(1, states, phase=True) == "rank 1 of 3, after step 7, waiting for a batch"
    assert hindmost([state(12, Phase.MEETING), state(11, Phase.STEPPING)]) == 1
    assert hindmost([state(3, Phase.STEPPING), None]) == 1
    assert name_rank(1, [state(3, Phase.STEPPING), None], phase=True).endswith("it was ready")


def test_nobody_is_blamed_where_all_stand_alike() -> None:
    assert hindmost([state(7, Phase.STEPPING), state(7, Phase.STEPPING)]) is None
