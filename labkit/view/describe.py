"""What a result's picture shows, in words and numbers; pure, a function for each kind of figure.

It must not draw and must not import a drawing library.
"""

from __future__ import annotations

from labkit.figures import Curves
from labkit.units import format_rate
from labkit.view.run_protocol import ResultLike


def describe(result: ResultLike) -> str:
    """The text alternative of a result's picture."""
    match result.experiment.figure:
        case Curves() as spec:
            return _describe_curves(result, spec)
    raise NotImplementedError(f"a text for {type(result.experiment.figure).__name__}")


def _describe_curves(result: ResultLike, spec: Curves) -> str:
    cores = result.environment.usable_cores
    intro = f"{spec.y_label.capitalize()} over {spec.x_label}, {cores} usable cores."
    stories = dict.fromkeys(item.setting.story for item in result.summary)
    return " ".join([intro, *(_describe_story(result, story) for story in stories)])


def _describe_story(result: ResultLike, story: str) -> str:
    name = f"{story}: " if story else ""
    found = sorted(
        (item.setting.x, item.samples_per_second.median, item.setting.label)
        for item in result.summary
        if item.setting.story == story and item.samples_per_second is not None
    )
    if not found:
        return f"{name}nothing was measured."
    _, best, label = max(found, key=lambda item: item[1])
    ends = f"{format_rate(found[0][1])} at {found[0][2]}, {format_rate(found[-1][1])} at"
    return f"{name}{ends} {found[-1][2]}; the highest is {format_rate(best)} at {label}."
