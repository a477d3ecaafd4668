"""Real front ends that show no widgets: a terminal's IPython, `jupyter execute` and nbmake.

Each must tell the same facts as a notebook in a browser.
"""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from labkit import Result, load
from labkit.view.describe import describe
from labkit.view.table import result_table, stage_table, verdict_line

pytestmark = pytest.mark.slow
_RUN = "labkit.run('kitchen', size='small', repeats=1, workers=[0, 1])"
_PANEL = """panel = labkit.panel('kitchen', size='small', repeats=1, workers=[0, 1])
display(panel)
panel.run()
assert panel.wait(60).status == 'completed'"""
_WITHOUT_WIDGETS = "import sys; sys.modules['ipywidgets'] = None"
_EXECUTE = {
    "jupyter execute": ["jupyter", "execute", "--inplace", "--timeout=120"],
    "nbmake": ["pytest", "--nbmake", "--overwrite", "-p", "no:cacheprovider"],
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LABKIT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def call(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, timeout=180,
        stdin=subprocess.DEVNULL, env=os.environ | {"NO_COLOR": "1"}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def results(home: Path) -> list[Result]:
    """What was measured, oldest first."""
    return list(map(load, sorted((home / "runs").glob("*-kitchen*"))))


def facts(result: Result) -> set[str]:
    """All that there is to tell: sentence, numbers, picture, verdicts."""
    tables = [result_table(result.summary), stage_table(result.summary)]
    cells = {cell for table in tables if table for row in table.rows for cell in row}
    verdicts = set(map(verdict_line, result.verdicts))
    assert len(verdicts) > 1
    return {result.headline, describe(result)} | cells | verdicts


def assert_told(result: Result, text: str) -> None:
    missing = {fact for fact in facts(result) if fact not in text}
    assert not missing


def test_ipython_in_a_terminal(home: Path, tmp_path: Path) -> None:
    code = f"import labkit; display(labkit.panel('kitchen'))\n{_RUN}"
    done = call("IPython", "--no-banner", "-c", code, folder=tmp_path)
    (result,) = results(home)
    assert_told(result, done.stdout)
    assert "labkit's controls need a running kernel" in done.stdout
    assert "VBox" not in done.stdout
    assert "measuring 2 trials" in done.stderr.splitlines()
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize("command", _EXECUTE.values(), ids=_EXECUTE.keys())
def test_an_executed_notebook(command: list[str], home: Path, tmp_path: Path) -> None:
    sources = (f"import labkit\n{_RUN}", _PANEL, f"{_WITHOUT_WIDGETS}\n{_RUN}")
    path = tmp_path / "book.ipynb"
    cells = list(map(nbformat.v4.new_code_cell, sources))
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    call(*command, str(path), folder=tmp_path)
    blocking, panel, plain = (cell.outputs for cell in nbformat.read(path, 4).cells)
    for result, outputs in zip(results(home), (blocking, panel, plain), strict=True):
        assert_told(result, everything(outputs, "text/plain"))
        page = everything(outputs, "text/html")
        words = {describe(result)} if outputs is plain else set()  # they go with the picture
        told = html.unescape(re.sub("<[^>]+>", "", page))
        assert not {fact for fact in facts(result) - words if fact not in told}
    for outputs in (blocking, panel):
        assert sum("image/png" in output.get("data", {}) for output in outputs) == 1
        assert "VBox" not in everything(outputs, "text/plain")
    lines = "".join(output.text for output in plain if output.get("name") == "stderr").splitlines()
    assert "measuring 2 trials" in lines  # no control codes, and no frame stays
    assert not any("widget" in kind for output in plain for kind in output.get("data", {}))


def everything(outputs: list[Any], kind: str) -> str:
    return "\n".join(output.data.get(kind, "") for output in outputs if "data" in output)
