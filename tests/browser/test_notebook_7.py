"""The same in Notebook 7: a blocking run, a panel's Run and Stop, and what stays in the file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from browser.driver import NOTEBOOK_7
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.slow]
Open = Callable[..., Any]
_MILLISECONDS = 60_000
_RUN = """import labkit
labkit.run('worker_plateau', workers=[0, 2], repeats=2, predict={0: 1, 2: 2})"""
_PANEL = "import labkit\nlabkit.panel('worker_plateau', repeats=40)"


def pictures_in_file(notebook: Any) -> int:
    return sum("image/png" in output.get("data", {}) for output in notebook.save())


def hidden_pixels(notebook: Any) -> int:
    """How much of the outputs a reader would have to scroll to within a box of their own."""
    return int(notebook.cell(0).evaluate("area => area.scrollHeight - area.clientHeight"))


def test_a_blocking_run_is_live_and_its_record_stays(open_notebook: Open) -> None:
    notebook = open_notebook(_RUN, front=NOTEBOOK_7, height=2100)
    notebook.run_all()
    notebook.see_frames(3)
    notebook.shoot("notebook-7-live")
    expect(notebook.pictures).to_have_count(1, timeout=_MILLISECONDS)
    expect(notebook.live).to_be_hidden()
    expect(notebook.cell(0)).to_contain_text("you predicted 2 times the rate of 0 workers")
    notebook.wait_idle()
    notebook.no_error()
    notebook.shoot("notebook-7-result")
    assert pictures_in_file(notebook) == 1


def test_a_panel_runs_and_stops(open_notebook: Open) -> None:
    notebook = open_notebook(_PANEL, front=NOTEBOOK_7, height=2100)
    notebook.run_all()
    notebook.button("Run").click()
    notebook.see_frames(2)
    notebook.button("Stop").click()
    expect(notebook.cell(0)).to_contain_text("(stopped early)", timeout=_MILLISECONDS)
    expect(notebook.pictures).to_have_count(1)
    expect(notebook.button("Run")).to_be_enabled()
    notebook.shoot("notebook-7-stopped")
    assert hidden_pixels(notebook) < 10, "Notebook 7 must not squeeze what is higher than a page"
    notebook.no_error()
    assert pictures_in_file(notebook) == 1
