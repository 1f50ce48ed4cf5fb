"""Counts: circuits that are read off formulas, because those are sums of products already.

How many of n facts hold is folded as a tree: a state of a node is an "or" of pairs of states of its
halves. No two of the pairs can hold together, and the halves refer to different facts. So the "or"
is a sum and the "and" a product, and n² of them count n facts. Compiled without this knowledge,
every pair would become a diagram of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dolphin.provenance.exact.circuits import Circuit, Sketch
from dolphin.provenance.exact.formulas import AND, FACT, FALSE, NOT, OR, TRUE, FormulaTable
from dolphin.provenance.exact.ordering import Groups

SMALL = 16  # groups that a part may refer to if it is compiled by itself

Compile = Callable[[Sequence[int], Sketch], Sequence[int]]
"""Formulas to values of a sketch."""


def counted(
    table: FormulaTable, roots: Sequence[int], groups: Groups, compile_others: Compile
) -> Circuit | None:
    """The circuit of formulas that are sums of products; None if these are not.

    What is neither a sum nor a product is compiled by itself, if it is small.
    """
    formulas = table.reachable(roots)
    if not any(formula in table.exclusive for formula in formulas):
        return None
    support = _supports(table, formulas, groups)
    needed, others = _needed(table, roots, support)
    counts = {f for f in needed if f not in others and f in table.exclusive}
    if not counts or any(_is_large(table, f, support) for f in others):
        return None
    sketch = Sketch()
    value = dict(zip(others, compile_others(others, sketch), strict=True))
    value |= {FALSE: FALSE, TRUE: TRUE}
    for formula in sorted(needed):
        if formula in value:
            continue
        kind, parts = table.kinds[formula], table.parts[formula]
        if kind == FACT:
            value[formula] = sketch.fact(parts[0], parts[1])
        elif kind == NOT:
            position, column = table.parts[parts[0]]
            value[formula] = sketch.rest(position, (column,))
        elif kind == OR:
            pairs = [_pair(table, sketch, part, value) for part in parts]
            value[formula] = sketch.sum_of_products(pairs)
    return sketch.finish([_value(table, sketch, root, value) for root in roots])


def _supports(table: FormulaTable, formulas: Sequence[int], groups: Groups) -> dict[int, int]:
    """The groups that formulas refer to, as the bits of a number."""
    number: dict[tuple[int, ...], int] = {}
    every = ((position, group) for position, each in enumerate(groups) for group in each)
    for place, (position, group) in enumerate(every):
        number.update({(position, column): 1 << place for column in group})
    support = {FALSE: 0, TRUE: 0}
    for formula in formulas:
        kind, parts = table.kinds[formula], table.parts[formula]
        if kind == FACT:
            support[formula] = number[parts[0], parts[1]]
        elif formula > TRUE:
            bits = 0
            for part in parts:
                bits |= support[part]
            support[formula] = bits
    return support


def _needed(
    table: FormulaTable, roots: Sequence[int], support: dict[int, int]
) -> tuple[set[int], list[int]]:
    """Everything that sums and products are made of, and which of it is neither."""
    needed: set[int] = set()
    others: list[int] = []
    waiting = list(roots)
    while waiting:
        formula = waiting.pop()
        if formula <= TRUE or formula in needed:
            continue
        needed.add(formula)
        kind, parts = table.kinds[formula], table.parts[formula]
        if kind == FACT or (kind == NOT and table.kinds[parts[0]] == FACT):
            continue
        if formula in table.exclusive or (kind == AND and _apart(parts, support)):
            waiting.extend(parts)
        else:
            others.append(formula)
    return needed, sorted(others)


def _apart(parts: Sequence[int], support: dict[int, int]) -> bool:
    seen = 0
    for part in parts:
        if seen & support[part]:
            return False
        seen |= support[part]
    return True


def _is_large(table: FormulaTable, formula: int, support: dict[int, int]) -> bool:
    """Whether a formula has counts inside, over many groups: then all is compiled as one."""
    if support[formula].bit_count() <= SMALL:
        return False
    return any(part in table.exclusive for part in table.reachable([formula]))


def _value(table: FormulaTable, sketch: Sketch, formula: int, value: dict[int, int]) -> int:
    """The value of a formula; products are made when they are needed as such."""
    if formula not in value:
        parts = table.parts[formula]
        value[formula] = _product(sketch, [_value(table, sketch, each, value) for each in parts])
    return value[formula]


def _product(sketch: Sketch, values: Sequence[int]) -> int:
    """As a balanced tree, so that many factors take few levels."""
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=False)
        joined = [sketch.sum_of_products([pair]) for pair in pairs]
        values = [*joined, *values[len(joined) * 2 :]]
    return values[0]


def _pair(table: FormulaTable, sketch: Sketch, part: int, value: dict[int, int]) -> tuple[int, int]:
    """A part of a sum as a product of two values, without a level of its own where it is one."""
    factors = table.parts[part]
    if table.kinds[part] == AND and part not in value and len(factors) == 2:
        left, right = (_value(table, sketch, each, value) for each in factors)
        return left, right
    return _value(table, sketch, part, value), TRUE
