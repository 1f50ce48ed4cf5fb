"""Masked facts and operands without symbols, in every provenance and every way in."""

from __future__ import annotations

import math
import operator

import pytest
import torch

import dolphin as dl
from dolphin.inputs.rows import read_rows
from dolphin.provenance.registry import provenance_names
from dolphin.symbolic.plans import caches

NAMES = [name for name in provenance_names() if name not in ("boolean", "counting")]
each_name = pytest.mark.parametrize("name", NAMES)
STRUCTURES = {"exclusive": True, "independent": False, "groups": [[0, 1], [2, 3]]}
MASKED, REST = [0, 2], [1, 3]


def from_logits(x, exclusive, name):
    return dl.Distribution.from_logits(x, range(4), exclusive=exclusive, provenance=name)


def each_from_logits(x, exclusive, name):
    return dl.Distribution.each_from_logits(
        x[:, None], range(4), exclusive=exclusive, provenance=name
    )[0]


def from_rows(x, exclusive, name):
    rows = [(list(range(4)), row) for row in x]
    return dl.Distribution.from_rows(rows, exclusive=exclusive, logits=True, provenance=name)


def from_log_probs(x, exclusive, name):
    return dl.Distribution.from_log_probs(
        x.log_softmax(1) - 0.1, range(4), exclusive=exclusive, provenance=name
    )


def programs(d):
    yield dl.apply(d, d, operator.add)
    yield dl.apply(d, dl.negate(d), lambda a, b: (a + b) % 3)
    yield dl.union(d.map(lambda s: s % 2), d)


@each_name
@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize(
    "make", [from_logits, each_from_logits, from_rows, from_log_probs], ids=lambda f: f.__name__
)
def test_a_masked_logit_has_probability_0_and_gradient_0(name, structure, make):
    """And everything else is as if a very small logit stood there."""
    x = torch.tensor([[0.3, 0.1, 0.7, 1.0], [1.0, -1.0, 0.2, 0.5]], dtype=torch.float64)
    results = []
    for hidden in (-math.inf, -200.0):
        logits = x.clone()
        logits[:, MASKED] = hidden
        logits.requires_grad_()
        d = make(logits, STRUCTURES[structure], name)
        rows = [dl.get_probs(result) for result in programs(d)]
        (gradient,) = torch.autograd.grad(sum(each.square().sum() for each in rows), logits)
        results.append((rows, gradient))
    (rows, gradient), (expected, close) = results
    assert (gradient[:, MASKED] == 0).all()
    torch.testing.assert_close(rows, expected)
    torch.testing.assert_close(gradient[:, REST], close[:, REST])


@each_name
@pytest.mark.parametrize("rows", [False, True], ids=["shared", "per row"])
def test_operands_without_symbols(name, rows):
    p = torch.tensor([[0.3, 0.7], [0.5, 0.5], [0.6, 0.4]], requires_grad=True)
    if rows:
        d = dl.Distribution.from_rows([([0, 1], row) for row in p], provenance=name)
    else:
        d = dl.Distribution(p, [0, 1], provenance=name)
    empty = dl.filter(d, lambda s: s > 5)
    both = dl.apply(d, empty, lambda a, b: a)
    more = dl.apply(dl.apply(both, d, operator.add), d, operator.add)
    turned = dl.apply(empty, d, operator.add)
    closed = dl.fixpoint(lambda x: dl.union(x, dl.apply(x, d, lambda a, b: a)), empty)
    out = dl.union(both, d, more, turned, dl.negate(empty), closed)
    dl.get_probs(out).sum().backward(retain_graph=True)
    expected = 1.0 + 0.0 * p.detach()
    torch.testing.assert_close(p.grad, expected)
    p.grad = None
    for nothing in (empty, both, more, turned, closed, dl.Distribution.stack([empty, both])):
        probs = dl.get_probs(nothing, symbols=[0, 1])
        assert (probs == 0).all()
        probs.sum().backward(retain_graph=True)
        loss = dl.nll_loss(nothing, [0] * len(nothing.rows()))
        assert math.isfinite(loss.item())
        loss.backward(retain_graph=True)
    assert p.grad is not None
    assert (p.grad == 0).all()


@each_name
def test_inputs_without_symbols(name):
    p = torch.zeros(2, 0, requires_grad=True)
    d = dl.Distribution(p, [], provenance=name)
    e = dl.Distribution([[0.5, 0.5]], [0, 1], provenance=name)
    for result in (dl.apply(d, d, operator.add), dl.apply(e, d, operator.add), dl.union(d, d)):
        assert dl.get_probs(result, symbols=[0]).tolist() == [[0.0], [0.0]]
        dl.get_probs(result, symbols=[0]).sum().backward(retain_graph=True)


