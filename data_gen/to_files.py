"""Layout `files`: one file a sample; must not make content.

The files are `samples/00000000.jpg`, `.txt` or `.npy`, and so on. An image or document is stored
as its bytes. A volume is stored as a NumPy file of version 1.0: a header of 128 bytes that depends
on the shape only, then its voxels ("<i2", C order), so that `numpy.load(path, mmap_mode="r")`
opens it.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

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
    """Writes the samples of a spec below `folder`."""

    def __init__(self, spec: DatasetSpec, folder: Path) -> None:
        self._spec = spec
        self._folder = folder
        (folder / FOLDER).mkdir()

    def put_from(self, index: int, make: Callable[[BinaryIO], Sample]) -> Sample:
        """Makes and writes an image or a document; may be called from several threads.

        `make` gets the sample's own file as scratch: an image is encoded right into it.
        """
        # Not flushed one by one: 10,000 flushes cost minutes. `verify` finds what a crash lost.
        with self._created(index) as file:
            sample = make(file)
            if self._spec.kind != "images":
                write_all(file, memoryview(sample.data))
            return sample

    def put_volume(self, index: int, slabs: VolumeStream) -> None:
        """Writes a volume slab by slab, flushing what is written from a thread meanwhile."""
        pending: Future[None] | None = None
        unflushed = 0
        with ThreadPoolExecutor(1) as pool, self._created(index) as file:
            file.write(volume_header(self._spec.shape))
            for slab in slabs:
                write_all(file, slab.data.cast("B"))
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

    def _created(self, index: int) -> io.FileIO:
        return open(self._folder / sample_name(self._spec.kind, index), "x+b", buffering=0)


def write_all(file: io.FileIO, data: memoryview) -> None:
    """Writes all of the data; one call to `write` may write less, and at most 2 GiB."""
    while data.nbytes:
        data = data[file.write(data) :]
