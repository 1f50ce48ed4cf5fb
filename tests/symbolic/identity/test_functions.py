"""A cache that lies is worse than none: whatever a function reads may change between two calls."""

from __future__ import annotations

import collections
import contextvars
import functools
import math
import operator
import types

import numpy as np
import pytest
import torch

import dolphin as dl
from dolphin.symbolic.identity.functions import fingerprint, lasting


def dist(symbols=(0, 1, 2), provenance=None):
    symbols = list(symbols)
    probs = torch.rand(2, len(symbols)).softmax(dim=1)
    return dl.Distribution(probs, symbols, provenance=provenance)


def results(f, symbols=(0, 1, 2)):
    """The symbols of apply(d, f), which must be what f says right now."""
    found = list(dl.apply(dist(symbols), f).symbols)
    assert found == list(dict.fromkeys(f(s) for s in symbols)), "the cache lied"
    return found


@pytest.mark.parametrize(
    "values",
    [
        (1, 2, 1),
        (1, 1.0, True, 1),
        (0.0, -0.0, 0.0),
        (math.nan, 1.0, math.nan),
        ("a", "b", "a"),
        (b"a", b"b"),
        (None, 0, False),
        ((1, 2), (1, 3), [1, 2]),
        ((1,), (True,), (1.0,)),
        ({"a": 1}, {"a": 2}, {"b": 1}),
        ({1, 2}, {1, 3}, frozenset({1, 2})),
        (np.array([1, 2]), np.array([1, 3]), np.array([1.0, 2.0])),
        (range(3), range(4)),
        (math.sin, math.cos),
        (int, str),
        (collections.Counter("a"), collections.Counter("ab")),
    ],
    ids=lambda values: type(values[0]).__name__ + str(len(values)),
)
def test_closures_over_other_values(values):
    for value in values:
        results(lambda x, value=value: f"{x} {value!r}")

        def closing(value=value):
            return lambda x: f"{x} {value!r}"

        results(closing())


CONTAINERS = {
    "list": ([1], lambda c: c.append(2)),
    "dict": ({1: "a"}, lambda c: c.update({1: "b"})),
    "set": ({1}, lambda c: c.add(2)),
    "nested": ({"a": [1, {2}]}, lambda c: c["a"][1].add(3)),
    "bytearray": (bytearray(b"a"), lambda c: c.extend(b"b")),
    "array": (np.zeros(3), lambda c: c.__setitem__(0, 1.0)),
    "large array": (np.zeros(10_000), lambda c: c.__setitem__(9_999, 1.0)),
    "large list": ([0] * 100_000, lambda c: c.__setitem__(99_999, 1)),
    "tensor": (torch.zeros(3), lambda c: c.add_(1)),
    "deque": (collections.deque([1]), lambda c: c.append(2)),
    "defaultdict": (collections.defaultdict(int), lambda c: c.update({1: 2})),
    "OrderedDict": (collections.OrderedDict(a=1), lambda c: c.update(a=2)),
    "Counter": (collections.Counter("a"), lambda c: c.update("b")),
    "namespace": (types.SimpleNamespace(a=1), lambda c: setattr(c, "a", 2)),
}


@pytest.mark.parametrize(("container", "change"), CONTAINERS.values(), ids=CONTAINERS.keys())
def test_containers_changed_in_place(container, change):
    def summary(x):
        if isinstance(container, types.SimpleNamespace):
            return (x, container.a)
        if isinstance(container, (np.ndarray, torch.Tensor)):
            return (x, float(container.sum()))
        return (x, len(container), str(container)[-50:])

    before = results(summary)
    change(container)
    assert results(summary) != before


@pytest.mark.parametrize("how", ["item", "get", "held method", "closed-over method", "default"])
def test_lookup_tables_changed_in_place(how):
    """The usual shape of it: a rule table that is extended between two runs."""
    table = {0: "zero", 1: "one", 2: "two"}
    lookup = table.get
    f = {
        "item": lambda x: table[x],
        "get": table.get,
        "held method": lookup,
        "closed-over method": lambda x: lookup(x),
        "default": lambda x, table=table: table[x],
    }[how]
    assert results(f) == ["zero", "one", "two"]
    table[1] = "uno"
    assert results(f) == ["zero", "uno", "two"]


