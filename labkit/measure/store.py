"""The run folder: the transport between processes, and what stays of a run.

    <stamp>-<name>/plan.json            what was asked, on which machine, with which settings
                   trials/<id>.json     one trial; beside it its stdout, stderr and error
                   events/<host>-<rank>[-<what>].jsonl   appended by one process each
                   journal.jsonl        what the warden started and made, for cleaning up after it
                   warden.json          its pid and start mark, gone once it has cleaned up itself

It must not start processes and must not draw. Nothing is ever unpickled.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from labkit.errors import StoreError
from labkit.events import FORMAT_VERSION, Body, Event, from_line, to_line

_FLUSH_SECONDS = 0.05
"""A flush costs 4-12 us, a batch of in-memory tensors 132 us: so writes wait for each other."""


def host_name() -> str:
    """The name of this host, fit for a file name; ``LABKIT_HOST_NAME`` overrides it."""
    name = os.environ.get("LABKIT_HOST_NAME") or platform.node().split(".")[0] or "host"
    return "".join(letter if letter.isalnum() else "_" for letter in name)


class RunFolder:
    """Paths within one run folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.plan = path / "plan.json"
        self.trials = path / "trials"
        self.events = path / "events"
        self.journal = path / "journal.jsonl"
        self.warden = path / "warden.json"

    def trial_file(self, trial: str, ending: str) -> Path:
        """Where a trial keeps its ``json``, ``out``, ``err`` or ``error``."""
        return self.trials / f"{trial}.{ending}"

    def read_plan(self) -> dict[str, Any]:
        """The plan.

        Raises:
            StoreError: there is none, or a later labkit wrote it.
        """
        asked = f"the run in {self.path}"
        try:
            plan: dict[str, Any] = json.loads(self.plan.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise StoreError(
                asked=asked,
                found=f"no readable plan.json ({type(error).__name__})",
                do="give the folder of a run, such as `labkit show` lists without an argument",
            ) from error
        if not isinstance(plan, dict) or plan.get("format", FORMAT_VERSION + 1) > FORMAT_VERSION:
            raise StoreError(
                asked=asked,
                found="a format that this labkit does not know",
                do=f"open it with a newer labkit (this one reads formats up to {FORMAT_VERSION})",
            )
        return plan


def create_run(root: Path, name: str, plan: dict[str, Any]) -> RunFolder:
    """Make a new run folder with its plan.

    Raises:
        StoreError: the folder cannot be written.
    """
    stamp = time.strftime("%Y%m%d-%H%M%S")
    try:
        root.mkdir(parents=True, exist_ok=True)
        for attempt in itertools.count():
            path = root / (f"{stamp}-{name}" + (f"-{attempt}" if attempt else ""))
            try:
                path.mkdir()
                break
            except FileExistsError:
                continue
        return _fill(path, plan)
    except OSError as error:
        raise StoreError(
            asked=f"a run folder in {root}",
            found=f"it cannot be written ({error.strerror or error})",
            do="free some space or set LABKIT_HOME to a folder that you can write",
        ) from error


def create_run_at(path: Path, plan: dict[str, Any]) -> RunFolder:
    """Make this very folder a run with its plan; it may exist, but must be empty.

    Raises:
        StoreError: something is in it, or it cannot be written.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        found = f"{next(path.iterdir()).name!r} is in it" if any(path.iterdir()) else ""
        if not found:
            return _fill(path, plan)
    except OSError as error:
        found = f"it cannot be written ({error.strerror or error})"
    raise StoreError(
        asked=f"a run in {path}", found=found, do="give a folder that is empty, or not there yet"
    )


def _fill(path: Path, plan: dict[str, Any]) -> RunFolder:
    folder = RunFolder(path)
    folder.trials.mkdir()
    folder.events.mkdir()
    write_json(folder.plan, {"format": FORMAT_VERSION} | plan)
    return folder


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file that is either whole or not there."""
    part = path.with_suffix(path.suffix + f".{os.getpid()}.part")
    part.write_text(json.dumps(value), encoding="utf-8")
    os.replace(part, path)


class EventWriter:
    """Appends events to the file of one process; flushes when 50 ms have passed."""

    def __init__(
        self, folder: RunFolder, *, what: str = "", rank: int = 0,
        flush_seconds: float = _FLUSH_SECONDS, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """Open the file of one process.

        Args:
            folder: the run.
            what: tells the files of one host and rank apart.
            rank: of the process that writes.
            flush_seconds: how long an event may wait for others; 0 where the writer may be killed
                and its last event counts.
            clock: of the events.
        """
        self.host = host_name()
        self._flush_seconds = flush_seconds
        self.rank = rank
        self._clock = clock
        name = f"{self.host}-{rank}" + (f"-{what}" if what else "")
        self._file: IO[str] = open(  # noqa: SIM115 - lives as long as the writer
            folder.events / f"{name}.jsonl", "a", encoding="utf-8", newline="\n"
        )
        self._waiting: list[Event] = []
        self._flushed = clock()

    def write(self, trial: str, body: Body, *, flush: bool = False) -> None:
        """Append one event; it is in the file after 50 ms of further writes, or at once."""
        now = self._clock()
        self._waiting.append(
            Event(trial=trial, host=self.host, rank=self.rank, t=now, body=body)
        )
        if flush or now - self._flushed >= self._flush_seconds:
            self.flush()

    def flush(self) -> None:
        """Write out what waits."""
        if self._waiting:
            self._file.write("".join(map(to_line, self._waiting)))
            self._file.flush()
            self._waiting.clear()
        self._flushed = self._clock()

    def close(self) -> None:
        """Flush and close."""
        self.flush()
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()


class EventTail:
    """Reads the events that were appended since the last look, whole lines only."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._offsets: dict[str, int] = {}

    def read(self) -> list[Event]:
        """New events of all processes, in the order of their times."""
        events: list[Event] = []
        for path in self._grown():
            offset = self._offsets.get(path, 0)
            with open(path, "rb") as file:
                file.seek(offset)
                block = file.read()
            whole = block[: block.rfind(b"\n") + 1]  # a torn last line waits for its end
            self._offsets[path] = offset + len(whole)
            for line in whole.decode("utf-8", "replace").splitlines():
                event = from_line(line)
                if event is not None:
                    events.append(event)
        events.sort(key=lambda event: event.t)
        return events

    def _grown(self) -> list[str]:
        """Files with something new: asked twenty times a second, of a file for each trial."""
        if not self._folder.events.is_dir():
            return []  # the run has only just been asked for
        with os.scandir(self._folder.events) as entries:
            return sorted(
                entry.path
                for entry in entries
                if entry.name.endswith(".jsonl")
                and os.stat(entry.path).st_size > self._offsets.get(entry.path, 0)
            )


def read_events(folder: RunFolder) -> list[Event]:
    """All events of a run; a torn last line is ignored."""
    return EventTail(folder).read()
