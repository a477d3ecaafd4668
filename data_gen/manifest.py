"""The manifest of a dataset, `manifest.json`: written last, so that no manifest means no dataset.

It must not know how a layout stores its samples. The file holds one JSON object: `format`, `body`
and `crc32`, the CRC-32 of the body's canonical JSON, so that a flipped byte in it is found too.
CRC-32 because it finds every flipped byte, runs at 3.2 GB/s (SHA-256 at 0.4 without special
instructions) and guards against accidents, not against an adversary.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from data_gen.errors import ManifestError, SpecError
from data_gen.spec import DatasetSpec

MANIFEST_NAME = "manifest.json"
MANIFEST_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecord:
    """The one file of a dataset in HDF5 or LMDB, which holds all samples and their index."""

    name: str
    """Path below the dataset's folder, with forward slashes."""
    num_bytes: int
    crc32: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRecord:
    """A sample, independent of the layout."""

    num_bytes: int
    crc32: int
    edge_crc32: int
    """CRC-32 of the first and the last EDGE_BYTES: tells a foreign volume without reading it."""
    label: int
    """Class of an image or a volume; 0 for text."""


EDGE_BYTES = 4096
_READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a whole dataset consists of."""

    spec: DatasetSpec
    generator: int
    files: tuple[FileRecord, ...]
    """Empty in the layout `files`, where each sample has its file."""
    samples: tuple[SampleRecord, ...]
    versions: Mapping[str, str]
    """Of the libraries that wrote it: another libjpeg may encode the same pixels otherwise."""

    def __post_init__(self) -> None:
        if len(self.samples) != self.spec.count:
            raise ValueError(f"{len(self.samples)} samples for a spec of {self.spec.count}")

    @property
    def num_bytes(self) -> int:
        """Bytes of the dataset on disk, without the manifest and the headers of loose volumes."""
        return sum(record.num_bytes for record in self.files or self.samples)

    def to_json(self) -> dict[str, Any]:
        """A plain dict; the samples as one list a field, which is a third of the size."""
        return {
            "spec": self.spec.to_json(),
            "generator": self.generator,
            "versions": dict(self.versions),
            "files": [asdict(record) for record in self.files],
            "samples": {
                "num_bytes": [sample.num_bytes for sample in self.samples],
                "crc32": [sample.crc32 for sample in self.samples],
                "edge_crc32": [sample.edge_crc32 for sample in self.samples],
                "label": [sample.label for sample in self.samples],
            },
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Manifest:
        """The manifest of `to_json`'s dict; raises KeyError, TypeError or ValueError for others."""
        columns = body["samples"]
        rows = zip(*(columns[name] for name in _COLUMNS), strict=True)
        return cls(
            spec=DatasetSpec.from_json(body["spec"]),
            generator=int(body["generator"]),
            versions=dict(body["versions"]),
            files=tuple(FileRecord(**record) for record in body["files"]),
            samples=tuple(SampleRecord(**dict(zip(_COLUMNS, row, strict=True))) for row in rows),
        )


_COLUMNS = ("num_bytes", "crc32", "edge_crc32", "label")


def _canonical(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Writes the manifest into `folder`: it is there whole or not at all, also after a kill."""
    body = manifest.to_json()
    text = _canonical(body)
    crc = zlib.crc32(text)
    partial = folder / (MANIFEST_NAME + ".partial")
    # Not flushed to the disk: ext4 would write all that is dirty first. After a power failure the
    # checksums tell what was lost.
    partial.write_bytes(b'{"format":%d,"crc32":%d,"body":%s}\n' % (MANIFEST_FORMAT, crc, text))
    os.replace(partial, folder / MANIFEST_NAME)


def read_manifest(folder: str | os.PathLike[str]) -> Manifest:
    """The manifest of the dataset in `folder`; the samples themselves are not looked at.

    Raises:
        ManifestError: there is none, it is damaged, or a newer labkit wrote it.
    """
    path = Path(folder) / MANIFEST_NAME
    try:
        document = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise _no_dataset(folder, f"no {MANIFEST_NAME} there") from None
    except OSError as error:
        raise _no_dataset(folder, f"{path} cannot be read ({error.strerror})") from error
    except ValueError:
        raise _no_dataset(folder, f"{path} is not JSON: damaged or cut off") from None
    if not isinstance(document, dict) or "format" not in document:
        raise _no_dataset(folder, f"{path} is not a manifest of data_gen")
    if document["format"] != MANIFEST_FORMAT:
        found = f"{path} has format {document['format']!r}, this data_gen reads {MANIFEST_FORMAT}"
        raise _no_dataset(folder, found)
    try:
        if zlib.crc32(_canonical(document["body"])) != document["crc32"]:
            raise _no_dataset(folder, f"{path} is damaged: its checksum differs")
        return Manifest.from_json(document["body"])
    except (KeyError, TypeError, ValueError, AttributeError, SpecError) as error:
        raise _no_dataset(folder, f"{path} is damaged: {error}") from error


def _no_dataset(folder: str | os.PathLike[str], found: str) -> ManifestError:
    return ManifestError(
        asked=f"the dataset in {folder}",
        found=found,
        do="make it with `python -m data_gen`, or name the folder that holds manifest.json",
    )


def file_record(folder: Path, name: str) -> FileRecord:
    """Reads a file once and describes it."""
    crc, size = 0, 0
    block = bytearray(_READ_BYTES)
    with open(folder / name, "rb", buffering=0) as file:
        while count := file.readinto(block):
            crc = zlib.crc32(memoryview(block)[:count], crc)
            size += count
    return FileRecord(name=name, num_bytes=size, crc32=crc)
