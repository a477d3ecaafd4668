"""Where labkit keeps results; it must not make a folder or read a result."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def data_folder() -> Path:
    """`LABKIT_HOME`, or else the user's data folder for labkit; it need not exist yet."""
    home = os.environ.get("LABKIT_HOME")
    return Path(home).absolute() if home else platformdirs.user_data_path("labkit", appauthor=False)


def runs_folder() -> Path:
    """Where the runs are stored; it need not exist yet."""
    return data_folder() / "runs"
