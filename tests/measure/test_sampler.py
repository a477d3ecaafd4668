"""The sampler's pauses and the load meter, with made-up clocks and counters."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from labkit.measure import processes, sampler
from labkit.measure.sampler import LoadMeter, Sampler

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture
def meter(monkeypatch: pytest.MonkeyPatch) -> tuple[LoadMeter, dict[str, float]]:
    """A meter of process 1, on a machine whose clock and counters are set by hand."""
    now = {"clock": 0.0, "busy": 100.0, "1": 0.0, "2": 0.0}
    monkeypatch.setattr(sampler, "_machine_busy_seconds", lambda: now["busy"])
    monkeypatch.setattr(processes, "cpu_ticks", lambda pid: now[str(pid)] * sampler._TICKS)
    return LoadMeter((1,), clock=lambda: now["clock"]), now


@linux
def test_what_the_run_spends_is_not_load_by_others(
    meter: tuple[LoadMeter, dict[str, float]],
) -> None:
    load, now = meter
    assert load.read([2]) == -1.0
    now |= {"clock": 2.0, "busy": 104.0, "1": 1.0, "2": 2.0}
    assert load.read([2]) == pytest.approx(0.5)
    # The trial has ended: its parent has waited for it and counts what it spent.
    now |= {"clock": 4.0, "busy": 106.0, "1": 1.0 + 3.0 + 1.0, "2": 0.0}
    assert load.read([]) == pytest.approx(0.0)


@linux
def test_ticks_go_on_with_the_parent_that_waited() -> None:
    before = processes.cpu_ticks(os.getpid())
    burn = "import time; end = time.process_time() + 0.1\nwhile time.process_time() < end: pass"
    subprocess.run([sys.executable, "-c", burn], check=True)
    assert processes.cpu_ticks(os.getpid()) - before >= 10 * sampler._TICKS // 100


@linux
def test_a_pause_lasts_into_the_next_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 10.0
    load = LoadMeter(())
    first = Sampler(os.getpid(), load, clock=lambda: now)
    assert not first.due()
    now = first.due_at
    assert first.due()
    first.sample()
    assert first.due_at >= now + first.spent_seconds / sampler.SHARE
    second = Sampler(os.getpid(), load, not_before=first.due_at, clock=lambda: now)
    assert second.due_at == first.due_at
    assert not second.due()
