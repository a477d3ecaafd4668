"""Memory of a tree: in-flight files counted once, anonymous memory by its owner."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from labkit.measure.groups import TrialGroup
from labkit.measure.memory import sample_memory, shared_memory_bytes
from labkit.measure.processes import descendants

MIB = 1 << 20
SIZE = 64 * MIB

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc; elsewhere psutil tells less"),
]

# A file in shared memory, unlinked at once, mapped by none: a batch that waits in the queue.
IN_FLIGHT = """
path = f"/dev/shm/labkit-test-{os.getpid()}"
fd = os.open(path, os.O_RDWR | os.O_CREAT)
os.unlink(path)
os.posix_fallocate(fd, 0, SIZE)
"""
ANONYMOUS = "held = bytearray(b'x') * SIZE"
FORK = "pid = os.fork()"
MAPPED = IN_FLIGHT + "import mmap; held = mmap.mmap(fd, SIZE); os.close(fd); held[:SIZE:4096]"
SHARED = "import mmap; held = mmap.mmap(-1, SIZE); held[::4096] = b'x' * (SIZE // 4096)"
MEMFD = "fd = os.memfd_create('batch'); os.posix_fallocate(fd, 0, SIZE)"


@contextmanager
def child(code: str, *, group: Path | None = None) -> Iterator[int]:
    """A process that has run `code` and now waits, with the children that it forked."""
    # One write each: two processes that print would interleave.
    text = f"import os\nSIZE = {SIZE}\n{code}\nos.write(1, b'ready\\n')\ninput()"
    command = [sys.executable, "-c", text]
    if group is not None:
        join = f'echo $$ > {group}/cgroup.procs && exec "$@"'
        command = ["sh", "-c", join, "sh", *command]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with process:
        assert process.stdout is not None
        for _ in range(1 + code.count("fork")):
            assert process.stdout.readline() == b"ready\n"
        try:
            yield process.pid
        finally:
            for pid in descendants(process.pid):
                os.kill(pid, 9)
            process.kill()


@pytest.mark.parametrize("fork", ["", FORK])
@pytest.mark.parametrize("held", [IN_FLIGHT, MAPPED, SHARED, MEMFD])
def test_shared_memory_counts_once(held: str, fork: str) -> None:
    with child(f"{held}\n{fork}") as pid:
        tree = [pid, *descendants(pid)]
        assert len(tree) == (2 if fork else 1)
        assert shared_memory_bytes(tree) == SIZE
        sampled = sample_memory(tree, pid)
        assert sampled.shared_memory == SIZE
        assert [item.role for item in sampled.processes].count("main") == 1


def test_without_privilege_the_extent_of_a_map_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.stat

    def refuse(path: str) -> os.stat_result:
        if "map_files" in path:
            raise PermissionError(path)
        return real(path)

    with child(f"{MAPPED}\n{FORK}") as pid:
        tree = [pid, *descendants(pid)]
        with monkeypatch.context() as patched:
            patched.setattr("labkit.measure.memory.os.stat", refuse)
            assert shared_memory_bytes(tree) == SIZE


def test_pss_alone_misses_what_nobody_maps() -> None:
    with child(IN_FLIGHT) as pid:
        sampled = sample_memory([pid], pid)
    assert sum(item.pss for item in sampled.processes) < SIZE
    assert sampled.total > SIZE


def test_anonymous_memory_shared_by_a_fork_counts_once_and_rss_twice() -> None:
    with child(f"{ANONYMOUS}\n{FORK}") as pid:
        sampled = sample_memory([pid, *descendants(pid)], pid)
    assert SIZE <= sampled.total < 1.5 * SIZE
    assert sum(item.rss for item in sampled.processes) >= 2 * SIZE


def test_processes_that_vanished_are_left_out() -> None:
    with child("") as pid:
        sampled = sample_memory([pid, 2**22 + 1], pid)
    assert [item.pid for item in sampled.processes] == [pid]


def test_processes_may_vanish_while_they_are_read() -> None:
    """Zombies, too, are left out: they hold no memory."""
    sleep = [sys.executable, "-c", "input()"]
    children = [subprocess.Popen(sleep, stdin=subprocess.PIPE) for _ in range(8)]
    try:
        for one in children:
            one.kill()
            for item in sample_memory([each.pid for each in children], 0).processes:
                assert item.rss > 0
    finally:
        for one in children:
            one.kill()
            one.communicate()
    assert sample_memory([one.pid for one in children], 0).processes == ()


@pytest.mark.limits
def test_total_agrees_with_the_control_group() -> None:
    group = _new_group()
    # Everything is charged to the group: the interpreter starts inside it.
    code = f"{IN_FLIGHT}\n{ANONYMOUS}\n{SHARED.replace('held', 'other')}\n{FORK}"
    try:
        with child(code, group=group) as pid:
            tree = [pid, *descendants(pid)]
            sampled = sample_memory(tree, pid, TrialGroup(version=1, folder=group))
            lines = (group / "memory.stat").read_text().splitlines()
        values = {name: int(value) for name, value in (line.split() for line in lines)}
        truth = values["total_rss"] + values["total_shmem"]
        assert truth > 3 * SIZE
        assert sampled.total == pytest.approx(truth, rel=0.02)
        assert sampled.group_bytes == pytest.approx(truth, rel=0.02)
        assert 0 <= sampled.cache < SIZE
    finally:
        deadline = time.monotonic() + 20
        while (group / "cgroup.procs").read_text() and time.monotonic() < deadline:
            time.sleep(0.01)  # the forked child was killed, but is not ours to wait for
        group.rmdir()


def _new_group() -> Path:
    """A memory group (v1) below our own; skips where there is none or it is not ours to make."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "memory":
            group = Path(f"/sys/fs/cgroup/memory{path}/labkit-test-{os.getpid()}")
            try:
                group.mkdir()
            except OSError as error:
                pytest.skip(f"no control group of our own: {error}")
            return group
    pytest.skip("no control group v1 for memory")
