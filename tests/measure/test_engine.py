"""The engine with real children: statuses, printing, stopping, killing, and what is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import labkit
from labkit.api import LiveRun, start
from labkit.errors import ExperimentError
from labkit.events import BatchBuilt, BatchLoaded, TrialStarted, WarningCaught
from labkit.machine.folders import runs_folder
from labkit.measure import processes
from labkit.measure.store import RunFolder

LAB = str(Path(__file__).with_name("labs.py"))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABKIT_HOME", str(tmp_path / "home"))


def wait_for(what: Callable[[], Any], seconds: float = 30) -> Any:
    """Poll until `what` gives something; the time limit is a safety net, not a claim."""
    deadline = time.monotonic() + seconds
    while not (value := what()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)
    return value


def begin(**params: Any) -> LiveRun:
    """A run that is in the middle of a trial."""
    live = start(LAB, **params)
    wait_for(lambda: any(isinstance(e.body, BatchLoaded) for e in live.poll()))
    return live


def none_left(name: str) -> bool:
    return not processes.labelled(name)


def test_a_run_measures_every_setting() -> None:
    result = labkit.run(LAB, view="none", workers=[0, 2], mode="slow", repeats=2)
    assert result.status == "completed"
    assert [item.setting["workers"] for item in result.summary] == [0, 2]
    for item in result.summary:
        assert len(item.rates) == 2
        assert item.first_batch_seconds is not None
        assert item.first_batch_seconds > 0
        assert item.cpu_seconds_per_sample is not None
        assert item.cpu_seconds_per_sample > 0
        assert item.peak_bytes is not None
        assert item.peak_bytes > 1 << 20
        assert item.stages.total > 0
    loaded = [e for e in result.events if isinstance(e.body, BatchLoaded)]
    assert len(loaded) == 4 * (12 + 2)
    assert sum(e.body.warmup for e in loaded) == 4 * 2  # type: ignore[union-attr]
    built = [e.body for e in result.events if isinstance(e.body, BatchBuilt)]
    # torch gives batch k to worker k mod W; without workers the main process builds it.
    assert {b.worker for b in built} == {-1, 0, 1}
    assert all(b.worker in (-1, b.batch % 2) for b in built)


def test_stored_run_loads_again_and_says_the_same(tmp_path: Path) -> None:
    result = labkit.run(LAB, view="none", workers=[0])
    again = labkit.load(result.path)
    assert again.to_json()["settings"] == result.to_json()["settings"]
    assert again.to_csv(tmp_path / "run.csv").read_text().count("\n") == 2
    json.dumps(again.to_json(), allow_nan=False)


@pytest.mark.parametrize(
    ("mode", "status", "words"),
    [
        ("raises", "failed", "sample 20 is broken"),
        ("worker_dies", "failed", "worker"),
        ("memory_error", "out_of_memory", "MemoryError"),
        ("hangs", "timed_out", "not done after"),
        ("consumer_dies", "failed", "SIGKILL"),
        ("prints", "completed", ""),
    ],
)
def test_statuses(mode: str, status: str, words: str) -> None:
    result = labkit.run(LAB, view="none", workers=[2], mode=mode, timeout=6)
    (item,) = result.summary
    assert item.status == status
    assert words in item.trials[0].detail
    if mode == "raises":
        assert "Traceback" in result.errors[0]
        assert item.trials[0].batches > 0, "what was measured before stays"
    assert none_left(result.path.name)


def test_only_deaths_are_tried_again() -> None:
    result = labkit.run(str(Path(LAB).with_name("dying_lab.py")), view="none")
    lived, died = result.summary
    assert [trial.repeat for trial in lived.trials] == [0]
    assert [trial.repeat for trial in died.trials] == [0, 1, 2]
    assert {trial.status for trial in died.trials} == {"out_of_memory"}
    assert {trial.samples for trial in died.trials} == {3}, "what was delivered stays"
    assert result.status == "completed"
    assert result.errors == (), "running out of memory is a result"


def test_memory_error_in_the_main_process_is_out_of_memory() -> None:
    result = labkit.run(LAB, view="none", workers=[0], mode="memory_error")
    assert result.summary.settings[0].status == "out_of_memory"


def test_torchs_advice_on_workers_is_a_fact(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if (cores or 1) >= 8:
        pytest.skip("torch gives its advice above the number of cores; 8 is this lab's most")
    result = labkit.run(LAB, view="none", workers=[8])
    assert any("suggested max number of worker" in text for text in result.summary.warnings)
    assert any(isinstance(e.body, WarningCaught) for e in result.events)


def test_stop_keeps_what_was_measured() -> None:
    live = begin(mode="slow", workers=[2], batches=10_000)
    live.stop()
    live.wait(20)
    result = labkit.load(live.folder.path)
    assert result.status == "cancelled"
    assert result.summary.settings[0].trials[0].batches > 0
    assert none_left(live.folder.path.name)


@pytest.mark.parametrize("victim", ["warden", "trial", "worker"])
def test_kill_9_leaves_nothing(victim: str) -> None:
    live = begin(mode="slow", workers=[2], batches=10_000)
    name = live.folder.path.name
    (trial,) = [e.body.pid for e in live.events if isinstance(e.body, TrialStarted)]
    warden = json.loads((live.folder.path / "warden.json").read_text())["pid"]
    pid = {"warden": warden, "trial": trial, "worker": 0}[victim]
    if victim == "worker":
        pid = wait_for(lambda: processes.descendants(trial))[0]
    os.kill(pid, signal.SIGKILL)
    live.wait(30)
    assert labkit.load(live.folder.path).status == "failed"
    wait_for(lambda: none_left(name))


def test_kill_9_of_the_kernel_leaves_nothing(tmp_path: Path) -> None:
    asked = "view='none', mode='slow', workers=[2], batches=9999"
    code = f"import labkit; labkit.run({LAB!r}, {asked})"
    kernel = subprocess.Popen([sys.executable, "-c", code])
    runs = tmp_path / "home" / "runs"
    folder = wait_for(lambda: list(runs.glob("*-labs/events/*-0-000-0.jsonl")))[0].parent.parent
    wait_for(lambda: len(processes.labelled(folder.name)) >= 5)  # warden, host, trial, 2 workers
    kernel.kill()
    kernel.wait()
    wait_for(lambda: none_left(folder.name))
    assert labkit.load(folder).status == "cancelled"


def test_a_plan_that_fails_leaves_no_run(tmp_path: Path) -> None:
    lab = tmp_path / "empty_lab.py"
    lab.write_text(Path(LAB).read_text().replace("in params", "in () and params"))
    with pytest.raises(ExperimentError, match="none"):
        start(str(lab))
    assert not list(runs_folder().iterdir())


def test_second_run_waits_for_its_turn_visibly() -> None:
    first = begin(mode="slow", workers=[2], batches=10_000)
    second = start(LAB, workers=[0])
    queued = wait_for(lambda: [e for e in second.poll() if getattr(e.body, "position", 0) > 0])
    assert "labs" in queued[0].body.holder
    first.stop()
    first.wait(20)
    second.wait(30)
    assert labkit.load(second.folder.path).status == "completed"


def test_a_torn_last_line_is_ignored() -> None:
    result = labkit.run(LAB, view="none", workers=[0])
    before = len(result.events)
    file = next(RunFolder(result.path).events.glob("*-000-0.jsonl"))
    with open(file, "a", encoding="utf-8") as stream:
        stream.write('{"v":1,"kind":"BatchLoaded","trial":"000-0","ho')
    assert len(labkit.load(result.path).events) == before
