"""Work done in chunks gives the same values and gradients as work done at once."""

from __future__ import annotations

import operator

import pytest
import torch

import dolphin as dl

PROVENANCES = [
    dl.DAMP(),
    dl.TopKProofs(k=2),
    dl.TopKProofs(k=2, wmc="exact"),
    dl.get_provenance("viterbi"),
]
EDGES = [(x, y) for x in range(5) for y in range(5) if x != y]


def product(provenance, p):
    x, y = (dl.Distribution(q, range(10), provenance=provenance) for q in p[..., :10])
    return dl.apply(x, y, operator.mul)


def two_steps(provenance, p):
    """Facts that are shared between operands, joined on a key."""
    edges = dl.Distribution(p[0], EDGES, exclusive=False, provenance=provenance)
    return dl.apply_if(edges, edges, lambda a, b: (a[0], b[1]), on=(lambda a: a[1], lambda b: b[0]))


def difference_by_rows(provenance, p):
    x, y = (dl.Distribution(q, range(10), provenance=provenance) for q in p[..., :10])
    return dl.apply(dl.sample(x, 7), dl.sample(y, 7), lambda a, b: abs(a - b))


@pytest.mark.parametrize("chunk", [1, 40, 500])
@pytest.mark.parametrize("provenance", PROVENANCES, ids=repr)
@pytest.mark.parametrize("program", [product, two_steps, difference_by_rows])
def test_chunks_change_nothing(program, provenance, chunk):
    generator = torch.Generator().manual_seed(3)
    p = torch.rand(2, 4, 20, generator=generator, dtype=torch.float64) / 12
    p.requires_grad_()
    found = []
    for settings in ({}, {"chunk_elements": chunk}):
        with dl.settings(**settings):
            probs = dl.get_probs(program(provenance, p))
            found.append((probs, *torch.autograd.grad(probs.square().sum(), p)))
    torch.testing.assert_close(found[1], found[0])
    assert found[0][1].abs().max() > 0