MAPPINGS = [
    dict, collections.OrderedDict, collections.Counter, collections.ChainMap, collections.UserDict,
    lambda items: collections.defaultdict(int, items), lambda items: types.MappingProxyType(items),
]  # fmt: skip


@pytest.mark.parametrize("make", MAPPINGS)
def test_any_kind_of_mapping(make):
    items = {0: 0, 1: 1, 2: 2}
    table = make(items)

    def look(x):
        return table[x]

    assert results(look) == [0, 1, 2]
    items[1] = 10  # what a proxy and a ChainMap show
    if not isinstance(table, types.MappingProxyType):
        table[1] = 10
    assert results(look) == [0, 10, 2]


def test_defaults():
    def make(n):
        def shifted(x, by=n, *, twice=False):
            return x + by * (2 if twice else 1)

        return shifted

    assert results(make(1)) == [1, 2, 3]
    assert results(make(5)) == [5, 6, 7]
    f = make(1)
    assert results(f) == [1, 2, 3]
    f.__defaults__ = (7,)
    assert results(f) == [7, 8, 9]
    f.__kwdefaults__ = {"twice": True}
    assert results(f) == [14, 15, 16]


OFFSET = 0
SETTINGS = {"offset": 0}


def shift_by_global(x):
    return x + OFFSET


def calls_a_helper(x):
    return shift_by_global(x)


def calls_two_deep(x):
    return calls_a_helper(x) + SETTINGS["offset"]


@pytest.mark.parametrize(
    "f", [shift_by_global, calls_a_helper, calls_two_deep, lambda x: calls_two_deep(x)]
)
def test_globals_that_change(f, monkeypatch):
    assert results(f) == [0, 1, 2]
    monkeypatch.setitem(globals(), "OFFSET", 10)
    assert results(f) == [10, 11, 12]


def test_contents_of_globals_that_change(monkeypatch):
    assert results(calls_two_deep) == [0, 1, 2]
    monkeypatch.setitem(SETTINGS, "offset", 100)
    assert results(calls_two_deep) == [100, 101, 102]


def test_replaced_helpers(monkeypatch):
    assert results(calls_a_helper) == [0, 1, 2]
    monkeypatch.setitem(globals(), "shift_by_global", lambda x: -x)
    assert results(calls_a_helper) == [0, -1, -2]


@pytest.mark.parametrize("how", ["itself", "closed over", "by its module", "setting"])
def test_a_helper_of_another_module(how):
    """A program imported from a module of its own, whose globals are its settings."""
    module = types.ModuleType("rules_of_a_user")
    exec("SCALE = 1\ndef scale(x):\n    return SCALE * x", module.__dict__)
    scale = module.scale
    f = {
        "itself": scale,
        "closed over": lambda x: scale(x),
        "by its module": lambda x: module.scale(x),
        "setting": lambda x: module.SCALE * x,
    }[how]
    assert results(f) == [0, 1, 2]
    module.SCALE = 3
    assert results(f) == [0, 3, 6]


RULES_OF_A_USER = """
class Rules:
    def __init__(self):
        self.table = {0: 0, 1: 1, 2: 2}

    def look(self, x):
        return self.table[x]

    def __getitem__(self, x):
        return self.table[x]
"""


@pytest.mark.parametrize("how", ["method", "bound method", "item", "table"])
def test_an_object_of_another_modules_class(how):
    """`from rules import Rules` in a script: the script's lambdas still see the object change."""
    module = types.ModuleType("rules_of_a_user")
    exec(RULES_OF_A_USER, module.__dict__)
    assert module.Rules.__module__ == "rules_of_a_user"
    rules = module.Rules()
    f = {
        "method": lambda x: rules.look(x),
        "bound method": rules.look,
        "item": lambda x: rules[x],
        "table": lambda x: rules.table[x],
    }[how]
    assert results(f) == [0, 1, 2]
    rules.table[1] = 10
    assert results(f) == [0, 10, 2]


