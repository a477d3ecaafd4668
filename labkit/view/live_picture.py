"""Frames of a run on its way, made cheaply: it shares the machine with what is measured.

Axes, labels and grid are drawn once and kept as a background; a frame restores it where something
has moved and draws the artists there (blitting), then becomes a JPEG. When an axis has grown only
its axes are drawn anew: that takes 15 ms, and the whole figure 50. What changed is known by
matplotlib's ``stale``. One thread at a time may use a `LivePicture`.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import to_rgba
from matplotlib.transforms import Bbox, BboxBase
from PIL import Image

from labkit.view.drawn import Drawn, empty, from_snapshot
from labkit.view.figure import Drawing, new_drawing, new_figure
from labkit.view.fold import Snapshot
from labkit.view.run_protocol import LiveRun
from labkit.view.style import DPI, PAPER

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

LIVE_SCALE = 1.5
"""Pixels of a frame for each of the page's: sharp enough on screens with two, at a third more CPU
time than one; two would take twice as much (8.6 against 6.4 and 13.7 ms for a timeline)."""

_EDGE = 4
"""Pixels around a piece for soft edges and the ends of thick lines."""


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
        """Pixels without the moving artists."""
        self._rooms: dict[Artist, Bbox | None] = {}
        """Where each piece of the background may be, in pixels from below; None: it reaches into
        others."""
        self._moving: dict[Axes, list[Artist]] = {}
        self._reach: dict[Axes, Bbox] = {}
        """What the moving artists of each axes cover, as they were drawn last."""
        if self._settings:
            self._draw(empty(self._settings, run.guesses))

    def frame(self, snapshot: Snapshot) -> bytes:
        """The snapshot as JPEG, whose encoding costs a tenth of PNG's."""
        drawn = from_snapshot(self._run.settings, snapshot, self._run.guesses)
        if self._drawing is None or self._run.settings != self._settings:
            self._settings = self._run.settings  # the experiment has refined its plan
            self._draw(drawn)
        else:
            self._drawing.update(drawn)
            if changed := [piece for piece in self._rooms if piece.stale]:
                self._draw_again(changed)
        self._move()
        stream = io.BytesIO()
        size = self._canvas.get_width_height()
        # JPEG has no alpha; read as RGBX the buffer need not be converted, which takes 2 ms.
        pixels = Image.frombuffer("RGBX", size, self._canvas.buffer_rgba(), "raw", "RGBX", 0, 1)
        pixels.save(stream, format="JPEG", quality=90)
        return stream.getvalue()

    def _draw(self, drawn: Sequence[Drawn]) -> None:
        """Begin anew with these settings, and draw all but the moving artists."""
        run, figure = self._run, self._figure
        drawing = new_drawing(figure, run.experiment, drawn, run.environment, live=True)
        self._moving = {}
        for axes, artist in drawing.moving:
            artist.set_animated(True)
            self._moving.setdefault(axes, []).append(artist)
        self._canvas.draw()
        self._drawing = drawing
        renderer = self._canvas.get_renderer()
        pieces: list[Artist] = [*figure.axes, *figure.texts, *figure.legends]
        boxes = [piece.get_tightbbox(renderer) or Bbox.null() for piece in pieces]
        self._rooms = dict(zip(pieces, rooms_between(boxes, figure.bbox), strict=True))
        self._keep()

    def _draw_again(self, changed: Sequence[Artist]) -> None:
        """Draw these pieces of the background; all of it when they reach into others."""
        self._pixels[:] = self._background
        for piece in changed:
            room = self._rooms[piece]
            if room is None:
                self._canvas.draw()
                break
            self._pixels[self._part(room)] = self._paper
            piece.draw(self._canvas.get_renderer())
        self._keep()

    def _keep(self) -> None:
        """Take what is drawn for the background, without anything that moves."""
        self._background = self._pixels.copy()
        self._reach = {}

    def _move(self) -> None:
        """Draw the moving artists of those axes of which one has been set anew."""
        moving = self._moving
        anew = {axes for axes, own in moving.items() if any(artist.stale for artist in own)}
        anew |= moving.keys() - self._reach.keys()
        rooms = {axes: self._room(axes, moving[axes]) for axes in anew}
        while into := {
            axes for axes in moving.keys() - anew
            if any(room.overlaps(self._reach[axes]) for room in rooms.values())
        }:  # fmt: skip
            anew |= into
            rooms |= {axes: self._room(axes, moving[axes]) for axes in into}
        for room in rooms.values():
            part = self._part(room)
            self._pixels[part] = self._background[part]
        for axes, own in moving.items():  # in their order: they may reach into one another
            if axes in anew:
                for artist in own:
                    axes.draw_artist(artist)
                    artist.stale = False  # not done of what is invisible

    def _room(self, axes: Axes, moving: Sequence[Artist]) -> Bbox:
        """What its moving artists cover, or have covered in the last frame."""
        renderer = self._canvas.get_renderer()
        free = [artist for artist in moving if not artist.get_clip_on()]
        extents = [artist.get_window_extent(renderer) for artist in free if artist.get_visible()]
        reach = Bbox.union([axes.bbox, *extents]).padded(_EDGE)
        before = self._reach.get(axes, reach)
        self._reach[axes] = reach
        return Bbox.union([before, reach])

    @property
    def _pixels(self) -> Any:
        """The canvas as an array of rows from above."""
        return np.asarray(self._canvas.buffer_rgba())

    def _part(self, box: Bbox) -> tuple[slice, slice]:
        """Rows and columns of a box, whose pixels are counted from below."""
        height, width = self._pixels.shape[:2]
        left, right = max(0, int(box.x0)), min(width, int(box.x1) + 1)
        top, bottom = max(0, height - int(box.y1) - 1), min(height, height - int(box.y0))
        return slice(top, max(top, bottom)), slice(left, max(left, right))


def rooms_between(boxes: Sequence[Bbox], whole: BboxBase) -> list[Bbox | None]:
    """For each box the room around it, up to the middle of what lies between it and the others.

    Args:
        boxes: what is drawn, in pixels.
        whole: where all of it lies.

    Returns:
        Rooms that do not overlap; None for a box that overlaps another.
    """
    rooms: list[Bbox | None] = []
    for box in boxes:
        others = [other for other in boxes if other is not box and other.width > 0]
        if any(box.overlaps(other) for other in others):
            rooms.append(None)
            continue
        x0, y0, x1, y1 = whole.extents
        for other in others:
            # Of the sides on which the other lies, the one that leaves the most between them.
            gaps = {
                "left": box.x0 - other.x1, "right": other.x0 - box.x1,
                "below": box.y0 - other.y1, "above": other.y0 - box.y1,
            }  # fmt: skip
            match max(gaps, key=gaps.__getitem__):
                case "left":
                    x0 = max(x0, (box.x0 + other.x1) / 2)
                case "right":
                    x1 = min(x1, (box.x1 + other.x0) / 2)
                case "below":
                    y0 = max(y0, (box.y0 + other.y1) / 2)
                case _:
                    y1 = min(y1, (box.y1 + other.y0) / 2)
        rooms.append(Bbox.from_extents(x0, y0, x1, y1))
    return rooms
