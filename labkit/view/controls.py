"""Widgets for an experiment's parameters, one labelled row each; it must not start a run."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from typing import Any

import ipywidgets as widgets

from labkit.errors import ParameterError
from labkit.params import Param
from labkit.records import Experiment

_STYLE = {"description_width": "11em"}
_FIELD = {"width": "24em", "flex": "0 0 auto"}

SIZE = Param(
    name="run_size", label="size", default="full", choices=("full", "small"),
    help="small finishes sooner and tells less",
)  # fmt: skip
ROUNDS = Param(
    name="rounds", label="rounds", default=5, low=1, high=100,
    help="how often each setting is measured: more rounds, less noise",
)  # fmt: skip


class Control:
    """One parameter's widget, with its help and its valid range beside it."""

    def __init__(self, param: Param) -> None:
        """The widget shows the default; an empty text field leaves the choice to the lab."""
        self.param = param
        told = f"{param.help} ({param.valid})"
        common = {"description": param.label, "style": _STYLE, "layout": _FIELD}
        if param.choices and not param.sweep:
            self.field: Any = widgets.Dropdown(
                options=param.choices, value=param.default, **common
            )
        else:
            self.field = widgets.Text(
                value=as_text(param.default), placeholder="chosen for this machine", **common
            )
        # A long tip wraps beside its field; it never covers it.
        self._tip = widgets.HTML(
            f"<small style='display:block;white-space:normal;line-height:1.3'>"
            f"{html.escape(told)}</small>",
            layout=widgets.Layout(flex="1 1 0%", min_width="10em"),
        )
        layout = widgets.Layout(align_items="center", max_width="60em")
        self.widget = widgets.HBox([self.field, self._tip], layout=layout)

    def show(self, value: Any) -> None:
        """Put a value into the field."""
        choice = self.param.choices and not self.param.sweep
        self.field.value = value if choice else as_text(value)

    def value(self) -> Any:
        """The checked value; None when the field is empty.

        Raises:
            ParameterError: not a valid value; it names the valid ones.
        """
        text = self.field.value
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
            asked=f"{self.param.label}: {text}", found=found, do=f"give {self.param.valid}"
        )


class Controls:
    """The parameters of an experiment in one column, then size and rounds."""

    def __init__(
        self, experiment: Experiment, values: Mapping[str, Any],
        defaults: Callable[[str], Mapping[str, Any]], size: str,
    ) -> None:  # fmt: skip
        """Show `values`, and the defaults of the size for all others.

        Args:
            experiment: whose parameters are offered.
            values: what was asked for.
            defaults: parameter values at a size.
            size: ``full`` or ``small``.
        """
        self._experiment, self._defaults = experiment, defaults
        self.own = {param.name: Control(param) for param in experiment.params}
        self.size, self.rounds = Control(SIZE), Control(ROUNDS)
        self._usual: dict[str, Any] = {}
        self.size.show(size)
        self._show_defaults(size)
        for name, value in values.items():
            if name in self.own:
                self.own[name].show(value)
        if values.get("repeats"):
            self.rounds.show(values["repeats"])
        self.fields = [each.field for each in (*self.own.values(), self.size, self.rounds)]
        self.size.field.observe(lambda _: self._show_defaults(self.size.field.value), "value")
        self.box = widgets.VBox(
            [each.widget for each in (*self.own.values(), self.size, self.rounds)]
        )

    def _show_defaults(self, size: str) -> None:
        """Other defaults belong to another size; what the reader has changed stays."""
        usual = {**self._defaults(size), "repeats": self._experiment.rounds(size)}
        for name, value in usual.items():
            control = self.rounds if name == "repeats" else self.own[name]
            text = control.field.value
            untouched = name not in self._usual or text in (
                self._usual[name], as_text(self._usual[name])
            )  # fmt: skip
            if untouched:
                control.show(value)
        self._usual = usual

    def values(self) -> dict[str, Any]:
        """Checked values by name, ``size`` and ``repeats`` among them; empty fields are left out.

        Raises:
            ParameterError: the first value that is not valid.
        """
        found = {name: control.value() for name, control in self.own.items()}
        found |= {"size": self.size.value(), "repeats": self.rounds.value()}
        return {name: value for name, value in found.items() if value is not None}

    def observe(self, changed: Callable[[], None]) -> None:
        """Call back whenever a field has changed."""
        for field in self.fields:
            field.observe(lambda _: changed(), "value")

    def enable(self, on: bool) -> None:
        """Let the reader change the fields, or not."""
        for field in self.fields:
            field.disabled = not on


def as_text(value: Any) -> str:
    """A value as its text field shows it."""
    if value is None:
        return ""
    return ", ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
