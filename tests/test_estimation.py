"""Estimators: mean and variance against exact values and gradients on small problems.

Statistics: each mean is over R independent runs, on R rows of one batch that hold the same numbers.
It is compared with the exact value within 5 standard errors of the mean, taken from the runs
themselves: with fixed seeds the tests are deterministic, and a correct estimator would fail for
another seed about once in 1.7 million comparisons. Biases of a tenth of a standard deviation are
found, since R = 4000 makes the standard error 1/63 of it.
"""

from __future__ import annotations

import itertools
import math

import pytest
import torch

import dolphin as dl
from dolphin.errors import DolphinError, InputError
from dolphin.estimation import estimate

RUNS = 4000
UNBIASED = ["indecater", "reinforce"]
PROBS = [[0.2, 0.5, 0.3], [0.6, 0.3, 0.1], [0.1, 0.1, 0.8]]
SYMBOLS = [0, 1, 2]


def value(x, y, z):
    return (x + 1) * y - z * z


def parity(x, y, z):
    return "even" if (x + y * z) % 2 == 0 else "odd"


def exact(f, probs=PROBS) -> tuple[float, list[list[float]]]:
    """The expected value, and its derivative with respect to every probability."""
    total, grads = 0.0, [[0.0] * len(p) for p in probs]
    for places in itertools.product(*(range(len(p)) for p in probs)):
        result = f(*(SYMBOLS[place] for place in places))
        weights = [p[place] for p, place in zip(probs, places, strict=True)]
        total += math.prod(weights) * result
        for i, place in enumerate(places):
            grads[i][place] += math.prod(weights[:i] + weights[i + 1 :]) * result
    return total, grads


def runs(probs=PROBS, rows: int = RUNS) -> list[torch.Tensor]:
    """The same probabilities in every row, so that rows are independent runs."""
    return [torch.tensor(p, dtype=torch.float64).repeat(rows, 1).requires_grad_() for p in probs]


def inputs(probs, **options) -> list[dl.Distribution]:
    return [dl.Distribution(p, SYMBOLS[: p.shape[1]], **options) for p in probs]


def assert_mean(found: torch.Tensor, expected: float) -> None:
    error = found.std().item() / math.sqrt(len(found))
    assert abs(found.mean().item() - expected) <= 5 * error + 1e-9


@pytest.mark.parametrize("samples", [2, 5])
@pytest.mark.parametrize("method", UNBIASED)
def test_value_and_gradient_are_unbiased(method, samples):
    probs = runs()
    generator = torch.Generator().manual_seed(0)
    found = estimate(value, *inputs(probs), samples=samples, method=method, generator=generator)
    assert found.shape == (RUNS,)
    expected, slopes = exact(value)
    assert_mean(found.detach(), expected)
    for grad, slope in zip(torch.autograd.grad(found.sum(), probs), slopes, strict=True):
        for column, s in enumerate(slope):
            assert_mean(grad[:, column], s)


@pytest.mark.parametrize("method", UNBIASED)
def test_probabilities_that_dont_add_up_to_one(method):
    """Raw probabilities: the derivative is that of the sum of products, not of a softmax."""
    raw = [[0.2, 0.3, 0.1], [0.5, 0.4, 0.1], [0.1, 0.1, 0.2]]
    probs = runs(raw)
    generator = torch.Generator().manual_seed(1)
    found = estimate(value, *inputs(probs), samples=4, method=method, generator=generator)
    expected, slopes = exact(value, raw)
    assert_mean(found.detach(), expected)
    for grad, slope in zip(torch.autograd.grad(found.sum(), probs), slopes, strict=True):
        for column, s in enumerate(slope):
            assert_mean(grad[:, column], s)


def test_indecater_has_less_variance_than_reinforce():
    """Per sample, and also with as many calls: 4 samples of 9 symbols against 36 samples."""
    spread = {}
    for method, samples in (("indecater", 4), ("reinforce", 4), ("reinforce", 36)):
        probs = runs()
        generator = torch.Generator().manual_seed(2)
        found = estimate(value, *inputs(probs), samples=samples, method=method, generator=generator)
        grads = torch.autograd.grad(found.sum(), probs)
        spread[method, samples] = sum(g.var(0).sum().item() for g in grads)
    assert spread["indecater", 4] < 0.2 * spread["reinforce", 4]
    assert spread["indecater", 4] < spread["reinforce", 36]


