"""Sums of integers as convolutions: all ways must agree, and nothing may underflow."""

from __future__ import annotations

import pytest
import torch

import dolphin as dl
from dolphin.provenance.damp import convolution
from dolphin.provenance.numerics import ZERO
from dolphin.symbolic.plans import AntiDiagonals, caches

WAYS = {
    "direct": {"_DIRECT": 10**9, "_DIRECT_GRADIENT": 10**9},
    "blocked": {"_DIRECT": 0, "_DIRECT_GRADIENT": 0},
    "blocked, then direct": {"_DIRECT": 0, "_DIRECT_GRADIENT": 10**9},
}


def brute_force(a, b):
    """The definition, term by term."""
    rows = []
    for n in range(len(a) + len(b) - 1):
        terms = [a[i] + b[n - i] for i in range(len(a)) if 0 <= n - i < len(b)]
        rows.append(torch.stack(terms).logsumexp(0))
    return torch.stack(rows)


def convolved(monkeypatch, way, a, b):
    for name, value in WAYS[way].items():
        monkeypatch.setattr(convolution, name, value)
    return convolution.log_convolution(a, b, clip=True)


def logs(n, scale, seed):
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randn(n, 3, generator=generator, dtype=torch.float64) * scale
    return numbers.log_softmax(0).requires_grad_()


@pytest.mark.parametrize(("n", "m"), [(2, 2), (33, 10), (64, 32), (100, 97)])
def test_all_ways_are_the_definition(n, m, monkeypatch):
    a, b = logs(n, 1.0, 0), logs(m, 1.0, 1)
    expected = brute_force(a, b)
    weights = torch.randn(expected.shape, dtype=expected.dtype)
    wanted = torch.autograd.grad((expected * weights).sum(), (a, b))
    for way in WAYS:
        found = convolved(monkeypatch, way, a, b)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(torch.autograd.grad((found * weights).sum(), (a, b)), wanted)


@pytest.mark.parametrize("steps", [9.0, 16.0, 36.0, 60.0])
def test_numbers_far_below_the_smallest_float(steps, monkeypatch):
    """exp(-2000) is no float; sums of such numbers still have the right logarithms."""
    slope = -steps * torch.arange(150, dtype=torch.float64)[:, None]
    a = (logs(150, 1.0, 0).detach() + slope).requires_grad_()
    b = (logs(150, 1.0, 1).detach() + slope).requires_grad_()
    expected = brute_force(a, b)
    assert expected.min() < -2500
    wanted = torch.autograd.grad(expected.sum(), (a, b))
    for way in ("direct", "blocked"):
        found = convolved(monkeypatch, way, a, b)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(torch.autograd.grad(found.sum(), (a, b)), wanted)


@pytest.mark.parametrize(("gap", "other"), [(2, 2), (5, 1), (3, 7)])
@pytest.mark.parametrize("step", [9.0, 36.0, 80.0])
def test_numbers_with_impossible_ones_between_them(gap, other, step, monkeypatch):
    """Steps from one possible symbol to the next count, whatever is impossible between them."""
    given = []
    for seed, every in enumerate((gap, other)):
        slope = -step * torch.arange(130, dtype=torch.float64)[:, None]
        steep = logs(130, 1.0, seed).detach() + slope
        steep[torch.arange(130) % every != 0] = ZERO
        given.append(steep.requires_grad_())
    expected = brute_force(*given)
    possible = expected > -1e29
    assert expected[possible].min() < -1000
    wanted = torch.autograd.grad(expected[possible].sum(), given)
    for way in ("direct", "blocked"):
        found = convolved(monkeypatch, way, *given)
        torch.testing.assert_close(found[possible], expected[possible])
        torch.testing.assert_close(torch.autograd.grad(found[possible].sum(), given), wanted)


def test_where_values_are_not_read_blocks_are_smaller(monkeypatch):
    """As on a device that one would have to wait for: the steep case above goes through blocks."""
    monkeypatch.setattr(convolution, "reading_is_free", lambda tensor: False)
    slope = -18.0 * torch.arange(150, dtype=torch.float64)[:, None]
    a, b = (logs(150, 1.0, seed).detach() + slope for seed in (0, 1))
    found = convolved(monkeypatch, "blocked", a, b)
    torch.testing.assert_close(found, brute_force(a, b))


@pytest.mark.parametrize("way", ["direct", "blocked"])
def test_symbols_without_a_derivation(way, monkeypatch):
    """Whole blocks of zeros stay zeros and get no gradient that is not a number."""
    a, b = logs(90, 1.0, 0).detach(), logs(40, 1.0, 1).detach()
    a[:70] = ZERO
    a.requires_grad_()
    found = convolved(monkeypatch, way, a, b)
    assert (found[:70] < -1e29).all()
    torch.testing.assert_close(found[70:], brute_force(a[70:], b))
    (gradient,) = torch.autograd.grad(found[70:].sum(), a)
    assert torch.isfinite(gradient).all()
    assert (gradient[:70] == 0).all()


def test_sums_are_recognised_and_kept_without_index_lists():
    d = dl.Distribution(torch.rand(2, 300).softmax(-1), range(300))
    before = dl.cache_info().plan_weight
    dl.get_probs(dl.apply(d, d, lambda x, y: x + y)).sum()
    plan = next(reversed(caches.plans._entries.values()))
    assert isinstance(plan.combinations, AntiDiagonals)
    assert dl.cache_info().plan_weight - before < 10_000  # not 300 × 300


@pytest.mark.parametrize("function", [max, lambda x, y: x * y, lambda x, y: (x + y) % 7])
def test_other_functions_are_no_convolutions(function):
    d = dl.Distribution(torch.rand(2, 9).softmax(-1), range(9))
    dl.apply(d, d, function)
    plan = next(reversed(caches.plans._entries.values()))
    assert not isinstance(plan.combinations, AntiDiagonals)


@pytest.mark.parametrize("provenance", [dl.TopKProofs(k=2), dl.get_provenance("viterbi")], ids=repr)
def test_provenances_that_cannot_convolve(provenance):
    """A recognised convolution gives the same as the same sums in another order."""
    p = torch.rand(3, 6).softmax(-1)
    q = torch.rand(3, 5).softmax(-1)
    x, y = (dl.Distribution(n, range(n.shape[1]), provenance=provenance) for n in (p, q))
    mixed = dl.Distribution(q.flip(1), range(4, -1, -1), provenance=provenance)
    straight, other = (dl.apply(x, d, lambda a, b: a + b) for d in (y, mixed))
    torch.testing.assert_close(
        dl.get_probs(straight), dl.get_probs(other, symbols=straight.symbols)
    )


def test_confident_and_wrong_still_learns():
    """128 digits, all read as 3, whose sum is given as 1000: unlikely beyond any float."""
    logits = torch.zeros(1, 128, 10)
    logits[..., 3] = 30.0
    logits.requires_grad_()
    digits = [dl.Distribution.from_logits(x, range(10)) for x in logits.unbind(1)]
    loss = dl.nll_loss(dl.reduce(lambda x, y: x + y, digits), [1000])
    assert loss.item() > 1000
    loss.backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
    assert (logits.grad[0, :, 3] > 0).all()  # reading 3 is to become less likely
