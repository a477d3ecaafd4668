"""The machine's turn: one at a time, in the order of coming, given back by death."""

from __future__ import annotations

import json
import threading
from pathlib import Path

from labkit.measure.turns import machine_turn


def give_up(position: int, holder: str) -> bool:
    return False


def test_alone_it_is_ours_at_once(tmp_path: Path) -> None:
    with machine_turn("a", give_up, folder=tmp_path) as ours:
        assert ours
    assert not list(tmp_path.glob("*.ticket"))


def test_the_second_is_told_who_measures_and_may_give_up(tmp_path: Path) -> None:
    told: list[tuple[int, str]] = []

    def note(position: int, holder: str) -> bool:
        told.append((position, holder))
        return False

    with (
        machine_turn("first", give_up, folder=tmp_path) as ours,
        machine_turn("second", note, folder=tmp_path) as also,
    ):
        assert ours
        assert not also
    assert told[0][0] == 1
    assert "first" in told[0][1]


def test_the_second_gets_its_turn_when_the_first_is_done(tmp_path: Path) -> None:
    waits = threading.Event()
    order: list[str] = []

    def second() -> None:
        def wait(position: int, holder: str) -> bool:
            waits.set()
            return True

        with machine_turn("second", wait, folder=tmp_path, poll_seconds=0.01) as ours:
            assert ours
            order.append("second")

    with machine_turn("first", give_up, folder=tmp_path):
        thread = threading.Thread(target=second)
        thread.start()
        assert waits.wait(10)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]


def test_tickets_of_the_dead_do_not_hold_anyone_up(tmp_path: Path) -> None:
    ticket = {"pid": 2**22 + 1, "mark": "1", "who": "ghost"}
    (tmp_path / "00000000000000000001-1.ticket").write_text(json.dumps(ticket))
    with machine_turn("a", give_up, folder=tmp_path) as ours:
        assert ours
