"""The picture of a result as PNG, with words for those who cannot see it."""

from __future__ import annotations

import base64
import io
from functools import cached_property
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from labkit.units import format_rate
from labkit.view.figure import DPI, draw_curves, points_of


def alt_text(result: Any) -> str:
    """What the picture shows, in words and numbers."""
    parts = []
    for item in result.summary:
        rate = item.samples_per_second
        told = item.status.value if rate is None else f"{format_rate(rate.median)} samples/s"
        parts.append(f"{item.setting.story} {item.setting.label}: {told}".strip())
    cores = result.environment.usable_cores
    return f"{result.experiment.title}, {cores} usable cores. " + "; ".join(parts) + "."


def render_png(result: Any, figure: Figure | None = None) -> bytes:
    """The result's picture; drawn into `figure` when one is given."""
    target = figure or Figure(dpi=DPI)
    draw_curves(target, result.experiment, result.settings,
                points_of(result.settings, result.summary), result.environment,
                result.summary)  # fmt: skip
    if not hasattr(target.canvas, "print_png"):
        FigureCanvasAgg(target)
    buffer = io.BytesIO()
    target.savefig(buffer, format="png", dpi=DPI, facecolor="white")
    return buffer.getvalue()


class Picture:
    """What `result.plot()` returns: a notebook shows it as a PNG with alt text."""

    def __init__(self, result: Any, figure: Figure | None = None) -> None:
        self._result = result
        self._figure = figure

    @cached_property
    def png(self) -> bytes:
        """The PNG's bytes."""
        return render_png(self._result, self._figure)

    def save(self, path: str) -> None:
        """Write the PNG to a file."""
        with open(path, "wb") as file:
            file.write(self.png)

    def _repr_png_(self) -> bytes:
        return self.png

    def bundle(self) -> tuple[dict[str, str], dict[str, Any]]:
        """Data and metadata for a notebook's display: bytes as base64 text, as it stores them."""
        data = {
            "image/png": base64.b64encode(self.png).decode("ascii"),
            "text/plain": self._result.headline,
        }
        return data, {"image/png": {"alt": alt_text(self._result)}}

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None
    ) -> tuple[dict[str, str], dict[str, Any]]:
        return self.bundle()

    def __repr__(self) -> str:
        return f"<picture: {alt_text(self._result)}>"
