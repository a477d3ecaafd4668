"""What the heat map shows of each combination of two parameters; pure.

It must not draw, and must not read clocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from labkit.figures import HeatMap
from labkit.params import Value
from labkit.records import Experiment, Status
from labkit.summary import Interval
from labkit.units import format_rate
from labkit.view.drawn import Drawn

Segment = tuple[tuple[float, float], tuple[float, float]]
"""From one point to another; cell (column, row) reaches half a unit around (column, row)."""

_SHARE_CORES = {"ranks", "workers"}
"""Parameters whose product counts processes that share the usable cores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One setting of the map."""

    key: str
    """Of the setting."""
    column: int
    row: int
    median: float | None
    """Of the rates; None when no trial has one."""
    spread: str
    """``± 12``, half of the interval; empty without one."""
    end: str
    """How trials ended that did not complete, such as ``out of memory``."""
    often: str
    """Of how many trials that is told, where it is not all: ``1 of 3``."""
    trials: int
    """Those that have ended."""
    running: bool
    """A trial is under way, and its rate counts already."""

    @property
    def lines(self) -> tuple[str, ...]:
        """What is written in the cell; empty as long as nothing was measured."""
        rate = "" if self.median is None else format_rate(self.median)
        return tuple(filter(None, (rate, self.spread, self.end, self.often)))


@dataclass(frozen=True, slots=True, kw_only=True)
class CellGrid:
    """The cells of one story, on axes that all stories share; some combinations may be missing."""

    name: str
    note: str
    xs: tuple[Value, ...]
    ys: tuple[Value, ...]
    cells: tuple[Cell, ...]

    @property
    def gaps(self) -> tuple[tuple[int, int], ...]:
        """Column and row of the combinations that are not planned."""
        planned = {(cell.column, cell.row) for cell in self.cells}
        places = ((x, y) for y in range(len(self.ys)) for x in range(len(self.xs)))
        return tuple(place for place in places if place not in planned)


def grids_of(drawn: Sequence[Drawn], spec: HeatMap) -> tuple[CellGrid, ...]:
    """A grid per story and series.

    Settings without the two parameters are left out. Where two settings of a story share a place,
    the first is shown: an experiment tells them apart by story or series.
    """
    own = [item for item in drawn if {spec.x, spec.y} <= set(item.setting.params)]
    xs = _ordered(item.setting[spec.x] for item in own)
    ys = _ordered(item.setting[spec.y] for item in own)
    found: dict[tuple[str, str], dict[tuple[int, int], Drawn]] = {}
    for item in own:
        setting = item.setting
        place = xs.index(setting[spec.x]), ys.index(setting[spec.y])
        found.setdefault((setting.story, setting.series), {}).setdefault(place, item)
    return tuple(
        CellGrid(
            name=", ".join(filter(None, names)),
            note=next(iter(places.values())).setting.note,
            xs=xs,
            ys=ys,
            cells=tuple(_cell(item, *place) for place, item in places.items()),
        )
        for names, places in found.items()
    )


def _ordered(values: Iterable[Value]) -> tuple[Value, ...]:
    """Numbers from the lowest; words in the order in which they come."""
    known = tuple(dict.fromkeys(values))
    if any(isinstance(value, str) for value in known):
        return known
    return tuple(sorted(known, key=float))


def _cell(item: Drawn, column: int, row: int) -> Cell:
    band, statuses = item.band, item.statuses
    bad = [status for status in statuses if status is not Status.COMPLETED]
    if band is not None:  # the reader's stop says nothing about the setting
        bad = [status for status in bad if status is not Status.CANCELLED]
    return Cell(
        key=item.setting.key,
        column=column,
        row=row,
        median=None if band is None else band.median,
        spread="" if band is None else _spread(band),
        end=bad[0].value.replace("_", " ") if bad else "",
        often=f"{len(bad)} of {len(statuses)}" if 0 < len(bad) < len(statuses) else "",
        trials=len(statuses),
        running=len(item.rates) > statuses.count(Status.COMPLETED),
    )


def _spread(band: Interval) -> str:
    """Half of the interval, with no more decimals than the median is told with."""
    _, _, decimals = format_rate(band.median).partition(".")
    half = f"{(band.high - band.low) / 2:,.{len(decimals)}f}"
    return f"± {half}" if float(half.replace(",", "")) > 0 else ""


def core_steps(grid: CellGrid, spec: HeatMap, cores: int) -> list[Segment] | None:
    """The line between cells whose ranks x workers are at most the usable cores, and the others.

    Returns:
        None for a map of other parameters; no segments when all cells lie on one side.
    """
    if {spec.x, spec.y} != _SHARE_CORES:
        return None
    within = [[float(x) * float(y) <= cores for x in grid.xs] for y in grid.ys]
    found: list[Segment] = []
    for row, line in enumerate(within):
        for column, fits in enumerate(line):
            if column + 1 < len(line) and fits != line[column + 1]:
                found.append(((column + 0.5, row - 0.5), (column + 0.5, row + 0.5)))
            if row + 1 < len(within) and fits != within[row + 1][column]:
                found.append(((column - 0.5, row + 0.5), (column + 0.5, row + 0.5)))
    return found


def core_label(grid: CellGrid, spec: HeatMap, cores: int) -> str:
    """What the line means, or on which side of it all cells are; empty for other parameters."""
    steps = core_steps(grid, spec, cores)
    if steps is None:
        return ""
    if steps:
        return f"{spec.y} x {spec.x} = {cores} usable cores"
    side = "within" if float(grid.xs[0]) * float(grid.ys[0]) <= cores else "over"
    return f"{spec.y} x {spec.x}: all {side} {cores} usable cores"


def axis_label(name: str, experiment: Experiment) -> str:
    """What the experiment calls a parameter."""
    labels = {param.name: param.label for param in experiment.params}
    return labels.get(name, name.replace("_", " "))


def value_label(value: Value) -> str:
    """A value on an axis."""
    return f"{value:g}" if isinstance(value, float) else str(value)
