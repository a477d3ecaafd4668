"""Processes: who descends from whom, who still lives, how to end a whole tree and its leftovers.

Standard library alone on Linux; psutil, imported when needed, on macOS and Windows. It must not
end a process that it was not told to end, and never by name.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

LINUX = sys.platform == "linux"
LABEL = "LABKIT_RUN"
"""Environment variable that every process of a run inherits."""

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_END_SECONDS = 10.0
_LOOK_SECONDS = 0.005
_PROC = Path("/proc")
_LISTS_CHILDREN = (_PROC / "thread-self" / "children").exists()
"""Built with CONFIG_PROC_CHILDREN, as the kernels of distributions are."""
_SHM = Path("/dev/shm")


def _stat(pid: int) -> list[str] | None:
    """Fields of /proc/<pid>/stat after the name: state, ppid, ..., start time at 19."""
    try:
        text = (_PROC / str(pid) / "stat").read_text("utf-8", "replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()


def _pids() -> list[int]:
    return [int(name) for name in os.listdir(_PROC) if name.isdigit()]


def descendants(pid: int, *, quick: bool = False) -> list[int]:
    """All living descendants of a process (zombies are not alive), in no particular order.

    Args:
        pid: whose.
        quick: ask the kernel's lists of children, 0.3 ms where a look at all processes takes 6; a
            child may be missed while another one ends. To watch, not to clean up.
    """
    if not LINUX:
        import psutil

        try:
            return [child.pid for child in psutil.Process(pid).children(recursive=True)]
        except psutil.Error:
            return []
    children_of = children if quick and _LISTS_CHILDREN else _all_children().__getitem__
    found: list[int] = []
    waiting = [pid]
    while waiting:
        for child in children_of(waiting.pop()):
            waiting.append(child)
            fields = _stat(child)
            if fields is not None and fields[0] not in "ZX":
                found.append(child)
    return found


def _all_children() -> defaultdict[int, list[int]]:
    """Parent to children, from a look at all processes."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for pid in _pids():
        fields = _stat(pid)
        if fields is not None:
            children[int(fields[1])].append(pid)
    return children


def children(pid: int) -> list[int]:
    """The children of every thread of a process, dead ones included, as the kernel lists them.

    Linux only; in 20 us, where a look at all processes takes 5 ms.
    """
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            descriptor = os.open(f"/proc/{pid}/task/{thread}/children", os.O_RDONLY)
            try:
                found += map(int, os.read(descriptor, 1 << 16).split())
            finally:
                os.close(descriptor)
    return found


def start_mark(pid: int) -> str | None:
    """When the process began, in the system's own unit: tells a reused pid apart; None if gone."""
    if LINUX:
        fields = _stat(pid)
        return None if fields is None or fields[0] in "ZX" else fields[19]
    import psutil

    try:
        return repr(psutil.Process(pid).create_time())
    except psutil.Error:
        return None


def is_stopped(pid: int) -> bool:
    """Whether a process has been stopped, or is gone (Linux)."""
    fields = _stat(pid)
    return fields is None or fields[0] in "TtZX"


def cpu_ticks(pid: int, *, children: bool = True) -> int:
    """Clock ticks of CPU time of a process (Linux).

    Args:
        pid: the process.
        children: count those that it has waited for, too.

    Returns:
        0 if it is gone; its ticks are then among its parent's, if that one waited for it.
    """
    fields = _stat(pid)
    return 0 if fields is None else sum(map(int, fields[11 : 15 if children else 13]))


def is_alive(pid: int, mark: str | None) -> bool:
    """Whether the process that had this mark still lives."""
    now = start_mark(pid)
    return now is not None and now == mark


def kill_all(pids: Iterable[int], marks: Mapping[int, str | None] | None = None) -> None:
    """End these processes at once; one whose mark is known and differs is left alone."""
    for pid in pids:
        mark = (marks or {}).get(pid)
        if mark is not None and not is_alive(pid, mark):
            continue
        with contextlib.suppress(OSError):
            # Windows has no SIGKILL; its SIGTERM ends a process as surely.
            os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))


