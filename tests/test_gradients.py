"""Gradients: right away from ties, finite and as documented at ties, at 0, at 1, when clipped."""

from __future__ import annotations

import operator

import pytest
import torch

import compare
import dolphin as dl
from programs import PROGRAMS

SMOOTH = [p for p in PROGRAMS if p.name != "nothing_left"]
PROVENANCES = {"damp": dl.DAMP(), "top-1": dl.TopKProofs(k=1), "top-3": dl.TopKProofs(k=3)}
each_provenance = pytest.mark.parametrize(
    "provenance", PROVENANCES.values(), ids=PROVENANCES.keys()
)


def double(values, **options):
    return torch.tensor(values, dtype=torch.float64, **options)


def leaf(values):
    return double(values).requires_grad_()


@each_provenance
@pytest.mark.parametrize("program", SMOOTH, ids=lambda p: p.name)
def test_gradcheck(program, provenance):
    """Against finite differences, at probabilities where a small step changes no choice."""
    probs = [p.detach() * 0.6 for p in compare.tensors(compare.even_rows(program))]
    probs = [p.requires_grad_() for p in probs]

    def function(*tensors):
        return dl.get_probs(compare.evaluate(program, tensors, provenance))

    # One random direction of inputs and outputs: a wrong entry of the Jacobian shows in it.
    assert torch.autograd.gradcheck(function, probs, eps=1e-7, atol=1e-6, fast_mode=True)


@each_provenance
def test_gradcheck_of_log_probabilities(provenance):
    logits = torch.randn(3, 4, dtype=torch.float64).requires_grad_()

    def function(logits):
        d = dl.Distribution.from_logits(logits, range(4), provenance=provenance)
        e = dl.Distribution.from_logits(2 * logits, range(4), provenance=provenance)
        return dl.get_logits(dl.apply(d, e, operator.add))

    assert torch.autograd.gradcheck(function, [logits])


@each_provenance
def test_gradcheck_of_independent_logits(provenance):
    logits = torch.randn(2, 3, dtype=torch.float64).requires_grad_()

    def function(logits):
        d = dl.Distribution.from_logits(logits, range(3), exclusive=False, provenance=provenance)
        return dl.get_probs(d)

    torch.testing.assert_close(function(logits), logits.sigmoid())
    assert torch.autograd.gradcheck(function, [logits])


@each_provenance
def test_ties_share_nothing_they_should_not(provenance):
    """Equal probabilities are two facts: each gets its own gradient."""
    p = leaf([[0.5, 0.5]])
    d = dl.Distribution(p, ["a", "b"], provenance=provenance)
    (gradient,) = torch.autograd.grad(dl.get_probs(d, symbols=["a"]).sum(), p)
    torch.testing.assert_close(gradient, double([[1.0, 0.0]]))


def test_uniform_equality_has_the_gradient_of_the_sum():
    """P(d = d) = Σ p, even where all p are the same and the sum is exactly 1."""
    p = leaf([[0.25] * 4])
    d = dl.Distribution(p, range(4), provenance=dl.TopKProofs(k=4))
    same = dl.get_probs(dl.apply(d, d, operator.eq), symbols=[True])
    (gradient,) = torch.autograd.grad(same.sum(), p)
    torch.testing.assert_close(gradient, double([[1.0] * 4]))


def test_ties_in_the_choice_of_proofs():
    """Of equally likely proofs k are kept, and only those learn."""
    p = leaf([[0.25] * 4])
    d = dl.Distribution(p, range(4), provenance=dl.TopKProofs(k=2))
    total = dl.get_probs(dl.apply(d, lambda x: "any"))
    assert total.item() == pytest.approx(0.5)
    (gradient,) = torch.autograd.grad(total.sum(), p)
    assert sorted(gradient[0].tolist()) == pytest.approx([0.0, 0.0, 1.0, 1.0])


def test_only_surviving_proofs_learn():
    p, q = leaf([[0.6, 0.4]]), leaf([[0.7, 0.3]])
    d = dl.Distribution(p, [0, 1], provenance=dl.TopKProofs(k=1))
    e = dl.Distribution(q, [0, 1], provenance=dl.TopKProofs(k=1))
    parity = dl.get_probs(dl.apply(d, e, lambda x, y: (x + y) % 2), symbols=[0, 1])
    torch.testing.assert_close(parity.detach(), double([[0.42, 0.28]]))  # 0+0; 1+0, not 0+1
    to_p, to_q = torch.autograd.grad(parity[0, 0], [p, q], retain_graph=True)
    torch.testing.assert_close(to_p, double([[0.7, 0.0]]))
    torch.testing.assert_close(to_q, double([[0.6, 0.0]]))
    to_p, to_q = torch.autograd.grad(parity[0, 1], [p, q])
    torch.testing.assert_close(to_p, double([[0.0, 0.7]]))
    torch.testing.assert_close(to_q, double([[0.4, 0.0]]))


