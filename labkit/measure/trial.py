"""The trial process: makes the loader, consumes it, and writes what happened.

Run as ``python -m labkit.measure.trial RUN TRIAL`` (cold), or called in a process that the host
forked. It must not judge and must not sample memory: the warden does that from outside.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from labkit.errors import ExperimentError
from labkit.events import BatchBuilt, BatchLoaded, TrialStarted, WarningCaught
from labkit.measure.processes import die_with_parent
from labkit.measure.reference import load_experiment
from labkit.measure.store import EventWriter, RunFolder, host_name, write_json
from labkit.records import Context, Experiment, Step, Trial, trial_from_json

EXIT_FAILED = 1
EXIT_OUT_OF_MEMORY = 77
"""MemoryError reached the top: evidence of out of memory that needs no watching from outside."""

_MOST_WARNINGS = 20


def run_trial(trial: Trial, experiment: Experiment, context: Context, writer: EventWriter,
              launch: str) -> None:  # fmt: skip
    """Consume the trial's loader until warm-up and measured batches are done.

    Raises:
        ExperimentError: the loader gave no batch.
        Exception: whatever the reader's loader or step raises.
    """
    with _warnings_as_events(trial, writer):
        started = time.monotonic()
        writer.write(trial.id, TrialStarted(pid=os.getpid(), launch=launch, started=started),
                     flush=True)  # fmt: skip
        loader = experiment.make_loader(trial, context)
        step = experiment.make_step(trial, context) if experiment.make_step else _no_step
        remaining = trial.setting.warmup + trial.setting.batches
        epoch = 0
        while remaining > 0:
            done = _run_epoch(loader, step, trial, writer, epoch, remaining)
            if done == 0:
                raise ExperimentError(
                    asked=f"{remaining} more batches from the loader of {experiment.name}",
                    found=f"epoch {epoch} ended without a batch",
                    do="make the dataset larger than one batch, or set drop_last=False",
                )
            remaining -= done
            epoch += 1


def _run_epoch(
    loader: Any, step: Step, trial: Trial, writer: EventWriter, epoch: int,
    most: int,
) -> int:  # fmt: skip
    """Consume one epoch, at most `most` batches; returns how many came."""
    warmup = trial.setting.warmup
    before = trial.setting.warmup + trial.setting.batches - most
    iterator = None
    for batch in range(most):
        asked = time.monotonic()
        start = time.perf_counter()
        if iterator is None:
            iterator = iter(loader)  # starting workers is part of the first batch's wait
        try:
            item = next(iterator)
        except StopIteration:
            return batch
        wait_seconds = time.perf_counter() - start
        received = time.monotonic()
        stamp = item if hasattr(item, "collate_seconds") else None
        content = item if stamp is None else stamp.batch
        step_start = time.perf_counter()
        facts = step(content)
        step_seconds = time.perf_counter() - step_start
        if stamp is not None:
            writer.write(trial.id, _built(stamp, epoch, batch, asked, received))
        loaded = BatchLoaded(
            epoch=epoch,
            batch=batch,
            wait_seconds=wait_seconds,
            step_seconds=step_seconds,
            samples=count_samples(content) if stamp is None else stamp.samples,
            num_bytes=count_bytes(content),
            warmup=before + batch < warmup,
            cpu_seconds=time.process_time(),
            facts=dict(facts or {}),
        )
        writer.write(trial.id, loaded)
    return most


def _built(stamp: Any, epoch: int, batch: int, asked: float, received: float) -> BatchBuilt:
    return BatchBuilt(
        worker=stamp.worker,
        pid=stamp.pid,
        epoch=epoch,
        batch=batch,
        started=stamp.started,
        fetch_seconds=stamp.fetch_seconds,
        transform_seconds=stamp.transform_seconds,
        collate_seconds=stamp.collate_seconds,
        done=stamp.done,
        # Only what came after the batch was ready *and* was asked for kept the consumer waiting.
        handover_seconds=max(0.0, received - max(stamp.done, asked)),
        cpu_seconds=stamp.cpu_seconds,
    )


def _no_step(batch: Any) -> None:
    """The consumer of an experiment without a step: takes the batch and drops it."""


def _leaves(batch: Any) -> Iterator[Any]:
    if isinstance(batch, Mapping):
        for value in batch.values():
            yield from _leaves(value)
    elif isinstance(batch, Sequence) and not isinstance(batch, (str, bytes)):
        for value in batch:
            yield from _leaves(value)
    else:
        yield batch


def count_samples(batch: Any) -> int:
    """Samples in a batch: the first dimension of its first array; the length of a plain list."""
    for leaf in _leaves(batch):
        shape = getattr(leaf, "shape", None)
        if shape is not None:
            return int(shape[0]) if len(shape) else 1
    return len(batch) if isinstance(batch, Sequence) and not isinstance(batch, str) else 1


def count_bytes(batch: Any) -> int:
    """Bytes of the arrays in a batch."""
    return sum(int(getattr(leaf, "nbytes", 0)) for leaf in _leaves(batch))


@contextlib.contextmanager
def _warnings_as_events(trial: Trial, writer: EventWriter) -> Iterator[None]:
    """A warning (torch suggests a number of workers, say) is a fact of the run, not a print."""
    seen: set[str] = set()

    def show(message: Warning | str, *args: Any, **kwargs: Any) -> None:
        text = str(message)
        if text not in seen and len(seen) < _MOST_WARNINGS:
            seen.add(text)
            writer.write(trial.id, WarningCaught(message=text))

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = show
        yield


def execute(
    run: RunFolder, trial_id: str, launch: str, experiment: Experiment | None = None,
    join: str | None = None,
) -> int:  # fmt: skip
    """Run a trial of a run folder; returns the exit code and leaves `<id>.error` on failure.

    Args:
        run: the run folder.
        trial_id: which trial of it.
        launch: how this process came to be, see `labkit.events.TrialStarted`.
        experiment: the plan's experiment, where it has been loaded already.
        join: ``cgroup.procs`` of the control group that is to hold this process, if any.
    """
    try:
        if join is not None:
            Path(join).write_text("0")  # before anything is allocated
        trial = trial_from_json(json.loads(run.trial_file(trial_id, "json").read_text("utf-8")))
        plan = run.read_plan()
        folder = plan["datasets"].get(trial.setting.dataset_key)
        if experiment is None:
            experiment = load_experiment(plan["experiment"])
        look_file = str(run.trial_file(trial_id, "look"))
        context = Context(dataset_folder=folder, host=host_name(), look_file=look_file)
        with EventWriter(run, what=trial_id) as writer:
            run_trial(trial, experiment, context, writer, launch)
    except BaseException as error:
        text = traceback.format_exc()
        kind = type(error).__name__
        write_json(run.trial_file(trial_id, "error"),
                   {"type": kind, "message": str(error), "traceback": text})  # fmt: skip
        return EXIT_OUT_OF_MEMORY if isinstance(error, MemoryError) else EXIT_FAILED
    return 0


def redirect_output(run: RunFolder, trial_id: str) -> None:
    """What a trial prints goes to its own files: it can harm nobody there, and is kept."""
    redirect_to(run.trial_file(trial_id, "out"), run.trial_file(trial_id, "err"))


def redirect_to(out: Path, err: Path) -> None:
    """Standard output and error go to these files, and standard input is empty."""
    for path, descriptor in ((out, 1), (err, 2)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, descriptor)
        os.close(file)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)


def main() -> None:
    """A cold trial: this interpreter was started for it alone."""
    run, trial_id, parent = RunFolder(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3])
    die_with_parent(parent)
    redirect_output(run, trial_id)
    code = execute(run, trial_id, "cold")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # loaders that are still alive must not delay the end, nor change the code


if __name__ == "__main__":
    main()
