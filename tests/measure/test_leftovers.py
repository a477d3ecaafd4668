"""Cleaning up by the journal: what is labkit's and dead goes, everything else stays."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from labkit.measure.leftovers import clean_up, empty_scratch, maker_of
from labkit.measure.processes import start_mark
from labkit.measure.runner import clean_up_dead_runs
from labkit.measure.store import RunFolder


def journal(run: Path, *entries: object, torn: str = "") -> RunFolder:
    run.mkdir(parents=True)
    lines = "".join(json.dumps(entry) + "\n" for entry in entries)
    (run / "journal.jsonl").write_text(lines + torn)
    (run / "warden.json").write_text("{}")
    return RunFolder(run)


def scratch(tmp_path: Path, pid: int, mark: str) -> Path:
    folder = tmp_path / f"labkit-{pid}-{mark}-abc_123"
    (folder / "pymp-x").mkdir(parents=True)
    return folder


def test_scratch_of_the_dead_goes_and_that_of_the_living_stays(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        pass
    mine = str(start_mark(os.getpid()))
    gone, kept = scratch(tmp_path, dead.pid, "1"), scratch(tmp_path, os.getpid(), mine)
    named_otherwise = tmp_path / "precious"
    named_otherwise.mkdir()
    folders = (gone, kept, named_otherwise)
    entries = [{"what": "scratch", "folder": str(folder)} for folder in folders]
    folder = journal(tmp_path / "run", *entries)
    assert clean_up(folder) == []
    assert [path.exists() for path in folders] == [False, True, True]
    assert not folder.warden.exists()


@pytest.mark.parametrize(
    "odd",
    [
        {"what": "group", "group": "/nowhere"},
        {"what": "group", "group": "GROUP", "version": 3},
        {"what": "group", "group": 7, "version": 1},
        {"what": "scratch", "folder": None},
        {"what": "scratch"},
        {"what": "x", "pid": 5},
        {"what": "x", "pid": "5", "mark": "1"},
        {"what": "x", "pid": -1, "mark": "1"},
        {"what": "x", "pid": 5, "mark": [1]},
        {"why": 1},
        ["group"],
        7,
    ],
    ids=str,
)
def test_an_entry_of_another_version_stops_nothing_and_removes_nothing(
    odd: object, tmp_path: Path
) -> None:
    """What comes after it is cleaned up all the same; a group of its is left as it is."""
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        pass
    group = tmp_path / f"labkit-run-000-0-{dead.pid}-1"
    group.mkdir()
    gone = scratch(tmp_path, dead.pid, "1")
    if isinstance(odd, dict) and odd.get("group") == "GROUP":
        odd = odd | {"group": str(group)}
    folder = journal(tmp_path / "run", odd, {"what": "scratch", "folder": str(gone)})
    assert clean_up(folder) == []
    assert group.exists()
    assert not gone.exists()


@pytest.mark.parametrize("torn", ['{"what": "gro', '{"what": "scratch", "folder": "/tm', "\0\0\0"])
def test_a_torn_journal_stops_nothing(torn: str, tmp_path: Path) -> None:
    assert clean_up(journal(tmp_path / "run", torn=torn)) == []


def test_a_journal_that_is_no_text_stops_nothing(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        pass
    gone = scratch(tmp_path, dead.pid, "1")
    folder = journal(tmp_path / "run", {"what": "scratch", "folder": str(gone)})
    with open(folder.journal, "ab") as file:
        file.write(b"\xff\xfe")
    assert clean_up(folder) == []
    assert not gone.exists()


@pytest.mark.parametrize("text", ["{}", "[]", "7", '{"pid": 5}', "", "{"])
def test_a_run_whose_warden_cannot_be_named_is_left_to_its_own_version(
    text: str, tmp_path: Path
) -> None:
    run = journal(tmp_path / "runs" / "20260101-000000-lab")
    run.warden.write_text(text)
    clean_up_dead_runs(tmp_path / "runs")
    assert run.warden.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/shm")
def test_a_stranger_that_got_a_pid_later_keeps_its_shared_memory(tmp_path: Path) -> None:
    """The journal's mark is another one: neither the process nor its file is the run's."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        file = Path(f"/dev/shm/torch_{stranger.pid}_1_0")
        file.write_bytes(b"x")
        try:
            entry = {"what": "000-0", "pid": stranger.pid, "mark": "1"}
            assert clean_up(journal(tmp_path / "run", entry)) == []
            assert stranger.poll() is None
            assert file.exists()
        finally:
            file.unlink(missing_ok=True)
            stranger.communicate()


def test_a_trials_scratch_is_emptied(tmp_path: Path) -> None:
    (tmp_path / "pymp-x").mkdir()
    (tmp_path / "pymp-x" / "listener").write_text("")
    (tmp_path / "file").write_text("")
    empty_scratch(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_only_names_of_ours_have_a_maker() -> None:
    assert maker_of("labkit-12-345-abc") == (12, "345")
    assert maker_of("labkit-run-1-000-0-12-345") == (12, "345")
    assert maker_of("labkit-queue") is None
    assert maker_of("other-12-345-abc") is None
