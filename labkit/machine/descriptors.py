"""How many files a process may have open; it must not change the limit."""

from __future__ import annotations

import sys


def descriptor_limit() -> int | None:
    """The soft limit that processes inherit; None where there is none, or no such limit."""
    if sys.platform == "win32":
        return None
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft
