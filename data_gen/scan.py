"""Reads every sample of an HDF5 or LMDB dataset and reports the damaged ones, one JSON line each.

Run by `verify` in a process of its own, because a damaged file can crash the library; it must not
be called in a process that has to live.
"""

from __future__ import annotations

import json
import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from data_gen.manifest import Manifest, SampleRecord, read_manifest


def scan(root: Path, manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Yields the name and the fault of each damaged sample."""
    if manifest.spec.layout == "hdf5":
        yield from _scan_hdf5(root, manifest)
    else:
        yield from _scan_lmdb(root, manifest)


def _scan_hdf5(root: Path, manifest: Manifest) -> Iterator[tuple[str, str]]:
    import h5py

    from data_gen.to_hdf5 import NAME, shard_name, volume_name

    spec = manifest.spec
    with h5py.File(root / NAME, "r", locking=False) as file:
        for index, record in enumerate(manifest.samples):
            try:
                if spec.kind == "volumes":
                    dataset = file[volume_name(index)]
                    step = max(1, (8 << 20) // (dataset[0:1].nbytes or 1))
                    blocks = [dataset[z : z + step] for z in range(0, len(dataset), step)]
                else:
                    shard, offset, length = file["index"][index]
                    blocks = [file[shard_name(shard)][offset : offset + length]]
                fault = _fault(record, blocks)
            except (KeyError, OSError, ValueError, TypeError, IndexError) as error:
                fault = f"missing: {error}" if isinstance(error, KeyError) else f"lost: {error}"
            if fault:
                yield f"{NAME}, sample {index}", fault


def _scan_lmdb(root: Path, manifest: Manifest) -> Iterator[tuple[str, str]]:
    import lmdb

    from data_gen.to_lmdb import NAME, sample_key

    path = os.fspath(root / NAME)
    env = lmdb.open(path, subdir=False, readonly=True, lock=False, max_spare_txns=0)
    with env, env.begin(buffers=True) as transaction:
        for index, record in enumerate(manifest.samples):
            value = transaction.get(sample_key(index))
            fault = "missing" if value is None else _fault(record, [np.frombuffer(value, np.uint8)])
            if fault:
                yield f"{NAME}, sample {index}", fault


def _fault(record: SampleRecord, blocks: list[npt.NDArray[Any]]) -> str | None:
    size, crc = 0, 0
    for block in blocks:
        raw = np.ascontiguousarray(block).reshape(-1).view(np.uint8)
        size += raw.nbytes
        crc = zlib.crc32(raw.data, crc)
    if size != record.num_bytes:
        return f"{size:,} bytes instead of {record.num_bytes:,}"
    if crc != record.crc32:
        return f"its bytes were changed: CRC-32 {crc:08x} instead of {record.crc32:08x}"
    return None


def main() -> None:
    """Scans the folder named on the command line."""
    root = Path(sys.argv[1])
    for problem in scan(root, read_manifest(root)):
        sys.stdout.write(json.dumps(problem) + "\n")
        sys.stdout.flush()
