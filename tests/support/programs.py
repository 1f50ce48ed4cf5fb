"""Small programs, each written once and run under every evaluator of the suite.

A program takes the operations and its inputs; `ops` is `dolphin` itself, an interpreter of
`oracles.py`, or the dense evaluator of `literal.py`.
"""

from __future__ import annotations

import math
import operator
from collections import namedtuple
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Shape:
    """Everything about an input but its numbers."""

    symbols: tuple[Hashable, ...]
    exclusive: bool | tuple[tuple[int, ...], ...] = True


@dataclass(frozen=True)
class Program:
    name: str
    run: Callable[..., Any]
    shapes: tuple[Shape, ...]
    damp_is_exact: bool = False  # summands exclude each other and factors are independent
    negates: bool = False
    recursive: bool = False

    def __call__(self, ops: Any, *inputs: Any) -> Any:
        return self.run(ops, *inputs)


PROGRAMS: list[Program] = []


def program(*shapes: Shape, **flags: bool) -> Callable[[Callable], Callable]:
    def register(run: Callable) -> Callable:
        PROGRAMS.append(Program(run.__name__, run, shapes, **flags))
        return run

    return register


DIGIT = Shape((0, 1, 2))
WIDE = Shape((0, 1, 2, 3, 4))
COIN = Shape((False, True))
LETTER = Shape(("a", "b"))

Edge = namedtuple("Edge", ["x", "y"])
CHAIN = Shape((Edge(0, 1), Edge(1, 2), Edge(2, 3), Edge(0, 2)), exclusive=False)
CYCLE = Shape((Edge(0, 1), Edge(1, 2), Edge(2, 0), Edge(1, 0)), exclusive=False)
ALARMS = Shape(("burglary", "earthquake", "test"), exclusive=False)
# One input with two softmax heads: a shape and a colour, of which one each holds.
FIGURE = Shape(("square", "disc", "red", "blue"), exclusive=((0, 1), (2, 3)))


@program(DIGIT, damp_is_exact=True)
def identity(ops, a):
    return ops.apply(a, lambda x: x)


@program(WIDE, damp_is_exact=True)
def many_to_one(ops, a):
    return ops.apply(a, lambda x: x % 2 == 0)


@program(WIDE, damp_is_exact=True)
def constant(ops, a):
    return ops.apply(a, lambda x: "anything")


@program(DIGIT, DIGIT, damp_is_exact=True)
def sum_of_two(ops, a, b):
    return ops.apply(a, b, lambda x, y: x + y)


@program(DIGIT, DIGIT, DIGIT, damp_is_exact=True)
def sum_in_a_chain(ops, a, b, c):
    return ops.apply(ops.apply(a, b, operator.add), c, operator.add)


@program(DIGIT, DIGIT, DIGIT, damp_is_exact=True)
def sum_at_once(ops, a, b, c):
    return ops.apply(a, b, c, lambda x, y, z: x + y + z)


@program(COIN, COIN, COIN, COIN, COIN, damp_is_exact=True)
def five_operands(ops, *coins):
    return ops.apply(*coins, lambda *faces: sum(faces))


@program(COIN, COIN, COIN, COIN, COIN, damp_is_exact=True)
def at_least_two_of_five(ops, *coins):
    count = ops.apply(coins[0], int)
    for coin in coins[1:]:
        count = ops.apply(count, coin, lambda n, face: min(2, n + face))
    return ops.apply(count, lambda n: n >= 2)


@program(DIGIT, DIGIT, damp_is_exact=True)
def product_of_two(ops, a, b):
    return ops.apply(a, b, operator.mul)


@program(COIN, COIN, COIN, damp_is_exact=True)
def parity(ops, a, b, c):
    return ops.apply(ops.apply(a, b, operator.xor), c, operator.xor)


@program(DIGIT, DIGIT, DIGIT, damp_is_exact=True)
def largest(ops, a, b, c):
    return ops.apply(a, b, c, max)


@program(WIDE)
def equals_itself(ops, a):
    return ops.apply(a, a, lambda x, y: x == y)


@program(DIGIT, DIGIT)
def minus_what_was_added(ops, a, b):
    return ops.apply(ops.apply(a, b, operator.add), a, operator.sub)


@program(DIGIT)
def thrice_the_same(ops, a):
    return ops.apply(a, a, a, lambda x, y, z: x + y + z)


@program(COIN, DIGIT, DIGIT, damp_is_exact=True)
def if_then_else(ops, which, a, b):
    return ops.apply(which, a, b, lambda w, x, y: x if w else y)


@program(WIDE, DIGIT, damp_is_exact=True)
def filtered_sum(ops, a, b):
    return ops.apply(ops.filter(a, lambda x: x % 2 == 0), b, operator.add)


@program(DIGIT, DIGIT, damp_is_exact=True)
def ordered_pairs(ops, a, b):
    return ops.apply_if(a, b, lambda x, y: (x, y), lambda x, y: x < y)


