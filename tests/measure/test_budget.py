"""Budgets with real loaders: out of memory as a result with evidence, and nothing left after it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import labkit
from labkit.api import start
from labkit.errors import MeasureError
from labkit.events import BatchLoaded, MemorySampled, TrialEnded, TrialStarted
from labkit.machine.control_group import control_groups
from labkit.measure import processes
from labkit.measure.limits import available_mechanism
from labkit.result import Result

LAB = str(Path(__file__).with_name("hungry.py"))
MIB = 1 << 20

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABKIT_HOME", str(tmp_path / "home"))


@pytest.fixture
def mechanism(wish: str) -> str:
    """The mechanism that the wish gets here."""
    return available_mechanism(wish)


def ends(result: Result) -> list[TrialEnded]:
    found = [(e.trial, e.body) for e in result.events if isinstance(e.body, TrialEnded)]
    return [body for _, body in sorted(found, key=lambda item: item[0])]


def wait_for(what: Callable[[], Any], seconds: float = 30) -> Any:
    """Poll until `what` gives something; the time limit is a safety net, not a claim."""
    deadline = time.monotonic() + seconds
    while not (value := what()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)
    return value


@pytest.mark.limits
@pytest.mark.parametrize("fresh", ["cold", "forked"])
def test_what_fits_completes_and_what_does_not_is_out_of_memory(
    mechanism: str, fresh: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUNGRY_FRESH", fresh)
    limit = 600
    result = labkit.run(LAB, view="none", workers=[0, 4], mechanism=mechanism, limit=limit)
    assert [item.status for item in result.summary] == ["completed", "out_of_memory"]
    assert result.environment.budget_mechanism == available_mechanism()
    small, large = ends(result)
    for ended in (small, large):
        assert ended.evidence["mechanism"] == mechanism
        assert ended.evidence["limit_bytes"] == limit * MIB
    assert small.evidence["peak_bytes"] < limit * MIB
    evidence = large.evidence
    bound = limit * MIB + max(0.15 * limit * MIB, 512 * MIB)
    assert 0.8 * limit * MIB < evidence["peak_bytes"] <= bound
    assert evidence["by"] == ("watchdog" if mechanism == "watchdog" else "kernel")
    roles = [item["role"] for item in evidence["killed"]]
    assert "worker" in roles, "the kernel takes the largest; the watchdog all of them"
    assert mechanism in large.detail
    assert "600 MiB" in large.detail
    sampled = [e.body for e in result.events if isinstance(e.body, MemorySampled)]
    in_group = [item for item in sampled if item.group_bytes is not None]
    assert bool(in_group) == mechanism.startswith("control group")


@pytest.mark.limits
def test_the_main_process_may_be_the_one_that_dies(mechanism: str) -> None:
    result = labkit.run(LAB, view="none", workers=[0], mode="main_eats", mechanism=mechanism)
    (ended,) = ends(result)
    assert ended.status == "out_of_memory"
    assert [item["role"] for item in ended.evidence["killed"]] == ["main"]
    assert any(isinstance(e.body, BatchLoaded) for e in result.events), "what was measured stays"


@pytest.mark.parametrize(
    ("mode", "status", "words"),
    [("memory_error", "out_of_memory", "MemoryError"), ("killed", "failed", "SIGKILL")],
)
def test_a_signal_alone_is_no_evidence(
    mechanism: str, mode: str, status: str, words: str
) -> None:
    """Nor is a budget; MemoryError is, whoever raised it."""
    result = labkit.run(LAB, view="none", workers=[0], mode=mode, mechanism=mechanism)
    (ended,) = ends(result)
    assert ended.status == status
    assert words in ended.detail
    assert ended.evidence["mechanism"] == mechanism
    assert "killed" not in ended.evidence


def test_a_mechanism_that_is_not_here_is_said_before_anything_runs() -> None:
    with pytest.raises(MeasureError, match="held by 'job object'") as told:
        labkit.run(LAB, view="none", workers=[0], mechanism="job object")
    assert "auto" in told.value.do
    assert list((Path(os.environ["LABKIT_HOME"]) / "runs").glob("*-hungry")) == []


def left_of(folder: Path) -> list[str]:
    """Processes, control groups, shared memory and temporary folders of a run."""
    entries = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    pids = {entry["pid"] for entry in entries if "pid" in entry}
    groups = [path for place in control_groups("memory") for path in place.folder.glob("labkit*")]
    return [
        *(f"process {pid}" for pid in processes.labelled(folder.name)),
        *(f"group {path}" for path in groups if folder.name in path.name),
        *(f"file {path}" for pid in pids for path in Path("/dev/shm").glob(f"torch_{pid}_*")),
        *(entry[key] for entry in entries for key in ("group", "folder")
          if key in entry and Path(entry[key]).exists()),
    ]  # fmt: skip


def begin(mechanism: str) -> tuple[subprocess.Popen[bytes], Path, int]:
    """A kernel in the middle of a bounded trial with a full queue; its run; the trial's pid."""
    asked = f"view='none', workers=[2], limit=4000, seconds=30, mechanism={mechanism!r}"
    code = f"import labkit; labkit.run({LAB!r}, {asked})"
    kernel = subprocess.Popen([sys.executable, "-c", code])
    runs = Path(os.environ["LABKIT_HOME"]) / "runs"
    folder = wait_for(lambda: list(runs.glob("*-hungry/events/*-0-000-0.jsonl")))[0].parent.parent

    def loading() -> int:
        events = labkit.load(folder).events
        started = [e.body.pid for e in events if isinstance(e.body, TrialStarted)]
        workers = [pid for pid in started if len(processes.descendants(pid)) >= 2]
        return workers[0] if workers else 0

    return kernel, folder, wait_for(loading)


