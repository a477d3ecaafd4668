"""Every failure that labkit reports to a person; it must not print and must not do I/O.

    LabkitError                   asked, found, do; exit code 2 (bad input) unless said otherwise
    ├── ParameterError            a parameter is unknown, of the wrong type, or out of range
    ├── UnknownExperimentError    no experiment of that name or at that path
    ├── ExperimentError           an experiment file exists but cannot be used
    ├── DatasetError              a dataset is missing, foreign, truncated or changed
    ├── InsufficientSpaceError    the disk or memory cannot hold what was asked for
    ├── StoreError                a run folder cannot be read or written
    └── MeasureError              the measuring machinery itself failed; exit code 1
"""

from __future__ import annotations


class LabkitError(Exception):
    """Says what was asked, what was found and what to do; base of all labkit errors."""

    exit_code = 2
    """What the command line exits with when this error reaches it."""

    def __init__(self, *, asked: str, found: str, do: str) -> None:
        super().__init__(f"asked: {asked}\nfound: {found}\ndo: {do}")
        self.asked = asked
        self.found = found
        self.do = do


class ParameterError(LabkitError):
    """A parameter is unknown, of the wrong type, or outside its range."""


class UnknownExperimentError(LabkitError):
    """There is no experiment of that name, or no file at that path."""


class ExperimentError(LabkitError):
    """An experiment file was found, but it cannot be used as it stands."""


class DatasetError(LabkitError):
    """A dataset is missing, foreign, truncated or changed."""


class InsufficientSpaceError(LabkitError):
    """The disk or the memory cannot hold what was asked for."""


class StoreError(LabkitError):
    """A run folder cannot be read or written."""


class MeasureError(LabkitError):
    """The measuring itself failed: a fault of labkit or of the machine, not of the input."""

    exit_code = 1
