"""Runs that earlier versions stored load for ever, and say what they said.

`tests/data/runs/<name>/` is a run folder; `verdicts.json` in it holds what it said when it was
stored: claim, story and outcome.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import labkit
from labkit.records import Status

RUNS = sorted(path.parent for path in (Path(__file__).parent / "data" / "runs").glob("*/plan.json"))


def test_there_are_stored_runs() -> None:
    assert RUNS


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_a_stored_run_says_what_it_said(run: Path) -> None:
    result = labkit.load(run)
    assert result.status is Status.COMPLETED
    said = [[each.claim, each.story, each.outcome.value] for each in result.verdicts]
    assert said == json.loads((run / "verdicts.json").read_text())


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_a_stored_run_is_drawn_and_told(run: Path) -> None:
    result = labkit.load(run)
    picture = result.plot()
    assert picture.png.startswith(b"\x89PNG")
    assert picture.alt
    assert json.loads(json.dumps(result.to_json()))["settings"]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_a_stored_run_is_small_and_names_no_folder_of_its_maker(run: Path) -> None:
    files = [path for path in run.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 1_000_000
    for path in files:
        assert "/home/" not in path.read_text()
        assert "/tmp/" not in path.read_text()