def test_the_variance_is_the_one_that_was_promised():
    """IndeCateR's gradient for one input: variance over the others, divided by the samples."""
    samples = 4
    probs = runs()
    generator = torch.Generator().manual_seed(3)
    found = estimate(value, *inputs(probs), samples=samples, generator=generator)
    grad = torch.autograd.grad(found.sum(), probs)[0][:, 2]
    moments = [0.0, 0.0]
    for y, z in itertools.product(SYMBOLS, SYMBOLS):
        weight = PROBS[1][y] * PROBS[2][z]
        moments = [m + weight * value(2, y, z) ** (i + 1) for i, m in enumerate(moments)]
    variance = (moments[1] - moments[0] ** 2) / samples
    assert grad.var().item() == pytest.approx(variance, rel=0.15)


def test_a_single_input_is_exact():
    p = torch.tensor([[0.2, 0.5, 0.3]], requires_grad=True)
    found = estimate(lambda x: x * x, dl.Distribution(p, SYMBOLS), samples=1)
    assert found.item() == pytest.approx(0.5 + 4 * 0.3)
    found.sum().backward()
    torch.testing.assert_close(p.grad, torch.tensor([[0.0, 1.0, 4.0]]))


def test_more_samples_less_variance():
    spread = []
    for samples in (4, 16):
        generator = torch.Generator().manual_seed(4)
        found = estimate(value, *inputs(runs()), samples=samples, generator=generator)
        spread.append(found.var().item())
    assert spread[1] == pytest.approx(spread[0] / 4, rel=0.2)


# ----------------------------------------------------------------------------------- symbols


@pytest.mark.parametrize("method", UNBIASED)
def test_outcomes_are_unbiased(method):
    probs = runs()
    generator = torch.Generator().manual_seed(5)
    found = estimate(parity, *inputs(probs), samples=3, method=method, generator=generator)
    assert isinstance(found, dl.Distribution)
    for outcome in ("even", "odd"):
        expected, slopes = exact(lambda *xs, o=outcome: float(parity(*xs) == o))
        column = dl.get_probs(found, symbols=[outcome])[:, 0]
        assert_mean(column.detach(), expected)
        grads = torch.autograd.grad(column.sum(), probs, retain_graph=True)
        for grad, slope in zip(grads, slopes, strict=True):
            for place, s in enumerate(slope):
                assert_mean(grad[:, place], s)


def test_ised_is_exact_once_everything_was_drawn():
    probs = runs(rows=3)
    generator = torch.Generator().manual_seed(6)
    found = estimate(parity, *inputs(probs), samples=3000, method="ised", generator=generator)
    expected, slopes = exact(lambda *xs: float(parity(*xs) == "even"))
    column = dl.get_probs(found, symbols=["even"])[:, 0]
    torch.testing.assert_close(column, torch.full_like(column, expected))
    loss = column.log().sum()
    grads = torch.autograd.grad(loss, probs)
    for grad, slope in zip(grads, slopes, strict=True):
        expected_grad = torch.tensor(slope, dtype=torch.float64) / expected
        shifted = grad - grad.mean(1, keepdim=True)  # normalised: equal up to a constant
        torch.testing.assert_close(shifted[0], expected_grad - expected_grad.mean())


def test_ised_sums_to_one_and_gets_better():
    errors = []
    expected, _ = exact(lambda *xs: float(parity(*xs) == "even"))
    for samples in (2, 16):
        generator = torch.Generator().manual_seed(7)
        probs = runs(rows=500)
        d = estimate(parity, *inputs(probs), samples=samples, method="ised", generator=generator)
        found = dl.get_probs(d, symbols=["even", "odd"]).detach()
        torch.testing.assert_close(found.sum(1), torch.ones(500, dtype=torch.float64))
        errors.append((found[:, 0] - expected).abs().mean().item())
    assert errors[1] < 0.5 * errors[0]


def test_outcome_rule():
    p = torch.tensor([[0.25, 0.75], [0.5, 0.5]])
    d = dl.Distribution(p, [0, 1])
    assert torch.is_tensor(estimate(lambda x: x, d))
    assert torch.is_tensor(estimate(lambda x: x > 0, d))
    torch.testing.assert_close(estimate(lambda x: x > 0, d), p[:, 1])
    assert isinstance(estimate(str, d), dl.Distribution)
    assert isinstance(estimate(lambda x: x or None, d), dl.Distribution)
    symbols = estimate(lambda x: x, d, outcome="symbol")
    torch.testing.assert_close(dl.get_probs(symbols, symbols=[0, 1]), p)
    with pytest.raises(DolphinError, match="outcome='symbol'"):
        estimate(lambda x: "a", d, outcome="number")


