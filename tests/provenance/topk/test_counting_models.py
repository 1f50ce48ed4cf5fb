"""Top-k proofs with an exact count: against enumeration, in chunks, small numbers, k up to 16."""

from __future__ import annotations

import itertools
import math
import operator

import pytest
import torch

import dolphin as dl
from dolphin.errors import InputError
from dolphin.provenance import Exact, TopKProofs
from dolphin.provenance.topk import counting_models


def clauses(seed: int, count: int, facts: int = 6) -> list[tuple[int, ...]]:
    """`count` sets of facts, none within another."""
    generator = torch.Generator().manual_seed(seed)
    found: list[tuple[int, ...]] = []
    while len(found) < count:
        size = int(torch.randint(2, 4, (1,), generator=generator))
        new = tuple(sorted(torch.randperm(facts, generator=generator)[:size].tolist()))
        if not any(set(new) <= set(old) or set(old) <= set(new) for old in found):
            found.append(new)
    return found


def any_of(d: dl.Distribution, sets, negated: bool = False) -> dl.Distribution:
    """The union over the sets of the conjunction of their facts."""
    parts = []
    for members in sets:
        facts = [dl.apply(dl.filter(d, lambda x, m=m: x == m), lambda x: "any") for m in members]
        if negated:
            facts[0] = dl.negate(facts[0])
        parts.append(dl.apply(*facts, lambda *xs: "any"))
    return dl.union(*parts)


def by_enumeration(probs: torch.Tensor, sets, negated: bool = False) -> torch.Tensor:
    total = torch.zeros_like(probs[:, 0])
    for world in itertools.product([False, True], repeat=probs.shape[1]):
        held = any(
            all(world[m] != (negated and place == 0) for place, m in enumerate(members))
            for members in sets
        )
        if held:
            here = torch.tensor(world)
            total = total + torch.where(here, probs, 1 - probs).prod(1)
    return total


