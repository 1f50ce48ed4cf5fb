"""Every provenance declares its laws: those hold, and the others don't."""

from __future__ import annotations

import pytest

from algebras import (
    FAMILIES,
    LAWS,
    LAYOUTS,
    NEEDS_NEGATION,
    NUMBERS,
    Algebra,
    keeps,
    provenance_of,
)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("provenance", FAMILIES, ids=repr)
def test_declared_laws_hold(provenance, layout):
    broken = [
        law for law in LAWS if law in provenance.laws if not keeps(Algebra(provenance, layout), law)
    ]
    assert broken == []


@pytest.mark.parametrize("name", NUMBERS)
def test_laws_that_are_not_declared_fail(name):
    """So that the declarations can be believed in both directions."""
    provenance = provenance_of(name)
    others = set(LAWS) - provenance.laws - (NEEDS_NEGATION if name == "counting" else set())
    kept = [law for law in sorted(others) if keeps(Algebra(provenance, "shared"), law)]
    assert kept == []


def test_every_declared_law_has_a_test():
    for provenance in FAMILIES:
        assert provenance.laws <= set(LAWS)
