"""Lanes: what is drawn of a trial, live and at the end, and its words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from view.stale import stale_after

from labkit.figures import Lanes
from labkit.view.draw_lanes import bars_of
from labkit.view.drawn import from_result
from labkit.view.figure import new_drawing, new_figure
from labkit.view.picture import picture_of
from labkit.view.trace import trace_events


@pytest.fixture
def lanes(result: Any) -> Any:
    """The replayed run, of an experiment that draws lanes."""
    result.experiment = replace(result.experiment, figure=Lanes())
    return result


def test_a_timeline_per_setting_with_a_lane_per_worker(lanes: Any) -> None:
    drawing: Any = new_drawing(
        new_figure(), lanes.experiment, from_result(lanes), lanes.environment
    )
    counts = [1 + item.setting["workers"] for item in lanes.summary]
    assert [timeline.lanes for timeline in drawing.timelines] == counts
    high = {timeline.axes.get_xlim()[1] for timeline in drawing.timelines}
    assert len(high) == 1, "all on one scale of time"


def test_steps_and_waits_lie_end_to_end(lanes: Any) -> None:
    trace = trace_events(lanes.settings, lanes.events).of(lanes.settings[0].key)[0]
    bars = bars_of(trace)
    assert all(begin <= end + 1e-9 for _, _, begin, end in bars)
    ends = {round(end, 6) for _, lane, _, end in bars if lane == 0}
    assert trace.started is not None
    for t, _ in trace.loaded:
        assert round(t - trace.started.started, 6) in ends


def test_it_is_drawn_live_and_at_the_end(lanes: Any) -> None:
    drawn = from_result(lanes)
    drawing = new_drawing(new_figure(), lanes.experiment, drawn, lanes.environment, live=True)
    assert drawing.moving
    assert not stale_after(drawing, drawn), "nothing new: no axis moves"
    assert picture_of(lanes).png.startswith(b"\x89PNG")
