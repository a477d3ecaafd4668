"""open_dataset: the samples that were written, or a clear error; under every start method."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from data_gen import LAYOUTS, DatasetSpec, Kind, Layout, build, read_manifest
from labkit.datasets import open_dataset
from labkit.errors import DatasetError, ParameterError

CopyStored = Callable[[Kind, Layout], Path]


def first(batch: list[Any]) -> Any:
    """Collate of batches of one; at module level so that spawn can pickle it."""
    return batch[0]


def plain(sample: Any) -> bytes:
    """A sample as bytes, to compare."""
    value = sample[0]
    return value.encode() if isinstance(value, str) else value.numpy().tobytes()


def test_samples_are_those_that_were_written(pair: tuple[Kind, Layout], stored: Path) -> None:
    folder = stored / "-".join(pair)
    dataset, manifest = open_dataset(folder), read_manifest(folder)
    assert len(dataset) == 7
    for index, record in enumerate(manifest.samples):
        value, number = dataset[index]
        if pair[0] == "images":
            assert (value.shape, value.dtype) == ((3, 48, 64), torch.uint8)
        else:
            assert zlib.crc32(plain((value,))) == record.crc32
        assert number == (record.num_bytes if pair[0] == "text" else record.label)
    assert plain(dataset[-1]) == plain(dataset[6])
    with pytest.raises(IndexError):
        dataset[7]
    dataset.close()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_image_transform_gets_a_picture(layout: Layout, stored: Path) -> None:
    dataset = open_dataset(stored / f"images-{layout}", transform=lambda image: image.size)
    assert dataset[0][0] == (64, 48)
    assert dataset.transform is not None
    dataset.transform = lambda image: image.mode
    assert dataset[0][0] == "RGB"
    dataset.close()


@pytest.mark.parametrize("access", ["read", "mmap"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_patch_is_the_same_box_of_the_whole(layout: Layout, access: Any, stored: Path) -> None:
    folder = stored / f"volumes-{layout}"
    if access == "mmap" and layout != "files":
        with pytest.raises(ParameterError, match="use access='read'"):
            open_dataset(folder, access=access)
        return
    whole = open_dataset(folder, access=access)
    patches = open_dataset(folder, access=access, patch=(5, 16, 9))
    places = set()
    for index in range(7):
        box = patches.box(index)  # type: ignore[attr-defined]
        places.add(str(box))
        patch, label = patches[index]
        assert patch.is_contiguous()
        assert torch.equal(patch, whole[index][0][box])
        assert label == whole[index][1]
    assert len(places) > 3
    whole.close()
    patches.close()


def test_volumes_share_memory_and_files_stay_as_they_are(stored: Path) -> None:
    folder = stored / "volumes-files"
    for access in ("read", "mmap"):
        dataset = open_dataset(folder, access=access)
        volume = dataset[2][0]
        before = volume[0, 0, 0].item()
        volume += 1
        assert volume[0, 0, 0] == before + 1
        assert dataset[2][0][0, 0, 0] == before


def test_length_repeats_the_samples(stored: Path) -> None:
    dataset = open_dataset(stored / "text-files", length=20)
    assert len(dataset) == 20
    assert dataset[9] == dataset[2]
    assert dataset[-1] == dataset[19] == dataset[5]


@pytest.mark.parametrize(
    ("kind", "options", "named"),
    [
        ("volumes", {"access": "ram"}, "'read' or 'mmap'"),
        ("volumes", {"patch": (99, 1, 1)}, "(12, 40, 56)"),
        ("volumes", {"patch": (1, 1)}, "(12, 40, 56)"),
        ("images", {"patch": (1, 1, 1)}, "needs volumes"),
        ("images", {"access": "mmap"}, "needs volumes"),
        ("text", {"length": 0}, "at least 1"),
    ],
)
def test_wrong_option_names_the_choices(
    kind: str, options: dict[str, Any], named: str, stored: Path
) -> None:
    with pytest.raises(ParameterError) as caught:
        open_dataset(stored / f"{kind}-files", **options)
    assert named in str(caught.value)


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_same_samples_under_every_start_method(method: str, stored: Path) -> None:
    """Handles are open in the parent, and each loader reads all nine datasets in one."""
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"{method} does not exist here")
    for access in ("read", "mmap"):
        datasets = [
            open_dataset(path, access=access if path.name == "volumes-files" else "read")
            for path in sorted(stored.iterdir())
        ]
        joined: torch.utils.data.ConcatDataset[Any] = torch.utils.data.ConcatDataset(datasets)
        expected = [
            (plain(sample), sample[1])
            for sample in DataLoader(joined, batch_size=1, collate_fn=first)
        ]
        assert len(expected) == 63
        loader = DataLoader(
            joined,
            batch_size=1,
            num_workers=2,
            multiprocessing_context=method,
            collate_fn=first,
            persistent_workers=True,
        )
        for _ in range(2):
            assert [(plain(sample), sample[1]) for sample in loader] == expected
        assert [
            (plain(sample), sample[1])
            for sample in DataLoader(joined, batch_size=1, collate_fn=first)
        ] == expected, "still open here"
        del loader
        for dataset in datasets:
            dataset.close()
        if access == "read" and method != "fork":
            break  # starting workers costs seconds; fork tries both


def test_pickle_carries_no_handle(pair: tuple[Kind, Layout], stored: Path) -> None:
    dataset = open_dataset(stored / "-".join(pair))
    expected = plain(dataset[3])
    data = pickle.dumps(dataset)
    assert len(data) < 4000
    other = pickle.loads(data)
    assert plain(other[3]) == expected
    dataset.close()
    other.close()


def test_two_datasets_of_one_folder(pair: tuple[Kind, Layout], stored: Path) -> None:
    one, other = open_dataset(stored / "-".join(pair)), open_dataset(stored / "-".join(pair))
    assert plain(one[1]) == plain(other[1])
    one.close()
    assert plain(other[2]) == plain(one[2])
    one.close()
    other.close()


def test_nothing_stays_open(stored: Path) -> None:
    folder = Path("/proc/self/fd")
    if not folder.exists():
        pytest.skip("needs /proc")
    gc.collect()
    before = len(os.listdir(folder))
    for path in stored.iterdir():
        dataset = open_dataset(path)
        assert dataset[0]
        del dataset
    gc.collect()
    assert len(os.listdir(folder)) == before


def data_path(folder: Path, layout: Layout) -> Path:
    name = {"hdf5": "data.h5", "lmdb": "data.mdb"}.get(layout)
    return folder / name if name else sorted((folder / "samples").iterdir())[3]


@pytest.mark.parametrize("lost", [1, 100, 10**9])
def test_truncated_file_is_an_error(
    pair: tuple[Kind, Layout], lost: int, copy_stored: CopyStored
) -> None:
    folder = copy_stored(*pair)
    path = data_path(folder, pair[1])
    os.truncate(path, max(0, path.stat().st_size - lost))
    with pytest.raises(DatasetError, match="verify"):
        open_dataset(folder)[3]


def test_missing_file_is_an_error(pair: tuple[Kind, Layout], copy_stored: CopyStored) -> None:
    folder = copy_stored(*pair)
    path = data_path(folder, pair[1])
    path.unlink()
    with pytest.raises(DatasetError, match=path.name):
        open_dataset(folder)


def test_foreign_file_is_an_error(
    pair: tuple[Kind, Layout], copy_stored: CopyStored, tmp_path: Path
) -> None:
    """A file of another dataset with the same shape in the place of this one's."""
    folder = copy_stored(*pair)
    spec = read_manifest(folder).spec
    other = DatasetSpec(kind=spec.kind, layout=spec.layout, count=7, shape=spec.shape, seed=4)
    build(other, tmp_path / "other")
    path, foreign = data_path(folder, pair[1]), data_path(tmp_path / "other", pair[1])
    size = path.stat().st_size
    shutil.copyfile(foreign, path)
    os.truncate(path, size)
    with pytest.raises(DatasetError):
        open_dataset(folder)[3]


def test_garbage_is_an_error(pair: tuple[Kind, Layout], copy_stored: CopyStored) -> None:
    folder = copy_stored(*pair)
    path = data_path(folder, pair[1])
    path.write_bytes(np.random.PCG64(1).random_raw(path.stat().st_size // 8 + 1).tobytes())
    os.truncate(path, path.stat().st_size)
    with pytest.raises(DatasetError):
        open_dataset(folder)[3]


def test_flipped_byte_of_a_small_sample_is_an_error(copy_stored: CopyStored) -> None:
    folder = copy_stored("images", "files")
    path = data_path(folder, "files")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(DatasetError, match="other bytes"):
        open_dataset(folder)[3]


def test_folder_without_manifest_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DatasetError) as caught:
        open_dataset(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert "manifest.json" in str(caught.value)
