"""What a learner does with a panel in JupyterLab: run, stop, change, reload, keys alone."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.slow]
_SESSION = "LABKIT_TEST_SESSION"
Open = Callable[..., Any]
_MILLISECONDS = 60_000
_PANEL = "import labkit\npanel = labkit.panel('{name}'{more})\npanel"
_LONG = "labkit.panel('worker_plateau', repeats=40)"
"""Goes on for minutes, unless it is stopped."""


def trials() -> set[int]:
    """Process ids of this session's wardens, hosts and trials that are there now."""
    found = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            command = " ".join(process.cmdline())
            ours = process.environ().get(_SESSION) == os.environ[_SESSION]
            if "labkit.measure." in command and ours:
                found.add(process.pid)
    return found


def wait_until_gone(before: set[int], seconds: float = 15) -> None:
    """Wait until no process of a run is left that was not there before."""
    deadline = time.monotonic() + seconds
    while left := trials() - before:
        assert time.monotonic() < deadline, f"left: {left}"
        time.sleep(0.1)


def long_run(open_notebook: Open, *, frames: int) -> Any:
    """A notebook whose panel has been measuring until so many frames were seen, and goes on."""
    notebook = open_notebook(f"import labkit\n{_LONG}", height=1500)
    notebook.run_all()
    notebook.button("Run").click()
    notebook.see_frames(frames)
    return notebook


_WATCH_SIZE = """image => {
  window.sizes = [];
  new ResizeObserver(([entry]) => {
    if (image.clientWidth) window.sizes.push([image.clientWidth, image.clientHeight]);
  }).observe(image);
}"""
"""Keeps every size that an image has while it is shown."""


def text_of(notebook: Any, number: int = 0) -> str:
    return str(notebook.cell(number).inner_text())


def test_a_panel_runs_and_its_record_stays(open_notebook: Open, site: Any, tmp_path: Path) -> None:
    notebook = open_notebook(_PANEL.format(name="worker_plateau", more=""), height=1500)
    notebook.run_all()
    expect(notebook.cell(0)).to_contain_text("6 settings, 3 rounds", timeout=_MILLISECONDS)
    notebook.shoot("panel-before")
    notebook.button("Run").click()
    expect(notebook.button("Stop")).to_be_enabled(timeout=_MILLISECONDS)
    notebook.see_frames(1)
    notebook.live.evaluate(_WATCH_SIZE)
    notebook.see_frames(3)
    notebook.shoot("panel-live")
    shown = notebook.live.evaluate(
        "image => [image.clientWidth, image.naturalWidth, image.naturalHeight]"
    )
    ((width, height),) = notebook.page.evaluate("sizes")  # one: nothing jumps between frames
    assert width == shown[0] < 1100, "this page is narrow"
    assert abs(height / width - shown[2] / shown[1]) < 0.01, "it is not squeezed"
    expect(notebook.pictures).to_have_count(1, timeout=_MILLISECONDS)
    expect(notebook.live).to_be_hidden()
    expect(notebook.button("Run")).to_be_enabled()
    notebook.page.get_by_role("tab", name="one setting").click()
    look = notebook.page.locator("img.widget-image").nth(1)
    expect(look).to_be_visible(timeout=_MILLISECONDS)
    notebook.field("setting").select_option(index=1)
    notebook.shoot("panel-one-setting")
    notebook.no_error()
    outputs = notebook.save()
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 1
    page = to_html(notebook.path, tmp_path)
    assert len(re.findall(r"<img[^>]+data:image/png;base64,", page)) == 1
    assert "reproduced" in page or "cannot tell" in page


