"""Holds a trial's process tree within a memory budget, by the strongest mechanism there is.

Control group v2, a scope of systemd's, control group v1, a job object (Windows), else only the
watchdog of `labkit.measure.watchdog`. It must not watch and must not end anything itself, and it
must not set a limit on any process but a trial's.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from labkit.errors import MeasureError
from labkit.machine.control_group import control_groups
from labkit.measure import jobs, processes
from labkit.measure.groups import TrialGroup, group_name, make_group
from labkit.records import MECHANISMS, WISHES, MemoryBudget

_SYSTEMD_SECONDS = 5.0
_PROBE_BYTES = 64 << 20
# What the kernel says the limit of the asking process's group is.
_TELL_LIMIT = 'cat "/sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup)/memory.max"'


class Bound:
    """What holds one trial; this base holds nothing, so that only the watchdog's eye is left."""

    cold_only = not processes.LINUX
    """Whether only a process that is started for the trial can be bounded, and no fork."""

    def __init__(self, mechanism: str, limit_bytes: int) -> None:
        self.mechanism = mechanism
        self.limit_bytes = limit_bytes

    @property
    def prefix(self) -> tuple[str, ...]:
        """What the command of a cold trial begins with, so that it is born within the limit."""
        return ()

    @property
    def join(self) -> Path | None:
        """The file to which a forked trial writes ``0`` before it allocates anything."""
        return None

    @property
    def group(self) -> TrialGroup | None:
        """The trial's control group; None without one, or as long as there is none."""
        return None

    def started(self, pid: int) -> None:
        """The trial's main process is there."""

    def kills(self) -> int:
        """How many processes the kernel has killed because of this limit."""
        return 0

    def close(self) -> bool:
        """Remove what was made, once the tree has been ended; returns whether nothing is left."""
        return True


class GroupBound(Bound):
    """A control group of our own, version 1 or 2."""

    def __init__(self, mechanism: str, limit_bytes: int, group: TrialGroup) -> None:
        super().__init__(mechanism, limit_bytes)
        self._group = group

    @property
    def prefix(self) -> tuple[str, ...]:
        """A shell joins, then becomes Python: the interpreter's own memory is charged as well."""
        return ("/bin/sh", "-c", 'echo 0 > "$0" && exec "$@"', str(self._group.procs))

    @property
    def join(self) -> Path | None:
        """See `Bound.join`."""
        return self._group.procs

    @property
    def group(self) -> TrialGroup | None:
        """See `Bound.group`."""
        return self._group

    def kills(self) -> int:
        """See `Bound.kills`."""
        return self._group.kills()

    def close(self) -> bool:
        """See `Bound.close`."""
        return self._group.remove()


class ScopeBound(Bound):
    """A scope that systemd makes around the trial, where systemd keeps the control groups.

    It is gone with its last process; systemd then still says whether memory was the reason.
    """

    cold_only = True

    def __init__(self, limit_bytes: int, name: str, root: Path = Path("/")) -> None:
        super().__init__("systemd scope", limit_bytes)
        self._unit = f"{name}.scope"
        self._root = root
        self._pid: int | None = None
        self._found: TrialGroup | None = None
        self._seen = 0

    @property
    def prefix(self) -> tuple[str, ...]:
        """``systemd-run`` moves itself into the new scope, then becomes the command."""
        return (
            "systemd-run", *_whose_systemd(), "--scope", "--quiet", f"--unit={self._unit}",
            "-p", f"MemoryMax={self.limit_bytes}", "-p", "MemorySwapMax=0", "--",
        )  # fmt: skip

    def started(self, pid: int) -> None:
        """See `Bound.started`."""
        self._pid = pid

    @property
    def group(self) -> TrialGroup | None:
        """The scope's group: looked for until the process is in it."""
        if self._found is None and self._pid is not None:
            self._found = _group_of(self._pid, self._unit, self._root)
        return self._found

    def kills(self) -> int:
        """The counter as long as the group is there, then what systemd says of the scope's end."""
        if self.group is not None and self.group.folder.exists():
            self._seen = max(self._seen, self.group.kills())
        elif self._found is not None and self._seen == 0:
            said = _systemctl("show", self._unit, "--property=Result", "--value")
            self._seen = int(said.strip() == "oom-kill")
        return self._seen

    def close(self) -> bool:
        """Let systemd forget the scope."""
        _systemctl("stop", self._unit)
        _systemctl("reset-failed", self._unit)
        return self._found is None or not self._found.folder.exists()


