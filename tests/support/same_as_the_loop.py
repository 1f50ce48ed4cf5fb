"""A batched program against a loop over its samples and `stack`."""

from __future__ import annotations

import torch

import dolphin as dl


def weights(shape, dtype):
    return torch.linspace(0.5, 1.5, shape.numel(), dtype=dtype).view(shape)


def gradients(result, leaves):
    probs = result.probs(sorted(result.symbols)) if len(result) else None
    if probs is None or not probs.requires_grad:
        return probs, [torch.zeros_like(leaf) for leaf in leaves]
    loss = (probs * weights(probs.shape, probs.dtype)).sum()
    found = torch.autograd.grad(loss, leaves, allow_unused=True, retain_graph=True)
    found = [torch.zeros_like(x) if g is None else g for g, x in zip(found, leaves, strict=True)]
    return probs, found


def assert_same_as_the_loop(program, arguments, leaves, rtol, **options):
    expected = dl.Distribution.stack(
        [program(*each, **options) for each in zip(*arguments, strict=True)]
    )
    found = dl.batched(program)(*arguments, **options)
    assert found.batch_size == len(arguments[0])
    assert set(found.symbols) == set(expected.symbols)
    for row in range(found.batch_size):
        assert found[row].symbols == expected[row].symbols
    probs, grads = gradients(found, leaves)
    wanted, wanted_grads = gradients(expected, leaves)
    assert probs.dtype == wanted.dtype
    torch.testing.assert_close(probs, wanted, rtol=rtol, atol=rtol)
    for own, other in zip(grads, wanted_grads, strict=True):
        torch.testing.assert_close(own, other, rtol=10 * rtol, atol=10 * rtol)
