"""Decision diagrams: the compiler that is always available.

A node tests one exclusive group of an input, whose value is one of its columns or none of them:

    (level, default, ((column, node), ...))

reads "if this column holds go there, for any other value go to `default`". Its probability is
therefore Σ P(column) · P(node there) + (1 - Σ P(column)) · P(default): exclusive groups need no
constraints, and a group that a node doesn't mention costs nothing. Groups are tested in one fixed
order, so equal formulas become equal nodes.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Collection, Iterator, Sequence

from dolphin.provenance.exact.circuits import Circuit, Sketch
from dolphin.provenance.exact.formulas import AND, FACT, FALSE, NOT, TRUE, FormulaTable
from dolphin.provenance.exact.ordering import Order

GROUND = sys.maxsize  # the level of the constants
MANY = 64  # nodes that are worth a try to join them all at once
OVERLAP = 4  # how often each node may be met at each level on the way
REMEMBERED = 1_000_000  # results of `_join` that are remembered at once


class TooLargeError(Exception):
    """A compiler gave up; the message says how far it got."""


class Budget:
    """How many nodes and how many seconds a compilation may take."""

    def __init__(self, nodes: int, seconds: float) -> None:
        self.nodes, self.seconds = nodes, seconds
        self._start = time.monotonic()

    def check(self, nodes: int) -> None:
        """Give up if there are more nodes than allowed, or time is up."""
        spent = time.monotonic() - self._start
        if nodes > self.nodes:
            raise TooLargeError(f"passed {self.nodes:,} nodes after {spent:.1f} s")
        if spent > self.seconds:
            raise TooLargeError(f"took more than {self.seconds:g} s, with {nodes:,} nodes so far")


class Diagrams:
    """Diagrams of formulas over groups that are tested in this order."""

    def __init__(self, table: FormulaTable, order: Order) -> None:
        self.table = table
        self.nodes: list[tuple[int, int, tuple[tuple[int, int], ...]]] = [
            (GROUND, FALSE, ()),
            (GROUND, TRUE, ()),
        ]
        self.order = order  # the group of each level
        self._level = {
            (position, column): level
            for level, (position, columns) in enumerate(order)
            for column in columns
        }
        self._known: dict[tuple[int, int, tuple[tuple[int, int], ...]], int] = {}
        self._of_formula: dict[int, int] = {FALSE: FALSE, TRUE: TRUE}
        self._joined: dict[tuple[int, int, int], int] = {}
        self._negated: dict[int, int] = {}
        self._steps = 0

    def compile(self, roots: Sequence[int], budget: Budget) -> list[int]:
        """The node of each formula."""
        table, of = self.table, self._of_formula
        formulas = table.reachable(roots, known=of)
        last_use = last_uses(table, formulas, roots)
        collect_at = budget.nodes // 2
        with _deep_enough(len(self.order)):
            for formula in formulas:
                if formula in of:
                    continue
                if len(self.nodes) > collect_at:
                    self._forget({f for f in of if last_use.get(f, 0) >= formula})
                    of = self._of_formula
                    collect_at = max(collect_at, 2 * len(self.nodes))
                kind, parts = table.kinds[formula], table.parts[formula]
                if kind == FACT:
                    position, column = parts
                    level = self._level[position, column]
                    of[formula] = self._make(level, FALSE, ((column, TRUE),))
                elif kind == NOT:
                    of[formula] = self._negate(of[parts[0]])
                else:
                    neutral = TRUE if kind == AND else FALSE
                    nodes = sorted({of[part] for part in parts}, key=lambda n: -self.nodes[n][0])
                    of[formula] = self._fold(nodes, neutral, budget)
                budget.check(len(self.nodes))
        return [of[root] for root in roots]

    def circuit(self, roots: Sequence[int], budget: Budget) -> Circuit:
        """The circuit of these formulas."""
        sketch = Sketch()
        return sketch.finish(self.values(roots, sketch, budget))

    def values(self, roots: Sequence[int], sketch: Sketch, budget: Budget) -> list[int]:
        """The values of these formulas, added to a sketch."""
        value = {FALSE: FALSE, TRUE: TRUE}
        tops = self.compile(roots, budget)
        for node in self.below(tops):
            level, default, cases = self.nodes[node]
            position = self.order[level][0]
            pairs = [(sketch.fact(position, c), value[n]) for c, n in cases if n != FALSE]
            if default != FALSE:
                left = sketch.rest(position, tuple(column for column, _ in cases))
                pairs.append((left, value[default]))
            value[node] = sketch.sum_of_products(pairs)
        return [value[top] for top in tops]

    def _forget(self, needed: Collection[int]) -> None:
        """Keep only the diagrams of these formulas; nodes get other numbers."""
        of = {FALSE: FALSE, TRUE: TRUE, **{f: self._of_formula[f] for f in needed}}
        live = self.below(list(of.values()))
        moved = {FALSE: FALSE, TRUE: TRUE} | {node: new for new, node in enumerate(live, TRUE + 1)}
        kept = [self.nodes[node] for node in live]
        self.nodes[TRUE + 1 :] = [
            (level, moved[default], tuple((column, moved[node]) for column, node in cases))
            for level, default, cases in kept
        ]
        self._known = {key: node for node, key in enumerate(self.nodes) if node > TRUE}
        self._of_formula = {formula: moved[node] for formula, node in of.items()}
        self._joined.clear()
        self._negated.clear()

    def below(self, tops: Sequence[int]) -> list[int]:
        """All nodes under these, each after those that it leads to."""
        seen: set[int] = set()
        waiting = list(tops)
        while waiting:
            node = waiting.pop()
            if node > TRUE and node not in seen:
                seen.add(node)
                _, default, cases = self.nodes[node]
                waiting.extend([default, *(child for _, child in cases)])
        return sorted(seen)  # nodes are created after those that they lead to

    def _fold(self, nodes: list[int], neutral: int, budget: Budget) -> int:
        """∧ or ∨ of many nodes: all at once if they are many and fall apart, else pair by pair."""
        if len(nodes) > MANY:
            whole = self._apart(neutral, nodes, budget)
            if whole is not None:
                return whole
        while len(nodes) > 1:
            pairs = zip(nodes[::2], nodes[1::2], strict=False)
            joined = [self._join(neutral, f, g, budget) for f, g in pairs]
            nodes = joined + nodes[len(joined) * 2 :]
        return nodes[0] if nodes else neutral

    def _apart(self, neutral: int, nodes: Sequence[int], budget: Budget) -> int | None:
        """∧ or ∨ of nodes that mostly decide different cases, such as all ways to get a result.

        None if they overlap too much: then pairs are joined sooner than all cases are told apart.
        100,000 combinations of five inputs take 2 instead of 18 s.
        """
        remembered: dict[frozenset[int], int] = {}
        left = OVERLAP * len(nodes) * len(self.order)

        def joined(members: frozenset[int]) -> int:
            nonlocal left
            if len(members) <= 1:
                return next(iter(members), neutral)
            if TRUE - neutral in members:
                return TRUE - neutral
            result = remembered.get(members)
            if result is not None:
                return result
            left -= len(members)
            if left < 0:
                raise _OverlapError
            budget.check(len(self.nodes))
            level = min(self.nodes[node][0] for node in members)
            here = [self.nodes[node] for node in members if self.nodes[node][0] == level]
            below = {node for node in members if self.nodes[node][0] != level}
            at: dict[int, set[int]] = {
                column: set(below) for *_, cases in here for column, _ in cases
            }
            for _, default, cases in here:
                for column, node in cases:
                    at[column].add(node)
                if default != neutral:
                    below.add(default)
                    left -= len(at)
                    for column in at.keys() - dict(cases).keys():
                        at[column].add(default)
            cases = tuple((c, joined(_without(neutral, at[c]))) for c in sorted(at))
            remembered[members] = result = self._make(
                level, joined(_without(neutral, below)), cases
            )
            return result

        try:
            return joined(_without(neutral, set(nodes)))
        except _OverlapError:
            return None

    def _make(self, level: int, default: int, cases: tuple[tuple[int, int], ...]) -> int:
        cases = tuple(case for case in cases if case[1] != default)
        if not cases:
            return default
        key = (level, default, cases)
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = len(self.nodes)
            self.nodes.append(key)
        return number

    def _join(self, neutral: int, f: int, g: int, budget: Budget) -> int:
        """f ∧ g if TRUE is neutral, f ∨ g if FALSE is."""
        if f == g or g == neutral:
            return f
        if f == neutral:
            return g
        if f <= TRUE or g <= TRUE:
            return TRUE - neutral
        key = (neutral, f, g) if f < g else (neutral, g, f)
        node = self._joined.get(key)
        if node is not None:
            return node
        self._steps += 1
        if self._steps % 2048 == 0:
            budget.check(len(self.nodes))
            if len(self._joined) > REMEMBERED:
                self._joined.clear()
        (f_level, f_default, f_cases), (g_level, g_default, g_cases) = self.nodes[f], self.nodes[g]
        level = min(f_level, g_level)
        if f_level != level:
            f_default, f_cases = f, ()
        if g_level != level:
            g_default, g_cases = g, ()
        f_at, g_at = dict(f_cases), dict(g_cases)
        default = self._join(neutral, f_default, g_default, budget)
        cases = tuple(
            (c, self._join(neutral, f_at.get(c, f_default), g_at.get(c, g_default), budget))
            for c in sorted({*f_at, *g_at})
        )
        self._joined[key] = node = self._make(level, default, cases)
        return node

    def _negate(self, f: int) -> int:
        if f <= TRUE:
            return TRUE - f
        result = self._negated.get(f)
        if result is None:
            level, default, cases = self.nodes[f]
            cases = tuple((column, self._negate(node)) for column, node in cases)
            result = self._make(level, self._negate(default), cases)
            self._negated[f], self._negated[result] = result, f
        return result


class _OverlapError(Exception):
    """Nodes have too many cases in common."""


def _without(neutral: int, nodes: set[int]) -> frozenset[int]:
    return frozenset(nodes - {neutral})


def last_uses(table: FormulaTable, formulas: Sequence[int], roots: Sequence[int]) -> dict[int, int]:
    """The last of these formulas that each formula is a part of; roots are needed to the end."""
    uses = {
        part: formula
        for formula in formulas
        for part in table.parts[formula]
        if table.kinds[formula] >= NOT
    }
    return uses | dict.fromkeys(roots, GROUND)


@contextlib.contextmanager
def _deep_enough(levels: int) -> Iterator[None]:
    """Room for a recursion through this many levels."""
    before = sys.getrecursionlimit()
    needed = 3 * levels + 1000
    if needed > before:
        sys.setrecursionlimit(needed)
    try:
        yield
    finally:
        if needed > before:
            sys.setrecursionlimit(before)
