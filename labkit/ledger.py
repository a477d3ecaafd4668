"""The claims ledger with what this machine has measured of each; computed from stored runs.

Each lab's latest whole run speaks; verdicts of several labs or stories on one claim are listed,
never merged. It must not measure, and stores nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from labkit.claims import LEDGER, Claim, Entry, Told
from labkit.errors import LabkitError
from labkit.measure.reference import available
from labkit.records import Status
from labkit.result import Result

_STAMP = "%Y%m%d-%H%M%S"


class Ledger:
    """All claims. Its repr is a table."""

    def __init__(self, runs: Path, machine_id: str) -> None:
        """Args: the folder of the runs, and whose runs count."""
        self._runs = runs
        self.machine_id = machine_id

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """One for each claim, in the order of their ids; reads the latest run of each lab."""
        results = latest_results(self._runs, self.machine_id)
        known = set(available())
        return tuple(_entry(claim, results, known) for claim in LEDGER)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def to_json(self) -> dict[str, Any]:
        """The object that ``labkit claims --json`` prints."""
        return {
            "machine_id": self.machine_id,
            "claims": [
                {
                    "id": entry.claim.id,
                    "statement": entry.claim.statement,
                    "labs": list(entry.claim.lab),
                    "labs_missing": list(entry.missing),
                    "labs_unmeasured": list(entry.unmeasured),
                    "threshold": entry.claim.threshold,
                    "compared": entry.claim.pairs,
                    "verdicts": [_told_json(told) for told in entry.told],
                }
                for entry in self
            ],
        }

    def __repr__(self) -> str:
        from labkit.view.ledger_text import to_text

        return to_text(self.entries)

    def _repr_html_(self) -> str:
        from labkit.view.ledger_text import to_html

        return to_html(self.entries)


def _told_json(told: Told) -> dict[str, Any]:
    return asdict(told.verdict) | {
        "outcome": told.verdict.outcome.value,
        "experiment": told.experiment,
        "size": told.size,
        "measured": told.measured.isoformat(),
        "run_path": str(told.run_path),
    }


def _entry(claim: Claim, results: dict[str, Result], known: set[str]) -> Entry:
    told = tuple(
        Told(
            verdict=verdict, experiment=result.name, size=result.size,
            measured=measured_at(result.path), run_path=result.path,
        )
        for name, result in sorted(results.items())
        for verdict in result.verdicts
        if verdict.claim == claim.id
    )  # fmt: skip
    return Entry(
        claim=claim,
        told=told,
        missing=tuple(lab for lab in claim.lab if lab not in known),
        unmeasured=tuple(lab for lab in claim.lab if lab in known and lab not in results),
    )


def latest_results(runs: Path, machine_id: str) -> dict[str, Result]:
    """The latest whole run of each lab that this machine has measured, by the lab's name.

    A lab's runs at full size are preferred to small ones, which are made for trying it out. Runs
    that cannot be read, such as those of a later version, are passed over.
    """
    found: dict[tuple[str, str], Result] = {}
    for plan in sorted(runs.glob("*/plan.json"), reverse=True):  # stamps: the latest come first
        try:
            raw = json.loads(plan.read_text("utf-8"))
            key = (raw["name"], raw["asked"]["size"])
            ours = raw["environment"]["machine_id"] == machine_id
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if not ours or key in found or (key[0], "full") in found:
            continue
        try:
            result = Result(plan.parent)
            whole = result.status is Status.COMPLETED and bool(result.verdicts)
        except LabkitError:
            continue
        if whole:
            found[key] = result
    by_name: dict[str, Result] = {}
    for (name, size), result in found.items():
        if size == "full" or (name, "full") not in found:
            by_name[name] = result
    return by_name


def measured_at(run: Path) -> datetime:
    """When a run was started, from its name; the folder's own time when it was renamed."""
    try:
        return datetime.strptime("-".join(run.name.split("-")[:2]), _STAMP).astimezone()
    except ValueError:
        return datetime.fromtimestamp(run.stat().st_mtime, UTC).astimezone()
