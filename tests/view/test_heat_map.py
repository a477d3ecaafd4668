"""The heat map: what stands in its cells, where the line of the cores runs, its words."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from PIL import Image
from view.stale import stale_after

from labkit.figures import HeatMap
from labkit.params import Param
from labkit.records import Environment, Experiment, Setting, Status
from labkit.summary import Interval, SettingSummary, StageSeconds, Summary
from labkit.view.cells_of_map import core_label, core_steps, grids_of
from labkit.view.describe import describe
from labkit.view.drawn import Drawn
from labkit.view.figure import new_drawing, new_figure
from labkit.view.fold import fold
from labkit.view.live_picture import LivePicture
from labkit.view.picture import draw_result, to_png

SPEC = HeatMap(x="workers", y="ranks", value_label="images per second of the job")
RANKS, WORKERS = (1, 2, 4, 8), (0, 1, 2, 4, 8)
COMPLETED, KILLED, CANCELLED = Status.COMPLETED, Status.OUT_OF_MEMORY, Status.CANCELLED


def item(
    ranks: int, workers: int, rates: Iterable[float] = (), statuses: Iterable[Status] = (),
    story: str = "",
) -> Drawn:  # fmt: skip
    setting = Setting(params={"ranks": ranks, "workers": workers}, label="", story=story)
    rates = tuple(rates)
    band = None
    if rates:
        band = Interval(median=sorted(rates)[len(rates) // 2], low=min(rates), high=max(rates))
    return Drawn(setting=setting, rates=rates, band=band, stages=None, statuses=tuple(statuses))


@pytest.fixture
def mapped(experiment: Experiment) -> Experiment:
    ranks = Param(name="ranks", label="ranks", help="how many", default=(1, 2), sweep=True)
    return replace(experiment, figure=SPEC, params=(*experiment.params, ranks))


def draw(
    experiment: Experiment, environment: Environment, drawn: list[Drawn], *, cores: int = 2,
    live: bool = False,
) -> Any:  # fmt: skip
    environment = replace(environment, usable_cores=cores)
    return new_drawing(
        new_figure(experiment.figure), experiment, drawn, environment, live=live
    )


def words(panel: Any) -> dict[str, str]:
    """Text of every cell, by the parameters of its setting."""
    return {key.partition(":")[2]: tile.words.get_text() for key, tile in panel.rest.items()}


def labels(drawing: Any) -> list[str]:
    (legend,) = drawing.panels[0].axes.figure.legends
    return [text.get_text() for text in legend.get_texts()]


def test_cells_hold_median_spread_and_ends(mapped: Experiment, environment: Environment) -> None:
    drawing = draw(mapped, environment, [
        item(1, 0, [100, 110, 120], [COMPLETED] * 3),
        item(1, 1, [1234.0], [COMPLETED]),
        item(2, 0, (), [KILLED, KILLED]),
        item(2, 1, [500.0, 520.0], [COMPLETED, KILLED, COMPLETED]),
        item(4, 0),
        item(4, 1, (), [CANCELLED]),
        item(8, 0, [7.0], [COMPLETED, CANCELLED]),
    ])  # fmt: skip
    (panel,) = drawing.panels
    found = {key: text.split() for key, text in words(panel).items()}
    assert found["ranks=1,workers=0"] == ["110", "±", "10"]
    assert found["ranks=1,workers=1"] == ["1,234"]
    assert found["ranks=2,workers=0"] == ["out", "of", "memory"]
    assert found["ranks=2,workers=1"] == ["520", "±", "10", "out", "of", "memory", "1", "of", "3"]
    assert found["ranks=4,workers=0"] == []
    assert found["ranks=4,workers=1"] == ["cancelled"]
    assert found["ranks=8,workers=0"] == ["7"]


def test_what_is_not_measured_is_hatched_and_what_is_not_planned_has_a_dash(
    mapped: Experiment, environment: Environment
) -> None:
    drawing = draw(mapped, environment, [item(1, 0, [9.0], [COMPLETED]), item(2, 1)])
    (panel,) = drawing.panels
    assert [tile.patch.get_visible() for tile in panel.rest.values()] == [True, False]
    assert all(tile.get_hatch() for tile in panel.waiting)
    dashes = [t.get_position() for t in panel.axes.texts if t.get_text() == "-"]
    assert dashes == [(1, 0), (0, 1)]
    assert labels(drawing)[1:] == ["not measured", "not planned"]


def test_numbers_are_dark_on_light_cells_and_light_on_dark_ones(
    mapped: Experiment, environment: Environment
) -> None:
    drawing = draw(mapped, environment, [item(1, 0, [10.0]), item(1, 1, [1000.0])])
    (panel,) = drawing.panels
    low, high = panel.rest.values()
    assert sum(low.patch.get_facecolor()[:3]) < sum(high.patch.get_facecolor()[:3])
    assert [tile.words.get_color() for tile in (low, high)] == ["#ffffff", "#222222"]


def test_the_line_runs_between_products_up_to_the_cores_and_over() -> None:
    (grid,) = grids_of([item(r, w) for r in RANKS for w in WORKERS], SPEC)
    steps = core_steps(grid, SPEC, 2)
    assert steps is not None
    # Right of 2 workers at 1 rank, of 1 worker at 2 ranks, of 0 workers above; between the rows.
    assert sorted(steps) == sorted([
        ((2.5, -0.5), (2.5, 0.5)), ((1.5, 0.5), (1.5, 1.5)), ((0.5, 1.5), (0.5, 2.5)),
        ((0.5, 2.5), (0.5, 3.5)), ((1.5, 0.5), (2.5, 0.5)), ((0.5, 1.5), (1.5, 1.5)),
    ])  # fmt: skip
    assert core_label(grid, SPEC, 2) == "ranks x workers = 2 usable cores"


def test_the_line_is_told_where_it_does_not_run() -> None:
    (grid,) = grids_of([item(r, w) for r in RANKS for w in WORKERS], SPEC)
    assert core_steps(grid, SPEC, 64) == []
    assert core_label(grid, SPEC, 64) == "ranks x workers: all within 64 usable cores"
    (over,) = grids_of([item(r, w) for r in (4, 8) for w in (1, 2)], SPEC)
    assert core_label(over, SPEC, 2) == "ranks x workers: all over 2 usable cores"
    other = HeatMap(x="workers", y="prefetch", value_label="v")
    assert core_steps(grid, other, 2) is None
    assert core_label(grid, other, 2) == ""


def test_the_line_is_drawn_and_labelled(mapped: Experiment, environment: Environment) -> None:
    drawn = [item(r, w, [10.0]) for r in RANKS for w in WORKERS]
    drawing = draw(mapped, environment, drawn, cores=4)
    (panel,) = drawing.panels
    (grid,) = grids_of(drawn, SPEC)
    found = [tuple(map(tuple, path.tolist())) for path in panel.line.get_segments()]
    assert found == core_steps(grid, SPEC, 4)
    assert labels(drawing) == ["ranks x workers = 4 usable cores"]


def test_a_panel_per_story_on_the_same_axes(mapped: Experiment, environment: Environment) -> None:
    drawing = draw(mapped, environment, [
        item(8, 0, [10.0], story="1 thread"), item(1, 4, [20.0], story="2 threads")
    ])  # fmt: skip
    first, second = (panel.axes for panel in drawing.panels)
    assert [axes.get_title(loc="left") for axes in (first, second)] == ["1 thread", "2 threads"]
    for axes in (first, second):
        assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0", "4"]
        assert axes.get_ylim() == (-0.5, 1.5)


def test_a_trial_that_runs_moves_and_settles_when_it_ends(
    mapped: Experiment, environment: Environment
) -> None:
    drawing = draw(mapped, environment, [item(1, 0), item(1, 1)], live=True)
    (panel,) = drawing.panels
    now, rest = ([*each.values()][1] for each in (panel.now, panel.rest))
    moving = [artist for _, artist in drawing.moving]
    assert now.patch in moving
    assert now.words in moving
    assert rest.patch not in moving
    assert stale_after(drawing, [item(1, 0), item(1, 1, [100.0])])  # the scale is new
    before = now.patch.get_facecolor()
    assert not stale_after(drawing, [item(1, 0), item(1, 1, [90.0])])  # it reaches far enough
    assert now.patch.get_visible()
    assert now.words.get_text() == "90"
    assert now.patch.get_facecolor() != before
    assert stale_after(drawing, [item(1, 0), item(1, 1, [80.0], [COMPLETED])])
    assert not now.patch.get_visible()
    assert rest.words.get_text() == "80"
    assert [artist for _, artist in drawing.moving] == moving


def test_a_spread_has_no_more_decimals_than_its_median(
    mapped: Experiment, environment: Environment
) -> None:
    drawing = draw(mapped, environment, [
        item(1, 0, [1000.0, 1000.5, 1001.8]), item(1, 1, [1000.0, 1000.4]), item(1, 2, [1.5, 1.6])
    ])  # fmt: skip
    found = [text.split() for text in words(drawing.panels[0]).values()]
    assert found == [["1,000", "±", "1"], ["1,000"], ["1.6", "±", "0.1"]]


@pytest.mark.parametrize("stories", [("",), ("a", "b"), ("a", "b", "c")])
def test_words_stay_within_their_cells(
    mapped: Experiment, environment: Environment, stories: tuple[str, ...]
) -> None:
    statuses = [COMPLETED, KILLED, COMPLETED]
    drawing = draw(mapped, environment, [
        item(r, w, [1234.0, 1300.0], statuses, story) for story in stories
        for r in RANKS for w in WORKERS
    ])  # fmt: skip
    figure = drawing.panels[0].axes.figure
    figure.canvas.draw()
    for tile in (tile for panel in drawing.panels for tile in panel.rest.values()):
        inner, outer = tile.words.get_window_extent(), tile.patch.get_window_extent()
        assert outer.x0 <= inner.x0 < inner.x1 <= outer.x1, tile.words.get_text()
        assert outer.y0 <= inner.y0 < inner.y1 <= outer.y1, tile.words.get_text()


@dataclass
class Told:
    experiment: Experiment
    environment: Environment
    summary: Summary
    events: tuple[()] = ()
    guesses: tuple[()] = ()


def summary_of(drawn: Drawn) -> SettingSummary:
    return SettingSummary(
        setting=drawn.setting, trials=(), status=COMPLETED, samples_per_second=drawn.band,
        first_batch_seconds=None, wait_share=None, cpu_seconds_per_sample=None, peak_bytes=None,
        stages=StageSeconds(fetch=0, transform=0, collate=0, handover=0),
    )  # fmt: skip


def told(experiment: Experiment, environment: Environment, drawn: Iterable[Drawn]) -> Any:
    summary = Summary(settings=tuple(map(summary_of, drawn)), warnings=(), load_cores=None)
    return Told(experiment, environment, summary)


def test_the_words_hold_every_cell(mapped: Experiment, environment: Environment) -> None:
    drawn = [item(1, 0, [100.0, 120.0]), item(8, 0, [50.0]), item(8, 4)]
    assert describe(told(mapped, environment, drawn)) == (
        "Images per second of the job over workers and ranks, 1 usable cores. "
        "ranks 1: 120 ± 10 at 0; ranks 8: 50 at 0, not measured at 4; "
        "the highest is 120 at workers 0, ranks 1."
    )


def test_an_empty_map_is_drawn(mapped: Experiment, environment: Environment) -> None:
    assert to_png(draw_result(told(mapped, environment, [item(1, 0)]))).startswith(b"\x89PNG")
    assert to_png(draw_result(told(mapped, environment, []))).startswith(b"\x89PNG")
    assert describe(told(mapped, environment, [item(1, 0)])).endswith("ranks 1: not measured at 0.")


def test_a_blitted_frame_shows_what_a_full_one_shows(
    make_run: Any, events: Any, mapped: Experiment
) -> None:
    run = make_run()
    run.experiment = mapped
    run.settings = tuple(replace(s, params={**s.params, "ranks": 1}) for s in run.settings)
    painter, worst = LivePicture(run), []
    for count in range(22, len(events) + 1, 7):
        snapshot = fold(run.settings, run.trials_total, events[:count], now=0.0)
        frame, whole = painter.frame(snapshot), LivePicture(run).frame(snapshot)
        a, b = (np.asarray(Image.open(io.BytesIO(each)), dtype=float) for each in (frame, whole))
        blocks = np.abs(a - b)[:660, :1640].reshape(33, 20, 82, 20, 3).mean(axis=(1, 3, 4))
        worst.append(blocks.max())
    assert max(worst) < 8, worst
