"""Widgets of parameters give checked values, or say what is valid."""

from __future__ import annotations

from typing import Any

import pytest

from labkit.errors import ParameterError
from labkit.params import Param
from labkit.view.controls import Control


@pytest.mark.parametrize(
    ("place", "text", "value"),
    [(0, "0, 2,2", (0, 2)), (0, "4", (4,)), (0, " ", None), (1, "3", 3.0), (2, "lmdb", "lmdb")],
)
def test_controls_give_checked_values(experiment: Any, place: int, text: str, value: Any) -> None:
    control = Control(experiment.params[place])
    control.field.value = text
    assert control.value() == value


@pytest.mark.parametrize(("place", "text"), [(0, "many"), (1, "1, 2"), (1, "11")])
def test_controls_refuse_the_rest(experiment: Any, place: int, text: str) -> None:
    control = Control(experiment.params[place])
    control.field.value = text
    with pytest.raises(ParameterError):
        control.value()


def test_help_and_range_are_there_to_be_read() -> None:
    param = Param(name="count", label="count", help="<of> things", default=4, low=1, high=16777216)
    tip = Control(param).widget.children[1].value
    assert "&lt;of&gt; things (a number from 1 up to 16,777,216)" in tip
