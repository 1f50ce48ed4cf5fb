"""What depends on where objects are in memory differs from call to call, and is not remembered."""

from __future__ import annotations

import collections
import dataclasses

import pytest

import dolphin as dl


class Node:
    def __init__(self, number):
        self.number = number


class Chained:
    def __init__(self, start):
        self.number, self.seen = start, set()

    def step(self):
        self.seen.add(self.number)
        return self


class Parser:
    def __init__(self, text):
        self.text, self.seen = text, set()

    def parse(self):
        self.seen.add(self.text)
        return f"{self.text}: {len(self.seen)}"


@dataclasses.dataclass(frozen=True)
class Leaf(Node):
    number: int


def kept_parser(x):
    parser = Parser(x)
    return parser.parse()


def grouped(x):
    groups = collections.defaultdict(set)
    groups[x].add(1)
    return len(groups)


BY_ADDRESS = {
    "text of an object": lambda x: repr(object()),
    "text of a user's object": lambda x: str(Node(x)),
    "text inside a tuple": lambda x: (x, (f"{Node(x)}",)),
    "text of a function": lambda x: str(lambda: x),
    "length of a text": lambda x: len(repr(object())),
    "end of a formatted text": lambda x: f"{Node(x)}"[-4:-1],
    "part of an old-fashioned text": lambda x: ("%s" % Node(x))[-4:-1],  # noqa: UP031
    "part of a text by a method": lambda x: "{}".format(Node(x))[-4:-1],  # noqa: UP032
    "text of a generator": lambda x: "%s" % (y for y in [x]),
    "hash of an object": lambda x: hash(object()),
    "hash of a user's object": lambda x: hash(Node(x)) % 10_000,
    "hash of a function": lambda x: hash(lambda: x),
    "order of a set": lambda x: tuple(n.number for n in {Node(x), Node(1), Node(2)}),
    "order of a set made by name": lambda x: next(n.number for n in set(map(Node, range(9)))),
    "object that passes itself on": lambda x: next(c.number for c in {Chained(x).step()}),
    "order of a set of iterators": lambda x: next(next(z)[0] for z in {zip([x]), zip([1])}),
    "place in memory": lambda x: id(object()),
}
BY_CONTENT = {
    "hash of a symbol": lambda x: hash(x),
    "set of symbols": lambda x: len({x, 1, 2}),
    "set inside an object": lambda x: Parser(x).parse(),
    "object in a variable": kept_parser,
    "frozen dataclass in a set": lambda x: next(leaf.number for leaf in {Leaf(x)}),
    "class that is only compared": lambda x: len({x}) if isinstance(x, (int, Node)) else 0,
    "set of a library": grouped,
    "set of columns": lambda x: tuple(frozenset(column) for column in zip((x, 1), strict=True)),
    "set of pairs": lambda x: len(set(zip((x, 1), (2, 3), strict=True))),
    "sorted pairs": lambda x: len({*sorted(enumerate((x, 1)), key=lambda pair: pair[1])}),
    "texts of symbols": lambda x: "".join(map(str, (x, 1))),
    "text of an attribute": lambda x: f"{Node(x).number}",
    "text of a frozen dataclass": lambda x: str(Leaf(x)),
    "remainder": lambda x: Node(x).number % 3,
    "key function": lambda x: max({x, 1, 2}, key=lambda y: -y),
}


def run(function, how):
    d = dl.Distribution([0.5, 0.5], [0, 1])
    if how == "program":
        dl.program(lambda d: function(dl.choose(d)))(d)
    elif how == "rows":
        dl.Distribution.from_rows([([0, 1], [0.5, 0.5])]).map(function)
    else:
        d.map(function)


def runs_again(function, how):
    dl.cache_clear()
    run(function, how)
    with dl.profile() as seen:
        run(function, how)
    return seen.total.function_calls > 0


@pytest.mark.parametrize("how", ["shared", "rows", "program"])
@pytest.mark.parametrize("name", BY_ADDRESS)
def test_what_depends_on_addresses_is_not_remembered(name, how):
    assert runs_again(BY_ADDRESS[name], how)


@pytest.mark.parametrize("how", ["shared", "rows", "program"])
@pytest.mark.parametrize("name", BY_CONTENT)
def test_what_depends_on_contents_is_remembered(name, how):
    assert not runs_again(BY_CONTENT[name], how)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("text of a function", "which contains an address"),
        ("text of an object", "makes texts, and objects (object) whose text contains their addr"),
        ("hash of an object", "makes objects (object) whose hash is their address"),
        ("order of a set", "fills sets, and makes objects (Node)"),
    ],
)
def test_the_reason_is_told(name, reason):
    run(BY_ADDRESS[name], "shared")
    assert reason in dl.cache_info().not_remembered[-1].reason
