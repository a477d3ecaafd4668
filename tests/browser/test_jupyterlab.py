"""JupyterLab opens on a copy of the notebooks, and the lab runs there as a reader sees it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from playwright.sync_api import Page, expect, sync_playwright

from labkit.notebooks_copy import copy_notebooks

pytestmark = [pytest.mark.browser, pytest.mark.slow]
_START = "import sys, labkit.notebooks_copy as n; n.start_jupyterlab('.', extra=sys.argv[1:])"
_PATIENCE_SECONDS = 60
_NOTEBOOK = "02_worker_plateau.ipynb"
_CHROMIUM = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
_SHOTS = Path(__file__).parents[2] / "artefacts"
"""Screenshots are kept, for people to look at; git ignores the folder."""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """JupyterLab's address, with its token, as it prints it."""
    copy_notebooks(tmp_path)
    log = tmp_path / "log.txt"
    # The app in the browser takes commands by id; the news would cover the notebook.
    options = ["--no-browser", "--port=0", "--ServerApp.ip=127.0.0.1",
               "--LabApp.expose_app_in_browser=True"]  # fmt: skip
    overrides = tmp_path / "settings" / "@jupyterlab" / "apputils-extension"
    overrides.mkdir(parents=True)
    (overrides / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}')
    environment = os.environ | {
        "LABKIT_SIZE": "small",
        "JUPYTERLAB_SETTINGS_DIR": str(tmp_path / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(tmp_path / "workspaces"),
    }
    with log.open("wb") as stream:
        server = subprocess.Popen(
            [sys.executable, "-c", _START, *options], cwd=tmp_path, stdout=stream, stderr=stream,
            env=environment,
        )  # fmt: skip
    try:
        pattern = re.compile(r"http://127\.0\.0\.1:[1-9]\d*/lab\?token=\w+")

        def found() -> str | None:
            assert server.poll() is None, log.read_text()
            match = pattern.search(log.read_text())
            return match.group() if match else None

        yield _wait_for(found)
    finally:
        _end(server)


def _end(server: subprocess.Popen[bytes]) -> None:
    """JupyterLab is the child of the process that was started."""
    for child in psutil.Process(server.pid).children():
        child.terminate()
    server.wait(_PATIENCE_SECONDS)


def _wait_for(look: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not (value := look()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.1)
    return value


@pytest.fixture
def page(address: str, chromium: str) -> Iterator[Page]:
    """The notebook, open in a real browser, with its kernel idle."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(_CHROMIUM))
        page = browser.new_page(viewport={"width": 1300, "height": 1400})
        page.goto(address.replace("/lab?", f"/lab/tree/{_NOTEBOOK}?"))
        cell = page.locator(".jp-Notebook .jp-Cell").first
        expect(cell).to_be_visible(timeout=_PATIENCE_SECONDS * 1000)
        _wait_for(lambda: _kernel(page) == "idle")
        yield page
        browser.close()


def _kernel(page: Page) -> str:
    script = "() => window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status"
    return str(page.evaluate(script))


def _command(page: Page, name: str) -> None:
    page.evaluate("name => { window.jupyterapp.commands.execute(name) }", name)


def _shoot(page: Page, name: str) -> None:
    _SHOTS.mkdir(exist_ok=True)
    page.screenshot(path=_SHOTS / f"{name}.png")


def test_the_lab_runs_and_its_picture_stays(page: Page, tmp_path: Path) -> None:
    _command(page, "notebook:run-all-cells")
    live = page.locator(".jp-OutputArea-output img.widget-image")
    expect(live).to_be_visible(timeout=_PATIENCE_SECONDS * 1000)
    frames = {_wait_for(lambda: live.get_attribute("src"))}

    def changed() -> bool:
        if live.is_visible():
            frames.add(live.get_attribute("src"))
        return len(frames) >= 3

    _wait_for(changed)
    _shoot(page, "live")
    pictures = page.locator(".jp-RenderedImage img")
    expect(pictures).to_have_count(2, timeout=_PATIENCE_SECONDS * 1000)  # run(...) and plot()
    expect(live).to_be_hidden()
    _wait_for(lambda: _kernel(page) == "idle")
    assert page.locator(".jp-OutputArea-output[data-mime-type*='error']").count() == 0
    pictures.first.scroll_into_view_if_needed()
    _shoot(page, "result")
    _command(page, "docmanager:save")
    _wait_for(lambda: _saved_pictures(tmp_path / _NOTEBOOK) == 2)


def _saved_pictures(notebook: Path) -> int:
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    return sum("image/png" in output.get("data", {}) for output in outputs)


def test_interrupting_a_run_gives_a_partial_result(page: Page) -> None:
    _command(page, "notebook:run-all-cells")
    bar = page.locator(".jp-OutputArea-output img.widget-image")
    expect(bar).to_be_visible(timeout=_PATIENCE_SECONDS * 1000)
    _wait_for(lambda: bar.get_attribute("src"))
    _command(page, "notebook:interrupt-kernel")
    stopped = page.get_by_text("(stopped early)").first
    expect(stopped).to_be_visible(timeout=_PATIENCE_SECONDS * 1000)
    _shoot(page, "stopped")