def test_context_variables():
    offset = contextvars.ContextVar("offset", default=0)

    def shift(x):
        return x + offset.get()

    assert results(shift) == [0, 1, 2]
    offset.set(5)
    assert results(shift) == [5, 6, 7]


class Parent:
    parental = 0

    def shift_of_the_parent(self, x):
        return x + self.parental


class Child(Parent):
    def shift_of_the_parent(self, x):
        return super().shift_of_the_parent(x)


def test_what_a_parents_method_reads():
    child = Child()

    def shift(x):
        return child.shift_of_the_parent(x)

    assert results(shift) == [0, 1, 2]
    child.parental = 10
    assert results(shift) == [10, 11, 12]


class Settings:
    scale = 1

    def __init__(self):
        self.offset = 0
        self._hidden = 0
        self.inner = types.SimpleNamespace(depth=0)

    @property
    def hidden(self):
        return self._hidden

    def shift(self, x):
        return x + self.offset

    def indirectly(self, x):
        return self.shift(x)

    def __call__(self, x):
        return x + self.offset

    @classmethod
    def scaled(cls, x):
        return x * cls.scale

    def program(self, kind):
        """Lambdas that read `self`, as in a module's forward."""
        return {
            "attribute": lambda x: x + self.offset,
            "nested attribute": lambda x: x + self.inner.depth,
            "method": lambda x: self.shift(x),
            "method of a method": lambda x: self.indirectly(x),
            "bound method": self.shift,
            "bound method of a method": self.indirectly,
            "callable object": self,
            "call of self": lambda x: self(x),
            "property": lambda x: x + self.hidden,
            "class attribute": lambda x: x * self.scale,
            "class method": self.scaled,
            "getattr": lambda x: x + getattr(self, "offset"),  # noqa: B009
            "vars": lambda x: x + vars(self)["offset"],
            "partial": functools.partial(lambda s, x: x + s.offset, self),
            "partial of a method": functools.partial(self.shift),
            "comprehension": lambda x: sum(x + self.offset for _ in range(1)),
            "nested function": lambda x: (lambda y: y + self.offset)(x),
        }[kind]


