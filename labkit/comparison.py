"""Two runs of one lab side by side: what was measured, and under which conditions.

It must not judge a claim again, and must not measure.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

from labkit.errors import ParameterError
from labkit.machine.folders import runs_folder
from labkit.measure.noise import unpaired_ratio
from labkit.measure.verdicts import BUSY_CORES
from labkit.records import Environment
from labkit.result import Result, load
from labkit.summary import ComparedSetting, Difference, Interval, SettingSummary, VerdictPair

FORMAT = 1
"""Version of the JSON object that `labkit compare --json` prints."""

_MATTERS = (
    ("machine_id", "the machine"), ("cpu", "the processor"), ("os", "the system"),
    ("usable_cores", "usable cores"), ("quota_cores", "the quota of cores"),
    ("memory_total_bytes", "memory"), ("memory_limit_bytes", "the memory limit"),
    ("python", "Python"), ("torch", "torch"), ("start_method", "the start method"),
    ("budget_mechanism", "what holds a memory budget"), ("labkit", "labkit"),
)  # fmt: skip
"""Fields of the environment that change what is measured."""


class Comparison:
    """Two runs of one lab. Its repr is a table."""

    def __init__(self, a: Result, b: Result) -> None:
        """Put two results side by side.

        Raises:
            ParameterError: they are of different labs.
        """
        if a.name != b.name:
            raise ParameterError(
                asked=f"a comparison of {a.path.name} with {b.path.name}",
                found=f"one is a run of {a.name}, the other of {b.name}",
                do="give two runs of the same lab; `labkit show` lists them",
            )
        self.a, self.b = a, b

    @cached_property
    def environment(self) -> tuple[Difference, ...]:
        """Differences between the machines, or in their states, that change what is measured."""
        a, b = self.a.environment, self.b.environment
        found = [
            Difference(what=name, a=_told(getattr(a, field)), b=_told(getattr(b, field)))
            for field, name in _MATTERS
            if getattr(a, field) != getattr(b, field)
        ]
        loads = [_load(result) for result in (self.a, self.b)]
        if max(loads) > BUSY_CORES:
            found.append(
                Difference(
                    what="cores that others kept busy", a=round(loads[0], 1), b=round(loads[1], 1)
                )
            )
        return tuple(found)

    @cached_property
    def parameters(self) -> tuple[Difference, ...]:
        """Parameters, the size among them, that were not the same."""
        a, b = ({"size": r.size} | dict(r.params) for r in (self.a, self.b))
        names = [*a, *(name for name in b if name not in a)]
        return tuple(
            Difference(what=name, a=a.get(name), b=b.get(name))
            for name in names
            if a.get(name) != b.get(name)
        )

    @cached_property
    def rows(self) -> tuple[ComparedSetting, ...]:
        """Settings that both have, in the order of a; they are the same when all values are."""
        others = {item.setting.key: item for item in self.b.summary}
        return tuple(
            ComparedSetting(a=item, b=other, ratio=_ratio(other, item))
            for item in self.a.summary
            if (other := others.get(item.setting.key)) is not None
        )

    @cached_property
    def unmatched(self) -> tuple[int, int]:
        """How many settings of a, and of b, the other does not have."""
        a, b = ({item.setting.key for item in r.summary} for r in (self.a, self.b))
        return len(a - b), len(b - a)

    @cached_property
    def verdicts(self) -> tuple[VerdictPair, ...]:
        """What each said of every claim and story."""
        a, b = ({(v.claim, v.story): v.outcome for v in r.verdicts} for r in (self.a, self.b))
        keys = [*a, *(key for key in b if key not in a)]
        return tuple(
            VerdictPair(claim=key[0], story=key[1], a=a.get(key), b=b.get(key)) for key in keys
        )

    def to_json(self) -> dict[str, Any]:
        """The object that ``labkit compare --json`` prints."""
        return {
            "format": FORMAT,
            "experiment": self.a.name,
            "a": str(self.a.path),
            "b": str(self.b.path),
            "environment_differs": [asdict(each) for each in self.environment],
            "parameters_differ": [asdict(each) for each in self.parameters],
            "settings": [
                {
                    "story": row.a.setting.story,
                    "params": dict(row.a.setting.params),
                    "status": {"a": row.a.status.value, "b": row.b.status.value},
                    "samples_per_second": {
                        name: asdict(item.samples_per_second) if item.samples_per_second else None
                        for name, item in (("a", row.a), ("b", row.b))
                    },
                    "ratio": None if row.ratio is None else asdict(row.ratio),
                }
                for row in self.rows
            ],
            "settings_unmatched": {"a": self.unmatched[0], "b": self.unmatched[1]},
            "verdicts": [asdict(pair) for pair in self.verdicts],
        }

    def __repr__(self) -> str:
        from labkit.view.comparison_text import to_text

        return to_text(self)

    def _repr_html_(self) -> str:
        from labkit.view.comparison_text import to_html

        return to_html(self)


def _ratio(b: SettingSummary, a: SettingSummary) -> Interval | None:
    found = unpaired_ratio(list(b.rates.values()), list(a.rates.values()))
    if found is None:
        return None
    return Interval(median=found.ratio, low=found.low, high=found.high)


def _told(value: Any) -> Any:
    return "none" if value is None else value


def _load(result: Result) -> float:
    environment: Environment = result.environment
    load = result.summary.load_cores
    return environment.load_cores if load is None else load


def compare(a: Result | str | Path, b: Result | str | Path) -> Comparison:
    """Two runs of one lab side by side: rates with their ratio, verdicts, and what else differs.

    Args:
        a: a result, the folder of a run, or its name as `labkit show` lists it.
        b: the other one.

    Raises:
        ParameterError: they are of different labs.
        StoreError, ExperimentError: one cannot be opened.
    """
    return Comparison(_open(a), _open(b))


def _open(run: Result | str | Path) -> Result:
    if isinstance(run, Result):
        return run
    path = Path(run).expanduser()
    return load(path if path.exists() else runs_folder() / path)
