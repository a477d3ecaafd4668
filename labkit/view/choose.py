"""Chooses the view that suits where we are: a notebook or a terminal."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from typing import Any

from labkit.view.run_protocol import Lab, LiveRun


def in_notebook() -> bool:
    """Whether this is a Jupyter kernel that can show widgets."""
    return _in_kernel() and importlib.util.find_spec("ipywidgets") is not None


def _in_kernel() -> bool:
    ipython = sys.modules.get("IPython")  # in a kernel it has been imported
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


def watch_here(lab: Lab, values: Mapping[str, Any]) -> Callable[[LiveRun], float]:
    """A function that shows a run until it is done and returns the CPU seconds that it took.

    Args:
        lab: what a notebook's panel runs again when its reader wants to.
        values: what the run was asked.
    """
    if in_notebook():
        from labkit.view.panel import Panel

        return Panel(lab, values).watch
    from rich.console import Console

    from labkit.view.terminal import watch

    # A script's stdout stays its own. In a kernel without widgets, which claims to be a terminal,
    # each refresh would be kept in the notebook: plain lines instead.
    console = Console(
        stderr=True, force_jupyter=False, force_terminal=False if _in_kernel() else None
    )
    return lambda run: watch(run, console)
