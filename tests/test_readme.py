"""The reader's own file, as README.md shows it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from labkit.measure.reference import load_experiment, reference

README = Path(__file__).parents[1] / "README.md"
MOST_LINES = 25


@pytest.fixture
def my_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The block, saved under the name that the README gives it."""
    # Loading a file puts its folder and its module where Python finds them again.
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "my_lab", raising=False)
    block = re.search(r"<!-- my_lab.py -->\n```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert block is not None
    path = tmp_path / "my_lab.py"
    path.write_text(block.group(1))
    return path


def test_it_is_short(my_lab: Path) -> None:
    assert len(my_lab.read_text().splitlines()) <= MOST_LINES
    assert max(map(len, my_lab.read_text().splitlines())) <= 100


def test_it_is_an_experiment(my_lab: Path) -> None:
    experiment = load_experiment(reference(str(my_lab)))
    assert experiment.resolve({}, size="small") == {"workers": (0, 1)}


def test_the_picture_is_there() -> None:
    for picture in re.findall(r"!\[[^]]*]\(([^)]+)\)", README.read_text()):
        assert (README.parent / picture).is_file(), picture


@pytest.mark.slow
def test_it_runs(my_lab: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "labkit", "run", "./my_lab.py", "--size", "small", "--json"]
    done = subprocess.run(
        command,
        cwd=my_lab.parent,
        env={**os.environ, "LABKIT_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["experiment"] == "my_lab"
    assert result["status"] == "completed"
    assert [setting["params"]["workers"] for setting in result["settings"]] == [0, 1]
    assert all(setting["samples_per_second"]["median"] > 0 for setting in result["settings"])
