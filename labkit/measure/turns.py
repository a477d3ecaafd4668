"""One measurement at a time per machine, over kernels, terminals and users, with a visible queue.

A ticket file per waiting run gives the order; an operating-system lock, which a dead process
loses by itself, gives the turn. It must not decide what a run does with its turn.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from labkit.measure.processes import is_alive, start_mark

if sys.platform == "win32":
    import msvcrt

    def _try_lock(file: IO[bytes]) -> bool:
        try:
            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _try_lock(file: IO[bytes]) -> bool:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True


def queue_folder() -> Path:
    """The machine-wide folder of tickets: in the system's temporary folder, for every user."""
    folder = Path(tempfile.gettempdir()) / "labkit-queue"
    with contextlib.suppress(OSError):
        folder.mkdir()
        folder.chmod(0o777)
    return folder


@contextmanager
def machine_turn(
    who: str, waiting: Callable[[int, str], bool], *, folder: Path | None = None,
    poll_seconds: float = 0.1,
) -> Iterator[bool]:  # fmt: skip
    """Wait for this machine's turn; yields False when `waiting` said to give up.

    Args:
        who: name of the run, shown to those who wait behind it.
        waiting: called with (how many are before us, who measures now) while we wait; returns
            False to give up.
        folder: where tickets lie; the machine-wide folder when None.
        poll_seconds: how often the turn is asked for.
    """
    place = folder or queue_folder()
    ticket = place / f"{time.time_ns():020d}-{os.getpid()}.ticket"
    content = {"pid": os.getpid(), "mark": start_mark(os.getpid()), "who": who}
    part = ticket.with_suffix(".part")
    part.write_text(json.dumps(content), encoding="utf-8")
    os.replace(part, ticket)
    lock = _open_lock(place / "turn.lock")
    try:
        while True:
            before = _tickets_before(ticket)
            if not before and _try_lock(lock):
                yield True
                return
            if not waiting(max(len(before), 1), before[0] if before else "another run"):
                yield False
                return
            time.sleep(poll_seconds)
    finally:
        lock.close()  # closing gives the lock back
        ticket.unlink(missing_ok=True)


def _open_lock(path: Path) -> IO[bytes]:
    if not path.exists():
        with contextlib.suppress(OSError), open(path, "ab"):
            path.chmod(0o666)
    try:
        return open(path, "r+b")
    except PermissionError:
        return open(path, "rb")  # another user's file: flock needs no more than this


def _tickets_before(own: Path) -> list[str]:
    """Who is before us, the one that measures now first; tickets of the dead are removed."""
    names: list[str] = []
    for path in sorted(own.parent.glob("*.ticket")):
        if path.name >= own.name:
            break
        try:
            ticket = json.loads(path.read_text(encoding="utf-8"))
            alive = is_alive(ticket["pid"], ticket["mark"])
        except (OSError, ValueError, KeyError):
            continue
        if alive:
            names.append(f"{ticket['who']} (process {ticket['pid']})")
        else:
            with contextlib.suppress(OSError):
                path.unlink()
    return names
