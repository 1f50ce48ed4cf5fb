"""Counts under `exact`: n facts cost n², by circuits that are read off the fold."""

from __future__ import annotations

import pytest
import torch

import dolphin as dl
from dolphin.provenance import Exact
from dolphin.provenance.exact import compiling


def totals(probs: torch.Tensor, values: list[int]) -> torch.Tensor:
    """(B, sum of values + 1): the distribution of the sum, fact by fact."""
    states = torch.ones_like(probs[:, :1])
    for p, value in zip(probs.split(1, 1), values, strict=True):
        pad = torch.nn.functional.pad
        states = pad(states * (1 - p), (0, value)) + pad(states * p, (value, 0))
    return states


def check(found: torch.Tensor, wanted: torch.Tensor, given: torch.Tensor) -> None:
    torch.testing.assert_close(found, wanted, atol=1e-12, rtol=1e-9)
    weights = torch.rand_like(wanted)
    grads = [torch.autograd.grad((weights * each).sum(), given)[0] for each in (found, wanted)]
    torch.testing.assert_close(*grads, atol=1e-10, rtol=1e-7)


def facts(n: int) -> tuple[torch.Tensor, dl.Distribution]:
    p = torch.rand(2, n, dtype=torch.float64, generator=torch.Generator().manual_seed(n))
    p[0, 0], p[0, 1] = 0.0, 1.0
    p.requires_grad_()
    return p, dl.Distribution(p, range(n), exclusive=False, provenance=Exact())


def test_how_many_of_200():
    p, d = facts(200)
    check(dl.get_probs(dl.count(d), symbols=range(201)), totals(p, [1] * 200), p)
    circuit = compiling._circuits.values()[-1]
    assert circuit.pairs < 2 * 200**2


def test_totals_and_groups():
    p, d = facts(60)
    found = dl.get_probs(dl.total(d, lambda s: s % 3), symbols=range(61))
    check(found, totals(p, [s % 3 for s in range(60)])[:, :61], p)
    by = dl.count(d, lambda s: s % 4 > 0, by=lambda s: s % 2)
    chosen = [s for s in range(60) if s % 4 > 0]
    for key in (0, 1):
        own = [s for s in chosen if s % 2 == key]
        symbols = [(key, k) for k in range(len(own) + 1)]
        check(dl.get_probs(by, symbols=symbols), totals(p[:, own], [1] * len(own)), p)


def test_exclusive_groups_and_events():
    """What is counted may exclude each other, and may have been made of common facts."""
    p = torch.tensor([[0.2, 0.5, 0.4, 0.3, 0.9]], dtype=torch.float64, requires_grad=True)
    d = dl.Distribution(p, "abcde", exclusive=[[0, 1], [2, 3]], provenance=Exact())
    ab, cd, e = p[:, :2].sum(1), p[:, 2:4].sum(1), p[:, 4]
    check(
        dl.get_probs(dl.count(d), symbols=range(4)),
        totals(torch.stack([ab, cd, e], 1), [1] * 3),
        p,
    )
    pairs = dl.apply_if(d, d, lambda x, y: x + y, lambda x, y: x < y)
    # ac, ad, bc, bd, ae, be, ce, de: none, one or three of them hold.
    found = dl.get_probs(dl.count(pairs), symbols=[0, 1, 2, 3])
    two = [ab * cd * (1 - e), ab * (1 - cd) * e, (1 - ab) * cd * e]
    three = ab * cd * e
    nothing = torch.zeros_like(e)
    one = two[0] + two[1] + two[2]
    check(found, torch.stack([1 - one - three, one, nothing, three], 1), p)


@pytest.mark.parametrize("question", [dl.exists, dl.maximum, dl.minimum])
def test_other_questions_about_200(question):
    p, d = facts(200)
    found = dl.get_probs(question(d))
    torch.testing.assert_close(found.sum(1), torch.ones(2).double())
    none = (1 - p).prod(1)
    last = dl.get_probs(question(d), symbols=[False if question is dl.exists else None])
    check(last[:, 0], none, p)
