"""Two runs side by side: settings, rates, verdicts, and what makes them incomparable."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import labkit
from labkit.errors import ParameterError

STORED = Path(__file__).parent / "data" / "runs"


@pytest.fixture
def changed(tmp_path: Path) -> Callable[..., Path]:
    """A copy of the stored worker_plateau whose plan was changed."""

    def make(**environment: Any) -> Path:
        target = tmp_path / f"copy{len(list(tmp_path.iterdir()))}"
        shutil.copytree(STORED / "worker_plateau", target)
        plan = json.loads((target / "plan.json").read_text())
        plan["environment"] |= environment
        (target / "plan.json").write_text(json.dumps(plan))
        return target

    return make


def test_a_run_against_itself_is_the_same(changed: Callable[..., Path]) -> None:
    found = labkit.compare(STORED / "worker_plateau", changed())
    assert not found.parameters
    assert found.unmatched == (0, 0)
    assert len(found.rows) == len(found.a.settings)
    for row in found.rows:
        assert row.ratio is not None
        assert row.ratio.median == pytest.approx(1)
        assert row.ratio.low < 1 < row.ratio.high
    assert all(pair.a == pair.b for pair in found.verdicts)


def test_what_matters_of_the_machine_is_told(changed: Callable[..., Path]) -> None:
    found = labkit.compare(changed(), changed(torch="9.9", usable_cores=64, disk_available_bytes=1))
    assert {each.what for each in found.environment} >= {"torch", "usable cores"}
    assert not any("disk" in each.what for each in found.environment)
    assert "torch" in repr(found)
    assert "9.9" in repr(found)
    assert "not measured under the same conditions" in found._repr_html_()


def test_runs_of_different_labs_are_refused() -> None:
    with pytest.raises(ParameterError, match="kitchen"):
        labkit.compare(STORED / "worker_plateau", STORED / "kitchen")


def test_settings_of_one_alone_are_counted(changed: Callable[..., Path]) -> None:
    other = changed()
    plan = json.loads((other / "plan.json").read_text())
    plan["settings"][0]["params"]["workers"] = 7
    plan["asked"]["params"]["workers"] = [7, 2]
    (other / "plan.json").write_text(json.dumps(plan))
    found = labkit.compare(STORED / "worker_plateau", other)
    assert found.unmatched == (1, 1)
    assert [each.what for each in found.parameters] == ["workers"]
    assert "1 setting of b alone" in repr(found)


def test_json_holds_rates_ratio_and_verdicts(changed: Callable[..., Path]) -> None:
    raw = json.loads(json.dumps(labkit.compare(changed(), changed()).to_json()))
    assert raw["experiment"] == "worker_plateau"
    assert raw["settings"][0]["samples_per_second"]["a"]["median"] > 0
    assert raw["verdicts"][0]["claim"] == "K7"
