"""Losses: values against the definitions, gradients, and rows that can't reach their target."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

import dolphin as dl
from dolphin.provenance.registry import negates

LOSSES = [dl.nll_loss, dl.bce_loss]
PROVENANCES = [dl.DAMP(), dl.TopKProofs(k=3)]


def digits(logits, provenance=None):
    return dl.Distribution.from_logits(logits, range(logits.shape[1]), provenance=provenance)


@pytest.mark.parametrize("provenance", PROVENANCES, ids=repr)
def test_nll_is_cross_entropy_on_an_input(provenance):
    logits = torch.randn(6, 5, requires_grad=True)
    targets = torch.randint(0, 5, (6,))
    loss = dl.nll_loss(digits(logits, provenance), targets)
    expected = F.cross_entropy(logits, targets)
    torch.testing.assert_close(loss, expected)
    ours, theirs = torch.autograd.grad(loss, logits)[0], torch.autograd.grad(expected, logits)[0]
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("provenance", PROVENANCES, ids=repr)
def test_bce_is_binary_cross_entropy_over_all_results(provenance):
    logits = torch.randn(6, 5, requires_grad=True)
    targets = torch.randint(0, 5, (6,))
    loss = dl.bce_loss(digits(logits, provenance), targets, reduction="none")
    wanted = F.one_hot(targets, 5).float()
    expected = F.binary_cross_entropy(logits.softmax(1), wanted, reduction="none").sum(1)
    torch.testing.assert_close(loss, expected)
    ours = torch.autograd.grad(loss.sum(), logits)[0]
    theirs = torch.autograd.grad(expected.sum(), logits)[0]
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("loss", LOSSES)
def test_rows_with_their_own_symbols_give_the_same(loss):
    probs = torch.tensor([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]])
    shared = dl.Distribution(probs, "abc")
    rows = dl.Distribution.from_rows([("cab", probs[0, [2, 0, 1]]), ("abc", probs[1])])
    torch.testing.assert_close(
        loss(shared, ["a", "c"], reduction="none"), loss(rows, ["a", "c"], reduction="none")
    )


def test_absent_symbols_of_shorter_rows_cost_nothing():
    d = dl.Distribution.from_rows([("abc", [0.2, 0.3, 0.5]), ("a", [1.0])])
    assert dl.bce_loss(d, ["a", "a"], reduction="none")[1] == 0


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_reductions(loss, reduction):
    d = dl.Distribution([[0.25, 0.75], [0.5, 0.5]], "ab")
    each = loss(d, ["a", "b"], reduction="none")
    assert each.shape == (2,)
    torch.testing.assert_close(loss(d, ["a", "b"], reduction=reduction), getattr(each, reduction)())


@pytest.mark.parametrize("loss", LOSSES)
def test_match_counts_all_symbols_that_are_close(loss):
    d = dl.Distribution([[0.2, 0.3, 0.5]], [0.3, 0.1 + 0.2, 1.0])
    found = loss(d, [0.3], match=lambda a, b: abs(a - b) < 0.01)
    expected = -math.log(0.5) * (1 if loss is dl.nll_loss else 2)
    assert found.item() == pytest.approx(expected, rel=1e-5)


def test_a_row_out_of_reach_teaches_only_through_bce():
    logits = torch.zeros(1, 4, requires_grad=True)
    nll = dl.nll_loss(digits(logits), [99])
    assert nll.item() == -dl.get_logits(digits(logits), [99])[0, 0] == 1e4
    assert torch.autograd.grad(nll, logits, allow_unused=True)[0].abs().sum() == 0
    biased = torch.tensor([[2.0, 0.0, 0.0]], requires_grad=True)
    gradient = torch.autograd.grad(dl.bce_loss(digits(biased), [99]), biased)[0]
    assert gradient[0, 0] > 0  # the likeliest wrong symbol goes down


NAMES = [
    "damp", "dtkp-am", "dtkp-wmc", "exact", "min-max", "noisy-or", "lukasiewicz", "viterbi",
    "stable-product", "hamacher", "nilpotent", "yager", "schweizer-sklar", "frank", "boolean",
]  # fmt: skip


def masked(logits, symbols, layout):
    if layout == "shared":
        return dl.Distribution.from_logits(logits, symbols)
    return dl.Distribution.from_rows([(symbols, row) for row in logits], logits=True)


def out_of_reach(d, other):
    """Results and symbols of them that nothing possible derives: the first of d has logit -inf."""
    yield d, 9
    yield d, 0
    yield d.map(lambda x: x // 2), 0  # both summands have logit -inf
    yield dl.union(d, d), 0
    yield dl.filter(d, lambda x: x > 2), 2
    yield d.normalized(), 9
    yield d.normalized(), 0
    known = dl.Distribution.certain(5, batch=2)
    if negates(d.provenance):
        yield dl.negate(known), 5
        yield dl.exists(known), False
        yield dl.count(known), 0
    if d.provenance.name != "boolean":
        yield dl.condition(d, dl.Distribution.certain(True, batch=2)), 0
        yield dl.condition(d, dl.Distribution.certain(False, batch=2)), 3
    if not d.provenance.numeric:  # numbers can't tell that one symbol excludes another
        yield dl.condition(d, dl.apply(d, lambda x: x == 2)), 3
    yield dl.Distribution.stack([d[0], other[1]]), 1
    yield dl.program(lambda d: dl.choose(d))(d), 1
    yield dl.exists(d, lambda x: x < 0), True
    if d.provenance.name != "stable-product":  # there 0 times x is not 0
        yield dl.apply(d, other, lambda x, y: x + y), 10
        yield dl.apply(d, dl.Distribution.certain(5, batch=2), lambda x, y: x + y), 5
        yield dl.apply(d, d, other, lambda x, y, z: (x, y, z)), (0, 0, 10)
        yield dl.reduce(lambda x, y: (x, y), [d, other, d]), ((0, 10), 1)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("layout", ["shared", "rows"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_cannot_be_reached_costs_the_same_everywhere(name, layout, dtype):
    numbers = torch.tensor([[-math.inf, -math.inf, 0.5, 1.0]] * 2, dtype=dtype, requires_grad=True)
    more = torch.tensor([[0.5, 1.0]] * 2, dtype=dtype, requires_grad=True)
    with dl.using(name):
        d, other = masked(numbers, [0, 1, 2, 3], layout), masked(more, [10, 20], layout)
        for number, (result, symbol) in enumerate(out_of_reach(d, other)):
            loss = dl.nll_loss(result, [symbol] * 2, reduction="none")
            assert loss[0].item() == -result.log_probs([symbol])[0, 0].item() == 1e4, number
            assert dl.bce_loss(result, [symbol] * 2, reduction="none")[0].item() >= 1e4
            if loss.requires_grad:
                both = (numbers, more)
                gradients = torch.autograd.grad(loss[0], both, allow_unused=True, retain_graph=True)
                assert all(g is None or (g == 0).all() for g in gradients), number


@pytest.mark.parametrize("name", [name for name in NAMES if name != "boolean"])
@pytest.mark.parametrize("layout", ["shared", "rows"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_fact_given_as_0_can_be_reached_and_is_pushed_up(name, layout, dtype):
    probs = torch.tensor([[0.0, 1.0]] * 2, dtype=dtype, requires_grad=True)
    with dl.using(name):
        rows = [("ab", row) for row in probs]
        d = dl.Distribution(probs, "ab") if layout == "shared" else dl.Distribution.from_rows(rows)
        loss = dl.nll_loss(d, ["a", "a"], reduction="none")[0]
    smallest = 1e-290 if dtype == torch.float64 else 1e-30
    assert loss.item() == pytest.approx(-math.log(smallest))
    (gradient,) = torch.autograd.grad(loss, probs)
    assert gradient[0].tolist() == pytest.approx([-1 / smallest, 0.0], rel=1e-3)
    assert d.prob_of(["a", "a"]).tolist() == [0.0, 0.0]


def test_tiny_likelihoods_keep_their_gradient():
    logits = torch.zeros(2, 200, 10, requires_grad=True)
    total = digits(logits[:, 0])
    for place in range(1, 200):
        total = total + digits(logits[:, place])
    loss = dl.nll_loss(total, [0, 1800])  # 10 ** -200 each
    assert loss.item() == pytest.approx(200 * math.log(10), rel=1e-4)
    gradient = torch.autograd.grad(loss, logits)[0]
    assert gradient.isfinite().all()
    assert (gradient.abs().sum(2) > 0.1).all()


def test_unlikely_wrong_results_are_still_pushed_down():
    logs = torch.full((1, 3), -45.0, requires_grad=True)
    d = dl.Distribution.from_logits(logs, range(3), exclusive=False)
    gradient = torch.autograd.grad(dl.bce_loss(d, [99]), logs)[0]
    torch.testing.assert_close(gradient, logs.detach().exp(), rtol=1e-4, atol=0.0)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("provenance", PROVENANCES, ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_finite_at_certainty_right_and_wrong(loss, provenance, dtype):
    for target in (0, 1):
        probs = torch.tensor([[1.0, 0.0]], dtype=dtype, requires_grad=True)
        value = loss(dl.Distribution(probs, [0, 1], provenance=provenance), [target])
        gradient = torch.autograd.grad(value, probs)[0]
        assert value.isfinite()
        assert gradient.isfinite().all()
        if loss is dl.bce_loss and target == 1:
            assert gradient[0, 0] > 0  # certain and wrong: pushed down, not left alone


def test_gradients_in_double_precision(float64):
    def loss(logits):
        a, b = digits(logits[:, :4]), digits(logits[:, 4:])
        return dl.bce_loss(a + b, [3, 0]) + dl.nll_loss(a * b, [2, 0])

    logits = torch.randn(2, 8, requires_grad=True)
    assert torch.autograd.gradcheck(loss, logits)


@pytest.mark.parametrize("loss", LOSSES)
def test_an_empty_result_is_out_of_reach(loss):
    d = dl.filter(dl.Distribution([[0.5, 0.5]], "ab"), lambda s: False)
    assert loss(d, ["a"]).isfinite()


@pytest.mark.parametrize("loss", LOSSES)
def test_wrong_arguments(loss):
    d = dl.Distribution([[0.5, 0.5]], "ab")
    with pytest.raises(dl.DolphinError, match="argument 1 must be a Distribution"):
        loss(torch.ones(2), ["a"])
    with pytest.raises(dl.DolphinError, match="reduction must be"):
        loss(d, ["a"], reduction="median")
    with pytest.raises(dl.DolphinError, match="2 targets for 1 rows"):
        loss(d, ["a", "b"])
    with pytest.raises(dl.DolphinError, match="match raised TypeError"):
        loss(d, ["a"], match=lambda a, b: a - b)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["exact", "dtkp-wmc", "dtkp-am", "damp", "noisy-or"])
def test_gradients_at_zero_keep_their_ratio(name, dtype):
    """x·¼ or y, at x = y = 0: y gets four times as much; and other rows don't notice."""
    x = torch.tensor([[0.0, 0.0], [1e-20, 0.0]], dtype=dtype, requires_grad=True)
    with dl.using(name):
        a, b = (dl.Distribution(x[:, i : i + 1], ["s"], exclusive=False) for i in range(2))
        quarter = dl.Distribution(torch.full((1, 1), 0.25, dtype=dtype), ["s"], exclusive=False)
        either = dl.union(dl.apply(a, quarter, lambda *s: "s"), b)
        losses = dl.nll_loss(either, ["s", "s"], reduction="none")
    (slope,) = torch.autograd.grad(losses.sum(), x)
    assert (slope[0, 1] / slope[0, 0]).item() == pytest.approx(4.0, rel=1e-4)
    assert losses[1].item() == pytest.approx(-math.log(0.25e-20), rel=1e-5)


