"""Sentential decision diagrams by PySDD: a compiler in C, for one order or a tree of variables.

A column is a variable, true where the column holds. Of an exclusive group the columns that occur
and "none of these" get a variable each, and "exactly one of them" is joined to everything from the
start: what contradicts it never takes room. A column weighs its probability, and its negation 1:
then no variable of a group is ever free, so the sum over all models needs no smoothing. A column
that occurs alone weighs p, and its negation 1 - p.

Variables in a row (`right`) make decision diagrams, in which intermediate results of a recursion
stay small. A balanced tree of variables makes circuits of few levels, which are faster to evaluate.
"""

from __future__ import annotations

import gc
import importlib.util
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from typing import Any, Literal, TypeVar

from dolphin.provenance.exact.circuits import Circuit, Sketch
from dolphin.provenance.exact.diagrams import Budget, TooLargeError, last_uses
from dolphin.provenance.exact.formulas import AND, FACT, FALSE, FLATTEN, NOT, TRUE, FormulaTable
from dolphin.provenance.exact.ordering import Order

Shape = Literal["right", "balanced"]
Column = tuple[int, int]
Made = TypeVar("Made")

# Joining two diagrams takes time up to the product of their sizes, and can't be interrupted.
TRIAL = 5.0  # seconds for trying an order
LARGEST_PRODUCT = 2_000_000_000
LONGEST_ROW = 1000  # variables
SHORT_ROW = 60  # variables that fit into the stack of any thread
LEVEL_BYTES = 128 * 1024  # of the stack, for each variable of a row: PySDD takes up to 45 kB
ROOM = 10  # times as many nodes as allowed may exist on the way: PySDD's are small and quick


def available() -> bool:
    """Whether PySDD is installed."""
    return importlib.util.find_spec("pysdd") is not None


def with_room(variables: int, work: Callable[[], Made]) -> Made:
    """The result of a function that compiles rows of at most this many variables.

    PySDD recurses along a row: 185 variables overflow the usual stack of 8 MB, which ends the
    process. So long rows are compiled in a thread with a larger stack. The caller holds the lock
    of the formulas, so the thread must not run finalizers, which may ask for it.
    """
    if variables <= SHORT_ROW:
        return work()
    outcome: Future[Made] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    collecting = gc.isenabled()
    gc.disable()
    try:
        thread = _started(run, LEVEL_BYTES * min(variables, LONGEST_ROW))
        try:
            thread.join()
        except BaseException:  # interrupted: what it works on must not be used before it ends
            thread.join()
            raise
    finally:
        if collecting:
            gc.enable()
    return outcome.result()


def _started(run: Callable[[], None], stack: int) -> threading.Thread:
    before = threading.stack_size(stack)
    try:
        thread = threading.Thread(target=run, name="dolphin-compiling", daemon=True)
        thread.start()
    finally:
        threading.stack_size(before)
    return thread


