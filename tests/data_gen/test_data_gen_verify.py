"""verify: whatever is done to a dataset is found, and named."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import h5py
import lmdb
import pytest

from data_gen import KINDS, Kind, Layout, read_manifest, verify

CopyDataset = Callable[[Kind, Layout], Path]
DATA = {"hdf5": "data.h5", "lmdb": "data.mdb"}


def sample_path(folder: Path, index: int) -> Path:
    return sorted((folder / "samples").iterdir())[index]


def data_path(folder: Path, layout: Layout, index: int = 3) -> Path:
    return sample_path(folder, index) if layout == "files" else folder / DATA[layout]


def flip(path: Path, position: int) -> None:
    with open(path, "r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 0x40]))


def test_whole_dataset_has_no_problems(pair: tuple[Kind, Layout], built: Path) -> None:
    assert verify(built / "-".join(pair)) == []


@pytest.mark.slow  # children read the damaged files
def test_flipped_byte_of_a_sample_is_named(
    pair: tuple[Kind, Layout], copy_dataset: CopyDataset
) -> None:
    folder = copy_dataset(*pair)
    path = data_path(folder, pair[1])
    needle = read_sample(folder, pair, 3)
    flip(path, path.read_bytes().index(needle) + len(needle) // 2)
    problems = verify(folder)
    if pair[1] == "files":
        assert [problem.where for problem in problems] == [f"samples/{path.name}"]
    else:
        assert [problem.where for problem in problems] == [path.name, f"{path.name}, sample 3"]
    assert all("bytes were changed" in problem.what for problem in problems)


def read_sample(folder: Path, pair: tuple[Kind, Layout], index: int) -> bytes:
    """Enough bytes from the middle of a sample to find it in its file."""
    kind, layout = pair
    if layout == "lmdb":
        path = os.fspath(folder / "data.mdb")
        with lmdb.open(path, subdir=False, readonly=True, lock=False) as env, env.begin() as reader:
            return bytes(reader.get(b"%08d" % index, b""))[100:200]
    if layout == "hdf5":
        with h5py.File(folder / "data.h5") as file:
            if kind == "volumes":
                data: bytes = file[f"volumes/{index:08d}"][:].tobytes()
                return data[100:200]
            shard, start, _ = file["index"][index]
            found: bytes = file[f"shards/{shard:06d}"][start + 100 : start + 200].tobytes()
            return found
    return sample_path(folder, index).read_bytes()[-100:]


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["hdf5", "lmdb"])
def test_flipped_byte_anywhere_in_the_file_is_found(
    layout: Layout, copy_dataset: CopyDataset
) -> None:
    """Also in the index of the library, which may crash on it: not this process."""
    folder = copy_dataset("text", layout)
    path = data_path(folder, layout)
    places = random.Random(0).sample(range(path.stat().st_size), 5)
    for position in [0, *places]:
        flip(path, position)
        assert path.name in {problem.where for problem in verify(folder)}, position
        flip(path, position)
    assert verify(folder) == []


@pytest.mark.slow
@pytest.mark.parametrize("lost", [1, 4096])
def test_truncation_is_named(
    pair: tuple[Kind, Layout], lost: int, copy_dataset: CopyDataset
) -> None:
    folder = copy_dataset(*pair)
    path = data_path(folder, pair[1])
    os.truncate(path, max(0, path.stat().st_size - lost))
    first = verify(folder)[0]
    assert first.where.endswith(path.name)
    assert first.what.startswith("truncated")


def test_missing_file_is_named(pair: tuple[Kind, Layout], copy_dataset: CopyDataset) -> None:
    folder = copy_dataset(*pair)
    path = data_path(folder, pair[1])
    path.unlink()
    assert [str(problem) for problem in verify(folder)] == [
        f"{path.relative_to(folder).as_posix()}: missing"
    ]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_missing_sample_is_named(kind: Kind, copy_dataset: CopyDataset) -> None:
    folder = copy_dataset(kind, "lmdb")
    path = os.fspath(folder / "data.mdb")
    with (
        lmdb.open(path, subdir=False, lock=False, map_size=1 << 24) as env,
        env.begin(write=True) as writer,
    ):
        writer.delete(b"00000002")
    assert "data.mdb, sample 2: missing" in map(str, verify(folder))
    if kind == "volumes":
        folder = copy_dataset(kind, "hdf5")
        with h5py.File(folder / "data.h5", "a") as file:
            del file["volumes/00000002"]
        assert any(
            problem.where == "data.h5, sample 2" and problem.what.startswith("missing")
            for problem in verify(folder)
        )


def test_changed_header_of_a_volume_is_found(copy_dataset: CopyDataset) -> None:
    folder = copy_dataset("volumes", "files")
    flip(sample_path(folder, 0), 20)
    assert [problem.what for problem in verify(folder)] == ["the header was changed"]


def test_foreign_file_is_named(pair: tuple[Kind, Layout], copy_dataset: CopyDataset) -> None:
    folder = copy_dataset(*pair)
    (folder / "notes.txt").write_text("x")
    assert list(map(str, verify(folder))) == ["notes.txt: does not belong to the dataset"]


def test_no_dataset_is_a_problem(tmp_path: Path) -> None:
    assert [problem.where for problem in verify(tmp_path)] == ["manifest.json"]
    assert [problem.where for problem in verify(tmp_path / "nowhere")] == ["manifest.json"]


def test_verify_changes_nothing(pair: tuple[Kind, Layout], copy_dataset: CopyDataset) -> None:
    folder = copy_dataset(*pair)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    verify(folder)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    assert read_manifest(folder).spec.kind == pair[0]
