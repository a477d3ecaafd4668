"""Layout `files`: one file a sample; must not make content.

The files are `samples/00000000.jpg`, `.txt` or `.npy`, and so on. An image or document is stored
as its bytes. A volume is stored as a NumPy file of version 1.0: a header of 128 bytes that depends
on the shape only, then its voxels ("<i2", C order), so that `numpy.load(path, mmap_mode="r")`
opens it.
"""

from __future__ import annotations

import io
import os
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np

from data_gen.manifest import FileRecord
from data_gen.pipeline import Sample, VolumeStream
from data_gen.spec import DatasetSpec, Kind

FOLDER = "samples"
_SUFFIX: dict[Kind, str] = {"images": ".jpg", "text": ".txt", "volumes": ".npy"}
_SYNC_BYTES = 64 << 20


def sample_name(kind: Kind, index: int) -> str:
    """Path of a sample below the dataset's folder, with a forward slash."""
    return f"{FOLDER}/{index:08d}{_SUFFIX[kind]}"


def volume_header(shape: tuple[int, ...]) -> bytes:
    """The bytes before the voxels of a volume of that shape."""
    file = io.BytesIO()
    fields = {"descr": "<i2", "fortran_order": False, "shape": tuple(shape)}
    np.lib.format.write_array_header_1_0(file, fields)
    return file.getvalue()


def flush_to_disk(descriptor: int) -> None:
    """Waits until the file's data is on the disk."""
    # fdatasync, where there is one, skips the time stamps.
    getattr(os, "fdatasync", os.fsync)(descriptor)


class FilesWriter:
    """Writes the samples of a spec below `folder`; `put` may be called from several threads."""

    parallel = True

    def __init__(self, spec: DatasetSpec, folder: Path) -> None:
        self._spec = spec
        self._folder = folder
        (folder / FOLDER).mkdir()

    def put(self, sample: Sample) -> None:
        """Writes an image or a document."""
        # Not flushed one by one: 10,000 flushes cost minutes. `verify` finds what a crash lost.
        path = self._folder / sample_name(self._spec.kind, sample.index)
        with open(path, "xb", buffering=0) as file:
            file.write(sample.data)

    def put_volume(self, index: int, slabs: VolumeStream) -> None:
        """Writes a volume slab by slab, flushing what is written from a thread meanwhile."""
        path = self._folder / sample_name("volumes", index)
        pending: Future[None] | None = None
        unflushed = 0
        with ThreadPoolExecutor(1) as pool, open(path, "xb", buffering=0) as file:
            file.write(volume_header(self._spec.shape))
            for slab in slabs:
                _write_all(file, slab.data.cast("B"))
                unflushed += slab.nbytes
                if unflushed >= _SYNC_BYTES and (pending is None or pending.done()):
                    pending = pool.submit(flush_to_disk, file.fileno())
                    unflushed = 0
            if pending is not None:
                pending.result()
            flush_to_disk(file.fileno())

    def close(self) -> tuple[FileRecord, ...]:
        """Nothing to finish; each file is described by its sample's record."""
        return ()

    def abandon(self) -> None:
        """Nothing is open between two samples."""


def _write_all(file: io.FileIO, data: memoryview) -> None:
    while data.nbytes:
        data = data[file.write(data) :]
