"""Small specs of every kind and layout, and datasets built once a session."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from data_gen import KINDS, LAYOUTS, DatasetSpec, Kind, Layout, build

SHAPES: dict[Kind, tuple[int, ...]] = {
    "images": (48, 64),
    "text": (300,),
    "volumes": (12, 40, 56),
}
ALL = list(itertools.product(KINDS, LAYOUTS))
MakeSpec = Callable[..., DatasetSpec]
CopyDataset = Callable[[Kind, Layout], Path]


@pytest.fixture(scope="session")
def make_spec() -> MakeSpec:
    """A small spec; any field may be given."""

    def make(kind: Kind, layout: Layout, **fields: Any) -> DatasetSpec:
        given: dict[str, Any] = {"count": 7, "shape": SHAPES[kind], "seed": 3, **fields}
        return DatasetSpec(kind=kind, layout=layout, **given)

    return make


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory, make_spec: MakeSpec) -> Path:
    """A folder with one dataset `KIND-LAYOUT` of each; not to be changed."""
    root = tmp_path_factory.mktemp("built")
    for kind, layout in ALL:
        build(make_spec(kind, layout), root / f"{kind}-{layout}")
    return root


@pytest.fixture
def copy_dataset(built: Path, tmp_path: Path) -> CopyDataset:
    """Copies a dataset to a place where it may be damaged."""

    def copy(kind: Kind, layout: Layout) -> Path:
        return Path(shutil.copytree(built / f"{kind}-{layout}", tmp_path / f"{kind}-{layout}"))

    return copy


@pytest.fixture(params=ALL, ids=["-".join(pair) for pair in ALL])
def pair(request: pytest.FixtureRequest) -> tuple[Kind, Layout]:
    """Each kind in each layout."""
    found: tuple[Kind, Layout] = request.param
    return found
