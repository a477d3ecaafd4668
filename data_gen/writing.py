"""Makes the samples and gives them to the layout's writer; must not know what a folder is for.

Volumes go slab by slab through one thread beside the writing one; images and documents are made by
a thread a core and written in order.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Protocol

from data_gen.manifest import FileRecord, Manifest, SampleRecord
from data_gen.pipeline import Sample, ScratchFiles, VolumeStream, ahead, make_shared, small_sample
from data_gen.progress import Meter
from data_gen.spec import GENERATOR_VERSION, DatasetSpec, Layout
from data_gen.to_files import FilesWriter

_CHUNK_BYTES = 1 << 20
_CHUNK_SAMPLES = 64


class Writer(Protocol):
    """What each layout offers; one writer writes one dataset, its samples in order."""

    def put_volume(self, index: int, slabs: VolumeStream) -> None: ...
    def close(self) -> tuple[FileRecord, ...]: ...
    def abandon(self) -> None: ...


class OneFileWriter(Writer, Protocol):
    """What HDF5 and LMDB offer beside."""

    def put(self, sample: Sample) -> None: ...


def write_samples(
    spec: DatasetSpec,
    folder: Path,
    meter: Meter,
    check: Callable[[], None],
    workers: int | None,
) -> Manifest:
    """Writes all samples into an empty folder; the manifest is returned, not written.

    Args:
        spec: what to make.
        folder: exists and is empty.
        meter: told of every sample or slab.
        check: called before each sample or slab; what it raises ends the writing.
        workers: threads for images; the usable cores if None.
    """
    writer = _writer(spec, folder)
    try:
        if spec.kind == "volumes":
            samples = _write_volumes(spec, writer, meter, check)
        else:
            samples = _write_small(spec, writer, folder, meter, check, workers)
        files = writer.close()
    except BaseException:
        writer.abandon()
        raise
    return Manifest(
        spec=spec,
        generator=GENERATOR_VERSION,
        files=files,
        samples=tuple(samples),
        versions=_versions(spec.layout),
    )


def _writer(spec: DatasetSpec, folder: Path) -> FilesWriter | OneFileWriter:
    # Imported here: h5py and lmdb are not needed, and need not work, for the other layouts.
    if spec.layout == "hdf5":
        from data_gen.to_hdf5 import Hdf5Writer

        return Hdf5Writer(spec, folder)
    if spec.layout == "lmdb":
        from data_gen.to_lmdb import LmdbWriter

        return LmdbWriter(spec, folder)
    return FilesWriter(spec, folder)


def _write_volumes(
    spec: DatasetSpec, writer: Writer, meter: Meter, check: Callable[[], None]
) -> list[SampleRecord]:
    records = []
    with ThreadPoolExecutor(1, "data_gen") as pool:
        for index in range(spec.count):
            stream = VolumeStream(
                spec, index, pool, on_slab=check, on_written=lambda size: meter.add(size, 0)
            )
            writer.put_volume(index, stream)
            meter.add(0, 1)
            records.append(stream.record())
    return records


def _write_small(
    spec: DatasetSpec,
    writer: FilesWriter | OneFileWriter,
    folder: Path,
    meter: Meter,
    check: Callable[[], None],
    workers: int | None,
) -> list[SampleRecord]:
    scratch = ScratchFiles(folder)
    step = max(1, min(_CHUNK_SAMPLES, _CHUNK_BYTES // spec.sample_bytes))
    make_shared(spec)

    def chunk(first: int) -> list[Sample]:
        made = []
        for index in range(first, min(first + step, spec.count)):
            if isinstance(writer, FilesWriter):
                sample = writer.put_from(index, partial(small_sample, spec, index))
                sample = replace(sample, data=b"")  # do not hold what is written
            else:
                sample = small_sample(spec, index, scratch.mine())
            made.append(sample)
        return made

    records: list[SampleRecord] = []
    threads = workers or usable_cores()
    try:
        with ThreadPoolExecutor(threads, "data_gen") as pool:
            tasks = ((lambda first=first: chunk(first)) for first in range(0, spec.count, step))
            for samples in ahead(pool, tasks, depth=2 * threads):
                check()
                for sample in samples:
                    if not isinstance(writer, FilesWriter):
                        writer.put(sample)
                    records.append(sample.record)
                meter.add(sum(sample.record.num_bytes for sample in samples), len(samples))
    finally:
        scratch.close()
    return records


def usable_cores() -> int:
    """Cores this process may run on; a quota of the control group is not looked at."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _versions(layout: Layout) -> dict[str, str]:
    extra = {"files": (), "hdf5": ("h5py",), "lmdb": ("lmdb",)}[layout]
    found = {}
    for name in ("numpy", "pillow", *extra):
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
