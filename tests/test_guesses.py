from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

import pytest

from labkit.errors import ParameterError
from labkit.guesses import (
    Guess,
    check_guesses,
    guesses_from_json,
    match_guesses,
    require_match,
    told_guesses,
)
from labkit.records import Setting
from labkit.summary import Interval


def setting(x: int, story: str = "cpu", series: str = "") -> Setting:
    return Setting(
        params={"workers": x, "series": series}, label=f"{x} workers", story=story, x=x, batches=4,
        warmup=0, series=series,
    )  # fmt: skip


SETTINGS = [setting(x, story) for story in ("cpu", "waiting") for x in (0, 2, 4)]


def band(median: float) -> Interval:
    return Interval(median=median, low=0.9 * median, high=1.1 * median)


def bands(*medians: float | None, story: str = "cpu") -> dict[str, Interval]:
    return {
        setting(x, story).key: band(median)
        for x, median in zip((0, 2, 4), medians, strict=True)
        if median is not None
    }


def test_a_curve_is_for_every_story_or_for_one() -> None:
    assert check_guesses({0: 1, 2: 1.5}) == (
        Guess(story="", x=0, ratio=1), Guess(story="", x=2, ratio=1.5)
    )  # fmt: skip
    assert check_guesses({"cpu": {4: 2}}) == (Guess(story="cpu", x=4, ratio=2),)
    assert check_guesses(None) == check_guesses({}) == ()


@pytest.mark.parametrize(
    "given", [{0: 0}, {0: -1}, {0: math.inf}, {0: "two"}, {0: True}, {"two": 2}, [1, 2], {0: None},
              {"cpu": {0: 1}, 2: 2}],
)  # fmt: skip
def test_what_is_no_curve_is_refused(given: Any) -> None:
    with pytest.raises(ParameterError, match="how many times as fast"):
        check_guesses(given)


def test_it_survives_json() -> None:
    guesses = check_guesses({0: 1, 2: 1.5})
    stored = json.dumps([asdict(guess) for guess in guesses])
    assert guesses_from_json(json.loads(stored)) == guesses


def test_guesses_are_multiples_of_the_lowest_place_of_their_curve() -> None:
    found = match_guesses(check_guesses({4: 6, 2: 3}), SETTINGS)
    assert [(each.setting.story, each.setting.x, each.ratio) for each in found] == [
        ("cpu", 2, 1), ("cpu", 4, 2), ("waiting", 2, 1), ("waiting", 4, 2)
    ]  # fmt: skip
    assert {each.reference.x for each in found} == {2}


def test_each_series_is_a_curve_of_its_own() -> None:
    settings = [setting(x, series=name) for x in (0, 2) for name in ("a", "b")]
    found = match_guesses(check_guesses({0: 1, 2: 2}), settings)
    assert all(each.reference.series == each.setting.series for each in found)
    assert len(found) == 4


def test_a_smaller_run_takes_what_is_about_it() -> None:
    guesses = check_guesses({0: 1, 4: 4, 8: 8})
    require_match(guesses, SETTINGS)
    assert {each.setting.x for each in match_guesses(guesses, SETTINGS)} == {0, 4}


def test_guesses_about_nothing_that_the_run_has_are_refused_with_what_it_has() -> None:
    require_match((), SETTINGS)
    with pytest.raises(ParameterError, match="0, 2, 4"):
        require_match(check_guesses({3: 1, 5: 2}), SETTINGS)
    with pytest.raises(ParameterError, match=r"cpu: 0.*waiting: 4"):
        require_match(check_guesses({"disk": {0: 1}}), SETTINGS)


def test_the_farthest_guess_of_each_curve_is_told() -> None:
    guessed = match_guesses(check_guesses({"cpu": {0: 1, 2: 2, 4: 4}}), SETTINGS)
    (told,) = told_guesses(guessed, bands(100.0, 190.0, 150.0))
    assert told == (
        "cpu, 4 workers: you predicted 4 times the rate of 0 workers, measured 1.5 (1.4 to 1.6)."
    )


def test_a_setting_that_finished_nothing_is_the_farthest() -> None:
    guessed = match_guesses(check_guesses({"cpu": {0: 1, 2: 2, 4: 4}}), SETTINGS)
    (told,) = told_guesses(guessed, bands(100.0, 50.0, None))
    assert told.endswith("it finished nothing.")


def test_nothing_is_told_without_a_reference() -> None:
    guessed = match_guesses(check_guesses({"cpu": {0: 1, 2: 2}}), SETTINGS)
    assert told_guesses(guessed, bands(None, 50.0, 60.0)) == ()
    assert told_guesses((), bands(100.0, 50.0, None)) == ()
