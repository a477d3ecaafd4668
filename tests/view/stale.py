"""What an update of a drawing changes beside the artists that move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from labkit.view.drawn import Drawn
from labkit.view.figure import Drawing


def stale_after(drawing: Drawing, drawn: Sequence[Drawn]) -> bool:
    """Whether an update changes what does not move."""
    for _, artist in drawing.moving:
        artist.set_animated(True)
    figure: Any = drawing.moving[0][0].get_figure()
    figure.canvas.draw()
    drawing.update(drawn)
    return any(axes.stale for axes in figure.axes)