@pytest.mark.limits
@pytest.mark.parametrize("victim", ["trial", "worker", "warden", "kernel"])
def test_kill_9_of_one_leaves_nothing(mechanism: str, victim: str) -> None:
    kernel, folder, trial = begin(mechanism)
    assert left_of(folder), "there is something to be removed"
    pid = {
        "trial": trial,
        "worker": processes.descendants(trial)[0],
        "warden": json.loads((folder / "warden.json").read_text())["pid"],
        "kernel": kernel.pid,
    }[victim]
    os.kill(pid, signal.SIGKILL)
    kernel.wait(30)
    wait_for(lambda: not left_of(folder))
    if victim in ("trial", "worker"):
        (ended,) = ends(labkit.load(folder))
        assert ended.status == "failed", "a signal is no evidence of too little memory"


@pytest.mark.limits
def test_a_later_run_removes_what_a_killed_kernel_and_warden_left(mechanism: str) -> None:
    kernel, folder, trial = begin(mechanism)
    warden = json.loads((folder / "warden.json").read_text())["pid"]
    # A worker that was killed in the middle of a batch leaves such a file.
    worker = processes.descendants(trial)[0]
    wait_for(lambda: f'"pid": {worker},' in (folder / "journal.jsonl").read_text())
    file = Path(f"/dev/shm/torch_{worker}_1_0")
    file.write_bytes(b"x")
    stranger = Path(f"/dev/shm/torch_{2**22 + 7}_1_0")
    stranger.write_bytes(b"x")
    foreign = Path(tempfile.mkdtemp(prefix="labkit-of-somebody-"))
    try:
        kernel.kill()
        kernel.wait()
        os.kill(warden, signal.SIGKILL)
        wait_for(lambda: not processes.start_mark(warden))
        assert left_of(folder)
        second = start(LAB, workers=[0], batches=1)
        wait_for(lambda: not left_of(folder), seconds=10)
        assert not (folder / "warden.json").exists()
        assert stranger.exists()
        assert foreign.exists()
        second.wait(60)
        assert labkit.load(second.folder.path).status == "completed"
    finally:
        stranger.unlink()
        foreign.rmdir()
