"""Layout `hdf5`: all samples in `data.h5`; must not make content, nor hold more than a shard.

Volumes: one contiguous int16 dataset a sample, `volumes/00000000`, shape (depth, height, width).
Images and text: ragged bytes. They lie one after the other in `shards/000000` ..., contiguous uint8
datasets of about 32 MiB, and `index`, int64 of (count, 3), tells shard, offset and length of each.
Contiguous, because a read of a contiguous dataset runs at 0.8 of memcpy, of a chunked one at 0.4;
shards, because a contiguous dataset must know its length when it is made. `labels` is int64.
"""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np

from data_gen.manifest import FileRecord, file_record
from data_gen.pipeline import Sample, VolumeStream, label_of
from data_gen.spec import DatasetSpec

NAME = "data.h5"
_SHARD_BYTES = 32 << 20


def volume_name(index: int) -> str:
    """Name of the dataset of a volume inside the file."""
    return f"volumes/{index:08d}"


def shard_name(shard: int) -> str:
    """Name of the dataset that holds the bytes of a range of images or documents."""
    return f"shards/{shard:06d}"


class Hdf5Writer:
    """Writes the samples of a spec into `folder/data.h5`, in order."""

    def __init__(self, spec: DatasetSpec, folder: Path) -> None:
        self._spec = spec
        self._folder = folder
        self._file = h5py.File(folder / NAME, "x", locking=False)
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._shards = 0
        self._index: list[tuple[int, int, int]] = []

    def put(self, sample: Sample) -> None:
        """Adds an image or a document to the current shard."""
        self._index.append((self._shards, self._pending_bytes, len(sample.data)))
        self._pending.append(sample.data)
        self._pending_bytes += len(sample.data)
        if self._pending_bytes >= _SHARD_BYTES:
            self._write_shard()

    def put_volume(self, index: int, slabs: VolumeStream) -> None:
        """Writes a volume slab by slab."""
        dataset = self._file.create_dataset(volume_name(index), self._spec.shape, dtype="<i2")
        first = 0
        for slab in slabs:
            dataset[first : first + len(slab)] = slab
            first += len(slab)

    def close(self) -> tuple[FileRecord, ...]:
        """Writes what is pending, the index and the labels, and reads the file for its checksum."""
        if self._pending:
            self._write_shard()
        if self._spec.kind != "volumes":
            self._file["index"] = np.array(self._index, dtype="<i8")
        labels = [label_of(self._spec, index) for index in range(self._spec.count)]
        self._file["labels"] = np.array(labels, dtype="<i8")
        self._file.close()
        return (file_record(self._folder, NAME),)

    def abandon(self) -> None:
        """Closes the file, whatever is in it."""
        self._file.close()

    def _write_shard(self) -> None:
        data = np.frombuffer(b"".join(self._pending), dtype=np.uint8)
        self._file.create_dataset(shard_name(self._shards), data=data)
        self._pending.clear()
        self._pending_bytes = 0
        self._shards += 1
