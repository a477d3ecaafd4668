"""What every file in labkit/experiments keeps; a new file is tested without writing a test."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import pickle
import pkgutil
from dataclasses import asdict, replace
from typing import Any

import pytest

import labkit.experiments
from labkit.claims import LEDGER
from labkit.measure.noise import MIN_PAIRS
from labkit.params import RESERVED
from labkit.records import Environment, Experiment, Outcome, Setting, setting_from_json
from labkit.summary import Summary

NAMES = [module.name for module in pkgutil.iter_modules(labkit.experiments.__path__)]
CORES = (1, 2, 8, 64, 512)
ENVIRONMENT = Environment(
    machine_id="test", cpu="test", logical_cores=2, usable_cores=2, affinity_cores=2,
    quota_cores=None, memory_total_bytes=8 << 30, memory_available_bytes=4 << 30,
    memory_limit_bytes=None, shm_total_bytes=1 << 30, shm_available_bytes=1 << 30,
    disk_available_bytes=10 << 30, os="test", python="3.11", torch="2.13", start_method="fork",
    load_cores=0.0,
)  # fmt: skip
EMPTY = Summary(settings=(), warnings=(), load_cores=None)


def on(cores: int) -> Environment:
    return replace(ENVIRONMENT, usable_cores=cores, logical_cores=cores, affinity_cores=cores)


def planned(experiment: Experiment, size: str, cores: int) -> list[Setting]:
    return list(experiment.settings(experiment.resolve({}, size=size), on(cores)))


@pytest.fixture(params=NAMES)
def experiment(request: pytest.FixtureRequest) -> Experiment:
    module = importlib.import_module(f"labkit.experiments.{request.param}")
    assert module.__doc__
    found: Any = module.EXPERIMENT
    assert isinstance(found, Experiment)
    assert found.name == request.param
    return found


def test_there_is_an_experiment() -> None:
    assert "worker_plateau" in NAMES


def test_it_is_well_formed(experiment: Experiment) -> None:
    assert experiment.title
    assert experiment.question.endswith("?")
    assert set(experiment.claims) <= {entry.id for entry in LEDGER}
    names = [param.name for param in experiment.params]
    assert len(set(names)) == len(names)
    assert not set(names) & set(RESERVED)
    assert all(param.label and param.help for param in experiment.params)
    assert set(experiment.small) <= set(names)
    assert experiment.repeats >= MIN_PAIRS
    assert experiment.needs.seconds > 0


def test_the_ledger_names_it(experiment: Experiment) -> None:
    for entry in LEDGER:
        assert (experiment.name in entry.lab) == (entry.id in experiment.claims), entry.id


@pytest.mark.parametrize("cores", CORES)
@pytest.mark.parametrize("size", ["full", "small"])
def test_its_settings_differ_and_survive_json(
    experiment: Experiment, size: str, cores: int
) -> None:
    settings = planned(experiment, size, cores)
    assert settings
    assert len({setting.key for setting in settings}) == len(settings)
    assert all(setting.label and setting.batches > 0 for setting in settings)
    for setting in settings:
        assert setting_from_json(json.loads(json.dumps(asdict(setting)))) == setting


def test_small_is_smaller(experiment: Experiment) -> None:
    def samples(size: str, repeats: int) -> int:
        settings = planned(experiment, size, 2)
        return repeats * sum(s.batches * int(s.params.get("batch_size", 1)) for s in settings)

    assert samples("small", experiment.small_repeats) < samples("full", experiment.repeats)


@pytest.mark.parametrize("cores", CORES)
def test_it_cannot_tell_from_nothing(experiment: Experiment, cores: int) -> None:
    verdicts = experiment.judge(EMPTY, on(cores))
    assert {verdict.claim for verdict in verdicts} == set(experiment.claims)
    stories = [(verdict.claim, verdict.story) for verdict in verdicts]
    assert len(set(stories)) == len(stories)
    for verdict in verdicts:
        assert verdict.outcome is Outcome.CANNOT_TELL
        assert verdict.reasons
        assert verdict.sentence.endswith(".")


def test_its_functions_can_be_pickled(experiment: Experiment) -> None:
    assert pickle.loads(pickle.dumps(experiment)) == experiment


def test_the_kernel_can_import_it_without_torch(experiment: Experiment) -> None:
    source = inspect.getsource(inspect.getmodule(experiment.settings) or labkit.experiments)
    for node in ast.parse(source).body:  # of the module itself: functions may import what they need
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            assert not f"{name}.".startswith(("torch.", "torchvision.", "labkit.datasets.")), name
