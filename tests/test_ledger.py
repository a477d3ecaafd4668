"""The claims ledger: which run speaks, what is missing, and how it is told."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from labkit.claims import LEDGER
from labkit.ledger import Ledger, latest_results
from labkit.records import Outcome
from labkit.view.ledger_text import told_line

STORED = Path(__file__).parent / "data" / "runs"


def copy(name: str, runs: Path, stamp: str, *, machine: str = "mine", size: str = "full") -> Path:
    """A stored run as if this machine had measured it."""
    target = runs / f"{stamp}-{name}"
    shutil.copytree(STORED / name, target)
    plan = json.loads((target / "plan.json").read_text())
    plan["environment"]["machine_id"] = machine
    plan["asked"]["size"] = size
    (target / "plan.json").write_text(json.dumps(plan))
    return target


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    copy("kitchen", tmp_path, "20260102-030405")
    copy("worker_plateau", tmp_path, "20260102-030406", machine="another")
    return Ledger(tmp_path, "mine")


def test_every_claim_has_an_entry(ledger: Ledger) -> None:
    assert [entry.claim.id for entry in ledger] == [claim.id for claim in LEDGER]


def test_verdicts_of_this_machine_are_told_with_their_date(ledger: Ledger) -> None:
    entries = {entry.claim.id: entry for entry in ledger}
    stories = [told.verdict.story for told in entries["K2"].told]
    assert stories == ["order", "processes", "in flight", "before the first"]
    line = told_line(entries["K1"].told[0])
    assert "reproduced" in line
    assert "kitchen, 2026-01-02" in line


def test_what_another_machine_measured_does_not_count(ledger: Ledger) -> None:
    entry = next(entry for entry in ledger if entry.claim.id == "K7")
    assert not entry.told
    assert entry.unmeasured == ("worker_plateau",)
    assert "not measured here yet: labkit run worker_plateau" in repr(ledger)


def test_labs_that_do_not_exist_yet_are_named(ledger: Ledger) -> None:
    entry = next(entry for entry in ledger if entry.claim.id == "K33")
    assert entry.missing == ("other_loaders",)
    assert "the lab other_loaders does not exist yet" in repr(ledger)


def test_the_latest_whole_run_speaks_and_full_size_before_small(tmp_path: Path) -> None:
    copy("kitchen", tmp_path, "20260101-000000")
    latest = copy("kitchen", tmp_path, "20260103-000000")
    copy("kitchen", tmp_path, "20260104-000000", size="small")
    broken = copy("kitchen", tmp_path, "20260105-000000")
    (broken / "plan.json").write_text("{")
    cut = copy("kitchen", tmp_path, "20260106-000000")
    for path in (cut / "events").glob("*warden*"):
        path.unlink()  # no end: it was stopped
    assert {n: r.path for n, r in latest_results(tmp_path, "mine").items()} == {"kitchen": latest}


def test_json_and_html_hold_the_same(ledger: Ledger) -> None:
    raw = json.loads(json.dumps(ledger.to_json()))
    found = {claim["id"]: claim for claim in raw["claims"]}
    assert found["K1"]["verdicts"][0]["outcome"] == Outcome.REPRODUCED.value
    assert found["K33"]["labs_missing"] == ["other_loaders"]
    assert "<table>" in ledger._repr_html_()