# ------------------------------------------------------------------------------ how it is called


@pytest.mark.parametrize("method", ["indecater", "reinforce", "ised"])
def test_the_function_runs_once_per_combination(method):
    calls = []

    def f(x, y, z):
        calls.append((x, y, z))
        return float(x + y + z)

    estimate(f, *inputs(runs(rows=50)), samples=20, method=method, cache=False)
    assert len(calls) == len(set(calls)) <= 27


def test_layouts_rows_and_provenances():
    """Per-row symbols, one row for all, any provenance, results as operands again."""
    rows = dl.Distribution.from_rows([([1, 2], [0.5, 0.5]), ([5], [1.0])])
    shared = dl.Distribution(torch.tensor([0.25, 0.75]), [0, 10])
    found = estimate(lambda a, b: a + b, rows, shared, samples=8)
    torch.testing.assert_close(estimate(lambda a: a, rows), torch.tensor([1.5, 5.0]))
    assert found.shape == (2,)
    with dl.using(dl.TopKProofs(k=3)):
        d = dl.Distribution(torch.tensor([[0.3, 0.7]]), ["a", "b"])
    outcome = estimate(lambda x: x * 2, d)
    assert outcome.provenance == dl.TopKProofs(k=3)
    assert dict(dl.apply(outcome, d, lambda x, y: x + y).row(0)) == pytest.approx(
        {"aaa": 0.09, "aab": 0.21, "bba": 0.21, "bbb": 0.49}
    )


@pytest.mark.parametrize("method", ["indecater", "reinforce", "ised"])
def test_zero_and_one_stay_finite(method):
    p = torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]], requires_grad=True)
    d = [dl.Distribution(p, [1, 2]), dl.Distribution(p.flip(1), [1, 2])]
    found = estimate(lambda x, y: x * 10 + y, *d, samples=4, method=method)
    torch.testing.assert_close(found.detach(), torch.tensor([21.0, 12.0, 0.0]))
    (grad,) = torch.autograd.grad(found.sum(), p)
    assert torch.isfinite(grad).all()


def test_the_generator_makes_it_reproducible():
    first, again, other = (
        estimate(value, *inputs(runs(rows=8)), generator=torch.Generator().manual_seed(seed))
        for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_learning_through_a_black_box():
    """Two digits are learned from a formula of both, which is only ever called."""
    logits = torch.zeros(2, 3, requires_grad=True)
    optimizer = torch.optim.Adam([logits], lr=0.3)
    generator = torch.Generator().manual_seed(0)
    for _ in range(60):
        a, b = (dl.Distribution(row, SYMBOLS) for row in logits.softmax(1))
        wrong = estimate(lambda x, y: abs(3 * x + y - 7) > 0, a, b, samples=4, generator=generator)
        optimizer.zero_grad()
        wrong.sum().backward()
        optimizer.step()
    assert logits.argmax(1).tolist() == [2, 1]
    assert logits.softmax(1).max(1).values.min() > 0.8


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((3,), {}),
        ((value,), {}),
        ((value, 3), {}),
        ((value, "d"), {"samples": 0}),
        ((value, "d"), {"samples": 1, "method": "reinforce"}),
        ((value, "d"), {"method": "magic"}),
        ((value, "d"), {"outcome": "maybe"}),
    ],
    ids=range(7),
)
def test_wrong_arguments(arguments, options):
    d = dl.Distribution([0.5, 0.5], [0, 1])
    arguments = [d if a == "d" else a for a in arguments]
    with pytest.raises(InputError, match="estimate"):
        estimate(*arguments, **options)


def test_errors_of_the_function_are_explained():
    d = dl.Distribution([0.5, 0.5], [0, 1])
    with pytest.raises(DolphinError, match=r"estimate.*ZeroDivisionError.*0"):
        estimate(lambda x: 1 / x, d)


def test_too_many_calls_is_a_clear_error():
    d = dl.Distribution(torch.full((10, 100), 0.01), range(100))
    with dl.settings(max_combinations=1000), pytest.raises(DolphinError, match="16,000 calls"):
        estimate(lambda x: x, d)
