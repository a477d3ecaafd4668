"""Makes a dataset on disk, whole or not at all; prints nothing and knows no layout's details.

The samples are written into `.NAME.partial` beside the folder, the manifest last, and then the
folder is renamed: whatever kills the process leaves no folder that has a manifest and is not
whole. A lock file `.NAME.lock` makes two processes that want the same dataset make it once; the
next one to hold it removes what a killed one left.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from data_gen.errors import BuildCancelled, FolderError, ManifestError, SpaceError
from data_gen.lock import FileLock
from data_gen.manifest import Manifest, read_manifest, write_manifest
from data_gen.progress import Meter, ProgressCallback
from data_gen.spec import GENERATOR_VERSION, DatasetSpec
from data_gen.writing import write_samples

Cancel = Callable[[], bool]

_SPACE_MARGIN = 1.05
_BLOCK_BYTES = 4096


def build(
    spec: DatasetSpec,
    folder: str | os.PathLike[str],
    *,
    progress: ProgressCallback | None = None,
    cancel: Cancel | None = None,
    workers: int | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Manifest:
    """Makes the dataset in `folder`, or returns at once when it is already there.

    Args:
        spec: what to make.
        folder: becomes the dataset's folder; missing or empty, or this very dataset.
        progress: called about ten times a second, in the calling thread.
        cancel: asked before each sample or slab; True ends the build with BuildCancelled.
        workers: threads for images; the usable cores if None.
        clock: seconds, monotonic; for tests.

    Returns:
        The manifest, as `read_manifest(folder)` returns it from then on.

    Raises:
        FolderError: the folder holds something else, or cannot be written.
        SpaceError: the disk is too full, found before or while writing.
        BuildCancelled: `cancel` said so. Nothing is left behind, as after KeyboardInterrupt.
    """
    target = Path(os.path.abspath(folder))

    def check() -> None:
        if cancel is not None and cancel():
            raise _cancelled(target)

    try:
        with _parents(target), _lock(target, cancel):
            found = _existing(spec, target)
            if found is not None:
                return found
            working = partial_folder(target)
            remove_tree(working)
            check_space(spec, target.parent)
            try:
                working.mkdir()
                meter = Meter(spec, progress, clock=clock)
                manifest = write_samples(spec, working, meter, check, workers)
                write_manifest(working, manifest)
                _publish(working, target)
            finally:
                remove_tree(working)
            return manifest
    except OSError as error:
        raise _explained(error, spec, target) from error


def partial_folder(target: Path) -> Path:
    """Where `target` is being written before it is whole."""
    return target.with_name(f".{target.name}.partial")


def lock_path(target: Path) -> Path:
    """The lock file that a builder of `target` holds."""
    return target.with_name(f".{target.name}.lock")


def remove_tree(folder: Path) -> None:
    """Removes a folder; silent when it is not there, raises OSError when it stays."""
    if folder.is_symlink() or folder.exists():
        shutil.rmtree(folder)


def needed_bytes(spec: DatasetSpec) -> int:
    """Free disk space that a build asks for: the samples, padding, and LMDB's scratch file."""
    padding = _BLOCK_BYTES * spec.count if spec.layout != "hdf5" else 0
    scratch = spec.sample_bytes if (spec.layout, spec.kind) == ("lmdb", "volumes") else 0
    return int(spec.total_bytes * _SPACE_MARGIN) + padding + scratch + (1 << 20)


def check_space(spec: DatasetSpec, parent: Path) -> None:
    """Raises SpaceError when the disk under `parent` cannot hold the dataset."""
    free = shutil.disk_usage(parent).free
    if free < needed_bytes(spec):
        raise SpaceError(
            asked=f"{needed_bytes(spec):,} bytes for {spec.count} {spec.kind} in {parent}",
            found=f"{free:,} bytes free there",
            do="free some space, choose another disk, or ask for fewer or smaller samples",
        )


@contextlib.contextmanager
def _parents(target: Path) -> Iterator[None]:
    """Makes the missing parent folders, and removes them again if the build fails."""
    missing = [parent for parent in target.parents if not parent.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        for parent in missing:
            with contextlib.suppress(OSError):  # not empty: another process uses it
                parent.rmdir()
        raise


def _lock(target: Path, cancel: Cancel | None) -> FileLock:
    try:
        return FileLock(lock_path(target)).acquire(cancel=cancel)
    except InterruptedError:
        raise _cancelled(target) from None


def _existing(spec: DatasetSpec, target: Path) -> Manifest | None:
    """The manifest if the dataset is there already, None if the way is free."""
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return None
    try:
        manifest = read_manifest(target)
    except ManifestError as error:
        raise FolderError(
            asked=f"a dataset in {target}",
            found=f"there is something else: {error.found}",
            do="choose a new or empty folder, or remove this one",
        ) from None
    if manifest.spec != spec or manifest.generator != GENERATOR_VERSION:
        raise FolderError(
            asked=f"{spec} in {target}",
            found=f"another dataset is there: {manifest.spec}, generator {manifest.generator}",
            do="choose another folder, or remove this one",
        )
    return manifest


def _publish(working: Path, target: Path) -> None:
    if target.exists():
        target.rmdir()  # empty, `_existing` saw to that; Windows renames onto nothing
    os.rename(working, target)


def _cancelled(target: Path) -> BuildCancelled:
    return BuildCancelled(
        asked=f"the dataset in {target}",
        found="it was cancelled before it was whole",
        do="start it again; nothing is left of it",
    )


def _explained(error: OSError, spec: DatasetSpec, target: Path) -> SpaceError | FolderError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return SpaceError(
            asked=f"{spec.total_bytes:,} bytes in {target}",
            found=f"the disk became full while writing ({error.strerror})",
            do="free some space or choose another disk; what was written is removed",
        )
    return FolderError(
        asked=f"a dataset in {target}",
        found=f"{type(error).__name__}: {error}",
        do="choose a folder that can be written",
    )
