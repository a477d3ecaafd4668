"""Finds what is wrong with a dataset on disk, sample by sample; must not change anything.

The one file of HDF5 and LMDB is compared by its checksum first. Only when that differs are its
samples read, in a child process: a damaged index can make the library crash.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from data_gen.errors import ManifestError
from data_gen.manifest import MANIFEST_NAME, Manifest, file_record, read_manifest
from data_gen.to_files import FOLDER, sample_name, volume_header

_READ_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with a dataset."""

    where: str
    """The file, or the sample, as a path below the dataset's folder."""
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


def verify(folder: str | os.PathLike[str]) -> list[Problem]:
    """Reads the whole dataset and compares it with its manifest.

    Returns:
        Every problem, in the order of the samples; empty when the dataset is whole.
    """
    try:
        manifest = read_manifest(folder)
    except ManifestError as error:
        return [Problem(MANIFEST_NAME, error.found)]
    root = Path(folder)
    found = _loose(root, manifest) if manifest.spec.layout == "files" else _single(root, manifest)
    return [*found, *_foreign(root, manifest)]


def _loose(root: Path, manifest: Manifest) -> Iterator[Problem]:
    spec = manifest.spec
    header = volume_header(spec.shape) if spec.kind == "volumes" else b""
    for index, record in enumerate(manifest.samples):
        name = sample_name(spec.kind, index)
        expected = len(header) + record.num_bytes
        try:
            with open(root / name, "rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                if size != expected:
                    yield Problem(name, _wrong_size(size, expected))
                    continue
                if file.read(len(header)) != header:
                    yield Problem(name, "the header was changed")
                crc = 0
                while block := file.read(_READ_BYTES):
                    crc = zlib.crc32(block, crc)
        except FileNotFoundError:
            yield Problem(name, "missing")
        except OSError as error:
            yield Problem(name, f"cannot be read: {error}")
        else:
            if crc != record.crc32:
                yield Problem(name, _changed(record.crc32, crc))


def _single(root: Path, manifest: Manifest) -> Iterator[Problem]:
    for expected in manifest.files:
        try:
            size = os.stat(root / expected.name).st_size
            found = file_record(root, expected.name)
        except FileNotFoundError:
            yield Problem(expected.name, "missing")
            continue
        except OSError as error:
            yield Problem(expected.name, f"cannot be read: {error}")
            continue
        if size != expected.num_bytes:
            yield Problem(expected.name, _wrong_size(size, expected.num_bytes))
        elif found != expected:
            yield Problem(expected.name, _changed(expected.crc32, found.crc32))
        else:
            continue
        yield from _scanned(root, expected.name)


def _scanned(root: Path, name: str) -> Iterator[Problem]:
    """The samples that a child process finds damaged."""
    package_root = os.fspath(Path(__file__).resolve().parent.parent)
    paths = [package_root, *filter(None, [os.environ.get("PYTHONPATH")])]
    child = subprocess.run(
        [sys.executable, "-c", "from data_gen.scan import main; main()", os.fspath(root)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    for line in child.stdout.splitlines():
        yield Problem(*json.loads(line))
    if child.returncode:
        reason = (child.stderr.strip().splitlines() or [f"exit code {child.returncode}"])[-1]
        yield Problem(name, f"its index is damaged, not all samples could be read ({reason})")


def _foreign(root: Path, manifest: Manifest) -> Iterator[Problem]:
    """Files that do not belong to the dataset."""
    known = {MANIFEST_NAME, *(record.name for record in manifest.files)}
    if manifest.spec.layout == "files":
        kind, count = manifest.spec.kind, manifest.spec.count
        known.update(sample_name(kind, index) for index in range(count))
        known.add(FOLDER)
    for folder, folders, names in os.walk(root):
        for name in sorted([*folders, *names]):
            path = Path(folder, name).relative_to(root).as_posix()
            if path not in known:
                yield Problem(path, "does not belong to the dataset")


def _wrong_size(found: int, expected: int) -> str:
    word = "truncated" if found < expected else "too long"
    return f"{word}: {found:,} bytes instead of {expected:,}"


def _changed(expected: int, found: int) -> str:
    return f"its bytes were changed: CRC-32 {found:08x} instead of {expected:08x}"
