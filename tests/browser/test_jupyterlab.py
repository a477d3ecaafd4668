"""JupyterLab opens on a copy of the notebooks, and a lab runs there as a reader sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.slow]
_NOTEBOOK = "02_worker_plateau.ipynb"
_MILLISECONDS = 60_000


def test_the_lab_runs_and_its_picture_stays(open_notebook: Callable[..., Any]) -> None:
    notebook = open_notebook(name=_NOTEBOOK)
    notebook.run_all()
    notebook.see_frames(3)
    notebook.shoot("live")
    # Of run(...) and of plot().
    expect(notebook.pictures).to_have_count(2, timeout=_MILLISECONDS)
    expect(notebook.live).to_be_hidden()
    notebook.wait_idle()
    notebook.no_error()
    notebook.pictures.first.scroll_into_view_if_needed()
    notebook.shoot("result")
    assert sum("image/png" in output.get("data", {}) for output in notebook.save()) == 2


def test_interrupting_a_run_gives_a_partial_result(open_notebook: Callable[..., Any]) -> None:
    notebook = open_notebook(name=_NOTEBOOK)
    notebook.run_all()
    notebook.see_frames(1)
    notebook.command("notebook:interrupt-kernel")
    stopped = notebook.page.get_by_text("(stopped early)").first
    expect(stopped).to_be_visible(timeout=_MILLISECONDS)
    notebook.shoot("stopped")
