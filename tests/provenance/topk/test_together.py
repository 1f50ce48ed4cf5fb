"""Negation where values can't be read: all groups are weighed at once, with the same results."""

from __future__ import annotations

import operator
import sys

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import dolphin as dl


class Counted(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.operations = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.operations += 1
        return func(*args, **(kwargs or {}))


def exclusive(rows, columns):
    return torch.rand(rows, columns, dtype=torch.float64).softmax(1) * 0.9


def digits(rows, provenance):
    """Complete, incomplete, and so many columns that one digit can't tell them apart."""
    sizes = {"a": 3, "b": 3, "c": 5, "d": 70}
    xs = [exclusive(rows, n).requires_grad_() for n in sizes.values()]
    a, b, c, d = (dl.Distribution(x, range(x.shape[1]), provenance=provenance) for x in xs)
    low = dl.apply_if(a, b, c, lambda x, y, z: (x + y + z) % 3, lambda x, y, z: z != x)
    return xs, dl.apply(low, d.map(lambda x: x % 2), lambda x, y: (x, y))


def groups(rows, provenance):
    """Exclusive groups of two sizes next to a fact of its own, and independent facts."""
    mixed = torch.cat([exclusive(rows, 3), exclusive(rows, 3), exclusive(rows, 1)], 1)
    xs = [mixed.requires_grad_(), torch.rand(rows, 4, dtype=torch.float64, requires_grad=True)]
    parts = [[0, 1, 2], [3, 4, 5], [6]]
    x = dl.Distribution(xs[0], range(7), exclusive=parts, provenance=provenance)
    y = dl.Distribution(xs[1], range(4), exclusive=False, provenance=provenance)
    return xs, dl.apply(x, y, lambda i, j: (i + j) % 4)


def own_symbols(rows, provenance):
    """Symbols of each row's own, where rows are flattened."""
    xs, made = digits(rows, provenance)
    kept = dl.sample(made, 3)
    return xs, kept.map(operator.itemgetter(0))


@pytest.mark.parametrize("provenance", ["dtkp-am", "dtkp-wmc"])
@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("program", [digits, groups, own_symbols])
def test_all_groups_at_once_as_one_by_one(program, rows, provenance, monkeypatch):
    def run():
        torch.manual_seed(rows)
        xs, made = program(rows, provenance)
        denied = dl.negate(dl.negate(made))
        symbols = sorted({s for row in denied.rows() for s in row.symbols})
        probs = dl.union(denied, dl.negate(made)).probs(symbols)
        probs.log1p().sum().backward()
        return probs.detach(), *(x.grad for x in xs)

    one_by_one = run()
    for name in [name for name in sys.modules if name.startswith("dolphin.provenance.topk")]:
        if hasattr(sys.modules[name], "reading_is_free"):
            monkeypatch.setattr(sys.modules[name], "reading_is_free", lambda tensor: False)
    for found, wanted in zip(run(), one_by_one, strict=True):
        torch.testing.assert_close(found, wanted)


def test_more_inputs_take_hardly_more_operations():
    """On a device, where each is a launch."""

    def launched(inputs):
        xs = [torch.rand(4, 3).softmax(1).to("meta") for _ in range(inputs)]
        ds = [dl.Distribution(x, range(3), provenance="dtkp-am") for x in xs]
        total = dl.apply(*ds, lambda *symbols: max(symbols))
        with Counted() as counted:
            dl.negate(total)
        return counted.operations

    assert launched(8) < 1.2 * launched(4)
