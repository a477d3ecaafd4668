"""Which room may import which, read from the source with `ast`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
VOCABULARY = ("records", "params", "guesses", "figures", "events", "errors", "units", "summary")
PUBLIC = (
    "labkit.cli", "labkit.api", "labkit.result", "labkit.ledger", "labkit.comparison",
    "labkit.planning", "labkit.ranks", "labkit.rank_budget", "labkit.__main__",
)  # fmt: skip

# Room or module: the modules that nothing in it may import, at any depth of the code.
FORBIDDEN = {
    "data_gen": ("labkit", "torch"),
    "labkit.machine": (
        *("torch", "data_gen", "labkit.datasets", "labkit.measure", "labkit.experiments"),
        *("labkit.view", *PUBLIC),
    ),
    "labkit.datasets": ("labkit.measure", "labkit.experiments", "labkit.view", *PUBLIC),
    "labkit.measure": ("labkit.datasets", "labkit.experiments", "labkit.view", *PUBLIC),
    "labkit.experiments": ("labkit.view", *PUBLIC),
    "labkit.view": ("torch", "h5py", "lmdb", "labkit.datasets", "labkit.experiments", *PUBLIC),
}
# The kernel imports none of these: they belong to the process of a trial.
TORCH_AT_THE_TOP = {"labkit.datasets.map_style", "labkit.measure.stamps"}
# Where a person is spoken to.
MAY_PRINT = ("labkit.cli", "labkit.view", "data_gen.__main__")


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One imported module, and whether it is imported as soon as the file is."""

    module: str
    at_import: bool


def sources(package: str) -> dict[str, ast.Module]:
    """Dotted module name to syntax tree."""
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(), str(path))
    return found


def imports(tree: ast.AST, *, at_import: bool = True) -> Iterator[Import]:
    """Every import; blocks under TYPE_CHECKING and bodies of functions are not run at import."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module=alias.name, at_import=at_import)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are written in full here"
            yield Import(module=node.module or "", at_import=at_import)
            for alias in node.names:  # `from labkit import view` imports a room, too.
                yield Import(module=f"{node.module}.{alias.name}", at_import=at_import)
        else:
            later = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            typing_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
            yield from imports(node, at_import=at_import and not later and not typing_only)


def within(module: str, rooms: tuple[str, ...] | set[str]) -> bool:
    return any(module == room or module.startswith(f"{room}.") for room in rooms)


MODULES = sources("labkit") | sources("data_gen")


def test_the_rooms_are_there() -> None:
    for room in FORBIDDEN:
        assert any(within(module, (room,)) for module in MODULES), room


@pytest.mark.parametrize("room", FORBIDDEN)
def test_a_room_imports_no_room_above_it(room: str) -> None:
    wrong = [
        f"{module} imports {found.module}"
        for module, tree in MODULES.items()
        if within(module, (room,))
        for found in imports(tree)
        if within(found.module, FORBIDDEN[room])
    ]
    assert not wrong


@pytest.mark.parametrize("name", VOCABULARY)
def test_the_vocabulary_imports_nothing_but_itself(name: str) -> None:
    allowed = tuple(f"labkit.{word}" for word in VOCABULARY)
    wrong = [
        found.module
        for found in imports(MODULES[f"labkit.{name}"])
        if within(found.module, ("labkit", "data_gen", "torch")) and found.module != "labkit"
        if not within(found.module, allowed)
    ]
    assert not wrong


def test_torch_is_imported_at_the_top_only_where_a_trial_runs() -> None:
    found = {
        module
        for module, tree in MODULES.items()
        if any(within(each.module, ("torch",)) and each.at_import for each in imports(tree))
    }
    assert found <= TORCH_AT_THE_TOP


def test_modules_with_torch_are_imported_late() -> None:
    wrong = [
        f"{module} imports {found.module}"
        for module, tree in MODULES.items()
        if module not in TORCH_AT_THE_TOP
        for found in imports(tree)
        if found.at_import and within(found.module, TORCH_AT_THE_TOP)
    ]
    assert not wrong


def test_experiments_import_datasets_late() -> None:
    wrong = [
        f"{module} imports {found.module}"
        for module, tree in MODULES.items()
        if within(module, ("labkit.experiments",))
        for found in imports(tree)
        if found.at_import and within(found.module, ("torch", "labkit.datasets"))
    ]
    assert not wrong


def test_only_the_command_and_the_views_print() -> None:
    wrong = [
        f"{module}, line {node.lineno}"
        for module, tree in MODULES.items()
        if not within(module, MAY_PRINT)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]
    assert not wrong


def test_nothing_is_unpickled() -> None:
    loaders = ("pickle", "cloudpickle", "dill", "joblib", "shelve")
    wrong = [
        f"{module} imports {found.module}"
        for module, tree in MODULES.items()
        for found in imports(tree)
        if within(found.module, loaders)
    ]
    assert not wrong
