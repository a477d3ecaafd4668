"""Marks of who uses a dataset of the cache; must not remove a dataset, nor trust a dead process.

A user's mark is a locked file in `<root>/.in-use`: the lock ends with the process, so that no mark
outlives a kill. A process that made a dataset for others, and ends before they begin, leaves a
mark without a lock that counts for a minute.
"""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from pathlib import Path

from data_gen.lock import FileLock

_FOLDER = ".in-use"
_HANDED_OVER = ".handed-over"
_HANDED_OVER_SECONDS = 60
# The next process is told at once, and is there within a second or two; the rest is for a machine
# that swaps. A mark of a run that died keeps nothing for longer.


def user_mark(folder: Path) -> FileLock:
    """A mark of this process, not yet taken: the dataset is in use while it is held."""
    marks = folder.parent / _FOLDER
    marks.mkdir(exist_ok=True)
    return FileLock(marks / f"{folder.name}.{os.getpid()}-{uuid.uuid4().hex[:8]}")


def hand_over(folder: Path) -> None:
    """Counts the dataset as in use for a minute more, also when this process ends now.

    Called while this process uses it: else it may be gone already.
    """
    (folder.parent / _FOLDER / f"{folder.name}{_HANDED_OVER}").touch()


def is_marked(folder: Path) -> bool:
    """Whether a living process uses the dataset, or is about to; removes marks of dead ones."""
    marks = folder.parent / _FOLDER
    paths = marks.glob(f"{folder.name}.*") if marks.is_dir() else ()
    return any([_counts(path) for path in paths])


def remove_dead_marks(root: Path) -> None:
    """Removes the marks in the cache folder that count no more."""
    for path in (root / _FOLDER).glob("*"):
        _counts(path)


def _counts(path: Path) -> bool:
    """Whether the mark holds; removes it if not."""
    if path.name.endswith(_HANDED_OVER):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime < _HANDED_OVER_SECONDS:
                return True
            path.unlink()
        return False
    lock = FileLock(path)
    if not lock.try_acquire():
        return True
    lock.release()
    return False
