"""Synthetic datasets on disk: images, text and volumes as loose files, HDF5 or LMDB.

It knows neither labkit nor torch, and prints nothing; `python -m data_gen` is the command.
"""

from data_gen.build import build
from data_gen.errors import (
    BuildCancelled,
    DataGenError,
    FolderError,
    ManifestError,
    SpaceError,
    SpecError,
)
from data_gen.manifest import FileRecord, Manifest, SampleRecord, read_manifest
from data_gen.progress import Progress
from data_gen.spec import (
    DEFAULT_SHAPES,
    KINDS,
    LAYOUTS,
    SMALL_SHAPES,
    DatasetSpec,
    Kind,
    Layout,
    shape_for,
)
from data_gen.verify import Problem, verify

__all__ = [
    "DEFAULT_SHAPES",
    "KINDS",
    "LAYOUTS",
    "SMALL_SHAPES",
    "BuildCancelled",
    "DataGenError",
    "DatasetSpec",
    "FileRecord",
    "FolderError",
    "Kind",
    "Layout",
    "Manifest",
    "ManifestError",
    "Problem",
    "Progress",
    "SampleRecord",
    "SpaceError",
    "SpecError",
    "build",
    "read_manifest",
    "shape_for",
    "verify",
]
