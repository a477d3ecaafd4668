"""DatasetSpec: what can be made, and what is said about the rest."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_gen import DEFAULT_SHAPES, KINDS, LAYOUTS, DatasetSpec, SpecError, shape_for
from data_gen.sizes import format_bytes, parse_bytes

GOOD: dict[str, Any] = {
    "kind": "volumes",
    "layout": "files",
    "count": 2,
    "shape": (4, 8, 8),
    "seed": 1,
}


@st.composite
def specs(draw: st.DrawFn) -> DatasetSpec:
    kind = draw(st.sampled_from(KINDS))
    lengths = st.integers(16, 1024)
    shape = draw(st.tuples(*[lengths] * len(DEFAULT_SHAPES[kind])))
    return DatasetSpec(
        kind=kind,
        layout=draw(st.sampled_from(LAYOUTS)),
        count=draw(st.integers(1, 10**6)),
        shape=shape,
        seed=draw(st.integers(0, 2**63 - 1)),
    )


@given(specs())
def test_spec_survives_json_and_pickle(spec: DatasetSpec) -> None:
    again = DatasetSpec.from_json(json.loads(json.dumps(spec.to_json())))
    assert again == spec
    assert again.key() == spec.key()
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert spec.total_bytes == spec.count * spec.sample_bytes > 0


@given(specs(), specs())
def test_key_tells_specs_apart(one: DatasetSpec, other: DatasetSpec) -> None:
    assert (one == other) == (one.key() == other.key())


def test_key_never_changes() -> None:
    spec = DatasetSpec(kind="volumes", layout="hdf5", count=4, shape=(512, 1024, 1024), seed=0)
    assert spec.key() == "volumes-hdf5-4x512x1024x1024-2ad394ed"
    assert spec.sample_bytes == 1 << 30


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("kind", "video", "images, text, volumes"),
        ("layout", "zarr", "files, hdf5, lmdb"),
        ("count", 0, "from 1 to"),
        ("count", True, "not a whole number"),
        ("count", 1.5, "not a whole number"),
        ("shape", (4, 8), "(depth, height, width)"),
        ("shape", [4, 8, 8], "(depth, height, width)"),
        ("shape", (4, 8, 5000), "width"),
        ("seed", -1, "seed=-1"),
    ],
)
def test_wrong_field_names_what_is_right(field: str, value: object, named: str) -> None:
    with pytest.raises(SpecError) as caught:
        DatasetSpec(**{**GOOD, field: value})
    assert named in str(caught.value)
    assert caught.value.asked
    assert caught.value.do


def test_lmdb_value_over_4_gib_is_refused() -> None:
    fields = {**GOOD, "shape": (2048, 1024, 1024)}
    assert DatasetSpec(**fields).sample_bytes == 4 << 30
    with pytest.raises(SpecError, match="LMDB value"):
        DatasetSpec(**{**fields, "layout": "lmdb"})


@pytest.mark.parametrize("document", [None, [], {}, {**GOOD, "shape": 5}, {**GOOD, "more": 1}])
def test_foreign_json_is_refused(document: object) -> None:
    with pytest.raises(SpecError):
        DatasetSpec.from_json(document)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [4 << 10, 80_000, 1 << 20, 16 << 20])
def test_shape_for_gives_about_the_size(kind: str, size: int) -> None:
    shape = shape_for(kind, size)  # type: ignore[arg-type]
    spec = DatasetSpec(**{**GOOD, "kind": kind, "shape": shape})
    assert spec.sample_bytes == pytest.approx(size, rel=0.05)


def test_shape_for_a_gib_is_the_default_volume() -> None:
    assert shape_for("volumes", 1 << 30) == DEFAULT_SHAPES["volumes"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1GiB", 1 << 30), ("80 KB", 80_000), ("1.5mib", 3 << 19), ("4096", 4096), ("7b", 7)],
)
def test_sizes_are_read(text: str, expected: int) -> None:
    assert parse_bytes(text) == expected


@pytest.mark.parametrize("text", ["", "GiB", "1 XB", "-1KB", "1e3"])
def test_wrong_sizes_are_refused(text: str) -> None:
    with pytest.raises(SpecError, match="size"):
        parse_bytes(text)


def test_sizes_are_written() -> None:
    assert format_bytes(512) == "512 B"
    assert format_bytes(1 << 30) == "1.0 GiB"
    assert format_bytes(3 << 50) == "3072.0 TiB"
