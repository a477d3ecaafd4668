"""What a layout's reader offers, and the reader of a folder; must not import torch.

Readers are made in the process that uses them; what they hold open is never inherited or pickled.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from data_gen import DatasetSpec, Manifest, ManifestError, read_manifest
from data_gen.to_files import FOLDER, sample_name
from labkit.errors import DatasetError

Voxels = npt.NDArray[np.int16]
Box = tuple[slice, slice, slice]
H = TypeVar("H")


class SampleReader(Protocol):
    """Reads single samples of one dataset; raises DatasetError for whatever it cannot read."""

    def read(self, index: int) -> bytes:
        """All bytes of an image or a document."""
        ...

    def volume(self, index: int) -> Voxels:
        """A whole volume in fresh memory."""
        ...

    def patch(self, index: int, box: Box) -> Voxels:
        """A box of a volume in fresh memory."""
        ...

    def edges(self, index: int, num_bytes: int) -> tuple[bytes, bytes]:
        """The first and the last `num_bytes` bytes of a volume."""
        ...

    def close(self) -> None:
        """Lets go of what is open in this process."""
        ...


class PerProcess(Generic[H]):
    """A handle that is opened when it is first asked for in a process, again after a fork."""

    def __init__(self, open_handle: Callable[[], H], close_handle: Callable[[H], None]) -> None:
        self._open = open_handle
        self._close = close_handle
        self._pid = -1
        self._handle: H | None = None

    def get(self) -> H:
        """The handle of this process."""
        if self._handle is None or self._pid != os.getpid():
            # Closing an inherited handle touches this process's copy only; HDF5 and LMDB would
            # else take a file that is open already for the same file.
            self.close()
            self._handle = self._open()
            self._pid = os.getpid()
        return self._handle

    def close(self) -> None:
        """Closes the handle if there is one."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self._close(handle)


def reader_for(root: Path, spec: DatasetSpec, num_bytes: npt.NDArray[np.int64]) -> SampleReader:
    """The reader of the dataset's layout; `num_bytes` is the length of each sample."""
    # Imported here: h5py and lmdb are needed for their own layouts only.
    if spec.layout == "hdf5":
        from labkit.datasets.from_hdf5 import Hdf5Reader

        return Hdf5Reader(root, spec)
    if spec.layout == "lmdb":
        from labkit.datasets.from_lmdb import LmdbReader

        return LmdbReader(root, spec)
    from labkit.datasets.from_files import FilesReader

    return FilesReader(root, spec, num_bytes)


def edges_by_patch(
    reader: SampleReader, shape: tuple[int, ...], index: int, num_bytes: int
) -> tuple[bytes, bytes]:
    """`SampleReader.edges` for layouts that read boxes: the outer planes, cut to length."""
    depth, height, width = shape
    planes = min(depth, -(-num_bytes // (2 * height * width)))
    whole = (slice(0, height), slice(0, width))
    first = reader.patch(index, (slice(0, planes), *whole))
    last = reader.patch(index, (slice(depth - planes, depth), *whole))
    return first.tobytes()[:num_bytes], last.tobytes()[-num_bytes:]


def damaged(where: object, found: str) -> DatasetError:
    """The error for a sample that is not what the manifest says."""
    return DatasetError(
        asked=f"a sample from {where}",
        found=found,
        do="run `python -m data_gen verify` on the dataset's folder, remove it and make it again",
    )


def whole_manifest(root: Path) -> Manifest:
    """The manifest of a dataset that has all its files.

    The one file of HDF5 or LMDB must have its length, too: LMDB maps it, and a read beyond the
    end would end the process with a signal. Loose files are measured when they are read.

    Raises:
        DatasetError: there is no manifest, or a file is missing or cut off.
    """
    try:
        manifest = read_manifest(root)
    except ManifestError as error:
        raise DatasetError(asked=error.asked, found=error.found, do=error.do) from error
    for record in manifest.files:
        path = root / record.name
        size = path.stat().st_size if path.is_file() else -1
        if size != record.num_bytes:
            found = f"{size:,} bytes" if size >= 0 else "no such file"
            raise damaged(path, f"{found}, the manifest says {record.num_bytes:,} bytes")
    if manifest.spec.layout == "files":
        folder = root / FOLDER
        names = set(os.listdir(folder)) if folder.is_dir() else set()
        for index in range(manifest.spec.count):
            name = sample_name(manifest.spec.kind, index)
            if name.rpartition("/")[2] not in names:
                raise damaged(root / name, "no such file")
    return manifest
