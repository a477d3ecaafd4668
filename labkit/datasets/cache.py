"""The cache of datasets below the user's cache folder; must not import torch, or read a sample.

A dataset lies in `<root>/<spec.key()>`; the time of its manifest is when it was last used. What
carries a mark (`labkit.datasets.marks`) is not removed. Removal is a rename, then a deletion.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from data_gen import (
    BuildCancelled,
    DataGenError,
    DatasetSpec,
    FolderError,
    Manifest,
    ManifestError,
    Progress,
    SpaceError,
    build,
    read_manifest,
)
from data_gen.build import lock_path, needed_bytes, partial_folder
from data_gen.lock import FileLock
from data_gen.manifest import MANIFEST_NAME
from data_gen.sizes import format_bytes
from data_gen.writing import usable_cores
from labkit.datasets.marks import is_marked, remove_dead_marks, user_mark
from labkit.datasets.readers import whole_manifest
from labkit.errors import DatasetError, InsufficientSpaceError

CAP_BYTES = 20 << 30
"""What the cache may hold, unless a caller says otherwise."""

_GRACE_SECONDS = 600
# On the 2-core machine where labkit is developed: a core for images, in all for the others.
_BYTES_PER_SECOND = {"images": 33e6, "text": 8e6, "volumes": 300e6}
_TRASH = ".trash-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What making a dataset will cost."""

    num_bytes: int
    """On the disk; the expected size for images and text."""
    seconds: float
    """A rough guess from speeds measured on one machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedDataset:
    """A dataset in the cache."""

    folder: Path
    spec: DatasetSpec
    num_bytes: int
    last_used_seconds: float
    """Seconds since the epoch."""
    in_use: bool


def cache_root() -> Path:
    """`$LABKIT_HOME/datasets` if that is set now, else the user's cache folder for labkit."""
    home = os.environ.get("LABKIT_HOME")
    if home:
        return Path(home).absolute() / "datasets"
    return Path(platformdirs.user_cache_dir("labkit", appauthor=False)) / "datasets"


def folder_of(spec: DatasetSpec) -> Path:
    """Where the dataset lies in the cache, once it is made."""
    return cache_root() / spec.key()


def missing(spec: DatasetSpec) -> bool:
    """Whether `ensure` would have to make the dataset."""
    try:
        return whole_manifest(folder_of(spec)).spec != spec
    except DatasetError:
        return True


def estimate(spec: DatasetSpec) -> Estimate:
    """What making the dataset costs, whether or not it is there."""
    cores = usable_cores() if spec.kind == "images" else 1
    seconds = 0.1 + spec.total_bytes / (_BYTES_PER_SECOND[spec.kind] * cores)
    return Estimate(num_bytes=needed_bytes(spec), seconds=seconds)


def ensure(
    spec: DatasetSpec,
    *,
    progress: Callable[[Progress], None] | None = None,
    cancel: Callable[[], bool] | None = None,
    cap_bytes: int = CAP_BYTES,
) -> Path:
    """The folder of the dataset, which is made if it is missing and counts as used now.

    Two processes that ask for the same dataset make it once. What was used longest ago is removed
    when the cache would pass `cap_bytes`, but nothing in use or used within the last ten minutes.

    Args:
        spec: the dataset.
        progress: called about ten times a second while it is being made.
        cancel: asked often; True ends with `data_gen.BuildCancelled`, and nothing is left.
        cap_bytes: what the cache may hold.

    Raises:
        InsufficientSpaceError: the disk or the cap has no room for it.
        DatasetError: the cache folder cannot be written.
        data_gen.BuildCancelled: `cancel` said so.
    """
    folder = folder_of(spec)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(folder.parent)
        if missing(spec):
            if (folder / MANIFEST_NAME).exists():
                _remove(folder)  # damaged: files are missing or cut off
            _make_room(spec, cap_bytes)
            build(spec, folder, progress=progress, cancel=cancel)
        _touch(folder)
    except BuildCancelled:
        raise
    except SpaceError as error:
        raise InsufficientSpaceError(asked=error.asked, found=error.found, do=error.do) from error
    except (FolderError, DataGenError) as error:
        raise DatasetError(asked=error.asked, found=error.found, do=error.do) from error
    except OSError as error:
        raise DatasetError(
            asked=f"the dataset {spec.key()} in {folder.parent}",
            found=f"{type(error).__name__}: {error}",
            do="make that folder writable, or set LABKIT_HOME to one that is",
        ) from error
    return folder


