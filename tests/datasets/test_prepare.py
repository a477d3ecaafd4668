"""prepare: datasets before the trials, with progress as events; nothing left when it is ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from data_gen import BuildCancelled, DatasetSpec
from labkit.datasets import cache
from labkit.datasets.prepare import Throttle, prepare
from labkit.events import Preparing, from_line

ROOT = Path(__file__).resolve().parents[2]


def spec(seed: int, count: int = 2, planes: int = 8) -> DatasetSpec:
    return DatasetSpec(
        kind="volumes", layout="files", count=count, shape=(planes, 64, 64), seed=seed
    )


def start(events: Path, *specs: str) -> subprocess.Popen[str]:
    paths = [os.fspath(ROOT), *filter(None, sys.path)]
    command = ["-m", "labkit.datasets.prepare", "--trial", "t1", "--events"]
    return subprocess.Popen(
        [sys.executable, *command, os.fspath(events), *specs],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_several_specs_make_one_count(home: Path) -> None:
    told: list[tuple[int, int]] = []
    specs = [spec(0), spec(1), spec(0)]
    folders = prepare(specs, lambda done, total: told.append((done, total)))
    assert folders == [cache.folder_of(wanted) for wanted in specs]
    assert {total for _, total in told} == {2 * spec(0).total_bytes}
    assert told == sorted(told)
    assert told[0][0] == 0
    assert told[-1][0] == told[-1][1]


def test_what_is_there_counts_nothing(home: Path) -> None:
    prepare([spec(0)], lambda done, total: None)
    told: list[tuple[int, int]] = []
    prepare([spec(0)], lambda done, total: told.append((done, total)))
    assert told == []
    prepare([spec(0), spec(1)], lambda done, total: told.append((done, total)))
    assert told[-1] == (spec(1).total_bytes, spec(1).total_bytes)


def test_expected_sizes_add_up_to_the_total(home: Path) -> None:
    images = DatasetSpec(kind="images", layout="hdf5", count=300, shape=(48, 64), seed=0)
    told: list[tuple[int, int]] = []
    prepare([images, spec(0)], lambda done, total: told.append((done, total)))
    assert all(0 <= done <= total for done, total in told)
    assert told == sorted(told)
    assert told[-1][0] == told[-1][1]


def test_cancel_ends_it(home: Path) -> None:
    with pytest.raises(BuildCancelled):
        prepare([spec(0)], lambda done, total: None, cancel=lambda: True)
    assert cache.listing() == []


def test_at_most_five_a_second() -> None:
    now = [0.0]
    told: list[int] = []
    throttle = Throttle(lambda done, total: told.append(done), clock=lambda: now[0])
    for done in range(101):
        throttle(done, 100)
        now[0] += 0.0625
    assert told == [*range(0, 100, 4), 100], "every quarter of a second"


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_command_appends_events(home: Path, tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text("before\n")
    child = start(events, json.dumps(spec(0).to_json()), json.dumps(spec(1).to_json()))
    assert child.communicate() == ("", "")
    assert child.returncode == 0
    first, *lines = events.read_text().splitlines()
    assert first == "before"
    found = [from_line(line) for line in lines]
    assert found[0] is not None
    assert found[0].trial == "t1"
    whole = 2 * spec(0).total_bytes
    assert found[-1] is not None
    assert found[-1].body == Preparing(done=whole, total=whole)
    assert len(cache.listing()) == 2


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "text", ["{", "{}", json.dumps({**spec(0).to_json(), "layout": "zarr"}), "huge"]
)
def test_bad_input_ends_with_2(text: str, home: Path, tmp_path: Path) -> None:
    if text == "huge":  # 30 GB: over the cap of the cache
        text = json.dumps(spec(0, count=60_000, planes=64).to_json())
    child = start(tmp_path / "events.jsonl", text)
    _, errors = child.communicate()
    assert child.returncode == 2
    (line,) = errors.splitlines()
    assert all(word in line for word in ("asked:", "found:", "do:"))


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_ended_while_writing_leaves_no_dataset(
    number: signal.Signals, home: Path, tmp_path: Path
) -> None:
    wanted = spec(0, count=200, planes=2048)
    child = start(tmp_path / "events.jsonl", json.dumps(wanted.to_json()))
    with child:
        while not (home / f".{wanted.key()}.partial" / "samples").exists():
            assert child.poll() is None
            time.sleep(0.005)
        child.send_signal(number)
        _, errors = child.communicate()
    assert child.returncode == (130 if number == signal.SIGTERM else -signal.SIGKILL), errors
    assert cache.missing(wanted)
    assert cache.listing() == []
    if number == signal.SIGKILL:
        cache.clean()
    assert list(home.iterdir()) == []


def test_what_was_prepared_is_kept_until_the_trials_begin(home: Path) -> None:
    """Nobody holds it between the end of the command and the first trial."""
    wanted = spec(0)
    (folder,) = prepare([wanted], lambda done, total: None)
    assert cache.listing()[0].in_use
    assert cache.clean() == []
    mark = home / ".in-use" / f"{wanted.key()}.handed-over"
    os.utime(mark, (0, 0))
    assert not cache.listing()[0].in_use
    assert [dataset.folder for dataset in cache.clean()] == [folder]
    assert not mark.exists()


def test_what_was_made_first_is_kept_while_the_next_is_made(home: Path) -> None:
    removed: list[object] = []
    prepare([spec(0), spec(1)], lambda done, total: removed.extend(cache.clean()))
    assert removed == []
