"""What is left of 1 next to a symbol that is nearly certain: in single precision it rounds to 0."""

import math

import pytest
import torch

import dolphin as dl

KNOW_FACTS = ["exact", "dtkp-am", "dtkp-wmc"]
NUMBERS = ["damp", "noisy-or", "viterbi"]
PRECISIONS = [torch.float32, torch.float64]


def softmax(logits):
    """In plain Python, and the logarithm of what is left besides the first."""
    weights = [math.exp(x - max(logits)) for x in logits]
    return [weight / sum(weights) for weight in weights[1:]], math.log(
        sum(weights[1:]) / sum(weights)
    )


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("name", [*KNOW_FACTS, "damp", "noisy-or"])
@pytest.mark.parametrize("first", [2.0, 20.0, 57.5, 90.0])
def test_not_a_symbol_is_all_others(name, dtype, first):
    logits = [first, 33.1, 30.0]
    others, left = softmax(logits)
    x = torch.tensor([logits], dtype=dtype, requires_grad=True)
    with dl.using(name):
        found = dl.negate(dl.Distribution.from_logits(x, "abc")).log_probs(["a"])
    (gradient,) = torch.autograd.grad(found.sum(), x)
    assert found.item() == pytest.approx(left, rel=1e-6, abs=1e-7)
    # log(1 - p) of a softmax: -p for the symbol itself, p · p_other / (1 - p) for another one.
    own = 1.0 - sum(others)
    expected = [-own, *(own * other / sum(others) for other in others)]
    assert gradient[0].tolist() == pytest.approx(expected, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("name", [*KNOW_FACTS, *NUMBERS])
@pytest.mark.parametrize("exclusive", [False, [[0], [1, 2]]])
def test_not_an_independent_fact_of_a_large_logit(name, dtype, exclusive):
    x = torch.tensor([[57.5, 2.0, -1.0]], dtype=dtype, requires_grad=True)
    with dl.using(name):
        d = dl.Distribution.from_logits(x, "abc", exclusive=exclusive)
        found = dl.negate(d).log_probs(["a"])
    (gradient,) = torch.autograd.grad(found.sum(), x)
    assert found.item() == pytest.approx(-57.5, rel=1e-6)
    assert gradient[0].tolist() == pytest.approx([-1.0, 0.0, 0.0], rel=1e-6)


@pytest.mark.parametrize("name", KNOW_FACTS)
@pytest.mark.parametrize("layout", ["shared", "rows", "stacked"])
def test_conditions_on_the_others_of_a_certain_symbol(name, layout):
    """Of a row without symbols nothing is left but "none of them"."""
    x = torch.tensor([57.5, 33.1], requires_grad=True)
    with dl.using(name):
        if layout == "shared":
            d = dl.Distribution.from_logits(x[None], [3, 1])
        elif layout == "rows":
            d = dl.Distribution.from_rows([([3, 1], x), ([], x[:0])], logits=True)
        else:
            other = dl.Distribution(torch.tensor([[0.25, 0.5]]), [3, 1])
            d = dl.Distribution.stack([dl.Distribution.from_logits(x[None], [3, 1]), other])
        total = dl.total(d)
        found = dl.condition(total, dl.apply(total, lambda sum_: sum_ < 3)).probs([0, 1, 3])
    expected = {"shared": [], "rows": [[1.0, 0.0, 0.0]], "stacked": [[1 / 3, 2 / 3, 0.0]]}[layout]
    torch.testing.assert_close(found, torch.tensor([[0.0, 1.0, 0.0], *expected]))


@pytest.mark.parametrize("name", [*KNOW_FACTS, *NUMBERS])
def test_second_derivatives_of_what_is_left(name):
    logits = torch.tensor([[1.0, 0.2, -0.5]], dtype=torch.float64, requires_grad=True)

    def left(x):
        with dl.using(name):
            return dl.negate(dl.Distribution.from_logits(x, "abc")).probs(["a"])

    assert torch.autograd.gradcheck(left, (logits,))
    assert torch.autograd.gradgradcheck(left, (logits,))


def test_given_probabilities_keep_their_own_gradients():
    """1 - p of a given number depends on that number alone, however little is left."""
    x = torch.tensor([[1.0 - 2.0**-24, 2.0**-30]], requires_grad=True)
    with dl.using("exact"):
        found = dl.negate(dl.Distribution(x, "ab")).probs(["a"])
    (gradient,) = torch.autograd.grad(found.sum(), x)
    assert found.item() == 2.0**-24
    assert gradient[0].tolist() == [-1.0, 0.0]


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("margin", [18.0, 25.0, 60.0])
def test_what_numbers_lose_of_a_rest_does_not_explode(name, margin):
    # Without all symbols the rest is 0 in single precision. A slope of 1e30 would end training.
    logits = torch.tensor([[margin, 0.0, 0.0]], requires_grad=True)
    d = dl.Distribution.from_logits(logits, "abc", provenance=name)
    dl.nll_loss(dl.negate(d.filter(lambda symbol: symbol != "c")), ["a"]).backward()
    assert logits.grad is not None
    assert logits.grad.abs().max() <= 1
    assert (logits.grad[0, 1:] <= 0).all()  # the others are raised


@pytest.mark.parametrize("name", NUMBERS)
def test_a_given_certainty_keeps_the_slope_of_its_rest(name):
    probs = torch.tensor([[1.0, 0.0]], requires_grad=True)
    d = dl.Distribution(probs, "ab", provenance=name)
    dl.negate(d).probs(["a"]).sum().backward()
    assert probs.grad is not None
    assert probs.grad[0, 0] == -1
