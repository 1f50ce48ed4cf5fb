"""`pure` settles what Dolphin can't see; what is not remembered is said, with the reason."""

from __future__ import annotations

import gc

import pytest
import torch

import dolphin as dl
from dolphin.symbolic.identity import purity


def calls(make, steps=3):
    """How often the function of each step ran."""
    counts = []
    for _ in range(steps):
        with dl.profile() as seen:
            dl.Distribution(torch.rand(2, 2).softmax(1), [0, 1]).map(make())
        counts.append(seen.total.function_calls)
    return counts


class Rules:
    def __init__(self):
        self.table = {0: "a", 1: "b"}

    def __getitem__(self, s):
        return self.table[s]

    def __call__(self, s):
        return self.table[s]


@dl.pure
class PureRules(Rules):
    pass


PURE = {
    "function": lambda: (rules := Rules(), dl.pure(lambda s: rules[s]))[1],
    "object": lambda: (rules := dl.pure(Rules()), lambda s: rules[s])[1],
    "called object": lambda: (rules := dl.pure(Rules()), lambda s: rules(s))[1],
    "object itself": lambda: dl.pure(Rules()),
    "class": lambda: (rules := PureRules(), lambda s: rules[s])[1],
    "object of the class": lambda: PureRules(),
}


@pytest.mark.parametrize("name", PURE)
def test_pure_things_are_remembered(name):
    dl.cache_clear()
    function = PURE[name]()
    assert calls(lambda: function) == [2, 0, 0]
    assert dl.cache_info().not_remembered == ()


def test_pure_functions_defined_again_and_again():
    rules = Rules()

    def forward(offset):
        @dl.pure
        def look(s):
            return rules[s] * offset

        return look

    dl.cache_clear()
    assert calls(lambda: forward(1)) == [2, 0, 0]
    assert calls(lambda: forward(2)) == [2, 0, 0]
    other = Rules()
    other.table = {0: "x", 1: "y"}
    d = dl.Distribution([0.5, 0.5], [0, 1])
    for held in (rules, other):
        assert d.map(dl.pure(lambda s, held=held: held[s])).symbols == tuple(held.table.values())


def test_pure_is_for_the_thing_alone():
    rules = Rules()
    dl.pure(Rules())
    dl.cache_clear()
    assert calls(lambda: lambda s: rules[s]) == [2, 2, 2]


def test_pure_and_cache_off():
    d = dl.Distribution([0.5, 0.5], [0, 1])
    function = dl.pure(lambda s: s)
    for _ in range(2):
        with dl.profile() as seen:
            d.map(function, cache=False)
        assert seen.total.function_calls == 2


def test_pure_forgets_what_is_gone():
    for _ in range(100):
        dl.pure(lambda s: s)
    gc.collect()
    before = len(purity._declared)
    kept = [dl.pure(lambda s: s) for _ in range(5)]
    assert len(purity._declared) == before + 5
    del kept
    gc.collect()
    assert len(purity._declared) == before


def test_what_cannot_be_marked():
    with pytest.raises(dl.InputError, match="pure"):
        dl.pure(3)


def test_what_is_not_remembered_is_said_with_the_reason():
    dl.cache_clear()
    box = Rules()

    def look(s):
        return box[s]

    with dl.profile() as seen:
        dl.Distribution([0.5, 0.5], [0, 1]).map(look)
    (noted,) = dl.cache_info().not_remembered
    assert noted.name == "look"
    assert "closes over `box`, a Rules" in noted.reason
    assert noted.reason in str(seen)
    assert noted.reason in seen.entries[0].not_remembered
    dl.cache_clear()
    assert dl.cache_info().not_remembered == ()


def test_functions_that_change_what_they_read_are_noted():
    dl.cache_clear()
    seen = []

    def count(s):
        seen.append(s)
        return len(seen)

    for layout in (
        dl.Distribution([0.5, 0.5], [0, 1]),
        dl.Distribution.from_rows([([0, 1], [0.5, 0.5])]),
    ):
        layout.map(count)
    assert {noted.reason for noted in dl.cache_info().not_remembered} == {"changes what it reads"}


def test_notes_are_bounded():
    for n in range(300):
        scope = {}
        exec(f"box = object()\ndef f{n}(s): return (s, str(box))[0]", scope)
        dl.Distribution([0.5, 0.5], [0, 1]).map(scope[f"f{n}"])
    assert len(dl.cache_info().not_remembered) <= 100