def to_html(path: Path, folder: Path) -> str:
    """The saved notebook as nbconvert's page."""
    target = folder / "page.html"
    subprocess.run(
        [sys.executable, "-m", "nbconvert", "--to", "html", str(path), "--output", str(target)],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    return target.read_text("utf-8")


def test_without_a_kernel_the_record_is_there(open_notebook: Open, site: Any) -> None:
    notebook = open_notebook("import labkit\nlabkit.run('kitchen')", height=1300)
    notebook.run_all()
    expect(notebook.pictures).to_have_count(1, timeout=_MILLISECONDS)
    notebook.wait_idle()
    notebook.save()
    notebook.command("docmanager:close")
    site.end_kernels()
    notebook.page.goto(f"{site.address}/lab/tree/{notebook.path.name}?token={site.token}&reset")
    expect(notebook.pictures).to_be_visible(timeout=_MILLISECONDS)
    notebook.page.get_by_text("The picture in words").click()
    assert "every batch was built by the consumer" in text_of(notebook)
    assert text_of(notebook).count("K1 reproduced") == 1, "the cell's value tells it no second time"
    time.sleep(1)  # a page that draws an error draws it late
    notebook.shoot("no-kernel")
    assert "K1 reproduced" in text_of(notebook)


def test_stop_gives_a_partial_result_within_two_seconds(open_notebook: Open) -> None:
    before = trials()
    notebook = long_run(open_notebook, frames=2)
    begun = time.monotonic()
    notebook.button("Stop").click()
    expect(notebook.cell(0)).to_contain_text("(stopped early)", timeout=_MILLISECONDS)
    seconds = time.monotonic() - begun
    notebook.shoot("panel-stopped")
    assert seconds < 2, f"it took {seconds:.1f} s"
    expect(notebook.pictures).to_have_count(1)
    wait_until_gone(before)
    notebook.no_error()


def test_a_changed_control_is_run(open_notebook: Open) -> None:
    notebook = open_notebook(_PANEL.format(name="kitchen", more=""), height=1500)
    notebook.run_all()
    workers = notebook.field("workers")
    workers.fill("0, -3")
    expect(notebook.cell(0)).to_contain_text("outside the range", timeout=_MILLISECONDS)
    notebook.shoot("panel-wrong")
    workers.fill("0, 1")
    expect(notebook.cell(0)).to_contain_text("2 settings", timeout=_MILLISECONDS)
    notebook.button("Run").click()
    expect(notebook.pictures).to_have_count(1, timeout=_MILLISECONDS)
    expect(notebook.cell(0)).to_contain_text("K1 ", timeout=_MILLISECONDS)
    assert "2 workers" not in text_of(notebook)
    expect(notebook.button("Run")).to_be_enabled()
    workers.fill("0, 1, 2")
    notebook.button("Run").click()
    expect(notebook.cell(0)).to_contain_text("2 workers", timeout=_MILLISECONDS)
    expect(notebook.pictures).to_have_count(1)
    notebook.no_error()


def test_a_reloaded_page_finds_the_panel(open_notebook: Open) -> None:
    notebook = long_run(open_notebook, frames=2)
    notebook.save()
    notebook.page.reload()
    notebook.see_frames(3)
    notebook.shoot("panel-reloaded")
    stop = notebook.button("Stop")
    expect(stop).to_be_enabled(timeout=_MILLISECONDS)
    stop.click()
    expect(notebook.button("Run")).to_be_enabled(timeout=_MILLISECONDS)
    shown = notebook.button("Show the result here")
    expect(shown).to_be_visible()
    shown.click()
    expect(notebook.live).to_be_visible(timeout=_MILLISECONDS)
    expect(notebook.cell(0)).to_contain_text("(stopped early)")
    notebook.shoot("panel-reloaded-result")


def test_keys_alone_are_enough(open_notebook: Open) -> None:
    notebook = open_notebook(_PANEL.format(name="kitchen", more=", workers=[0]"), height=1500)
    notebook.run_all()
    expect(notebook.cell(0)).to_contain_text("1 setting", timeout=_MILLISECONDS)
    notebook.field("workers").focus()
    keys = notebook.page.keyboard
    keys.press("Control+a")
    keys.type("0, 2")
    expect(notebook.cell(0)).to_contain_text("2 settings", timeout=_MILLISECONDS)
    for _ in range(20):
        keys.press("Tab")
        focused = notebook.page.evaluate("() => document.activeElement.innerText")
        if focused.strip() == "Run":
            break
    else:
        pytest.fail("Tab never came to Run")
    keys.press("Enter")
    expect(notebook.pictures).to_have_count(1, timeout=_MILLISECONDS)
    # The table comes after the picture, in a message of its own.
    expect(notebook.cell(0)).to_contain_text("2 workers", timeout=_MILLISECONDS)
    notebook.shoot("panel-keys")


def test_keys_typed_while_the_kernel_is_busy_count(open_notebook: Open) -> None:
    panel = _PANEL.format(name="kitchen", more=", workers=[0]")
    notebook = open_notebook(panel, "import time\ntime.sleep(4)", height=1900)
    notebook.run_all()
    workers = notebook.field("workers")
    workers.focus()
    workers.press("Control+a")
    workers.press_sequentially("0, 2")
    notebook.button("Run").click()
    assert notebook.page.locator(".jp-InputPrompt").nth(1).inner_text() == "[*]:", "busy until now"
    expect(notebook.cell(0)).to_contain_text("K1 ", timeout=_MILLISECONDS)
    assert "2 workers" in text_of(notebook)
    notebook.no_error()


def test_the_cell_run_again_replaces_its_panel_and_stops_its_run(open_notebook: Open) -> None:
    before = trials()
    notebook = long_run(open_notebook, frames=1)
    notebook.run_all()
    wait_until_gone(before)
    expect(notebook.button("Run")).to_have_count(1)
    expect(notebook.button("Run")).to_be_enabled()
    notebook.no_error()


def test_two_panels_wait_for_one_another(open_notebook: Open) -> None:
    kitchen = "labkit.panel('kitchen', workers=[0, 1])"
    notebook = open_notebook(f"import labkit\n{_LONG}", kitchen, height=1900)
    notebook.run_all()
    notebook.button("Run").nth(0).click()
    notebook.see_frames(1)
    notebook.button("Run").nth(1).click()
    expect(notebook.cell(1)).to_contain_text("waiting for worker_plateau", timeout=_MILLISECONDS)
    notebook.shoot("panel-waiting")
    notebook.button("Stop").nth(0).click()
    expect(notebook.cell(1)).to_contain_text("K1 ", timeout=_MILLISECONDS)
    notebook.no_error()


def test_a_restarted_kernel_leaves_nothing(open_notebook: Open, site: Any) -> None:
    before = trials()
    long_run(open_notebook, frames=1)
    assert trials() - before
    (kernel,) = site.ask("api/kernels")
    site.ask(f"api/kernels/{kernel['id']}/restart", "POST")
    wait_until_gone(before)


def test_after_a_blocking_run_its_controls_are_live(open_notebook: Open) -> None:
    notebook = open_notebook("import labkit\nlabkit.run('kitchen', workers=[0, 1])", height=1500)
    notebook.run_all()
    expect(notebook.pictures).to_have_count(1, timeout=_MILLISECONDS)
    expect(notebook.field("workers")).to_have_value("0, 1", timeout=_MILLISECONDS)
    notebook.field("workers").fill("0, 2")
    notebook.button("Run").click()
    expect(notebook.cell(0)).to_contain_text("2 workers", timeout=_MILLISECONDS)
    expect(notebook.pictures).to_have_count(1)
    notebook.shoot("run-again")
    notebook.no_error()


def test_a_dark_page_on_a_sharp_screen(open_notebook: Open) -> None:
    notebook = open_notebook(
        _PANEL.format(name="kitchen", more=", workers=[0, 2]"), height=1300, scale=2, dark=True
    )
    notebook.run_all()
    notebook.button("Run").click()
    expect(notebook.pictures).to_have_count(1, timeout=_MILLISECONDS)
    natural, shown = notebook.pictures.evaluate("i => [i.naturalWidth, i.width]")
    assert natural >= 1.9 * shown
    notebook.shoot("panel-dark")
    notebook.no_error()
