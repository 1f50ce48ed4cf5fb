"""A hundred ways to change what a function reads behind its back: the second answer is right.

Each trick makes a function and a way to change its hidden state. Whether the function is
remembered doesn't matter here; that its result is what Python would say does.
"""

from __future__ import annotations

import collections
import contextvars
import dataclasses
import enum
import functools
import itertools
import operator
import types
from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
import pytest
import torch

import dolphin as dl

# -- ordinary functions, which are called once -----------------------------------------------------


class Direction(enum.Enum):
    LEFT = -1
    RIGHT = 1

    def turned(self):
        return Direction(-self.value)


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: int = 0

    def moved(self, by):
        return Point(self.x + by, self.y)


class Pair(NamedTuple):
    left: int
    right: int


class Shape(ABC):
    @abstractmethod
    def area(self): ...


class Square(Shape):
    def __init__(self, side):
        self.side = side

    def area(self):
        return self.side**2


class Settings:
    def __init__(self):
        self.offset = 3
        self.table = {0: "a", 1: "b"}
        self.inner = types.SimpleNamespace(depth=2)

    def shift(self, s):
        return s + self.offset

    @property
    def double(self):
        return 2 * self.offset


STEPS = {"up": 1, "down": -1}
ORIGIN = Point(1, 2)


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


@functools.cache
def memoised(n):
    return n if n < 2 else memoised(n - 1) + memoised(n - 2)


def helper(s):
    return s + STEPS["up"]


def ordinary():
    import fractions
    import json
    import math
    import re

    offset, table, pair = 3, {0: "x", 1: "y"}, (1, 2)
    settings = Settings()
    log = []
    pattern = re.compile("a+")
    first = operator.itemgetter(0)

    def logged(s):
        log.append(s)
        return s

    return {
        "lambda": lambda s: s + 1,
        "closure over an int": lambda s: s + offset,
        "closure over a dict": lambda s: table[s],
        "closure over a tuple": lambda s: s + pair[1],
        "helper": lambda s: helper(s),
        "attribute": lambda s: s + settings.offset,
        "attribute of an attribute": lambda s: s + settings.inner.depth,
        "dict of an object": lambda s: settings.table[s],
        "method": lambda s: settings.shift(s),
        "bound method": settings.shift,
        "property": lambda s: s + settings.double,
        "math": lambda s: math.floor(s + 0.5),
        "math itself": math.sqrt,
        "operator": operator.neg,
        "itertools": lambda s: tuple(itertools.repeat(s, 2)),
        "re": lambda s: re.sub("a", "b", f"a{s}"),
        "pattern": lambda s: bool(pattern.match(f"a{s}")),
        "fractions": lambda s: fractions.Fraction(s, 3),
        "json": lambda s: json.dumps([s]),
        "collections": lambda s: tuple(collections.Counter([s]).items()),
        "functools": lambda s: functools.reduce(operator.add, [s, 1]),
        "dataclass": lambda s: Point(s),
        "method of a dataclass": lambda s: Point(s).moved(1),
        "dataclass constant": lambda s: ORIGIN.moved(s),
        "named tuple": lambda s: Pair(s, s),
        "class": lambda s: Square(s).area(),
        "enum": lambda s: Direction.LEFT if s else Direction.RIGHT,
        "enum method": lambda s: Direction.LEFT.turned() if s else Direction.RIGHT,
        "recursion": fibonacci,
        "lru_cache": memoised,
        "partial": functools.partial(pow, 2),
        "constructor": str,
        "named tuple itself": functools.partial(Pair, 1),
        "table method": table.get,
        "comprehension": lambda s: sum(x + offset for x in range(s)),
        "nested function": lambda s: (lambda y: y + offset)(s),
        "default": lambda s, table=table: table[s],
        "itemgetter": lambda s: first((s, 1)),
        "sorted": lambda s: tuple(sorted([s, 1], key=lambda x: -x)),
        "print": lambda s: (print(end=""), s)[1],
        "isinstance": lambda s: isinstance(s, int) and s > 0,
        "raise": lambda s: s if s < 5 else (_ for _ in ()).throw(ValueError("large")),
        "logged": logged,
        "numpy": lambda s: int(np.sum([s, 1])),
        "import inside": imports_inside,
        "context variable": lambda s: s + context.get(),
    }


def imports_inside(s):
    import math
    from math import floor

    return floor(math.sqrt(s))


context = contextvars.ContextVar("context", default=1)


@pytest.mark.parametrize("name", ordinary())
def test_ordinary_functions_are_called_once(name):
    dl.cache_clear()
    calls = []
    for step in range(3):
        with dl.profile() as seen:
            dl.Distribution(torch.rand(2, 2).softmax(1), [0, 1]).map(ordinary()[name])
            rows = [([0, 1], [0.5, 0.5])] * (step + 1)
            dl.Distribution.from_rows(rows).map(ordinary()[name])
        calls.append(seen.total.function_calls)
    assert calls == [2, 0, 0], dl.cache_info().not_remembered
    assert dl.cache_info().not_remembered == ()
