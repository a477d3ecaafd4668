"""The command that makes the datasets of a run before its trials; prints errors only.

    python -m labkit.datasets.prepare --events FILE --trial ID SPEC_JSON...

The warden starts it. Progress goes to FILE, one event a line, at most five a second; `done` and
`total` count the bytes of all specs that are missing. Exit codes: 0 all are in the cache, 2 bad
input or no space (the last line on stderr says what was asked, what was found and what to do), 1
anything else, 130 after SIGINT or SIGTERM. Whatever ends it leaves nothing that is taken for a
dataset. It must not import torch.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TextIO

from data_gen import BuildCancelled, DatasetSpec, Progress, SpecError
from labkit.datasets import cache
from labkit.datasets.marks import hand_over
from labkit.errors import DatasetError, InsufficientSpaceError
from labkit.events import Event, Preparing, to_line

_INTERVAL_SECONDS = 0.2

Report = Callable[[int, int], None]


class Throttle:
    """Passes on (done, total) five times a second at most, but always the first and the last."""

    def __init__(self, report: Report, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._report = report
        self._clock = clock
        self._told: float | None = None

    def __call__(self, done: int, total: int) -> None:
        """So many bytes of so many are made."""
        now = self._clock()
        recently = self._told is not None and now - self._told < _INTERVAL_SECONDS
        if done < total and recently:
            return
        self._told = now
        self._report(done, total)


def prepare(
    specs: Sequence[DatasetSpec], report: Report, *, cancel: Callable[[], bool] | None = None
) -> list[Path]:
    """Brings each spec into the cache, and keeps it there for the trials that begin after this.

    All are held until the last is made, and then handed over: nobody who cleans the cache removes
    one that was made first, or that no trial has opened yet.

    Args:
        specs: what the trials will read; repeated ones are made once.
        report: called with the bytes done and the bytes to make in all; not at all if none is
            missing. The expected size counts for images and text.
        cancel: asked often; True ends with `data_gen.BuildCancelled`.

    Returns:
        The folders, one for each spec.

    Raises:
        InsufficientSpaceError, DatasetError, data_gen.BuildCancelled: as `cache.ensure`.
    """
    wanted = {spec.key(): spec for spec in specs}
    missing = {key for key, spec in wanted.items() if cache.missing(spec)}
    total = sum(wanted[key].total_bytes for key in missing)
    done = 0
    with contextlib.ExitStack() as held:
        for key, spec in wanted.items():
            expected = spec.total_bytes

            def show(state: Progress, done: int = done, expected: int = expected) -> None:
                # Images come out a little larger or smaller than expected: the share is what
                # counts.
                report(done + expected * state.done_bytes // max(1, state.total_bytes), total)

            made = cache.ensure(spec, progress=show if key in missing else None, cancel=cancel)
            held.enter_context(cache.in_use(made))
            if key in missing:
                done += expected
                report(done, total)
        folders = [cache.folder_of(spec) for spec in specs]
        for folder in folders:
            hand_over(folder)
    return folders


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m labkit.datasets.prepare")
    parser.add_argument("--events", type=Path, required=True, help="file to append progress to")
    parser.add_argument("--trial", required=True, help="id that the events carry")
    parser.add_argument("specs", nargs="+", metavar="SPEC_JSON", help="DatasetSpec.to_json()")
    options = parser.parse_args(arguments)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: stop.set())
    try:
        specs = [_parsed(text) for text in options.specs]
        with open(options.events, "a", encoding="utf-8") as file:
            report = Throttle(partial(_append, file, options.trial))
            prepare(specs, report, cancel=stop.is_set)
    except (SpecError, InsufficientSpaceError) as error:
        return _failed(error, 2)
    except BuildCancelled as error:
        return _failed(error, 130)
    except (DatasetError, OSError) as error:
        return _failed(error, 1)
    return 0


def _parsed(text: str) -> DatasetSpec:
    try:
        return DatasetSpec.from_json(json.loads(text))
    except json.JSONDecodeError as error:
        raise SpecError(
            asked=f"a dataset spec from {text!r}",
            found=f"it is not JSON ({error})",
            do="pass json.dumps(spec.to_json())",
        ) from None


def _failed(error: Exception, code: int) -> int:
    with contextlib.suppress(OSError):  # nobody reads it any more: the exit code still counts
        sys.stderr.write(" ".join(str(error).split()) + "\n")
        sys.stderr.flush()
    return code


def _append(file: TextIO, trial: str, done: int, total: int) -> None:
    # One flush a line: a reader sees whole lines, and ignores a torn last one.
    body = Preparing(done=done, total=total)
    event = Event(trial=trial, host=socket.gethostname(), rank=0, t=time.monotonic(), body=body)
    file.write(to_line(event))
    file.flush()


if __name__ == "__main__":
    sys.exit(main())