@program(DIGIT, DIGIT, DIGIT, damp_is_exact=True)
def conditional_of_three(ops, a, b, c):
    return ops.apply_if(a, b, c, lambda x, y, z: x * 10 + z, lambda x, y, z: x != y)


@program(WIDE, WIDE, damp_is_exact=True)
def joined_by_key(ops, a, b):
    return ops.apply_if(a, b, lambda x, y: (x, y), on=(lambda x: x % 2, lambda y: y // 3))


@program(DIGIT, WIDE)
def union_of_two(ops, a, b):
    return ops.union(a, b)


@program(DIGIT, WIDE, ALARMS)
def union_of_three(ops, a, b, c):
    return ops.union(a, b, c)


@program(DIGIT)
def union_with_itself(ops, a):
    return ops.union(a, a)


@program(DIGIT, DIGIT)
def redundant_derivation(ops, a, b):
    """ "a is x" and "a is x and b is y" together prove no more than "a is x" does."""
    return ops.union(a, ops.apply(a, b, lambda x, y: x))


@program(LETTER, DIGIT)
def mixed_symbols(ops, a, b):
    return ops.union(ops.apply(a, b, lambda x, y: x * y), ops.apply(b, lambda y: y or None))


@program(DIGIT, DIGIT, damp_is_exact=True)
def division(ops, a, b):
    return ops.apply(a, b, lambda x, y: x / y if y else math.nan)


@program(LETTER, LETTER, LETTER, damp_is_exact=True)
def sorted_word(ops, a, b, c):
    word = ops.apply(ops.apply(a, b, operator.add), c, operator.add)
    return ops.apply(word, lambda w: "".join(sorted(w)))


@program(DIGIT, Shape(("+", "-", "*")), DIGIT, damp_is_exact=True)
def three_symbol_formula(ops, a, sign, b):
    signs = {"+": operator.add, "-": operator.sub, "*": operator.mul}
    return ops.apply(a, sign, b, lambda x, s, y: signs[s](x, y))


@program(DIGIT, DIGIT, damp_is_exact=True)
def nothing_left(ops, a, b):
    return ops.apply_if(a, b, lambda x, y: x + y, lambda x, y: x + y > 100)


@program(ALARMS, Shape((("burglary", "rings"), ("earthquake", "rings")), exclusive=False))
def alarm(ops, causes, rules):
    """Either cause may set off the alarm, each through a rule that may fail."""
    return ops.apply_if(causes, rules, lambda c, r: r[1], lambda c, r: c == r[0])


@program(FIGURE)
def shape_and_colour(ops, figure):
    return ops.apply(figure, figure, lambda x, y: tuple(sorted((x, y))))


@program(FIGURE, COIN)
def grouped_with_another(ops, figure, coin):
    return ops.apply_if(figure, coin, lambda x, face: x if face else "hidden", lambda x, f: True)


@program(CHAIN)
def two_hops(ops, edges):
    return ops.apply_if(edges, edges, lambda p, q: Edge(p.x, q.y), lambda p, q: p.y == q.x)


def closure(ops, edges):
    """The paper's transitive closure: recursion in Python, compared by symbols."""

    def compute_paths(paths):
        new_paths = ops.apply_if(paths, edges, lambda p, q: Edge(p.x, q.y), lambda p, q: p.y == q.x)
        merged = ops.union(paths, new_paths)
        return merged if merged.symbols == paths.symbols else compute_paths(merged)

    return compute_paths(edges)


@program(CHAIN, recursive=True)
def closure_of_chain(ops, edges):
    return closure(ops, edges)


@program(CYCLE, recursive=True)
def closure_of_cycle(ops, edges):
    return closure(ops, edges)


def reachable(ops, edges):
    def step(paths):
        longer = ops.apply_if(
            paths, edges, lambda p, q: Edge(p.x, q.y), on=(lambda p: p.y, lambda q: q.x)
        )
        return ops.union(paths, longer)

    return ops.fixpoint(step, edges)


@program(CHAIN, recursive=True)
def fixpoint_of_chain(ops, edges):
    return reachable(ops, edges)


@program(CYCLE, recursive=True)
def fixpoint_of_cycle(ops, edges):
    return reachable(ops, edges)


@program(DIGIT, DIGIT, DIGIT, damp_is_exact=True)
def conditioned_carry(ops, a, b, c):
    """A column of an addition, conditioned on the digit that was written down."""
    total = ops.apply(a, b, c, lambda x, y, z: 3 * (x + y + z))
    return ops.apply(ops.filter(total, lambda t: t % 10 in (2, 5)), lambda t: t // 10)


@program(ALARMS, negates=True, damp_is_exact=True)
def negated(ops, causes):
    return ops.negate(causes)


@program(ALARMS, negates=True, damp_is_exact=True)
def negated_twice(ops, causes):
    return ops.negate(ops.negate(causes))


@program(ALARMS, ALARMS, negates=True)
def neither(ops, here, there):
    return ops.negate(ops.union(here, there))


BY_NAME = {p.name: p for p in PROGRAMS}
