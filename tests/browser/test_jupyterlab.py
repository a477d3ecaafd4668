"""JupyterLab opens on a reader's copy of the notebooks."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import expect, sync_playwright

from labkit.notebooks_copy import copy_notebooks

pytestmark = [pytest.mark.browser, pytest.mark.slow]
_START = "import sys, labkit.notebooks_copy as n; n.start_jupyterlab('.', extra=sys.argv[1:])"
_PATIENCE_SECONDS = 60


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """JupyterLab's address, with its token, as it prints it."""
    copy_notebooks(tmp_path)
    log = tmp_path / "log.txt"
    options = ["--no-browser", "--port=0", "--ServerApp.ip=127.0.0.1"]
    with log.open("wb") as stream:
        server = subprocess.Popen(
            [sys.executable, "-c", _START, *options], cwd=tmp_path, stdout=stream, stderr=stream
        )
    try:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        pattern = re.compile(r"http://127\.0\.0\.1:[1-9]\d*/lab\?token=\w+")
        while not (found := pattern.search(log.read_text())):
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield found.group()
    finally:
        _end(server)


def _end(server: subprocess.Popen[bytes]) -> None:
    """JupyterLab is the child of the process that was started."""
    for child in psutil.Process(server.pid).children():
        child.terminate()
    server.wait(_PATIENCE_SECONDS)


def test_a_notebook_opens(address: str, chromium: str) -> None:
    page_address = address.replace("/lab?", "/lab/tree/02_worker_plateau.ipynb?")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(page_address)
        cell = page.locator(".jp-Notebook .jp-Cell").first
        expect(cell).to_be_visible(timeout=_PATIENCE_SECONDS * 1000)
        browser.close()
