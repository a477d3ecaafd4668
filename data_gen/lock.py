"""A lock between processes on one file, free again when its holder ends, however it ends.

It must not be mistaken for a lock between threads. POSIX: `flock`, Windows: `msvcrt.locking`. The
file is removed on release, so that nothing stays behind; a waiter that got hold of a removed file
sees so and tries again. Children of a holder made by fork hold the lock too, until they end.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

_BUSY = {errno.EACCES, errno.EAGAIN, errno.EDEADLK, errno.EWOULDBLOCK}

if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


class FileLock:
    """An exclusive lock on `path`: `with FileLock(path).acquire(): ...`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def try_acquire(self) -> bool:
        """Takes the lock if it is free; raises OSError if the file cannot be made."""
        while True:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                _lock(descriptor)
            except OSError as error:
                os.close(descriptor)
                if error.errno in _BUSY:
                    return False
                raise
            except BaseException:
                os.close(descriptor)
                raise
            if self._is_current(descriptor):
                self._descriptor = descriptor
                return True
            os.close(descriptor)

    def acquire(
        self, *, cancel: Callable[[], bool] | None = None, poll_seconds: float = 0.05
    ) -> FileLock:
        """Waits for the lock; gives up with InterruptedError once `cancel` says so."""
        while not self.try_acquire():
            if cancel is not None and cancel():
                raise InterruptedError(f"cancelled while waiting for {self.path}")
            time.sleep(poll_seconds)
        return self

    def release(self) -> None:
        """Removes the file and lets go; does nothing when the lock is not held."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        if sys.platform == "win32":  # an open file cannot be removed there
            os.close(descriptor)
            with contextlib.suppress(OSError):
                self.path.unlink()
        else:
            with contextlib.suppress(FileNotFoundError):
                self.path.unlink()
            os.close(descriptor)

    def _is_current(self, descriptor: int) -> bool:
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return False
        held = os.fstat(descriptor)
        return (found.st_dev, found.st_ino) == (held.st_dev, held.st_ino)

    def __enter__(self) -> FileLock:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()
