"""Every provenance declares the laws that it keeps for any elements: they hold, the others fail.

An element is a distribution over the one symbol "x". Then `union` is ⊕, `apply` is ⊗, a certain
"x" is **1**, and a distribution from which "x" was filtered away is **0**.
"""

from __future__ import annotations

import pytest

import dolphin as dl
from algebras import (
    FAMILIES,
    LAWS,
    LAYOUTS,
    NEEDS_NEGATION,
    NUMBERS,
    Algebra,
    keeps,
    provenance_of,
    small_facts,
)

ALL = frozenset(LAWS)

# Laws beyond those that are declared, which hold for facts that come straight from inputs and whose
# sums stay below 1: nothing is clipped, and there is room for every proof.
FOR_SMALL_FACTS = {
    dl.DAMP(): {"distributive"},
    dl.TopKProofs(k=40): ALL,
    dl.TopKProofs(k=2): ALL,
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("provenance", FAMILIES, ids=repr)
def test_declared_laws_hold(provenance, layout):
    algebra = Algebra(provenance, layout)
    assert [law for law in LAWS if law in provenance.laws and not keeps(algebra, law)] == []


@pytest.mark.parametrize("name", NUMBERS)
def test_laws_that_are_not_declared_fail(name):
    """So that the declarations can be believed in both directions."""
    provenance = provenance_of(name)
    others = ALL - provenance.laws - (NEEDS_NEGATION if name == "counting" else set())
    algebra = Algebra(provenance, "shared")
    kept = [law for law in sorted(others) if keeps(algebra, law)]
    assert kept == [], f"{name} keeps these laws for all values tried: declare them in its `laws`"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("provenance", FOR_SMALL_FACTS, ids=repr)
def test_more_laws_hold_for_small_facts(provenance, layout):
    algebra = Algebra(provenance, layout)
    more = FOR_SMALL_FACTS[provenance]
    assert [law for law in sorted(more) if not keeps(algebra, law, small_facts)] == []


def test_every_declared_law_has_a_test():
    for provenance in FAMILIES:
        assert provenance.laws <= ALL


@pytest.mark.parametrize("provenance", [p for p in FAMILIES if "annihilation" in p.laws], ids=repr)
def test_zeros_and_ones_behave_like_truth_values(provenance):
    algebra = Algebra(provenance, "shared")
    assert algebra.value(algebra.zero).tolist() == [0.0]
    assert algebra.value(algebra.one).tolist() == [1.0]
    for p in (0.0, 1.0):
        for q in (0.0, 1.0):
            a, b = algebra.fact([p]), algebra.fact([q])
            assert algebra.value(algebra.times(a, b)).item() == min(p, q)
            if provenance.name != "counting":  # where 1 + 1 is 2, and nothing is negated
                assert algebra.value(algebra.plus(a, b)).item() == max(p, q)
                assert algebra.value(algebra.neg(a)).item() == 1 - p