@each_provenance
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_gradient_at_zero_and_one(provenance, dtype):
    """d(p·q)/dp = q, at p = 0 and at p = 1 as well: a fact that is ruled out can come back."""
    p = torch.tensor([[0.0, 1.0]], dtype=dtype, requires_grad=True)
    q = torch.tensor([[0.3, 0.6]], dtype=dtype, requires_grad=True)
    d = dl.Distribution(p, [0, 1], provenance=provenance)
    e = dl.Distribution(q, [0, 1], provenance=provenance)
    pairs = dl.get_probs(dl.apply(d, e, lambda x, y: (x, y)))
    torch.testing.assert_close(pairs.detach(), torch.tensor([[0.0, 0.0, 0.3, 0.6]], dtype=dtype))
    weights = torch.tensor([[1.0, 10.0, 100.0, 1000.0]], dtype=dtype)
    to_p, to_q = torch.autograd.grad((weights * pairs).sum(), [p, q])
    torch.testing.assert_close(to_p, torch.tensor([[6.3, 630.0]], dtype=dtype))
    torch.testing.assert_close(to_q, torch.tensor([[100.0, 1000.0]], dtype=dtype))


@each_provenance
def test_gradient_of_two_zeros(provenance):
    """d(p·q)/dp = 0 where q = 0: nothing may turn into nan or blow up."""
    p, q = leaf([[0.0, 0.0]]), leaf([[0.0, 1.0]])
    d = dl.Distribution(p, [0, 1], exclusive=False, provenance=provenance)
    e = dl.Distribution(q, [0, 1], exclusive=False, provenance=provenance)
    both = dl.get_probs(dl.apply_if(d, e, lambda x, y: (x, y), lambda x, y: x == y))
    assert both.tolist() == [[0.0, 0.0]]
    to_p, to_q = torch.autograd.grad(both.sum(), [p, q])
    torch.testing.assert_close(to_p, double([[0.0, 1.0]]))
    torch.testing.assert_close(to_q, double([[0.0, 0.0]]))


@each_provenance
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_losses_stay_finite_at_zero_and_one(provenance, dtype):
    """What people write: a cross-entropy of a label that has probability exactly 0."""
    p = torch.tensor([[0.0, 1.0], [0.0, 1.0]], dtype=dtype, requires_grad=True)
    d = dl.Distribution(p, [0, 1], provenance=provenance)
    logits = dl.get_logits(dl.apply(d, d, operator.add), symbols=[0, 2])
    loss = torch.nn.functional.nll_loss(logits, torch.tensor([0, 1]))
    assert torch.isfinite(loss)
    (gradient,) = torch.autograd.grad(loss, p)
    assert torch.isfinite(gradient).all()


@each_provenance
def test_logits_of_absent_symbols_are_finite(provenance):
    d = dl.Distribution(leaf([[0.5, 0.5]]), [0, 1], provenance=provenance)
    logits = dl.get_logits(d, symbols=[1, "nowhere"])
    assert torch.isfinite(logits).all()
    assert logits[0, 1] < -50
    assert dl.get_probs(d, symbols=[1, "nowhere"]).tolist() == [[0.5, 0.0]]


