"""Sets of proofs: how many are kept, and what negation and absorption do to them."""

from __future__ import annotations

import pytest
import torch

import dolphin as dl
from algebras import Algebra
from dolphin.provenance.topk import weighing


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


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("per_row", [False, True], ids=["shared", "per row"])
def test_groups_weighed_together_or_one_by_one(
    rows: int, per_row: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three exclusive groups of two columns: the same probabilities and gradients either way."""

    def answer(together: int) -> tuple[torch.Tensor, torch.Tensor]:
        monkeypatch.setattr(weighing, "_TOGETHER", together)
        probs = torch.linspace(0.05, 0.45, 6 * rows, dtype=torch.float64).view(rows, 6)
        probs.requires_grad_()
        symbols, groups = list(range(6)), [[0, 1], [2, 3], [4, 5]]
        if per_row:
            pairs = [(symbols, row) for row in probs]
            d = dl.Distribution.from_rows(pairs, exclusive=groups, provenance="dtkp-am")
        else:
            d = dl.Distribution(probs, symbols, exclusive=groups, provenance="dtkp-am")
        found = dl.apply(d, d, lambda a, b: (a + b) % 4).probs()
        weights = torch.linspace(0.5, 2.0, found.numel(), dtype=torch.float64).view_as(found)
        return found.detach(), torch.autograd.grad((found * weights).sum(), probs)[0]

    for one, other in zip(answer(1 << 16), answer(0), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
