"""What a run makes outside of its folder, and how that goes away even after kill -9.

A run journals the processes, control groups and temporary folder that it makes before it uses
them; whoever comes after a dead warden removes them by that journal. It must not touch anything
whose maker lives, nor anything that the journal or its own name does not show to be labkit's.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from labkit.measure import groups, processes
from labkit.measure.groups import TrialGroup, remove_dead_group
from labkit.measure.store import RunFolder

_FOLDER = re.compile(r"labkit-(?P<pid>\d+)-(?P<mark>[^-]+)-\w+")


def maker_of(name: str) -> tuple[int, str] | None:
    """Pid and start mark of who made a group or folder of this name; None if it is not ours."""
    folder = _FOLDER.fullmatch(name)
    return groups.maker_of(name) if folder is None else (int(folder["pid"]), folder["mark"])


def make_scratch() -> Path:
    """A temporary folder for all that this process starts; they find it through ``TMPDIR``.

    multiprocessing and torch leave folders behind when they are killed; in here they are found.
    """
    mark = re.sub(r"[^\w.]", "_", processes.start_mark(os.getpid()) or "0")
    folder = Path(tempfile.mkdtemp(prefix=f"labkit-{os.getpid()}-{mark}-"))
    for name in ("TMPDIR", "TEMP", "TMP"):  # the first everywhere, the others on Windows
        os.environ[name] = str(folder)
    return folder


def empty_scratch(folder: Path) -> None:
    """Remove what a trial left in the temporary folder."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def clean_up(folder: RunFolder) -> list[int]:
    """End the processes that a dead warden left, and remove all else that it made.

    A process is the run's own when it carries the run's label, or when the journal holds its pid
    *and* its start mark: pids are reused. What the journal holds beside that, torn or of another
    version of labkit, is passed over: it must not stop a new run.

    Returns:
        The pids that were told to end.
    """
    entries = list(_journal(folder))
    marks = _marks(entries)
    ours = set(processes.labelled(folder.path.name))
    ours |= {pid for pid, mark in marks.items() if mark and processes.is_alive(pid, mark)}
    ours -= {os.getpid()}
    ended = sorted(ours | {child for pid in ours for child in processes.descendants(pid)})
    processes.kill_all(ended, {pid: marks.get(pid) for pid in ended})
    # Who lives under a journaled pid and was not ended now is a stranger that got it later.
    strangers = {pid for pid in marks if pid not in ended and processes.start_mark(pid)}
    processes.remove_shared_memory({*marks, *ended} - strangers)
    for entry in entries:
        match entry:
            case {"what": "group", "group": str(group), "version": 1 | 2 as version}:
                remove_dead_group(TrialGroup(version=version, folder=Path(group)))
            case {"what": "scratch", "folder": str(scratch)}:
                _remove_dead_scratch(Path(scratch))
    folder.warden.unlink(missing_ok=True)
    return ended


def _marks(entries: Iterable[dict[str, Any]]) -> dict[int, str | None]:
    """Pid to start mark of the processes that were journaled."""
    found: dict[int, str | None] = {}
    for entry in entries:
        match entry:
            case {"pid": int(pid), "mark": str() | None as mark} if pid > 0:
                found[pid] = mark
    return found


def _journal(folder: RunFolder) -> Iterator[dict[str, Any]]:
    with contextlib.suppress(OSError):
        for line in folder.journal.read_text("utf-8", "replace").splitlines():
            with contextlib.suppress(ValueError):  # a line may be torn
                entry = json.loads(line)
                if isinstance(entry, dict):
                    yield entry


def _remove_dead_scratch(folder: Path) -> None:
    made = maker_of(folder.name)
    if made is not None and not processes.is_alive(*made):
        shutil.rmtree(folder, ignore_errors=True)