KINDS = [
    "attribute", "nested attribute", "method", "method of a method", "bound method",
    "bound method of a method", "callable object", "call of self", "property", "class attribute",
    "class method", "getattr", "vars", "partial", "partial of a method", "comprehension",
    "nested function",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_attributes_that_change(kind, monkeypatch):
    thing = Settings()
    assert results(thing.program(kind)) == [0, 1, 2]
    thing.offset = thing._hidden = thing.inner.depth = 10
    monkeypatch.setattr(Settings, "scale", 5)
    after = results(thing.program(kind))
    assert after in ([10, 11, 12], [0, 5, 10])


@pytest.mark.parametrize("kind", KINDS)
def test_two_objects_of_one_class(kind):
    one, two = Settings(), Settings()
    two.offset = two._hidden = two.inner.depth = 10
    assert results(one.program(kind)) == [0, 1, 2]
    expected = [0, 1, 2] if "class" in kind else [10, 11, 12]
    assert results(two.program(kind)) == expected


def test_partial():
    assert results(functools.partial(operator.add, 1)) == [1, 2, 3]
    assert results(functools.partial(operator.add, 2)) == [2, 3, 4]
    assert results(functools.partial(pow, exp=2)) == [0, 1, 4]
    assert results(functools.partial(pow, exp=3)) == [0, 1, 8]


def test_builtins_and_classes():
    assert results(str) == ["0", "1", "2"]
    assert results(float) == [0.0, 1.0, 2.0]
    assert results([5, 6, 7].__getitem__) == [5, 6, 7]
    assert results([7, 6, 5].__getitem__) == [7, 6, 5]
    assert results({0: 1, 1: 2, 2: 3}.get) == [1, 2, 3]
    assert results({0: 9, 1: 8, 2: 7}.get) == [9, 8, 7]
    assert results(operator.methodcaller("__add__", 1)) == [1, 2, 3]
    assert results(operator.methodcaller("__add__", 2)) == [2, 3, 4]


def test_names_that_are_reused_after_an_object_died():
    """Identity is an address, and addresses are used again."""
    for n in range(200):

        class Adder:
            def __init__(self, n):
                self.n = n

            def __call__(self, x):
                return x + self.n

        adder = Adder(n)
        assert results(lambda x, adder=adder: adder(x)) == [n, n + 1, n + 2]
        assert results(adder) == [n, n + 1, n + 2]
        lookup = {0: n, 1: n + 1, 2: n + 2}.get
        assert results(lookup) == [n, n + 1, n + 2]


def test_recursive_functions():
    def factorial(n):
        return 1 if n == 0 else n * factorial(n - 1)

    assert results(factorial, (0, 1, 2, 5)) == [1, 2, 120]


def test_decorated_functions():
    def scaled(by):
        def decorator(f):
            @functools.wraps(f)
            def wrapper(x):
                return by * f(x)

            return wrapper

        return decorator

    for by in (1, 2, 3):
        assert results(scaled(by)(lambda x: x)) == [0, by, 2 * by]


def test_conditions_and_keys_that_change():
    d, e = dist(), dist()
    for limit in (1, 3, 2):
        found = dl.apply_if(d, e, operator.add, lambda x, y: x + y < limit)  # noqa: B023
        assert max(found.symbols) == limit - 1
        kept = dl.filter(d, lambda x: x < limit)  # noqa: B023
        assert list(kept.symbols) == list(range(min(limit, 3)))
        joined = dl.apply_if(
            d,
            e,
            lambda x, y: (x, y),
            on=(lambda x: x % limit, lambda y: y),  # noqa: B023
        )
        expected = [(x, y) for x in range(3) for y in range(3) if x % limit == y]
        assert list(joined.symbols) == expected


def test_same_code_in_two_operations():
    """One function as condition and as function, as predicate and as map."""
    d = dist((0, 1))

    def is_one(x):
        return x == 1

    assert list(dl.filter(d, is_one).symbols) == [1]
    assert list(dl.apply(d, is_one).symbols) == [False, True]
    assert list(dl.apply_if(d, is_one, is_one).symbols) == [True]


SCOPE = """
def helper(x): return x + SHIFT
def f(x): return helper(TABLE["one"] + ROWS[0][0] + len((x,))) if x in NAMES else math.floor(x)
"""


@pytest.mark.parametrize(
    "change",
    [
        "SHIFT = 10",
        "TABLE['one'] = 5",
        "TABLE = {'one': 5}",
        "ROWS[0].insert(0, 7)",
        "NAMES.discard(2)",
        "helper = abs",
        "helper.__code__ = (lambda x: 0).__code__",
        "helper.__defaults__ = (1,)",
        "len = lambda x: 50",
        "math = type('Other', (), {'floor': staticmethod(lambda x: -1)})",
    ],
)
def test_a_change_is_noticed_at_a_glance(change):
    scope = {"SHIFT": 1, "TABLE": {"one": 1}, "ROWS": ([0],), "NAMES": {2, 3}, "math": math}
    exec(SCOPE, scope)
    f = scope["f"]
    assert lasting(f) is None, "nobody has looked at it"
    fingerprint(f)
    before = lasting(f)
    assert before is not None
    assert lasting(f) is before
    exec(change, scope)
    assert lasting(f) is None
    d = dl.Distribution([0.25, 0.25, 0.5], [1, 2, 3])
    assert [*d.map(f).symbols] == list(dict.fromkeys(map(f, (1, 2, 3))))


def test_what_closes_over_something_is_looked_at_every_time():
    inner = (lambda k: lambda x: x + k)(1)
    for function in [lambda x, k=1: x + k, inner, functools.partial(max, 1)]:
        fingerprint(function)
        assert lasting(function) is None
