"""The sweep over ranks and workers on several hosts, each rank of it started by torchrun itself.

    torchrun --nnodes N --nproc-per-node R --rdzv-backend c10d --rdzv-endpoint HOST:PORT \\
        -m labkit.ranks --workers 0,1,2,4 --out DIR

Rank 0 writes one run, which ``labkit show DIR`` opens. The other ranks keep their events on their
own host and hand them over at the end of each trial, so that no folder need be shared. There is no
warden: memory is not sampled, and a trial that hangs ends with its timeout. It must not import
torch at import.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

from labkit.errors import LabkitError, ParameterError
from labkit.events import ExperimentEnded, TrialEnded
from labkit.measure import plan as plans
from labkit.measure.rank_progress import RankProgress
from labkit.measure.rank_trial import Meet, join_group, run_rank_trial
from labkit.measure.reference import load_experiment, reference
from labkit.measure.store import EventWriter, RunFolder, create_run_at, host_name
from labkit.measure.texts import broadcast_text, gather_texts
from labkit.planning import specs_of
from labkit.records import Context, Experiment, Status, Trial, trial_from_json

_SETTLE_SECONDS = 5.0
"""After a failure the ranks that live say so within this time; whose host is silent is lost."""
_FAILED = "labkit/failed/"


class _Stopped(Exception):
    """torchrun ends this rank, because another one failed or the reader asked for it."""


@dataclass(slots=True)
class _Rank:
    """This process among the ranks."""

    rank: int
    local: int
    ranks: int
    store: Any
    meet: Meet
    hosts: list[str]
    """Host of every rank; known on rank 0."""
    folder: RunFolder
    """Of this process: where its events are until they are handed over."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry of every rank; exits with 0 when all was measured, 1 on a failure, 2 on bad input."""
    options = _options(arguments)
    if options.host_name:
        os.environ["LABKIT_HOST_NAME"] = options.host_name
    if "RANK" not in os.environ:
        sys.exit("labkit.ranks is started by torchrun: torchrun --nnodes N ... -m labkit.ranks")
    signal.signal(signal.SIGTERM, _stop)
    place = Path(tempfile.mkdtemp(prefix="labkit-ranks-"))
    try:
        sys.exit(_measure(options, place))
    except LabkitError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="torchrun ... -m labkit.ranks")
    parser.add_argument("--out", type=Path, required=True, help="empty folder for the run (rank 0)")
    parser.add_argument("--workers", default="0,1,2,4", help="loader workers of each rank")
    parser.add_argument("--lab", default="rank_oversubscription", help="name or file of the lab")
    parser.add_argument("--size", choices=plans.SIZES, default="full")
    parser.add_argument("--repeats", type=int, help="rounds; the lab's own number without it")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=120.0,
                        help="seconds that a rank waits for the others before it fails")
    parser.add_argument("--host-name", help="how this host is called in the run")
    parser.add_argument("--param", action="append", default=[], metavar="NAME=VALUE",
                        help="another parameter of the lab, such as batch_size=8")  # fmt: skip
    return parser.parse_args(arguments)


def _stop(number: int, frame: FrameType | None) -> None:
    raise _Stopped


def _measure(options: argparse.Namespace, place: Path) -> int:
    """Join the others, take over rank 0's plan, run it; returns the exit code."""
    experiment = load_experiment(reference(options.lab))
    meet, store = join_group(options.timeout)
    own = RunFolder(place)
    own.events.mkdir()
    me = _Rank(
        rank=int(os.environ["RANK"]), local=int(os.environ["LOCAL_RANK"]),
        ranks=int(os.environ["WORLD_SIZE"]), store=store, meet=meet,
        hosts=gather_texts(host_name()), folder=own,
    )  # fmt: skip
    text = ""
    if me.rank == 0:
        try:
            text = json.dumps(_plan(options, experiment, me))
        except LabkitError as error:
            text = json.dumps({"error": str(error)})
    plan = json.loads(broadcast_text(text))
    if "error" in plan:  # every rank ends, and none waits for the one that knew
        if me.rank == 0:
            sys.stderr.write(f"{plan['error']}\n")
        return 2
    with contextlib.ExitStack() as stack:
        if me.rank == 0:
            me.folder = RunFolder(options.out)
        datasets = stack.enter_context(_datasets(plan["specs"], me))
        writer = stack.enter_context(
            EventWriter(me.folder, what="ranks", rank=me.rank, flush_seconds=0)
        )
        trials = [trial_from_json(raw) for raw in plan["trials"]]
        return _run(trials, experiment, datasets, writer, me, place)


def _plan(options: argparse.Namespace, experiment: Experiment, me: _Rank) -> dict[str, Any]:
    """What every rank is told; makes the run folder. Rank 0 only."""
    from labkit.machine.environment import read_environment

    given = _given(options, experiment) | {"ranks": [me.ranks]}
    asked = plans.check_asked(
        experiment, given, size=options.size, repeats=options.repeats, seed=options.seed,
        timeout=options.timeout,
    )  # fmt: skip
    environment = read_environment(options.out.absolute())
    # What fits is asked of all hosts together: each holds its part of the ranks.
    room = environment.memory_available_bytes * len(set(me.hosts))
    settings = plans.make_settings(
        experiment, asked.params, replace(environment, memory_available_bytes=room)
    )
    trials = plans.make_trials(settings, 0, experiment, asked)
    create_run_at(
        options.out,
        plans.draft(reference(options.lab), experiment, asked)
        | plans.details(environment, settings, {}, ())
        | {"hosts": list(dict.fromkeys(me.hosts))},
    )
    return {"trials": [trial.to_json() for trial in trials], "specs": list(specs_of(settings))}


