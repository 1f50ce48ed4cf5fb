"""Symbols of a class of the user's own: the answer is what Python would say at that moment."""

from __future__ import annotations

import dataclasses
import enum
from typing import NamedTuple

import pytest

import dolphin as dl

level = 1


class Card:
    def __init__(self, n, weight):
        self.n, self.weight = n, weight

    def __eq__(self, other):
        return isinstance(other, Card) and self.n == other.n

    def __hash__(self):
        return hash(self.n)


class Node:
    def __init__(self, weight):
        self.weight = weight


class Slotted:
    __slots__ = ("weight",)

    def __init__(self, weight):
        self.weight = weight


@dataclasses.dataclass(unsafe_hash=True)
class Loose:
    n: int
    weight: int = dataclasses.field(compare=False, default=1)


@dataclasses.dataclass(frozen=True)
class Holding:
    n: int
    parts: list = dataclasses.field(compare=False, default_factory=lambda: [1])


class Listed(NamedTuple):
    n: int
    card: Card


class Number(int):
    pass


def number_of(weight):
    made = Number(3)
    made.weight = weight
    return made


def assign(symbol):
    symbol.weight = 2


MADE = {
    "card": (lambda: Card(3, 1), lambda c: c.weight, assign),
    "node": (lambda: Node(1), lambda c: c.weight, assign),
    "slots": (lambda: Slotted(1), lambda c: c.weight, assign),
    "dataclass": (lambda: Loose(3, 1), lambda c: c.weight, assign),
    "list in a frozen dataclass": (
        lambda: Holding(3), lambda c: c.parts[0], lambda c: c.parts.__setitem__(0, 2)),
    "object in a named tuple": (
        lambda: Listed(3, Card(1, 1)), lambda c: c.card.weight, lambda c: assign(c.card)),
    "object in a tuple": (lambda: (3, Card(1, 1)), lambda c: c[1].weight, lambda c: assign(c[1])),
    "subclass of int": (lambda: number_of(1), lambda c: c.weight, assign),
}  # fmt: skip


@pytest.mark.parametrize("layout", ["shared", "rows", "kept"])
@pytest.mark.parametrize("name", MADE)
def test_a_symbol_that_is_changed_in_place(name, layout):
    make, read, change = MADE[name]
    symbol = make()

    def given():
        if layout == "rows":
            return dl.Distribution.from_rows([([symbol], [0.5]), ([symbol, 1], [0.5, 0.5])])[:1]
        return dl.Distribution([0.5], [symbol])

    before = given()
    for d in (before, given()):
        assert dl.apply(d, read).symbols == (1,)
        assert dl.filter(d, lambda c: read(c) == 1).symbols != ()
    change(symbol)
    d = before if layout == "kept" else given()
    assert dl.apply(d, read).symbols == (2,)
    assert dl.apply(d, d, lambda a, b: read(a) + read(b)).symbols == (4,)
    assert dl.filter(d, lambda c: read(c) == 1).symbols == ()
    assert dl.exists(d, lambda c: read(c) == 1).prob_of([False] * d.batch_size).tolist() == [1.0]
    assert dl.apply_if(d, d, lambda a, b: read(a), on=(read, read)).symbols == (2,)

    @dl.program
    def choosing(d):
        return read(dl.choose(d))

    assert choosing(d).symbols == (2,)


@dataclasses.dataclass(frozen=True)
class Frozen:
    n: int

    def weight(self):
        return level

    def __add__(self, other):
        return self.n + other.n + 10 * level


class Colour(enum.Enum):
    RED = 1

    def weight(self):
        return level


class Pair(NamedTuple):
    n: int

    def weight(self):
        return level


@pytest.mark.parametrize("symbol", [Frozen(3), Colour.RED, Pair(3)], ids=repr)
def test_a_method_of_a_symbol_that_reads_what_changes(symbol, monkeypatch):
    def results():
        d = dl.Distribution([0.5], [symbol])

        @dl.program
        def choosing(d):
            return dl.choose(d).weight()

        mapped = d.map(lambda c: c.weight()).symbols
        asked = dl.total(d, lambda c: c.weight()).symbols
        return mapped, choosing(d).symbols, max(asked)

    assert results() == ((1,), (1,), 1)
    monkeypatch.setitem(globals(), "level", 2)
    assert results() == ((2,), (2,), 2)


def test_an_operator_of_a_symbol_that_reads_what_changes(monkeypatch):
    d = dl.Distribution([0.5], [Frozen(3)])
    assert (d + d).symbols == (16,)
    monkeypatch.setitem(globals(), "level", 2)
    assert (d + d).symbols == (26,)


def test_plain_and_frozen_symbols_are_remembered():
    calls = []

    def read(symbol):
        calls.append(symbol)
        return str(symbol)

    for symbol in (1, "a", (1, (2, "b")), Colour.RED, Pair(3), Frozen(3), frozenset({1})):
        calls.clear()
        for _ in range(2):
            dl.Distribution([0.5], [symbol]).map(read)
        assert len(calls) == 1, symbol


def test_a_class_that_is_declared_pure_is_remembered():
    @dl.pure
    class Trusted(Node):
        pass

    calls, symbol = [], Trusted(1)

    def read(symbol):
        calls.append(symbol)
        return 0

    for _ in range(2):
        dl.Distribution([0.5], [symbol]).map(read)
    assert len(calls) == 1


def test_what_is_not_remembered_is_said():
    dl.cache_clear()
    dl.Distribution([0.5], [Node(1)]).map(lambda c: c.weight)
    (noted,) = dl.cache_info().not_remembered
    assert "symbols of the class Node, which may change" in noted.reason


class Link(NamedTuple):
    a: int
    b: int

    def end(self):
        return self.b * level

    def joined(self, other):
        return Link(self.a, other.b * level)


def in_rows(symbols):
    return dl.Distribution.from_rows([(symbols, [0.5] * len(symbols))] * 2, exclusive=False)


def shared(symbols):
    return dl.Distribution([0.5] * len(symbols), symbols, exclusive=False)


@pytest.mark.parametrize("layout", [shared, in_rows])
def test_symbols_of_named_tuples_are_joined_once_and_again_when_their_class_changes(
    layout, monkeypatch
):
    calls = []
    log = calls.append

    def joined(one, other):
        log(one)
        return one.joined(other)

    links = [Link(0, 1), Link(1, 3), Link(2, 5)]

    def results():
        d = layout(links)
        keys = lambda one: one.end(), lambda other: other.a
        return dl.apply_if(d, d, joined, on=keys).symbols

    assert results() == results() == (Link(0, 3),)
    assert len(calls) == 1
    monkeypatch.setitem(globals(), "level", 2)  # both the keys and the results read it
    assert results() == (Link(0, 10),)
    monkeypatch.setattr(Link, "end", lambda one: one.b)
    assert results() == (Link(0, 6),)


def test_recursions_over_named_tuples_of_rows_follow_their_class(monkeypatch):
    links = [Link(0, 1), Link(1, 2), Link(2, 3)]

    def results():
        start = in_rows(links)

        def longer(found):
            keys = lambda one: one.b, lambda other: other.a
            more = dl.apply_if(found, start, lambda one, other: one.joined(other), on=keys)
            return dl.union(start, more)

        return set(dl.fixpoint(longer, start).symbols)

    paths = {*links, Link(0, 2), Link(1, 3), Link(0, 3)}
    assert results() == results() == results() == paths
    monkeypatch.setattr(Link, "joined", lambda one, other: Link(one.a, -other.b))
    assert results() == {*links, Link(0, -2), Link(1, -3)}
