"""The host: imports torch once, then runs each trial in a fork of itself (Linux) or in itself.

It speaks JSON lines with the warden over its stdin and stdout. It must only import, never compute:
a process that has used torch's thread pool must not fork (a forked child hung, measured).
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from labkit.errors import LabkitError
from labkit.measure.processes import die_with_parent
from labkit.measure.reference import load_experiment
from labkit.measure.store import RunFolder
from labkit.measure.trial import execute, redirect_output
from labkit.records import Experiment

IMPORTS = ("torch", "torch.utils.data", "numpy", "PIL.Image", "labkit.measure.stamps")
"""What nearly every loader needs; a fork then costs 10 ms where a cold start costs 1.3 s."""


def can_fork() -> bool:
    """Only Linux: macOS has fork, but its system libraries do not survive it."""
    return sys.platform == "linux"


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))


def main() -> None:
    """Say ready, then run the trials whose ids come in, one after the other."""
    run, parent = RunFolder(Path(sys.argv[1])), int(sys.argv[2])
    die_with_parent(parent)
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever an import prints must not reach the warden as a reply
    for name in IMPORTS:
        importlib.import_module(name)
    try:
        experiment = load_experiment(run.read_plan()["experiment"])
    except LabkitError as error:
        _reply(replies, {"failed": str(error)})
        return
    for name in experiment.preload:
        importlib.import_module(name)
    gc.freeze()  # a collection in a fork would write to, and so copy, every page of the host
    forks = can_fork() and _threads() == 1
    _reply(replies, {"ready": True, "launch": "forked" if forks else "hosted"})
    for line in sys.stdin:
        order = json.loads(line)
        trial_id = order["trial"]
        if forks:
            _fork_trial(run, trial_id, order["join"], experiment, replies)
        elif order["join"] is not None:
            _reply(replies, {"failed": "this host cannot fork, and must not limit itself"})
        else:
            _reply(replies, {"pid": os.getpid()})
            _reply(replies, {"exit": execute(run, trial_id, "hosted", experiment)})


def _fork_trial(
    run: RunFolder, trial_id: str, join: str | None, experiment: Experiment, replies: Any
) -> None:
    host = os.getpid()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            die_with_parent(host)
            redirect_output(run, trial_id)
            code = execute(run, trial_id, "forked", experiment, join)
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
    _reply(replies, {"pid": pid})
    _, status = os.waitpid(pid, 0)
    _reply(replies, {"exit": os.waitstatus_to_exitcode(status)})


def _reply(replies: Any, message: dict[str, Any]) -> None:
    replies.write(json.dumps(message) + "\n")
    replies.flush()


if __name__ == "__main__":
    main()
