"""Drives a JupyterLab of our own in a real Chromium: for tests, benchmarks and the screenshot."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import nbformat
import psutil
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from labkit.notebooks_copy import copy_notebooks

_START = "import sys, labkit.notebooks_copy as n; n.start_jupyterlab('.', extra=sys.argv[1:])"
PATIENCE_SECONDS = 60
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_OPTIONS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
LAB, NOTEBOOK_7 = "lab/tree", "notebooks"
"""The front ends that one server has, by their part of a notebook's address."""
SHOTS = Path(__file__).parents[2] / "artefacts"
"""Screenshots are kept, for people to look at; git ignores the folder."""


def wait_for(look: Callable[[], Any], seconds: float = PATIENCE_SECONDS) -> Any:
    """What `look` returns as soon as it is true."""
    deadline = time.monotonic() + seconds
    while not (value := look()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)
    return value


@dataclass(frozen=True, slots=True)
class Site:
    """JupyterLab's address and token, and the folder that it shows."""

    address: str
    token: str
    folder: Path
    settings: Path

    def ask(self, path: str, method: str = "GET") -> Any:
        """What the server's own interface says."""
        request = Request(f"{self.address}/{path}", method=method)
        request.add_header("Authorization", f"token {self.token}")
        with urlopen(request, timeout=PATIENCE_SECONDS) as answer:
            return json.loads(answer.read() or b"null")

    def end_kernels(self) -> None:
        """Shut every kernel down, and wait until it has gone."""
        for session in self.ask("api/sessions"):
            self.ask(f"api/sessions/{session['id']}", "DELETE")
        for kernel in self.ask("api/kernels"):
            self.ask(f"api/kernels/{kernel['id']}", "DELETE")


@contextlib.contextmanager
def jupyterlab(
    folder: Path, *, size: str = "small", kernels: Path | None = None
) -> Iterator[Site]:
    """JupyterLab, with Notebook 7 beside it, on a copy of the notebooks.

    Args:
        folder: for everything of its own.
        size: of the labs.
        kernels: a folder as in JUPYTER_PATH, whose kernels go before the environment's own.
    """
    copy_notebooks(folder)
    log = folder / "log.txt"
    # The app in the browser takes commands by id; the news would cover the notebook.
    options = ["--no-browser", "--port=0", "--ServerApp.ip=127.0.0.1",
               "--LabApp.expose_app_in_browser=True",
               "--JupyterNotebookApp.expose_app_in_browser=True"]  # fmt: skip
    settings = folder / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}')
    environment = os.environ | {
        "LABKIT_SIZE": size,
        "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
    }
    if kernels:
        environment["JUPYTER_PATH"] = str(kernels)
    with log.open("wb") as stream:
        server = subprocess.Popen(
            [sys.executable, "-c", _START, *options], cwd=folder, stdout=stream, stderr=stream,
            env=environment,
        )  # fmt: skip
    try:
        pattern = re.compile(r"(http://127\.0\.0\.1:[1-9]\d*)/lab\?token=(\w+)")

        def found() -> re.Match[str] | None:
            assert server.poll() is None, log.read_text()
            return pattern.search(log.read_text())

        match = wait_for(found)
        yield Site(match[1], match[2], folder, settings)
    finally:
        for child in psutil.Process(server.pid).children():
            child.terminate()  # JupyterLab is the child of the process that was started
        server.wait(PATIENCE_SECONDS)


@dataclass
class Notebook:
    """A notebook that is open in the browser."""

    site: Site
    page: Page
    path: Path
    errors: list[str] = field(default_factory=list)

    def command(self, name: str) -> None:
        """Run one of JupyterLab's commands, without waiting for its end."""
        self.page.evaluate("name => { window.jupyterapp.commands.execute(name) }", name)

    def run_all(self) -> None:
        """Run every cell."""
        self.command("notebook:run-all-cells")

    @property
    def kernel(self) -> str:
        """What the kernel does: idle, busy, ..."""
        widget = "window.jupyterapp.shell.currentWidget?.sessionContext"
        return str(self.page.evaluate(f"() => {widget}?.session?.kernel?.status"))

    def wait_idle(self) -> None:
        """Until all cells have run."""
        wait_for(lambda: self.kernel == "idle")

    def cell(self, number: int) -> Locator:
        """A cell's outputs."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(number).locator(".jp-OutputArea")

    @property
    def live(self) -> Locator:
        """The picture of a run on its way."""
        return self.page.locator("img.widget-image").first

    @property
    def pictures(self) -> Locator:
        """Static pictures in outputs."""
        return self.page.locator(".jp-RenderedImage img")

    def button(self, name: str) -> Locator:
        """A panel's button."""
        return self.page.locator(".jp-OutputArea-output button", has_text=name)

    def field(self, label: str) -> Locator:
        """A panel's field."""
        return self.page.get_by_label(label, exact=True)

    def see_frames(self, count: int, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until the live picture has shown so many different frames."""
        frames: set[str] = set()

        def enough() -> bool:
            if self.live.is_visible():
                frames.add(self.live.get_attribute("src") or "")
            return len(frames) >= count

        wait_for(enough, seconds)

    def save(self) -> list[dict[str, Any]]:
        """Save, and return the outputs that the file then holds."""
        before = self.path.stat().st_mtime_ns
        self.command("docmanager:save")
        wait_for(lambda: self.path.stat().st_mtime_ns != before)
        cells = json.loads(self.path.read_text("utf-8"))["cells"]
        return [output for cell in cells for output in cell.get("outputs", ())]

    def shoot(self, name: str) -> None:
        """Keep a screenshot."""
        SHOTS.mkdir(exist_ok=True)
        self.page.screenshot(path=SHOTS / f"{name}.png")

    def no_error(self) -> None:
        """No cell has raised, and no script in the page."""
        assert self.page.locator(".jp-OutputArea-output[data-mime-type*='error']").count() == 0
        assert not self.errors


@contextlib.contextmanager
def chromium(path: str | None = None) -> Iterator[Browser]:
    """A headless Chromium.

    Args:
        path: of the program; the first that is found when None.
    """
    found = path or next(filter(None, map(shutil.which, PROGRAMS)), None)
    if found is None:
        raise SystemExit(f"no browser: none of {', '.join(PROGRAMS)} is installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(_OPTIONS))
        yield browser
        browser.close()


def open_notebook(
    site: Site, browser: Browser, cells: tuple[str, ...], *, name: str = "test.ipynb",
    width: int = 1300, height: int = 1400, scale: float = 1, dark: bool = False,
    front: str = LAB,
) -> Notebook:  # fmt: skip
    """A notebook made of these cells, or without cells one that is there, in a page of its own.

    Close its `page.context` afterwards.
    """
    path = site.folder / name
    if cells:
        book = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, cells)))
        # Without a name of its kernel the page would ask for one.
        book.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
        nbformat.write(book, path)
    theme = "JupyterLab Dark" if dark else "JupyterLab Light"
    (site.settings / "themes.jupyterlab-settings").write_text(json.dumps({"theme": theme}))
    size: Any = {"width": width, "height": height}
    page = browser.new_context(viewport=size, device_scale_factor=scale).new_page()
    notebook = Notebook(site, page, path)
    page.on("pageerror", lambda error: notebook.errors.append(str(error)))
    page.goto(f"{site.address}/{front}/{name}?token={site.token}&reset")
    cell = page.locator(".jp-Notebook .jp-Cell").first
    expect(cell).to_be_visible(timeout=PATIENCE_SECONDS * 1000)
    notebook.wait_idle()
    notebook.errors.clear()  # Notebook 7.6 raises one of its own while it loads
    return notebook