# -- padding ---------------------------------------------------------------------------------------


@each_name
def test_padding_takes_no_share_of_a_gradient(name):
    """At 0, a symbol alone beside groups of three has the gradient that it has alone."""
    gradients = []
    for names in ("zabc", "zuuu"):
        p = torch.tensor([[0.0, 0.5, 0.5, 0.5]], dtype=torch.float64, requires_grad=True)
        d = dl.Distribution(p, range(4), exclusive=False, provenance=name)
        out = dl.get_probs(d.map(lambda s, names=names: names[s]), symbols=["z"])
        gradients.append(torch.autograd.grad(out.sum(), p)[0][0, 0].item())
    assert gradients == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize("name", ["min-max", "nilpotent", "viterbi", "yager"])
def test_equal_candidates_share_a_gradient_and_padding_has_none_of_it(name):
    p = torch.tensor([[0.2, 0.2, 0.1, 0.1, 0.1]], dtype=torch.float64, requires_grad=True)
    gradients = []
    for names in ("zzabc", "zzuuu"):
        d = dl.Distribution(p, range(5), exclusive=False, provenance=name)
        out = dl.get_probs(d.map(lambda s, names=names: names[s]), symbols=["z"])
        gradients.append(torch.autograd.grad(out.sum(), p)[0])
    torch.testing.assert_close(*gradients)
    assert gradients[0][0, 0] == gradients[0][0, 1] > 0


def test_rows_of_different_lengths_share_their_groups():
    """Rows whose groups begin alike are one input; others, and single columns, are not."""
    groups = [[[0, 1], [2, 3]], [[0, 1]], [], [[0, 1], [2]], False]
    lengths = [4, 2, 0, 3, 2]
    parts = read_rows(_ragged(lengths), groups, caches.current_table(), "logits")
    assert [part.rows for part in parts] == [[0, 1, 2], [3], [4]]


def _ragged(lengths):
    generator = torch.Generator().manual_seed(1)
    return [(range(n), torch.randn(n, generator=generator)) for n in lengths]


@pytest.mark.parametrize("name", ["damp", "dtkp-am", "dtkp-wmc", "exact", "noisy-or", "viterbi"])
def test_rows_that_share_groups_are_what_they_are_alone(name):
    """Of logits: a longer row's group must not turn a single column into a choice of one."""
    groups = [[[0, 1], [2, 3]], [[0, 1]], [[0, 1], [2]], [[0, 1], [2, 3]]]
    given = _ragged([4, 2, 3, 4])

    def asked(rows, exclusive):
        d = dl.Distribution.from_rows(rows, exclusive=exclusive, logits=True, provenance=name)
        pairs = dl.apply(d, d, lambda a, b: (a + b) % 3)
        return dl.union(pairs, dl.negate(d)).probs(range(4))

    alone = [asked([row], [own]) for row, own in zip(given, groups, strict=True)]
    torch.testing.assert_close(asked(given, groups), torch.cat(alone))


def test_a_choice_with_nothing_left_is_refused_where_a_row_has_it():
    rows = [(range(4), [0.0, 0.0, 0.0, 0.0]), (range(2), [-math.inf, -math.inf])]
    groups = [[[0, 1], [2, 3]], [[0, 1]]]
    with pytest.raises(dl.InputError, match="row 1"):
        dl.Distribution.from_rows(rows, exclusive=groups, logits=True)


@pytest.mark.parametrize("name", ["damp", "noisy-or", "viterbi", "dtkp-am", "dtkp-wmc", "exact"])
def test_negation_keeps_what_is_left_of_a_probability_near_one(name):
    """log(1 - sigmoid(x)) = -x - log(1 + exp(-x)), where sigmoid(x) rounds to 1."""
    x = torch.tensor([[12.0, 20.0, 31.0]], requires_grad=True)
    d = dl.Distribution.from_logits(x, "abc", exclusive=False, provenance=name)
    logs = dl.negate(d).log_probs()
    torch.testing.assert_close(logs, torch.nn.functional.logsigmoid(-x), rtol=1e-4, atol=0.0)
    (g,) = torch.autograd.grad(logs.sum(), x)
    torch.testing.assert_close(g, torch.full_like(g, -1.0), rtol=1e-3, atol=0.0)
