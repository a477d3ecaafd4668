"""What happens in a run, one JSON line each; frozen records without I/O.

An event is a header (which trial, host and rank, at which moment) and a body. Event times are
seconds of ``time.monotonic`` on the host that wrote them; durations are ``time.perf_counter``.
It must not read or write files and must not import torch.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any

FORMAT_VERSION = 1
"""1: first form. A reader accepts every version up to its own; runs of each stay in tests/data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """The run waits for the machine: another measurement holds it."""

    position: int
    """How many runs are before this one; 0 when the machine is ours."""
    holder: str
    """Who measures now (name and process id), for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparing:
    """A dataset is being written; counts are bytes."""

    done: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Every dataset of the run is there; trials follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialStarted:
    """The trial's process begins to make its loader."""

    pid: int
    launch: str
    """How the process came to be: ``cold`` (fresh interpreter), ``forked`` (from a host that had
    imported torch) or ``hosted`` (the host ran it itself, where there is no safe fork)."""
    started: float
    """Monotonic seconds just before ``make_loader``: the first batch is counted from here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchBuilt:
    """What building one batch cost, stamped in the process that built it."""

    worker: int
    """Worker id; -1 in the main process."""
    pid: int
    epoch: int
    batch: int
    started: float
    """Monotonic seconds at which the first sample was asked for."""
    fetch_seconds: float
    """Time in the dataset's ``__getitem__`` less its transform, summed over the batch."""
    transform_seconds: float
    """Time in the dataset's ``transform``, summed over the batch."""
    collate_seconds: float
    done: float
    """Monotonic seconds at which the collated batch was ready."""
    handover_seconds: float
    """The part of the consumer's wait that came after the batch was ready (0 if it was queued)."""
    cpu_seconds: float
    """CPU time that the building process has used since it began, all threads, at ``done``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLoaded:
    """The consumer has received one batch and done its step."""

    epoch: int
    batch: int
    wait_seconds: float
    """Time inside ``next``: for the first batch of an epoch this includes starting workers."""
    step_seconds: float
    samples: int
    num_bytes: int
    """Bytes of the tensors in the batch."""
    warmup: bool
    cpu_seconds: float
    """CPU time of the consuming process since it began, after the step."""
    facts: dict[str, float] = field(default_factory=dict)
    """Numbers that the experiment's step returned about this batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessMemory:
    """Memory of one process, in bytes."""

    pid: int
    role: str
    """``main`` for the process that consumes, ``child`` for its descendants."""
    rss: int
    """Resident pages, shared ones counted in full in every process that maps them."""
    pss: int
    """Resident pages, shared ones divided by the number of processes that map them."""
    anonymous: int
    """The part of PSS that no file backs: memory that was allocated."""
    private: int
    """Resident pages that no other process maps: they die with this one."""
    shared: int = 0
    """Resident pages that another process maps as well, in full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySampled:
    """Memory of the trial's whole process tree at one moment, in bytes, seen from outside."""

    processes: tuple[ProcessMemory, ...]
    shared_memory: int
    """Shared-memory files of the tree, each counted once by inode, unlinked ones included."""
    cache: int
    """Page cache charged to the trial's control group; 0 where there is no such group."""
    held: bool = False
    """Whether the trial asked for it, and kept its consumer still meanwhile."""
    source: str
    """How it was read: one of `MEMORY_SOURCES`."""
    group_bytes: int | None = None
    """Anonymous and shared memory as the trial's control group counts it; None without one."""

    @property
    def total(self) -> int:
        """Anonymous PSS of the tree plus shared memory once per inode: what the tree holds."""
        return sum(process.anonymous for process in self.processes) + self.shared_memory


MEMORY_DEFINITIONS = {
    "rss": "Resident pages, shared ones counted in full in every process that maps them.",
    "pss": "Resident pages, shared ones divided by the number of processes that map them.",
    "anonymous": "The part of PSS that no file backs: memory that was allocated.",
    "private": "Resident pages that no other process maps: they die with this one.",
    "shared": "Resident pages that another process maps as well, in full.",
    "shared_memory": "Shared-memory files of the tree, each counted once by inode, unlinked ones "
    "included.",
    "cache": "Page cache charged to the trial's control group; 0 where there is no such group.",
    "group_bytes": "Anonymous and shared memory as the trial's control group counts it; None "
    "without one.",
    "total": "Anonymous PSS of the tree plus shared memory once per inode: what the tree holds.",
}
"""Each number's one sentence, for tooltips; a test holds them equal to the docstrings above."""

