"""All provenances, the same algebras once more in plain Python, and the laws that they may keep."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import torch

import dolphin as dl
import oracles
from dolphin.provenance import (
    Exact,
    Frank,
    SchweizerSklar,
    TopKProofs,
    Yager,
    get_provenance,
    provenance_names,
)
from dolphin.provenance.contract import Provenance
from programs import Program

NAMES = provenance_names()
LAYOUTS = ["shared", "rows"]
WITHOUT_GRADIENT = {"boolean", "counting"}
EXACT = [Exact(compiler="diagrams"), Exact(), TopKProofs(k=9, wmc="exact")]

# The programs that must run under every provenance as they are.
COMMON = [
    "sum_of_two", "equals_itself", "closure_of_chain", "closure_of_cycle", "three_symbol_formula",
    "at_least_two_of_five",
]  # fmt: skip


def provenance_of(name: str) -> Provenance:
    return get_provenance(name, k=8) if name.startswith("dtkp") else get_provenance(name)


def inputs_of(program: Program, probs, provenance, layout: str) -> list[dl.Distribution]:
    made = []
    for p, shape in zip(probs, program.shapes, strict=True):
        exclusive = shape.exclusive
        if not isinstance(exclusive, bool):
            exclusive = [list(group) for group in exclusive]
        options = {"exclusive": exclusive, "provenance": provenance}
        if layout == "shared":
            made.append(dl.Distribution(p, list(shape.symbols), **options))
        else:
            rows = [(list(shape.symbols), row) for row in p]
            made.append(dl.Distribution.from_rows(rows, **options))
    return made


def outcome(program: Program, probs, provenance, layout: str, symbols=None) -> torch.Tensor:
    result = program(dl, *inputs_of(program, probs, provenance, layout))
    return dl.get_probs(result, symbols=list(result.symbols) if symbols is None else symbols)


# ------------------------------------------------------------------------ the same algebras again


class Numbers:
    """An algebra of numbers for the interpreter of oracles.py, from textbook formulas."""

    def __init__(self, plus, times, one=1.0, start=lambda p: p):
        self.plus, self.times, self.one, self.start = plus, times, one, start

    def on(self, inputs):
        self.facts = oracles.Facts(inputs)
        return self

    def tag_of(self, fact):
        return self.start(float(self.facts.probs[fact]))

    def negate(self, a):
        return 1.0 - a

    def saturated(self, before, after):
        return before.symbols == after.symbols


def dual(norm):
    return lambda a, b: 1.0 - norm(1.0 - a, 1.0 - b)


def hamacher(a, b):
    return 0.0 if a == b == 0 else a * b / (a + b - a * b)


def nilpotent(a, b):
    return min(a, b) if a + b > 1 + 1e-12 else 0.0


def yager(a, b):
    return max(0.0, 1.0 - math.sqrt((1 - a) ** 2 + (1 - b) ** 2))


def schweizer_sklar(a, b):
    return 0.0 if min(a, b) == 0 else (a**-2 + b**-2 - 1.0) ** -0.5


def frank(a, b):
    return math.log(1.0 + (10**a - 1) * (10**b - 1) / 9.0, 10)


def product(a, b):
    return a * b


NUMBERS = {
    "damp": Numbers(lambda a, b: min(1.0, a + b), product),
    "min-max": Numbers(max, min),
    "noisy-or": Numbers(lambda a, b: a + b - a * b, product),
    "lukasiewicz": Numbers(lambda a, b: min(1.0, a + b), lambda a, b: max(0.0, a + b - 1.0)),
    "viterbi": Numbers(max, product),
    "hamacher": Numbers(dual(hamacher), hamacher),
    "nilpotent": Numbers(dual(nilpotent), nilpotent),
    "yager": Numbers(dual(yager), yager),
    "schweizer-sklar": Numbers(dual(schweizer_sklar), schweizer_sklar),
    "frank": Numbers(dual(frank), frank),
    "boolean": Numbers(max, min, start=lambda p: float(p > 0)),
    "counting": Numbers(lambda a, b: a + b, product, start=lambda p: float(p > 0)),
}

# A value at a + b = 1, where the nilpotent minimum jumps, depends on the last bit.
JUMPS = {"nilpotent"}


FAMILIES = [
    *(provenance_of(name) for name in NAMES),
    dl.DAMP(above_one="pass"), dl.TopKProofs(k=1), dl.TopKProofs(k=2, wmc="exact"),
    Yager(p=1), Yager(p=7.5), SchweizerSklar(p=1), SchweizerSklar(p=0), SchweizerSklar(p=0.5),
    SchweizerSklar(p=-1), SchweizerSklar(p=-30), Frank(s=0.01), Frank(s=1), Frank(s=1000),
]  # fmt: skip


# -- laws


class Algebra:
    """⊕, ⊗, **0**, **1** and ¬ of a provenance, as distributions over the one symbol "x"."""

    def __init__(self, provenance, layout: str):
        self.provenance, self.layout = provenance, layout
        self.made: dict[Callable[[Algebra], list[Triple]], list[Triple]] = {}

    def triples(self, make: Callable[[Algebra], list[Triple]]) -> list[Triple]:
        """What laws are tried on, made once for all laws."""
        if make not in self.made:
            self.made[make] = make(self)
        return self.made[make]

    def fact(self, probs) -> dl.Distribution:
        probs = torch.as_tensor(probs, dtype=torch.float64)
        if self.layout == "rows":
            rows = [(["x"], p.view(1)) for p in probs]
            return dl.Distribution.from_rows(rows, provenance=self.provenance)
        return dl.Distribution(probs.view(-1, 1), ["x"], provenance=self.provenance)

    @cached_property
    def one(self):
        return dl.Distribution.certain("x", provenance=self.provenance)

    @cached_property
    def zero(self):
        return dl.filter(self.one, lambda x: False)

    def plus(self, *elements):
        return dl.union(*elements)

    def times(self, *elements):
        return dl.apply(*elements, lambda *xs: "x")

    def neg(self, element):
        return dl.negate(element)

    def value(self, element) -> torch.Tensor:
        return dl.get_probs(element, symbols=["x"])[:, 0].double()


LAWS = {
    "commutative": lambda A, a, b, c: [
        (A.plus(a, b), A.plus(b, a)),
        (A.times(a, b), A.times(b, a)),
    ],
    "associative": lambda A, a, b, c: [
        (A.plus(A.plus(a, b), c), A.plus(a, A.plus(b, c))),
        (A.times(A.times(a, b), c), A.times(a, A.times(b, c))),
        (A.plus(A.plus(a, b), c), A.plus(a, b, c)),
        (A.times(A.times(a, b), c), A.times(a, b, c)),
    ],
    "identities": lambda A, a, b, c: [
        (A.plus(a, A.zero), a),
        (A.times(a, A.one), a),
        (A.plus(a, A.fact([0.0])), a),
        (A.times(a, A.fact([1.0])), a),
    ],
    "annihilation": lambda A, a, b, c: [
        (A.times(a, A.zero), A.zero),
        (A.times(a, A.fact([0.0])), A.zero),
    ],
    "distributive": lambda A, a, b, c: [
        (A.times(a, A.plus(b, c)), A.plus(A.times(a, b), A.times(a, c)))
    ],
    "idempotent-add": lambda A, a, b, c: [(A.plus(a, a), a)],
    "idempotent-mul": lambda A, a, b, c: [(A.times(a, a), a)],
    "absorption": lambda A, a, b, c: [(A.plus(a, A.times(a, b)), a)],
    "one-absorbs": lambda A, a, b, c: [(A.plus(a, A.one), A.one)],
    "double-negation": lambda A, a, b, c: [(A.neg(A.neg(a)), a)],
    "excluded-middle": lambda A, a, b, c: [(A.plus(a, A.neg(a)), A.one)],
    "contradiction": lambda A, a, b, c: [(A.times(a, A.neg(a)), A.zero)],
    "de-morgan": lambda A, a, b, c: [
        (A.neg(A.plus(a, b)), A.times(A.neg(a), A.neg(b))),
        (A.neg(A.times(a, b)), A.plus(A.neg(a), A.neg(b))),
    ],
    "negated-zero": lambda A, a, b, c: [(A.neg(A.fact([0.0])), A.one)],
}
NEEDS_NEGATION = {
    "double-negation",
    "excluded-middle",
    "contradiction",
    "de-morgan",
    "negated-zero",
}


Triple = tuple[dl.Distribution, dl.Distribution, dl.Distribution]


def facts(algebra: Algebra, least: float, most: float) -> list[Triple]:
    """Triples of facts as they come from inputs."""
    generator = torch.Generator().manual_seed(1)
    x, y, z = (
        algebra.fact(least + (most - least) * torch.rand(4, generator=generator).double())
        for _ in range(3)
    )
    return [(x, y, z), (x, x, y)]


def small_facts(algebra: Algebra) -> list[Triple]:
    """Facts whose sums stay below 1."""
    return facts(algebra, 0.0, 0.3)


def elements(algebra: Algebra) -> list[Triple]:
    """Triples of facts, and of things derived from facts that they share."""
    alone = facts(algebra, 0.05, 0.95)
    x, y, z = alone[0]
    return [
        *alone,
        (algebra.plus(x, y), algebra.times(x, z), y),
        (algebra.times(x, y), algebra.plus(y, z), algebra.plus(x, z)),
        (algebra.plus(algebra.times(x, y), z), x, algebra.times(x, y, z)),
    ]


def keeps(
    algebra: Algebra, law: str, triples: Callable[[Algebra], list[Triple]] = elements
) -> bool:
    for triple in algebra.triples(triples):
        for left, right in LAWS[law](algebra, *triple):
            pair = torch.broadcast_tensors(algebra.value(left), algebra.value(right))
            if not torch.allclose(*pair, atol=1e-9):
                return False
    return True
