"""Chooses the drawing that an experiment asks for, on matplotlib's Figure and Agg, never pyplot.

A drawing is made once; its artists are updated. It must not display or encode anything. One thread
at a time may touch a Figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from labkit import figures
from labkit.records import Environment, Experiment
from labkit.view.drawn import Drawn
from labkit.view.style import DPI, HEIGHT, INK, PAPER, WIDTH, height_of

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes


class Drawing(Protocol):
    """The artists of one figure, to be updated as events arrive."""

    @property
    def moving(self) -> list[tuple[Axes, Artist]]:
        """The artists that `update` changes, in the order in which they are to be drawn."""

    def update(self, drawn: Sequence[Drawn]) -> None:
        """Show these values.

        Axes and legends are ``stale``, by matplotlib's rule, when what does not move has changed.
        """


def new_figure(spec: figures.Figure | None = None) -> Figure:
    """An empty figure of the size that its kind has in panels and pictures, with its Agg canvas."""
    height = HEIGHT if spec is None else height_of(spec)
    figure = Figure(figsize=(WIDTH, height), dpi=DPI)
    FigureCanvasAgg(figure)
    return figure


def new_drawing(
    figure: Figure, experiment: Experiment, drawn: Sequence[Drawn], environment: Environment, *,
    live: bool = False,
) -> Drawing:  # fmt: skip
    """Draw an experiment's figure, with the title above it.

    Args:
        figure: is cleared first.
        experiment: chooses the kind of drawing, and names it.
        drawn: see `labkit.view.drawn`; shown at once.
        environment: of the run.
        live: more will come, and drawing must be cheap.
    """
    figure.clear()
    figure.set_facecolor(PAPER)
    top = 1 - 0.286 / figure.get_figheight()  # the same distance in figures of every height
    figure.text(0.065, top, experiment.title, fontsize=13, color=INK, weight="bold")
    kind = _kind(experiment.figure)
    drawing: Drawing = kind(figure, experiment, drawn, environment, live=live)
    drawing.update(drawn)
    return drawing


def _kind(spec: figures.Figure) -> Any:
    """The class that draws this kind of figure: it takes what `new_drawing` takes."""
    match spec:
        case figures.Curves():
            from labkit.view.draw_curves import CurvesDrawing

            return CurvesDrawing
        case figures.Lanes():
            from labkit.view.draw_lanes import LanesDrawing

            return LanesDrawing
        case figures.Stack():
            from labkit.view.draw_stack import StackDrawing

            return StackDrawing
        case figures.Bars():
            from labkit.view.draw_bars import BarsDrawing

            return BarsDrawing
        case figures.HeatMap():
            from labkit.view.draw_heat_map import HeatMapDrawing

            return HeatMapDrawing
