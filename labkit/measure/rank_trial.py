"""A rank: joins its process group once, then runs its part of each trial that is ordered.

Run by torchrun as ``-m labkit.measure.rank_trial RUN FOLDER``. Orders are files in the folder of
the launch: torchrun closes descriptors, so that pipes do not reach a rank. It must not judge and
must not sample memory: the warden does that from outside.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

from labkit.measure.processes import die_with_parent
from labkit.measure.rank_progress import Phase, RankProgress
from labkit.measure.reference import load_experiment
from labkit.measure.store import EventWriter, RunFolder, host_name, write_json
from labkit.measure.trial import EXIT_FAILED, EXIT_OUT_OF_MEMORY, redirect_to, run_trial
from labkit.records import Context, Experiment, Step, Trial, trial_from_json

LAUNCH = "ranks"
_POLL_SECONDS = 0.005
_MEET_SECONDS = 3600.0
"""A last resort: the warden ends a trial at its own timeout, and knows who kept the others."""

Meet = Callable[[], None]


def join_group(timeout_seconds: float) -> tuple[Meet, Any]:
    """Join torchrun's process group: nccl where every rank of this host has a GPU, else gloo.

    Args:
        timeout_seconds: after which an operation that some rank does not take part in fails.

    Returns:
        A barrier, which waits as long for the others, and torchrun's store, which outlives a rank.
    """
    import torch
    import torch.distributed as dist
    from torch.distributed.rendezvous import rendezvous

    local, beside = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    backend = "gloo"
    if torch.cuda.is_available() and torch.cuda.device_count() >= beside:
        torch.cuda.set_device(local)
        backend = "cpu:gloo,cuda:nccl"
    limit = timedelta(seconds=timeout_seconds)
    store, rank, ranks = next(rendezvous("env://", timeout=limit))
    dist.init_process_group(backend, store=store, rank=rank, world_size=ranks, timeout=limit)
    control = dist.new_group(backend="gloo", timeout=limit)  # a barrier that names who is missing
    return lambda: dist.monitored_barrier(control, timeout=limit), store


def run_rank_trial(
    trial: Trial, experiment: Experiment, context: Context, writer: EventWriter,
    progress: RankProgress, meet: Meet,
) -> None:  # fmt: skip
    """This rank's part of a trial: all begin together, and none leaves before the last is done.

    Raises:
        Exception: whatever the reader's loader or step raises, or the group when a rank is lost.
    """
    progress.begin(trial.id)
    meet()
    run_trial(trial, _marking(experiment, progress), context, writer, LAUNCH)
    progress.mark(Phase.MEETING)
    meet()
    writer.flush()
    progress.mark(Phase.DONE)


def _marking(experiment: Experiment, progress: RankProgress) -> Experiment:
    """The same experiment, whose step says where it is."""

    def make_step(trial: Trial, context: Context) -> Step:
        step = experiment.make_step(trial, context) if experiment.make_step else None

        def marking(batch: Any) -> Any:
            progress.mark(Phase.STEPPING)
            facts = step(batch) if step is not None else None
            progress.steps += 1
            progress.mark(Phase.LOADING)
            return facts

        return marking

    return replace(experiment, make_step=make_step)


def _next_order(folder: Path, number: int) -> str:
    """The id of the next trial; waits for it."""
    path = folder / f"order-{number}.json"
    while not path.exists():
        time.sleep(_POLL_SECONDS)
    return str(json.loads(path.read_text("utf-8"))["trial"])


def error_file(run: RunFolder, trial: str, rank: int) -> Path:
    """Where a rank says what it failed of."""
    return run.trial_file(f"{trial}.{rank}", "error")


def main() -> None:
    """Join, say ready, and run what is ordered until the warden ends this launch."""
    die_with_parent(os.getppid())
    run, folder = RunFolder(Path(sys.argv[1])), Path(sys.argv[2])
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    redirect_to(folder / f"{rank}.out", folder / f"{rank}.err")
    plan = run.read_plan()
    experiment = load_experiment(plan["experiment"])
    for name in experiment.preload:  # or the first trial of a launch would pay for it
        importlib.import_module(name)
    meet, _ = join_group(_MEET_SECONDS)
    trial_id = ""
    try:
        with EventWriter(run, what=folder.name, rank=rank, flush_seconds=0) as writer:
            progress = RankProgress(folder, rank)
            for number in count():
                trial_id = _next_order(folder, number)
                text = run.trial_file(trial_id, "json").read_text("utf-8")
                trial = trial_from_json(json.loads(text))
                context = Context(
                    dataset_folder=plan["datasets"].get(trial.setting.dataset_key),
                    rank=rank, world_size=ranks, host=host_name(),
                    look_file=None if rank else str(run.trial_file(trial_id, "look")),
                )  # fmt: skip
                run_rank_trial(trial, experiment, context, writer, progress, meet)
    except BaseException as error:
        text, kind = traceback.format_exc(), type(error).__name__
        write_json(error_file(run, trial_id, rank), {
            "type": kind, "message": str(error), "traceback": text, "t": time.monotonic(),
        })  # fmt: skip
        sys.stderr.write(text)
        sys.stderr.flush()
        os._exit(EXIT_OUT_OF_MEMORY if isinstance(error, MemoryError) else EXIT_FAILED)


if __name__ == "__main__":
    main()