def test_clipped_sums():
    """Past 1 the value is clipped; the gradient is then 0, or that of the sum if asked for."""
    for above_one, expected in (("clip", 0.0), ("pass", 1.0)):
        p = leaf([[0.8, 0.7]])
        d = dl.Distribution(p, [0, 1], exclusive=False, provenance=dl.DAMP(above_one=above_one))
        total = dl.get_probs(dl.apply(d, lambda x: "any"))
        assert total.item() == 1.0
        (gradient,) = torch.autograd.grad(total.sum(), p)
        torch.testing.assert_close(gradient, double([[expected, expected]]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_sum_that_is_one_up_to_rounding_learns(dtype):
    """Ten probabilities that add up to 1 must not lose their gradient to the last bit."""
    logits = torch.randn(64, 10, dtype=dtype, requires_grad=True)
    p = logits.softmax(dim=1).detach().requires_grad_()
    d = dl.Distribution(p, range(10), provenance=dl.DAMP())
    total = dl.get_probs(dl.apply(d, lambda x: "any"))
    assert (total <= 1).all()
    (gradient,) = torch.autograd.grad(total.sum(), p)
    torch.testing.assert_close(gradient, torch.ones_like(p))


def test_from_logits_is_a_softmax_in_each_group():
    logits = torch.randn(3, 5)
    d = dl.Distribution.from_logits(logits, "abcde", exclusive=[[0, 3], [4, 1]])
    wanted = torch.zeros(3, 5)
    for group in ([0, 3], [4, 1]):
        wanted[:, group] = logits[:, group].softmax(1)
    wanted[:, 2] = logits[:, 2].sigmoid()
    torch.testing.assert_close(dl.get_probs(d), wanted)


@each_provenance
@pytest.mark.parametrize("exclusive", [True, False, [[0, 2], [1, 3]]], ids=str)
def test_each_from_logits_is_from_logits_of_each(provenance, exclusive):
    logits = torch.randn(3, 2, 4, dtype=torch.float64)
    found = []
    for at_once in (True, False):
        leaf = logits.clone().requires_grad_()
        with dl.using(provenance):
            if at_once:
                first, second = dl.Distribution.each_from_logits(
                    leaf, range(4), exclusive=exclusive
                )
            else:
                first, second = (
                    dl.Distribution.from_logits(part, range(4), exclusive=exclusive)
                    for part in leaf.unbind(1)
                )
        probs = dl.get_probs(dl.apply(first, second, lambda x, y: 5 * x + y))
        (probs * torch.arange(16.0)).sum().backward()
        found.append((probs, leaf.grad))
    torch.testing.assert_close(found[0], found[1])


@each_provenance
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_long_products_do_not_underflow(provenance, dtype):
    """0.01 to the power of 200 is 1e-400: no float holds it, its logarithm is −921."""
    p = torch.tensor([0.01, 0.99], dtype=dtype, requires_grad=True)
    total = dl.Distribution(p, [1, 0], provenance=provenance)
    for _ in range(199):
        following = dl.Distribution(p, [1, 0], provenance=provenance)
        total = dl.apply(total, following, lambda x, y: min(x, y))
    logits = dl.get_logits(total, symbols=[1])
    expected = 200 * torch.tensor(0.01, dtype=dtype).log().item()
    assert logits.item() == pytest.approx(expected, rel=1e-5)
    (gradient,) = torch.autograd.grad(logits.sum(), p)
    assert gradient[0].item() == pytest.approx(200 / 0.01, rel=1e-4)
    assert torch.isfinite(dl.get_probs(total)).all()


@each_provenance
def test_long_products_from_logits(provenance):
    """Confidently wrong networks: logarithms of probabilities far below any float."""
    logits = torch.tensor([[-300.0, 300.0]], requires_grad=True)
    d = dl.Distribution.from_logits(logits, [0, 1], provenance=provenance)
    e = dl.Distribution.from_logits(logits, [0, 1], provenance=provenance)
    log_probs = dl.get_logits(dl.apply(d, e, operator.add), symbols=[0, 2])
    torch.testing.assert_close(log_probs.detach(), torch.tensor([[-1200.0, 0.0]]))
    (gradient,) = torch.autograd.grad(log_probs[0, 0], logits)
    torch.testing.assert_close(gradient, torch.tensor([[2.0, -2.0]]))


@each_provenance
@pytest.mark.parametrize("confidence", [1.0, 10.0, 40.0])
def test_single_precision_agrees_with_double(provenance, confidence):
    """A loss over the sum of fifteen digits, from indifferent to overconfident networks."""
    scores = confidence * torch.randn(15, 8, 10, dtype=torch.float64)
    found = []
    for dtype in (torch.float32, torch.float64):
        logits = scores.to(dtype).requires_grad_()
        inputs = [dl.Distribution.from_logits(x, range(10), provenance=provenance) for x in logits]
        total = inputs[0]
        for following in inputs[1:]:
            total = dl.apply(total, following, operator.add)
        log_probs = dl.get_logits(total)
        loss = torch.nn.functional.nll_loss(log_probs, torch.full((8,), 60))
        (gradient,) = torch.autograd.grad(loss, logits)
        found.append((log_probs.detach().double(), gradient.double()))
    (single, single_gradient), (double_, double_gradient) = found
    torch.testing.assert_close(single, double_, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(single_gradient, double_gradient, rtol=1e-3, atol=1e-4)


@each_provenance
def test_no_gradient_to_other_rows(provenance):
    p = torch.rand(4, 3, dtype=torch.float64).softmax(dim=1).requires_grad_()
    d = dl.Distribution(p, range(3), provenance=provenance)
    result = dl.get_probs(dl.apply(d, d, lambda x, y: x * y))
    (gradient,) = torch.autograd.grad(result[2].sum(), p)
    assert (gradient[[0, 1, 3]] == 0).all()
    assert (gradient[2] != 0).any()


@each_provenance
def test_sampled_symbols_learn_and_others_do_not(provenance):
    p = leaf([[0.5, 0.2, 0.3], [0.1, 0.2, 0.7]])
    d = dl.sample(dl.Distribution(p, range(3), provenance=provenance), 2)
    probs = dl.get_probs(dl.apply(d, lambda x: x + 10), symbols=[10, 11, 12])
    (gradient,) = torch.autograd.grad(probs.sum(), p)
    torch.testing.assert_close(gradient, double([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]))


@each_provenance
def test_prob_of_learns(provenance):
    p = leaf([[0.5, 0.2, 0.3], [0.1, 0.2, 0.7]])
    d = dl.Distribution(p, [1.0, 2.0, 2.001], provenance=provenance)
    exact = d.prob_of([1.0, 2.0])
    torch.testing.assert_close(exact.detach(), double([0.5, 0.2]))
    near = d.prob_of([1.0, 2.0], match=lambda a, b: abs(a - b) < 0.01)
    (gradient,) = torch.autograd.grad(near.sum(), p)
    both = provenance != dl.TopKProofs(k=1)  # what matches is ⊕-ed: one proof is all that k=1 keeps
    torch.testing.assert_close(near.detach(), double([0.5, 0.9 if both else 0.7]))
    torch.testing.assert_close(gradient, double([[1.0, 0.0, 0.0], [0.0, float(both), 1.0]]))


def test_second_backward_with_retained_graph():
    p = leaf([[0.5, 0.5]])
    d = dl.Distribution(p, [0, 1], provenance=dl.TopKProofs(k=2))
    total = dl.get_probs(dl.apply(d, d, operator.add)).pow(2).sum()
    (first,) = torch.autograd.grad(total, p, retain_graph=True)
    (second,) = torch.autograd.grad(total, p)
    torch.testing.assert_close(first, second)


@each_provenance
def test_reading_probabilities_twice_changes_nothing(provenance):
    d = dl.Distribution(leaf([[0.6, 0.4]]), [0, 1], provenance=provenance)
    e = dl.apply(d, d, operator.add)
    first = dl.get_probs(e)
    torch.testing.assert_close(dl.get_probs(e), first)
    torch.testing.assert_close(dl.get_probs(dl.apply(e, lambda x: x)), first)


# -- next to 1, in single precision ----------------------------------------------------------------

BY_NAME = ["damp", "dtkp-am", "dtkp-wmc", "exact", "noisy-or"]
each_precision = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


@each_precision
@pytest.mark.parametrize("name", BY_NAME)
def test_gradient_of_a_negated_fact_at_1(name, dtype):
    p = torch.ones(1, 1, dtype=dtype, requires_grad=True)
    d = dl.Distribution(p, ["x"], exclusive=False, provenance=name)
    not_x = dl.negate(d)
    for read in (dl.get_probs(not_x).sum(), not_x.prob_of(["x"]).sum()):
        (gradient,) = torch.autograd.grad(read, p, retain_graph=True)
        assert gradient.item() == pytest.approx(-1.0)


@each_precision
@pytest.mark.parametrize("name", ["dtkp-am", "dtkp-wmc", "exact"])
def test_sums_that_rounding_carries_above_1_keep_their_gradient(name, dtype):
    """P(d = d) = Σ p, whose gradient is 1 everywhere, also where Σ p is 1.0000001."""
    for seed in range(30):
        torch.manual_seed(seed)
        p = torch.randn(1, 3).softmax(1).to(dtype).requires_grad_()
        d = dl.Distribution(p, range(3), provenance=name)
        same = dl.get_probs(dl.apply(d, d, operator.eq), symbols=[True])
        (gradient,) = torch.autograd.grad(same.sum(), p)
        torch.testing.assert_close(gradient, torch.ones_like(p), rtol=1e-4, atol=1e-4)


@each_precision
def test_the_sum_of_all_symbols_keeps_its_gradient(dtype):
    for excess in (0.0, 1e-7, 9e-4):  # an input that adds up to so much more is accepted
        p = torch.tensor([[0.2, 0.3, 0.5 + excess]], dtype=dtype, requires_grad=True)
        d = dl.Distribution(p, range(3), provenance="damp").map(lambda s: 0)
        (gradient,) = torch.autograd.grad(dl.get_probs(d).sum(), p)
        torch.testing.assert_close(gradient, torch.ones_like(p), rtol=2e-3, atol=0.0)
