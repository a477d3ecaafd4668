"""Frames of a run on its way, made cheaply: it shares the machine with what is measured.

Axes, labels and grid are drawn once and kept as a background; a frame restores it and draws the
moving artists (blitting), then becomes a JPEG. When an axis has grown only its axes are drawn
anew: that takes 15 ms, and the whole figure 50. One thread at a time may use a `LivePicture`.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import to_rgba
from matplotlib.transforms import Bbox
from PIL import Image

from labkit.view.drawn import Drawn, empty, from_snapshot
from labkit.view.figure import Drawing, new_drawing, new_figure
from labkit.view.fold import Snapshot
from labkit.view.run_protocol import LiveRun
from labkit.view.style import DPI, PAPER

if TYPE_CHECKING:
    from matplotlib.artist import Artist

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
        self._paper = np.rint(255 * np.array(to_rgba(PAPER))).astype(np.uint8)
        self._drawing: Drawing | None = None
        self._background: Any = None
        self._boxes: dict[Artist, Bbox] = {}
        """What each piece of the background covers, in pixels from below."""
        if self._settings:
            self._draw(empty(self._settings, run.guesses))

    def frame(self, snapshot: Snapshot) -> bytes:
        """The snapshot as JPEG, whose encoding costs a tenth of PNG's."""
        drawn = from_snapshot(self._run.settings, snapshot, self._run.guesses)
        if self._drawing is None or self._run.settings != self._settings:
            self._settings = self._run.settings  # the experiment has refined its plan
            drawing = self._draw(drawn)
        else:
            drawing = self._drawing
            drawing.update(drawn)
            self._canvas.restore_region(self._background)
            if changed := [piece for piece in self._boxes if piece.stale]:
                self._draw_again(changed)
        for axes, artist in drawing.moving:
            axes.draw_artist(artist)
        stream = io.BytesIO()
        size = self._canvas.get_width_height()
        # JPEG has no alpha; read as RGBX the buffer need not be converted, which takes 2 ms.
        pixels = Image.frombuffer("RGBX", size, self._canvas.buffer_rgba(), "raw", "RGBX", 0, 1)
        pixels.save(stream, format="JPEG", quality=90)
        return stream.getvalue()

    def _draw(self, drawn: Sequence[Drawn]) -> Drawing:
        """Begin anew with these settings, and draw all but the moving artists."""
        run, figure = self._run, self._figure
        drawing = new_drawing(figure, run.experiment, drawn, run.environment, live=True)
        for _, artist in drawing.moving:
            artist.set_animated(True)
        self._canvas.draw()
        self._drawing, self._background = drawing, self._canvas.copy_from_bbox(figure.bbox)
        pieces: list[Artist] = [*figure.axes, *figure.texts, *figure.legends]
        self._boxes = {piece: self._box(piece) for piece in pieces}
        return drawing

    def _draw_again(self, changed: Sequence[Artist]) -> None:
        """Draw these pieces on the restored background; all when they reach into others."""
        now = {piece: self._box(piece) for piece in changed}
        rooms = {piece: Bbox.union([self._boxes[piece], box]) for piece, box in now.items()}
        self._boxes |= now
        if any(
            room.overlaps(box)
            for piece, room in rooms.items()
            for other, box in self._boxes.items()
            if other is not piece
        ):
            self._canvas.draw()
        else:
            for piece, room in rooms.items():
                self._wipe(room)
                piece.draw(self._canvas.get_renderer())
        self._background = self._canvas.copy_from_bbox(self._figure.bbox)

    def _box(self, piece: Artist) -> Bbox:
        """What a piece covers, with room for the ends of thick lines, which its box leaves out."""
        box = piece.get_tightbbox(self._canvas.get_renderer())
        return Bbox.null() if box is None else box.padded(4)

    def _wipe(self, box: Bbox) -> None:
        pixels = np.asarray(self._canvas.buffer_rgba())
        height, width = pixels.shape[:2]
        left, right = max(0, int(box.x0)), min(width, int(box.x1) + 1)
        top, bottom = max(0, height - int(box.y1) - 1), min(height, height - int(box.y0))
        pixels[top:bottom, left:right] = self._paper
