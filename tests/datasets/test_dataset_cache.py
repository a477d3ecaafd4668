"""The cache: made once, kept while used, removed when old; nothing half-made counts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import namedtuple
from pathlib import Path

import pytest

from data_gen import BuildCancelled, DatasetSpec, Progress
from data_gen.lock import FileLock
from labkit.datasets import cache
from labkit.errors import DatasetError, InsufficientSpaceError

ROOT = Path(__file__).resolve().parents[2]
Usage = namedtuple("Usage", "total used free")


def spec(seed: int = 0, layout: str = "hdf5") -> DatasetSpec:
    """64 KiB of volumes."""
    return DatasetSpec(
        kind="volumes",
        layout=layout,  # type: ignore[arg-type]
        count=1,
        shape=(8, 64, 64),
        seed=seed,
    )


def age(folder: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(folder / "manifest.json", (then, then))


def test_root_follows_the_environment_now(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache.cache_root() == home
    monkeypatch.delenv("LABKIT_HOME")
    assert cache.cache_root().parts[-2:] == ("labkit", "datasets")


def test_ensure_makes_it_once(home: Path) -> None:
    messages: list[Progress] = []
    assert cache.missing(spec())
    folder = cache.ensure(spec(), progress=messages.append)
    assert folder == home / spec().key()
    assert not cache.missing(spec())
    count = len(messages)
    assert count >= 2
    age(folder, 5000)
    assert cache.ensure(spec(), progress=messages.append) == folder
    assert len(messages) == count
    (found,) = cache.listing()
    assert (found.spec, found.in_use) == (spec(), False)
    assert time.time() - found.last_used_seconds < 60


def test_damaged_dataset_is_made_again(home: Path) -> None:
    folder = cache.ensure(spec())
    os.truncate(folder / "data.h5", 1000)
    assert cache.missing(spec())
    cache.ensure(spec())
    assert not cache.missing(spec())


def test_cap_removes_what_was_used_longest_ago(home: Path) -> None:
    folders = [cache.ensure(spec(seed)) for seed in range(3)]
    for folder, hours in zip(folders, (2, 3, 1), strict=True):
        age(folder, hours * 3600)
    total = sum(dataset.num_bytes for dataset in cache.listing())
    cache.ensure(spec(9), cap_bytes=total + 1000)
    assert [folder.exists() for folder in folders] == [True, False, True]


def test_cap_spares_what_is_in_use_or_fresh(home: Path) -> None:
    folders = [cache.ensure(spec(seed)) for seed in range(2)]
    age(folders[0], 7200)
    with cache.in_use(folders[0]):
        age(folders[0], 7200)
        with pytest.raises(InsufficientSpaceError, match="in use"):
            cache.ensure(spec(9), cap_bytes=150_000)
    assert cache.missing(spec(9))
    age(folders[0], 7200)
    cache.ensure(spec(9), cap_bytes=150_000)
    assert [folder.exists() for folder in folders] == [False, True]


def test_spec_over_the_cap_is_refused(home: Path) -> None:
    with pytest.raises(InsufficientSpaceError, match="the cache may hold"):
        cache.ensure(spec(), cap_bytes=1000)


def test_full_disk_is_labkits_error(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: Usage(10**12, 10**12, 1000))
    with pytest.raises(InsufficientSpaceError, match="1,000 bytes free"):
        cache.ensure(spec())


def test_home_that_is_a_file_is_labkits_error(home: Path) -> None:
    home.parent.write_text("mine")
    with pytest.raises(DatasetError, match="LABKIT_HOME"):
        cache.ensure(spec())
    assert cache.listing() == []
    assert cache.clean() == []


def test_cancel_leaves_nothing(home: Path) -> None:
    with pytest.raises(BuildCancelled):
        cache.ensure(spec(), cancel=lambda: True)
    assert list(home.iterdir()) == []


def test_clean_spares_what_is_in_use(home: Path) -> None:
    folders = [cache.ensure(spec(seed)) for seed in range(3)]
    with cache.in_use(folders[1]), cache.in_use(folders[1]):
        assert [dataset.in_use for dataset in cache.listing()].count(True) == 1
        assert {dataset.folder for dataset in cache.clean()} == {folders[0], folders[2]}
    assert [dataset.folder for dataset in cache.clean(keep_bytes=1 << 20)] == []
    assert [dataset.folder for dataset in cache.clean()] == [folders[1]]
    assert cache.listing() == []


def test_clean_stops_when_enough_is_free(home: Path) -> None:
    folders = [cache.ensure(spec(seed)) for seed in range(3)]
    for hours, folder in enumerate(folders):
        age(folder, (9 - hours) * 3600)
    one = cache.listing()[0].num_bytes
    assert [dataset.folder for dataset in cache.clean(keep_bytes=2 * one)] == folders[:1]


def test_leftovers_are_removed(home: Path) -> None:
    cache.ensure(spec())
    for name in (".old.partial", ".trash-old-1", ".in-use"):
        (home / name).mkdir()
    for name in (".old.partial/x", ".trash-old-1/x", ".in-use/dead.1-2", ".older.lock"):
        (home / name).touch()
    with FileLock(home / ".busy.lock").acquire():
        (home / ".busy.partial").mkdir()
        cache.clean(keep_bytes=1 << 30)
        names = {path.name for path in home.iterdir()}
        assert names == {spec().key(), ".busy.lock", ".busy.partial", ".in-use"}
    assert list((home / ".in-use").iterdir()) == []


def test_missing_dataset_cannot_be_used(home: Path, tmp_path: Path) -> None:
    cache.ensure(spec())
    for folder in (home / "nothing", tmp_path):
        with pytest.raises(DatasetError), cache.in_use(folder):
            pass
    assert list((home / ".in-use").iterdir()) == []


def test_folder_outside_the_cache_needs_no_mark(stored: Path, home: Path) -> None:
    with cache.in_use(stored / "text-files"):
        assert not (stored / ".in-use").exists()


def test_estimate_is_told_before(home: Path) -> None:
    small, large = cache.estimate(spec()), cache.estimate(spec())
    assert small == large
    assert small.num_bytes >= spec().total_bytes
    assert small.seconds > 0


@pytest.mark.slow
def test_import_is_light() -> None:
    code = "import sys, labkit.datasets.cache; print('torch' in sys.modules, 'h5py' in sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["False", "False"]


def environment() -> dict[str, str]:
    paths = [os.fspath(ROOT), *filter(None, sys.path)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_mark_ends_with_its_process(home: Path) -> None:
    """A killed user of a dataset does not keep it for ever."""
    folder = cache.ensure(spec())
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom labkit.datasets import cache\n"
        "with cache.in_use(Path(sys.argv[1])):\n    print('in', flush=True)\n    time.sleep(60)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, os.fspath(folder)],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == "in\n"
        assert cache.clean() == []
        assert cache.listing()[0].in_use
        child.kill()
    assert not cache.listing()[0].in_use
    assert len(cache.clean()) == 1


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_two_processes_make_it_once(home: Path) -> None:
    """Three ask at the same time; one makes it, the others wait and find it."""
    code = (
        "import sys, json\nfrom data_gen import DatasetSpec\nfrom labkit.datasets import cache\n"
        "sys.stdin.readline()\nsteps = []\n"
        "cache.ensure(DatasetSpec.from_json(json.loads(sys.argv[1])), progress=steps.append)\n"
        "print(len(steps) > 0)\n"
    )
    wanted = DatasetSpec(kind="volumes", layout="files", count=8, shape=(32, 512, 512), seed=0)
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code, json.dumps(wanted.to_json())],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    threads = []
    answers: list[str] = []
    for child in children:
        thread = threading.Thread(target=lambda c=child: answers.append(c.communicate("go\n")[0]))
        thread.start()
        threads.append(thread)
    for thread in threads:
        thread.join()
    assert sorted(answers) == ["False\n", "False\n", "True\n"]
    assert [path.name for path in home.iterdir() if path.name != ".in-use"] == [wanted.key()]
