"""What a trial holds before its first sample, measured on processes that only import and wait.

A prediction of memory needs two numbers that differ from machine to machine: what a process holds
that has imported torch (base), and what each worker adds to it before it has read anything. Run as
``python -m labkit.measure.footprint MODULE...`` this file is the process that is measured. It must
not import torch where it is only called from: the kernel calls `measure_footprint`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import subprocess
import sys
from typing import IO, Any

from labkit.measure import memory, processes
from labkit.measure.prediction import Footprint

_IMPORTS = ("numpy", "torch", "torch.utils.data", "labkit.measure.stamps")
_WORKERS = 2
_TIMEOUT_SECONDS = 60.0


@functools.cache
def measure_footprint(modules: tuple[str, ...] = ()) -> Footprint | None:
    """Start a process that imports what a trial imports, then two workers of it, and look at both.

    Takes about two seconds, once in the life of this process.

    Args:
        modules: names that the trials import beside torch.

    Returns:
        None where it cannot be measured, because torch is missing for instance.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "labkit.measure.footprint", *modules],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with_imports = _held(process.pid, process.stdout)
        process.stdin.write(b"\n")
        process.stdin.flush()
        with_workers = _held(process.pid, process.stdout)
    except OSError:
        return None
    finally:
        tree = [process.pid, *processes.descendants(process.pid)]
        with contextlib.suppress(OSError):  # it has ended already
            process.stdin.close()  # it ends by itself: its workers go with it
        try:
            process.wait(_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            processes.kill_all(tree, {})
            process.wait()
        process.stdout.close()
    if not with_imports or not with_workers:
        return None
    added = max(0, with_workers - with_imports)
    return Footprint(base_bytes=with_imports, worker_bytes=added // _WORKERS)


def _held(pid: int, replies: IO[bytes]) -> int:
    """What the tree holds once it says that it waits; 0 when it has ended."""
    if not replies.readline():
        return 0
    return memory.sample_memory([pid, *processes.descendants(pid)], pid).total


class _Light:
    """A dataset whose samples go the way of all tensors, and weigh next to nothing."""

    def __len__(self) -> int:
        return 4 * _WORKERS

    def __getitem__(self, index: int) -> Any:
        import torch

        with open(__file__, "rb") as file:
            file.read()
        return torch.full((16,), index), index


def main() -> None:
    """The process that is measured: import, say so, start workers, say so, end with the pipe."""
    for name in (*_IMPORTS, *sys.argv[1:]):
        importlib.import_module(name)
    import torch
    from torch.utils.data import DataLoader

    from labkit.measure.stamps import stamped

    torch.set_num_threads(1)
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed is no reply
    replies.write("imported\n")
    replies.flush()
    sys.stdin.readline()
    dataset, collate = stamped(_Light())
    batches = iter(DataLoader(dataset, num_workers=_WORKERS, collate_fn=collate))
    for _ in range(_WORKERS):
        next(batches)
    replies.write("working\n")
    replies.flush()
    sys.stdin.readline()


if __name__ == "__main__":
    main()
