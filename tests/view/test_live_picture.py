"""Frames drawn piece by piece look as if all had been drawn anew, for every kind of figure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.transforms import Bbox

import labkit
from labkit.events import Event
from labkit.figures import TRACED
from labkit.view.fold import Folder
from labkit.view.live_picture import LivePicture, rooms_between

RUNS = sorted((Path(__file__).parents[1] / "data" / "runs").iterdir())
"""A stored run of each lab."""
PLATEAU = next(path for path in RUNS if path.name == "worker_plateau")
_FRAMES = 6


@dataclass(frozen=True)
class Stored:
    """A stored run as a painter sees it."""

    experiment: Any
    environment: Any
    settings: Any
    guesses: Any = ()


def replay(path: Path) -> tuple[Any, Folder, list[Event]]:
    """A stored run, what folds its events, and these in the order of their times."""
    result = labkit.load(path)
    run = Stored(result.experiment, result.environment, result.settings)
    traced = isinstance(run.experiment.figure, TRACED)
    folder = Folder(run.settings, len(run.settings), traced=traced)
    return run, folder, sorted(result.events, key=lambda event: event.t)


def pixels(picture: Any) -> Any:
    return np.array(picture._canvas.buffer_rgba(), dtype=int)[..., :3]


def all_anew(picture: Any) -> Any:
    picture._canvas.draw()
    for axes, artist in picture._drawing.moving:
        axes.draw_artist(artist)
    return pixels(picture)


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.name)
def test_a_frame_shows_what_a_whole_drawing_shows(path: Path) -> None:
    run, folder, events = replay(path)
    picture, other = LivePicture(run), LivePicture(run)
    step = len(events) // _FRAMES + 1
    for start in range(0, len(events), step):
        folder.take(events[start : start + step])
        for each in (picture, other):
            each.frame(folder.snapshot(0.0))
        gone = np.abs(pixels(picture) - all_anew(other)).max()
        assert gone <= 2, f"after {start + step} events"


def test_only_what_has_changed_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    run, folder, events = replay(PLATEAU)
    picture: Any = LivePicture(run)
    drawn: list[list[Any]] = []
    again = picture._draw_again
    monkeypatch.setattr(picture, "_draw_again", lambda some: (drawn.append(some), again(some)))
    monkeypatch.setattr(picture._canvas, "draw", lambda: pytest.fail("all was drawn"))
    for count in range(0, len(events), 50):
        folder.take(events[count : count + 50])
        picture.frame(folder.snapshot(0.0))
    frames = len(events) // 50 + 1
    assert 0 < len(drawn) < frames / 2, "axes grow in steps, not in every frame"


def test_axes_without_news_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    run, folder, events = replay(PLATEAU)
    picture: Any = LivePicture(run)
    folder.take(events)
    picture.frame(folder.snapshot(0.0))
    touched: list[Any] = []
    for axes in picture._figure.axes:
        monkeypatch.setattr(axes, "draw_artist", lambda artist: touched.append(artist))
    picture.frame(folder.snapshot(0.0))
    assert not touched


def box(x0: float, y0: float, x1: float, y1: float) -> Bbox:
    return Bbox.from_extents(x0, y0, x1, y1)


def test_rooms_meet_in_the_middle_of_what_lies_between() -> None:
    left, right, above = box(10, 10, 40, 50), box(60, 10, 90, 50), box(10, 70, 90, 80)
    rooms = rooms_between([left, right, above], box(0, 0, 100, 100))
    assert [room.extents.tolist() for room in rooms if room is not None] == [
        [0, 0, 50, 60], [50, 0, 100, 60], [0, 60, 100, 100]
    ]  # fmt: skip


def test_what_overlaps_has_no_room_and_takes_none_from_others() -> None:
    whole = box(0, 0, 100, 100)
    rooms = rooms_between([box(0, 0, 30, 30), box(20, 20, 50, 50), box(70, 0, 90, 90)], whole)
    assert rooms[:2] == [None, None]
    assert rooms[2] is not None
    assert rooms[2].x0 == 60
    (alone,) = rooms_between([box(10, 10, 20, 20)], whole)
    assert alone is not None
    assert alone.extents.tolist() == [0, 0, 100, 100]
