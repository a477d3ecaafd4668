"""For every test: results of its own, and a failure when it leaves something behind."""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from labkit.machine.control_group import control_groups

_MARKER = f"LABKIT_TEST_SESSION={uuid.uuid4().hex}"
_GRACE_SECONDS = 5.0
# Python keeps these two helpers for the whole life of a process that used multiprocessing.
_HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
_SHARED_MEMORY = Path("/dev/shm")


@pytest.fixture(scope="session", autouse=True)
def _session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Runs and datasets go to a temporary home; child processes inherit the session's marker."""
    name, _, value = _MARKER.partition("=")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LABKIT_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv(name, value)
        yield


@pytest.fixture(autouse=True)
def _default_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """`make test` asks for small notebooks; a test that wants a size says so itself."""
    monkeypatch.delenv("LABKIT_SIZE", raising=False)


@pytest.fixture(autouse=True)
def _nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test after which a process, shared memory or a control group is left."""
    looks = {"processes": _processes, "shared memory": _segments, "control groups": _groups}
    before = {name: look() for name, look in looks.items()}
    yield
    left = {name: _still_new(look, before[name]) for name, look in looks.items()}
    for pid in left["processes"]:
        _kill(int(pid.partition(":")[0]))
    found = "; ".join(f"{name} {sorted(new)}" for name, new in left.items() if new)
    if found:
        pytest.fail(f"{request.node.name} left {found}")


def _still_new(look: Callable[[], set[str]], before: set[str]) -> set[str]:
    """What is new and does not go away within the grace period: an ending takes a moment."""
    deadline = time.monotonic() + _GRACE_SECONDS
    while (new := look() - before) and time.monotonic() < deadline:
        time.sleep(0.05)
    return new


def _processes() -> set[str]:
    """``pid: command`` of the living descendants, orphans with the session's marker included."""
    me = psutil.Process()
    found = {process.pid: process for process in me.children(recursive=True)}
    if sys.platform == "linux":
        found |= {process.pid: process for process in psutil.process_iter() if _is_ours(process)}
    found.pop(me.pid, None)
    described: set[str] = set()
    for process in found.values():
        try:
            command = " ".join(process.cmdline())
            helper = process.ppid() == me.pid and any(name in command for name in _HELPERS)
            if not helper and process.status() != psutil.STATUS_ZOMBIE:
                described.add(f"{process.pid}: {command}")
        except psutil.Error:  # It ended in between.
            continue
    return described


def _is_ours(process: psutil.Process) -> bool:
    try:
        return _MARKER.encode() in Path(f"/proc/{process.pid}/environ").read_bytes()
    except OSError:
        return False


def _kill(pid: int) -> None:
    try:
        psutil.Process(pid).kill()
    except psutil.Error:
        return


def _segments() -> set[str]:
    """Files that torch and labkit make, less those of living processes of somebody else."""
    if not _SHARED_MEMORY.is_dir():
        return set()
    mine = {int(each.partition(":")[0]) for each in _processes()} | {os.getpid()}
    names = [*_SHARED_MEMORY.glob("torch_*"), *_SHARED_MEMORY.glob("labkit*")]
    return {path.name for path in names if not _of_a_stranger(path.name, mine)}


def _of_a_stranger(name: str, mine: set[int]) -> bool:
    """Whether the process in torch's ``torch_<pid>_<random>_<n>`` lives and is not one of ours."""
    parts = name.split("_")
    if parts[0] != "torch" or len(parts) < 2 or not parts[1].isdecimal():
        return False
    return int(parts[1]) not in mine and psutil.pid_exists(int(parts[1]))


def _groups() -> set[str]:
    """Groups that labkit makes for its budgets, below the group that pytest runs in."""
    places = {group.folder for group in control_groups("memory")}
    return {str(path) for place in places for path in place.glob("labkit*") if path.is_dir()}
