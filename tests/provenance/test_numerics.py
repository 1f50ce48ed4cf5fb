"""Logarithms and powers that keep their precision where a plain formula rounds it away."""

import math

import pytest
import torch

from dolphin.provenance import numerics


@pytest.mark.parametrize("name", ["log1p", "expm1"])
def test_exported_logarithms_and_powers_near_zero_lose_nothing(monkeypatch, name):
    monkeypatch.setattr(torch.compiler, "is_exporting", lambda: True)
    numbers = -torch.logspace(-12, 1.9, 400)  # down to -79
    numbers = torch.cat([numbers, torch.tensor([0.0, 1e-9, 0.3])])
    numbers = (numbers[numbers > -1.0] if name == "log1p" else numbers).requires_grad_()
    right = getattr(torch, name)(numbers.double())
    found = getattr(numerics, name)(numbers)
    torch.testing.assert_close(found, right.float(), rtol=3e-7, atol=0)
    (slope,) = torch.autograd.grad(found.sum(), numbers)
    exact = numbers.double().exp() if name == "expm1" else 1.0 / (1.0 + numbers.double())
    torch.testing.assert_close(slope, exact.float(), rtol=1e-6, atol=0)


def test_exported_logarithm_of_nothing(monkeypatch):
    monkeypatch.setattr(torch.compiler, "is_exporting", lambda: True)
    assert numerics.log1p(torch.tensor(-1.0)).item() == -math.inf
