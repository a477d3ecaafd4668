"""A result as a PNG with a text alternative; it must not display anything by itself."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.records import Setting
from labkit.view.describe import describe, describe_setting
from labkit.view.run_protocol import ResultLike
from labkit.view.style import DPI
from labkit.view.trace import trace_events

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_JPEG_SCALE = 1.5


def draw_result(result: ResultLike, figure: Figure | None = None) -> Figure:
    """Draw a result into a figure, a new one when None."""
    from labkit.view.drawn import from_result
    from labkit.view.figure import new_drawing, new_figure  # matplotlib takes 0.3 s to import

    figure = new_figure(result.experiment.figure) if figure is None else figure
    new_drawing(figure, result.experiment, from_result(result), result.environment)
    return figure


def draw_setting(
    result: ResultLike, setting: Setting, repeat: int = 0, rank: int = 0,
    figure: Figure | None = None,
) -> Figure:  # fmt: skip
    """Draw one trial of a result: its workers' timeline, its memory, its stages.

    Args:
        result: whatever has events.
        setting: one of its settings.
        repeat: which round's trial, from 0.
        rank: whose batches, where there are several.
        figure: to draw into; a new one when None.
    """
    from labkit.view.draw_setting import draw_trace
    from labkit.view.figure import new_figure

    figure = new_figure() if figure is None else figure
    traces = trace_events(result.settings, result.events, rank).of(setting.key)
    trace = next((each for each in traces if each.repeat == repeat), None)
    draw_trace(figure, setting, repeat, trace, rank)
    return figure


def to_png(figure: Figure) -> bytes:
    """The figure as PNG, with twice the pixels of its size on screen: sharp on every screen."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=2 * DPI)
    return stream.getvalue()


def to_jpeg(figure: Figure) -> bytes:
    """The figure as JPEG, for a widget: nothing of it is kept."""
    stream = io.BytesIO()
    figure.savefig(stream, format="jpeg", dpi=_JPEG_SCALE * DPI)
    return stream.getvalue()


def render_jpeg(result: ResultLike) -> bytes:
    """The picture of a result as JPEG."""
    return to_jpeg(draw_result(result))


class Picture:
    """A picture of a result, which a notebook shows as an image."""

    def __init__(self, figure: Figure, *, alt: str, sentence: str) -> None:
        """Encode it now: a later change of the figure does not show."""
        self.png = to_png(figure)
        self.alt = alt
        self.sentence = sentence
        self._size = {
            "width": round(figure.get_figwidth() * DPI),
            "height": round(figure.get_figheight() * DPI),
        }

    def __repr__(self) -> str:
        return f"{self.sentence} [picture] {self.alt}"

    def save(self, path: str | Path) -> None:
        """Write the PNG to a file."""
        Path(path).write_bytes(self.png)

    def bundle(self) -> tuple[dict[str, str], dict[str, Any]]:
        """Data and metadata for a notebook's raw display.

        The image is base64 text: bytes would be saved in the notebook as a list of numbers.
        """
        data = {"image/png": base64.b64encode(self.png).decode(), "text/plain": repr(self)}
        return data, {"image/png": {"alt": self.alt} | self._size}

    def _repr_png_(self) -> bytes:
        return self.png

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None
    ) -> tuple[dict[str, str], dict[str, Any]]:
        return self.bundle()


def picture_of(result: ResultLike, figure: Figure | None = None) -> Picture:
    """The picture of a whole run."""
    drawn = draw_result(result, figure)
    return Picture(drawn, alt=describe(result), sentence=result.headline)


def picture_of_setting(
    result: ResultLike, setting: Setting, repeat: int, rank: int = 0
) -> Picture:
    """The picture of one trial; see `draw_setting`."""
    from labkit.view.draw_setting import trial_name

    figure = draw_setting(result, setting, repeat, rank)
    alt = describe_setting(result, setting, repeat)
    return Picture(figure, alt=alt, sentence=trial_name(setting, repeat, rank))
