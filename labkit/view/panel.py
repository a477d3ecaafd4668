"""An experiment in a notebook: controls, Run and Stop, a live picture, and a record that stays.

One painter owns the figures: the cell's own thread while `watch` blocks it, else one thread, which
sets widgets and display handles and never prints or displays. Callbacks only set flags or start a
thread: they may run on any. It must not measure.
"""

from __future__ import annotations

import html
import threading
import time
from collections.abc import Mapping
from typing import Any

import ipywidgets as widgets

from labkit.errors import LabkitError, MeasureError
from labkit.view.cell import Record, display, execution, take_cell
from labkit.view.choose import in_notebook
from labkit.view.controls import Controls
from labkit.view.foresight import Foresight
from labkit.view.live_box import LiveBox
from labkit.view.run_protocol import Lab, LiveRun, ResultLike
from labkit.view.setting_box import SettingBox

_PRESS_STOP = "press ■ (or the keys i, i) to stop; what was measured stays"
_STOP_KEEPS = "Stop keeps what was measured"
_BELOW = (
    "Picture, table and verdicts stand below this panel and stay in the notebook. Not there? A page"
    " that was reloaded meanwhile has lost them:"
)
_CLASS = "labkit-panel"
_SCROLLED = f"body[data-notebook] .jp-mod-outputsScrolled:has(.{_CLASS}) > * > .jp-Cell-outputArea"
# Notebook 7 squeezes outputs of more than 1820 pixels into a small box that scrolls. Controls,
# picture and table together are higher, so that it would happen at the end of a run.
_UNSQUEEZE = (
    f"<style>{_SCROLLED} {{max-height: none; overflow: visible; resize: none}}"
    f"{_SCROLLED}::after {{display: none}}</style>"
)
_NO_CONTROL = ("seed", "timeout", "predict")
_SETTLE_SECONDS = 0.3
"""Keys that are typed while the kernel is busy come after the click on Run: ipywidgets holds them
back until the kernel has answered the first of them, and holds no click back."""
_LOOK_SECONDS = 3.0
"""A look into one setting costs a tenth of a second of a core: while a run is live, not often."""


class _Box(widgets.VBox):  # type: ignore[misc]  # published without types
    """Says in words what it is, where there are no widgets."""

    def __repr__(self) -> str:
        return "labkit's controls need a running kernel and widgets; labkit.run(...) needs neither"


