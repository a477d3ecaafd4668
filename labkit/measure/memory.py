"""Memory of a process tree, told truthfully and from outside.

PSS alone misses the batches in flight: torch hands them over as shared-memory files that are
unlinked at once and mapped by no one while they wait. So what a tree holds is its anonymous PSS
plus its shared memory, each file counted once by inode over open descriptors and maps. It must
not run inside the process that it measures.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from labkit.events import MemorySampled, ProcessMemory
from labkit.measure.groups import TrialGroup

# The last two: shared anonymous maps (mmap of -1), and segments of System V.
_MAP = re.compile(
    rb"^([0-9a-f]+)-([0-9a-f]+) \S+ ([0-9a-f]+) (\S+) (\d+)\s+"
    rb"(?:/dev/shm/|/memfd:|/dev/zero \(deleted\)|/SYSV)",
    re.M,
)
_SHARED = ("/dev/shm/", "/memfd:")
_BLOCK_BYTES = 512


def sample_memory(
    pids: Sequence[int], main_pid: int, group: TrialGroup | None = None
) -> MemorySampled:
    """Look at every process once; processes that vanish meanwhile are left out.

    Args:
        pids: the tree, its main process included.
        main_pid: the process that consumes the batches.
        group: the trial's own control group, whose own figures are then told beside ours.
    """
    if sys.platform != "linux":
        return _sample_with_psutil(pids, main_pid)
    found = [item for item in (_process(pid, main_pid) for pid in pids) if item is not None]
    return MemorySampled(
        processes=tuple(found),
        shared_memory=shared_memory_bytes(pids),
        cache=0 if group is None else group.cache_bytes(),
        source="smaps",
        group_bytes=None if group is None else group.held_bytes(),
    )


def _process(pid: int, main_pid: int) -> ProcessMemory | None:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    values: dict[str, int] = {}
    for line in text.splitlines()[1:]:
        name, _, rest = line.partition(":")
        values[name] = int(rest.split()[0]) * 1024
    if "Rss" not in values:  # it ended between opening and reading
        return None
    return ProcessMemory(
        pid=pid,
        role="main" if pid == main_pid else "child",
        rss=values.get("Rss", 0),
        pss=values.get("Pss", 0),
        anonymous=values.get("Pss_Anon", 0),
        private=values.get("Private_Clean", 0) + values.get("Private_Dirty", 0),
        shared=values.get("Shared_Clean", 0) + values.get("Shared_Dirty", 0),
    )


def shared_memory_bytes(pids: Sequence[int]) -> int:
    """Bytes of the tree's shared-memory files, each once by inode, unlinked ones included.

    Counted are the pages that a file really has, not its length: a file that is half written
    costs half.
    """
    by_inode: dict[tuple[int, int], int] = {}
    for pid in pids:
        _open_files(pid, by_inode)
        _mapped_files(pid, by_inode)
    return sum(by_inode.values())


def _open_files(pid: int, by_inode: dict[tuple[int, int], int]) -> None:
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        with contextlib.suppress(OSError):
            path = f"{folder}/{name}"
            if os.readlink(path).startswith(_SHARED):
                status = os.stat(path)
                key = (status.st_dev, status.st_ino)
                by_inode[key] = status.st_blocks * _BLOCK_BYTES


def _mapped_files(pid: int, by_inode: dict[tuple[int, int], int]) -> None:
    """Files that are mapped but no longer open: asked through ``map_files``, else by extent."""
    try:
        text = Path(f"/proc/{pid}/maps").read_bytes()
    except OSError:
        return
    extents: dict[tuple[int, int], int] = {}
    for first, last, offset, device, inode in _MAP.findall(text):
        major, _, minor = device.partition(b":")
        key = (os.makedev(int(major, 16), int(minor, 16)), int(inode))
        if key in by_inode:
            continue
        try:  # needs a privilege that root has
            path = f"/proc/{pid}/map_files/{first.decode()}-{last.decode()}"
            by_inode[key] = os.stat(path).st_blocks * _BLOCK_BYTES
        except OSError:  # a file may be mapped in parts: the farthest end is its least length
            end = int(offset, 16) + int(last, 16) - int(first, 16)
            extents[key] = max(extents.get(key, 0), end)
    by_inode.update(extents)


def _sample_with_psutil(pids: Sequence[int], main_pid: int) -> MemorySampled:
    """What other systems tell: private (USS) for anonymous, no shared memory in flight."""
    import psutil

    found: list[ProcessMemory] = []
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            info = psutil.Process(pid).memory_full_info()
            found.append(
                ProcessMemory(
                    pid=pid,
                    role="main" if pid == main_pid else "child",
                    rss=info.rss,
                    pss=getattr(info, "pss", info.uss),
                    anonymous=info.uss,
                    private=info.uss,
                    shared=max(0, info.rss - info.uss),
                )
            )
    return MemorySampled(processes=tuple(found), shared_memory=0, cache=0, source="psutil")