@pytest.mark.parametrize("negated", [False, True])
@pytest.mark.parametrize("k", range(1, 9))
def test_against_enumeration(k, negated):
    """k proofs that share facts, some of them negated: values and gradients, two rows."""
    probs = torch.rand(2, 6, dtype=torch.float64).requires_grad_()
    sets = clauses(k, k)
    d = dl.Distribution(probs, range(6), exclusive=False, provenance=TopKProofs(k, wmc="exact"))
    found = dl.get_probs(any_of(d, sets, negated))[:, 0]
    expected = by_enumeration(probs, sets, negated)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    grads = [torch.autograd.grad(value.sum(), probs)[0] for value in (found, expected)]
    torch.testing.assert_close(*grads, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_the_likeliest_proofs_are_the_ones_counted(k):
    """With fewer than all proofs, it is the exact count of the k likeliest."""
    probs = torch.tensor([[0.9, 0.8, 0.7, 0.6, 0.5, 0.4]], dtype=torch.float64)
    sets = clauses(0, 6)
    best = sorted(sets, key=lambda s: -math.prod(probs[0, m].item() for m in s))[:k]
    d = dl.Distribution(probs, range(6), exclusive=False, provenance=TopKProofs(k, wmc="exact"))
    found = dl.get_probs(any_of(d, sets)).item()
    assert found == pytest.approx(by_enumeration(probs, best).item(), abs=1e-12)


def test_exclusive_groups_are_respected():
    """Two of three columns of a softmax, or a coin: 1 - (1 - p_a - p_b)(1 - q)."""
    p = torch.tensor([[0.2, 0.5, 0.3]], dtype=torch.float64, requires_grad=True)
    q = torch.tensor([[0.4]], dtype=torch.float64, requires_grad=True)
    with dl.using(TopKProofs(8, wmc="exact")):
        letter = dl.Distribution(p, list("abc"))
        coin = dl.Distribution(q, ["coin"])
    some = dl.apply(dl.filter(letter, lambda s: s != "c"), lambda s: "x")
    either = dl.union(some, dl.apply(coin, lambda s: "x"))
    found = dl.get_probs(either)
    assert found.item() == pytest.approx(1 - 0.3 * 0.6)
    found.sum().backward()
    torch.testing.assert_close(p.grad, torch.tensor([[0.6, 0.6, 0.0]], dtype=torch.float64))
    torch.testing.assert_close(q.grad, torch.tensor([[0.3]], dtype=torch.float64))


def test_where_add_mult_is_clipped_the_count_still_learns():
    probs = torch.full((1, 6), 0.7, dtype=torch.float64, requires_grad=True)
    sets = clauses(1, 6)
    results = {}
    for wmc in ("add-mult", "exact"):
        d = dl.Distribution(probs, range(6), exclusive=False, provenance=TopKProofs(6, wmc=wmc))
        results[wmc] = dl.get_probs(any_of(d, sets))[0, 0]
    assert results["add-mult"].item() == 1.0
    assert results["exact"].item() < 1.0
    (clipped,) = torch.autograd.grad(results["add-mult"], probs, retain_graph=True)
    (counted,) = torch.autograd.grad(results["exact"], probs)
    assert not clipped.any()
    assert (counted > 0).all()


@pytest.mark.parametrize("scale", [1e-3, 1e-12, 1e-25])
def test_small_probabilities_keep_their_digits(scale):
    """Inclusion and exclusion cancels in absolute terms, but not here: relative precision."""
    probs = torch.full((1, 6), 0.5, dtype=torch.float64)
    probs[0, :2] = scale
    sets = [(0, 2), (0, 3), (0, 4), (1, 5)]
    d = dl.Distribution(probs, range(6), exclusive=False, provenance=TopKProofs(4, wmc="exact"))
    found = dl.get_logits(any_of(d, sets)).item()
    exact = scale * (1 - 0.5**3) + scale * 0.5 - scale * scale * 0.5 * (1 - 0.5**3)
    assert found == pytest.approx(math.log(exact), rel=1e-12)


def test_disjoint_proofs_need_no_count(monkeypatch):
    """Sums of digits: proofs exclude each other, the plain sum is exact and is what is used."""
    from dolphin.provenance.topk import provenance as topk

    def fail(tags):
        raise AssertionError("counted")

    monkeypatch.setattr(topk, "log_probability_of_any", fail)
    digit = torch.rand(2, 4).softmax(1)
    with dl.using(TopKProofs(4, wmc="exact")):
        a, b = dl.Distribution(digit, range(4)), dl.Distribution(digit.flip(1), range(4))
    total = dl.get_probs(dl.apply(a, b, operator.add))
    torch.testing.assert_close(total.sum(1), torch.ones(2))


def test_chunks_change_nothing():
    """Little memory: many small pieces, computed again in the backward pass."""
    probs = torch.rand(3, 6, dtype=torch.float64).requires_grad_()
    results = []
    for elements in (4_000_000, 1000):
        with dl.settings(chunk_elements=elements):
            d = dl.Distribution(
                probs, range(6), exclusive=False, provenance=TopKProofs(6, wmc="exact")
            )
            pairs = dl.apply(d, d, lambda x, y: (x + y) % 4)
            found = dl.get_probs(pairs)
            results.append((found, *torch.autograd.grad(found.square().sum(), probs)))
    for whole, pieces in zip(*results, strict=True):
        torch.testing.assert_close(whole, pieces)


def test_rows_of_their_own():
    """Per-row symbols: each row is counted with its own facts."""
    sets = clauses(4, 5)
    probs = torch.rand(3, 6, dtype=torch.float64)
    rows = [(list(range(6)), p) for p in probs]
    d = dl.Distribution.from_rows(rows, exclusive=False, provenance=TopKProofs(5, wmc="exact"))
    found = dl.get_probs(any_of(d, sets))[:, 0]
    torch.testing.assert_close(found, by_enumeration(probs, sets))


@pytest.mark.parametrize("elements", [4_000_000, 500], ids=["whole", "pieces"])
@pytest.mark.parametrize("negated", [False, True])
def test_sixteen_proofs(monkeypatch, negated, elements):
    """As exact inference says, values and gradients, without the 65,535 sets of proofs."""
    monkeypatch.setattr(counting_models, "_unions", None)
    probs = torch.rand(3, 8, dtype=torch.float64).requires_grad_()
    sets = list(itertools.combinations(range(8), 2))[:16]
    results = []
    for provenance in (TopKProofs(16, wmc="exact"), Exact()):
        d = dl.Distribution(probs, range(8), exclusive=False, provenance=provenance)
        with dl.settings(chunk_elements=elements):
            found = dl.get_probs(any_of(d, sets, negated))
            results.append((found, *torch.autograd.grad(found.square().sum(), probs)))
    for own, other in zip(*results, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("few", [0, 8], ids=["states", "sets"])
@pytest.mark.parametrize("layout", ["shared", "rows"])
def test_states_and_sets_of_proofs_count_the_same(monkeypatch, few, layout):
    """Exclusive groups, proofs of their own in every row, an impossible and a certain fact."""
    monkeypatch.setattr(counting_models, "_FEW", few)
    x = torch.rand(4, 3, dtype=torch.float64).softmax(1).requires_grad_()
    y = torch.rand(4, 3, dtype=torch.float64)
    y[0, 0], y[1, 1] = 0.0, 1.0
    y.requires_grad_()
    results = []
    for provenance in (TopKProofs(8, wmc="exact"), Exact()):
        with dl.using(provenance):
            if layout == "shared":
                a = dl.Distribution(x, range(3))
                b = dl.Distribution(y, range(3), exclusive=False)
            else:
                a = dl.Distribution.from_rows([(range(r % 2, r % 2 + 3), x[r]) for r in range(4)])
                rows = [(range(3), y[r]) for r in range(4)]
                b = dl.Distribution.from_rows(rows, exclusive=False)
            found = dl.apply(a, b, b, lambda s, t, u: s > t and s != u).prob_of([True] * 4)
        results.append((found, *torch.autograd.grad(found.square().sum(), (x, y))))
    for own, other in zip(*results, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-10, atol=1e-10)


def test_argmax_follows_the_count():
    """By add-mult the first is likelier (its proofs overlap), by the exact count the second."""
    p = torch.tensor([[0.6, 0.5, 0.5, 0.52]], dtype=torch.float64)
    chosen = {}
    for wmc in ("add-mult", "exact"):
        d = dl.Distribution(p, range(4), exclusive=False, provenance=TopKProofs(3, wmc=wmc))
        overlapping = any_of(d, [(0, 1), (0, 2)])
        single = dl.apply(dl.filter(d, lambda x: x == 3), lambda x: "single")
        chosen[wmc] = dl.union(overlapping, single).argmax()
    assert chosen == {"add-mult": ["any"], "exact": ["single"]}


@pytest.mark.parametrize("options", [{"wmc": "fast"}, {"k": 17, "wmc": "exact"}, {"k": 0}], ids=str)
def test_wrong_parameters(options):
    with pytest.raises(InputError, match="TopKProofs"):
        TopKProofs(**options)


def test_equality_and_names():
    assert TopKProofs(3) == TopKProofs(3, wmc="add-mult") != TopKProofs(3, wmc="exact")
    assert dl.get_provenance("dtkp-wmc", k=5) == TopKProofs(5, wmc="exact")
    assert repr(TopKProofs(3, wmc="exact")) == "TopKProofs(k=3, wmc='exact')"


@pytest.mark.parametrize("wmc", ["add-mult", "exact"])
def test_the_backward_pass_keeps_the_limits_of_the_forward_pass(wmc):
    """What is computed again outside of the block must be the same."""
    x = torch.rand(2, 3, dtype=torch.float64, requires_grad=True)
    goals = []
    for limit in (1, 4_000_000):
        with dl.settings(chunk_elements=limit):
            d = dl.Distribution(x, range(3), exclusive=False, provenance=dl.TopKProofs(3, wmc))
            goals.append(dl.apply(d, d, lambda a, b: (a + b) % 3).probs()[:, 1].sum())
    first, second = (torch.autograd.grad(goal, x)[0] for goal in goals)
    torch.testing.assert_close(first, second)
