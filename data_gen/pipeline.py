"""Samples made ahead in threads, with their checksums; must not know where they are written.

Threads, because a Jupyter kernel has a dozen threads and must not fork, and because JPEG encoding,
numpy and CRC-32 let go of the GIL. At most a few samples, or three slabs of a volume, are held.
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeVar

import numpy as np
import numpy.typing as npt

from data_gen import images, text, volumes
from data_gen.manifest import EDGE_BYTES, SampleRecord
from data_gen.spec import DatasetSpec

T = TypeVar("T")

_SLABS = 3


@dataclass(frozen=True, slots=True)
class Sample:
    """A small sample: image or document."""

    index: int
    data: bytes
    record: SampleRecord


def ahead(pool: ThreadPoolExecutor, tasks: Iterable[Callable[[], T]], depth: int) -> Iterator[T]:
    """Results of the tasks in order; `depth` more are under way while one is being used."""
    waiting: deque[Future[T]] = deque()
    try:
        for task in tasks:
            waiting.append(pool.submit(task))
            if len(waiting) > depth:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


def label_of(spec: DatasetSpec, index: int) -> int:
    """The class of sample `index`; 0 for text, which has none."""
    if spec.kind == "images":
        return images.label(spec.seed, index)
    return volumes.label(spec.seed, index) if spec.kind == "volumes" else 0


def make_shared(spec: DatasetSpec) -> None:
    """Makes and keeps what all images or documents share, before threads would do so twice."""
    if spec.kind == "images":
        images.palette(*spec.shape, spec.seed)
    elif spec.kind == "text":
        text.words()


class ScratchFiles:
    """One unnamed file in `folder` for each thread that asks; closed by `close`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own = threading.local()
        self._open = contextlib.ExitStack()

    def mine(self) -> BinaryIO:
        """The scratch file of the calling thread, unbuffered."""
        file: BinaryIO | None = getattr(self._own, "file", None)
        if file is None:
            file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115 (close)
            self._open.callback(file.close)
            self._own.file = file
        return file

    def close(self) -> None:
        """Closes, and so removes, all of them; no thread may use one any more."""
        self._open.close()


def small_sample(spec: DatasetSpec, index: int, scratch: BinaryIO) -> Sample:
    """Image or document `index` with its record; an image is left in `scratch`."""
    if spec.kind == "images":
        data = images.encode(spec.shape, spec.seed, index, scratch)
    else:
        data = text.encode(spec.shape, spec.seed, index)
    record = SampleRecord(
        num_bytes=len(data),
        crc32=zlib.crc32(data),
        edge_crc32=zlib.crc32(data[-EDGE_BYTES:], zlib.crc32(data[:EDGE_BYTES])),
        label=label_of(spec, index),
    )
    return Sample(index, data, record)


class VolumeStream:
    """The slabs of one volume, made ahead in a thread; its record is complete after the last."""

    def __init__(
        self,
        spec: DatasetSpec,
        index: int,
        pool: ThreadPoolExecutor,
        *,
        on_slab: Callable[[], None],
        on_written: Callable[[int], None],
    ) -> None:
        """`on_slab` is called before each slab is handed out, `on_written` after it was used."""
        self._spec = spec
        self._index = index
        self._pool = pool
        self._on_slab = on_slab
        self._on_written = on_written
        self._crc32 = 0
        self._first = self._last = b""

    def __iter__(self) -> Iterator[npt.NDArray[np.int16]]:
        """Yields arrays of (planes, height, width), each overwritten once the next is asked for."""
        shape = self._spec.shape
        step = volumes.planes_per_slab(shape)
        ring = [np.empty((step, *shape[1:]), dtype=volumes.VOXEL) for _ in range(_SLABS)]
        phantom = volumes.Phantom(shape, self._spec.seed, self._index)

        def task(number: int, first: int) -> Callable[[], npt.NDArray[np.int16]]:
            slab = ring[number % _SLABS][: min(step, shape[0] - first)]
            return lambda: self._filled(phantom, slab, first)

        # One thread in order, so that the checksum runs along; two slabs ahead, one in use.
        tasks = (task(number, first) for number, first in enumerate(range(0, shape[0], step)))
        for slab in ahead(self._pool, tasks, depth=_SLABS - 1):
            self._on_slab()
            yield slab
            self._on_written(slab.nbytes)

    def _filled(
        self, phantom: volumes.Phantom, slab: npt.NDArray[np.int16], first: int
    ) -> npt.NDArray[np.int16]:
        phantom.fill(slab, first)
        raw = slab.reshape(-1).view(np.uint8)
        self._crc32 = zlib.crc32(raw.data, self._crc32)
        if len(self._first) < EDGE_BYTES:
            self._first += raw[: EDGE_BYTES - len(self._first)].tobytes()
        self._last = (self._last + raw[-EDGE_BYTES:].tobytes())[-EDGE_BYTES:]
        return slab

    def record(self) -> SampleRecord:
        """What the manifest tells of this volume."""
        return SampleRecord(
            num_bytes=self._spec.sample_bytes,
            crc32=self._crc32,
            edge_crc32=zlib.crc32(self._last, zlib.crc32(self._first)),
            label=label_of(self._spec, self._index),
        )
