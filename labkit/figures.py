"""The closed set of drawings that an experiment chooses from; frozen records without I/O.

Each is drawn by the class of the same name in `labkit.view`. It must not import a drawing library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """Rates over one parameter, a panel per story, and in it a curve per series."""

    x_label: str
    y_label: str
    stages: bool = True
    """Whether the time of each stage is drawn beside the curves."""
    log: bool = False
    """Whether both axes are logarithmic; the horizontal values must then be positive."""
    x_labels: Mapping[str, str] = field(default_factory=dict)
    """Label of the horizontal axis of stories that vary something else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lanes:
    """Who worked on which batch when: a timeline per setting, a lane per worker and consumer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """Memory over time against the limit, stacked, a lane per setting; rates beside it."""

    y_label: str
    rate_label: str = "samples per second"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """The rate of every combination of two parameters."""

    x: str
    """Name of the parameter on the horizontal axis."""
    y: str
    value_label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """What workers cost, a row per setting: seconds until the first batch, memory per worker."""


Figure = Curves | Lanes | Stack | HeatMap | Bars
TRACED = (Lanes, Stack, Bars)
"""Kinds that draw single batches and samples of memory, not only rates."""
