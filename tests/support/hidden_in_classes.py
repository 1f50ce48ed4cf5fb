# ruff: noqa: E501 (programs in strings)
"""Ways to change what a function reads in classes and in their objects, for hidden_state.

Each is a source text that defines `f`, and a change that is run in the same scope.
"""

SOURCES: dict[str, tuple[str, str]] = {
    "class attribute": ("class A:\n    k = 1\ndef f(s): return s * 10 + A.k", "A.k = 2"),
    "inherited class attribute": (
        "class B:\n    k = 1\nclass A(B): pass\ndef f(s): return s * 10 + A.k", "B.k = 2"),
    "shadowed class attribute": (
        "class A:\n    k = 1\na = A()\ndef f(s): return s * 10 + a.k", "a.k = 2"),
    "class passed on": (
        "class A:\n    k = 1\ndef g(c): return c.k\ndef f(s): return s * 10 + g(A)", "A.k = 2"),
    "metaclass attribute": (
        "class M(type):\n    k = 1\nclass A(metaclass=M): pass\ndef f(s): return s * 10 + A.k",
        "M.k = 2"),
    "metaclass call": (
        "t = [1]\nclass M(type):\n    def __call__(cls, s): return s * 10 + t[0]\n"
        "class A(metaclass=M): pass\ndef f(s): return A(s)", "t[0] = 2"),
    "constructor": (
        "class A:\n    d = 1\n    def __init__(self): self.k = self.d\n"
        "def f(s): return s * 10 + A().k", "A.d = 2"),
    "constructor as the function": (
        "class f:\n    k = 1\n    def __new__(cls, s): return s * 10 + cls.k", "f.k = 2"),
    "monkeypatched method": (
        "class A:\n    def m(self): return 1\na = A()\ndef f(s): return s * 10 + a.m()",
        "A.m = lambda self: 2"),
    "method put on an object": (
        "class A:\n    def m(self): return 1\na = A()\ndef f(s): return s * 10 + a.m()",
        "a.m = lambda: 2"),
    "static method": (
        "k = 1\nclass A:\n    @staticmethod\n    def m(): return k\n"
        "def f(s): return s * 10 + A.m()", "k = 2"),
    "class method": (
        "class A:\n    k = 1\n    @classmethod\n    def m(cls): return cls.k\n"
        "def f(s): return s * 10 + A.m()", "A.k = 2"),
    "class method of an object": (
        "class A:\n    k = 1\n    @classmethod\n    def m(cls): return cls.k\na = A()\n"
        "def f(s): return s * 10 + a.m()", "A.k = 2"),
    "property": (
        "class A:\n    @property\n    def m(self): return self.k\na = A(); a.k = 1\n"
        "def f(s): return s * 10 + a.m", "a.k = 2"),
    "descriptor": (
        "class D:\n    v = 1\n    def __get__(self, o, t=None): return self.v\nd = D()\n"
        "class A:\n    k = d\na = A()\ndef f(s): return s * 10 + a.k", "d.v = 2"),
    "data descriptor": (
        "class D:\n    v = 1\n    def __get__(self, o, t=None): return self.v\n"
        "    def __set__(self, o, v): pass\n"
        "class A:\n    k = D()\na = A()\ndef f(s): return s * 10 + a.k", "D.v = 2"),
    "getattr method": (
        "v = [1]\nclass A:\n    def __getattr__(self, name): return v[0]\na = A()\n"
        "def f(s): return s * 10 + a.k", "v[0] = 2"),
    "getattribute method": (
        "v = [1]\nclass A:\n    k = 5\n    def __getattribute__(self, name): return v[0]\na = A()\n"
        "def f(s): return s * 10 + a.k", "v[0] = 2"),
    "slots": (
        "class A:\n    __slots__ = ('k',)\na = A(); a.k = 1\ndef f(s): return s * 10 + a.k", "a.k = 2"),
    "super": (
        "class B:\n    def m(self): return self.k\nclass A(B):\n    def m(self): return super().m()\n"
        "a = A(); a.k = 1\ndef f(s): return s * 10 + a.m()", "a.k = 2"),
    "super in a property": (
        "class B:\n    k = 1\n    @property\n    def m(self): return B.k\n"
        "class A(B):\n    @property\n    def m(self): return super().m\na = A()\n"
        "def f(s): return s * 10 + a.m", "B.k = 2"),
    "class cell": (
        "class A:\n    k = 1\n    def m(self): return __class__.k\na = A()\n"
        "def f(s): return s * 10 + a.m()", "A.k = 2"),
    "class of an object": (
        "class A:\n    k = 1\na = A()\ndef f(s): return s * 10 + a.__class__.k", "A.k = 2"),
    "another class": (
        "class A:\n    def m(self): return 1\nclass B:\n    def m(self): return 2\na = A()\n"
        "def f(s): return s * 10 + a.m()", "a.__class__ = B"),
    "assigns what it reads": (
        "class A:\n    k = 0\na = A()\ndef f(s):\n    a.k = a.k + 1\n    return s * 10 + a.k", "pass"),
    "assigned attribute of another object": (
        "class A: pass\na = A(); b = A(); b.k = 1\n"
        "def f(s):\n    a.k = 5\n    return s * 10 + b.k", "b.k = 2"),
    "setattr": (
        "class A: pass\na = A(); a.k = 0\n"
        "def f(s):\n    setattr(a, 'k', a.k + 1)\n    return s * 10 + a.k", "pass"),
    "call method": (
        "class A:\n    def __call__(self, s): return s * 10 + self.k\nf = A(); f.k = 1", "f.k = 2"),
    "called object": (
        "class A:\n    def __call__(self, s): return s * 10 + self.k\na = A(); a.k = 1\n"
        "def f(s): return a(s)", "a.k = 2"),
    "item method": (
        "class A:\n    def __getitem__(self, s): return self.k\na = A(); a.k = 1\n"
        "def f(s): return s * 10 + a[s]", "a.k = 2"),
    "contains method": (
        "class A:\n    def __contains__(self, s): return self.k\na = A(); a.k = True\n"
        "def f(s): return s * 10 + (s in a)", "a.k = False"),
    "iterated object": (
        "class A:\n    def __iter__(self): return iter([self.k])\na = A(); a.k = 1\n"
        "def f(s): return s * 10 + sum(a)", "a.k = 2"),
    "added object": (
        "class A:\n    def __radd__(self, other): return other + self.k\na = A(); a.k = 1\n"
        "def f(s): return s * 10 + a", "a.k = 2"),
    "formatted object": (
        "class A:\n    def __str__(self): return str(self.k)\na = A(); a.k = 1\n"
        "def f(s): return s * 10 + int(f'{a}')", "a.k = 2"),
    "compared object": (
        "class A:\n    def __lt__(self, other): return self.k\na = A(); a.k = True\n"
        "def f(s): return s * 10 + (a < 3)", "a.k = False"),
    "truth of an object": (
        "class A:\n    def __bool__(self): return self.k\na = A(); a.k = True\n"
        "def f(s): return s * 10 + (1 if a else 0)", "a.k = False"),
    "context manager": (
        "class A:\n    def __enter__(self): return self.k\n    def __exit__(self, *e): pass\n"
        "a = A(); a.k = 1\ndef f(s):\n    with a as k:\n        return s * 10 + k", "a.k = 2"),
    "object in a list": (
        "class A: pass\na = A(); a.k = 1\nt = [a]\ndef f(s): return s * 10 + t[0].k", "a.k = 2"),
    "object in a tuple in a dict": (
        "class A: pass\na = A(); a.k = 1\nt = {0: (a,)}\ndef f(s): return s * 10 + t[0][0].k",
        "a.k = 2"),
    "object in a local": (
        "class A: pass\na = A(); a.k = 1\ndef f(s):\n    b = a\n    return s * 10 + b.k", "a.k = 2"),
    "one of two objects": (
        "class A: pass\na = A(); a.k = 1\nb = A(); b.k = 5\n"
        "def f(s): return s * 10 + (a if s else b).k", "a.k = 2"),
    "this or that object": (
        "class A: pass\na = A(); a.k = 1\ndef f(s): return s * 10 + (None or a).k", "a.k = 2"),
    "walrus": (
        "class A: pass\na = A(); a.k = 1\ndef f(s): return s * 10 + (b := a).k", "a.k = 2"),
    "chain": (
        "class A: pass\na = A(); a.b = A(); a.b.c = A(); a.b.c.k = 1\n"
        "def f(s): return s * 10 + a.b.c.k", "a.b.c.k = 2"),
    "chain replaced": (
        "class A: pass\na = A(); a.b = A(); a.b.k = 1\nc = A(); c.k = 2\n"
        "def f(s): return s * 10 + a.b.k", "a.b = c"),
    "deleted attribute": (
        "class A:\n    k = 2\na = A(); a.k = 1\ndef f(s): return s * 10 + a.k", "del a.k"),
    "conditional attribute": (
        "class A: pass\na = A()\ndef f(s): return s * 10 + (a.k if hasattr(a, 'k') else 1)",
        "a.k = 2"),
    "mutable dataclass": (
        "import dataclasses\n@dataclasses.dataclass\nclass A:\n    k: int\na = A(1)\n"
        "def f(s): return s * 10 + a.k", "a.k = 2"),
    "mutable dataclass passed on": (
        "import dataclasses\n@dataclasses.dataclass\nclass A:\n    k: int\na = A(1)\n"
        "def g(a): return a.k\ndef f(s): return s * 10 + g(a)", "a.k = 2"),
    "frozen dataclass with a list": (
        "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass A:\n    k: list\na = A([1])\n"
        "def g(a): return a.k[0]\ndef f(s): return s * 10 + g(a)", "a.k[0] = 2"),
    "frozen dataclass forced": (
        "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass A:\n    k: int\na = A(1)\n"
        "def g(a): return a.k\ndef f(s): return s * 10 + g(a)", "object.__setattr__(a, 'k', 2)"),
    "method of a dataclass": (
        "import dataclasses\nk = 1\n@dataclasses.dataclass(frozen=True)\nclass A:\n    n: int\n"
        "    def m(self): return self.n * 10 + k\ndef f(s): return A(s).m()", "k = 2"),
    "default factory of a field": (
        "import dataclasses\nk = 1\n@dataclasses.dataclass\nclass A:\n"
        "    n: int = dataclasses.field(default_factory=lambda: k)\n"
        "def f(s): return s * 10 + A().n", "k = 2"),
    "default of a field": (
        "import dataclasses\n@dataclasses.dataclass\nclass A:\n    n: int = 1\n"
        "def f(s): return s * 10 + A.n", "A.n = 2"),
    "post init": (
        "import dataclasses\nk = 1\n@dataclasses.dataclass\nclass A:\n    n: int\n"
        "    def __post_init__(self): self.n += k\ndef f(s): return A(s * 10).n", "k = 2"),
    "method of a named tuple": (
        "from typing import NamedTuple\nk = 1\nclass A(NamedTuple):\n    n: int\n"
        "    def m(self): return self.n * 10 + k\ndef f(s): return A(s).m()", "k = 2"),
    "list in a named tuple": (
        "from typing import NamedTuple\nclass A(NamedTuple):\n    n: list\na = A([1])\n"
        "def f(s): return s * 10 + a.n[0]", "a.n[0] = 2"),
    "enum attribute": (
        "import enum\nclass E(enum.Enum):\n    A = 1\nE.A.k = 1\n"
        "def f(s): return s * 10 + E.A.k", "E.A.k = 2"),
    "enum member passed on": (
        "import enum\nclass E(enum.Enum):\n    A = 1\nE.A.k = 1\ndef g(e): return e.k\n"
        "def f(s): return s * 10 + g(E.A)", "E.A.k = 2"),
    "enum method": (
        "import enum\nk = 1\nclass E(enum.Enum):\n    A = 1\n    def m(self): return k\n"
        "def f(s): return s * 10 + E.A.m()", "k = 2"),
    "enum constructed": (
        "import enum\nk = 1\nclass E(enum.Enum):\n    A = 1\n    def m(self): return k\n"
        "def f(s): return s * 10 + E(1).m()", "k = 2"),
}  # fmt: skip
