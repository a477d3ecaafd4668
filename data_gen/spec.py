"""What a synthetic dataset is: DatasetSpec, checked when it is made; must not touch the disk."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

from data_gen.errors import SpecError

Kind = Literal["images", "text", "volumes"]
Layout = Literal["files", "hdf5", "lmdb"]
KINDS: tuple[Kind, ...] = get_args(Kind)
LAYOUTS: tuple[Layout, ...] = get_args(Layout)

GENERATOR_VERSION = 1
"""Goes up when the same spec gives other bytes than before; part of `DatasetSpec.key`."""

DEFAULT_SHAPES: dict[Kind, tuple[int, ...]] = {
    "images": (375, 500),
    "text": (2000,),
    "volumes": (512, 1024, 1024),
}
SMALL_SHAPES: dict[Kind, tuple[int, ...]] = {
    "images": (120, 160),
    "text": (400,),
    "volumes": (16, 128, 128),
}
_AXES: dict[Kind, tuple[str, ...]] = {
    "images": ("height in pixels", "width in pixels"),
    "text": ("median document length in bytes",),
    "volumes": ("depth", "height", "width"),
}
_LOWEST: dict[Kind, int] = {"images": 16, "text": 16, "volumes": 1}
# A plane of 4096 x 4096 is 32 MiB, the unit in which volumes are made in constant memory.
_HIGHEST: dict[Kind, tuple[int, ...]] = {
    "images": (8192, 8192),
    "text": (1 << 24,),
    "volumes": (1 << 16, 4096, 4096),
}
_MAX_COUNT = 100_000_000
_LMDB_MAX_VALUE = (1 << 32) - (1 << 16)

# Means over 500 images of 500 x 375 (0.39 at 160 x 120) and over 2,000 documents.
IMAGE_BYTES_PER_PIXEL = 0.36
TEXT_MEAN_PER_MEDIAN = 1.4
VOXEL_BYTES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetSpec:
    """A dataset to make: two equal specs give byte-equal samples, in every layout.

    Raises:
        SpecError: a field cannot be made; the message names what can.
    """

    kind: Kind
    """images (JPEG), text (UTF-8 documents) or volumes (int16 voxels)."""
    layout: Layout
    """files (one file a sample), hdf5 (one file) or lmdb (one file, one key a sample)."""
    count: int
    """Number of samples."""
    shape: tuple[int, ...]
    """images: (height, width) in pixels; text: (median bytes,); volumes: (depth, height, width)."""
    seed: int = 0

    def __post_init__(self) -> None:
        _check_choice("kind", self.kind, KINDS)
        _check_choice("layout", self.layout, LAYOUTS)
        _check_whole("count", self.count, 1, _MAX_COUNT)
        _check_whole("seed", self.seed, 0, (1 << 63) - 1)
        axes, highest = _AXES[self.kind], _HIGHEST[self.kind]
        if not isinstance(self.shape, tuple) or len(self.shape) != len(axes):
            raise SpecError(
                asked=f"shape={self.shape!r} of {self.kind}",
                found=f"it is not a tuple of {len(axes)} whole numbers",
                do=f"give ({', '.join(axes)}), for example {DEFAULT_SHAPES[self.kind]}",
            )
        for name, value, top in zip(axes, self.shape, highest, strict=True):
            _check_whole(f"{self.kind}: {name}", value, _LOWEST[self.kind], top)
        if self.layout == "lmdb" and self.sample_bytes > _LMDB_MAX_VALUE:
            raise SpecError(
                asked=f"samples of {self.sample_bytes:,} bytes in layout lmdb",
                found=f"an LMDB value holds at most {_LMDB_MAX_VALUE:,} bytes",
                do="choose a smaller shape, or layout files or hdf5",
            )

    @property
    def sample_bytes(self) -> int:
        """Bytes of one sample: exact for volumes, the expected mean for images and text."""
        if self.kind == "volumes":
            return math.prod(self.shape) * VOXEL_BYTES
        if self.kind == "images":
            return max(1, round(math.prod(self.shape) * IMAGE_BYTES_PER_PIXEL))
        return round(self.shape[0] * TEXT_MEAN_PER_MEDIAN)

    @property
    def total_bytes(self) -> int:
        """Bytes of all samples: exact for volumes, expected for images and text."""
        return self.sample_bytes * self.count

    @property
    def num_bytes(self) -> int:
        """The same as `total_bytes`: what the dataset takes on disk, without padding."""
        return self.total_bytes

    def to_json(self) -> dict[str, Any]:
        """A plain dict for `json.dumps`."""
        return {
            "kind": self.kind,
            "layout": self.layout,
            "count": self.count,
            "shape": list(self.shape),
            "seed": self.seed,
        }

    @classmethod
    def from_json(cls, document: object) -> DatasetSpec:
        """The spec of `to_json`'s dict, checked.

        Raises:
            SpecError: a field is missing, unknown or wrong.
        """
        names = ("kind", "layout", "count", "shape", "seed")
        if not isinstance(document, dict) or set(document) != set(names):
            raise SpecError(
                asked=f"a dataset spec from {document!r}",
                found="it has not exactly the fields " + ", ".join(names),
                do="pass what DatasetSpec.to_json() returns",
            )
        shape = document["shape"]
        fields = {**document, "shape": tuple(shape) if isinstance(shape, list) else shape}
        return cls(**fields)

    def key(self) -> str:
        """A folder name such as `volumes-hdf5-4x512x1024x1024-1f0c9a2b`, the same for ever."""
        document = {**self.to_json(), "generator": GENERATOR_VERSION}
        text = json.dumps(document, sort_keys=True)
        digest = hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
        sizes = "x".join(map(str, (self.count, *self.shape)))
        return f"{self.kind}-{self.layout}-{sizes}-{digest}"


def shape_for(kind: Kind, sample_bytes: int) -> tuple[int, ...]:
    """The shape whose sample has about `sample_bytes`; exactly so for volumes of whole planes.

    Volumes keep planes of 1024 x 1024 (2 MiB) from 64 MiB on, and of half the side below that, so
    that there are at least 8 planes; images keep the proportion 4:3.
    """
    _check_choice("kind", kind, KINDS)
    _check_whole("sample size in bytes", sample_bytes, 16, 1 << 40)
    if kind == "text":
        return (max(_LOWEST["text"], round(sample_bytes / TEXT_MEAN_PER_MEDIAN)),)
    if kind == "images":
        unit = math.sqrt(sample_bytes / IMAGE_BYTES_PER_PIXEL / 12)
        return max(16, round(3 * unit)), max(16, round(4 * unit))
    side = 1024
    while side > 8 and side * side * VOXEL_BYTES * 32 > sample_bytes:
        side //= 2
    return max(1, round(sample_bytes / (side * side * VOXEL_BYTES))), side, side


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise SpecError(
            asked=f"{name}={value!r}",
            found=f"data_gen has no such {name}",
            do="choose one of " + ", ".join(choices),
        )


def _check_whole(name: str, value: object, lowest: int, highest: int) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or not lowest <= value <= highest:  # type: ignore[operator]
        raise SpecError(
            asked=f"{name}={value!r}",
            found="it is out of range" if whole else "it is not a whole number",
            do=f"give a whole number from {lowest:,} to {highest:,}",
        )
