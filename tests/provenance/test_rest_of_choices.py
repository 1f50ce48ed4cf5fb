"""What is left of a softmax symbol that is nearly certain, under algebras of numbers.

log(1 - p) is the logarithm of the sum of the others, far below the rounding of p.
"""

from __future__ import annotations

import math
import pickle

import pytest
import torch

import dolphin as dl

LOGITS = [[20.0, 0.0, -1.0], [100.0, 0.0, 0.0], [0.3, 0.2, 0.1], [-50.0, -90.0, -math.inf]]
NAMES = ["damp", "noisy-or"]


def inputs(dtype=torch.float32):
    return torch.tensor(LOGITS, dtype=dtype, requires_grad=True)


def first(numbers):
    """log(1 - p) of the first symbol."""
    return numbers[:, 1:].logsumexp(1) - numbers.logsumexp(1)


def assert_first(rest, x):
    """The rest of the first symbol and its gradient, as in double precision."""
    y = x.detach().double().requires_grad_()
    torch.testing.assert_close(rest.double(), first(y), rtol=1e-5, atol=1e-6)
    (found,) = torch.autograd.grad(rest.sum(), x, retain_graph=True)
    (wanted,) = torch.autograd.grad(first(y).sum(), y)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-6)


def from_rows(x, name):
    rows = [("abc", row) for row in x[:3]] + [("ab", x[3, :2])]
    return dl.Distribution.from_rows(rows, logits=True, provenance=name)


def read(d, symbol="a"):
    return d.log_probs([symbol])[:, 0]


@pytest.mark.parametrize("name", NAMES)
def test_of_an_input(name):
    x = inputs()
    assert_first(read(dl.negate(dl.Distribution.from_logits(x, "abc", provenance=name))), x)
    assert_first(read(dl.negate(from_rows(x, name))), x)
    d = dl.Distribution.from_logits(x, "abc", provenance=name)
    assert_first(read(dl.negate(d, among="xa")), x)
    assert_first(read(dl.negate(from_rows(x, name), among="xa")), x)
    assert read(dl.negate(d, among="xa"), "x").tolist() == [0.0] * 4
    assert_first(read(dl.negate(dl.Distribution.stack([d[[0, 1]], d[[2, 3]]]))), x)
    restored = pickle.loads(pickle.dumps(d.detach()))
    torch.testing.assert_close(dl.negate(restored).log_probs(), dl.negate(d).log_probs())
    each = dl.Distribution.each_from_logits(x[:, None], "abc", provenance=name)
    assert_first(read(dl.negate(each[0])), x)
    sample = dl.batched(lambda row: dl.negate(dl.Distribution.from_logits(row, "abc")))
    with dl.using(name):
        assert_first(read(sample(list(x))), x)


