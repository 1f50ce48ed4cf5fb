"""Products of many integers of which one per row is read: computed as two halves."""

from __future__ import annotations

import math

import pytest
import torch

import dolphin as dl
from dolphin.execution import deferred
from dolphin.provenance.damp.halves import InHalves


@pytest.fixture
def reads(monkeypatch):
    """The number of times that products were read in halves."""
    seen = []

    def read(self, numbers, *, original=InHalves.read):
        seen.append(numbers.dtype)
        return original(self, numbers)

    monkeypatch.setattr(InHalves, "read", read)
    return seen


def product_of(logits, symbols):
    digits = [dl.Distribution.from_logits(part, symbols) for part in logits.unbind(1)]
    product = digits[0]
    for digit in digits[1:]:
        product = dl.apply(product, digit, lambda x, y: x * y)
    return product


def losses(logits, symbols, labels):
    return dl.nll_loss(product_of(logits, symbols), labels, reduction="none")


def drawn(rows, count, symbols, scale=1.0, dtype=torch.float32):
    """Logits, and for labels products with and without a 0."""
    symbols = list(symbols)
    logits = torch.randn(rows, count, len(symbols), dtype=dtype) * scale
    chosen = torch.randint(len(symbols), (rows, count))
    return logits.requires_grad_(), [math.prod(symbols[i] for i in row) for row in chosen.tolist()]


@pytest.mark.parametrize("count", [4, 5, 8, 9])
@pytest.mark.parametrize("symbols", [range(10), range(1, 10), [6, 0, 1, 2, 15, 7, 3]], ids=str)
@pytest.mark.parametrize("scale", [1.0, 12.0])
def test_halves_are_the_chain(count, symbols, scale, reads, monkeypatch):
    logits, labels = drawn(20, count, symbols, scale)
    labels[0] = 0 if 0 in symbols else labels[0]
    found = losses(logits, symbols, labels)
    assert reads
    (gradient,) = torch.autograd.grad(found.sum(), logits)
    monkeypatch.setattr(deferred, "halves_of", lambda *_: None)
    right = losses(logits, symbols, labels)
    torch.testing.assert_close(found, right, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(gradient, torch.autograd.grad(right.sum(), logits)[0])


def test_in_double_precision_where_single_is_not_enough(reads):
    logits, labels = drawn(6, 6, range(10), 30.0)
    found = losses(logits, range(10), labels)
    assert reads == [torch.float32, torch.float64] and found.max() > 70
    whole = dl.get_logits(product_of(logits, range(10)), labels).diagonal()
    torch.testing.assert_close(found, -whole, rtol=1e-5, atol=1e-4)


def test_beyond_double_precision(reads):
    logits, labels = drawn(6, 6, range(10), 900.0)
    found = losses(logits, range(10), labels)
    assert reads and found.max() > 1000
    whole = dl.get_logits(product_of(logits, range(10)), labels).diagonal()
    torch.testing.assert_close(found, -whole, rtol=1e-5, atol=1e-4)


def test_first_and_second_derivatives(reads):
    logits, labels = drawn(3, 5, [0, 1, 2, 3, 5, 7], dtype=torch.float64)
    check = torch.autograd.gradcheck, torch.autograd.gradgradcheck
    assert all(each(lambda x: losses(x, [0, 1, 2, 3, 5, 7], labels), logits) for each in check)
    assert reads


def test_other_functions_and_products_that_are_not_there_are_not_halved(reads):
    digits = [dl.Distribution.from_logits(torch.randn(2, 10), range(10)) for _ in range(5)]
    other = digits[0]
    for digit in digits[1:]:
        other = dl.apply(other, digit, lambda x, y: min(x * y, 50_000))
    dl.nll_loss(other, [50_000, 0])
    shifted = dl.apply(digits[0], lambda x: x + 1)
    for digit in digits[1:]:
        shifted = dl.apply(shifted, digit, lambda x, y: x * y)
    dl.nll_loss(shifted, [12, 0])  # not all factors have the same symbols
    assert not reads
    product = product_of(torch.randn(2, 5, 10), range(10))
    assert dl.nll_loss(product, [11, 0], reduction="none")[0] > 1e3
    assert not reads
