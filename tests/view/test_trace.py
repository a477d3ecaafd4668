"""Traces keep what single trials did, in the order of the events."""

from __future__ import annotations

from typing import Any

import pytest

from labkit.events import Event, TrialEnded
from labkit.view.fold import fold
from labkit.view.trace import trace_events


@pytest.fixture
def run(make_run: Any) -> Any:
    return make_run()


def test_a_trace_keeps_batches_stamps_and_the_end(run: Any, events: list[Event]) -> None:
    tracer = trace_events(run.settings, events)
    (first, second) = tracer.of("cpu:workers=0")
    assert (first.repeat, second.repeat) == (0, 1)
    assert [body.batch for _, body in first.loaded] == [body.batch for body in first.built]
    assert [t for t, _ in first.loaded] == sorted(t for t, _ in first.loaded)
    assert first.started is not None
    assert first.ended is not None
    assert isinstance(first.ended[1], TrialEnded)


def test_a_live_fold_is_traced_only_on_demand(run: Any, events: list[Event]) -> None:
    assert not fold(run.settings, run.trials_total, events, now=0).traces
    traced = fold(run.settings, run.trials_total, events, now=0, traced=True)
    assert traced.traces["cpu:workers=0"] == trace_events(run.settings, events).of("cpu:workers=0")


def test_foreign_ids_are_ignored(run: Any, events: list[Event]) -> None:
    assert trace_events(run.settings[:1], events).of("waiting:workers=2") == ()
