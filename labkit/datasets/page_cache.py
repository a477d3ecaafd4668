"""Takes a dataset's files out of the page cache, so that the next read comes from the disk.

It needs no privilege. It must not change the files.
"""

from __future__ import annotations

import os
from pathlib import Path


def drop_page_cache(folder: str | os.PathLike[str]) -> bool:
    """Ask the system to forget the pages of every file below the folder.

    Pages that another process has mapped stay. Proof that it worked are bytes read from the
    device: `labkit.events.CountersSampled`.

    Returns:
        False where the system has no such request (macOS, Windows).
    """
    if not hasattr(os, "posix_fadvise"):
        return False
    for path in Path(folder).rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)  # pages that are not yet written cannot be dropped
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)
    return True
