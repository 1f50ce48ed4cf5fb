# ruff: noqa: E501 (programs in strings)
"""A hundred ways to change what a function reads behind its back; those in classes and objects
are in hidden_in_classes.

Each trick makes a function and a way to change its hidden state.
"""

from __future__ import annotations

import array
import os
import types
from abc import ABCMeta

import numpy as np
import torch

import hidden_in_classes

TRICKS = {}


def trick(make):
    TRICKS[make.__name__] = make
    return make


class Box:
    def __init__(self, k=1):
        self.k = k


class Frame:
    """A module-like scope in which global functions are defined."""

    def __init__(self, source, **names):
        self.scope = {"__name__": "program_of_a_user", **names}
        exec(compile(source, "<trick>", "exec", dont_inherit=True), self.scope)

    def __getitem__(self, name):
        return self.scope[name]


def simple(source, change, **names):
    """A global function `f`, and a change of its globals."""
    frame = Frame(source, **names)
    return frame["f"], lambda: exec(change, frame.scope)


SOURCES: dict[str, tuple[str, str]] = {
    "global int": ("k = 1\ndef f(s): return s * 10 + k", "k = 2"),
    "global in helper": ("k = 1\ndef g(): return k\ndef f(s): return s * 10 + g()", "k = 2"),
    "global two deep": (
        "k = 1\ndef h(): return k\ndef g(): return h()\ndef f(s): return s * 10 + g()", "k = 2"),
    "replaced helper": ("def g(): return 1\ndef f(s): return s * 10 + g()", "g = lambda: 2"),
    "helper as value": (
        "k = 1\ndef g(s): return s * 10 + k\ndef f(s): return list(map(g, [s]))[0]", "k = 2"),
    "helper in a list": (
        "k = 1\ndef g(s): return s * 10 + k\ngs = [g]\ndef f(s): return gs[0](s)", "k = 2"),
    "helper in a dict": (
        "k = 1\ndef g(s): return s * 10 + k\ngs = {0: g}\ndef f(s): return gs[0](s)", "k = 2"),
    "list": ("t = [1]\ndef f(s): return s * 10 + t[0]", "t[0] = 2"),
    "nested list": ("t = [[[1]]]\ndef f(s): return s * 10 + t[0][0][0]", "t[0][0][0] = 2"),
    "dict": ("t = {'k': 1}\ndef f(s): return s * 10 + t['k']", "t['k'] = 2"),
    "dict method": ("t = {'k': 1}\ndef f(s): return s * 10 + t.get('k', 0)", "t['k'] = 2"),
    "set": ("t = {1}\ndef f(s): return s * 10 + len(t)", "t.add(5)"),
    "length of a log": ("t = [1]\ndef f(s): return s * 10 + len(t)", "t.append(1)"),
    "appended and read": (
        "t = [1]\ndef f(s):\n    t.append(s)\n    return s * 10 + len(t)", "t.clear()"),
    "alias of a log": (
        "t = []\nu = t\ndef f(s):\n    t.append(s)\n    return s * 10 + len(u)", "t.clear()"),
    "bytearray": ("t = bytearray([1])\ndef f(s): return s * 10 + t[0]", "t[0] = 2"),
    "default list": ("t = [1]\ndef f(s, t=t): return s * 10 + t[0]", "t[0] = 2"),
    "default replaced": ("def f(s, k=1): return s * 10 + k", "f.__defaults__ = (2,)"),
    "keyword default": ("def f(s, *, k=1): return s * 10 + k", "f.__kwdefaults__ = {'k': 2}"),
    "function attribute": ("def f(s): return s * 10 + f.k\nf.k = 1", "f.k = 2"),
    "attribute of a helper": (
        "def g(): return 1\ng.k = 1\ndef f(s): return s * 10 + g.k", "g.k = 2"),
    "attribute of a passed function": (
        "def g(): return 1\ng.k = 1\ndef h(o): return o.k\ndef f(s): return s * 10 + h(g)",
        "g.k = 2"),
    "replaced code": ("def f(s): return s * 10 + 1", "f.__code__ = (lambda s: s * 10 + 2).__code__"),
    "global statement": (
        "k = 0\ndef f(s):\n    global k\n    k += 1\n    return s * 10 + k", "pass"),
    "toggled global": (
        "k = 0\ndef f(s):\n    global k\n    k = 1 - k\n    return s * 10 + k", "k = 1"),
    "toggled item": (
        "t = [0]\ndef f(s):\n    t[0] = 1 - t[0]\n    return s * 10 + t[0]", "t[0] = 1"),
    "toggled in a helper": (
        "t = [0]\ndef g(u):\n    u[0] = 1 - u[0]\ndef f(s):\n    g(t)\n    return s * 10 + t[0]",
        "t[0] = 1"),
    "comprehension": ("k = 1\ndef f(s): return sum(s * 10 + k for _ in range(1))", "k = 2"),
    "nested lambda": ("k = 1\ndef f(s): return (lambda y: y * 10 + k)(s)", "k = 2"),
    "nested def": (
        "k = 1\ndef f(s):\n    def g():\n        return k\n    return s * 10 + g()", "k = 2"),
    "nested class": (
        "k = 1\ndef f(s):\n    class A:\n        v = k\n    return s * 10 + A.v", "k = 2"),
    "method of a nested class": (
        "k = 1\ndef f(s):\n    class A:\n        def v(self): return k\n    return s * 10 + A().v()",
        "k = 2"),
    "generator helper": (
        "k = 1\ndef g():\n    yield k\ndef f(s): return s * 10 + next(g())", "k = 2"),
    "eval": ("k = 1\ndef f(s): return s * 10 + eval('k')", "k = 2"),
    "globals": ("k = 1\ndef f(s): return s * 10 + globals()['k']", "k = 2"),
    "vars": ("class A: pass\na = A(); a.k = 1\ndef f(s): return s * 10 + vars(a)['k']", "a.k = 2"),
    "builtin replaced": ("def f(s): return s * 10 + len([1])", "len = lambda x: 2"),
    "module attribute": (
        "import types\nm = types.ModuleType('m')\nm.k = 1\ndef f(s): return s * 10 + m.k", "m.k = 2"),
    "module passed on": (
        "import types\nm = types.ModuleType('m')\nm.k = 1\ndef g(m): return m.k\n"
        "def f(s): return s * 10 + g(m)", "m.k = 2"),
    "module made up": (
        "import types\nm = types.ModuleType('m')\nv = [1]\nm.__getattr__ = lambda name: v[0]\n"
        "def f(s): return s * 10 + m.k", "v[0] = 2"),
    "library replaced": (
        "import types\nmath = types.SimpleNamespace(floor=lambda x: 1)\n"
        "def f(s): return s * 10 + math.floor(1.5)", "math.floor = lambda x: 2"),
    "environment": (
        "import os\nos.environ['DOLPHIN_TRICK'] = '1'\n"
        "def f(s): return s * 10 + int(os.environ['DOLPHIN_TRICK'])",
        "os.environ['DOLPHIN_TRICK'] = '2'"),
    "getenv": (
        "import os\nos.environ['DOLPHIN_TRICK'] = '1'\n"
        "def f(s): return s * 10 + int(os.getenv('DOLPHIN_TRICK'))",
        "os.environ['DOLPHIN_TRICK'] = '2'"),
    "sys.modules": (
        "import sys, types\nsys.modules['m_of_trick'] = m = types.ModuleType('m')\nm.k = 1\n"
        "def f(s): return s * 10 + sys.modules['m_of_trick'].k", "m.k = 2"),
    "import inside": (
        "import sys, types\nsys.modules['m_of_trick'] = m = types.ModuleType('m')\nm.k = 1\n"
        "def f(s):\n    import m_of_trick\n    return s * 10 + m_of_trick.k", "m.k = 2"),
    "import from inside": (
        "import sys, types\nsys.modules['m_of_trick'] = m = types.ModuleType('m')\nm.k = 1\n"
        "def f(s):\n    from m_of_trick import k\n    return s * 10 + k", "m.k = 2"),
    "import as inside": (
        "import sys, types\nsys.modules['m_of_trick'] = m = types.ModuleType('m')\nm.k = 1\n"
        "def f(s):\n    import m_of_trick as n\n    return s * 10 + n.k", "m.k = 2"),
    "import by name": (
        "import sys, types\nsys.modules['m_of_trick'] = m = types.ModuleType('m')\nm.k = 1\n"
        "def f(s): return s * 10 + __import__('m_of_trick').k", "m.k = 2"),
    "precision of decimals": (
        "import decimal\nc = decimal.getcontext()\n"
        "def f(s): return str(decimal.Decimal(s) / decimal.Decimal(3))",
        "decimal.getcontext().prec = 5"),
    "decorated": (
        "import functools\nk = 1\ndef d(g):\n    @functools.wraps(g)\n    def w(s): return g(s) + k\n"
        "    return w\n@d\ndef f(s): return s * 10", "k = 2"),
    "inside of a decorated function": (
        "import functools\nk = 1\ndef d(g):\n    @functools.wraps(g)\n    def w(s): return g(s)\n"
        "    return w\n@d\ndef f(s): return s * 10 + k", "k = 2"),
    "lru_cache": (
        "import functools\nt = [1]\n@functools.lru_cache(None)\ndef f(s): return s * 10 + t[0]",
        "t[0] = 2; f.cache_clear()"),
    "helper behind lru_cache": (
        "import functools\nt = [1]\n@functools.lru_cache(None)\ndef g(): return t[0]\n"
        "def f(s): return s * 10 + g()", "t[0] = 2; g.cache_clear()"),
    "singledispatch": (
        "import functools\nk = 1\n@functools.singledispatch\ndef f(s): return s * 10 + k", "k = 2"),
    "singledispatch registered later": (
        "import functools\n@functools.singledispatch\ndef f(s): return s * 10",
        "f.register(int, lambda s: s * 10 + 2)"),
    "cached property": (
        "import functools\nclass A:\n    @functools.cached_property\n    def m(self): return self.k\n"
        "a = A(); a.k = 1\ndef f(s): return s * 10 + a.m", "a.k = 2; del a.m"),
    "partial": (
        "import functools\nt = [1]\ndef g(t, s): return s * 10 + t[0]\nf = functools.partial(g, t)",
        "t[0] = 2"),
    "partial of an object": (
        "import functools\nclass A: pass\na = A(); a.k = 1\ndef g(a, s): return s * 10 + a.k\n"
        "f = functools.partial(g, a)", "a.k = 2"),
    "partialmethod": (
        "import functools\nclass A:\n    def g(self, x, s): return s * 10 + self.k\n"
        "    m = functools.partialmethod(g, 0)\na = A(); a.k = 1\ndef f(s): return a.m(s)", "a.k = 2"),
    "attrgetter": (
        "import operator\nclass A: pass\na = A(); a.k = 1\ng = operator.attrgetter('k')\n"
        "def f(s): return s * 10 + g(a)", "a.k = 2"),
    "itemgetter": (
        "import operator\nt = [1]\ng = operator.itemgetter(0)\ndef f(s): return s * 10 + g(t)",
        "t[0] = 2"),
    "methodcaller": (
        "import operator\nclass A:\n    def m(self): return self.k\na = A(); a.k = 1\n"
        "g = operator.methodcaller('m')\ndef f(s): return s * 10 + g(a)", "a.k = 2"),
    "reduce with a helper": (
        "import functools\nk = 1\ndef g(a, b): return a + b + k\n"
        "def f(s): return functools.reduce(g, [s, 0])", "k = 2"),
    "iterator": ("t = iter(range(100))\ndef f(s): return s * 1000 + next(t)", "pass"),
    "counter object": (
        "import itertools\nc = itertools.count()\ndef f(s): return s * 1000 + next(c)", "pass"),
    "mapping proxy": (
        "import types\nt = {'k': 1}\np = types.MappingProxyType(t)\n"
        "def f(s): return s * 10 + p['k']", "t['k'] = 2"),
    "chain map": (
        "import collections\nt = {'k': 1}\np = collections.ChainMap(t)\n"
        "def f(s): return s * 10 + p['k']", "t['k'] = 2"),
    "missing method": (
        "class D(dict):\n    v = 1\n    def __missing__(self, key): return self.v\nd = D()\n"
        "def f(s): return s * 10 + d['k']", "D.v = 2"),
    "default factory": (
        "import collections\nk = 1\nd = collections.defaultdict(lambda: k)\n"
        "def f(s): return s * 10 + d[s]", "k = 2; d.clear()"),
    "keys view": ("t = {1: 1}\nv = t.keys()\ndef f(s): return s * 10 + len(v)", "t[2] = 2"),
    "memoryview": (
        "t = bytearray([1])\nv = memoryview(t)\ndef f(s): return s * 10 + v[0]", "t[0] = 2"),
    "user dict": (
        "import collections\nclass D(collections.UserDict): pass\nd = D(); d['k'] = 1\n"
        "def f(s): return s * 10 + d['k']", "d['k'] = 2"),
    "list subclass": (
        "class L(list): pass\nt = L([1])\ndef f(s): return s * 10 + t[0]", "t[0] = 2"),
    "int subclass": (
        "class I(int):\n    v = 1\n    def __add__(self, o): return o + self.v\n"
        "    __radd__ = __add__\ni = I(0)\ndef f(s): return s * 10 + i", "I.v = 2"),
    "namespace": (
        "import types\nn = types.SimpleNamespace(k=1)\ndef f(s): return s * 10 + n.k", "n.k = 2"),
    "weak reference": (
        "import weakref\nclass A: pass\na = A(); a.k = 1\nr = weakref.ref(a)\n"
        "def f(s): return s * 10 + r().k", "a.k = 2"),
    "weak proxy": (
        "import weakref\nclass A: pass\na = A(); a.k = 1\nr = weakref.proxy(a)\n"
        "def f(s): return s * 10 + r.k", "a.k = 2"),
    "context variable": (
        "import contextvars\nv = contextvars.ContextVar('v', default=1)\n"
        "def f(s): return s * 10 + v.get()", "v.set(2)"),
    "context variable passed on": (
        "import contextvars\nv = contextvars.ContextVar('v', default=1)\ndef g(v): return v.get()\n"
        "def f(s): return s * 10 + g(v)", "v.set(2)"),
    "thread local": (
        "import threading\nl = threading.local(); l.k = 1\ndef f(s): return s * 10 + l.k", "l.k = 2"),
    "exception handler": (
        "t = {}\ndef f(s):\n    try:\n        return s * 10 + t['k']\n    except KeyError:\n"
        "        return s * 10", "t['k'] = 2"),
    "class in a variable": (
        "class A:\n    k = 1\nclass B:\n    k = 2\nC = A\ndef f(s): return s * 10 + C.k", "C = B"),
    "abstract method": (
        "import abc\nclass B(abc.ABC):\n    @abc.abstractmethod\n    def m(self): ...\n"
        "class A(B):\n    k = 1\n    def m(self): return self.k\na = A()\n"
        "def f(s): return s * 10 + a.m()", "A.k = 2"),
    "dunder name": (
        "def g(): return 1\ndef f(s): return s * 10 + len(g.__name__)", "g.__name__ = 'long'"),
    "docstring": (
        "def g(): 'a'\ndef f(s): return s * 10 + len(g.__doc__)", "g.__doc__ = 'long'"),
    "closure of a helper": (
        "def g(): return 1\ndef f(s): return s * 10 + g.__defaults__[0]\ng.__defaults__ = (1,)",
        "g.__defaults__ = (2,)"),
    "object as default": (
        "class A: pass\na = A(); a.k = 1\ndef f(s, a=a): return s * 10 + a.k", "a.k = 2"),
    "object read by a helper's default": (
        "class A: pass\na = A(); a.k = 1\ndef g(a=a): return a.k\ndef f(s): return s * 10 + g()",
        "a.k = 2"),
    "recursion": (
        "k = 1\ndef f(s): return k if s == 0 else f(s - 1) + 10", "k = 2"),
    "mutual recursion": (
        "k = 1\ndef f(s): return k if s == 0 else g(s - 1) + 10\ndef g(s): return f(s)", "k = 2"),
    "match statement": (
        "class A:\n    __match_args__ = ('k',)\na = A(); a.k = 1\n"
        "def f(s):\n    match a:\n        case A(k=1): return s\n        case _: return -s - 1", "a.k = 2"),
    "star arguments": (
        "t = (1,)\ndef g(*a): return sum(a)\ndef f(s): return s * 10 + g(*t)", "t = (2,)"),
    "keyword arguments": (
        "t = {'k': 1}\ndef g(k): return k\ndef f(s): return s * 10 + g(**t)", "t['k'] = 2"),
    "sorted by an object": (
        "class A:\n    def key(self, x): return self.k * x\na = A(); a.k = 1\n"
        "def f(s): return sorted([s, -s - 1], key=a.key)[0]", "a.k = -1"),
    "number one and True": ("k = 1\ndef f(s): return f'{s} {k}'", "k = True"),
    "number one and 1.0": ("k = 1\ndef f(s): return f'{s} {k}'", "k = 1.0"),
    "zero and minus zero": ("k = 0.0\ndef f(s): return f'{s} {k}'", "k = -0.0"),
    "nested one and True": ("k = [(1,)]\ndef f(s): return f'{s} {k}'", "k = [(True,)]"),
    "order of a dict": (
        "k = {1: 1, 2: 2}\ndef f(s): return f'{s} {k}'", "k = {2: 2, 1: 1}"),
}  # fmt: skip
SOURCES |= hidden_in_classes.SOURCES
for name, (source, change) in SOURCES.items():
    TRICKS[name] = lambda source=source, change=change: simple(source, change)


