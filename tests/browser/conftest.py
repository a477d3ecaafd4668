"""A JupyterLab of our own, a real Chromium, and a notebook in it as a reader has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from browser import driver
from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[driver.Site]:
    """JupyterLab on a copy of the notebooks, one for the tests of a file."""
    with driver.jupyterlab(tmp_path_factory.mktemp("lab")) as site:
        yield site


@pytest.fixture
def browser(chromium: str) -> Iterator[Browser]:
    """A Chromium for each test: it starts processes whenever it likes, and all must go again."""
    with driver.chromium(chromium) as browser:
        yield browser


@pytest.fixture
def open_notebook(
    site: driver.Site, browser: Browser
) -> Iterator[Callable[..., driver.Notebook]]:
    """Opens a notebook made of these cells, or one of labkit's by its name."""
    yield lambda *cells, **look: driver.open_notebook(site, browser, cells, **look)
    for context in browser.contexts:
        context.close()
    site.end_kernels()
