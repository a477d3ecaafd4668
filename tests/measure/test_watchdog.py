"""The watchdog against trees that grow as fast as they can, and against well-behaved ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from labkit.measure import processes
from labkit.measure.guard import Guard
from labkit.measure.limits import Bound
from labkit.measure.watchdog import LOOK_SECONDS, Floor, SystemWatchdog, Watchdog, tree_of

MIB, GIB = 1 << 20, 1 << 30
WORKERS = 8

# Ways to take memory, the fastest first: pages that nobody clears, populated, touched.
GREED = {
    "shared": """
path = f"/dev/shm/labkit-test-{os.getpid()}"
fd = os.open(path, os.O_RDWR | os.O_CREAT)
os.unlink(path)
os.posix_fallocate(fd, 0, SIZE)
""",
    "populated": "held = mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_POPULATE)",
    "shared map": "held = mmap.mmap(-1, SIZE, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)",
    "touched": "held = bytearray(b'x') * SIZE",
}
# A main process of 200 MiB, as one with torch is, whose forks share it.
TREE = """
import mmap, os, time
base = bytearray(b"x") * (200 << 20)
SIZE = {size}
for worker in range({workers}):
    if os.fork() == 0:
        input_gate = os.open({gate!r}, os.O_RDONLY)  # opens when the test opens its end
        {greed}
        os.write(1, b"+")
        time.sleep(100)
os.write(1, b"ready")
time.sleep(100)
"""


@contextmanager
def tree(tmp_path: Path, greed: str, size: int) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Forked workers that take `size` bytes each, all at once, when the gate is opened."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    body = greed.strip().replace("\n", "\n        ")
    code = TREE.format(size=size, workers=WORKERS, gate=str(gate), greed=body)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read(5) == b"ready"
        try:
            yield process, gate
        finally:
            processes.kill_all([*processes.descendants(process.pid), process.pid])


def guard_of(process: subprocess.Popen[bytes], limit: int) -> Guard:
    others = set(processes.children(os.getpid())) - {process.pid}
    return Guard(Bound("watchdog", limit), process.pid, others)


def watch(guard: Guard, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while guard.look() is None and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)


limits = pytest.mark.limits
linux = pytest.mark.skipif(sys.platform != "linux", reason="the watchdog reads /proc")


@linux
@limits
@pytest.mark.slow
@pytest.mark.parametrize("greed", GREED)
def test_eight_workers_that_take_a_gibibyte_at_once_are_ended_in_time(
    greed: str, tmp_path: Path
) -> None:
    limit = 2 * GIB
    with tree(tmp_path, GREED[greed], GIB) as (process, gate):
        guard = guard_of(process, limit)
        watch(guard, 0.2)
        assert guard.death is None
        os.close(os.open(gate, os.O_WRONLY))
        watch(guard, 20)
        death = guard.death
        assert death is not None, "it was not noticed"
        assert death.by == "watchdog"
        assert limit < guard.peak_bytes <= limit + max(0.15 * limit, 0.5 * GIB)
        assert process.wait(10) == -signal.SIGKILL
        assert len(death.killed) == WORKERS + 1


@linux
@limits
@pytest.mark.slow
def test_a_tree_within_its_limit_goes_on(tmp_path: Path) -> None:
    """It grows fast and comes near: it may be stopped and measured, but must be let go on."""
    size = 64 * MIB
    with tree(tmp_path, GREED["touched"], size) as (process, gate):
        held = WORKERS * size + 200 * MIB
        guard = guard_of(process, held + held // 6)
        watch(guard, 0.2)
        os.close(os.open(gate, os.O_WRONLY))
        watch(guard, 2)
        assert guard.death is None
        assert process.stdout is not None
        assert process.stdout.read(WORKERS) == b"+" * WORKERS
        assert not any(processes.is_stopped(pid) for pid in processes.descendants(process.pid))


@linux
@limits
@pytest.mark.slow
def test_what_forks_share_is_not_counted_for_each(tmp_path: Path) -> None:
    """Nine processes of 200 MiB that share them hold 200 MiB: no reason even to stop them."""
    with tree(tmp_path, "pass", 0) as (process, _):
        guard = guard_of(process, GIB)
        watch(guard, 0.3)
        assert guard.death is None
        assert isinstance(guard._watchdog, Watchdog)
        assert guard._watchdog.stops == 0
        assert guard._watchdog.pids


@linux
def test_a_tree_has_its_orphans_and_not_our_other_children() -> None:
    sleep = [sys.executable, "-c", "input()"]
    trial, other = (subprocess.Popen(sleep, stdin=subprocess.PIPE) for _ in range(2))
    try:
        elsewhere = set(processes.children(os.getpid())) - {trial.pid, other.pid}
        assert set(tree_of(trial.pid, {*elsewhere, other.pid})) == {trial.pid}
        assert set(tree_of(trial.pid, elsewhere)) == {trial.pid, other.pid}
    finally:
        for child in (trial, other):
            child.communicate()


def meminfo(root: Path, available: int, total: int = 16 * GIB) -> None:
    (root / "proc").mkdir(exist_ok=True)
    lines = (f"{name}: {value // 1024:10} kB\n" for name, value in
             (("MemTotal", total), ("MemFree", 1), ("MemAvailable", available), ("Shmem", 5)))
    (root / "proc/meminfo").write_text("".join(lines))


def test_a_floor_of_the_machines_memory(tmp_path: Path) -> None:
    meminfo(tmp_path, 2 * GIB)
    floor = Floor(tmp_path)
    assert floor.breach() is None
    meminfo(tmp_path, 700 * MIB)
    assert floor.breach() == (700 * MIB, 16 * GIB // 20)


def test_a_floor_of_the_outer_control_group(tmp_path: Path) -> None:
    group = tmp_path / "sys/fs/cgroup/a"
    group.mkdir(parents=True)
    meminfo(tmp_path, 8 * GIB)
    (tmp_path / "proc/self").mkdir()
    (tmp_path / "proc/self/cgroup").write_text("0::/a\n")
    mounts = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
    (tmp_path / "proc/self/mountinfo").write_text(mounts)
    (group / "memory.max").write_text(f"{4 * GIB}\n")
    (group / "memory.current").write_text(f"{4 * GIB - 100 * MIB}\n")
    (group / "memory.stat").write_text(f"inactive_file {2 * GIB}\n")
    floor = Floor(tmp_path)
    assert floor.breach() is None, "page cache makes way"
    (group / "memory.stat").write_text("inactive_file 0\n")
    assert floor.breach() == (100 * MIB, 4 * GIB // 20)


def test_where_only_the_system_can_be_asked() -> None:
    available = 8 * GIB
    watchdog = SystemWatchdog(GIB, lambda: available)
    assert watchdog.look() is None
    available -= 2 * GIB
    assert watchdog.look() == 2 * GIB
