"""Stores a small run as a test's data: ``python tests/data/store_run.py NAME [JSON PARAMETERS]``.

What tells its maker apart is taken out: folders, the host's name, the machine's id.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import labkit

RUNS = Path(__file__).parent / "runs"


def store(name: str, **params: Any) -> Path:
    """Measure at small size and keep plan and events, with the verdicts as they are now."""
    result = labkit.run(name, size="small", view="none", **params)
    target = RUNS / name
    shutil.rmtree(target, ignore_errors=True)
    (target / "events").mkdir(parents=True)
    (target / "trials").mkdir()
    plan = json.loads((result.path / "plan.json").read_text())
    plan["datasets"], plan["prepare"] = {}, []
    plan["environment"] |= {"machine_id": "stored", "cpu": "a stored machine"}
    (target / "plan.json").write_text(json.dumps(plan))
    for path in sorted((result.path / "events").glob("*.jsonl")):
        lines = [json.loads(line) | {"host": "host"} for line in path.read_text().splitlines()]
        for line in lines:  # what a dead trial printed names folders
            for name in ("traceback", "stdout", "stderr"):
                line["body"].get("evidence", {}).pop(name, None)
        place = target / "events" / f"host-{path.stem.partition('-')[2]}.jsonl"
        place.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    said = [[each.claim, each.story, each.outcome.value] for each in labkit.load(target).verdicts]
    (target / "verdicts.json").write_text(json.dumps(said) + "\n")
    return target


if __name__ == "__main__":
    print(store(sys.argv[1], **json.loads(sys.argv[2] if len(sys.argv) > 2 else "{}")))
