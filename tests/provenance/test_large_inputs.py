"""Proofs and formulas over inputs of many facts, of which few matter."""

from __future__ import annotations

import pickle

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import dolphin as dl
from dolphin.provenance import DAMP, Exact, TopKProofs
from dolphin.provenance.facts import each_alone
from dolphin.provenance.topk import encoding
from dolphin.provenance.topk.encoding import code_of

SIZE = 3000
FACTS = tuple((n // 3, (n // 3 + 1 + n % 3) % (SIZE // 3)) for n in range(SIZE))
NEAR = [n for n, fact in enumerate(FACTS) if fact[0] < 12]  # all that three hops from 0 to 5 need
PROVENANCES = [TopKProofs(k=3), TopKProofs(k=3, wmc="exact"), TopKProofs(k=1), Exact(), DAMP()]


def itself(symbol):
    return symbol


def source(edge):
    return edge[0]


def second(_, edge):
    return edge[1]


def base(probs, facts, provenance, exclusive=False):
    return dl.Distribution(probs, facts, exclusive=exclusive, provenance=provenance)


def hop(at, kb):
    return dl.apply_if(at, kb, second, on=(itself, source))


def two_ways(provenance, program, exclusive=False):
    """The same program over a large base, and over the few facts of it that matter."""
    probs = torch.rand(1, SIZE, dtype=torch.float64).mul(0.3).requires_grad_()
    if exclusive:
        exclusive = [list(range(n, n + 3)) for n in range(0, SIZE, 3)]
    large = program(base(probs, FACTS, provenance, exclusive))
    near = tuple(FACTS[n] for n in NEAR)
    groups = [list(range(n, n + 3)) for n in range(0, len(NEAR), 3)] if exclusive else False
    small = program(base(probs[:, NEAR], near, provenance, groups))
    symbols = list(range(20))
    answers = [dl.get_probs(result, symbols=symbols) for result in (large, small)]
    weights = torch.rand_like(answers[0])
    grads = [torch.autograd.grad((a * weights).sum(), probs)[0] for a in answers]
    torch.testing.assert_close(answers[0], answers[1])
    torch.testing.assert_close(grads[0], grads[1])
    assert answers[0].any() and grads[0].any()


def three_hops(kb):
    at = dl.Distribution.certain_rows([0, 3, 5])
    for _ in range(3):
        at = hop(at, kb)
    return at


def another_order(kb):
    at = dl.Distribution.certain_rows([0, 3, 5])
    at = dl.apply_if(kb, at, lambda edge, _: edge[1], on=(source, itself))
    return hop(at, kb)


def parts_meet(kb):
    one, other = (hop(dl.Distribution.certain_rows([n, n, n + 1]), kb) for n in (0, 1))
    both = dl.apply(one, other, max)
    return dl.union(both, hop(both, kb))


def rows_are_moved(kb):
    at = hop(dl.Distribution.certain_rows([0, 3, 5]), kb)
    at = dl.Distribution.stack([at[[2, 0]], hop(at, kb)[1:], at])
    return dl.apply(at, hop(at, kb), max)


def negated(kb):
    at = hop(dl.Distribution.certain_rows([0, 3]), kb)
    return dl.apply(dl.negate(at), hop(at, kb), min)


def masked(kb):
    at = hop(dl.Distribution.certain_rows([0, 3]), kb)
    return dl.apply_if(at, kb, second, on=(itself, source), where=torch.tensor([True, False]))


def shared_symbols(kb):
    at = dl.Distribution(torch.tensor([[0.5, 0.2], [0.1, 0.9]]).double(), [0, 2],
                         provenance=tagged_provenance(kb))  # fmt: skip
    return hop(hop(at, kb), kb)


def tagged_provenance(d):
    return d._tagged.provenance


PROGRAMS = [
    three_hops, another_order, parts_meet, rows_are_moved, negated, masked, shared_symbols,
]  # fmt: skip


@pytest.mark.parametrize("provenance", PROVENANCES, ids=str)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_a_large_base_equals_the_facts_that_matter(provenance, program):
    two_ways(provenance, program)


@pytest.mark.parametrize("provenance", [TopKProofs(k=3), Exact()], ids=str)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_facts_may_exclude_each_other(provenance, program):
    two_ways(provenance, program, exclusive=True)


def test_rows_of_their_own_numbers():
    probs = torch.rand(2, SIZE).mul(0.3)
    results = []
    for chosen in (slice(None), NEAR):
        facts = [FACTS[n] for n in range(SIZE)[chosen]] if isinstance(chosen, slice) else [
            FACTS[n] for n in chosen]  # fmt: skip
        kb = base(probs[:, chosen], tuple(facts), TopKProofs(k=3))
        at = dl.Distribution.certain_rows([0, 1])
        results.append(dl.get_probs(hop(hop(at, kb), kb), symbols=list(range(12))))
    torch.testing.assert_close(*results)


def test_the_input_itself_can_be_read_moved_and_pickled():
    probs = torch.rand(1, SIZE).requires_grad_()
    kb = base(probs, FACTS, TopKProofs(k=3))
    torch.testing.assert_close(kb.probs(), probs)
    (grad,) = torch.autograd.grad(kb.probs().sum(), probs)
    torch.testing.assert_close(grad, torch.ones_like(grad))
    assert kb.explain(FACTS[7], row=0)[0].facts[0].symbol == FACTS[7]
    start = dl.Distribution.certain_rows([0])
    reached = hop(start, kb)
    # Copies know that they speak of the same facts: nothing is counted twice.
    for copy in (kb.detach(), pickle.loads(pickle.dumps(kb.detach()))):
        for result in (reached, pickle.loads(pickle.dumps(reached.detach()))):
            same = dl.apply(result, hop(start, copy), lambda x, y: x == y)
            again = dl.union(result, hop(start, copy))
            assert same.prob_of([True]).item() > 0
            torch.testing.assert_close(
                dl.get_probs(again, symbols=[1, 2, 3]), dl.get_probs(reached, symbols=[1, 2, 3])
            )
    proof = reached.explain(2, row=0)[0]
    assert [fact.symbol for fact in proof.facts] == [(0, 2)]


def test_too_many_proofs_are_refused_before_they_are_made():
    size = 200_000
    facts = tuple((n, n + 1) for n in range(size))
    kb = base(torch.full((1, size), 0.5), facts, TopKProofs(k=3))
    with pytest.raises(dl.SizeError, match="Start from the queries"):
        dl.union(kb, dl.Distribution.certain((0, 5)))


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("count", [519, 567, 568, 1000, 1023])
def test_independent_facts_share_the_code_of_more_of_them(count, signed, monkeypatch):
    code, longer = (code_of(each_alone(n), signed) for n in (count, 1024))
    assert code.groups[0] is longer.groups[0]
    monkeypatch.setattr(encoding, "_MOST_KEPT", 0)
    anew = encoding._make_code(each_alone(count), signed)
    names = ("groups", "words", "used", "columns", "all_binary", "single_digits", "plain")
    for name in (*names, "word_masks"):
        assert getattr(code, name) == getattr(anew, name), name
    for one, other in zip(code.arrays, anew.arrays, strict=True):
        assert one.tolist() == other.tolist()


class _Largest(TorchDispatchMode):
    """How many numbers the largest tensor has that is made."""

    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor):
            self.numbers = max(self.numbers, made.numel())
        return made


@pytest.mark.parametrize("groups", [False, [[n, n + 1, n + 2] for n in range(0, 150, 3)]])
def test_negation_looks_at_the_facts_of_each_proof(groups):
    """One proof has one fact: what all others could break is not written down."""
    probs = torch.rand(4, 150, dtype=torch.float64).mul(0.3).requires_grad_()
    facts = base(probs, range(150), TopKProofs(k=3), groups)
    with _Largest() as largest:
        negated = dl.negate(facts).probs()
    assert largest.numbers < 150 * 150 * 4 * 4
    torch.testing.assert_close(negated, 1.0 - probs)
    (gradient,) = torch.autograd.grad(negated.sum(), probs)
    torch.testing.assert_close(gradient, torch.full_like(probs, -1.0))
