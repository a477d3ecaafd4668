"""Memory of a tree: in-flight files counted once, anonymous memory by its owner."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

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


@contextmanager
def child(code: str) -> Iterator[int]:
    """A process that has run `code` and now waits, with the children that it forked."""
    # One write each: two processes that print would interleave.
    text = f"import os\nSIZE = {SIZE}\n{code}\nos.write(1, b'ready\\n')\ninput()"
    process = subprocess.Popen(
        [sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
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


@pytest.mark.parametrize("code", [IN_FLIGHT, f"{IN_FLIGHT}\n{FORK}", MAPPED, f"{MAPPED}\n{FORK}"])
def test_a_file_in_flight_counts_once(code: str) -> None:
    with child(code) as pid:
        tree = [pid, *descendants(pid)]
        assert shared_memory_bytes(tree) == SIZE
        sampled = sample_memory(tree, pid)
        assert sampled.shared_memory == SIZE
        assert [item.role for item in sampled.processes].count("main") == 1


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
