"""A result as a PNG with a text alternative; it must not display anything by itself."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.view.describe import describe
from labkit.view.run_protocol import ResultLike

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_result(result: ResultLike, figure: Figure | None = None) -> Figure:
    """Draw a result into a figure, a new one when None."""
    from labkit.view.drawn import from_result
    from labkit.view.figure import new_drawing, new_figure  # matplotlib takes 0.3 s to import

    figure = new_figure(result.experiment.figure) if figure is None else figure
    new_drawing(figure, result.experiment, from_result(result), result.environment)
    return figure


def render_png(result: ResultLike, figure: Figure | None = None) -> bytes:
    """The picture of a result as PNG."""
    stream = io.BytesIO()
    draw_result(result, figure).savefig(stream, format="png")
    return stream.getvalue()


class Picture:
    """A result's picture, which a notebook shows as an image."""

    def __init__(self, result: ResultLike, figure: Figure | None = None) -> None:
        """Draw and encode it now: a later change of the figure does not show."""
        self.png = render_png(result, figure)
        self.alt = describe(result)
        self.sentence = result.headline

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
        return data, {"image/png": {"alt": self.alt}}

    def _repr_png_(self) -> bytes:
        return self.png

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None
    ) -> tuple[dict[str, str], dict[str, Any]]:
        return self.bundle()