@contextlib.contextmanager
def in_use(folder: Path) -> Iterator[None]:
    """Keeps a dataset of the cache from being removed, as long as this process or a fork lives.

    A folder elsewhere needs no mark and gets none.

    Raises:
        DatasetError: there is no dataset.
    """
    folder = Path(folder).absolute()
    if folder.parent != cache_root() or not os.access(folder.parent, os.W_OK):
        _manifest(folder)
        yield
        return
    mark = user_mark(folder)
    # Under the dataset's lock, so that `_remove` does not look between the mark and the check.
    with FileLock(lock_path(folder)).acquire():
        _manifest(folder)
        mark.acquire()
    with mark:
        _touch(folder)
        try:
            yield
        finally:
            _touch(folder)  # a long use counts as one until its end


def listing() -> list[CachedDataset]:
    """The whole datasets in the cache, those used longest ago first."""
    root = cache_root()
    found = []
    for folder in sorted(root.iterdir()) if root.is_dir() else []:
        if folder.name.startswith(".") or not folder.is_dir():
            continue
        with contextlib.suppress(ManifestError, FileNotFoundError):
            manifest = read_manifest(folder)
            found.append(
                CachedDataset(
                    folder=folder,
                    spec=manifest.spec,
                    num_bytes=manifest.num_bytes,
                    last_used_seconds=(folder / MANIFEST_NAME).stat().st_mtime,
                    in_use=is_marked(folder),
                )
            )
    return sorted(found, key=lambda dataset: dataset.last_used_seconds)


def clean(*, keep_bytes: int = 0) -> list[CachedDataset]:
    """Removes datasets that are not in use, those used longest ago first, and all leftovers.

    Args:
        keep_bytes: stop as soon as the cache holds no more than this.

    Returns:
        What was removed.
    """
    root = cache_root()
    if root.is_dir():
        _remove_leftovers(root)
    datasets = listing()
    total = sum(dataset.num_bytes for dataset in datasets)
    removed = []
    for dataset in datasets:
        if total > keep_bytes and _remove(dataset.folder):
            removed.append(dataset)
            total -= dataset.num_bytes
    return removed


def _manifest(folder: Path) -> Manifest:
    try:
        return read_manifest(folder)
    except ManifestError as error:
        raise DatasetError(asked=error.asked, found=error.found, do=error.do) from error


def _make_room(spec: DatasetSpec, cap_bytes: int) -> None:
    """Removes what was used longest ago until the spec fits under the cap."""
    asked = f"{format_bytes(spec.total_bytes)} for {spec.key()}"
    if spec.total_bytes > cap_bytes:
        raise InsufficientSpaceError(
            asked=asked,
            found=f"the cache may hold {format_bytes(cap_bytes)}",
            do="ask for fewer or smaller samples",
        )
    datasets = listing()
    total = sum(dataset.num_bytes for dataset in datasets)
    for dataset in datasets:
        if total + spec.total_bytes <= cap_bytes:
            return
        idle_seconds = time.time() - dataset.last_used_seconds
        if idle_seconds > _GRACE_SECONDS and _remove(dataset.folder):
            total -= dataset.num_bytes
    if total + spec.total_bytes > cap_bytes:
        raise InsufficientSpaceError(
            asked=asked,
            found=f"{format_bytes(total)} of the {format_bytes(cap_bytes)} that the cache may hold "
            "are in use, or were within the last ten minutes",
            do="end the other runs, or run `labkit data clean`",
        )


def _touch(folder: Path) -> None:
    with contextlib.suppress(PermissionError):  # a cache that others share and we only read
        os.utime(folder / MANIFEST_NAME)


def _remove(folder: Path) -> bool:
    """Removes a dataset unless it is in use or being made; tells whether it did."""
    lock = FileLock(lock_path(folder))
    if not lock.try_acquire():
        return False
    with lock:
        if is_marked(folder):
            return False
        trash = folder.with_name(f"{_TRASH}{folder.name}-{uuid.uuid4().hex[:8]}")
        try:
            folder.rename(trash)
        except OSError:  # gone already, or open on Windows
            return False
    shutil.rmtree(trash, ignore_errors=True)
    return True


def _remove_leftovers(root: Path) -> None:
    """Removes what killed processes left: half-made datasets, half-removed ones, locks, marks."""
    for path in root.glob(f"{_TRASH}*"):
        shutil.rmtree(path, ignore_errors=True)
    for path in [*root.glob(".*.partial"), *root.glob(".*.lock")]:
        target = root / path.name.removeprefix(".").rpartition(".")[0]
        lock = FileLock(lock_path(target))
        if lock.try_acquire():
            with lock:
                shutil.rmtree(partial_folder(target), ignore_errors=True)
    remove_dead_marks(root)
