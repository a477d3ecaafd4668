"""Real ranks under torchrun: what is recorded, which rank is blamed, and what is left."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import labkit
from labkit.api import LiveRun, start
from labkit.events import BatchLoaded, TrialStarted
from labkit.measure import processes
from labkit.measure.limits import available_mechanism

LAB = str(Path(__file__).with_name("rank_lab.py"))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABKIT_HOME", str(tmp_path / "home"))


def wait_for(what: Callable[[], Any], seconds: float = 60) -> Any:
    """Poll until `what` gives something; the time limit is a safety net, not a claim."""
    deadline = time.monotonic() + seconds
    while not (value := what()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)
    return value


def assert_nothing_left(path: Path) -> None:
    """No process of the run, and every port that its ranks met at can be bound again."""
    assert not processes.labelled(path.name)
    ports = [json.loads(file.read_text())["port"] for file in path.glob("ranks/*/progress-*.json")]
    assert ports
    for port in ports:
        with socket.socket() as free:
            free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # past connections linger
            free.bind(("127.0.0.1", port))


def test_one_launch_sweeps_the_workers_and_every_rank_is_heard() -> None:
    result = labkit.run(LAB, view="none", repeats=2)
    assert result.status == "completed", result.detail
    assert [item.setting["workers"] for item in result.summary] == [0, 1]
    for item in result.summary:
        for trial in item.trials:
            assert trial.launch == "ranks"
            assert trial.samples == 2 * 12 * 4
            assert trial.facts["ranks"] == (2.0,) * 12
            assert trial.ranks is not None
            assert trial.ranks.steps == (12, 12)
            assert trial.ranks.workers == (item.setting["workers"],) * 2
            assert trial.peak_bytes is None or trial.peak_bytes > 100 << 20
    started = [e for e in result.events if isinstance(e.body, TrialStarted)]
    assert {e.rank for e in started} == {0, 1}
    assert len({e.body.pid for e in started}) == 2, "the same two ranks did all trials"  # type: ignore[union-attr]
    assert [path.name for path in (result.path / "ranks").iterdir()] == ["launch0"]
    assert_nothing_left(result.path)


def test_another_number_of_ranks_is_another_launch() -> None:
    result = labkit.run(LAB, view="none", ranks=[1, 2], workers=[0])
    assert result.status == "completed", result.detail
    assert len(list((result.path / "ranks").iterdir())) == 2
    assert {len(item.trials[0].ranks.steps) for item in result.summary} == {1, 2}  # type: ignore[union-attr]
    assert_nothing_left(result.path)


@pytest.mark.parametrize(
    ("mode", "status", "words"),
    [
        ("dies", "failed", "rank 1 of 2, after step 7: ended by signal 9 (SIGKILL)"),
        ("raises", "failed", "rank 1 of 2, after step 7: ValueError: rank 1 is broken"),
        ("no_memory", "out_of_memory", "rank 1 of 2, after step 7: MemoryError: no more"),
        ("hangs", "timed_out", "rank 1 of 2, after step 11, in its step: not done after 5 s"),
    ],
)
def test_the_rank_is_named(mode: str, status: str, words: str) -> None:
    result = labkit.run(LAB, view="none", workers=[1], mode=mode, timeout=5)
    (item,) = result.summary
    assert item.status == status
    assert item.trials[0].detail == words
    assert item.trials[0].batches > 0, "what was measured before stays"
    assert_nothing_left(result.path)


def test_a_launch_is_made_anew_after_a_failure() -> None:
    result = labkit.run(LAB, view="none", workers=[0, 1], mode="dies")
    assert [item.status for item in result.summary] == ["failed", "failed"]
    assert all("rank 1 of 2, after step 7" in item.trials[0].detail for item in result.summary)
    assert len(list((result.path / "ranks").iterdir())) == 2
    assert_nothing_left(result.path)


@pytest.mark.limits
def test_out_of_memory_names_the_rank() -> None:
    if not available_mechanism().startswith(("control group", "systemd")):
        if os.environ.get("LABKIT_REQUIRE_LIMITS"):
            pytest.fail("no control group, and LABKIT_REQUIRE_LIMITS is set")
        pytest.skip("no control group to be had")
    result = labkit.run(LAB, view="none", workers=[1], mode="hoards", limit_mb=900)
    (item,) = result.summary
    assert item.status == "out_of_memory", item.trials[0].detail
    assert item.trials[0].detail.startswith("rank 1 of 2, ")
    assert "the kernel killed worker" in item.trials[0].detail
    assert_nothing_left(result.path)


def test_stopping_and_killing_leave_nothing() -> None:
    def begin() -> LiveRun:
        live = start(LAB, workers=[1], mode="hangs")
        wait_for(lambda: any(isinstance(e.body, BatchLoaded) for e in live.poll()))
        return live

    live = begin()
    live.stop()
    live.wait(20)
    assert labkit.load(live.folder.path).status == "cancelled"
    assert_nothing_left(live.folder.path)
    live = begin()
    os.kill(json.loads((live.folder.path / "warden.json").read_text())["pid"], signal.SIGKILL)
    live.wait(30)
    assert labkit.load(live.folder.path).status == "failed"
    wait_for(lambda: not processes.labelled(live.folder.path.name))
    assert_nothing_left(live.folder.path)
