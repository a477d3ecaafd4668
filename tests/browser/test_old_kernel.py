"""The oldest ipykernel that labkit works with: interrupt, Run, Stop, reload, the cell run again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import driver
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.slow]
Open = Callable[..., Any]
_MILLISECONDS = 60_000
_OLDEST = "6.29.0"  # pyproject.toml asks for it
_CELL = "import ipykernel, labkit\nprint('ipykernel', ipykernel.__version__)\n"
_MINUTES = "('worker_plateau', repeats=40)"


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for JUPYTER_PATH whose Python kernel is the oldest ipykernel.

    It stands in a folder of its own, before everything else that the kernel can import.
    """
    folder = tmp_path_factory.mktemp("kernels")
    packages = folder / "packages"
    # nest-asyncio is all that it needs and newer ones do not.
    wanted = [f"ipykernel=={_OLDEST}", "nest-asyncio==1.6.0"]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
           "--retries", "1", "--no-deps", "--target", str(packages), *wanted]  # fmt: skip
    done = subprocess.run(pip, capture_output=True, text=True, timeout=120)
    if done.returncode:
        reason = f"pip cannot install {wanted[0]}: {done.stderr}"
        if os.environ.get("LABKIT_REQUIRE_BROWSER"):
            pytest.fail(f"{reason}, and LABKIT_REQUIRE_BROWSER is set")
        pytest.skip(reason)
    path = os.pathsep.join(filter(None, (str(packages), os.environ.get("PYTHONPATH"))))
    spec = {
        "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": f"ipykernel {_OLDEST}",
        "language": "python",
        "env": {"PYTHONPATH": path},
    }
    place = folder / "kernels" / "python3"  # goes before the one of the environment
    place.mkdir(parents=True)
    (place / "kernel.json").write_text(json.dumps(spec), "utf-8")
    return folder


@pytest.fixture(scope="module")
def site(kernels: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[driver.Site]:
    """JupyterLab with that kernel."""
    with driver.jupyterlab(tmp_path_factory.mktemp("lab"), kernels=kernels) as site:
        yield site


def test_interrupting_a_blocking_run_gives_a_partial_result(open_notebook: Open) -> None:
    notebook = open_notebook(f"{_CELL}labkit.run{_MINUTES}", height=1500)
    notebook.run_all()
    notebook.see_frames(2)
    notebook.command("notebook:interrupt-kernel")
    expect(notebook.cell(0)).to_contain_text("(stopped early)", timeout=_MILLISECONDS)
    expect(notebook.cell(0)).to_contain_text(f"ipykernel {_OLDEST}")
    expect(notebook.pictures).to_have_count(1)
    expect(notebook.button("Run")).to_be_enabled()
    notebook.wait_idle()
    notebook.no_error()
    notebook.shoot("old-kernel-interrupted")


def test_a_panel_outlives_a_reload_and_ends_with_its_cell(open_notebook: Open) -> None:
    notebook = open_notebook(f"{_CELL}labkit.panel{_MINUTES}", height=1500)
    notebook.run_all()
    notebook.button("Run").click()
    notebook.see_frames(1)
    notebook.save()
    notebook.page.reload()
    notebook.see_frames(1)
    notebook.button("Stop").click()
    expect(notebook.button("Show the result here")).to_be_visible(timeout=_MILLISECONDS)
    expect(notebook.cell(0)).to_contain_text(f"ipykernel {_OLDEST}")
    notebook.button("Run").click()
    expect(notebook.button("Stop")).to_be_enabled(timeout=_MILLISECONDS)
    notebook.see_frames(1)
    notebook.run_all()
    expect(notebook.button("Stop")).to_be_disabled(timeout=_MILLISECONDS)
    expect(notebook.button("Run")).to_have_count(1)
    notebook.button("Run").click()
    notebook.see_frames(1)  # it would wait its turn if the replaced panel still measured
    notebook.shoot("old-kernel-panel")
    notebook.button("Stop").click()
    expect(notebook.cell(0)).to_contain_text("(stopped early)", timeout=_MILLISECONDS)
    expect(notebook.pictures).to_have_count(1)
    notebook.no_error()
