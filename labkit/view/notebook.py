"""The view in a notebook: a live picture while a run goes on, a static one that stays.

One painter owns the figure. While a cell blocks it is the loop that waits for the run; in a
`Panel` it is one thread, which sets widgets and display handles and never prints or displays.
"""

from __future__ import annotations

import html
import threading
from collections.abc import Callable, Mapping
from typing import Any

import IPython.display
import ipywidgets as widgets

from labkit.errors import LabkitError, MeasureError
from labkit.records import Experiment
from labkit.view.controls import Control
from labkit.view.live_box import LiveBox
from labkit.view.picture import Picture
from labkit.view.run_protocol import LiveRun, ResultLike
from labkit.view.table import to_html, to_text

_PRESS_STOP = "press ■ to stop; what was measured stays"
_NOTHING = {"text/plain": ""}

display: Any = IPython.display.display  # published without types


class _Record:
    """The outputs of a cell that stay in the saved notebook: made at once, filled at the end."""

    def __init__(self) -> None:
        self._picture = display(_NOTHING, raw=True, display_id=True)
        self._table = display(_NOTHING, raw=True, display_id=True)

    def fill(self, result: ResultLike) -> None:
        data, metadata = Picture(result).bundle()
        self._picture.update(data, metadata=metadata, raw=True)
        table = {"text/html": to_html(result), "text/plain": to_text(result)}
        self._table.update(table, raw=True)


def watch_in_notebook(run: LiveRun) -> float:
    """Show a run in this cell until it is done; leaves picture, sentence and table there.

    A KeyboardInterrupt takes the live picture away and goes on to the caller, who stops the run
    and calls again.

    Returns:
        CPU seconds that this thread spent on it.
    """
    live = LiveBox(_PRESS_STOP)
    display(live.box)
    try:
        seconds = live.follow(run)
    finally:
        live.hide()
    _Record().fill(run.result())
    return seconds


class Panel:
    """An experiment's controls with Run and Stop, for a notebook; nothing in it blocks."""

    def __init__(
        self, start: Callable[[Mapping[str, Any]], LiveRun], experiment: Experiment,
        outlook: Callable[[Mapping[str, Any]], str] = lambda params: "",
    ) -> None:  # fmt: skip
        """Build the widgets.

        Args:
            start: checks parameters and starts a run.
            experiment: whose parameters are offered.
            outlook: one sentence on what a run with these parameters will take.
        """
        self._outlook = outlook
        self._start = start
        self._controls = [Control(param) for param in experiment.params]
        self._run: LiveRun | None = None
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._record: _Record | None = None
        self.result: ResultLike | None = None
        """Of the last run that has ended."""
        self.run_button = widgets.Button(description="Run", icon="play")
        self.stop_button = widgets.Button(description="Stop", icon="stop", disabled=True)
        self.run_button.on_click(lambda _: self.run())
        self.stop_button.on_click(lambda _: self.stop())
        self.message = widgets.HTML()
        self.before = widgets.HTML()
        for control in self._controls:
            control.widget.observe(lambda _: self._foresee(), "value")
        self._foresee()
        self._live = widgets.VBox()
        self.box = widgets.VBox([
            widgets.HTML(f"<strong>{html.escape(experiment.title)}</strong>"),
            *(control.widget for control in self._controls), self.before,
            widgets.HBox([self.run_button, self.stop_button]), self.message, self._live,
        ])  # fmt: skip

    def _ipython_display_(self) -> None:
        display(self.box)
        self._record = _Record()  # of this cell, so that a thread need not display

    def _values(self) -> dict[str, Any]:
        """What the controls say; an empty one says nothing."""
        values = {control.param.name: control.value() for control in self._controls}
        return {name: value for name, value in values.items() if value is not None}

    def _foresee(self) -> None:
        """Say before Run what it will take."""
        try:
            text = self._outlook(self._values())
        except LabkitError as error:
            text = str(error)  # also of a value that is only half typed
        self.before.value = html.escape(text)

    def run(self) -> None:
        """Start a run with the values of the controls; does nothing while one goes on."""
        if self._thread is not None and self._thread.is_alive():
            return
        self.message.value = ""
        self._error = self.result = None
        try:
            self._run = self._start(self._values())
        except LabkitError as error:
            self._show(error)
            return
        self.run_button.disabled, self.stop_button.disabled = True, False
        live = LiveBox("Stop keeps what was measured")
        self._live.children = (live.box,)
        self._thread = threading.Thread(
            target=self._follow, args=(live, self._run), name="labkit-panel", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End the run; what was measured stays."""
        if self._run is not None:
            self._run.stop()

    def wait(self, timeout: float | None = None) -> ResultLike | None:
        """Block until the run is done; returns its result.

        Raises:
            MeasureError: it still runs after `timeout` seconds.
            Exception: what went wrong in the panel's thread.
        """
        if self._thread is not None:
            self._thread.join(timeout)
            if self._thread.is_alive():
                raise MeasureError(
                    asked="the end of the panel's run",
                    found=f"it still runs after {timeout} s",
                    do="wait longer, or stop() it",
                )
        if self._error is not None:
            raise self._error
        return self.result

    def _follow(self, live: LiveBox, run: LiveRun) -> None:
        """The panel's thread: an error is kept for `wait` and shown, never printed."""
        try:
            seconds = live.follow(run)
            self.result = run.result()
            self.result.painter_seconds = seconds
            if self._record is not None:
                self._record.fill(self.result)
        except BaseException as error:
            run.stop()
            self._show(error)
        finally:
            live.hide()
            self.run_button.disabled, self.stop_button.disabled = False, True

    def _show(self, error: BaseException) -> None:
        self._error = error
        name = "" if isinstance(error, LabkitError) else f"{type(error).__name__}: "
        self.message.value = f"<pre>{html.escape(name + str(error))}</pre>"