class Panel:
    """An experiment's controls with Run and Stop; nothing in it blocks but `watch` and `wait`."""

    def __init__(self, lab: Lab, values: Mapping[str, Any] | None = None) -> None:
        """Build the widgets.

        Args:
            lab: what is run.
            values: what the controls begin with; defaults where it has none.

        Raises:
            LabkitError: a value that is not valid.
        """
        values = dict(values or {})
        experiment = lab.experiment
        self._lab = lab
        self._fixed = {name: values[name] for name in _NO_CONTROL if name in values}
        self._run: LiveRun | None = None
        self._thread: threading.Thread | None = None
        self._stop_wanted = False
        self._error: BaseException | None = None
        self._record: Record | None = None
        self._look_due = 0.0
        self.result: ResultLike | None = None
        """Of the last run that has ended."""
        self.controls = Controls(
            experiment, values, lab.defaults, values.get("size") or lab.default_size
        )
        self.foresight = Foresight(lab, self._values)
        self.controls.observe(self.foresight.ask)
        self.run_button = widgets.Button(description="Run", icon="play", button_style="primary")
        self.stop_button = widgets.Button(description="Stop", icon="stop", disabled=True)
        self.run_button.on_click(lambda _: self.run())
        self.stop_button.on_click(lambda _: self.stop())
        self.message = widgets.HTML()
        self.live = LiveBox()
        self.looking = SettingBox(self._look_now)
        self.tabs = widgets.Tab(
            [self.live.box, self.looking.box], titles=("all settings", "one setting"),
            layout=widgets.Layout(display="none"),
        )  # fmt: skip
        self.tabs.observe(lambda _: self._look_now(), "selected_index")
        title = f"<h3>{html.escape(experiment.title)}</h3><p>{html.escape(experiment.question)}</p>"
        buttons = widgets.HBox([self.run_button, self.stop_button])
        self.settings = widgets.VBox(
            [widgets.HTML(_UNSQUEEZE + title), self.controls.box, self.foresight.words, buttons]
        )
        self.box = _Box([self.settings, self.message, self.tabs])
        self.box.add_class(_CLASS)

    def _ipython_display_(self) -> None:
        take_cell(self)
        display(self.box)
        if in_notebook():  # a terminal prints what is displayed, later from a thread
            self._record = Record()  # of this cell, so that a thread need not display
        if self._thread is None:
            self.foresight.ask()

    def _values(self) -> dict[str, Any]:
        return self.controls.values() | self._fixed

    def watch(self, run: LiveRun) -> float:
        """Show a run that was started elsewhere until it is done, in the cell that is running.

        The cell blocks meanwhile: clicks cannot arrive, so that no button is shown. Afterwards
        the controls are live, and start the next run in the background.

        Returns:
            CPU seconds that this thread spent on it.
        """
        take_cell(self)
        self.settings.layout.display = "none"
        self._begin(run, _PRESS_STOP)
        display(self.box)
        self._record = Record()
        try:
            seconds = self.live.follow(run, self._look)
            self._end(run, seconds)
            if self.result is not None:
                self.result.told_in = execution()
        finally:
            self.live.hide("")
            self.settings.layout.display = None
        return seconds

    def run(self) -> None:
        """Start a run with the values of the controls; does nothing while one goes on."""
        if self._thread is not None and self._thread.is_alive():
            return
        self.message.value = ""
        self._error = self.result = self._run = None
        self._stop_wanted = False
        self._busy(True)
        self._thread = threading.Thread(target=self._work, name="labkit-panel", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the run; what was measured stays."""
        self._stop_wanted = True
        if self._run is not None:
            self._run.stop_requested = True
        self.stop_button.disabled = True

    def wait(self, timeout: float | None = None) -> ResultLike | None:
        """Block until the run is done; the first interrupt stops it, a second one raises.

        Returns:
            What was measured; None when nothing was started.

        Raises:
            MeasureError: it still runs after `timeout` seconds.
            Exception: what went wrong in the panel's thread.
        """
        if self._thread is not None:
            try:
                self._thread.join(timeout)
            except KeyboardInterrupt:
                self.stop()
                self._thread.join()
            if self._thread.is_alive():
                raise MeasureError(
                    asked="the end of the panel's run",
                    found=f"it still runs after {timeout} s",
                    do="wait longer, or stop() it",
                )
        if self._error is not None:
            raise self._error
        return self.result

    def close(self) -> None:
        """Stop its run and take its widgets away: another panel takes this one's cell."""
        self.stop()
        self._record = None
        self.box.close()

    def _work(self) -> None:
        """The panel's thread: an error is kept for `wait` and shown, never printed."""
        run: LiveRun | None = None
        try:
            time.sleep(_SETTLE_SECONDS)
            run = self._lab.start(self._values())
            self._begin(run, _STOP_KEEPS)
            if self._stop_wanted:
                run.stop_requested = True
            self._end(run, self.live.follow(run, self._look))
        except BaseException as error:
            if run is not None:
                run.stop()
            self._show(error)
        finally:
            self.live.hide(_BELOW if self.result is not None else "", self.result)
            self._busy(False)
            self._look_now()

    def _begin(self, run: LiveRun, hint: str) -> None:
        self._run = run
        self.live.expect(run, hint)
        self.looking.follow(run)
        self.tabs.selected_index = 0
        self.tabs.layout.display = None

    def _end(self, run: LiveRun, seconds: float) -> None:
        result = run.result()
        result.painter_seconds = seconds
        self.result = result
        if self._record is not None:
            self._record.fill(result)

    def _look(self) -> None:
        """Part of the painter's round: the chosen setting, while its tab is open."""
        now = time.monotonic()
        if self.tabs.selected_index == 1 and now >= self._look_due:
            self._look_due = now + _LOOK_SECONDS
            self.looking.refresh()

    def _look_now(self) -> None:
        """Another trial was chosen: the painter's turn, or ours when it has gone."""
        self._look_due = 0.0
        idle = self._thread is None or not self._thread.is_alive()
        mine = self._thread is threading.current_thread()
        if (idle or mine) and self.result is not None and self.tabs.selected_index == 1:
            self.looking.refresh()

    def _busy(self, on: bool) -> None:
        self.run_button.disabled, self.stop_button.disabled = on, not on
        self.controls.enable(not on)
        self.foresight.pause(on)

    def _show(self, error: BaseException) -> None:
        self._error = error
        name = "" if isinstance(error, LabkitError) else f"{type(error).__name__}: "
        self.message.value = f"<pre role='alert'>{html.escape(name + str(error))}</pre>"
