"""Layout `lmdb`: all samples in `data.mdb`, key `00000000` ...; must not make content.

The value of a key is the bytes of the sample. A transaction gathers about 32 MiB of images or
documents. A volume is one value of up to 4 GiB, and LMDB wants it whole: its slabs go to a scratch
file, which is mapped and copied once into the map of the database (`writemap`), so that nearly all
of it is file cache and not anonymous memory. Before writing through the map the blocks are
reserved, because a full disk would else end the process with a signal.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from pathlib import Path

import lmdb

from data_gen.manifest import FileRecord, file_record
from data_gen.pipeline import Sample, VolumeStream
from data_gen.spec import DatasetSpec

NAME = "data.mdb"
_BATCH_BYTES = 32 << 20
_PAGE_BYTES = 4096
_SLACK_BYTES = 4 << 20


def sample_key(index: int) -> bytes:
    """The key of a sample; keys sort as the indices do."""
    return b"%08d" % index


class LmdbWriter:
    """Writes the samples of a spec into `folder/data.mdb`, in order."""

    def __init__(self, spec: DatasetSpec, folder: Path) -> None:
        self._spec = spec
        self._folder = folder
        self._path = folder / NAME
        self._volumes = spec.kind == "volumes"
        self._map_bytes = _SLACK_BYTES
        if self._volumes:
            self._map_bytes += spec.count * (spec.sample_bytes + 4 * _PAGE_BYTES)
        # No lock file: the builder holds its own lock, and nobody reads before the rename.
        self._env = lmdb.open(
            os.fspath(self._path),
            map_size=self._map_bytes,
            subdir=False,
            lock=False,
            sync=False,
            writemap=self._volumes,
            max_spare_txns=0,
        )
        if self._volumes:
            self._reserve()
        self._pending: list[Sample] = []
        self._pending_bytes = 0

    def put(self, sample: Sample) -> None:
        """Adds an image or a document."""
        self._pending.append(sample)
        self._pending_bytes += len(sample.data)
        if self._pending_bytes >= _BATCH_BYTES:
            self._commit()

    def put_volume(self, index: int, slabs: VolumeStream) -> None:
        """Writes a volume through a scratch file."""
        with tempfile.TemporaryFile(dir=self._folder) as scratch:
            for slab in slabs:
                scratch.write(slab.data.cast("B"))
            scratch.flush()
            with (
                mmap.mmap(scratch.fileno(), 0, access=mmap.ACCESS_READ) as value,
                self._env.begin(write=True) as transaction,
            ):
                transaction.put(sample_key(index), value, append=True)

    def close(self) -> tuple[FileRecord, ...]:
        """Commits, flushes, cuts the reserved rest off and reads the file for its checksum."""
        if self._pending:
            self._commit()
        self._env.sync(True)
        used = (self._env.info()["last_pgno"] + 1) * self._env.stat()["psize"]
        self._env.close()
        os.truncate(self._path, used)
        return (file_record(self._folder, NAME),)

    def abandon(self) -> None:
        """Closes the database, whatever is in it."""
        self._env.close()

    def _commit(self) -> None:
        # Room for the batch and as much again for inner pages; the file grows by what is used.
        used = self._env.info()["last_pgno"] * _PAGE_BYTES
        pages = sum(len(sample.data) // _PAGE_BYTES + 2 for sample in self._pending)
        wanted = used + 2 * pages * _PAGE_BYTES + _SLACK_BYTES
        if wanted > self._map_bytes:
            self._map_bytes = 2 * wanted
            self._env.set_mapsize(self._map_bytes)
        with self._env.begin(write=True) as transaction:
            for sample in self._pending:
                transaction.put(sample_key(sample.index), sample.data, append=True)
        self._pending.clear()
        self._pending_bytes = 0

    def _reserve(self) -> None:
        """Takes the disk blocks now, so that a full disk is an OSError and not a SIGBUS."""
        if hasattr(os, "posix_fallocate"):
            try:
                with open(self._path, "r+b") as file:
                    os.posix_fallocate(file.fileno(), 0, self._map_bytes)
            except OSError:
                self.abandon()
                raise
