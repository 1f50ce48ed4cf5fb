"""Statements about all rows of a batch, against their formulas in plain Python."""

from __future__ import annotations

import math

import pytest
import torch

import dolphin as dl

DEGREES = [0.9, 0.2, 1.0, 0.0, 0.55]


def by_hand(degrees, over, p):
    errors = [1 - u for u in degrees] if over == "all" else degrees
    mean = max(errors) if math.isinf(p) else (sum(e**p for e in errors) / len(errors)) ** (1 / p)
    return 1 - mean if over == "all" else mean


@pytest.mark.parametrize("over", ["all", "some"])
@pytest.mark.parametrize("p", [1, 2, 3.5, 6, math.inf])
@pytest.mark.parametrize("layout", ["tensor", "shared", "rows"])
def test_the_formulas(over, p, layout):
    degrees = torch.tensor(DEGREES, dtype=torch.float64)
    truth = degrees
    if layout == "shared":
        truth = dl.Distribution(torch.stack([1 - degrees, degrees], 1), [False, True])
    if layout == "rows":
        truth = dl.Distribution.from_rows(
            [([True], [u]) if u > 0 else ([False], [1.0]) for u in DEGREES]
        )
    assert dl.satisfaction(truth, over, p=p).item() == pytest.approx(by_hand(DEGREES, over, p))
    mask = torch.tensor([True, False, True, False, True])
    kept = [u for u, keep in zip(DEGREES, mask, strict=True) if keep]
    masked = dl.satisfaction(truth, over, p=p, where=mask).item()
    assert masked == pytest.approx(by_hand(kept, over, p))


@pytest.mark.parametrize("over", ["all", "some"])
@pytest.mark.parametrize("p", [1, 2, 4])
def test_gradients(over, p):
    degrees = torch.tensor([0.9, 0.2, 0.55], dtype=torch.float64, requires_grad=True)
    torch.autograd.gradcheck(lambda u: dl.satisfaction(u, over, p=p), degrees)
    for corner in (0.0, 1.0):
        at = torch.full((4,), corner, requires_grad=True)
        (grad,) = torch.autograd.grad(dl.satisfaction(at, over, p=p), at)
        assert grad.isfinite().all()
    worst = torch.tensor([0.0, 1.0], requires_grad=True)
    (grad,) = torch.autograd.grad(dl.satisfaction(worst, "all", p=p), worst)
    assert grad[0] > 0


def test_a_row_that_can_not_be_true_still_counts():
    d = dl.Distribution.from_rows([([True], [0.8]), ([], []), ([False], [1.0])], exclusive=False)
    assert dl.satisfaction(d, p=1).item() == pytest.approx(0.8 / 3)


def test_no_rows():
    nothing = torch.zeros(3, dtype=torch.bool)
    assert dl.satisfaction(torch.rand(3), "all", where=nothing) == 1
    assert dl.satisfaction(torch.rand(3), "some", where=nothing) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda u: dl.satisfaction(u, "any"), "'all' or 'some'"),
        (lambda u: dl.satisfaction(u, p=0.5), "at least 1"),
        (lambda u: dl.satisfaction(u, where=[True]), "where= must be a mask"),
        (lambda u: dl.satisfaction(u > 0.5), "floating-point"),
        (lambda u: dl.satisfaction(dl.Distribution([0.5, 0.5], [0, 1])), "over True and False"),
        (lambda u: dl.satisfaction([0.5]), "satisfaction"),
    ],
)
def test_wrong_calls(call, message):
    with pytest.raises(dl.InputError, match=message):
        call(torch.rand(3))
