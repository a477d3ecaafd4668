"""The learner's prediction in pictures and words."""

from __future__ import annotations

from typing import Any

import pytest

from labkit.guesses import check_guesses
from labkit.view.describe import describe
from labkit.view.draw_curves import YOURS
from labkit.view.drawn import from_result
from labkit.view.figure import new_drawing, new_figure
from labkit.view.fold import fold
from labkit.view.live_picture import LivePicture
from labkit.view.table import to_html
from labkit.view.text import result_text

GUESSES = check_guesses({0: 1, 2: 8})


def ghosts(drawing: Any) -> list[Any]:
    return [ghost for panel in drawing.panels for curve in panel.curves for ghost in curve.ghost]


def test_it_is_drawn_from_the_measured_reference_on(result: Any) -> None:
    result.guesses = GUESSES
    drawn = from_result(result)
    figure = new_figure()
    (first, *_) = ghosts(new_drawing(figure, result.experiment, drawn, result.environment))
    base = next(item for item in drawn if item.setting.x == 0 and item.guess)
    assert base.band is not None
    assert list(first.get_xdata()) == [0, 2]
    assert list(first.get_ydata()) == pytest.approx([base.band.median, 8 * base.band.median])
    assert figure.axes[0].get_ylim()[1] > 8 * base.band.median, "there is room for it"
    assert [text.get_text() for text in figure.legends[0].get_texts()][-1] == YOURS


def test_without_one_nothing_is_drawn_and_said(result: Any) -> None:
    figure = new_figure()
    drawing = new_drawing(figure, result.experiment, from_result(result), result.environment)
    assert not ghosts(drawing)
    assert not figure.legends
    assert "predict" not in describe(result)
    assert "Your prediction" not in to_html(result)


def test_live_it_comes_with_its_reference(make_run: Any, events: Any) -> None:
    run = make_run()
    run.guesses = GUESSES
    picture = LivePicture(run)
    for count in (0, len(events)):
        picture.frame(fold(run.settings, run.trials_total, events[:count], now=0.0))
        shown = [len(ghost.get_xdata()) for ghost in ghosts(picture._drawing)]
        assert all(length == (2 if count else 0) for length in shown)
    assert shown


def test_it_is_told_in_words(result: Any) -> None:
    result.guesses = GUESSES
    assert "you predicted 8 times the rate of 0 workers, measured" in describe(result)
    assert "you predicted 8 times" in result_text(result)
    assert "Your prediction" in to_html(result)
