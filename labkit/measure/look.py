"""A trial asks the warden for a sample of its memory at a moment that it holds, and waits for it.

It runs in the trial's process; it must not sample anything itself.
"""

from __future__ import annotations

import time
from pathlib import Path

from labkit.records import Context

_POLL_SECONDS = 0.002
_MOST_SECONDS = 5.0
"""A sample costs some 10 ms per GiB mapped; without an answer in this time there is no warden."""


def ask_for_look(context: Context, *, most_seconds: float = _MOST_SECONDS) -> bool:
    """Wait until the warden has sampled this trial's processes as they are now.

    The sample is marked as held. A step that calls this keeps the consumer still, so that workers
    fill their queue and sleep meanwhile.

    Returns:
        Whether it was sampled; False without a warden, as in tests.
    """
    if context.look_file is None:
        return False
    asked = Path(context.look_file)
    asked.touch()
    deadline = time.monotonic() + most_seconds
    while asked.exists():
        if time.monotonic() > deadline:
            asked.unlink(missing_ok=True)
            return False
        time.sleep(_POLL_SECONDS)
    return True
