"""A trial asks for a look, and goes on when it was answered, or when nobody answers."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from labkit.measure.look import ask_for_look
from labkit.records import Context


def test_it_waits_for_the_answer(tmp_path: Path) -> None:
    asked = tmp_path / "000-0.look"

    def answer() -> None:
        while not asked.exists():
            time.sleep(0.001)
        asked.unlink()

    warden = threading.Thread(target=answer)
    warden.start()
    assert ask_for_look(Context(dataset_folder=None, look_file=str(asked)))
    warden.join()


def test_without_an_answer_it_goes_on_and_leaves_nothing(tmp_path: Path) -> None:
    asked = tmp_path / "000-0.look"
    assert not ask_for_look(Context(dataset_folder=None, look_file=str(asked)), most_seconds=0.01)
    assert not asked.exists()


def test_where_nobody_watches_it_does_not_ask() -> None:
    assert not ask_for_look(Context(dataset_folder=None))
