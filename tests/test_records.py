"""Records: errors in three parts, parameters that check themselves, units."""

from __future__ import annotations

import pytest

from labkit.errors import LabkitError, MeasureError
from labkit.records import MemoryBudget
from labkit.units import format_bytes, format_rate, format_seconds


def test_errors_have_three_parts_and_an_exit_code() -> None:
    error = LabkitError(asked="a", found="b", do="c")
    assert str(error) == "asked: a\nfound: b\ndo: c"
    assert (error.exit_code, MeasureError.exit_code) == (2, 1)


def test_a_budget_is_positive() -> None:
    with pytest.raises(LabkitError, match="positive"):
        MemoryBudget(limit_bytes=0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (format_bytes(0), "0 B"), (format_bytes(1536), "1.5 KiB"), (format_bytes(1 << 30), "1 GiB"),
        (format_seconds(0.00035), "350 us"), (format_seconds(0.012), "12 ms"),
        (format_seconds(125), "2 min 05 s"), (format_rate(407000), "407,000"),
        (format_rate(9.87), "9.87"),
    ],
)  # fmt: skip
def test_units(text: str, expected: str) -> None:
    assert text == expected
