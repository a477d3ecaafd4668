"""Datasets over what data_gen wrote, and their cache; importing it must not import torch."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from labkit.datasets.map_style import StoredDataset

__all__ = ["open_dataset"]


def open_dataset(
    folder: str | os.PathLike[str],
    *,
    transform: Callable[[Any], Any] | None = None,
    access: Literal["read", "mmap"] = "read",
    patch: tuple[int, int, int] | None = None,
    length: int | None = None,
    checked: bool = True,
) -> StoredDataset:
    """A map-style torch Dataset over the dataset in `folder`, whatever its kind and layout.

    Handles are opened in the process that reads, so it may be given to DataLoader workers under
    fork, forkserver and spawn. A sample is a pair:

    - images: (transform(RGB PIL image), label); without transform a uint8 tensor of (3, h, w);
    - text: (transform(str), length in bytes);
    - volumes: (transform(int16 tensor of (depth, height, width)), label).

    Args:
        folder: of a whole dataset, as `data_gen.build` leaves it.
        transform: kept in the attribute `transform`, as torchvision does.
        access: volumes in layout files: "read" into fresh memory, or "mmap": the tensor is a
            private map of the file, whose pages are read when they are touched.
        patch: volumes: only a box of (depth, height, width) at a place that depends on the
            sample; with "read" no more than its rows are read from the disk.
        length: number of samples to appear to have; index i reads sample i modulo the true count.
        checked: compare each image and document with its checksum (0.02 ms for 60 KB), and each
            volume's first and last 4 KiB when the process first reads it.

    Raises:
        DatasetError: no whole dataset there, or later, a sample that was truncated or replaced.
        ParameterError: an option that does not fit the dataset; the message names what does.
    """
    from labkit.datasets.map_style import from_folder

    return from_folder(
        folder, transform=transform, access=access, patch=patch, length=length, checked=checked
    )
