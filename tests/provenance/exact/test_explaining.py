"""`explain` under exact inference: proofs that are enough, no larger than needed."""

from __future__ import annotations

import itertools
import math
import operator

import pytest
import torch

import dolphin as dl

EDGES = [("a", "b"), ("b", "d"), ("a", "c"), ("c", "d"), ("b", "c")]


def paths(provenance, probs):
    edges = dl.Distribution(probs, EDGES, exclusive=False, provenance=provenance)
    ends = (lambda p: p[1], lambda e: e[0])

    def longer(found):
        return dl.union(found, dl.apply_if(found, edges, lambda p, e: (p[0], e[1]), on=ends))

    return dl.fixpoint(longer, edges)


def spelled(proofs):
    return [
        (frozenset((fact.symbol, fact.holds) for fact in proof.facts), proof.probability)
        for proof in proofs
    ]


@pytest.mark.parametrize("row", [0, 1])
def test_proofs_of_paths_are_those_of_top_k(row):
    probs = torch.tensor([[0.9, 0.8, 0.7, 0.6, 0.5], [0.1, 0.3, 0.6, 0.8, 0.95]])
    exact, top = (
        spelled(paths(name, probs).explain(("a", "d"), row))
        for name in ("exact", dl.TopKProofs(k=10))
    )
    assert [facts for facts, _ in exact] == [facts for facts, _ in top]
    assert [p for _, p in exact] == pytest.approx([p for _, p in top])


def test_exclusive_inputs_and_equal_facts():
    d = dl.Distribution([0.2, 0.3, 0.5], range(3), provenance="exact")
    assert spelled(dl.apply(d, d, operator.eq).explain(False)) == []
    (always,) = spelled(dl.apply(d, d, lambda a, b: 0).explain(0))[:1]
    assert always[1] == pytest.approx(0.5)  # "none of them" is a value, so one of them has to hold
    sums = dl.apply(d, dl.Distribution([0.6, 0.4], [0, 1], provenance="exact"), operator.add)
    assert [p for _, p in spelled(sums.explain(2))] == pytest.approx([0.3, 0.12])


def test_negated_facts_stand_in_proofs():
    d = dl.Distribution([0.3, 0.9], "ab", exclusive=False, provenance="exact")
    neither = dl.negate(dl.union(d.map(lambda s: "x")))
    (proof,) = neither.explain("x")
    assert {(fact.symbol, fact.holds) for fact in proof.facts} == {("a", False), ("b", False)}
    assert proof.probability == pytest.approx(0.07)


def test_every_proof_is_enough_and_needs_all_of_its_facts():
    """Against all worlds of a program with sharing and negation."""
    names = "abcd"
    d = dl.Distribution([0.3, 0.6, 0.5, 0.8], names, exclusive=False, provenance="exact")

    def holds(world):
        return (world["a"] and not world["b"]) or (world["b"] and world["c"]) or world["d"]

    symbol = {s: d.filter(lambda x, s=s: x == s).map(lambda x: 0) for s in names}
    both = operator.mul
    result = dl.union(
        dl.apply(symbol["a"], dl.negate(symbol["b"]), both),
        dl.apply(symbol["b"], symbol["c"], both),
        symbol["d"],
    )
    proofs = result.explain(0)
    assert proofs[0].probability == pytest.approx(0.8)
    assert len(proofs) >= 3

    def enough(facts):
        worlds = (dict(zip(names, w, strict=True)) for w in itertools.product((0, 1), repeat=4))
        return all(holds(w) for w in worlds if all(w[f.symbol] == f.holds for f in facts))

    for proof in proofs:
        assert enough(proof.facts)
        assert not any(
            enough(proof.facts[:i] + proof.facts[i + 1 :]) for i in range(len(proof.facts))
        )
        assert proof.probability == pytest.approx(math.prod(f.probability for f in proof.facts))


def test_rows_with_symbols_of_their_own():
    rows = [([1, 2], [0.25, 0.75]), ([3], [0.5])]
    d = dl.Distribution.from_rows(rows, provenance="exact")
    doubled = d.map(lambda x: 2 * x)
    assert spelled(doubled.explain(6, row=1)) == [(frozenset({(3, True)}), 0.5)]
    assert spelled(doubled.explain(4, row=0)) == [(frozenset({(2, True)}), 0.75)]
