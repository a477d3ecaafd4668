"""A look into one rank of a setting that torchrun started several of."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import labkit
from labkit.errors import ParameterError
from labkit.result import Result
from labkit.view.setting_box import SettingBox
from labkit.view.trace import trace_events


@dataclass
class Stored:
    """A stored run as a box follows it."""

    settings: Any
    events: Any


@pytest.fixture(scope="module")
def ranks() -> Result:
    return labkit.load(Path(__file__).parents[1] / "data" / "runs" / "rank_oversubscription")


def of(result: Result, label: str) -> Any:
    return next(setting for setting in result.settings if setting.label == label)


def test_a_trace_keeps_the_batches_of_one_rank_and_the_memory_of_all(ranks: Result) -> None:
    key = of(ranks, "2 x 2").key
    every, *own = (trace_events(ranks.settings, ranks.events, rank).of(key)[0]
                   for rank in (None, 0, 1))  # fmt: skip
    assert sum(len(trace.loaded) for trace in own) == len(every.loaded) > 0
    pids = [{stamp.pid for stamp in trace.built} for trace in own]
    assert not pids[0] & pids[1]
    for trace in own:
        assert trace.ranks == every.ranks == {0, 1}
        assert trace.memory == every.memory
        assert trace.started is not None
    assert own[0].started != own[1].started


def test_a_rank_is_chosen_where_there_are_several(ranks: Result) -> None:
    run: Any = Stored(ranks.settings, ranks.events)
    box = SettingBox(lambda: None)
    box.follow(run)
    box.refresh()
    box.setting.value = of(ranks, "1 x 2")
    box.refresh()
    assert box.rank.layout.display == "none"
    box.setting.value = of(ranks, "2 x 2")
    box.refresh()
    assert box.rank.layout.display is None
    assert [value for _, value in box.rank.options] == [0, 1]
    first, words = box.image.value, box.words.value
    box.rank.value = 1
    box.refresh()
    assert box.image.value != first
    assert box.words.value == words, "both have come as far"


def test_a_setting_without_that_rank_shows_its_own(ranks: Result) -> None:
    run: Any = Stored(ranks.settings, ranks.events)
    box = SettingBox(lambda: box.refresh())  # as a panel does while nothing runs
    box.follow(run)
    box.refresh()
    box.setting.value = of(ranks, "1 x 2")
    alone = box.image.value, box.words.value
    box.setting.value = of(ranks, "2 x 2")
    box.rank.value = 1
    box.setting.value = of(ranks, "1 x 2")
    assert box.rank.value == 0
    assert (box.image.value, box.words.value) == alone


def test_the_picture_names_the_rank_and_knows_which_there_are(ranks: Result) -> None:
    assert ranks.plot_setting("2 x 2", rank=1).sentence == "2 x 2, round 1, rank 1"
    assert ranks.plot_setting("1 x 2").sentence == "1 x 2, round 1"
    with pytest.raises(ParameterError, match="from 0 to 1"):
        ranks.plot_setting("2 x 2", rank=2)
