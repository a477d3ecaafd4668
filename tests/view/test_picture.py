"""The figure's artists, the PNG, its words, and live frames."""

from __future__ import annotations

import base64
import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from labkit.figures import Curves
from labkit.view.describe import describe
from labkit.view.drawn import from_result
from labkit.view.figure import new_drawing, new_figure
from labkit.view.fold import fold
from labkit.view.live_picture import LivePicture
from labkit.view.picture import draw_setting, picture_of, picture_of_setting


@pytest.fixture
def drawing(result: Any) -> Any:
    drawn = from_result(result)
    return new_drawing(new_figure(), result.experiment, drawn, result.environment)


def test_a_panel_per_story_and_one_for_the_stages(drawing: Any) -> None:
    assert [panel.story for panel in drawing.panels] == ["cpu", "waiting"]
    assert len(drawing.panels[0].axes.figure.axes) == 3


def test_every_point_the_medians_and_the_band_are_drawn(drawing: Any) -> None:
    panel = drawing.panels[0]
    (curve,) = panel.curves
    xs, ys = curve.points.get_data()
    assert list(xs) == [0, 0, 2, 2]
    assert list(ys) == pytest.approx([100, 100, 200, 200])
    assert list(curve.line.get_ydata()) == pytest.approx([100, 200])
    assert len(curve.band.get_paths()) == 1
    assert panel.axes.get_ylim()[1] > 200


def test_usable_cores_are_marked(drawing: Any) -> None:
    for panel in drawing.panels:
        assert [text.get_text().strip() for text in panel.axes.texts] == ["usable cores: 1"]


def test_stories_differ_by_more_than_colour(drawing: Any) -> None:
    curves = [panel.curves[0].line for panel in drawing.panels]
    looks = {(c.get_color(), c.get_marker(), c.get_linestyle()) for c in curves}
    assert all(len(set(column)) == 2 for column in zip(*looks, strict=True))


def test_series_share_a_panel_and_logarithmic_axes(result: Any) -> None:
    figure = Curves(x_label="size", y_label="rate", stages=False, log=True, x_labels={"cpu": "ms"})
    drawn = [
        replace(item, setting=replace(item.setting, x=10.0 ** item.setting.x, series=name))
        for item in from_result(result)
        for name in ("a", "b")
    ]
    experiment = replace(result.experiment, figure=figure)
    drawing: Any = new_drawing(new_figure(), experiment, drawn, result.environment)
    panel = drawing.panels[0]
    assert [curve.series for curve in panel.curves] == ["a", "b"]
    assert panel.axes.get_yscale() == panel.axes.get_xscale() == "log"
    assert [each.axes.get_xlabel() for each in drawing.panels] == ["ms", "size"]
    low, high = panel.axes.get_ylim()
    assert low <= 100 < 200 <= high


def test_stages_are_stacked(drawing: Any) -> None:
    first = [bars.get_paths()[0].get_extents() for bars in drawing.stages.bars]
    assert [box.width for box in first] == pytest.approx([1, 2, 3, 4])
    assert [box.x0 for box in first] == pytest.approx([0, 1, 3, 6])


def test_a_result_without_points_is_drawn(make_run: Any) -> None:
    empty = make_run().result()
    assert picture_of(empty).png.startswith(b"\x89PNG")
    assert describe(empty).endswith("cpu: nothing was measured. waiting: nothing was measured.")


def test_the_words_hold_the_numbers(result: Any) -> None:
    assert describe(result) == (
        "Samples per second over workers, 1 usable cores. "
        "cpu: 100 at 0 workers, 200 at 2 workers; the highest is 200 at 2 workers. "
        "waiting: 50 at 0 workers, 400 at 2 workers; the highest is 400 at 2 workers."
    )


def test_a_notebook_gets_base64_text_with_an_alternative(result: Any) -> None:
    picture = picture_of(result)
    data, metadata = picture._repr_mimebundle_()
    assert base64.b64decode(data["image/png"]) == picture._repr_png_()
    assert data["text/plain"].startswith(result.headline)
    assert metadata == {"image/png": {"alt": describe(result), "width": 1100, "height": 440}}
    with Image.open(io.BytesIO(picture.png)) as image:
        assert image.size == (2200, 880), "sharp on a screen of high resolution"


def test_it_draws_into_a_figure_that_is_given(result: Any, tmp_path: Any) -> None:
    figure = new_figure()
    picture_of(result, figure).save(tmp_path / "a.png")
    assert len(figure.axes) == 3
    with Image.open(tmp_path / "a.png") as image:
        assert image.size == (2200, 880)


def test_a_blitted_frame_shows_what_a_full_one_shows(make_run: Any, events: Any) -> None:
    run = make_run()
    painter = LivePicture(run)
    for count in (60, 80, len(events)):
        frame = painter.frame(fold(run.settings, run.trials_total, events[:count], now=0.0))
    whole = LivePicture(run).frame(fold(run.settings, run.trials_total, events, now=0.0))
    a, b = (np.asarray(Image.open(io.BytesIO(data)), dtype=float) for data in (frame, whole))
    assert np.abs(a - b).mean() < 1


def test_a_refined_plan_is_drawn_anew(make_run: Any, events: Any) -> None:
    run = make_run()
    everything = run.settings
    run.settings = everything[:2]
    painter = LivePicture(run)
    run.settings = everything
    painter.frame(fold(run.settings, run.trials_total, events, now=0.0))
    assert len(painter._drawing.panels) == 2


def test_one_trial_is_drawn_from_within(result: Any) -> None:
    figure = draw_setting(result, result.settings[1], 1)
    timeline, memory, stages = figure.axes
    assert [text.get_text() for text in timeline.get_yticklabels()] == [
        "consumer", "worker 0", "worker 1"
    ]  # fmt: skip
    assert "too short" in memory.texts[0].get_text()
    assert [text.get_text() for text in stages.get_yticklabels()] == [
        "fetch", "transform", "collate", "hand-over", "wait", "step"
    ]  # fmt: skip
    assert [bar.get_width() for bar in stages.patches] == pytest.approx([10, 20, 30, 40, 100, 0])
    picture = picture_of_setting(result, result.settings[1], 1)
    assert picture.alt.startswith("2 workers, round 2: 5 batches; a sample took 1 ms to fetch")


def test_a_trial_that_never_was_is_drawn_as_such(result: Any) -> None:
    figure = draw_setting(result, result.settings[0], 7)
    assert [text.get_text() for text in figure.axes[2].texts] == ["no batch has come"]
    picture = picture_of_setting(result, result.settings[0], 7)
    assert picture.alt == "0 workers, round 8: nothing was measured."
