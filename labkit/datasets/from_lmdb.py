"""Reads samples from `data.mdb`; one environment a process and file, shared by all its readers.

LMDB refuses to open a file twice in a process, and an environment must not be used after a fork.
"""

from __future__ import annotations

import os
import weakref
from pathlib import Path

import lmdb
import numpy as np

from data_gen import DatasetSpec
from data_gen.to_lmdb import NAME, sample_key
from labkit.datasets.readers import Box, PerProcess, Voxels, damaged, edges_by_patch

_environments: weakref.WeakValueDictionary[str, PerProcess[lmdb.Environment]] = (
    weakref.WeakValueDictionary()
)


def _environment(path: Path) -> PerProcess[lmdb.Environment]:
    key = os.path.realpath(path)
    shared = _environments.get(key)
    if shared is None:
        shared = PerProcess(lambda: _open(key), lambda env: env.close())
        shared = _environments.setdefault(key, shared)
    return shared


def _open(path: str) -> lmdb.Environment:
    # No lock file, so that a folder that cannot be written will do; nobody writes to a whole
    # dataset. No read-ahead: samples are read in random order.
    try:
        return lmdb.open(path, subdir=False, readonly=True, lock=False, readahead=False)
    except lmdb.Error as error:
        raise damaged(path, f"it is not an LMDB file: {error}") from error


class LmdbReader:
    """The reader of layout `lmdb`."""

    def __init__(self, root: Path, spec: DatasetSpec) -> None:
        self._path = root / NAME
        self._spec = spec
        self._environment = _environment(self._path)

    def read(self, index: int) -> bytes:
        """All bytes of an image or a document."""
        env = self._environment.get()
        try:
            with env.begin() as transaction:
                value = transaction.get(sample_key(index))
        except lmdb.Error as error:
            raise damaged(self._path, f"sample {index} cannot be read: {error}") from error
        if value is None:
            raise damaged(self._path, f"sample {index} is missing")
        return bytes(value)

    def volume(self, index: int) -> Voxels:
        """A whole volume, copied once out of the map."""
        depth, height, width = self._spec.shape
        return self.patch(index, (slice(0, depth), slice(0, height), slice(0, width)))

    def patch(self, index: int, box: Box) -> Voxels:
        """A box of a volume; only its pages of the map are touched."""
        env = self._environment.get()
        try:
            with env.begin(buffers=True) as transaction:
                value = transaction.get(sample_key(index))
                if value is None or len(value) != self._spec.sample_bytes:
                    raise damaged(self._path, f"volume {index} is missing or cut off")
                # The view must not outlive the transaction.
                return np.frombuffer(value, dtype="<i2").reshape(self._spec.shape)[box].copy()
        except lmdb.Error as error:
            raise damaged(self._path, f"volume {index} cannot be read: {error}") from error

    def edges(self, index: int, num_bytes: int) -> tuple[bytes, bytes]:
        """The first and the last bytes of a volume."""
        return edges_by_patch(self, self._spec.shape, index, num_bytes)

    def close(self) -> None:
        """Closes this process's environment; another reader of the file opens it again."""
        self._environment.close()