@trick
def nonlocal_counter():
    count = 0

    def f(s):
        nonlocal count
        count += 1
        return s * 1000 + count

    return f, lambda: None


@trick
def closed_over_int():
    k = 1

    def f(s):
        return s * 10 + k

    def change():
        nonlocal k
        k = 2

    return f, change


@trick
def self_in_forward():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.k = 1
            self.inner = torch.nn.Linear(1, 1)
            self.inner.k = 1

        def program(self):
            return lambda s: s * 10 + self.k + self.inner.k

    model = Model()
    return model.program(), lambda: setattr(model.inner, "k", 2)


@trick
def weight_of_a_network():
    layer = torch.nn.Linear(1, 1)
    with torch.no_grad():
        layer.weight.fill_(1)
    return lambda s: s * 10 + int(layer.weight[0, 0]), lambda: layer.weight.data.fill_(2)


@trick
def numpy_array_in_place():
    table = np.array([1, 2])
    return lambda s: s * 10 + int(table[0]), lambda: table.__setitem__(0, 2)


@trick
def numpy_view():
    table = np.array([1, 2])
    view = table[:1]
    return lambda s: s * 10 + int(view[0]), lambda: table.__setitem__(0, 2)


@trick
def object_array():
    box = Box()
    table = np.array([box], dtype=object)
    return lambda s: s * 10 + table[0].k, lambda: setattr(box, "k", 2)


