"""labkit: see and measure the traps of PyTorch's DataLoader on your own machine.

Importing it must stay cheap: names are loaded when they are first used, and torch never is.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labkit.api import claims, experiments, panel, run, start
    from labkit.comparison import compare
    from labkit.errors import LabkitError
    from labkit.figures import Curves
    from labkit.measure import instrument
    from labkit.params import Param
    from labkit.rank_budget import budget
    from labkit.records import Experiment, Needs, Outcome, Setting, Verdict
    from labkit.result import Result, load

__version__ = "0.1.0"

_HOME = {
    "Curves": "labkit.figures",
    "Experiment": "labkit.records",
    "LabkitError": "labkit.errors",
    "Needs": "labkit.records",
    "Outcome": "labkit.records",
    "Param": "labkit.params",
    "Result": "labkit.result",
    "Setting": "labkit.records",
    "Verdict": "labkit.records",
    "budget": "labkit.rank_budget",
    "claims": "labkit.api",
    "compare": "labkit.comparison",
    "experiments": "labkit.api",
    "instrument": "labkit.measure",
    "load": "labkit.result",
    "panel": "labkit.api",
    "run": "labkit.api",
    "start": "labkit.api",
}

__all__ = [
    "Curves",
    "Experiment",
    "LabkitError",
    "Needs",
    "Outcome",
    "Param",
    "Result",
    "Setting",
    "Verdict",
    "budget",
    "claims",
    "compare",
    "experiments",
    "instrument",
    "load",
    "panel",
    "run",
    "start",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'labkit' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
