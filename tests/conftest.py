"""For every test: results of its own, and a failure when it leaves something behind."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from labkit.errors import MeasureError
from labkit.machine.control_group import control_groups
from labkit.measure.leftovers import maker_of
from labkit.measure.limits import available_mechanism
from labkit.measure.processes import is_alive

_MARKER = f"LABKIT_TEST_SESSION={uuid.uuid4().hex}"
_GRACE_SECONDS = 5.0
# Python keeps these two helpers for the whole life of a process that used multiprocessing.
_HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
_SHARED_MEMORY = Path("/dev/shm")
_PLACES = {group.folder for group in control_groups("memory")}


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
    pids, segments, groups, folders = set(psutil.pids()), _segments(), _groups(), _folders()
    yield
    left = {
        "shared memory": _still_there(lambda: _ours(_segments() - segments)),
        "control groups": _still_there(lambda: _groups() - groups),
        "temporary folders": _still_there(lambda: _folders() - folders),
        "processes": _still_there(lambda: set(_processes(set(psutil.pids()) - pids).values())),
    }
    for process in _processes(set(psutil.pids()) - pids):
        process.kill()
    found = "; ".join(f"{name} {sorted(new)}" for name, new in left.items() if new)
    if found:
        pytest.fail(f"{request.node.name} left {found}")


def _still_there(look: Callable[[], set[str]]) -> set[str]:
    """What does not go away within the grace period: an ending takes a moment."""
    deadline = time.monotonic() + _GRACE_SECONDS
    while (new := look()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return new


def _processes(pids: set[int]) -> dict[psutil.Process, str]:
    """Those that live and are ours, with their commands."""
    found: dict[psutil.Process, str] = {}
    for pid in pids:
        try:
            process = psutil.Process(pid)
            command = " ".join(process.cmdline())
            child = process.ppid() == os.getpid()
            helper = child and any(name in command for name in _HELPERS)
            if not helper and process.status() != psutil.STATUS_ZOMBIE and _is_ours(process):
                found[process] = f"{pid}: {command}"
        except psutil.Error:  # It ended in between.
            continue
    return found


def _is_ours(process: psutil.Process) -> bool:
    """A descendant, or an orphan of one: it inherited the session's marker."""
    if any(parent.pid == os.getpid() for parent in process.parents()):
        return True
    try:
        return _MARKER.encode() in Path(f"/proc/{process.pid}/environ").read_bytes()
    except OSError:
        return False


def _segments() -> set[str]:
    """Files that torch and labkit make in shared memory."""
    return {path.name for kind in ("torch_*", "labkit*") for path in _SHARED_MEMORY.glob(kind)}


def _ours(segments: set[str]) -> set[str]:
    """Less torch's ``torch_<pid>_<random>_<n>`` of living processes of somebody else."""
    return {name for name in segments if not _of_a_stranger(name)}


def _of_a_stranger(name: str) -> bool:
    parts = name.split("_")
    if parts[0] != "torch" or len(parts) < 2 or not parts[1].isdecimal():
        return False
    pid = int(parts[1])
    return pid != os.getpid() and psutil.pid_exists(pid) and not _processes({pid})


def _groups() -> set[str]:
    """Groups that labkit makes for its budgets, below the group that pytest runs in."""
    found = [path for place in _PLACES for path in place.glob("labkit*") if path.is_dir()]
    return {str(path) for path in found if not _of_another_session(path.name)}


def _folders() -> set[str]:
    """Temporary folders of wardens."""
    found = Path(tempfile.gettempdir()).glob("labkit-*-*-*")
    return {str(path) for path in found if not _of_another_session(path.name)}


def _of_another_session(name: str) -> bool:
    """Whether a living process that is not ours made it: other sessions run beside this one."""
    made = maker_of(name)
    return made is not None and is_alive(*made) and not _processes({made[0]})


@pytest.fixture(params=["kernel", "watchdog"])
def wish(request: pytest.FixtureRequest) -> str:
    """Both ways to hold a budget on Linux; skips, or fails where required, without the kernel's."""
    if sys.platform != "linux":
        pytest.skip("both mechanisms are Linux's")
    try:
        available_mechanism(request.param)
    except MeasureError:
        reason = "this user may not set a memory limit by the kernel here"
        if os.environ.get("LABKIT_REQUIRE_LIMITS"):
            pytest.fail(f"{reason}, and LABKIT_REQUIRE_LIMITS is set")
        pytest.skip(reason)
    return str(request.param)


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of a Chromium for browser tests; they are skipped without one, unless required."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        reason = f"no browser: none of {', '.join(names)} is installed"
        if os.environ.get("LABKIT_REQUIRE_BROWSER"):
            pytest.fail(f"{reason}, and LABKIT_REQUIRE_BROWSER is set")
        pytest.skip(reason)
    return found
