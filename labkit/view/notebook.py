"""The view in a notebook: a live picture while a run goes on, a static one that stays.

One painter owns the figure, and it is the loop that waits for the run: no thread draws, prints
or displays while a cell blocks. `Panel` runs the same loop in a thread that only sets widgets.
"""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable
from typing import Any

import IPython.display
import ipywidgets as widgets
from matplotlib.figure import Figure
from PIL import Image

from labkit.errors import LabkitError, ParameterError
from labkit.records import Experiment, Param
from labkit.view.figure import DPI, SIZE_INCHES, draw_curves, rgb_of
from labkit.view.fold import Progress
from labkit.view.picture import Picture
from labkit.view.table import to_html

display: Any = IPython.display.display  # published without types

_DRAW_SECONDS = 0.4
"""A redraw costs about 40 ms of a core that the loader could use: two or three a second at most."""

_POLL_SECONDS = 0.1
_HINT = "press ■ (interrupt) to stop; what was measured stays"


class LivePicture:
    """The widgets of a run, and the painter that updates them."""

    def __init__(self, hint: str = _HINT) -> None:
        width = f"{SIZE_INCHES[0] * DPI:.0f}px"
        self.status = widgets.HTML("starting")
        self.bar = widgets.IntProgress(min=0, max=1, layout=widgets.Layout(width=width))
        self.image = widgets.Image(format="jpeg", layout=widgets.Layout(
            width=width, height=f"{SIZE_INCHES[1] * DPI:.0f}px"))  # fmt: skip
        self.hint = widgets.HTML(f"<i>{hint}</i>")
        self.box = widgets.VBox([self.status, self.bar, self.image, self.hint])
        self._figure = Figure(dpi=DPI)
        self._drawn = (-1, 0.0)

    def follow(self, run: Any) -> float:
        """Poll and paint until the run is done; returns the CPU seconds that it took."""
        start = time.thread_time()
        progress = Progress(run.settings, run.trials_total)
        progress.add(run.events)
        while True:
            progress.add(run.poll())
            progress.settings, progress.total = run.settings, run.trials_total
            self._paint(run, progress)
            if run.done():
                return time.thread_time() - start
            time.sleep(_POLL_SECONDS)

    def _paint(self, run: Any, progress: Progress) -> None:
        if self.status.value != progress.line:
            self.status.value = progress.line
            self.bar.max, self.bar.value = max(progress.total, 1), progress.ended
        version, when = self._drawn
        if progress.version == version or time.monotonic() - when < _DRAW_SECONDS:
            return
        draw_curves(self._figure, run.experiment, progress.settings, progress.points,
                    run.environment, None)  # fmt: skip
        buffer = io.BytesIO()
        Image.fromarray(rgb_of(self._figure)).save(buffer, "JPEG", quality=90)
        self.image.value = buffer.getvalue()
        self._drawn = (progress.version, time.monotonic())

    def finish(self, result: Any) -> None:
        """Hide what was live: the static picture takes its place."""
        for widget in (self.image, self.hint, self.bar):
            widget.layout.display = "none"
        self.status.value = f"{result.status.value}: {len(result.settings)} settings"


def watch_in_notebook(run: Any) -> float:
    """Show a run in the output of this cell until it is done, and leave the picture there.

    Returns:
        CPU seconds that drawing took in this kernel.
    """
    live = LivePicture()
    display(live.box)
    # Made now, in this cell, and filled at the end: it stays in the saved notebook.
    static = display({"text/plain": "measuring ..."}, raw=True, display_id=True)
    try:
        seconds = live.follow(run)
    except KeyboardInterrupt:
        live.box.layout.display = "none"
        static.update({"text/plain": "stopped"}, raw=True)
        raise
    result = run.result()
    live.finish(result)
    data, metadata = Picture(result).bundle()
    static.update(data, metadata=metadata, raw=True)
    return seconds


class Panel:
    """An experiment's controls with Run and Stop; `labkit.panel` makes it, a notebook shows it."""

    def __init__(self, start: Callable[[dict[str, Any]], Any], experiment: Experiment) -> None:
        self._start = start
        self._experiment = experiment
        self._run: Any = None
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self.result: Any = None
        """The last finished run's result."""
        self._controls = {param.name: _control(param) for param in experiment.params}
        self.run_button = widgets.Button(description="Run", icon="play")
        self.stop_button = widgets.Button(description="Stop", icon="stop", disabled=True)
        self.run_button.on_click(lambda _: self.run())
        self.stop_button.on_click(lambda _: self.stop())
        self._message = widgets.HTML()
        self._live = widgets.VBox()
        self.box = widgets.VBox([
            widgets.HTML(f"<b>{experiment.title}</b>"), *self._controls.values(),
            widgets.HBox([self.run_button, self.stop_button]), self._message, self._live,
        ])  # fmt: skip

    def _ipython_display_(self) -> None:
        display(self.box)

    def run(self) -> None:
        """Start a run with the values of the controls; does not block."""
        if self._thread is not None and self._thread.is_alive():
            return
        try:
            values = {name: _value(name, control.value) for name, control in
                      self._controls.items()}  # fmt: skip
            self._run = self._start({k: v for k, v in values.items() if v is not None})
        except LabkitError as error:
            self._message.value = f"<pre>{error}</pre>"
            return
        self._message.value = ""
        self._error = None
        self.run_button.disabled, self.stop_button.disabled = True, False
        live = LivePicture(hint="Stop keeps what was measured")
        self._live.children = (live.box,)
        self._thread = threading.Thread(target=self._follow, args=(live,), daemon=True)
        self._thread.start()

    def _follow(self, live: LivePicture) -> None:
        """Runs in the panel's thread: sets widgets, never prints."""
        try:
            seconds = live.follow(self._run)
            self._run.wait()
            self.result = self._run.result()
            self.result.painter_seconds = seconds
            live.finish(self.result)
            image = widgets.Image(value=Picture(self.result).png, format="png")
            self._live.children = (live.box, image, widgets.HTML(to_html(self.result)))
        except BaseException as error:
            self._error = error
            self._message.value = f"<pre>{type(error).__name__}: {error}</pre>"
        finally:
            self.run_button.disabled, self.stop_button.disabled = False, True

    def stop(self) -> None:
        """End the run; what was measured stays."""
        if self._run is not None:
            self._run.stop()

    def wait(self, timeout: float | None = None) -> Any:
        """Block until the run is done and return its result; raises what failed meanwhile."""
        if self._thread is not None:
            self._thread.join(timeout)
        if self._error is not None:
            raise self._error
        return self.result


def _control(param: Param) -> Any:
    """A labelled control for a parameter, with its help and valid values."""
    style, tip = {"description_width": "12em"}, f"{param.help} ({param.valid})"
    if param.choices:
        return widgets.Dropdown(options=param.choices, value=param.default, style=style,
                                description=param.label, tooltip=tip)  # fmt: skip
    many = isinstance(param.default, tuple)
    default = ", ".join(map(str, param.default)) if many else param.default
    return widgets.Text(value="" if default is None else str(default), style=style,
                        placeholder="chosen for this machine", tooltip=tip,
                        description=param.label)  # fmt: skip


def _value(name: str, text: Any) -> Any:
    """A control's text as a value: numbers, lists of numbers; None when left empty."""
    if not isinstance(text, str) or not text.strip():
        return None if text == "" else text
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError as error:
        raise ParameterError(
            asked=f"{name}={text!r}", found="not a number", do="write numbers, such as 0, 1, 2"
        ) from error
    return numbers if len(numbers) > 1 else numbers[0]
