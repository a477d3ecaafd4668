"""Measures what one context switch costs: two processes on one core hand a byte to and fro.

It must not run while something else is measured.
"""

from __future__ import annotations

import functools
import os
import sys
import time

_TRIPS = 400
_SERIES = 5
"""The best of them: a neighbour can only make a series slower."""


@functools.cache
def switch_seconds() -> float | None:
    """Seconds of one switch between two processes, less what the pipe's system calls cost.

    Measured once in a process.

    It is the direct cost: caches that a switch leaves cold are paid for later, and not counted.

    Returns:
        None where processes cannot be bound to a core (not Linux).
    """
    if sys.platform != "linux":
        return None
    cores = os.sched_getaffinity(0)
    to_child, from_parent = os.pipe()
    to_parent, from_child = os.pipe()
    os.sched_setaffinity(0, {min(cores)})
    try:
        child = os.fork()
        if child == 0:
            _echo(to_child, from_child, from_parent)
        try:
            both = min(_series(from_parent, to_parent) for _ in range(_SERIES))
        finally:
            os.close(from_parent)  # the child reads the end, and goes
            os.waitpid(child, 0)
        read, write = os.pipe()
        alone = min(_series(write, read) for _ in range(_SERIES))
        os.close(read)
        os.close(write)
    finally:
        os.sched_setaffinity(0, cores)
        for end in (to_child, to_parent, from_child):
            os.close(end)
    # A trip is two switches, two writes and two reads; a trip alone is one write and one read.
    return max(0.0, both / 2 - alone)


def _echo(source: int, target: int, other: int) -> None:
    """The child: send every byte back until there are no more; it never returns."""
    os.close(other)
    while data := os.read(source, 1):
        os.write(target, data)
    os._exit(0)


def _series(target: int, source: int) -> float:
    """Seconds per trip."""
    start = time.perf_counter()
    for _ in range(_TRIPS):
        os.write(target, b"x")
        os.read(source, 1)
    return (time.perf_counter() - start) / _TRIPS
