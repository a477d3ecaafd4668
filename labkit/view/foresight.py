"""What a panel says before Run is pressed: the values' faults, data to be made, memory, time.

It asks in a thread of its own: on its first time a cold lab looks at the machine for two seconds.
"""

from __future__ import annotations

import html
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import ipywidgets as widgets

from labkit.errors import LabkitError
from labkit.units import format_bytes, format_seconds
from labkit.view.run_protocol import Lab, Preview

_QUIET_SECONDS = 0.3
"""Keystrokes follow one another faster than this."""
_MOST_WARNINGS = 4


class Foresight:
    """A line or two under the controls, kept up with them."""

    def __init__(self, lab: Lab, values: Callable[[], Mapping[str, Any]]) -> None:
        """Args: what would be run, and the controls' values (which may raise LabkitError)."""
        self._lab, self._values = lab, values
        self.words = widgets.HTML()
        self._asked = 0
        self._paused = False
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def ask(self) -> None:
        """The values have changed; never blocks."""
        with self._lock:
            self._asked += 1
            if self._paused or (self._thread is not None and self._thread.is_alive()):
                return
            self._thread = threading.Thread(target=self._work, name="labkit-preview", daemon=True)
            self._thread.start()

    def pause(self, on: bool) -> None:
        """While a run is live the machine is not to be looked at; afterwards data may be there."""
        self._paused = on
        if on:
            self.words.value = ""
        else:
            self.ask()

    def wait(self, timeout: float | None = None) -> None:
        """Block until the words are up to date."""
        thread = self._thread
        if thread is not None:
            thread.join(timeout)

    def _work(self) -> None:
        while True:
            number = self._asked
            time.sleep(_QUIET_SECONDS)
            if number != self._asked:
                continue
            words = "" if self._paused else self._look()
            with self._lock:
                if number == self._asked or self._paused:
                    self.words.value = "" if self._paused else words
                    self._thread = None
                    return

    def _look(self) -> str:
        try:
            return "<br>".join(map(html.escape, preview_lines(self._lab.preview(self._values()))))
        except LabkitError as error:
            return f"<pre role='alert'>{html.escape(str(error))}</pre>"
        except Exception as error:  # a reader's own lab; Run will say it in full
            return html.escape(f"{type(error).__name__}: {error}")


def preview_lines(preview: Preview) -> list[str]:
    """What will be measured, what must be made first, and what will not fit."""
    count = f"{preview.settings} settings" if preview.settings != 1 else "1 setting"
    rounds = f"{preview.rounds} rounds" if preview.rounds != 1 else "1 round"
    about = "" if preview.seconds is None else f", about {format_seconds(preview.seconds)}"
    lines = [f"{count}, {rounds}{about}"]
    if preview.missing_bytes:
        size, seconds = format_bytes(preview.missing_bytes), round(preview.missing_seconds)
        lines.append(
            f"{size} of data must be generated first: about {format_seconds(max(1, seconds))}"
        )
    if preview.outlook:
        lines.append(preview.outlook)
    warnings = list(preview.warnings[:_MOST_WARNINGS])
    if more := len(preview.warnings) - len(warnings):
        warnings.append(f"and {more} more like these")
    return lines + [f"⚠ {warning}" for warning in warnings]  # not by colour alone
