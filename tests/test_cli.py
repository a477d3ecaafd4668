"""The command: exit codes, one JSON object, errors in three lines without a traceback."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from labkit.cli import parse_guesses, parse_params
from labkit.errors import InsufficientSpaceError, ParameterError

LAB = str(Path(__file__).parent / "measure" / "labs.py")


def labkit(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "labkit", *arguments], capture_output=True, text=True,
        env=os.environ | {"LABKIT_HOME": str(home)}, timeout=120, check=False,
    )  # fmt: skip


def test_options_become_parameters() -> None:
    words = ["--workers", "0,1,2", "--batch-size=8", "--mode", "fine", "--wait-ms", "1.5"]
    assert parse_params(words) == {
        "workers": [0, 1, 2], "batch_size": 8, "mode": "fine", "wait_ms": 1.5
    }  # fmt: skip


@pytest.mark.parametrize("words", [["--workers"], ["stray"], ["--workers", "1", "stray"]])
def test_stray_words_are_told(words: list[str]) -> None:
    with pytest.raises(ParameterError, match="--name value"):
        parse_params(words)


def test_a_prediction_is_pairs_of_numbers() -> None:
    assert parse_guesses("0=1,2=1.5") == {0: 1, 2: 1.5}
    for text in ("0", "0=1=2", "two=2", ""):
        with pytest.raises(ParameterError, match="0=1,2=2"):
            parse_guesses(text)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "worker_plato"],
        ["run", "worker_plateau", "--workers", "-1"],
        ["run", "worker_plateau", "--workers", "10000"],
        ["run", "worker_plateau", "--colour", "red"],
        ["run", "worker_plateau", "--size", "huge"],
        ["run", "worker_plateau", "--repeats", "0"],
        ["run", "./nowhere.py"],
        ["show", "no-such-run"],
    ],
)
def test_bad_input_exits_2_with_three_lines(arguments: list[str], tmp_path: Path) -> None:
    done = labkit(*arguments, home=tmp_path)
    assert done.returncode == 2
    for part in ("asked:", "found:", "do:"):
        assert part in done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_an_unwritable_home_exits_2(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = labkit("run", LAB, home=tmp_path / "file")
    assert done.returncode == 2, done.stderr
    assert "LABKIT_HOME" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_json_is_one_object_and_the_run_can_be_shown(tmp_path: Path) -> None:
    done = labkit("run", LAB, "--workers", "0,2", "--json", home=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(found) == {
        "format", "experiment", "status", "headline", "verdicts", "settings", "environment",
        "overhead", "run_path",
    }  # fmt: skip
    assert [item["params"]["workers"] for item in found["settings"]] == [0, 2]
    shown = labkit("show", found["run_path"], home=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "samples/s" in shown.stdout


@pytest.mark.slow
def test_json_also_on_bad_input_and_on_failure(tmp_path: Path) -> None:
    bad = labkit("run", "worker_plato", "--json", home=tmp_path)
    assert bad.returncode == 2
    assert json.loads(bad.stdout)["status"] == "failed"
    failed = labkit("run", LAB, "--workers", "0", "--mode", "raises", "--json", home=tmp_path)
    assert failed.returncode == 1
    assert json.loads(failed.stdout)["settings"][0]["status"] == "failed"


@pytest.mark.slow
def test_data_is_made_listed_and_cleaned(tmp_path: Path) -> None:
    made = labkit("data", "make", "worker_plateau", "--size", "small", home=tmp_path)
    assert made.returncode == 0, made.stderr
    folders = [Path(line) for line in made.stdout.splitlines()]
    assert all((folder / "manifest.json").exists() for folder in folders)
    listed = labkit("data", "list", home=tmp_path)
    assert "images" in listed.stdout
    cleaned = labkit("data", "clean", home=tmp_path)
    assert cleaned.stdout.count("removed") == len(folders)
    assert not any(folder.exists() for folder in folders)


@pytest.mark.slow
def test_doctor_tells_this_machine(tmp_path: Path) -> None:
    done = labkit("doctor", home=tmp_path)
    assert done.returncode in (0, 1), done.stderr
    assert "torch" in done.stdout
    assert "Traceback" not in done.stderr


def test_no_space_is_told_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from labkit import api

    monkeypatch.setenv("LABKIT_HOME", str(tmp_path))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1, total=9, used=8))
    with pytest.raises(InsufficientSpaceError, match="are free"):
        api.start("worker_plateau", size="small")
    assert not list(tmp_path.glob("runs/*"))


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_ctrl_c_gives_the_partial_result(tmp_path: Path) -> None:
    words = ["run", LAB, "--mode", "slow", "--workers", "0", "--batches", "9999", "--json"]
    child = subprocess.Popen(
        [sys.executable, "-m", "labkit", *words], stdout=subprocess.PIPE, text=True,
        env=os.environ | {"LABKIT_HOME": str(tmp_path)}, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not any("BatchLoaded" in p.read_text() for p in tmp_path.glob("runs/*/events/*-000-0*")):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=60)
    assert child.returncode == 130
    found = json.loads(out)
    assert found["status"] == "cancelled"
    assert found["settings"][0]["status"] == "cancelled"


@pytest.mark.slow
def test_claims_tells_every_claim(tmp_path: Path) -> None:
    done = labkit("claims", home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "not measured here yet" in done.stdout
    found = json.loads(labkit("claims", "--json", home=tmp_path).stdout)
    assert {"K1", "K7", "K33"} <= {each["id"] for each in found["claims"]}


@pytest.mark.slow
def test_compare_sets_two_runs_side_by_side(tmp_path: Path) -> None:
    runs = Path(__file__).parent / "data" / "runs"
    shutil.copytree(runs / "kitchen", tmp_path / "runs" / "mine")
    done = labkit("compare", "mine", str(runs / "kitchen"), home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 worker" in done.stdout
    found = json.loads(labkit("compare", "mine", "mine", "--json", home=tmp_path).stdout)
    assert found["settings"]
    refused = labkit("compare", "mine", str(runs / "worker_plateau"), home=tmp_path)
    assert refused.returncode == 2
    assert "do:" in refused.stderr


@pytest.mark.slow
def test_budget_counts_without_a_run(tmp_path: Path) -> None:
    words = ["budget", "--ranks", "2", "--workers", "3", "--sample-size", "1MiB"]
    words += ["--batch-size", "4"]
    done = labkit(*words, home=tmp_path)
    assert done.returncode == 0, done.stderr
    for part in ("9 processes", "7 batches of 4 MiB", "/dev/shm", "file descriptors"):
        assert part in " ".join(done.stdout.split())
    found = json.loads(labkit(*words, "--json", home=tmp_path).stdout)
    assert found["in_flight_bytes"] == 2 * 7 * 4 << 20
    assert {"safe_workers", "reasons"} <= set(found)
    refused = labkit("budget", "--sample-size", "huge", home=tmp_path)
    assert refused.returncode == 2
    assert "do:" in refused.stderr
    assert not (tmp_path / "runs").exists()
