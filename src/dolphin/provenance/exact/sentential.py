"""Sentential decision diagrams by PySDD: the compiler for formulas that need a tree of variables.

A column is a variable, true where the column holds. In an exclusive group the columns that occur
and "none of these" get a variable each, and the formula is joined with "exactly one of them". The
weight of a column is its probability, that of its negation 1: then no variable of a group is ever
free, so the sum over all models needs no smoothing. A column that occurs alone has the weight p,
and its negation 1 - p.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any

from dolphin.provenance.exact.circuits import Circuit, Sketch
from dolphin.provenance.exact.diagrams import Budget, TooLargeError
from dolphin.provenance.exact.formulas import AND, FACT, FALSE, NOT, TRUE, FormulaTable
from dolphin.provenance.exact.ordering import Order

# Joining two diagrams takes time up to the product of their sizes, and can't be interrupted.
LARGEST_PRODUCT = 2_000_000_000


def available() -> bool:
    """Whether PySDD is installed."""
    return importlib.util.find_spec("pysdd") is not None


def compile_sentential(
    table: FormulaTable, roots: Sequence[int], order: Order, budget: Budget
) -> Circuit:
    """The circuit of these formulas."""
    return _Compilation(table, roots, order, budget).circuit()


class _Compilation:
    def __init__(
        self,
        table: FormulaTable,
        roots: Sequence[int],
        order: Order,
        budget: Budget,
    ) -> None:
        from pysdd.sdd import SddManager, Vtree

        self.table, self.roots, self.budget = table, roots, budget
        self.parts = table.reachable(roots)
        used = {table.parts[f] for f in self.parts if table.kinds[f] == FACT}
        self.sketch = Sketch()
        self.variable: dict[tuple[int, int], int] = {}
        self.weights: dict[int, int] = {}  # literal → value of the sketch
        self.exclusive: list[list[int]] = []
        for position, columns in order:
            self._declare(position, tuple(c for c in columns if (position, c) in used))
        count = max(map(abs, self.weights), default=1)
        self.manager = SddManager.from_vtree(Vtree(count, vtree_type="balanced"))
        self.nodes: dict[int, Any] = {FALSE: self.manager.false(), TRUE: self.manager.true()}

    def _declare(self, position: int, columns: tuple[int, ...]) -> None:
        """Variables for the columns of a group that occur."""
        if not columns:
            return
        new = len(self.weights) // 2 + 1
        for column in columns:
            self.variable[position, column] = new
            self.weights[new] = self.sketch.fact(position, column)
            self.weights[-new] = TRUE
            new += 1
        if len(columns) == 1:
            self.weights[-(new - 1)] = self.sketch.rest(position, columns)
            return
        self.weights[new] = self.sketch.rest(position, columns)
        self.weights[-new] = TRUE
        self.exclusive.append(list(range(new - len(columns), new + 1)))

    def circuit(self) -> Circuit:
        for formula in self.parts:
            if formula <= TRUE:
                continue
            kind, parts = self.table.kinds[formula], self.table.parts[formula]
            if kind == FACT:
                made = self.manager.literal(self.variable[parts[0], parts[1]])
            elif kind == NOT:
                made = self.manager.negate(self.nodes[parts[0]])
            else:
                join = self.manager.conjoin if kind == AND else self.manager.disjoin
                made = self._fold(join, [self.nodes[part] for part in parts])
            self.nodes[formula] = made
        exactly_one = self._fold(self.manager.conjoin, [self._one(vs) for vs in self.exclusive])
        tops = [self.nodes[root] for root in self.roots]
        if exactly_one is not None:
            tops = [self._join(self.manager.conjoin, top, exactly_one) for top in tops]
        known: dict[int, int] = {}
        return self.sketch.finish([self._value(top, known) for top in tops])

    def _one(self, variables: Sequence[int]) -> Any:
        """Exactly one of the variables holds."""
        none, one = self.manager.true(), self.manager.false()
        for variable in reversed(variables):
            yes, no = self.manager.literal(variable), self.manager.literal(-variable)
            one = (yes & none) | (no & one)
            none = no & none
        return one

    def _fold(self, join: Any, nodes: list[Any]) -> Any:
        while len(nodes) > 1:
            nodes = sorted(nodes, key=lambda node: node.size())
            pairs = zip(nodes[::2], nodes[1::2], strict=False)
            joined = [self._join(join, a, b) for a, b in pairs]
            nodes = joined + nodes[len(joined) * 2 :]
        return nodes[0] if nodes else None

    def _join(self, join: Any, a: Any, b: Any) -> Any:
        if a.size() * b.size() > LARGEST_PRODUCT:
            raise TooLargeError(f"has to join diagrams of {a.size():,} and {b.size():,} elements")
        made = join(a, b)
        self.budget.check(self.manager.count())
        return made

    def _value(self, top: Any, known: dict[int, int]) -> int:
        """The value of the sketch for a node; all nodes below it come first."""
        waiting = [top]
        while waiting:
            node = waiting[-1]
            if node.id in known:
                waiting.pop()
            elif node.is_decision():
                elements = [(p, s) for p, s in node.elements() if not s.is_false()]
                below = [n for pair in elements for n in pair if n.id not in known]
                if below:
                    waiting.extend(below)
                    continue
                pairs = [(known[p.id], known[s.id]) for p, s in elements]
                known[node.id] = self.sketch.sum_of_products(pairs) if pairs else FALSE
            elif node.is_literal():
                known[node.id] = self.weights[node.literal]
            else:
                known[node.id] = TRUE if node.is_true() else FALSE
        return known[top.id]
