"""Events: each memory number's one sentence, and lines of later versions."""

from __future__ import annotations

import ast
import json
from pathlib import Path

from labkit import events
from labkit.events import MEMORY_DEFINITIONS, Event, MemorySampled, ProcessMemory


def docstrings(tree: ast.Module, name: str) -> dict[str, str]:
    """Field or property of a class to the string that stands below it."""
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    body = classes[name].body
    texts: dict[str, str] = {}
    for node, below in zip(body, [*body[1:], body[0]], strict=True):
        if isinstance(node, ast.FunctionDef):
            texts[node.name] = ast.get_docstring(node) or ""
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            text = ast.literal_eval(below.value) if isinstance(below, ast.Expr) else ""
            texts[node.target.id] = " ".join(text.split())
    return texts


def test_tooltips_and_docstrings_are_one() -> None:
    tree = ast.parse(Path(events.__file__).read_text("utf-8"))
    written = docstrings(tree, "ProcessMemory") | docstrings(tree, "MemorySampled")
    numbers = written.keys() - {"pid", "role", "processes", "source", "held"}
    assert {name: written[name] for name in numbers} == MEMORY_DEFINITIONS


def test_fields_of_a_later_version_are_ignored_also_within() -> None:
    process = ProcessMemory(pid=1, role="main", rss=5, pss=4, anonymous=3, private=2, shared=1)
    body = MemorySampled(
        processes=(process,), shared_memory=7, cache=8, source="smaps", group_bytes=9
    )
    event = Event(trial="000-0", host="h", rank=0, t=1.0, body=body)
    raw = json.loads(events.to_line(event))
    raw["body"]["processes"][0]["tomorrow"] = raw["body"]["tomorrow"] = 1
    assert events.from_line(json.dumps(raw)) == event
    del raw["body"]["processes"][0]["shared"], raw["body"]["group_bytes"]  # as version 1 wrote it
    old = events.from_line(json.dumps(raw))
    assert old is not None
    assert isinstance(old.body, MemorySampled)
    assert (old.body.processes[0].shared, old.body.group_bytes) == (0, None)
