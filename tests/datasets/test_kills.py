"""kill -9 at random moments of a generation: never a dataset that is taken for whole.

A host process imports data_gen once and forks a builder for each kill; else 180 interpreters would
have to start.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from data_gen import DatasetSpec, Kind, Layout, build, verify
from labkit.datasets import open_dataset
from labkit.errors import DatasetError

ROOT = Path(__file__).resolve().parents[2]
KILLS = 20
COUNTS: dict[Kind, tuple[int, tuple[int, ...]]] = {
    "images": (80, (96, 128)),
    "text": (400, (400,)),
    "volumes": (3, (24, 256, 256)),
}
HOST = """
import json, os, sys
import h5py, lmdb
from data_gen import DatasetSpec, build
while line := sys.stdin.readline():
    document, target = json.loads(line)
    pid = os.fork()
    if pid == 0:
        build(DatasetSpec.from_json(document), target)
        os._exit(0)
    print(pid, flush=True)
    sys.stdin.readline()
    print(os.waitpid(pid, 0)[1], flush=True)
"""


@pytest.fixture(scope="module")
def host() -> Iterator[subprocess.Popen[str]]:
    """The process that forks builders."""
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    paths = [os.fspath(ROOT), *filter(None, sys.path)]
    child = subprocess.Popen(
        [sys.executable, "-c", HOST],
        # A fork is right only from a single thread.
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OPENBLAS_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with child:
        yield child
        assert child.stdin is not None
        child.stdin.close()
    assert child.returncode == 0


def start(host: subprocess.Popen[str], spec: DatasetSpec, target: Path) -> int:
    assert host.stdin is not None
    assert host.stdout is not None
    host.stdin.write(json.dumps([spec.to_json(), os.fspath(target)]) + "\n")
    host.stdin.flush()
    return int(host.stdout.readline())


def end(host: subprocess.Popen[str]) -> int:
    """The wait status of the builder."""
    assert host.stdin is not None
    assert host.stdout is not None
    host.stdin.write("wait\n")
    host.stdin.flush()
    return int(host.stdout.readline())


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_killed_generation_is_never_taken_for_whole(
    pair: tuple[Kind, Layout], host: subprocess.Popen[str], tmp_path: Path
) -> None:
    kind, layout = pair
    count, shape = COUNTS[kind]
    spec = DatasetSpec(kind=kind, layout=layout, count=count, shape=shape, seed=1)
    target = tmp_path / "data"
    moments = random.Random(f"{kind} {layout}")
    began = time.perf_counter()
    start(host, spec, target)
    assert end(host) == 0
    seconds = time.perf_counter() - began
    shutil.rmtree(target)
    killed = 0
    for number in range(4 * KILLS):
        pid = start(host, spec, target)
        time.sleep(moments.uniform(0, seconds))
        os.kill(pid, signal.SIGKILL)  # the host has not waited for it: the pid is still its own
        if end(host) == 0:
            seconds *= 0.9  # it was faster than the first, aim earlier
        else:
            killed += 1
        if target.exists():
            assert verify(target) == []
            open_dataset(target).close()
            shutil.rmtree(target)
        else:
            with pytest.raises(DatasetError):
                open_dataset(target)
            for left in tmp_path.iterdir():
                if left.is_dir():
                    assert not (left / "manifest.json").exists() or verify(left) == []
        if number % 5 == 4:
            build(spec, target)
            assert verify(target) == []
            assert [path.name for path in tmp_path.iterdir()] == ["data"]
            shutil.rmtree(target)
        if killed == KILLS:
            return
    pytest.fail(f"only {killed} builds could be killed before they were done")
