"""Copies of the notebooks: changed ones are kept, and the wheel has them."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from labkit import notebooks_copy
from labkit.errors import StoreError
from labkit.notebooks_copy import copy_notebooks, start_jupyterlab

ROOT = Path(__file__).parents[1]


@pytest.fixture
def packaged(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Stands for the notebooks of the installed version; a test may change it."""
    content = {"01_a.ipynb": b"a1", "02_b.ipynb": b"b1"}
    monkeypatch.setattr(notebooks_copy, "_packaged", lambda: iter(content.items()))
    return content


def test_the_first_copy_and_the_second(tmp_path: Path, packaged: dict[str, bytes]) -> None:
    assert copy_notebooks(tmp_path / "labs").copied == ("01_a.ipynb", "02_b.ipynb")
    again = copy_notebooks(tmp_path / "labs")
    assert again.unchanged == ("01_a.ipynb", "02_b.ipynb")
    assert again.copied + again.updated + again.kept == ()


def test_a_new_version_replaces_only_what_the_reader_left_alone(
    tmp_path: Path, packaged: dict[str, bytes]
) -> None:
    copy_notebooks(tmp_path)
    (tmp_path / "01_a.ipynb").write_bytes(b"mine")
    packaged |= {"01_a.ipynb": b"a2", "02_b.ipynb": b"b2", "03_c.ipynb": b"c1"}
    report = copy_notebooks(tmp_path)
    assert (report.kept, report.updated) == (("01_a.ipynb",), ("02_b.ipynb",))
    assert report.copied == ("03_c.ipynb",)
    assert (tmp_path / "01_a.ipynb").read_bytes() == b"mine"
    assert (tmp_path / "02_b.ipynb").read_bytes() == b"b2"


def test_a_change_is_kept_for_ever(tmp_path: Path, packaged: dict[str, bytes]) -> None:
    copy_notebooks(tmp_path)
    (tmp_path / "01_a.ipynb").write_bytes(b"mine")
    for version in (b"a2", b"a3"):
        packaged["01_a.ipynb"] = version
        assert copy_notebooks(tmp_path).kept == ("01_a.ipynb",)


def test_a_file_that_was_there_before_is_kept(tmp_path: Path, packaged: dict[str, bytes]) -> None:
    (tmp_path / "01_a.ipynb").write_bytes(b"mine")
    (tmp_path / ".labkit-notebooks.json").write_text("{torn")
    assert copy_notebooks(tmp_path).kept == ("01_a.ipynb",)


def test_a_folder_that_cannot_be_made(tmp_path: Path, packaged: dict[str, bytes]) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        copy_notebooks(tmp_path / "file")


def test_the_repositorys_notebooks_are_found(tmp_path: Path) -> None:
    assert "README.md" in copy_notebooks(tmp_path).copied


@pytest.mark.slow
def test_jupyterlab_starts(tmp_path: Path) -> None:
    assert start_jupyterlab(tmp_path, extra=["--version"]) == 0


@pytest.mark.slow
def test_the_wheel_has_the_notebooks(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    built = subprocess.run(
        [*command, "--directory", str(tmp_path)], cwd=ROOT, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        names = set(wheel.namelist())
    expected = {f"labkit/_notebooks/{path.name}" for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert expected | {"labkit/_notebooks/README.md", "data_gen/py.typed"} <= names
