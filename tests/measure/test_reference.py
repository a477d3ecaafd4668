"""Experiments are found by name and by file, and errors say what is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from labkit.errors import ExperimentError, UnknownExperimentError
from labkit.measure.reference import available, load_experiment, reference


def test_every_module_of_the_package_is_an_experiment() -> None:
    assert "worker_plateau" in available()
    for name in available():
        assert load_experiment(reference(name)).name == name


def test_an_unknown_name_gets_the_names_and_a_guess() -> None:
    with pytest.raises(UnknownExperimentError, match="did you mean 'worker_plateau'"):
        reference("worker_plato")


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(UnknownExperimentError, match="no such file"):
        reference(str(tmp_path / "none.py"))


@pytest.mark.parametrize(
    ("text", "words"), [("1 / 0", "ZeroDivisionError"), ("x = 1", "has no EXPERIMENT")]
)
def test_a_file_that_cannot_be_used(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / f"bad_{len(text)}.py"
    path.write_text(text)
    with pytest.raises(ExperimentError, match=words):
        load_experiment(reference(str(path)))