@pytest.mark.parametrize("per_row", [False, True], ids=["shared", "per row"])
def test_several_symbols_that_match_are_asked_once(per_row):
    """-log(.1 + .3) - log(1 - .6) in the first row, -2 log(.5) in the second."""
    asked = []

    def near(symbol, target):
        asked.append((symbol, target))
        return abs(symbol - target) < 1

    rows = [[0.1, 0.3, 0.6], [0.5, 0.0, 0.5]]
    d = dl.Distribution(torch.tensor(rows, dtype=torch.float64), [1.0, 1.5, 4.0])
    if per_row:
        d = dl.Distribution.from_rows([([1.0, 1.5, 4.0], row) for row in rows])
    losses = dl.bce_loss(d, [1.2, 4.0], match=near, reduction="none")
    wanted = [-math.log(0.4) - math.log(0.4), -2 * math.log(0.5)]
    assert losses.tolist() == pytest.approx(wanted, rel=1e-6)
    assert len(asked) == len(set(asked)) == 6


@pytest.mark.parametrize("loss", LOSSES)
def test_nan_is_one_symbol_for_losses(loss):
    d = dl.Distribution(torch.tensor([[0.5, 0.5], [0.2, 0.8]]), [0, math.nan])
    nan = float("nan")
    alone = loss(d[1], [0])
    torch.testing.assert_close(loss(d, [nan, 0], ignore=nan), alone)
    torch.testing.assert_close(loss(d, [nan, 0], ignore=math.nan), alone)
    torch.testing.assert_close(loss(d, [nan, 0], weight={math.nan: 0.0}), alone)


@pytest.mark.parametrize("loss", LOSSES)
def test_weights_have_gradients(loss):
    d = dl.Distribution(torch.tensor([[0.5, 0.5], [0.2, 0.8]]), [0, 1])
    weight = torch.tensor([1.0, 3.0], requires_grad=True)
    wanted = torch.autograd.grad(loss(d, [0, 1], weight=weight), weight)[0]
    assert wanted.abs().min() > 0
    for given in (list(weight), {0: weight[0], 1: weight[1]}):
        torch.testing.assert_close(
            torch.autograd.grad(loss(d, [0, 1], weight=given), weight)[0], wanted
        )
