"""What programs are made of: functions of symbols as text, and definitions that such texts need."""

from __future__ import annotations

UNARY = [
    "lambda a: a % 2",
    "lambda a: (a + 1) % 4",
    "lambda a: a * a % 5",
    "lambda a: 0",
    "lambda a: a",
    "lambda a: a > 1",
    "lambda a: float(a)",
    "lambda a: 3 - a",
]
UNARY_ANY = [
    "lambda a: (a, 1)",
    "lambda a: str(a)",
    'lambda a: float("nan") if a == 1 else a',
    'lambda a: np.float32("nan") if a < 2 else a',
    'lambda a: (a % 2, np.float64("nan"))',
    "lambda a: None if a == 0 else a",
]
OF_ANY = ["lambda a: repr(a)[:3]", "lambda a: isinstance(a, tuple)", "lambda a: a", "lambda a: 1"]
BINARY = [
    "lambda a, b: (a + b) % 4",
    "lambda a, b: a + b",
    "lambda a, b: a * b % 4",
    "max",
    "lambda a, b: a == b",
    "lambda a, b: int(a <= b)",
    "lambda a, b: a",
    "lambda a, b: b",
    "lambda a, b: a ^ b if isinstance(a, int) and isinstance(b, int) else 0",
]
ASSOCIATIVE = ["lambda a, b: (a + b) % 4", "lambda a, b: a + b", "max", "lambda a, b: a * b % 4"]
TERNARY = [
    "lambda a, b, c: (a + b * c) % 4",
    "lambda a, b, c: b if a else c",
    "lambda a, b, c: sorted([a, b, c])[1]",
    "lambda a, b, c: a == b == c",
]
MANY = ["lambda *s: sum(s) % 4", "lambda *s: max(s)", "lambda *s: len(set(s))"]
CONDITIONS = ["lambda a, b: a <= b", "lambda a, b: a != b", "lambda a, b: (a + b) % 2 == 0"]
KEYS = ["lambda a: a % 2", "lambda a: a", "lambda a: a // 2", "lambda a: 0"]
PREDICATES = ["lambda a: a < 3", "lambda a: a % 2 == 0", "lambda a: a > 50", "lambda a: a != 1"]
STEPS = [
    "dl.union(d, dl.apply(d, lambda a: (a + 1) % 4))",
    "dl.union({e}, dl.apply_if(d, {e}, lambda p, e: (p + e) % 5, lambda p, e: p <= e))",
    "dl.union({e}, dl.apply(d, {e}, lambda p, e: (p * e + 1) % 4))",
]
PATH = (
    "dl.union({e}, dl.apply_if(d, {e}, lambda p, e: (p[0], e[1]), "
    "on=(lambda p: p[1], lambda e: e[0])))"
)
# What a recursion wants, by the kind of symbols: predicates, and a key for each row. Others than
# these would leave out what wanted symbols are derived from.
GOALS = {
    "pair": (["lambda p: p[0] == 0", "lambda p: p[0] != 2"], "lambda p: p[0]"),
    "int": (["lambda a: a < 9", "lambda a: a > 9"], "lambda a: 0"),
}
# Functions that take a varying number of symbols: what is remembered must know how many.
VARIADIC = {
    "count": "def count(*symbols): return len(symbols)",
    "add": "def add(x, y=2, z=0): return (x + y + z) % 6",
}
# Functions that read something which the program changes: definition, name, and the change.
STATEFUL = [
    (
        "class Box: pass\nbox = Box()\nbox.k = 1\ndef read(o): return o.k\n"
        "def shift(s): return (s + read(box)) % 5",
        "shift",
        "box.k = 2",
    ),
    ("def shift(s): return (s + shift.k) % 5\nshift.k = 1", "shift", "shift.k = 2"),
    (
        "table = [1]\n@functools.lru_cache(None)\ndef shift(s): return (s + table[0]) % 5",
        "shift",
        "table[0] = 2; shift.cache_clear()",
    ),
    (
        "class Shift:\n    k = 1\n    def __call__(self, s):\n        self.k = max(self.k, 0)\n"
        "        return (s + self.k) % 5\nshift = Shift()",
        "shift",
        "shift.k = 2",
    ),
    ("numbers = array.array('i', [1])\ndef shift(s): return (s + numbers[0]) % 5", "shift",
     "numbers[0] = 2"),
    ("class Shift:\n    k = 1\n    def __new__(cls, s): return (s + cls.k) % 5", "Shift",
     "Shift.k = 2"),
    (
        "class Held:\n    k = 1\n    @functools.cached_property\n    def v(self): return self.k\n"
        "held = Held()\ndef shift(s): return (s + held.v) % 5",
        "shift",
        "held.k = 2; held.__dict__.pop('v', None)",
    ),
    ("rates = {'k': 1}\ndef shift(s): return (s + rates['k']) % 5", "shift", "rates['k'] = 2"),
    ("state = 1\ndef inner(s): return s + state\ndef shift(s): return inner(s) % 5", "shift",
     "state = 2"),
    (
        "class Conf:\n    def __getattr__(self, name): return {'k': level[0]}[name]\nlevel = [1]\n"
        "conf = Conf()\ndef shift(s): return (s + conf.k) % 5",
        "shift",
        "level[0] = 2",
    ),
    ("loop = [1]\nloop.append(loop)\ndef shift(s): return (s + loop[0]) % 5", "shift",
     "loop[0] = 2"),
    (
        "import types as _types, sys as _sys\nmod = _types.ModuleType('fuzzed_settings')\nmod.k = 1"
        "\n_sys.modules['fuzzed_settings'] = mod\ndef shift(s):\n    import fuzzed_settings\n"
        "    return (s + fuzzed_settings.k) % 5",
        "shift",
        "mod.k = 2",
    ),
]  # fmt: skip
CARD = (
    "class Card:\n    def __init__(self, n): self.n = n\n    def __hash__(self): return self.n\n"
    "    def __eq__(self, other): return self.n == getattr(other, 'n', None)"
)
# What must be refused, given a distribution {d} and a tensor {x} behind one.
MISUSE = [
    "dl.apply({d}, lambda a: {d})",
    "dl.apply({d}, lambda a: (i for i in [a]))",
    "dl.apply({d}, lambda a: [a])",
    "dl.apply({d}, lambda a: 1 // 0)",
    "dl.Distribution(torch.tensor([[0.9, 0.9]]), [0, 1])",
    "dl.Distribution(torch.tensor([[0.9, 0.9, 0.1]]), [0, 1, 2], exclusive=[[0, 1], [2]])",
    "dl.Distribution(torch.tensor([[0.5, 0.5]]), [0, 0])",
    "dl.Distribution(torch.tensor([[0.5, 0.5]]), [0, 1, 2])",
    "dl.Distribution(torch.tensor([[0.5, 1.5]]), [0, 1], exclusive=False)",
    "dl.Distribution.from_logits(torch.tensor([[-inf, -inf]]), [0, 1])",
    "dl.Distribution.from_logits(torch.tensor([[nan, 0.0]]), [0, 1])",
    "dl.Distribution(torch.tensor([[0.5, 0.5]]), [0, 1], exclusive=[[0, 2]])",
    "dl.Distribution(torch.tensor([[0.5, 0.5]]), [0, 1], exclusive=[[0, 1], [1]])",
    "dl.Distribution.from_rows([([0, 1], torch.tensor([[0.9, 0.9]])[0])])",
    "dl.apply({d}, {d}, lambda a, b: a, where=[True, False, True, True, False, True, True])",
    "dl.union({d}, 3)",
]
