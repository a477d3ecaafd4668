"""Reads samples from `data.h5`; the file is opened once in each process that reads."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from data_gen import DatasetSpec
from data_gen.to_hdf5 import NAME, shard_name, volume_name
from labkit.datasets.readers import Box, PerProcess, Voxels, damaged, edges_by_patch

_FAULTS = (OSError, KeyError, ValueError, TypeError, IndexError, RuntimeError)


class Hdf5Reader:
    """The reader of layout `hdf5`."""

    def __init__(self, root: Path, spec: DatasetSpec) -> None:
        self._path = root / NAME
        self._spec = spec
        self._file: PerProcess[Any] = PerProcess(self._open, lambda file: file.close())
        self._index: Any = None
        self._datasets: dict[str, Any] = {}

    def read(self, index: int) -> bytes:
        """All bytes of an image or a document."""
        file = self._file.get()
        try:
            shard, offset, length = self._index[index]
            data: bytes = self._dataset(file, shard_name(shard))[offset : offset + length].tobytes()
            return data
        except _FAULTS as error:
            raise damaged(self._path, f"sample {index} cannot be read: {error}") from error

    def volume(self, index: int) -> Voxels:
        """A whole volume, read straight into fresh memory."""
        depth, height, width = self._spec.shape
        return self.patch(index, (slice(0, depth), slice(0, height), slice(0, width)))

    def patch(self, index: int, box: Box) -> Voxels:
        """A box of a volume; HDF5 reads no more than its rows."""
        file = self._file.get()
        found = np.empty(tuple(part.stop - part.start for part in box), dtype="<i2")
        try:
            dataset = self._dataset(file, volume_name(index))
            if dataset.shape != self._spec.shape:
                raise ValueError(f"its shape is {dataset.shape}, not {self._spec.shape}")
            dataset.read_direct(found, source_sel=box)
        except _FAULTS as error:
            raise damaged(self._path, f"volume {index} cannot be read: {error}") from error
        return found

    def edges(self, index: int, num_bytes: int) -> tuple[bytes, bytes]:
        """The first and the last bytes of a volume."""
        return edges_by_patch(self, self._spec.shape, index, num_bytes)

    def close(self) -> None:
        """Closes the file of this process."""
        self._datasets.clear()
        self._index = None
        self._file.close()

    def _dataset(self, file: Any, name: str) -> Any:
        # Looking a name up costs more than reading a small sample.
        if name not in self._datasets:
            self._datasets[name] = file[name]
        return self._datasets[name]

    def _open(self) -> Any:
        self._datasets.clear()
        try:
            file = h5py.File(os.fspath(self._path), "r", locking=False)
        except OSError as error:
            raise damaged(self._path, f"it is not a whole HDF5 file: {error}") from error
        try:
            self._index = None if self._spec.kind == "volumes" else file["index"][:]
        except _FAULTS as error:
            file.close()
            raise damaged(self._path, f"its index cannot be read: {error}") from error
        return file
