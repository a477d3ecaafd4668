"""Finds experiments by name or by file, in the kernel and in trial processes alike.

It must not import any experiment statically, and knows no experiment by name.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import sys
from pathlib import Path
from types import ModuleType

from labkit.errors import ExperimentError, UnknownExperimentError
from labkit.records import Experiment

PACKAGE = "labkit.experiments"


def available() -> tuple[str, ...]:
    """Names of the experiments that come with labkit: every module of the package is one."""
    package = importlib.import_module(PACKAGE)
    return tuple(sorted(module.name for module in pkgutil.iter_modules(package.__path__)))


def reference(name_or_path: str) -> str:
    """What a trial process is told: a module's full name, or a file's absolute path.

    Raises:
        UnknownExperimentError: neither a known name nor a file.
    """
    if name_or_path.endswith(".py"):
        path = Path(name_or_path).expanduser().resolve()
        if not path.is_file():
            raise UnknownExperimentError(
                asked=f"the experiment in {name_or_path}",
                found="there is no such file",
                do="give the path of a .py file that holds EXPERIMENT = labkit.Experiment(...)",
            )
        return str(path)
    names = available()
    if name_or_path not in names:
        near = difflib.get_close_matches(name_or_path, names, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise UnknownExperimentError(
            asked=f"the experiment {name_or_path!r}",
            found=f"the experiments are {', '.join(names)}",
            do=f"{hint}give one of these names, or the path of your own .py file",
        )
    return f"{PACKAGE}.{name_or_path}"


def load_experiment(ref: str) -> Experiment:
    """Import the module of a `reference` and take its EXPERIMENT.

    Raises:
        ExperimentError: the module cannot be imported or holds no experiment.
    """
    try:
        module = _import_file(Path(ref)) if ref.endswith(".py") else importlib.import_module(ref)
    except Exception as error:
        raise ExperimentError(
            asked=f"the experiment in {ref}",
            found=f"importing it raised {type(error).__name__}: {error}",
            do="mend the file, and import torch and your dataset inside its functions only",
        ) from error
    experiment = getattr(module, "EXPERIMENT", None)
    if not isinstance(experiment, Experiment):
        raise ExperimentError(
            asked=f"the experiment in {ref}",
            found="the module has no EXPERIMENT = labkit.Experiment(...)",
            do="add one; the README shows an example",
        )
    return experiment


def _import_file(path: Path) -> ModuleType:
    """Import under the file's own name, so that spawned workers find its classes again."""
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    known = sys.modules.get(path.stem)
    if known is not None:
        if getattr(known, "__file__", None) != str(path):
            raise ImportError(f"another module is called {path.stem!r}; rename the file")
        # A reader edits the file and runs it again in the same kernel.
        return importlib.reload(known)
    importlib.invalidate_caches()
    module = importlib.import_module(path.stem)
    if getattr(module, "__file__", None) != str(path):
        raise ImportError(f"another module is called {path.stem!r}; rename the file")
    return module
