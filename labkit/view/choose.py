"""Chooses the view for the place we are in: a notebook's panel, or the terminal's table."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def in_notebook() -> bool:
    """Whether a Jupyter kernel runs us (plain IPython and scripts count as terminals)."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


def watch_here() -> Callable[[Any], float]:
    """The function that shows a run until it is done."""
    if in_notebook():
        from labkit.view.notebook import watch_in_notebook

        return watch_in_notebook
    from rich.console import Console

    from labkit.view.terminal import watch

    console = Console(stderr=True)
    return lambda run: watch(run, console)
