"""What is asked is checked before anything starts; rounds are interleaved."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from labkit.errors import ExperimentError, LabkitError, ParameterError
from labkit.measure.plan import check_asked, make_settings, make_trials
from labkit.params import Param
from labkit.records import Experiment, Setting, trial_from_json


def lab(**changes: Any) -> Experiment:
    values: dict[str, Any] = {
        "name": "lab", "title": "", "question": "", "claims": (),
        "params": (
            Param(name="workers", label="", help="", default=(0, 1), low=0, high=256, sweep=True),
            Param(name="layout", label="", help="", default="files", choices=("files", "lmdb")),
            Param(name="wait_ms", label="", help="", default=3.0, low=0, high=100),
        ),
        "settings": lambda params, environment: [
            Setting(params={"workers": w}, label=str(w)) for w in params["workers"]
        ],
        "make_loader": lambda trial, context: [],
        "judge": lambda summary, environment: (),
        "small": {"workers": (0,)},
    }  # fmt: skip
    return Experiment(**(values | changes))


def check(given: Mapping[str, Any], **asked: Any) -> Any:
    rest = {"size": "full", "repeats": None, "seed": 0, "timeout": None} | asked
    return check_asked(lab(), given, **rest)


@pytest.mark.parametrize(
    "given",
    [
        {"workers": -1}, {"workers": 10_000}, {"workers": [0, "many"]}, {"workers": []},
        {"workers": True}, {"workers": 1.5}, {"workers": float("nan")}, {"layout": "zip"},
        {"wait_ms": "long"}, {"wait_ms": [1, 2]}, {"colour": 1},
    ],
)  # fmt: skip
def test_wrong_values_say_what_is_valid(given: dict[str, Any]) -> None:
    with pytest.raises(ParameterError) as caught:
        check(given)
    (name,) = given
    assert name in caught.value.asked
    assert caught.value.found
    assert caught.value.do


@pytest.mark.parametrize(
    "asked",
    [
        {"size": "huge"}, {"repeats": 0}, {"repeats": "5"}, {"repeats": True}, {"seed": -1},
        {"timeout": 0}, {"timeout": "long"},
    ],
)  # fmt: skip
def test_wrong_run_options_are_told(asked: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        check({}, **asked)


def test_given_beats_small_beats_default() -> None:
    assert check({}).params["workers"] == (0, 1)
    assert check({}, size="small").params["workers"] == (0,)
    assert check({"workers": [4, 2, 4]}, size="small").params["workers"] == (4, 2)
    assert check({"wait_ms": 5}).params["wait_ms"] == 5.0


def test_reserved_names_are_refused() -> None:
    with pytest.raises(LabkitError, match="reserved"):
        Param(name="seed", label="", help="", default=1)


def test_every_round_holds_every_setting_once_in_a_seeded_order() -> None:
    settings = [Setting(params={"workers": w}, label=str(w)) for w in range(6)]
    asked = check({}, repeats=5)
    trials = make_trials(settings, 10, lab(), asked)
    rounds = [trials[start : start + 6] for start in range(0, 30, 6)]
    for repeat, row in enumerate(rounds):
        assert {trial.repeat for trial in row} == {repeat}
        assert {trial["workers"] for trial in row} == set(range(6))
        assert all(trial.id == f"{10 + trial['workers']:03d}-{repeat}" for trial in row)
    assert len({tuple(trial["workers"] for trial in row) for row in rounds}) > 1
    assert trials == make_trials(settings, 10, lab(), asked)


def test_trials_survive_json() -> None:
    settings = [Setting(params={"workers": 2}, label="2", dataset={"kind": "images"})]
    (trial,) = make_trials(settings, 0, lab(), check({}, repeats=1))
    assert trial_from_json(json.loads(json.dumps(trial.to_json()))) == trial


@pytest.mark.parametrize("workers", [(), (1, 1)])
def test_no_or_repeated_settings_are_an_experiments_fault(workers: tuple[int, ...]) -> None:
    bad = lab(settings=lambda params, environment: [
        Setting(params={"workers": w}, label="") for w in workers
    ])  # fmt: skip
    with pytest.raises(ExperimentError):
        make_settings(bad, {}, None)  # type: ignore[arg-type]
