from __future__ import annotations

import pytest

from labkit.errors import ParameterError
from labkit.params import RESERVED, Param


def test_ranges_are_told_in_words() -> None:
    param = Param(name="x", label="", help="", default=1, low=0, high=4)
    assert param.valid == "a number from 0 up to 4"
    assert param.check(3.0) == 3
    assert isinstance(param.check(3.0), int)


@pytest.mark.parametrize("name", RESERVED)
def test_names_of_runs_are_not_for_parameters(name: str) -> None:
    with pytest.raises(ParameterError, match="reserved"):
        Param(name=name, label="", help="", default=1)
