"""The ledger is whole, and every experiment judges claims that stand in it."""

from __future__ import annotations

import pytest

from labkit.claims import LEDGER, claim
from labkit.errors import ParameterError


def test_the_ledger_has_every_claim_once_and_in_order() -> None:
    assert [entry.id for entry in LEDGER] == [f"K{number}" for number in range(1, 34)]


@pytest.mark.parametrize("entry", LEDGER, ids=lambda entry: entry.id)
def test_a_claim_says_what_is_compared(entry) -> None:  # type: ignore[no-untyped-def]
    assert claim(entry.id) is entry
    assert entry.statement.endswith(".")
    assert entry.pairs
    assert entry.lab
    assert (entry.threshold is None) == (entry.margin is None)


def test_an_unknown_claim_is_refused() -> None:
    with pytest.raises(ParameterError, match="K1 to K33"):
        claim("K99")
