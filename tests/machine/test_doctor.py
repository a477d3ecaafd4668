"""What the doctor says about machines of several kinds."""

from __future__ import annotations

import dataclasses
import io
from typing import Any

import pytest
from rich.console import Console

from labkit.machine.doctor import Finding, diagnose, healthy
from labkit.measure.watchdog import LOOK_SECONDS
from labkit.records import MECHANISMS, Environment
from labkit.view.doctor_text import print_doctor

GIB = 1 << 30
GOOD = Environment(
    machine_id="0",
    cpu="Fast 9000",
    logical_cores=8,
    usable_cores=8,
    affinity_cores=8,
    quota_cores=None,
    memory_total_bytes=32 * GIB,
    memory_available_bytes=24 * GIB,
    memory_limit_bytes=None,
    shm_total_bytes=16 * GIB,
    shm_available_bytes=16 * GIB,
    disk_available_bytes=100 * GIB,
    os="Linux",
    python="3.11.9",
    torch="2.13.0+cpu",
    start_method="fork",
    load_cores=0.1,
)


def finding(name: str, **changes: Any) -> Finding:
    found = diagnose(dataclasses.replace(GOOD, **changes))
    return next(each for each in found if each.name == name)


def printed(findings: tuple[Finding, ...]) -> str:
    stream = io.StringIO()
    print_doctor(findings, Console(file=stream, width=80))
    return " ".join(stream.getvalue().split())  # however the lines were broken


def test_a_good_machine_is_healthy() -> None:
    found = diagnose(GOOD)
    assert healthy(found)
    assert {each.level for each in found} == {"ok"}
    assert "run well" in printed(found)


@pytest.mark.parametrize(
    ("name", "changes", "level"),
    [
        ("cores", {"usable_cores": 1}, "warn"),
        ("cores", {"affinity_cores": 4, "usable_cores": 4}, "ok"),
        ("core quota", {"quota_cores": 1.5}, "warn"),
        ("core quota", {"quota_cores": 16.0}, "ok"),
        ("load by others", {"load_cores": 3.0}, "warn"),
        ("memory", {"memory_available_bytes": 3 * GIB}, "warn"),
        ("memory", {"memory_available_bytes": GIB // 2, "memory_limit_bytes": GIB}, "bad"),
        ("/dev/shm", {"shm_available_bytes": 64 << 20, "shm_total_bytes": 64 << 20}, "bad"),
        ("/dev/shm", {"shm_available_bytes": 512 << 20}, "warn"),
        ("/dev/shm", {"shm_available_bytes": None, "shm_total_bytes": None}, "ok"),
        ("disk", {"disk_available_bytes": 5 * GIB}, "warn"),
        ("disk", {"disk_available_bytes": 1000}, "bad"),
        ("Python", {"python": "3.10.4"}, "bad"),
        ("torch", {"torch": ""}, "bad"),
        ("torch", {"torch": "2.5.1"}, "bad"),
        ("torch", {"torch": "10.0"}, "ok"),
        ("start method", {"start_method": "spawn"}, "ok"),
    ],
)
def test_levels(name: str, changes: dict[str, Any], level: str) -> None:
    found = finding(name, **changes)
    assert found.level == level
    assert found.advice or level == "ok"
    assert healthy([found]) == (level != "bad")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_it_says_what_a_budget_does_not_do(mechanism: str) -> None:
    """Control groups alone limit the page cache; the system's memory is other programs' as well."""
    found = finding("memory budget", budget_mechanism=mechanism)
    assert (found.value, found.level) == (mechanism, "ok")
    assert ("K13" in found.advice) == (not mechanism.startswith(("control group", "systemd")))
    assert ("whole system" in found.advice) == (mechanism == "system watchdog")


def test_a_budget_that_nobody_tried_is_no_promise() -> None:
    assert "Not tried out" in finding("memory budget").advice


def test_the_watchdog_looks_as_often_as_the_doctor_says() -> None:
    often = f"{1 / LOOK_SECONDS:.0f} times a second"
    assert often in finding("memory budget", budget_mechanism="watchdog").advice


def test_what_is_bad_is_printed_with_its_advice() -> None:
    text = printed(diagnose(dataclasses.replace(GOOD, torch="")))
    assert "not installed" in text
    assert "pip install 'torch>=2.6'" in text
    assert "cannot run well" in text