def end_tree(
    pid: int,
    *,
    keep: Collection[int] = frozenset(),
    waited: Collection[int] | None = None,
    grace_seconds: float = 0.0,
) -> list[int]:
    """End every descendant of a process but the kept ones; children of kept ones do end.

    Looks again until none is left, since a process may start another while it is being ended.

    Args:
        pid: whose descendants; it is not ended itself.
        keep: descendants to leave alone.
        waited: children of this process whose exit codes somebody else waits for. All its other
            dead children (adopted orphans) are then reaped; None reaps nothing, since reaping a
            child of `subprocess` would turn its exit code into 0.
        grace_seconds: how long they may take to end by themselves after a SIGTERM.

    Returns:
        The pids that were told to end.
    """
    ended: set[int] = set()
    start = time.monotonic()
    quiet = 0
    asked_to_end = grace_seconds <= 0
    # Nobody found twice: one look misses the child of a process that ends while we look.
    while quiet < 2 and time.monotonic() < start + grace_seconds + _END_SECONDS:
        left = [child for child in descendants(pid) if child not in keep]
        quiet = 0 if left else quiet + 1
        ended.update(left)
        if time.monotonic() >= start + grace_seconds:
            kill_all(left)
        elif not asked_to_end:
            _ask_to_end(left)
            asked_to_end = True
        if left:
            time.sleep(_LOOK_SECONDS)
    if waited is not None:
        _reap_all_but({*keep, *waited})
    return sorted(ended)


def _ask_to_end(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGTERM)


def _reap_all_but(waited: Collection[int]) -> None:
    """Let dead children of this process go, so that none stays as a zombie for a whole run."""
    me = str(os.getpid())
    for pid in _pids() if LINUX else ():
        fields = _stat(pid)
        if pid not in waited and fields is not None and fields[:2] == ["Z", me]:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def become_subreaper() -> bool:
    """On Linux, orphans among our descendants become our children instead of init's."""
    return LINUX and ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def die_with_parent(parent: int) -> None:
    """On Linux, end with the parent, which must have started us from its main thread.

    Args:
        parent: the parent's pid; if it is gone already, this process ends now.
    """
    if LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)


def labels() -> dict[int, str]:
    """Pid to run label, for every process of this user that carries one."""
    found: dict[int, str] = {}
    if LINUX:
        prefix = f"{LABEL}=".encode()
        for pid in _pids():
            with contextlib.suppress(OSError):
                if os.stat(_PROC / str(pid)).st_uid != os.getuid():
                    continue  # root may read the labels of others, but must not end their runs
                for entry in (_PROC / str(pid) / "environ").read_bytes().split(b"\0"):
                    if entry.startswith(prefix) and start_mark(pid) is not None:
                        found[pid] = entry[len(prefix) :].decode("utf-8", "replace")
        return found
    import psutil

    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            label = process.environ().get(LABEL)
            if label:
                found[process.pid] = label
    return found


def labelled(run: str) -> list[int]:
    """Living processes that carry this run's label."""
    return [pid for pid, label in labels().items() if label == run]


def switches(status: Path) -> tuple[int, int]:
    """Voluntary and involuntary context switches of one thread, by its ``status`` file.

    Raises:
        OSError: it is gone.
    """
    found = {"voluntary_ctxt_switches": 0, "nonvoluntary_ctxt_switches": 0}
    for line in status.read_text("utf-8", "replace").splitlines():
        name, _, value = line.partition(":")
        if name in found:
            found[name] = int(value)
    return found["voluntary_ctxt_switches"], found["nonvoluntary_ctxt_switches"]


def counters(pids: Iterable[int]) -> tuple[int, int, int]:
    """Voluntary and involuntary context switches, and bytes read from the device, summed.

    Switches are those of each process's main thread (``status`` tells no more); bytes are of all
    threads. Zeros where this system does not tell.
    """
    voluntary = involuntary = read_bytes = 0
    for pid in pids if LINUX else ():
        with contextlib.suppress(OSError, ValueError):
            own = switches(_PROC / str(pid) / "status")
            voluntary, involuntary = voluntary + own[0], involuntary + own[1]
            for line in (_PROC / str(pid) / "io").read_text().splitlines():
                if line.startswith("read_bytes:"):
                    read_bytes += int(line.partition(":")[2])
    return voluntary, involuntary, read_bytes


def remove_shared_memory(pids: Iterable[int]) -> list[str]:
    """Remove torch's shared-memory files of these (dead) processes; returns their names.

    A killed worker leaves ``torch_<pid>_*`` of gigabytes behind. Only files of this user whose
    pid was given are touched: other jobs, and other containers, share the folder.
    """
    wanted = set(pids)
    removed: list[str] = []
    for path in _SHM.glob("torch_*") if LINUX and wanted else ():
        maker = path.name.split("_")[1]
        with contextlib.suppress(OSError):
            if maker.isdecimal() and int(maker) in wanted and path.lstat().st_uid == os.getuid():
                path.unlink()
                removed.append(path.name)
    return removed
