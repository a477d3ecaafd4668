"""The widgets of a run on its way and the one painter that sets them; it never prints."""

from __future__ import annotations

import html
import time
from collections.abc import Callable
from typing import Any

import ipywidgets as widgets

from labkit.figures import TRACED
from labkit.view.fold import Folder, Phase, Snapshot
from labkit.view.live_picture import LivePicture
from labkit.view.run_protocol import LiveRun, ResultLike
from labkit.view.status import progress, status_line
from labkit.view.style import DPI, WIDTH
from labkit.view.table import to_html

_POLL_SECONDS = 0.05
"""Between looks at whether the run is done or to be stopped; and, before the first picture, at what
has been measured."""
_ROUND_SECONDS = 0.35
"""Between pictures: each costs some milliseconds of a core that the loader could use."""


def new_image() -> widgets.Image:
    """A hidden image for frames: as wide as they are meant to be, or as a narrow page allows.

    Its height follows from theirs. A browser shows the last frame until it has the next, so that
    nothing below moves.
    """
    layout = widgets.Layout(
        width=f"{WIDTH * DPI:.0f}px", max_width="100%", height="auto", display="none"
    )
    return widgets.Image(format="jpeg", layout=layout)


class LiveBox:
    """A status line, a bar and a picture of fixed size."""

    def __init__(self) -> None:
        self.status = widgets.HTML("starting")
        self.bar = widgets.FloatProgress(min=0, max=1, layout=widgets.Layout(width="400px"))
        self.image = new_image()
        self.hint = widgets.HTML()
        self.here = widgets.ToggleButton(
            description="Show the result here", layout=widgets.Layout(display="none", width="16em")
        )
        self.here.observe(lambda _: self._show_here(), "value")
        self.words = widgets.HTML()
        self._result: ResultLike | None = None
        self.box = widgets.VBox(
            [self.status, self.bar, self.hint, self.here, self.image, self.words]
        )

    def expect(self, run: LiveRun, hint: str) -> None:
        """Make room for a run that has been started."""
        self.status.value, self.bar.value = "starting", 0.0
        self.hint.value = f"<em>{html.escape(hint)}</em>"
        self.bar.layout.display = None
        self._result, self.here.value, self.here.layout.display = None, False, "none"

    def follow(self, run: LiveRun, also: Callable[[], None] = lambda: None) -> float:
        """Poll and paint until the run is done, in the thread that calls.

        Args:
            run: the run.
            also: called after each look, for whatever else this thread paints.

        Returns:
            CPU seconds that this thread spent on it.
        """
        begun = time.thread_time()
        traced = isinstance(run.experiment.figure, TRACED)
        folder = Folder(run.settings, run.trials_total, traced=traced)
        folder.take(run.events)
        painter = _Painter(self, run)
        while True:
            done = run.done()  # asked before the poll, which then brings the last events
            folder.plan(run.settings, run.trials_total)
            folder.take(run.poll())
            painter.paint(folder, time.monotonic(), last=done)
            also()
            if done:
                return time.thread_time() - begun
            painter.rest()

    def hide(self, hint: str, result: ResultLike | None = None) -> None:
        """Leave the room to the static picture; the last status stays, with a hint.

        Args:
            hint: what the reader may do now.
            result: can be shown here as well: a page that was reloaded has lost its outputs.
        """
        self.image.layout.display = self.bar.layout.display = "none"
        self.hint.value = html.escape(hint)
        self._result = result
        self.here.layout.display = "none" if result is None else None

    def _show_here(self) -> None:
        result = self._result if self.here.value else None
        self.image.layout.display = "none" if result is None else None
        self.words.value = "" if result is None else to_html(result)
        if result is not None:
            from labkit.view.picture import render_jpeg

            self.image.value = render_jpeg(result)


class _Painter:
    """Sets the widgets at a bounded rate, and only when something has changed."""

    def __init__(self, box: LiveBox, run: LiveRun) -> None:
        self._box, self._run = box, run
        # Made at once: while the host still imports torch, nothing is measured that it could slow.
        self._picture = LivePicture(run)
        self._due = 0.0
        self._heard = -1
        self._shown = False

    def paint(self, folder: Folder, now: float, *, last: bool) -> None:
        """Show what has been heard; once a round, but at once until there is a first picture."""
        changed = folder.changes != self._heard
        soon = changed and not self._shown
        if now < self._due and not soon and not last:
            return
        self._due, self._heard = now + _ROUND_SECONDS, folder.changes
        snapshot = folder.snapshot(now)
        self._set_text(snapshot)
        anything = bool(snapshot.points) or any(snapshot.traces.values())
        if changed and anything and snapshot.phase is not Phase.ENDED:
            self._set_picture(snapshot)
            self._shown = True

    def rest(self) -> None:
        """Sleep until the next round, or until the run is done or to be stopped."""
        while True:
            left = self._due - time.monotonic() if self._shown else _POLL_SECONDS
            time.sleep(min(_POLL_SECONDS, max(0.0, left)))
            over = self._run.stop_requested or self._run.done()
            if over or not self._shown or time.monotonic() >= self._due:
                return

    def _set_text(self, snapshot: Snapshot) -> None:
        lines = [status_line(snapshot), *snapshot.deaths[-3:]]
        _assign(self._box.status, "value", "<br>".join(map(html.escape, lines)))
        done, total = progress(snapshot)
        _assign(self._box.bar, "value", min(1.0, done / total))

    def _set_picture(self, snapshot: Snapshot) -> None:
        self._box.image.value = self._picture.frame(snapshot)
        _assign(self._box.image.layout, "display", None)


def _assign(widget: Any, name: str, value: Any) -> None:
    """Set a trait only when it differs: each setting is a message to the browser."""
    if getattr(widget, name) != value:
        setattr(widget, name, value)
