"""Reads samples from loose files; must not keep a file open between two samples."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from data_gen import DatasetSpec
from data_gen.to_files import sample_name, volume_header
from labkit.datasets.readers import Box, Voxels, damaged

_VOXEL = np.dtype("<i2")


class FilesReader:
    """The reader of layout `files`."""

    def __init__(self, root: Path, spec: DatasetSpec, num_bytes: npt.NDArray[np.int64]) -> None:
        self._root = root
        self._spec = spec
        self._num_bytes = num_bytes
        self._header = volume_header(spec.shape) if spec.kind == "volumes" else b""

    def read(self, index: int) -> bytes:
        """All bytes of an image or a document, in one system call."""
        path, length = self._path(index), int(self._num_bytes[index])
        try:
            with open(path, "rb", buffering=0) as file:
                data = file.read(length + 1)
        except OSError as error:
            raise damaged(path, f"it cannot be read: {error.strerror}") from error
        if data is None or len(data) != length:
            raise damaged(path, f"it has not the {length:,} bytes of the manifest")
        return data

    def volume(self, index: int) -> Voxels:
        """A whole volume, read straight into fresh memory."""
        volume = np.empty(self._spec.shape, dtype=_VOXEL)
        with self._opened(index) as file:
            self._fill(file, volume, 0, self._path(index))
        return volume

    def mapped(self, index: int) -> Voxels:
        """A volume as a private map: pages are read when touched, changes are never written."""
        with self._opened(index):
            pass
        offset = len(self._header)
        return np.memmap(self._path(index), _VOXEL, "c", offset, self._spec.shape)

    def patch(self, index: int, box: Box) -> Voxels:
        """A box, reading of each of its planes the rows it touches."""
        planes, rows, columns = box
        _, height, width = self._spec.shape
        full = np.empty((rows.stop - rows.start, width), dtype=_VOXEL)
        found = np.empty(tuple(part.stop - part.start for part in box), dtype=_VOXEL)
        with self._opened(index) as file:
            for number, plane in enumerate(range(planes.start, planes.stop)):
                offset = (plane * height + rows.start) * width * _VOXEL.itemsize
                self._fill(file, full, offset, self._path(index))
                found[number] = full[:, columns]
        return found

    def edges(self, index: int, num_bytes: int) -> tuple[bytes, bytes]:
        """The first and the last bytes of a volume."""
        with self._opened(index) as file:
            first = file.read(num_bytes)
            length = int(self._num_bytes[index])
            file.seek(len(self._header) + max(0, length - num_bytes))
            return first or b"", file.read(num_bytes) or b""

    def close(self) -> None:
        """Nothing is open."""

    def _path(self, index: int) -> Path:
        return self._root / sample_name(self._spec.kind, index)

    @contextlib.contextmanager
    def _opened(self, index: int) -> Iterator[io.FileIO]:
        """The file of a volume at its first voxel; size and header are as the manifest says."""
        path, length = self._path(index), len(self._header) + int(self._num_bytes[index])
        try:
            with open(path, "rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                if size != length:
                    raise damaged(path, f"it has {size:,} bytes, the manifest says {length:,}")
                if file.read(len(self._header)) != self._header:
                    raise damaged(path, f"its header is not of a volume of {self._spec.shape}")
                yield file
        except OSError as error:
            raise damaged(path, f"it cannot be read: {error.strerror}") from error

    def _fill(self, file: io.FileIO, voxels: Voxels, offset: int, path: Path) -> None:
        """Reads voxels from `offset` bytes after the header until the array is full."""
        file.seek(len(self._header) + offset)
        rest = voxels.reshape(-1).data.cast("B")
        while rest.nbytes:
            count = file.readinto(rest)
            if not count:
                raise damaged(path, "it ends too early: another process changes it")
            rest = rest[count:]
