"""Widgets for an experiment's parameters, one labelled row each; it must not start a run."""

from __future__ import annotations

from typing import Any

import ipywidgets as widgets

from labkit.errors import ParameterError
from labkit.records import Param

_STYLE = {"description_width": "12em"}


class Control:
    """One parameter's widget."""

    def __init__(self, param: Param) -> None:
        """The widget shows the default; an empty text field leaves the choice to the lab."""
        self.param = param
        tip = f"{param.help} ({param.valid})"
        if param.choices and not param.sweep:
            self.widget: Any = widgets.Dropdown(
                options=param.choices, value=param.default, description=param.label,
                tooltip=tip, style=_STYLE,
            )  # fmt: skip
        else:
            self.widget = widgets.Text(
                value=_as_text(param.default), description=param.label, tooltip=tip,
                placeholder="chosen for this machine", style=_STYLE,
            )  # fmt: skip

    def value(self) -> Any:
        """The checked value; None when the field is empty.

        Raises:
            ParameterError: not a valid value; it names the valid ones.
        """
        text = self.widget.value
        if not isinstance(text, str) or (self.param.choices and not self.param.sweep):
            return text
        parts = [part.strip() for part in text.split(",") if part.strip()]
        if not parts:
            return None
        values = [self._number(part) for part in parts]
        if len(values) > 1 and not self.param.sweep:
            raise self._error(text, f"{len(values)} values")
        return self.param.check(values if self.param.sweep else values[0])

    def _number(self, text: str) -> Any:
        for choice in self.param.choices:
            if str(choice) == text:
                return choice
        for kind in (int, float):
            try:
                return kind(text)
            except ValueError:
                continue
        raise self._error(text, f"{text!r}, which is not a number")

    def _error(self, text: str, found: str) -> ParameterError:
        return ParameterError(
            asked=f"{self.param.name}={text}", found=found, do=f"give {self.param.valid}"
        )


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
