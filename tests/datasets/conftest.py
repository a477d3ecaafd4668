"""Small datasets of every kind and layout, built once a session."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from data_gen import KINDS, LAYOUTS, DatasetSpec, Kind, Layout, build

SHAPES: dict[Kind, tuple[int, ...]] = {
    "images": (48, 64),
    "text": (300,),
    "volumes": (12, 40, 56),
}
ALL = list(itertools.product(KINDS, LAYOUTS))
CopyStored = Callable[[Kind, Layout], Path]


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one dataset `KIND-LAYOUT` of 7 samples each; not to be changed."""
    root = tmp_path_factory.mktemp("stored")
    for kind, layout in ALL:
        spec = DatasetSpec(kind=kind, layout=layout, count=7, shape=SHAPES[kind], seed=3)
        build(spec, root / f"{kind}-{layout}")
    return root


@pytest.fixture
def copy_stored(stored: Path, tmp_path: Path) -> CopyStored:
    """Copies a dataset to a place where it may be damaged."""

    def copy(kind: Kind, layout: Layout) -> Path:
        return Path(shutil.copytree(stored / f"{kind}-{layout}", tmp_path / f"{kind}-{layout}"))

    return copy


@pytest.fixture(params=ALL, ids=["-".join(pair) for pair in ALL])
def pair(request: pytest.FixtureRequest) -> tuple[Kind, Layout]:
    """Each kind in each layout."""
    found: tuple[Kind, Layout] = request.param
    return found


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A labkit home of its own; returns the cache folder in it, which is not there yet."""
    monkeypatch.setenv("LABKIT_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "datasets"