@pytest.mark.parametrize("name", ["min-max", "lukasiewicz", "hamacher"])
def test_of_truth_values(name):
    """Numbers that end at 1e-30: no logarithms."""
    x = inputs()
    d = dl.Distribution.from_logits(x, "abc", provenance=name)
    rows = [0, 2]
    (found,) = torch.autograd.grad(read(dl.negate(d))[rows].sum(), x)
    (wanted,) = torch.autograd.grad(first(x)[rows].sum(), x)
    rest = dl.negate(d).probs(["a"])[:, 0]
    torch.testing.assert_close(rest, first(x).exp(), rtol=1e-5, atol=1e-30)
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("name", NAMES)
def test_of_each_of_several_choices(name):
    x = inputs()
    more = torch.cat([torch.zeros(4, 2), x, torch.full((4, 1), 30.0)], 1)
    groups = [[0, 2, 3, 4], [1], [5]]
    d = dl.Distribution.from_logits(more, "xyabcz", exclusive=groups, provenance=name)
    rest = dl.negate(d)
    y = more.detach().double().requires_grad_()
    wanted = y[:, [0, 3, 4]].logsumexp(1) - y[:, [0, 2, 3, 4]].logsumexp(1)
    torch.testing.assert_close(read(rest).double(), wanted, rtol=1e-5, atol=1e-6)
    for symbol, column in (("y", 1), ("z", 5)):
        alone = torch.nn.functional.logsigmoid(-y[:, column])
        torch.testing.assert_close(read(rest, symbol).double(), alone, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("make", [dl.Distribution.from_logits, None])
def test_of_questions(name, make):
    x = inputs()

    def asked():
        return make(x, "abc", provenance=name) if make else from_rows(x, name)

    assert_first(read(dl.exists(asked(), lambda s: s == "a"), False), x)
    assert_first(read(dl.forall(asked(), lambda s: s != "a"), True), x)
    assert_first(read(dl.count(asked(), lambda s: s == "a"), 0), x)
    assert_first(read(dl.count(asked(), by=lambda s: s == "a"), (True, 0)), x)
    assert_first(read(dl.exists(asked(), by=lambda s: s), ("a", False)), x)


def test_of_results():
    x = inputs()
    d = dl.Distribution.from_logits(x, "abc", provenance="damp")
    assert_first(read(dl.negate(d == "a"), True), x)
    e = dl.Distribution.from_logits(torch.tensor([[0.5, 0.1]]), [0, 1], provenance="damp")
    assert_first(read(dl.negate(dl.apply(d, e, lambda s, n: s)), "a"), x)
    rows = dl.apply(from_rows(x, "damp"), e, lambda s, n: s)
    assert_first(read(dl.negate(rows), "a"), x)
    # These don't add up to 1.
    for part in (
        dl.filter(d, lambda s: s != "c"),
        dl.apply(d, dl.Distribution.from_logits([[0.0]], [0], exclusive=False), lambda s, n: s),
        dl.apply(d, lambda s: dl.weighted({s: 0.9, "d": 0.05})),
        dl.apply_if(d, e, lambda s, n: s, lambda s, n: s != "b"),
    ):
        torch.testing.assert_close(dl.negate(part).probs(), 1.0 - part.probs())


@pytest.mark.parametrize("name", [*NAMES, "viterbi"])
def test_of_losses(name):
    """-log P(b) - log(1 - P(a)) - log(1 - P(c))."""
    x = inputs()
    d = dl.Distribution.from_logits(x, "abc", provenance=name)
    loss = dl.bce_loss(d, [*"bbbb"])
    (found,) = torch.autograd.grad(loss, x)
    y = x.detach().double().requires_grad_()
    logs = y.log_softmax(1)
    loss = -(logs[:, 1] + first(y) + torch.log1p(-logs[:, 2].exp())).mean()
    (wanted,) = torch.autograd.grad(loss, y)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-4, atol=1e-6)


def test_in_traced_modules_and_of_second_order():
    x = inputs()
    module = dl.trace(lambda d: dl.negate(d == "a"), "abc", provenance="damp", logits=True)
    assert_first(module(x)[:, list(module.symbols).index(True)], x)
    y = torch.tensor([[25.0, 0.0, 1.0]], requires_grad=True)
    d = dl.Distribution.from_logits(y, "abc", provenance="damp")
    (g,) = torch.autograd.grad(read(dl.negate(d)), y, create_graph=True)
    (h,) = torch.autograd.grad(g[0, 1], y)
    z = y.detach().double().requires_grad_()
    (g,) = torch.autograd.grad(first(z), z, create_graph=True)
    (wanted,) = torch.autograd.grad(g[0, 1], z)
    torch.testing.assert_close(h.double(), wanted, rtol=1e-5, atol=1e-6)

    def rest(x):
        return read(dl.negate(dl.Distribution.from_logits(x, "abc", provenance="damp"))).sum()

    torch.testing.assert_close(torch.func.grad(rest)(y), torch.autograd.grad(rest(y), y)[0])


def test_viterbi_still_names_the_facts_of_one_proof():
    """Its gradients would be shared by all other symbols."""
    d = dl.Distribution.from_logits(
        torch.tensor([[2.0, 0.1, 0.0]], requires_grad=True), "abc", provenance="viterbi"
    )
    assert dl.most_likely([d], dl.negate(d), ["a"]) == [("b",)]


