"""Says of each part of an `Environment` whether labs run well on it, and what to do if not.

Pure: it must not look at the machine and must not print.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from labkit.records import Environment
from labkit.units import format_bytes

Level = Literal["ok", "warn", "bad"]
_GIB = 1 << 30

# Below the first number labs fail, below the second some of them are cut short.
_MEMORY = (_GIB, 4 * _GIB)
_SHARED = (128 << 20, _GIB)  # Docker's default is 64 MiB; a batch of 64 photos is about 40 MiB.
_DISK = (_GIB, 10 * _GIB)
_OLDEST_TORCH = (2, 6)
_OLDEST_PYTHON = (3, 11)
# A quarter of the cores taken by others moves a rate more than the claims' thresholds do.
_BUSY_SHARE = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the doctor's report."""

    name: str
    value: str
    level: Level
    advice: str
    """What to do about it, or what it means for the labs; empty when there is nothing to say."""


def diagnose(environment: Environment) -> tuple[Finding, ...]:
    """The findings on a machine, in a fixed order."""
    return (
        _cores(environment),
        _quota(environment),
        _load(environment),
        _memory(environment),
        _shared_memory(environment),
        _disk(environment),
        _python(environment),
        _torch(environment),
        _start_method(environment),
        _budget(environment),
    )


def healthy(findings: Iterable[Finding]) -> bool:
    """Whether labs can run well here: nothing is bad (a warning is not)."""
    return all(finding.level != "bad" for finding in findings)


def _cores(environment: Environment) -> Finding:
    usable, logical = environment.usable_cores, environment.logical_cores
    advice = ""
    if usable < 2:
        advice = "With one core, workers can only hide waiting: allow this process a second one."
    elif environment.affinity_cores < logical:
        advice = "The affinity is restricted (taskset, a scheduler); labs count only these cores."
    return Finding(
        name="cores",
        value=f"{usable} usable of {logical} ({environment.cpu})",
        level="warn" if usable < 2 else "ok",
        advice=advice,
    )


def _quota(environment: Environment) -> Finding:
    quota = environment.quota_cores
    if quota is None:
        return Finding(name="core quota", value="none", level="ok", advice="")
    tight = quota < min(environment.affinity_cores, environment.logical_cores)
    advice = (
        "Processes beyond the quota are paused by the kernel, which rates show as noise; raise it "
        "(docker run --cpus, resources.limits.cpu) for steadier numbers."
    )
    return Finding(
        name="core quota",
        value=f"{quota:g} cores",
        level="warn" if tight else "ok",
        advice=advice if tight else "",
    )


def _load(environment: Environment) -> Finding:
    busy = environment.load_cores > _BUSY_SHARE * environment.usable_cores
    advice = "Other programs take cores: close them, or expect wide intervals and unsure verdicts."
    return Finding(
        name="load by others",
        value=f"{environment.load_cores:.1f} cores",
        level="warn" if busy else "ok",
        advice=advice if busy else "",
    )


def _memory(environment: Environment) -> Finding:
    limit = environment.memory_limit_bytes
    bound = f", limited to {format_bytes(limit)}" if limit is not None else ""
    available = environment.memory_available_bytes
    level = _grade(available, _MEMORY)
    more = " or raise the container's limit (docker run --memory)" if limit is not None else ""
    return Finding(
        name="memory",
        value=f"{format_bytes(available)} free of "
        f"{format_bytes(environment.memory_total_bytes)}{bound}",
        level=level,
        advice="" if level == "ok" else f"Close programs{more}: labs on large samples need 4 GiB.",
    )


def _shared_memory(environment: Environment) -> Finding:
    free, total = environment.shm_available_bytes, environment.shm_total_bytes
    if free is None or total is None:
        return Finding(name="/dev/shm", value="not used on this system", level="ok", advice="")
    level = _grade(free, _SHARED)
    advice = (
        "Workers hand batches over through it, and die with a bus error when it is full: make it "
        "larger (docker run --shm-size=2g) or empty it."
    )
    return Finding(
        name="/dev/shm",
        value=f"{format_bytes(free)} free of {format_bytes(total)}",
        level=level,
        advice="" if level == "ok" else advice,
    )


def _disk(environment: Environment) -> Finding:
    free = environment.disk_available_bytes
    level = _grade(free, _DISK)
    advice = "Datasets go there: free some space (labkit data clean), or set LABKIT_HOME elsewhere."
    return Finding(
        name="disk",
        value=f"{format_bytes(free)} free for datasets",
        level=level,
        advice="" if level == "ok" else advice,
    )


def _python(environment: Environment) -> Finding:
    good = _numbers(environment.python) >= _OLDEST_PYTHON
    return Finding(
        name="Python",
        value=f"{environment.python} on {environment.os}",
        level="ok" if good else "bad",
        advice="" if good else "labkit needs Python 3.11 or newer.",
    )


def _torch(environment: Environment) -> Finding:
    good = _numbers(environment.torch) >= _OLDEST_TORCH
    return Finding(
        name="torch",
        value=environment.torch or "not installed",
        level="ok" if good else "bad",
        advice="" if good else "Install torch 2.6 or newer: python -m pip install 'torch>=2.6'",
    )


def _start_method(environment: Environment) -> Finding:
    advice = {
        "fork": "",
        "forkserver": "Workers start slower than with fork, and get the dataset pickled.",
        "spawn": "Each worker starts a new Python and gets the dataset pickled: first batches are "
        "late here, and labs say by how much.",
    }.get(environment.start_method, "Unknown to labkit: its labs are tried with the usual three.")
    return Finding(name="start method", value=environment.start_method, level="ok", advice=advice)


def _budget(environment: Environment) -> Finding:
    uncached = "The page cache is not limited, so that K13 cannot be told."
    advice = {
        "watchdog": "labkit itself looks at a trial's memory 200 times a second and ends it at the "
        f"limit. {uncached} For a limit by the kernel, run as root, or in a session whose systemd "
        "may limit memory.",
        "system watchdog": "labkit ends a trial once the whole system has lost as much memory as "
        f"its limit: close programs that take some meanwhile. {uncached}",
        "job object": f"Allocating beyond the limit fails. {uncached}",
        "none": "Not tried out: what holds a trial's limit is chosen when a run needs one.",
    }.get(environment.budget_mechanism, "")
    return Finding(
        name="memory budget", value=environment.budget_mechanism, level="ok", advice=advice
    )


def _grade(value: int, bounds: tuple[int, int]) -> Level:
    if value < bounds[0]:
        return "bad"
    return "warn" if value < bounds[1] else "ok"


def _numbers(version: str) -> tuple[int, ...]:
    """The leading two numbers of a version; empty, and so the oldest, when there are none."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return tuple(int(number) for number in found.groups()) if found else ()
