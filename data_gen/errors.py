"""Everything that can go wrong in data_gen; must not raise anything itself.

Each error says what was asked, what was found and what to do.

DataGenError
├── SpecError        a field of a DatasetSpec that cannot be made (also a ValueError)
├── FolderError      the target folder holds something else, or cannot be written
├── SpaceError       the disk has not enough room, before or during writing
├── ManifestError    not a dataset: no manifest, a damaged one, or one of another format
└── BuildCancelled   the caller asked to stop; nothing is left behind
"""

from __future__ import annotations


class DataGenError(Exception):
    """Base of all errors of data_gen; the message reads "asked ...; found ...; do ..."."""

    def __init__(self, *, asked: str, found: str, do: str) -> None:
        super().__init__(f"asked: {asked}; found: {found}; do: {do}")
        self.asked = asked
        self.found = found
        self.do = do

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.asked, self.found, self.do))


def _rebuild(kind: type[DataGenError], asked: str, found: str, do: str) -> DataGenError:
    # Exceptions with keyword-only arguments do not survive pickling (a pool's child) without this.
    return kind(asked=asked, found=found, do=do)


class SpecError(DataGenError, ValueError):
    """A DatasetSpec that cannot be made."""


class FolderError(DataGenError):
    """The target folder holds something else, or cannot be written."""


class SpaceError(DataGenError):
    """The disk has not enough free space."""


class ManifestError(DataGenError):
    """The folder is not a whole dataset: its manifest is missing, damaged or of another format."""


class BuildCancelled(DataGenError):
    """The caller's `cancel` said stop."""
