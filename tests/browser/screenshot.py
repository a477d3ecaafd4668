"""Takes the README's picture: ``python tests/browser/screenshot.py`` (see `make screenshot`).

A panel of worker_plateau in a real JupyterLab, in mid-run, on a screen of high resolution.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from browser import driver

TARGET = Path(__file__).parents[2] / "docs" / "panel.png"
_CELL = """import labkit
guess = {0: 1, 1: 1, 2: 2, 4: 4}
labkit.panel("worker_plateau", workers=[0, 1, 2, 4], predict=guess, size="full")"""
_FRAMES = 30
"""By then several settings have points of several rounds."""


def main() -> None:
    """Run the lab until its picture says something, and keep the page as it is then."""
    with (
        tempfile.TemporaryDirectory() as folder,
        driver.jupyterlab(Path(folder)) as site,
        driver.chromium() as browser,
    ):
        notebook = driver.open_notebook(
            site, browser, (_CELL,), name="labkit.ipynb", width=1240, height=1210, scale=1.5
        )
        notebook.command("application:toggle-left-area")
        notebook.run_all()
        notebook.button("Run").click()
        notebook.see_frames(_FRAMES, seconds=180)
        TARGET.parent.mkdir(exist_ok=True)
        notebook.page.screenshot(path=TARGET)
        notebook.button("Stop").click()
        notebook.page.get_by_text("(stopped early)").first.wait_for()
        site.end_kernels()
    print(TARGET)


if __name__ == "__main__":
    main()
