"""build: the same samples in every layout, whole or not at all, once."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import lmdb
import numpy as np
import pytest

from data_gen import (
    KINDS,
    LAYOUTS,
    BuildCancelled,
    DatasetSpec,
    FolderError,
    Kind,
    Layout,
    ManifestError,
    Progress,
    SpaceError,
    build,
    read_manifest,
)
from data_gen.build import lock_path, partial_folder
from data_gen.lock import FileLock
from data_gen.progress import Meter

MakeSpec = Callable[..., DatasetSpec]
Usage = namedtuple("Usage", "total used free")


def stored(folder: Path, spec: DatasetSpec) -> list[bytes]:
    """The sample bytes, read with the plain libraries as a stranger would."""
    if spec.layout == "files":
        paths = sorted((folder / "samples").iterdir())
        if spec.kind == "volumes":
            return [np.load(path, mmap_mode="r").tobytes() for path in paths]
        return [path.read_bytes() for path in paths]
    if spec.layout == "hdf5":
        with h5py.File(folder / "data.h5") as file:
            if spec.kind == "volumes":
                return [file["volumes"][name][:].tobytes() for name in sorted(file["volumes"])]
            return [
                file[f"shards/{shard:06d}"][start : start + length].tobytes()
                for shard, start, length in file["index"][:]
            ]
    path = os.fspath(folder / "data.mdb")
    with lmdb.open(path, subdir=False, readonly=True, lock=False) as env, env.begin() as reader:
        return [bytes(value) for _, value in reader.cursor()]


@pytest.mark.parametrize("kind", KINDS)
def test_layouts_hold_the_same_bytes(kind: Kind, built: Path) -> None:
    manifests = [read_manifest(built / f"{kind}-{layout}") for layout in LAYOUTS]
    samples = [
        stored(built / f"{kind}-{layout}", manifest.spec)
        for layout, manifest in zip(LAYOUTS, manifests, strict=True)
    ]
    assert samples[0] == samples[1] == samples[2]
    assert len(samples[0]) == manifests[0].spec.count
    assert manifests[0].samples == manifests[1].samples == manifests[2].samples
    assert [len(data) for data in samples[0]] == [s.num_bytes for s in manifests[0].samples]


def test_number_of_threads_does_not_matter(make_spec: MakeSpec, tmp_path: Path) -> None:
    spec = make_spec("images", "files", count=200)
    one = build(spec, tmp_path / "one", workers=1)
    many = build(spec, tmp_path / "many", workers=5)
    assert one == many


def test_manifest_survives_the_disk(pair: tuple[Kind, Layout], built: Path) -> None:
    manifest = read_manifest(built / "-".join(pair))
    assert type(manifest).from_json(json.loads(json.dumps(manifest.to_json()))) == manifest
    assert manifest.versions["numpy"] == np.__version__


def test_shards_and_batches_roll_over(
    make_spec: MakeSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("data_gen.to_hdf5._SHARD_BYTES", 1000)
    monkeypatch.setattr("data_gen.to_lmdb._BATCH_BYTES", 1000)
    monkeypatch.setattr("data_gen.to_lmdb._SLACK_BYTES", 40960)
    samples = []
    for layout in LAYOUTS:
        spec = make_spec("text", layout, count=200)
        build(spec, tmp_path / layout)
        samples.append(stored(tmp_path / layout, spec))
    assert samples[0] == samples[1] == samples[2]


def test_existing_dataset_is_kept(make_spec: MakeSpec, tmp_path: Path) -> None:
    spec = make_spec("text", "files")
    first = build(spec, tmp_path / "data")
    before = (tmp_path / "data" / "manifest.json").stat().st_mtime_ns
    messages: list[Progress] = []
    assert build(spec, tmp_path / "data", progress=messages.append) == first
    assert (tmp_path / "data" / "manifest.json").stat().st_mtime_ns == before
    assert messages == []


def test_foreign_folder_is_never_touched(make_spec: MakeSpec, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(FolderError, match="something else"):
        build(make_spec("text", "files"), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    build(make_spec("text", "files"), tmp_path / "data")
    with pytest.raises(FolderError, match="another dataset"):
        build(make_spec("text", "files", seed=9), tmp_path / "data")


def test_a_file_in_the_way_is_an_error(make_spec: MakeSpec, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for target in (tmp_path / "file" / "data", tmp_path / "file"):
        with pytest.raises(FolderError):
            build(make_spec("text", "files"), target)


def test_empty_folder_is_taken(
    pair: tuple[Kind, Layout], make_spec: MakeSpec, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    build(make_spec(*pair), tmp_path / "data")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize("asked_before", [0, 1])
def test_cancel_leaves_nothing(
    pair: tuple[Kind, Layout], asked_before: int, make_spec: MakeSpec, tmp_path: Path
) -> None:
    answers: Iterator[bool] = iter([False] * asked_before + [True] * 9)
    # The first question of a build is asked while it waits for a lock: nobody holds this one.
    spec = make_spec(*pair, count=200 if pair[0] != "volumes" else 4)
    with pytest.raises(BuildCancelled):
        build(spec, tmp_path / "new" / "data", cancel=lambda: next(answers))
    assert list(tmp_path.iterdir()) == []


def test_interrupt_leaves_nothing(
    pair: tuple[Kind, Layout], make_spec: MakeSpec, tmp_path: Path
) -> None:
    def interrupt(state: Progress) -> None:
        if state.done_bytes:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(make_spec(*pair), tmp_path / "data", progress=interrupt)
    assert list(tmp_path.iterdir()) == []


def test_full_disk_is_told_before(
    make_spec: MakeSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: Usage(10**12, 10**12, 1000))
    with pytest.raises(SpaceError, match="1,000 bytes free"):
        build(make_spec("volumes", "files"), tmp_path / "data")
    assert list(tmp_path.iterdir()) == []


def test_full_disk_while_writing(
    pair: tuple[Kind, Layout],
    make_spec: MakeSpec,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*args: Any, **options: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    names = {
        "files": "data_gen.to_files.write_all",
        "hdf5": "data_gen.to_hdf5.file_record",
        "lmdb": "data_gen.to_lmdb.file_record",
    }
    if pair == ("images", "files"):
        monkeypatch.setattr("data_gen.images.encode", fail)
    else:
        monkeypatch.setattr(names[pair[1]], fail)
    with pytest.raises(SpaceError, match="full while writing"):
        build(make_spec(*pair), tmp_path / "data")
    assert list(tmp_path.iterdir()) == []


def test_leftovers_of_a_killed_build_are_removed(make_spec: MakeSpec, tmp_path: Path) -> None:
    target = tmp_path / "data"
    left = partial_folder(target)
    left.mkdir()
    (left / "half").write_text("x")
    lock_path(target).touch()
    build(make_spec("text", "hdf5"), target)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_two_threads_make_it_once(make_spec: MakeSpec, tmp_path: Path) -> None:
    begun: list[Progress] = []
    spec = make_spec("images", "files", count=100)

    def note(state: Progress) -> None:
        if state.done_bytes == 0:
            begun.append(state)

    def make() -> None:
        build(spec, tmp_path / "data", progress=note)

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(begun) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_waiting_for_another_can_be_cancelled(make_spec: MakeSpec, tmp_path: Path) -> None:
    lock = FileLock(lock_path(tmp_path / "data"))
    with lock.acquire(), pytest.raises(BuildCancelled):
        build(make_spec("text", "files"), tmp_path / "data", cancel=lambda: True)


def test_progress_counts_to_the_end(
    pair: tuple[Kind, Layout], make_spec: MakeSpec, tmp_path: Path
) -> None:
    messages: list[Progress] = []
    spec = make_spec(*pair)
    manifest = build(spec, tmp_path / "data", progress=messages.append)
    first, last = messages[0], messages[-1]
    assert (first.done_bytes, first.total_bytes, first.seconds_left) == (0, spec.total_bytes, None)
    assert last.done_bytes == last.total_bytes == sum(s.num_bytes for s in manifest.samples)
    assert (last.done_samples, last.seconds_left) == (7, 0.0)
    assert [m.done_bytes for m in messages] == sorted(m.done_bytes for m in messages)


def test_meter_tells_speed_and_time_left(make_spec: MakeSpec) -> None:
    now = [100.0]
    messages: list[Progress] = []
    spec = make_spec("volumes", "files", count=4)
    size = spec.sample_bytes
    meter = Meter(spec, messages.append, clock=lambda: now[0])
    now[0] = 100.05
    meter.add(size // 2, 0)
    assert len(messages) == 1, "too soon for another message"
    now[0] = 102.0
    meter.add(size // 2, 1)
    assert messages[-1].bytes_per_second == size / 2
    assert messages[-1].seconds_left == 6.0
    meter.add(3 * size, 3)
    assert messages[-1].seconds_left == 0.0


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 9}', '{"format": 1}'])
def test_damaged_manifest_is_no_dataset(text: str, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(ManifestError) as caught:
        read_manifest(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_every_flipped_byte_of_a_manifest_is_found(built: Path, tmp_path: Path) -> None:
    original = (built / "text-files" / "manifest.json").read_bytes()
    for position in range(0, len(original) - 1, 7):
        changed = bytearray(original)
        changed[position] ^= 0x10
        (tmp_path / "manifest.json").write_bytes(changed)
        with pytest.raises(ManifestError):
            read_manifest(tmp_path)