class Sentential:
    """Diagrams of formulas over some columns, in one tree of variables."""

    def __init__(self, order: Order, used: Collection[tuple[int, ...]], shape: Shape) -> None:
        from pysdd.sdd import SddManager, Vtree

        self.used = frozenset(used)
        self._variable: dict[tuple[int, ...], int] = {}
        self._columns: dict[int, tuple[int, tuple[int, ...]]] = {}  # of "none of these"
        self._alone: set[int] = set()
        exclusive: list[list[int]] = []
        for position, columns in order:
            kept = tuple(c for c in columns if (position, c) in self.used)
            if kept:
                exclusive.append(self._declare(position, kept))
        count = len(self._variable) + len(self._columns)
        if shape == "right" and count > LONGEST_ROW:
            raise TooLargeError(f"has {count:,} variables in a row, more than {LONGEST_ROW}")
        self.manager = SddManager.from_vtree(Vtree(max(1, count), vtree_type=shape))
        true = self.manager.true()
        for variables in reversed([each for each in exclusive if len(each) > 1]):
            true = true & self._one(variables)
        true.ref()
        self.true = true
        self._nodes: dict[int, Any] = {FALSE: self.manager.false(), TRUE: true}

    def _declare(self, position: int, columns: tuple[int, ...]) -> list[int]:
        """Variables for the columns of a group that occur."""
        first = len(self._variable) + len(self._columns) + 1
        variables = list(range(first, first + len(columns)))
        for variable, column in zip(variables, columns, strict=True):
            self._variable[position, column] = variable
        if len(columns) == 1:
            self._alone.add(first)
            return variables
        self._columns[first + len(columns)] = (position, columns)
        return [*variables, first + len(columns)]

    def _one(self, variables: Sequence[int]) -> Any:
        """Exactly one of the variables holds."""
        none, one = self.manager.true(), self.manager.false()
        for variable in reversed(variables):
            yes, no = self.manager.literal(variable), self.manager.literal(-variable)
            one = (yes & none) | (no & one)
            none = no & none
        return one

    # -- formulas ----------------------------------------------------------------------------------

    def knows(self, roots: Iterable[int]) -> bool:
        """Whether these formulas are compiled already."""
        return all(root in self._nodes for root in roots)

    def compile(self, table: FormulaTable, roots: Sequence[int], budget: Budget) -> list[Any]:
        """The node of each formula. Diagrams of earlier roots stay until others are compiled."""
        nodes = self._nodes
        parts = table.reachable(roots, known=nodes)
        last_use = last_uses(table, parts, roots)
        for formula in parts:
            if self.manager.count() > ROOM * budget.nodes * 9 // 10:
                for old in [f for f in nodes if f > TRUE and last_use.get(f, 0) < formula]:
                    nodes.pop(old).deref()
                self.manager.garbage_collect()
            node = self._made(table, formula, budget)
            node.ref()
            nodes[formula] = node
        return [nodes[root] for root in roots]

    def _made(self, table: FormulaTable, formula: int, budget: Budget) -> Any:
        kind, parts = table.kinds[formula], table.parts[formula]
        if kind == FACT:
            return self._join(self.manager.conjoin, self.literal(parts), self.true, budget)
        if kind == NOT:
            opposite = self.manager.negate(self._nodes[parts[0]])
            return self._join(self.manager.conjoin, opposite, self.true, budget)
        join = self.manager.conjoin if kind == AND else self.manager.disjoin
        return self._fold(join, [self._nodes[part] for part in parts], budget)

    def literal(self, column: tuple[int, ...]) -> Any:
        """This column holds."""
        return self.manager.literal(self._variable[column])

    def _fold(self, join: Any, nodes: list[Any], budget: Budget) -> Any:
        if len(nodes) <= FLATTEN:  # one after the other: PySDD knows the first few from last time
            result = nodes[0]
            for node in nodes[1:]:
                result = self._join(join, result, node, budget)
            return result
        while len(nodes) > 1:
            nodes = sorted(nodes, key=lambda node: node.size())
            pairs = zip(nodes[::2], nodes[1::2], strict=False)
            joined = [self._join(join, a, b, budget) for a, b in pairs]
            nodes = joined + nodes[len(joined) * 2 :]
        return nodes[0]

    def _join(self, join: Callable[[Any, Any], Any], a: Any, b: Any, budget: Budget) -> Any:
        if a.size() * b.size() > min(LARGEST_PRODUCT, 5000 * budget.nodes):
            raise TooLargeError(f"has to join diagrams of {a.size():,} and {b.size():,} elements")
        result = join(a, b)
        budget.check(self.manager.count() // ROOM)
        return result

    def progress(self, table: FormulaTable, roots: Sequence[int], nodes: int) -> int:
        """How many formulas are compiled by the time there are this many nodes."""
        parts = table.reachable(roots, known=self._nodes)
        for done, formula in enumerate(parts):
            if self.manager.count() > nodes:
                return done
            self._nodes[formula] = self._made(table, formula, Budget(nodes, TRIAL))
            self._nodes[formula].ref()
        return len(parts)

    # -- circuits ----------------------------------------------------------------------------------

    def circuit(self, tops: Sequence[Any], budget: Budget) -> Circuit:
        """The circuit of these nodes."""
        budget.check(sum(top.count() for top in tops) // max(1, len(tops)))
        sketch, values = Sketch(), {}
        return sketch.finish([self._value(top, sketch, values) for top in tops])

    def _weight(self, literal: int, sketch: Sketch) -> int:
        if literal < 0 and -literal not in self._alone:
            return TRUE
        if literal in self._columns:
            return sketch.rest(*self._columns[literal])
        position, column = self._column_of[abs(literal)]
        return sketch.fact(position, column) if literal > 0 else sketch.rest(position, (column,))

    @property
    def _column_of(self) -> dict[int, Column]:
        return {variable: (c[0], c[1]) for c, variable in self._variable.items()}

    def _value(self, top: Any, sketch: Sketch, values: dict[int, int]) -> int:
        """The value of the sketch for a node, and before it for all nodes below."""
        waiting = [top]
        while waiting:
            node = waiting[-1]
            if node.id in values:
                waiting.pop()
            elif node.is_decision():
                elements = [(p, s) for p, s in node.elements() if not s.is_false()]
                below = [n for pair in elements for n in pair if n.id not in values]
                if below:
                    waiting.extend(below)
                    continue
                pairs = [(values[p.id], values[s.id]) for p, s in elements]
                values[node.id] = sketch.sum_of_products(pairs) if pairs else FALSE
            elif node.is_literal():
                values[node.id] = self._weight(node.literal, sketch)
            else:
                values[node.id] = TRUE if node.is_true() else FALSE
        return values[top.id]

    def of_circuit(self, circuit: Circuit, budget: Budget) -> list[Any]:
        """The nodes of a circuit's roots: the same functions, in this tree of variables."""
        conjoin, disjoin = self.manager.conjoin, self.manager.disjoin
        values = [self.manager.false(), self.true]
        values += [self._join(conjoin, self.literal(c), self.true, budget) for c in circuit.facts]
        for position, columns in circuit.rests:
            none = self.true
            for column in columns:
                denied = self.manager.negate(self.literal((position, column)))
                none = self._join(conjoin, none, denied, budget)
            values.append(none)
        for level in circuit.levels:
            nodes: dict[int, Any] = {}
            triples = zip(*(a.tolist() for a in (level.left, level.right, level.node)), strict=True)
            for left, right, node in triples:
                both = self._join(conjoin, values[left], values[right], budget)
                nodes[node] = (
                    self._join(disjoin, nodes[node], both, budget) if node in nodes else both
                )
            values += [nodes[node] for node in sorted(nodes)]
        return [values[place] for place in circuit.places.tolist()]


def used_columns(table: FormulaTable, roots: Iterable[int]) -> set[tuple[int, ...]]:
    """The facts behind some formulas."""
    return {table.parts[f] for f in table.reachable(roots) if table.kinds[f] == FACT}


def balanced(circuit: Circuit, order: Order, budget: Budget) -> Circuit:
    """The same functions as a circuit of fewer levels."""
    used = {*circuit.facts, *((p, c) for p, columns in circuit.rests for c in columns)}
    diagrams = Sentential(order, used, "balanced")
    return diagrams.circuit(diagrams.of_circuit(circuit, budget), budget)