class JobBound(Bound):
    """A job object (Windows, never run): allocating beyond the limit fails with MemoryError."""

    cold_only = True

    def started(self, pid: int) -> None:
        """Put the process into a job with the limit; its children are born into it."""
        if sys.platform != "win32":
            raise MeasureError(
                asked="a memory limit by a job object", found=sys.platform, do="use auto"
            )
        if not jobs.limit_by_job(pid, self.limit_bytes):
            raise MeasureError(
                asked=f"a job object with a limit of {self.limit_bytes} bytes",
                found=f"Windows refused it (error {ctypes.get_last_error()})",
                do="ask for the mechanism 'watchdog'",
            )


def open_bound(budget: MemoryBudget, run: str, trial: str, root: Path = Path("/")) -> Bound:
    """Make what will hold a trial; close it when the trial's tree has been ended.

    Args:
        budget: the limit, and the mechanism that is wished for.
        run: name of the run, for the names of what is made.
        trial: the trial's id.
        root: where ``proc`` and ``sys`` are found; tests give a made-up tree.

    Raises:
        MeasureError: the mechanism that was asked for is not to be had here.
    """
    name = group_name(run, trial)
    for mechanism in WISHES.get(budget.mechanism, (budget.mechanism,)):
        bound = _OPENERS[mechanism](mechanism, budget.limit_bytes, name, root)
        if bound is not None:
            return bound
    raise MeasureError(
        asked=f"a memory budget held by {budget.mechanism!r}",
        found="this machine does not offer it to this user",
        do="ask for 'auto', which takes the strongest that there is, or see labkit doctor",
    )


@functools.cache
def available_mechanism(wish: str = "auto") -> str:
    """What a budget that asks for this gets on this machine: tried out, and nothing is left.

    Raises:
        MeasureError: there is nothing of the kind.
    """
    bound = open_bound(MemoryBudget(limit_bytes=_PROBE_BYTES, mechanism=wish), "probe", "0-0")
    bound.close()
    return bound.mechanism


def _open_group(version: int) -> Callable[[str, int, str, Path], Bound | None]:
    def opener(mechanism: str, limit_bytes: int, name: str, root: Path) -> Bound | None:
        group = make_group(version, limit_bytes, name, root) if processes.LINUX else None
        return None if group is None else GroupBound(mechanism, limit_bytes, group)

    return opener


def _open_scope(mechanism: str, limit_bytes: int, name: str, root: Path) -> Bound | None:
    return ScopeBound(limit_bytes, name, root) if processes.LINUX and _scopes_work() else None


def _open_job(mechanism: str, limit_bytes: int, name: str, root: Path) -> Bound | None:
    return JobBound(mechanism, limit_bytes) if sys.platform == "win32" else None


def _open_watched(mechanism: str, limit_bytes: int, name: str, root: Path) -> Bound | None:
    """Elsewhere the batches in flight belong to no process that could be asked for them."""
    there = (mechanism == "watchdog") == processes.LINUX
    return Bound(mechanism, limit_bytes) if there else None


_OPENERS: dict[str, Callable[[str, int, str, Path], Bound | None]] = dict(
    zip(
        MECHANISMS,
        (_open_group(2), _open_scope, _open_group(1), _open_job, _open_watched, _open_watched),
        strict=True,
    )
)


def _whose_systemd() -> tuple[str, ...]:
    """Root asks the machine's systemd, everybody else their own."""
    return () if os.getuid() == 0 else ("--user",)


@functools.cache
def _scopes_work() -> bool:
    """Whether systemd makes a scope with a limit for us, tried with a command that does nothing."""
    if shutil.which("systemd-run") is None:
        return False
    probe = ScopeBound(_PROBE_BYTES, group_name("probe", "0-0"))
    try:
        done = subprocess.run(
            [*probe.prefix, "/bin/sh", "-c", _TELL_LIMIT], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=_SYSTEMD_SECONDS,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return False
    # A systemd without the memory controller takes the property and does nothing about it.
    return done.stdout.strip() == str(_PROBE_BYTES)


def _systemctl(*arguments: str) -> str:
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        return subprocess.run(
            ["systemctl", *_whose_systemd(), *arguments], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=_SYSTEMD_SECONDS,
        ).stdout  # fmt: skip
    return ""


def _group_of(pid: int, unit: str, root: Path) -> TrialGroup | None:
    """The group of a process once it is that of the unit (`tops` ends with the mount itself)."""
    tops = [group.folder for group in control_groups("memory", root) if group.version == 2]
    with contextlib.suppress(OSError):
        for line in (root / "proc" / str(pid) / "cgroup").read_text().splitlines():
            path = line.removeprefix("0::")
            if tops and path != line and path.endswith(f"/{unit}"):
                return TrialGroup(version=2, folder=tops[-1] / path.lstrip("/"))
    return None
