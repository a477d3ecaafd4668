"""Frames of a run on its way, made cheaply: it shares the machine with what is measured.

Axes, labels and grid are drawn once and kept as a background; a frame restores it and draws the
moving artists (blitting), then becomes a JPEG. One thread at a time may use a `LivePicture`.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from PIL import Image

from labkit.view.drawn import Drawn, empty, from_snapshot
from labkit.view.figure import Drawing, new_drawing, new_figure
from labkit.view.fold import Snapshot
from labkit.view.run_protocol import LiveRun
from labkit.view.style import DPI

LIVE_SCALE = 1.5
"""Pixels of a frame for each of the page's: sharp enough on screens with two, at a third more CPU
time than one; two would take twice as much (8.6 against 6.4 and 13.7 ms for a timeline)."""


class LivePicture:
    """Paints snapshots of one run."""

    def __init__(self, run: LiveRun) -> None:
        self._run = run
        self._settings = run.settings
        self._figure = new_figure(run.experiment.figure)
        self._figure.set_dpi(LIVE_SCALE * DPI)
        self._canvas: Any = self._figure.canvas  # matplotlib leaves its methods untyped
        self._drawing: Drawing | None = None
        self._background: Any = None
        if self._settings:
            self._draw(empty(self._settings))  # fonts and glyphs are loaded by a first drawing
            self._canvas.draw()

    def _draw(self, drawn: Sequence[Drawn]) -> Drawing:
        run = self._run
        drawing = new_drawing(self._figure, run.experiment, drawn, run.environment, live=True)
        for _, artist in drawing.moving:
            artist.set_animated(True)
        return drawing

    def frame(self, snapshot: Snapshot) -> bytes:
        """The snapshot as JPEG, whose encoding costs a tenth of PNG's."""
        if self._run.settings != self._settings:  # the experiment has refined its plan
            self._settings, self._drawing = self._run.settings, None
        drawn = from_snapshot(self._settings, snapshot)
        fresh = self._drawing is None
        drawing = self._drawing = self._drawing or self._draw(drawn)
        if drawing.update(drawn) or fresh:
            self._canvas.draw()
            self._background = self._canvas.copy_from_bbox(self._figure.bbox)
        else:
            self._canvas.restore_region(self._background)
        for axes, artist in drawing.moving:
            axes.draw_artist(artist)
        stream = io.BytesIO()
        size = self._canvas.get_width_height()
        # JPEG has no alpha; read as RGBX the buffer need not be converted, which takes 2 ms.
        pixels = Image.frombuffer("RGBX", size, self._canvas.buffer_rgba(), "raw", "RGBX", 0, 1)
        pixels.save(stream, format="JPEG", quality=90)
        return stream.getvalue()
