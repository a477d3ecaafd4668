"""Draws rates over workers, and where a sample's time goes; never pyplot, it computes nothing."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from labkit.records import Environment, Experiment, Setting
from labkit.summary import Summary

# Okabe and Ito's palette: told apart with every kind of colour vision, and by marker and line too.
STYLES = (("#0072B2", "o", "-"), ("#D55E00", "s", "--"), ("#009E73", "^", "-."),
          ("#CC79A7", "D", ":"))  # fmt: skip
STAGES = (("fetch", "#0072B2", ""), ("transform", "#E69F00", "//"), ("collate", "#009E73", ".."),
          ("handover", "#CC79A7", "xx"))  # fmt: skip
SIZE_INCHES = (9.0, 4.2)
DPI = 100


def stories(settings: Sequence[Setting]) -> list[str]:
    """The stories in the order in which they come."""
    return list(dict.fromkeys(setting.story for setting in settings))


def draw_curves(
    figure: Figure, experiment: Experiment, settings: Sequence[Setting],
    points: Mapping[int, Sequence[float]], environment: Environment, summary: Summary | None,
) -> None:  # fmt: skip
    """Draw every point, the median of each setting, its noise band, and the usable cores.

    Args:
        figure: cleared and drawn into.
        experiment: names and units.
        settings: what the points' indices mean.
        points: samples per second of each finished trial, by index of its setting.
        environment: where the line "usable cores" goes.
        summary: with it, the bands and the stage times are drawn; None while live.
    """
    figure.clear()
    figure.set_size_inches(*SIZE_INCHES)
    with_stages = summary is not None and experiment.figure.stages
    width = 0.60 if with_stages else 0.88
    axes = figure.add_axes((0.09, 0.15, width - 0.03, 0.72))
    top = 0.0
    for number, story in enumerate(stories(settings)):
        colour, marker, line = STYLES[number % len(STYLES)]
        mine = [i for i, setting in enumerate(settings) if setting.story == story]
        mine.sort(key=lambda index: settings[index].x)
        shown = [(settings[i].x, points[i]) for i in mine if points.get(i)]
        for x, values in shown:
            axes.plot([x] * len(values), values, marker, color=colour, alpha=0.35, markersize=4)
            top = max(top, *values)
        axes.plot([x for x, _ in shown], [statistics.median(v) for _, v in shown], line,
                  marker=marker, color=colour, label=story or experiment.title)  # fmt: skip
        if summary is not None:
            bands = [(s.setting.x, s.samples_per_second) for s in summary
                     if s.setting.story == story]  # fmt: skip
            known = sorted((x, b.low, b.high) for x, b in bands if b is not None)
            axes.fill_between([k[0] for k in known], [k[1] for k in known],
                              [k[2] for k in known], color=colour, alpha=0.15)  # fmt: skip
    axes.axvline(environment.usable_cores, color="0.5", linestyle=":",
                 label=f"usable cores: {environment.usable_cores}")  # fmt: skip
    axes.set_xlim(-0.5, max(setting.x for setting in settings) + 0.5)
    axes.set_ylim(0, top * 1.15 or 1)
    axes.set_xlabel(experiment.figure.x_label)
    axes.set_ylabel(experiment.figure.y_label)
    axes.set_title(experiment.title, fontsize=11)
    axes.legend(loc="best", fontsize=8, framealpha=0.6)
    if with_stages and summary is not None:
        _draw_stages(figure, summary)


def _draw_stages(figure: Figure, summary: Summary) -> None:
    """Stacked bars beside the curves: milliseconds per sample in each stage."""
    known = [item for item in summary if item.stages.total > 0]
    if not known:
        return
    axes = figure.add_axes((0.79, 0.15, 0.20, 0.72))
    left = [0.0] * len(known)
    for name, colour, hatch in STAGES:
        values = [getattr(item.stages, name) * 1e3 for item in known]
        label = "hand-over" if name == "handover" else name
        axes.barh(range(len(known)), values, left=left, color=colour, hatch=hatch, label=label,
                  edgecolor="white", linewidth=0.3)  # fmt: skip
        left = [a + b for a, b in zip(left, values, strict=True)]
    labels = [f"{item.setting.story} {item.setting.x:g}" for item in known]
    axes.set_yticks(range(len(known)), labels, fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel("ms per sample", fontsize=8)
    axes.tick_params(axis="x", labelsize=7)
    axes.set_title("where the time goes", fontsize=9)
    axes.legend(fontsize=6, loc="lower right", framealpha=0.6)


def points_of(settings: Sequence[Setting], summary: Summary) -> dict[int, list[float]]:
    """The finished trials' rates of a whole summary, by index of their setting."""
    indices: dict[str, int] = {setting.key: i for i, setting in enumerate(settings)}
    return {indices[item.setting.key]: list(item.rates.values()) for item in summary}


def rgb_of(figure: Figure) -> Any:
    """The figure's pixels as an array of (height, width, 3) bytes."""
    import numpy as np
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas: Any = FigureCanvasAgg(figure)  # matplotlib leaves its methods untyped
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()