@trick
def array_of_numbers():
    table = array.array("i", [1])
    return lambda s: s * 10 + table[0], lambda: table.__setitem__(0, 2)


@trick
def file(tmp=[]):  # noqa: B006
    read, write = os.pipe()
    os.write(write, b"12")
    return lambda s: s * 10 + int(os.read(read, 1)) if s == 0 else s, lambda: None


@trick
def builtins_of_its_own():
    own = {"k": 1}
    scope = {"__builtins__": own}
    exec("def f(s): return s + k", scope)
    return scope["f"], lambda: own.update(k=5)


@trick
def ufunc_of_a_function():
    box = [1]
    return np.frompyfunc(lambda s: s + box[0], 1, 1), lambda: box.__setitem__(0, 5)


@trick
def registered_subclass():
    class Kind(metaclass=ABCMeta):  # noqa: B024
        pass

    return lambda s: (s, isinstance(s, Kind)), lambda: Kind.register(int) and None


@trick
def order_of_a_set():
    box = types.SimpleNamespace(names={0, 8})
    return lambda s: (s, tuple(box.names)), lambda: setattr(box, "names", {8, 0})


@trick
def the_same_or_an_equal_list():
    box = types.SimpleNamespace(a=[1], b=[])
    box.b = box.a
    return lambda s: (s, box.a is box.b), lambda: setattr(box, "b", [1])
