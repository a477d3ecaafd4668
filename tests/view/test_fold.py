"""Folding events into a snapshot, with exact clocks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from labkit.events import BatchLoaded, Event, TrialEnded
from labkit.measure.summary import summarise
from labkit.records import Status
from labkit.view.drawn import from_snapshot, from_summary
from labkit.view.fold import Folder, Phase, Snapshot, fold


def upto(events: list[Event], ends: int) -> list[Event]:
    """The events up to the n-th end of a trial."""
    places = [i for i, event in enumerate(events) if isinstance(event.body, TrialEnded)]
    return events[: places[ends - 1] + 1]


@pytest.fixture
def run(make_run: Any) -> Any:
    return make_run()


def snapshot(run: Any, events: list[Event], now: float = 0.0) -> Snapshot:
    return fold(run.settings, run.trials_total, events, now=now)


def test_phases_follow_each_other(run: Any, events: list[Event]) -> None:
    seen = [snapshot(run, events[:count]).phase for count in range(len(events) + 1)]
    assert list(dict.fromkeys(seen)) == list(Phase)


def test_the_queue_names_who_measures_until_the_machine_is_ours(
    run: Any, events: list[Event]
) -> None:
    assert snapshot(run, events[:1]).queue == "waiting for someone (pid 3)"
    assert snapshot(run, events[:2]).queue == ""


def test_preparing_counts_bytes(run: Any, events: list[Event]) -> None:
    found = snapshot(run, events[:3])
    assert (found.prepared_bytes, found.preparing_bytes) == (512, 2048)


def test_points_and_stages_agree_with_the_summary(run: Any, events: list[Event]) -> None:
    live = from_snapshot(run.settings, snapshot(run, events))
    final = from_summary(summarise(run.settings, events))
    for a, b in zip(live, final, strict=True):
        assert a.rates == pytest.approx(b.rates)
        assert a.stages is not None
        assert b.stages is not None
        assert a.stages.total == pytest.approx(b.stages.total)
        assert a.band is not None
        assert b.band is not None
        assert a.band.low == pytest.approx(b.band.low)


def test_whole_epochs_agree_with_the_summary_too(run: Any, events: list[Event]) -> None:
    run.settings = tuple(replace(setting, whole_epochs=True) for setting in run.settings)
    unwarmed = [
        replace(event, body=replace(event.body, warmup=False))
        if isinstance(event.body, BatchLoaded)
        else event
        for event in events
    ]
    live = from_snapshot(run.settings, snapshot(run, unwarmed))
    final = from_summary(summarise(run.settings, unwarmed))
    for a, b in zip(live, final, strict=True):
        assert a.rates
        assert a.rates == pytest.approx(b.rates)


def test_a_running_trial_has_a_point_before_it_ends(run: Any, events: list[Event]) -> None:
    running = upto(events, 1)[:-1]
    (point,) = snapshot(run, running).points["cpu:workers=0"]
    assert point.samples_per_second == pytest.approx(100)
    assert not point.ended
    assert snapshot(run, running).running == "cpu:workers=0"


def test_a_trial_that_died_leaves_a_sentence_and_no_point(run: Any, events: list[Event]) -> None:
    found = snapshot(run, events)
    assert [point.repeat for point in found.points["waiting:workers=2"]] == [0]
    assert found.deaths == ("waiting 2 workers, round 2 timed_out: it was ended",)
    assert found.statuses["waiting:workers=2"] == (Status.COMPLETED, Status.TIMED_OUT)
    assert found.trials_done == found.trials_total == 8
    assert found.warnings == ("<too many> workers",)


def test_time_left_is_told_from_the_trials_that_ended(run: Any, events: list[Event]) -> None:
    some = upto(events, 1)  # from Prepared at 3.0 to the end at 4.6 it took 1.6 s
    assert snapshot(run, some[:-1], now=4.0).seconds_left is None
    assert snapshot(run, some, now=4.6).seconds_left == pytest.approx(7 * 1.6)
    assert snapshot(run, some, now=5.6).seconds_left == pytest.approx(7 * 1.6 - 1.0)
    assert snapshot(run, some, now=99.0).seconds_left == 0.0
    assert snapshot(run, events, now=99.0).seconds_left is None


def test_changes_grow_only_with_what_shows(run: Any, events: list[Event]) -> None:
    folder = Folder(run.settings, run.trials_total)
    stamps = [event for event in events if type(event.body).__name__ == "BatchBuilt"]
    folder.take(stamps)
    assert folder.changes == 0
    folder.take(events[:1])
    assert folder.changes == 1


def test_foreign_trials_are_ignored(run: Any, events: list[Event]) -> None:
    from dataclasses import replace

    strange = [replace(event, trial="099-0") for event in events if event.trial]
    found = snapshot(run, strange)
    assert not found.points
    assert found.trials_done == 0


def test_a_plan_may_grow(run: Any, events: list[Event]) -> None:
    folder = Folder(run.settings[:1], 2)
    folder.plan(run.settings, run.trials_total)
    folder.take(events)
    assert folder.snapshot(0.0) == snapshot(run, events)
