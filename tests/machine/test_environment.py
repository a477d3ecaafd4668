"""The Environment of the machine that runs the tests, and the parts that are pure."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from labkit.machine.environment import (
    cpu_name,
    default_start_method,
    free_bytes,
    installed_version,
    machine_id,
    read_environment,
)
from labkit.machine.folders import data_folder, runs_folder
from labkit.machine.load import busy_seconds, others
from labkit.records import environment_from_json


def test_it_is_whole_and_survives_json(tmp_path: Path) -> None:
    found = read_environment(tmp_path, load_seconds=0)
    assert environment_from_json(json.loads(json.dumps(dataclasses.asdict(found)))) == found
    assert found.usable_cores <= found.logical_cores
    assert 0 < found.memory_available_bytes <= found.memory_total_bytes
    assert found.disk_available_bytes > 0
    assert found.torch
    assert found.budget_mechanism == "none"


def test_the_mechanism_is_the_callers(tmp_path: Path) -> None:
    assert (
        read_environment(tmp_path, load_seconds=0, budget_mechanism="v2").budget_mechanism == "v2"
    )


def test_the_machine_id_is_made_once(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there"
    first = machine_id(folder)
    assert machine_id(folder) == first
    assert machine_id(tmp_path) != first
    assert [path.name for path in folder.iterdir()] == ["machine-id"]


def test_without_a_folder_to_keep_it_the_machine_id_is_new(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert machine_id(tmp_path / "file") != machine_id(tmp_path / "file")


def test_the_home_can_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABKIT_HOME", str(tmp_path))
    assert data_folder() == tmp_path
    assert runs_folder() == tmp_path / "runs"
    monkeypatch.delenv("LABKIT_HOME")
    assert data_folder().name == "labkit"


def test_free_space_of_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    assert free_bytes(tmp_path / "a" / "b") > 0


def test_the_cpu_has_a_name(tmp_path: Path) -> None:
    info = tmp_path / "proc" / "cpuinfo"
    info.parent.mkdir()
    info.write_text("processor\t: 0\nmodel name\t: Fast 9000 @ 1 GHz\n")
    assert cpu_name(tmp_path) == "Fast 9000 @ 1 GHz"
    assert cpu_name(tmp_path / "none")


def test_versions() -> None:
    assert installed_version("torch")
    assert installed_version("no-such-package-anywhere") == ""


@pytest.mark.parametrize(
    ("system", "python", "method"),
    [
        ("linux", (3, 11), "fork"),
        ("linux", (3, 14), "forkserver"),
        ("darwin", (3, 11), "spawn"),
        ("darwin", (3, 14), "spawn"),
        ("win32", (3, 12), "spawn"),
    ],
)
def test_default_start_methods(system: str, python: tuple[int, int], method: str) -> None:
    assert default_start_method(system, python) == method


def test_the_load_is_that_of_others() -> None:
    assert others(elapsed=2.0, machine=3.0, own=1.0) == 1.0
    assert others(elapsed=2.0, machine=0.0, own=0.01) == 0.0
    assert others(elapsed=0.0, machine=1.0, own=0.0) == 0.0
    assert busy_seconds({"user": 2.0, "idle": 9.0, "iowait": 1.0, "guest": 2.0, "irq": 0.5}) == 2.5
