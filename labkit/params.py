"""The parameters of an experiment: each feeds widget, command-line option and check alike.

Frozen records without I/O; it must not know any other room.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from labkit.errors import ParameterError

Value = int | float | str | bool
Params = Mapping[str, Any]
"""Parameter name to its value; a sweep parameter holds a tuple of values."""

RESERVED = ("size", "repeats", "seed", "timeout", "predict")
"""Names that `labkit.run` keeps for itself; no Param may use them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """One control of an experiment: feeds widget, command-line option and check alike."""

    name: str
    label: str
    help: str
    default: Any
    """A value, or a tuple of values when `sweep`."""
    choices: tuple[Value, ...] = ()
    low: float | None = None
    high: float | None = None
    sweep: bool = False

    def __post_init__(self) -> None:
        if self.name in RESERVED:
            raise ParameterError(
                asked=f"a parameter called {self.name!r}",
                found=f"{', '.join(RESERVED)} are reserved for labkit.run",
                do="choose another name",
            )
        if self.default is not None:
            self.check(self.default)

    def check(self, value: Any) -> Any:
        """The value in its canonical form (sweeps become tuples without repetition).

        Raises:
            ParameterError: wrong type, outside the range or not among the choices.
        """
        if not self.sweep:
            return self._check_one(value)
        many = tuple(value) if isinstance(value, (list, tuple, range)) else (value,)
        if not many:
            raise self._error(value, "an empty list")
        return tuple(dict.fromkeys(self._check_one(item) for item in many))

    def _check_one(self, value: Any) -> Value:
        if self.choices:
            if value not in self.choices:
                raise self._error(value, repr(value))
            return value  # type: ignore[no-any-return]
        sample = self.default[0] if isinstance(self.default, tuple) else self.default
        wants_int = isinstance(sample, int) or (sample is None and self.high is not None)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._error(value, f"{value!r}, which is not a number")
        if not math.isfinite(value) or (wants_int and value != int(value)):
            raise self._error(value, f"{value!r}, which is not a whole number")
        low = -math.inf if self.low is None else self.low
        high = math.inf if self.high is None else self.high
        if not low <= value <= high:
            raise self._error(value, f"{value!r}, which is outside the range")
        return int(value) if wants_int else float(value)

    @property
    def valid(self) -> str:
        """The valid values in words."""
        if self.choices:
            return "one of " + ", ".join(str(choice) for choice in self.choices)
        low = "" if self.low is None else f" from {_plain(self.low)}"
        high = "" if self.high is None else f" up to {_plain(self.high)}"
        return f"a number{low}{high}"

    def _error(self, value: Any, found: str) -> ParameterError:
        many = " (or a list of such values)" if self.sweep else ""
        return ParameterError(
            asked=f"{self.name}={value!r}", found=found, do=f"give {self.valid}{many}"
        )


def _plain(number: float) -> str:
    """Without an exponent where that can be."""
    return f"{int(number):,}" if number == int(number) else f"{number:g}"
