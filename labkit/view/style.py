"""What all drawings share: size, paper, ink, palettes told apart without colour, axes that grow.

It must not know what is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from labkit.figures import Figure, Stack

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection

WIDTH, HEIGHT, DPI = 11.0, 4.4, 100
_TALL = 6.4
# The picture brings its own background, so that it reads on a dark page as on a light one.
PAPER, INK, GRID = "#fafafa", "#222222", "#dddddd"
# Okabe and Ito's palette, told apart by the colour-blind: https://jfly.uni-koeln.de/color/
BLUE, ORANGE, GREEN, PINK = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
SKY, AMBER, GREY = "#56B4E9", "#E69F00", "#999999"
STAGES = (
    ("fetch", SKY, ""), ("transform", AMBER, "//"), ("collate", GREEN, ".."),
    ("hand-over", GREY, "xx"),
)  # fmt: skip
"""Name, colour and hatching of each stage of a batch, the same in every figure."""

_HEADROOM = 1.15
_MORE_HEADROOM = 1.5
"""An axis that has grown will grow again: each time all is drawn anew, which takes 0.1 s of CPU."""
_EMPTY = 1e-3
"""Axes without anything on them end below."""


Box = list[tuple[float, float]]
"""The four corners of a bar, in order."""


def set_boxes(bars: PolyCollection, boxes: Sequence[Box]) -> None:
    """Give a collection its bars: as one array, which takes a third of the time of a list."""
    import numpy as np

    verts: Any = np.array(boxes) if boxes else []
    bars.set_verts(verts)


def height_of(spec: Figure) -> float:
    """Height in inches of a kind of figure: lanes of memory need room below one another."""
    return _TALL if isinstance(spec, Stack) else HEIGHT


def dress(axes: Axes, title: str) -> None:
    """Give axes their title, grid and colours."""
    axes.set_facecolor(PAPER)
    # Without a height matplotlib looks for room above the ticks, at every drawing, for 10 ms.
    axes.set_title(title, loc="left", fontsize=11, color=INK, y=1.0)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK, labelsize=9)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(INK)


def grow(top: float, high: float, set_high: Callable[[float], object]) -> bool:
    """Make room when it is needed, or when most of the axis is empty: a jumpy axis misleads.

    Returns:
        Whether the axis was changed.
    """
    fits = top <= high and top * _MORE_HEADROOM > 0.5 * high
    if top <= 0 or fits:
        return False
    set_high(top * (_HEADROOM if high < _EMPTY else _MORE_HEADROOM))
    return True
