"""Who was killed: told by who is gone, and by the exit code of the main process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from labkit.measure.guard import Guard
from labkit.measure.limits import Bound

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
GIB = 1 << 30


class Counting(Bound):
    """A limit whose counter the test sets."""

    killed = 0

    def kills(self) -> int:
        return self.killed


@pytest.fixture
def family() -> Iterator[list[subprocess.Popen[bytes]]]:
    """A main process and two workers, all asleep."""
    sleep = [sys.executable, "-c", "input()"]
    family = [subprocess.Popen(sleep, stdin=subprocess.PIPE) for _ in range(3)]
    yield family
    for one in family:
        one.kill()
        one.communicate()


@pytest.mark.parametrize(
    ("gone", "kills", "exit_code", "killed"),
    [
        ([1], 1, -9, [1]),  # the main process was ended by us, afterwards
        ([0, 1], 1, 1, [1]),  # it ended by itself, of a worker that vanished
        ([0], 1, -9, [0]),
        ([0, 1, 2], 3, -9, [0, 1, 2]),
        ([1, 2], 1, -9, []),  # noticed too late: one of them, but which?
    ],
)
def test_who_was_killed(
    family: list[subprocess.Popen[bytes]], gone: list[int], kills: int, exit_code: int,
    killed: list[int],
) -> None:  # fmt: skip
    bound = Counting("control group v1", GIB)
    guard = Guard(bound, family[0].pid, ())
    guard._members = [one.pid for one in family]
    guard.before_end()
    assert guard.death is None
    for index in gone:
        family[index].kill()
        family[index].wait()
    bound.killed = kills
    guard.before_end()
    guard.settle(exit_code)
    evidence = guard.evidence()
    assert evidence["killed"] == [
        {"pid": family[index].pid, "role": "main" if index == 0 else "worker"} for index in killed
    ]
    assert evidence["by"] == "kernel"
    assert evidence["oom_kills"] == kills
    assert guard.death is not None
    assert "1 GiB (control group v1)" in guard.death.detail


def test_without_a_death_the_budget_is_told_all_the_same(
    family: list[subprocess.Popen[bytes]]
) -> None:
    guard = Guard(Counting("control group v2", GIB), family[0].pid, ())
    assert guard.look() is None
    guard.settle(0)
    assert guard.evidence() == {"mechanism": "control group v2", "limit_bytes": GIB}
