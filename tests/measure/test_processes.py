"""Trees of processes: found, told apart from strangers, ended whole."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from labkit.measure import processes

pytestmark = pytest.mark.slow

# A child, a grandchild in a session of its own, and an orphan, all asleep.
TREE = """
import subprocess, sys, time
sleep = [sys.executable, "-c", "import time; time.sleep(100)"]
subprocess.Popen(sleep, start_new_session=True)
subprocess.Popen([sys.executable, "-c", f"import subprocess; subprocess.Popen({sleep!r})"]).wait()
print("ready", flush=True)
time.sleep(100)
"""
WARDEN = f"""
import os, subprocess, sys
from labkit.measure import processes
processes.become_subreaper()
child = subprocess.Popen([sys.executable, "-c", {TREE!r}], stdout=subprocess.PIPE)
child.stdout.readline()
print(len(processes.descendants(os.getpid())),
      len(processes.descendants(os.getpid(), quick=True)), flush=True)
ended = processes.end_tree(os.getpid(), keep=KEEP)
print(len(ended), len(processes.descendants(os.getpid())), flush=True)
processes.end_tree(os.getpid())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="adopts orphans, which only Linux does")
@pytest.mark.parametrize(("keep", "ended", "left"), [("set()", 3, 0), ("{child.pid}", 2, 1)])
def test_a_tree_ends_whole_sessions_and_orphans_included(keep: str, ended: int, left: int) -> None:
    code = WARDEN.replace("KEEP", keep)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["3", "3", str(ended), str(left)]


# The orphan's end is ours to collect, the child's exit code belongs to its Popen.
REAPER = f"""
import os, subprocess, sys
from labkit.measure import processes
processes.become_subreaper()
child = subprocess.Popen([sys.executable, "-c", {TREE!r}], stdout=subprocess.PIPE)
child.stdout.readline()
processes.end_tree(os.getpid(), waited=[child.pid])
found = {{pid: processes._stat(pid) for pid in processes._pids()}}
left = [pid for pid, fields in found.items() if fields and fields[1] == str(os.getpid())]
print(left == [child.pid], child.wait(), flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="adopts orphans, which only Linux does")
def test_orphans_are_reaped_and_exit_codes_kept() -> None:
    done = subprocess.run(
        [sys.executable, "-c", REAPER], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["True", "-9"]


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_grace_lets_a_process_end_by_itself() -> None:
    code = (
        "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
        "print('ready', flush=True)\ntime.sleep(100)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        others = [pid for pid in processes.descendants(os.getpid()) if pid != child.pid]
        assert processes.end_tree(os.getpid(), keep=others, grace_seconds=60) == [child.pid]
        assert child.wait(20) == 7


def test_a_mark_tells_a_reused_pid_apart() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        mark = processes.start_mark(child.pid)
        assert mark is not None
        assert processes.is_alive(child.pid, mark)
        assert not processes.is_alive(child.pid, "another")
        processes.kill_all([child.pid], {child.pid: "another"})
        assert child.poll() is None
        processes.kill_all([child.pid], {child.pid: mark})
        child.wait(20)
    assert processes.start_mark(child.pid) is None


def test_a_label_is_inherited() -> None:
    name = f"test-run-{os.getpid()}"  # its own: the same test may run beside this one
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE,
        env=os.environ | {processes.LABEL: name},
    ) as child:  # fmt: skip
        deadline = time.monotonic() + 20
        while processes.labelled(name) != [child.pid]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        child.kill()
    assert processes.labelled(name) == []


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/shm")
def test_only_files_of_the_given_pids_are_removed() -> None:
    own, other = Path(f"/dev/shm/torch_{2**22 + 5}_1_0"), Path(f"/dev/shm/torch_{2**22 + 6}_1_0")
    try:
        own.write_bytes(b"x")
        other.write_bytes(b"x")
        assert processes.remove_shared_memory([2**22 + 5]) == [own.name]
        assert other.exists()
    finally:
        own.unlink(missing_ok=True)
        other.unlink(missing_ok=True)
