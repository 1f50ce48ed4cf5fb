"""The laws of each algebra, through the public interface.

An element is a distribution over the one symbol "x". Then `union` is ⊕, `apply` is ⊗, a certain
"x" is **1**, and a distribution from which "x" was filtered away is **0**. Each provenance declares
which laws it keeps; a law that it is declared not to keep must have a counterexample, so that the
table below can be believed in both directions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch

import dolphin as dl
from algebras import Algebra

LAWS: dict[str, Callable] = {
    "⊕ is commutative": lambda A, a, b, c: (A.plus(a, b), A.plus(b, a)),
    "⊕ is associative": lambda A, a, b, c: (A.plus(A.plus(a, b), c), A.plus(a, A.plus(b, c))),
    "⊗ is commutative": lambda A, a, b, c: (A.times(a, b), A.times(b, a)),
    "⊗ is associative": lambda A, a, b, c: (A.times(A.times(a, b), c), A.times(a, A.times(b, c))),
    "0 is neutral for ⊕": lambda A, a, b, c: (A.plus(a, A.zero), a),
    "1 is neutral for ⊗": lambda A, a, b, c: (A.times(a, A.one), a),
    "0 annihilates": lambda A, a, b, c: (A.times(a, A.zero), A.zero),
    "⊗ distributes over ⊕": lambda A, a, b, c: (
        A.times(a, A.plus(b, c)),
        A.plus(A.times(a, b), A.times(a, c)),
    ),
    "⊕ is idempotent": lambda A, a, b, c: (A.plus(a, a), a),
    "⊗ is idempotent": lambda A, a, b, c: (A.times(a, a), a),
    "absorption": lambda A, a, b, c: (A.plus(a, A.times(a, b)), a),
    "1 absorbs": lambda A, a, b, c: (A.plus(a, A.one), A.one),
    "double negation": lambda A, a, b, c: (A.neg(A.neg(a)), a),
    "excluded middle": lambda A, a, b, c: (A.plus(a, A.neg(a)), A.one),
    "contradiction": lambda A, a, b, c: (A.times(a, A.neg(a)), A.zero),
    "De Morgan": lambda A, a, b, c: (
        A.neg(A.plus(a, b)),
        A.times(A.neg(a), A.neg(b)),
    ),
    "¬0 = 1": lambda A, a, b, c: (A.neg(A.fact([0.0])), A.one),
}

SEMIRING = {
    "⊕ is commutative", "⊕ is associative", "⊗ is commutative", "⊗ is associative",
    "0 is neutral for ⊕", "1 is neutral for ⊗", "0 annihilates",
}  # fmt: skip
DISTRIBUTES = {"⊗ distributes over ⊕"}
LATTICE = {"⊕ is idempotent", "⊗ is idempotent", "absorption", "1 absorbs"}
COMPLEMENT = {"double negation", "excluded middle", "contradiction", "De Morgan", "¬0 = 1"}


@dataclass(frozen=True)
class Declared:
    """Which laws a provenance keeps for any elements, and for facts that come straight from
    inputs (`small`: probabilities whose sums stay below 1)."""

    provenance: object
    keeps: frozenset[str] | set[str]
    keeps_for_small_facts: frozenset[str] | set[str] = field(default_factory=frozenset)


DECLARED = {
    # Sums are clipped, so it only distributes where they stay below 1; a number does not know
    # which facts it came from, so nothing that counts a fact twice can cancel.
    "damp": Declared(
        dl.DAMP(),
        SEMIRING | {"1 absorbs", "double negation", "excluded middle", "¬0 = 1"},
        DISTRIBUTES,
    ),
    # With room for every proof: sets of proofs are a distributive lattice. Negation is exact on
    # facts; the sum over the proofs of a negated sum may count worlds more than once.
    "top-40": Declared(
        dl.TopKProofs(k=40),
        SEMIRING | DISTRIBUTES | LATTICE | {"¬0 = 1", "contradiction", "De Morgan"},
        COMPLEMENT,
    ),
    # Without room, what is dropped early can be missed later: order begins to matter.
    "top-2": Declared(
        dl.TopKProofs(k=2),
        {
            "⊕ is commutative", "⊗ is commutative", "0 is neutral for ⊕", "1 is neutral for ⊗",
            "0 annihilates", "⊕ is idempotent", "1 absorbs", "¬0 = 1",
        },
        SEMIRING | DISTRIBUTES | LATTICE | COMPLEMENT,
    ),
}  # fmt: skip

LAYOUTS = ["shared", "rows"]
CASES = [
    pytest.param(name, law, layout, id=f"{name}-{law}-{layout}")
    for name in DECLARED
    for law in LAWS
    for layout in LAYOUTS
]


def facts(algebra: Algebra, scale: float, seed: int) -> list[dl.Distribution]:
    generator = torch.Generator().manual_seed(seed)
    return [
        algebra.fact(scale * torch.rand(4, generator=generator, dtype=torch.float64))
        for _ in range(3)
    ]


def triples(algebra: Algebra, scale: float) -> list[tuple]:
    """Facts in all places, and elements derived from shared facts."""
    x, y, z = facts(algebra, scale, seed=1)
    mixed = [
        (algebra.plus(x, y), algebra.times(x, z), y),
        (algebra.times(x, y), algebra.plus(y, z), algebra.plus(x, z)),
        (algebra.plus(algebra.times(x, y), z), x, algebra.times(x, y, z)),
    ]
    return [*facts_only(algebra, scale), *mixed]


def facts_only(algebra: Algebra, scale: float) -> list[tuple]:
    x, y, z = facts(algebra, scale, seed=0)
    return [(x, y, z), (y, z, x), (x, x, y), (x, y, y)]


def holds(algebra: Algebra, law: str, elements: tuple) -> bool:
    left, right = LAWS[law](algebra, *elements)
    left, right = torch.broadcast_tensors(algebra.value(left), algebra.value(right))
    return torch.allclose(left, right, atol=1e-9)


@pytest.mark.parametrize(("name", "law", "layout"), CASES)
def test_law(name, law, layout):
    declared = DECLARED[name]
    algebra = Algebra(declared.provenance, layout)
    if law in declared.keeps:
        for elements in triples(algebra, scale=1.0) + triples(algebra, scale=0.3):
            assert holds(algebra, law, elements)
    elif law in declared.keeps_for_small_facts:
        for elements in facts_only(algebra, scale=0.3):
            assert holds(algebra, law, elements)
    else:
        assert not all(holds(algebra, law, elements) for elements in triples(algebra, scale=1.0)), (
            "kept after all: declare it"
        )


@pytest.mark.parametrize("name", DECLARED)
def test_zeros_and_ones_behave_like_truth_values(name):
    algebra = Algebra(DECLARED[name].provenance, "shared")
    for p in (0.0, 1.0):
        for q in (0.0, 1.0):
            a, b = algebra.fact([p]), algebra.fact([q])
            assert algebra.value(algebra.plus(a, b)).item() == max(p, q)
            assert algebra.value(algebra.times(a, b)).item() == min(p, q)
            assert algebra.value(algebra.neg(a)).item() == 1 - p


@pytest.mark.parametrize("name", DECLARED)
def test_zero_and_one_have_their_probabilities(name):
    algebra = Algebra(DECLARED[name].provenance, "shared")
    assert algebra.value(algebra.zero).tolist() == [0.0]
    assert algebra.value(algebra.one).tolist() == [1.0]


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_top_k_keeps_at_most_k_proofs(k):
    """At most k proofs: a sum over ten facts of .01 each is k · .01."""
    algebra = Algebra(dl.TopKProofs(k=k), "shared")
    total = algebra.plus(*(algebra.fact([0.01]) for _ in range(10)))
    assert algebra.value(total).item() == pytest.approx(0.01 * k)


def test_negation_inside_exclusive_inputs():
    """ "It is 1" and "it is not 0" are the same world twice: the first says it all."""
    probs = torch.tensor([[0.2, 0.5, 0.3]], dtype=torch.float64)
    d = dl.Distribution(probs, [0, 1, 2], provenance=dl.TopKProofs(k=9))
    pairs = dl.apply(dl.negate(d), d, lambda not_x, y: (not_x, y))
    for x in range(3):
        for y in range(3):
            expected = 0.0 if x == y else probs[0, y].item()
            assert pairs.prob_of([(x, y)]).item() == pytest.approx(expected)


@pytest.mark.parametrize("probs", [[0.5, 0.0, 0.25], [0.5, 0.0, 0.5], [0.0, 0.0, 1.0]])
def test_absorption_among_negated_facts_of_no_weight(probs):
    """ "Not 2" absorbs "not 1 and not 2", also where "not 1" is certain and costs nothing."""
    d = dl.Distribution(
        torch.tensor(probs, dtype=torch.float64), [0, 1, 2], provenance=dl.TopKProofs(k=9)
    )
    nothing = dl.negate(d)
    same = dl.apply(nothing, nothing, lambda x, y: x)
    assert dl.get_probs(same)[0].tolist() == pytest.approx([1 - p for p in probs])
    assert [len(same.explain(x)) for x in range(3)] == [1, 1, 1]
