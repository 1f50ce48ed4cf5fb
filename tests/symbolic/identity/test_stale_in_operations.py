# ruff: noqa: E501 (a line per operation)
"""Every place that takes a user function notices that what it reads has changed."""

from __future__ import annotations

import html
import html.entities

import pytest
import torch

import dolphin as dl

PROBS = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]])
ROWS = [([1, 2, 3], [0.5, 0.3, 0.2]), ([1, 2], [0.4, 0.6])]
LAYOUTS = {
    "shared": lambda: dl.Distribution(PROBS, [1, 2, 3]),
    "rows": lambda: dl.Distribution.from_rows(ROWS),
}
NUMBERS = [1]
TENSOR = torch.tensor([1])
READERS = {
    "list": (lambda: NUMBERS[0], lambda: NUMBERS.__setitem__(0, 2)),
    "table": (
        lambda: len(html.unescape("&lt;")),
        lambda: html.entities.html5.__setitem__("lt;", "<<"),
    ),
    "tensor": (lambda: int(TENSOR[0]), lambda: TENSOR.fill_(2)),
}

# Of a distribution and a function that gives 1 at first, and then 2.
OPERATIONS = {
    "map": lambda d, k: d.map(lambda x: x * 10 + k()),
    "three operands": lambda d, k: dl.apply(d, d, d, lambda x, y, z: x * y + z * k()),
    "rows": lambda d, k: dl.apply(d, d, lambda x, y: x * y + k(), where=torch.tensor([True, False])),
    "condition": lambda d, k: dl.apply_if(d, d, lambda x, y: x + y, lambda x, y: x + y > k() + 1),
    "keys": lambda d, k: dl.apply_if(
        d, d, lambda x, y: (x, y), on=(lambda x: x % (k() + 1), lambda y: y % 2)
    ),
    "filter": lambda d, k: dl.filter(d, lambda x: x > k()),
    "reduce": lambda d, k: dl.reduce(lambda x, y: x + y * k(), [d, d, d]),
    "exists": lambda d, k: dl.exists(d, lambda x: x > k()),
    "count by": lambda d, k: dl.count(d, by=lambda x: x % (k() + 1)),
    "total": lambda d, k: dl.total(d, lambda x: x * k()),
    "maximum": lambda d, k: dl.maximum(d, key=lambda x: -x if k() > 1 else x),
    "weighted": lambda d, k: d.map(lambda x: dl.weighted({x: k() / 4, 0: 1 - k() / 4})),
    "match": lambda d, k: d.prob_of([1, 1], match=lambda s, t: s == t + k() - 1),
    "loss": lambda d, k: dl.nll_loss(d, [1, 1], match=lambda s, t: s == t + k() - 1),
    "expected": lambda d, k: dl.expected(d, lambda x: x * k()),
    "fixpoint": lambda d, k: dl.fixpoint(
        lambda e: dl.union(e, e.map(lambda x: min(x + k(), 6))), d
    ),
    "rounds": lambda d, k: dl.fixpoint(lambda e: e.map(lambda x: min(x + k(), 9)), d, rounds=2),
    "where": lambda d, k: dl.where(d.map(lambda x: x > k()), d, d.map(lambda x: -x)),
    "batched": lambda d, k: dl.batched(lambda e: e.map(lambda x: x + k()))(d),
    "program": lambda d, k: dl.program(lambda e: dl.choose(e) + k())(d),
    "keep": lambda d, k: dl.program(keep=2)(lambda e: dl.choose(e) + k())(d),
    "inside a program": lambda d, k: dl.program(lambda e: dl.choose(e.map(lambda x: x * k())) + 1)(d),
}  # fmt: skip


def told(result):
    if isinstance(result, torch.Tensor):
        return result.tolist()
    return [result.row(number) for number in range(result.batch_size)]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_change_is_noticed(name, layout, reader, monkeypatch):
    monkeypatch.setitem(html.entities.html5, "lt;", "<")
    monkeypatch.setattr(f"{__name__}.NUMBERS", [1])
    monkeypatch.setattr(f"{__name__}.TENSOR", torch.tensor([1]))
    k, change = READERS[reader]

    def answer():
        return told(OPERATIONS[name](LAYOUTS[layout](), k))

    before = answer()
    assert answer() == before
    change()
    after = [answer(), answer()]
    dl.cache_clear()
    assert after == [answer()] * 2 != [before] * 2
