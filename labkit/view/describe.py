"""What a result's picture shows, in words and numbers; pure, a function for each kind of figure.

It must not draw and must not import a drawing library.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from labkit.figures import Bars, Curves, HeatMap, Lanes, Stack
from labkit.guesses import match_guesses, told_guesses
from labkit.records import Setting
from labkit.summary import Flow, SettingSummary
from labkit.units import format_bytes, format_rate, format_seconds
from labkit.view.cells_of_map import Cell, CellGrid, axis_label, grids_of, value_label
from labkit.view.drawn import from_result
from labkit.view.lanes_of_memory import Lane, death_text, delivered_text, lanes_of
from labkit.view.run_protocol import ResultLike

_NAMED = 8
"""Batches whose worker is told."""


def describe(result: ResultLike) -> str:
    """The text alternative of a result's picture."""
    return " ".join([_describe(result), *describe_guesses(result)])


def describe_guesses(result: ResultLike) -> tuple[str, ...]:
    """What the learner had expected against what was measured, a sentence for each curve."""
    guessed = match_guesses(result.guesses, [item.setting for item in result.summary])
    bands = {item.setting.key: item.samples_per_second for item in result.summary}
    return told_guesses(guessed, bands)


def _describe(result: ResultLike) -> str:
    match result.experiment.figure:
        case Curves() as spec:
            return _describe_curves(result, spec)
        case Lanes():
            return " ".join(_describe_lanes(item) for item in result.summary)
        case Stack() as spec:
            return _describe_stack(result, spec)
        case Bars():
            return " ".join(_describe_costs(item) for item in result.summary)
        case HeatMap() as spec:
            return _describe_map(result, spec)


def describe_setting(result: ResultLike, setting: Setting, repeat: int) -> str:
    """The text alternative of the picture of one trial."""
    item = next(item for item in result.summary if item.setting.key == setting.key)
    trial = next((trial for trial in item.trials if trial.repeat == repeat), None)
    if trial is None:
        return f"{setting.label}, round {repeat + 1}: nothing was measured."
    stages = trial.stages
    parts = [f"{trial.batches} batches"]
    if stages.total:
        parts.append(
            "a sample took " + ", ".join(
                f"{format_seconds(seconds)} to {name}"
                for name, seconds in (("fetch", stages.fetch), ("transform", stages.transform),
                                      ("collate", stages.collate), ("hand over", stages.handover))
            )
        )  # fmt: skip
    if trial.wait_share is not None:
        parts.append(f"the consumer waited {trial.wait_share:.0%} of its time")
    if trial.peak_bytes is not None:
        parts.append(f"the processes held at most {format_bytes(trial.peak_bytes)}")
    return f"{setting.label}, round {repeat + 1}: {'; '.join(parts)}."


def _describe_curves(result: ResultLike, spec: Curves) -> str:
    cores = result.environment.usable_cores
    intro = f"{spec.y_label.capitalize()} over {spec.x_label}, {cores} usable cores."
    stories = dict.fromkeys(item.setting.story for item in result.summary)
    return " ".join([intro, *(_describe_story(result, story) for story in stories)])


def _describe_lanes(item: SettingSummary) -> str:
    """Who built the batches of a setting, in the order in which they came."""
    flow = next((trial.flow for trial in item.trials if trial.flow is not None), None)
    if flow is None:
        return f"{item.setting.label}: nothing was measured."
    names = ["the consumer" if worker < 0 else str(worker) for worker in flow.workers]
    if len(set(names)) == 1:
        who = f"every batch was built by {'' if flow.workers[0] < 0 else 'worker '}{names[0]}"
    else:
        who = f"batches were built by workers {', '.join(names[:_NAMED])}"
        who += " and so on" if len(names) > _NAMED else ""
    wait = "" if item.wait_share is None else f", the consumer waited {item.wait_share:.0%}"
    return f"{item.setting.label}: {who}{_on_order(flow)}{wait}."


def _on_order(flow: Flow) -> str:
    counts = sorted(set(flow.in_flight))
    if not counts:
        return ""
    span = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f", {span} in flight with the one in hand"


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


def _describe_stack(result: ResultLike, spec: Stack) -> str:
    intro = f"{spec.y_label.capitalize()} over time against its limit, and {spec.rate_label}."
    lanes = lanes_of(from_result(result))
    stories = dict.fromkeys(lane.setting.story for lane in lanes)
    told = (_describe_memory([i for i in lanes if i.setting.story == story]) for story in stories)
    return " ".join([intro, *told])


def _describe_memory(lanes: Sequence[Lane]) -> str:
    setting = lanes[0].setting
    name = ", ".join(filter(None, (setting.story, setting.note)))
    told = "; ".join(map(_describe_lane_of_memory, lanes))
    return f"{name}: {told}." if name else f"{told}."


def _describe_lane_of_memory(lane: Lane) -> str:
    setting = lane.setting
    limit = f" of {format_bytes(setting.budget.limit_bytes)}" if setting.budget else ""
    if not lane.attempts:
        return f"{setting.label}: not measured"
    peak = f"peak {format_bytes(lane.peak)}{limit}" if lane.peak else "no peak sampled"
    rate = f", {format_rate(lane.rate.median)} a second" if lane.rate and not lane.deaths else ""
    end = death_text(lane) or "lived"
    return f"{setting.label} delivered {delivered_text(lane)}{rate}, {end}, {peak}"


def _describe_costs(item: SettingSummary) -> str:
    """Medians over the trials of a setting."""
    costs = [trial.costs for trial in item.trials if trial.costs is not None]
    parts = []
    for name, values in (
        ("to the first batch", [c.first_wait_seconds for c in costs]),
        ("in later epochs", [c.later_wait_seconds for c in costs]),
    ):
        if known := [value for value in values if value is not None]:
            parts.append(f"{format_seconds(statistics.median(known))} {name}")
    if private := [c.worker_private_bytes for c in costs if c.worker_private_bytes is not None]:
        parts.append(f"{format_bytes(round(statistics.median(private)))} private per worker")
    return f"{item.setting.label}: {', '.join(parts) or 'nothing was measured'}."


def _describe_map(result: ResultLike, spec: HeatMap) -> str:
    x, y = (axis_label(name, result.experiment) for name in (spec.x, spec.y))
    cores = result.environment.usable_cores
    intro = f"{spec.value_label.capitalize()} over {x} and {y}, {cores} usable cores."
    grids = grids_of(from_result(result), spec)
    return " ".join([intro, *(_describe_grid(grid, x, y) for grid in grids)])


def _describe_grid(grid: CellGrid, x: str, y: str) -> str:
    name = f"{grid.name}: " if grid.name else ""
    rows = []
    for row, value in enumerate(grid.ys):
        own = sorted((c for c in grid.cells if c.row == row), key=lambda cell: cell.column)
        if own:
            told = ", ".join(f"{_told(c)} at {value_label(grid.xs[c.column])}" for c in own)
            rows.append(f"{y} {value_label(value)}: {told}")
    measured = [(cell.median, cell) for cell in grid.cells if cell.median is not None]
    if not measured:
        return f"{name}{'; '.join(rows)}."
    best, cell = max(measured, key=lambda pair: pair[0])
    place = f"{x} {value_label(grid.xs[cell.column])}, {y} {value_label(grid.ys[cell.row])}"
    return f"{name}{'; '.join(rows)}; the highest is {format_rate(best)} at {place}."


def _told(cell: Cell) -> str:
    return " ".join(cell.lines) or "not measured"