MEMORY_SOURCES = {
    "smaps": "Read from Linux's own books: exact.",
    "psutil": "Read through psutil: private memory stands for anonymous PSS, and batches in flight "
    "between workers and consumer are not seen.",
}
"""How memory was read, and how far it is to be trusted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountersSampled:
    """Counters of the trial's process tree, cumulative since the trial began."""

    voluntary_switches: int
    involuntary_switches: int
    device_read_bytes: int
    load: float
    """Cores kept busy by processes that are not of this run since the last sample; -1 unknown."""
    held: bool = False
    """Whether the trial asked for it, as for the memory sampled with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarningCaught:
    """A Python warning of the trial, shown as a fact (such as torch's suggested worker count)."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialEnded:
    """The last word on a trial, written by the warden."""

    status: str
    """A value of `labkit.records.Status`."""
    detail: str
    """One sentence for people; empty when completed."""
    evidence: dict[str, Any] = field(default_factory=dict)
    """What the status rests on: exit code, signal, peak, traceback, mechanism."""
    sampling_seconds: float = 0.0
    """CPU time that the warden spent on watching this trial."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentEnded:
    """The run is over; nothing follows."""

    status: str
    detail: str


Body = (
    Queued | Preparing | Prepared | TrialStarted | BatchBuilt | BatchLoaded | MemorySampled
    | CountersSampled | WarningCaught | TrialEnded | ExperimentEnded
)  # fmt: skip
_encode = json.JSONEncoder(separators=(",", ":")).encode  # json.dumps makes one at every call
_BODIES: dict[str, type[Any]] = {body.__name__: body for body in Body.__args__}
_KNOWN = {
    kind: frozenset(each.name for each in dataclasses.fields(kind))
    for kind in (*_BODIES.values(), ProcessMemory)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line of a run: who says it, when, and what."""

    trial: str
    """Id of the trial; empty for the run as a whole."""
    host: str
    rank: int
    t: float
    """Seconds of ``time.monotonic`` at the writer."""
    body: Body


def place_of(trial: str, settings: int) -> tuple[int, int] | None:
    """Index of the setting and repeat of a trial's id: ``003-1`` is repeat 1 of the setting 3.

    Returns:
        None for the run as a whole, and for ids that are not among this many settings.
    """
    number, dash, repeat = trial.partition("-")
    if not (dash and number.isdecimal() and repeat.isdecimal()) or int(number) >= settings:
        return None
    return int(number), int(repeat)


def _fields(record: Any) -> dict[str, Any]:
    """Like ``dataclasses.asdict`` without its deep copies: this runs beside what is measured."""
    values = {name: getattr(record, name) for name in record.__slots__}
    if isinstance(record, MemorySampled):
        values["processes"] = [_fields(process) for process in record.processes]
    return values


def to_line(event: Event) -> str:
    """The event as one JSON line, newline included."""
    body = _fields(event.body)
    head = {"v": FORMAT_VERSION, "kind": type(event.body).__name__, "trial": event.trial}
    rest = {"host": event.host, "rank": event.rank, "t": event.t}
    return _encode(head | rest | {"body": body}) + "\n"


def from_line(line: str) -> Event | None:
    """The event of a line; None for a torn line or a kind that this version does not know.

    Fields that a later version added are ignored, so that an older reader still opens the run.
    """
    try:
        raw = json.loads(line)
        kind = _BODIES.get(raw["kind"])
        if kind is None:
            return None
        known, values = _KNOWN[kind], raw["body"]
        if not values.keys() <= known:
            values = {name: value for name, value in values.items() if name in known}
        if kind is MemorySampled:
            known = _KNOWN[ProcessMemory]
            values["processes"] = tuple(
                ProcessMemory(**{name: item[name] for name in item.keys() & known})
                for item in values["processes"]
            )
        return Event(
            trial=raw["trial"], host=raw["host"], rank=raw["rank"], t=raw["t"], body=kind(**values)
        )
    except (ValueError, KeyError, TypeError):
        return None