def _given(options: argparse.Namespace, experiment: Experiment) -> dict[str, Any]:
    """Parameters of the command line, as numbers or words."""
    given: dict[str, Any] = {}
    for item in (f"workers={options.workers}", *options.param):
        name, equals, text = item.partition("=")
        try:
            values = [json.loads(part) for part in text.split(",")]
        except ValueError:
            values = []
        if not equals or not values:
            raise ParameterError(
                asked=f"--param {item}", found="not NAME=VALUE with a number",
                do="give such as batch_size=8, or several values with commas between",
            )  # fmt: skip
        sweep = any(param.name == name and param.sweep for param in experiment.params)
        given[name] = values if sweep else values[0]
    return given


@contextlib.contextmanager
def _datasets(specs: Sequence[str], me: _Rank) -> Iterator[dict[str, str]]:
    """Where each dataset lies on this host, whose first rank makes what is missing."""
    from data_gen import DatasetSpec
    from labkit.datasets import cache

    with contextlib.ExitStack() as held:
        folders: dict[str, str] = {}
        for text in specs:
            spec = DatasetSpec.from_json(json.loads(text))
            if me.local == 0:
                held.enter_context(cache.in_use(cache.ensure(spec)))
            folders[text] = str(cache.folder_of(spec))
        me.meet()
        yield folders


def _run(
    trials: Sequence[Trial], experiment: Experiment, datasets: dict[str, str],
    writer: EventWriter, me: _Rank, place: Path,
) -> int:  # fmt: skip
    """All trials in lockstep with the others; rank 0 takes their events over after each."""
    progress = RankProgress(place, me.rank)
    sent, trial = 0, None
    try:
        for trial in trials:
            folder = datasets.get(trial.setting.dataset_key)
            context = Context(
                dataset_folder=folder, rank=me.rank, world_size=me.ranks, host=host_name()
            )
            run_rank_trial(trial, experiment, context, writer, progress, me.meet)
            sent = _hand_over(me, sent)
            if me.rank == 0:
                writer.write(trial.id, TrialEnded(status=Status.COMPLETED, detail=""))
    except BaseException as error:
        with contextlib.suppress(_Stopped):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun ends whoever is still there
        status, detail = _tell_failure(error, trial, progress, me)
        if me.rank == 0:
            if trial is not None:
                writer.write(trial.id, TrialEnded(status=status, detail=detail))
            writer.write("", ExperimentEnded(status=status, detail=detail))
            sys.stderr.write(f"{detail}\n")
        return 1
    if me.rank == 0:
        writer.write("", ExperimentEnded(status=Status.COMPLETED, detail=""))
        sys.stdout.write(f"measured: labkit show {me.folder.path}\n")
    return 0


def _hand_over(me: _Rank, sent: int) -> int:
    """Send rank 0 what was written since the last time; returns how far that reaches."""
    text, reached = "", sent
    if me.rank:
        (file,) = me.folder.events.glob("*.jsonl")
        with open(file, encoding="utf-8") as stream:
            stream.seek(sent)
            text, reached = stream.read(), stream.tell()
    for rank, part in enumerate(gather_texts(text)):
        if part:
            name = f"{me.hosts[rank]}-{rank}-ranks.jsonl"
            with open(me.folder.events / name, "a", encoding="utf-8") as stream:
                stream.write(part)
    return reached


def _tell_failure(
    error: BaseException, trial: Trial | None, progress: RankProgress, me: _Rank
) -> tuple[Status, str]:
    """Say through torchrun's store that this rank has failed; on rank 0 also who is to blame.

    Returns:
        Status and detail for the run.
    """
    name = "it was stopped" if isinstance(error, _Stopped) else f"{type(error).__name__}: {error}"
    told = {"order": 0, "text": name, "steps": progress.steps, "stopped": type(error) is _Stopped}
    with contextlib.suppress(Exception):  # the store may be gone with its host
        told["order"] = me.store.add(f"{_FAILED}count", 1)
        me.store.set(f"{_FAILED}{me.rank}", json.dumps(told))
    if me.rank:
        return Status.FAILED, ""
    reports = _reports(me)
    reports[0] = told
    where = f" of trial {trial.id} ({trial.setting.label})" if trial is not None else ""
    after = f"after step {progress.steps}{where}"
    silent = {me.hosts[rank] for rank in range(me.ranks) if rank not in reports}
    lost = sorted(silent - {me.hosts[rank] for rank in reports})
    if lost:
        names = ", ".join(f"host {host}" for host in lost)
        return Status.FAILED, f"{names} {'was' if len(lost) == 1 else 'were'} lost {after}"
    dead = sorted(set(range(me.ranks)) - reports.keys())
    if dead:
        return Status.FAILED, f"rank {dead[0]} on host {me.hosts[dead[0]]} was lost {after}"
    if all(each["stopped"] for each in reports.values()):
        return Status.CANCELLED, f"it was stopped {after}"
    failed = {rank: each for rank, each in reports.items() if not each["stopped"]}
    first = min(failed, key=lambda rank: int(failed[rank]["order"]))
    who = f"rank {first} on host {me.hosts[first]}"
    return Status.FAILED, f"{who} {after}: {failed[first]['text']}"


def _reports(me: _Rank) -> dict[int, dict[str, Any]]:
    """What the ranks that still live have said, by rank; waits for them."""
    found: dict[int, dict[str, Any]] = {}
    deadline = time.monotonic() + _SETTLE_SECONDS
    while len(found) < me.ranks and time.monotonic() < deadline:
        for rank in range(me.ranks):
            with contextlib.suppress(Exception):
                if rank not in found and me.store.check([f"{_FAILED}{rank}"]):
                    found[rank] = json.loads(me.store.get(f"{_FAILED}{rank}"))
        time.sleep(0.05)
    return found


if __name__ == "__main__":
    main()
