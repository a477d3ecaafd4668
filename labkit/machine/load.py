"""How many cores others keep busy; it must not judge whether that is too many."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import psutil

# Guest time is counted in user time too, and Windows' interrupts in system time; a core that waits
# for a disk is free.
_NOT_BUSY = ("idle", "iowait", "guest", "guest_nice", "interrupt", "dpc")


def load_cores(seconds: float, *, sleep: Callable[[float], None] = time.sleep) -> float:
    """Cores kept busy by others over the next `seconds`, on average.

    This process and its living descendants are not others. In a container the whole machine is
    counted, since its neighbours take the same cores.
    """
    start, machine, own = time.perf_counter(), machine_seconds(), own_seconds()
    sleep(seconds)
    return others(
        elapsed=time.perf_counter() - start,
        machine=machine_seconds() - machine,
        own=own_seconds() - own,
    )


def others(*, elapsed: float, machine: float, own: float) -> float:
    """Cores from CPU seconds; the kernel's 10 ms ticks can make the difference negative."""
    return max(0.0, machine - own) / elapsed if elapsed > 0 else 0.0


def machine_seconds() -> float:
    """CPU seconds that all cores have been busy since the machine started."""
    return busy_seconds(psutil.cpu_times()._asdict())


def busy_seconds(times: dict[str, Any]) -> float:
    """The busy part of psutil's CPU times."""
    return float(sum(value for name, value in times.items() if name not in _NOT_BUSY))


def own_seconds() -> float:
    """CPU seconds of this process and its living descendants."""
    total = 0.0
    process = psutil.Process()
    for each in (process, *process.children(recursive=True)):
        try:
            spent = each.cpu_times()
        except psutil.Error:  # It ended between the list and the look.
            continue
        total += spent.user + spent.system
    return total