@pytest.mark.parametrize("provenance", ["damp", "noisy-or"])
def test_what_is_left_of_groups_of_per_row_symbols(provenance):
    """A softmax beside an independent symbol, in each row; the second row is shorter."""
    logits = torch.tensor([26.2, 1.0, -20.54, 0.3], requires_grad=True)
    parts = logits[[1, 2, 3, 0]], logits[[1, 2, 3]]
    rows = [([4, 0, 7, 1], parts[0]), ([5, 0, 7], parts[1])]
    d = dl.Distribution.from_rows(rows, exclusive=[[0, 1]], logits=True, provenance=provenance)
    negated = dl.negate(d)
    double = logits.detach().double().requires_grad_()
    rest = double[1:3].log_softmax(0).flip(0)
    alone = torch.nn.functional.logsigmoid(-double)
    wanted = [torch.stack([*rest, alone[3], alone[0]]), torch.stack([*rest, alone[3]])]
    for row, (symbols, _) in enumerate(rows):
        found = negated[row].log_probs(symbols)[0]
        torch.testing.assert_close(found.double(), wanted[row], rtol=1e-5, atol=1e-6)
        grads = (
            torch.autograd.grad(logs.sum(), leaf, retain_graph=True)[0].double()
            for logs, leaf in ((found, logits), (wanted[row], double))
        )
        torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-6)


def _rest_of_rows(logits, groups):
    """log P(not s) for each symbol, in double precision; rows have groups of their own."""
    rows = []
    for row, own in zip(logits, groups, strict=True):
        rest = list(torch.nn.functional.logsigmoid(-row))
        for group in own:
            logs = row[list(group)].log_softmax(0)
            for place, member in enumerate(group):
                rest[member] = torch.cat([logs[:place], logs[place + 1 :]]).logsumexp(0)
        rows.append(torch.stack(rest))
    return torch.stack(rows)


@pytest.mark.parametrize("provenance", ["damp", "noisy-or"])
@pytest.mark.parametrize("made", ["from_rows", "stack", "stack of rows", "batched"])
def test_what_is_left_where_rows_have_different_groups(made, provenance):
    logits = torch.tensor(
        [[-6.0, 19.9, 1.0], [26.2, 1.0, -20.5], [9.0, -8.0, 30.0]], requires_grad=True
    )
    exclusive, choices = [True, False, [[1, 2], [0]]], [[(0, 1, 2)], [], [(1, 2)]]
    symbols = ["abc"] * 3 if made == "stack" else ["abc", "dbe", "afg"]
    with dl.using(provenance):
        if made == "from_rows":
            rows = list(zip(symbols, logits, strict=True))
            d = dl.Distribution.from_rows(rows, exclusive=exclusive, logits=True)
        else:
            every = zip(logits.split(1), symbols, exclusive, strict=True)
            parts = [dl.Distribution.from_logits(x, own, exclusive=e) for x, own, e in every]
            d = dl.Distribution.stack(parts)
        negated = dl.batched(lambda d: dl.negate(d))(d) if made == "batched" else dl.negate(d)
        hidden = dl.negate(dl.Distribution.stack([d, d]), "abcdefg")
    found = torch.stack([negated[n].log_probs(list(own))[0] for n, own in enumerate(symbols)])
    double = logits.detach().double().requires_grad_()
    wanted = _rest_of_rows(double, choices)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-6)
    for row, own in enumerate(symbols * 2):
        torch.testing.assert_close(hidden[row].log_probs(list(own))[0], found[row % 3])
    (given,) = torch.autograd.grad(found.sum(), logits)
    torch.testing.assert_close(
        given.double(), torch.autograd.grad(wanted.sum(), double)[0], rtol=1e-4, atol=1e-6
    )


def test_rows_of_probabilities_are_not_complete_beside_rows_of_scores():
    scores = dl.Distribution.from_logits(torch.tensor([[3.0, 1.0]]), "ab", provenance="damp")
    partly = dl.Distribution([0.6, 0.1, 0.9], "abc", exclusive=[[0, 1], [2]], provenance="damp")
    negated = dl.negate(dl.Distribution.stack([partly, scores]))
    torch.testing.assert_close(negated[0].probs(), torch.tensor([[0.4, 0.9, 0.1]]))
