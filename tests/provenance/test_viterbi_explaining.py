"""`explain` under max-product: the one product of facts that a symbol's probability is."""

from __future__ import annotations

import itertools
import operator

import pytest
import torch

import dolphin as dl

EDGES = [("a", "b"), ("b", "d"), ("a", "c"), ("c", "d"), ("b", "c")]


def spelled(proofs):
    return [
        (sorted((fact.symbol, fact.holds) for fact in proof.facts), proof.probability)
        for proof in proofs
    ]


def paths(edges):
    ends = (lambda p: p[1], lambda e: e[0])

    def longer(found):
        return dl.union(found, dl.apply_if(found, edges, lambda p, e: (p[0], e[1]), on=ends))

    return dl.fixpoint(longer, edges)


@pytest.mark.parametrize("row", [0, 1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_likeliest_path(row, dtype):
    """Against enumeration of the three ways from a to d."""
    probs = torch.rand(3, 5, dtype=dtype).mul_(0.9).add_(0.05)
    edges = dl.Distribution(probs.requires_grad_(), EDGES, exclusive=False, provenance="viterbi")
    ways = [[0, 1], [2, 3], [0, 4, 3]]
    best = max(ways, key=lambda way: probs[row, way].prod().item())
    (found,) = spelled(paths(edges).explain(("a", "d"), row))
    assert found[0] == sorted((EDGES[at], True) for at in best)
    assert found[1] == pytest.approx(probs[row, best].prod().item(), rel=1e-4)


@pytest.mark.parametrize("per_row", [False, True])
def test_sums_of_two_digits(per_row):
    logits = torch.randn(2, 2, 6, dtype=torch.float64, requires_grad=True)
    with dl.using("viterbi"):
        d, e = dl.Distribution.each_from_logits(logits, range(6))
    if per_row:
        d, e = dl.sample(d, 5), dl.sample(e, 5)
    total = dl.apply(d, e, operator.add)
    probs = logits.softmax(-1)
    for row in range(2):
        for symbol, _ in total.row(row):
            (proof,) = total.explain(symbol, row)
            kept = [set(dict(each.row(row))) for each in (d, e)]
            best = max(
                (probs[row, 0, x] * probs[row, 1, y]).item()
                for x, y in itertools.product(*kept)
                if x + y == symbol
            )
            assert proof.probability == pytest.approx(best, rel=1e-5)
            assert sum(fact.symbol for fact in proof.facts) == symbol
            assert all(fact.holds for fact in proof.facts) and len(proof.facts) == 2


def test_equally_likely_products_are_told_apart():
    """A gradient would be shared between them: half of each is no proof."""
    leaf = torch.full((1, 2), 0.5, requires_grad=True)
    d = dl.Distribution(leaf, [0, 1], provenance="viterbi")
    e = dl.Distribution(torch.full((1, 2), 0.5, requires_grad=True), [0, 1], provenance="viterbi")
    (proof,) = dl.apply(d, e, operator.add).explain(1)
    assert proof.probability == 0.25 and sum(fact.symbol for fact in proof.facts) == 1
    total = dl.apply(d, e, operator.add)
    (gradient,) = torch.autograd.grad(total.probs()[0, 1], leaf)
    assert gradient.tolist() == [[0.25, 0.25]]  # for learning, it still is


def test_denied_certain_and_impossible():
    numbers = torch.tensor([[0.3, 0.9]], requires_grad=True)
    d = dl.Distribution(numbers, "ab", exclusive=False, provenance="viterbi")
    (proof,) = dl.negate(d).explain("a")
    assert proof.facts == (dl.Fact("a", 0.7, holds=False),) and proof.probability == 0.7
    sure = dl.Distribution(
        torch.tensor([[1.0, 0.0]], requires_grad=True), "ab", provenance="viterbi"
    )
    assert sure.explain("b") == []
    with dl.using("viterbi"):
        assert dl.Distribution.certain("x").explain("x") == [dl.Proof(1.0, ())]
    squared = dl.apply(d, d, lambda x, y: x + y).explain("aa")
    assert squared == [dl.Proof(0.09, (dl.Fact("a", 0.3),))]  # a fact counts as often as it is used


def test_rows_that_were_moved_keep_their_facts():
    numbers = torch.tensor([[0.2, 0.8], [0.6, 0.4]], requires_grad=True)
    d = dl.Distribution(numbers, "ab", provenance="viterbi")
    turned = dl.Distribution.stack([d[1], d[0]])
    assert turned.explain("a", 0)[0].facts == (dl.Fact("a", 0.6),)
    assert turned.explain("a", 1)[0].facts == (dl.Fact("a", 0.2),)


def test_what_gradients_can_not_tell_is_refused():
    plain = dl.Distribution([0.3, 0.7], "ab", provenance="viterbi")
    with pytest.raises(dl.UnsupportedError, match="require gradients"):
        plain.explain("a")
    recorded = dl.Distribution(
        torch.tensor([0.3, 0.7], requires_grad=True), "ab", provenance="viterbi"
    )
    with pytest.raises(dl.UnsupportedError, match="some inputs have no gradients"):
        dl.apply(plain, recorded, operator.add).explain("ab")
    both = dl.negate(dl.apply(recorded, recorded, operator.add))
    with pytest.raises(dl.UnsupportedError, match="negation of more than one fact"):
        both.explain("ab")
    total = dl.apply(recorded, recorded, operator.add)
    total.log_probs().sum().backward()
    with pytest.raises(dl.UnsupportedError, match="before backward"):
        total.explain("ab")
