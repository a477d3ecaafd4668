"""A tab to look into one setting: its timeline, the memory of its processes, its stages.

It must not start a run, and is drawn by whoever owns the panel's painter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets as widgets

from labkit.records import Setting
from labkit.view.live_box import new_image
from labkit.view.memory_words import memory_html
from labkit.view.run_protocol import LiveRun
from labkit.view.trace import Tracer

_STYLE = {"description_width": "5em"}


class SettingBox:
    """Choices of setting and round, and the picture of that trial."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """Build the widgets; `wake` is called when another trial has been chosen."""
        self.setting: Any = widgets.Dropdown(description="setting", style=_STYLE)
        self.round: Any = widgets.Dropdown(description="round", style=_STYLE)
        self.rank: Any = widgets.Dropdown(description="rank", style=_STYLE)
        self.image = new_image()
        self.words = widgets.HTML("Nothing has been measured yet.")
        choices = widgets.HBox(
            [self.setting, self.round, self.rank], layout=widgets.Layout(flex_flow="row wrap")
        )
        self.meaning = widgets.HTML()
        self.box = widgets.VBox([choices, self.words, self.image, self.meaning])
        self._tracer: Tracer | None = None
        self._run: LiveRun | None = None
        self._taken = self._rank = 0
        self._shown: tuple[Any, ...] = ()
        for field in (self.setting, self.round, self.rank):
            field.observe(lambda _: wake(), "value")

    def follow(self, run: LiveRun) -> None:
        """Look into this run from now on."""
        self._run, self._shown = run, ()
        self._read_anew(run, 0)

    def _read_anew(self, run: LiveRun, rank: int) -> None:
        self._rank, self._tracer, self._taken = rank, Tracer(run.settings, rank), 0

    def _read(self, run: LiveRun) -> Tracer:
        """Take what has been heard since; the tracer has all of it then."""
        tracer = self._tracer
        assert tracer is not None
        tracer.settings = run.settings
        events = run.events
        for event in events[self._taken :]:
            tracer.take(event)
        self._taken = len(events)
        return tracer

    def refresh(self) -> None:
        """Draw the chosen trial anew if something of it has changed; one thread at a time."""
        run = self._run
        if run is None:
            return
        self._offer(run.settings, self._read(run))
        if self.rank.value not in (None, self._rank):  # chosen, or offered with another setting
            self._read_anew(run, self.rank.value)
        tracer = self._read(run)  # now: an offer that is taken draws by itself
        setting = self.setting.value
        if setting is None:
            return
        traces = {trace.repeat: trace for trace in tracer.of(setting.key)}
        trace = traces.get(self.round.value or 0)
        if trace is None:
            return
        ended = trace.ended is not None
        state = (trace.trial, self._rank, len(trace.loaded), len(trace.memory), ended)
        if state != self._shown:
            self._shown = state
            self._draw(setting, trace)

    def _offer(self, settings: tuple[Setting, ...], tracer: Tracer) -> None:
        """The settings of which something has been heard, and the rounds of the chosen one."""
        heard = [setting for setting in settings if tracer.of(setting.key)]
        _offer(self.setting, [(setting.name, setting) for setting in heard])
        if self.setting.value is not None:
            rounds = sorted(trace.repeat for trace in tracer.of(self.setting.value.key))
            _offer(self.round, [(str(number + 1), number) for number in rounds])
            ranks = range(max(1, self.setting.value.ranks))
            _offer(self.rank, [(str(rank), rank) for rank in ranks])
            self.rank.layout.display = None if ranks[1:] else "none"

    def _draw(self, setting: Setting, trace: Any) -> None:
        from labkit.view.draw_setting import draw_trace
        from labkit.view.figure import new_figure
        from labkit.view.picture import to_jpeg

        figure = new_figure()
        draw_trace(figure, setting, trace.repeat, trace, self._rank)
        self.image.value = to_jpeg(figure)
        self.image.layout.display = None
        ended = trace.ended[1].status.replace("_", " ") if trace.ended else "still running"
        meaning = memory_html(sample for _, sample in trace.memory)
        if meaning != self.meaning.value:  # set anew, a list that the reader has opened would close
            self.meaning.value = meaning
        self.words.value = f"trial {trace.trial}: {len(trace.loaded)} batches, {ended}"


def _offer(field: Any, options: list[tuple[str, Any]]) -> None:
    """Replace the options when they have changed; the choice stays."""
    if [label for label, _ in options] == [label for label, _ in field.options]:
        return
    chosen, values = field.value, [value for _, value in options]
    field.options = options
    field.value = chosen if chosen in values else next(iter(values), None)
