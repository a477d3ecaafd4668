"""The torch Datasets behind `open_dataset`, one a kind; must not know how a layout stores samples.

What a worker inherits is numpy arrays, a path and the transform. Lists of Python objects would be
copied page by page in every worker as their reference counts change (`memory_growth` shows it).
"""

from __future__ import annotations

import io
import os
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset

from data_gen import Manifest
from data_gen.manifest import EDGE_BYTES
from data_gen.randomness import Draws
from labkit.datasets.from_files import FilesReader
from labkit.datasets.readers import Box, SampleReader, damaged, reader_for, whole_manifest
from labkit.errors import ParameterError

Transform = Callable[[Any], Any]


class StoredDataset(Dataset[tuple[Any, int]], ABC):
    """A dataset of data_gen; `open_dataset` makes the right one of its subclasses."""

    def __init__(
        self,
        root: Path,
        manifest: Manifest,
        *,
        transform: Transform | None,
        length: int | None,
        checked: bool,
    ) -> None:
        samples = manifest.samples
        self.root = root
        self.spec = manifest.spec
        self.transform = transform
        self.labels = np.array([sample.label for sample in samples], dtype=np.int64)
        self._num_bytes = np.array([sample.num_bytes for sample in samples], dtype=np.int64)
        self._crc32 = np.array([sample.crc32 for sample in samples], dtype=np.uint32)
        self._edge_crc32 = np.array([sample.edge_crc32 for sample in samples], dtype=np.uint32)
        self._length = len(samples) if length is None else length
        self._checked = checked
        self._reader: SampleReader | None = None

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> tuple[Any, int]:
        if not -self._length <= index < self._length:
            raise IndexError(f"sample {index} of {self._length}")
        return self._sample(int(index) % self._length % self.spec.count)

    @abstractmethod
    def _sample(self, number: int) -> tuple[Any, int]:
        """Sample `number` of the stored ones, and its label."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_reader": None}

    def close(self) -> None:
        """Closes what this process holds open; reading opens it again."""
        if self._reader is not None:
            self._reader.close()

    @property
    def reader(self) -> SampleReader:
        """The reader of this process."""
        if self._reader is None:
            self._reader = reader_for(self.root, self.spec, self._num_bytes)
        return self._reader

    def _transformed(self, value: Any) -> Any:
        return value if self.transform is None else self.transform(value)

    def _bytes(self, number: int) -> bytes:
        """The bytes of an image or a document, right or not at all."""
        data = self.reader.read(number)
        if self._checked and zlib.crc32(data) != self._crc32[number]:
            raise damaged(self.root, f"sample {number} has other bytes than were written")
        return data


class ImageDataset(StoredDataset):
    """(transform(RGB PIL image), label); without transform a uint8 tensor of (3, height, width)."""

    def _sample(self, number: int) -> tuple[Any, int]:
        try:
            image = Image.open(io.BytesIO(self._bytes(number))).convert("RGB")
        except OSError as error:  # only with checked=False
            raise damaged(self.root, f"sample {number} is no JPEG: {error}") from error
        label = int(self.labels[number])
        if self.transform is None:
            return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous(), label
        return self.transform(image), label


class TextDataset(StoredDataset):
    """(transform(str), length in bytes)."""

    def _sample(self, number: int) -> tuple[Any, int]:
        data = self._bytes(number)
        return self._transformed(data.decode("ascii", "replace")), len(data)


class VolumeDataset(StoredDataset):
    """(transform(int16 tensor of (depth, height, width), sharing the array's memory), label)."""

    def __init__(
        self,
        root: Path,
        manifest: Manifest,
        *,
        mapped: bool,
        patch: tuple[int, int, int] | None,
        transform: Transform | None,
        length: int | None,
        checked: bool,
    ) -> None:
        super().__init__(root, manifest, transform=transform, length=length, checked=checked)
        self._mapped = mapped
        self._patch = patch
        self._known = np.zeros(self.spec.count, dtype=bool)

    def _sample(self, number: int) -> tuple[Any, int]:
        reader = self.reader
        if self._checked and not self._known[number]:
            first, last = reader.edges(number, EDGE_BYTES)
            if zlib.crc32(last, zlib.crc32(first)) != self._edge_crc32[number]:
                raise damaged(self.root, f"volume {number} is not the one that was written")
            self._known[number] = True
        if self._mapped and isinstance(reader, FilesReader):
            volume = reader.mapped(number)
            if self._patch is not None:
                volume = np.array(volume[self.box(number)])
        elif self._patch is not None:
            volume = reader.patch(number, self.box(number))
        else:
            volume = reader.volume(number)
        return self._transformed(torch.from_numpy(volume)), int(self.labels[number])

    def box(self, number: int) -> Box:
        """Where the patch of sample `number` lies: the same at every call, spread over samples."""
        assert self._patch is not None
        draws = Draws(self.spec.seed, "patch", number)
        z, y, x = (
            draws.below(whole - part + 1)
            for whole, part in zip(self.spec.shape, self._patch, strict=True)
        )
        depth, height, width = self._patch
        return slice(z, z + depth), slice(y, y + height), slice(x, x + width)


def from_folder(
    folder: str | os.PathLike[str],
    *,
    transform: Transform | None,
    access: str,
    patch: tuple[int, int, int] | None,
    length: int | None,
    checked: bool,
) -> StoredDataset:
    """`labkit.datasets.open_dataset`, which documents it."""
    root = Path(os.path.abspath(folder))
    manifest = whole_manifest(root)
    _check_options(manifest, access, patch, length)
    if manifest.spec.kind == "volumes":
        return VolumeDataset(
            root,
            manifest,
            mapped=access == "mmap",
            patch=patch,
            transform=transform,
            length=length,
            checked=checked,
        )
    make = ImageDataset if manifest.spec.kind == "images" else TextDataset
    return make(root, manifest, transform=transform, length=length, checked=checked)


def _check_options(
    manifest: Manifest, access: str, patch: tuple[int, int, int] | None, length: int | None
) -> None:
    spec = manifest.spec
    found = f"this dataset is {spec.kind} of {spec.shape} in layout {spec.layout}"
    if access not in ("read", "mmap"):
        raise _wrong(f"access={access!r}", "there is no such access", "choose 'read' or 'mmap'")
    if access == "mmap" and (spec.kind, spec.layout) != ("volumes", "files"):
        do = "use access='read': a map needs volumes in layout files"
        raise _wrong("access='mmap'", found, do)
    if length is not None and length < 1:
        do = f"give at least 1, or None for {spec.count}"
        raise _wrong(f"length={length}", "it is below 1", do)
    if patch is None:
        return
    if spec.kind != "volumes":
        raise _wrong(f"patch={patch}", found, "leave patch out: it needs volumes")
    if len(patch) != 3 or not all(1 <= p <= s for p, s in zip(patch, spec.shape, strict=True)):
        raise _wrong(f"patch={patch}", found, f"give three lengths from 1 to those of {spec.shape}")


def _wrong(asked: str, found: str, do: str) -> ParameterError:
    return ParameterError(asked=f"open_dataset with {asked}", found=found, do=do)
