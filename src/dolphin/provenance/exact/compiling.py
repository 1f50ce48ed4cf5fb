"""From formulas to circuits; compiled circuits are remembered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from dolphin.errors import SizeError
from dolphin.provenance.exact import sentential
from dolphin.provenance.exact.circuits import Circuit, Sketch
from dolphin.provenance.exact.counting import counted
from dolphin.provenance.exact.diagrams import Budget, Diagrams, TooLargeError
from dolphin.provenance.exact.formulas import FormulaTable
from dolphin.provenance.exact.ordering import (
    Groups,
    Order,
    order_of_groups,
    orders_of_groups,
)
from dolphin.provenance.exact.worlds import differ_somewhere
from dolphin.symbolic.bounded import BoundedCache, register

Compiler = Literal["auto", "diagrams", "sdd"]
COMPILERS: tuple[Compiler, ...] = ("auto", "diagrams", "sdd")
KEPT = 8  # collections of diagrams that a table keeps
KEPT_SENTENTIAL = 2
SHARE = 4  # "auto" leaves three quarters of the seconds to PySDD
TRIAL_NODES = 20_000  # that are spent on finding a good order
WORTH_A_TRIAL = 200  # formulas
TRYING = 2.0  # seconds that are spent on a circuit that is faster to evaluate

_circuits: BoundedCache[tuple, Circuit] = BoundedCache(256)
register("circuits", _circuits.__len__, _circuits.clear)


def clear() -> None:
    """Forget all circuits."""
    _circuits.clear()


def circuit_of(
    table: FormulaTable,
    roots: tuple[int, ...],
    groups: Groups,
    limits: tuple[int, float],
    compiler: str,
) -> Circuit:
    """The circuit of these formulas over inputs with these groups."""
    key = (table.generation, roots, groups, limits, compiler)
    circuit = _circuits.get(key)
    if circuit is None:
        with table.lock:
            circuit = _compile(table, roots, groups, limits, compiler)
        circuit = _circuits.put(key, circuit)
    return circuit


def _compile(
    table: FormulaTable,
    roots: tuple[int, ...],
    groups: Groups,
    limits: tuple[int, float],
    compiler: str,
) -> Circuit:
    counts = _counted(table, roots, groups, limits)
    if counts is not None:
        return counts
    order = order_of_groups(table, roots, groups)
    reasons: list[str] = []
    ways = _ways(table, roots, groups, order, limits, compiler)
    for number, (name, seconds, way) in enumerate(ways, start=1):
        budget = Budget(limits[0], limits[1] if number == len(ways) else seconds)
        try:
            circuit = way(budget)
        except TooLargeError as error:
            reasons.append(f"as a {name} it {error}")
        else:
            return circuit if compiler == "diagrams" else _faster(circuit, order)
    raise too_large(table, roots, reasons)


def _counted(
    table: FormulaTable, roots: Sequence[int], groups: Groups, limits: tuple[int, float]
) -> Circuit | None:
    """The circuit of a count, if these formulas are one."""
    budget = Budget(*limits)

    def compile_others(others: Sequence[int], sketch: Sketch) -> list[int]:
        if not others:
            return []
        order = order_of_groups(table, others, groups)
        return _diagrams_for(table, order, budget).values(others, sketch, budget)

    try:
        return counted(table, roots, groups, compile_others)
    except TooLargeError:
        return None


Way = tuple[str, float, Callable[[Budget], Circuit]]  # its name, seconds if others follow, and how


def _ways(
    table: FormulaTable,
    roots: tuple[int, ...],
    groups: Groups,
    order: Order,
    limits: tuple[int, float],
    compiler: str,
) -> list[Way]:
    """The ways to compile, the one that is likely to be fastest first."""
    seconds = limits[1]

    def by_diagrams(budget: Budget) -> Circuit:
        return _diagrams_for(table, order, budget).circuit(roots, budget)

    def in_a_row(budget: Budget) -> Circuit:
        compiled, nodes = _sentential(table, roots, groups, budget)
        return compiled.circuit(nodes, budget)

    def as_a_tree(budget: Budget) -> Circuit:
        tree = sentential.Sentential(order, sentential.used_columns(table, roots), "balanced")
        return tree.circuit(tree.compile(table, roots, budget), budget)

    diagrams = ("decision diagram", seconds / SHARE, by_diagrams)
    row = ("sentential decision diagram", seconds / 2, in_a_row)
    tree = ("sentential decision diagram over a tree", seconds, as_a_tree)
    if compiler == "diagrams" or not sentential.available():
        return [diagrams]
    if compiler == "sdd":
        return [row, tree]
    # Exclusive groups are one variable to diagrams, and several to PySDD.
    alone = all(len(group) == 1 for each in groups for group in each)
    return [row, tree, diagrams] if alone else [diagrams, row, tree]


def _sentential(
    table: FormulaTable, roots: Sequence[int], groups: Groups, budget: Budget
) -> tuple[sentential.Sentential, list[Any]]:
    """The nodes of formulas in PySDD's diagrams; those of earlier formulas are reused."""
    used = sentential.used_columns(table, roots)
    known = table.sentential.get(groups)
    columns = len(used) if known is None else max(len(used), len(known.used))
    return sentential.with_room(  # a group of columns has one more variable
        2 * columns, lambda: _in_a_row(table, roots, groups, budget, used)
    )


def _in_a_row(
    table: FormulaTable,
    roots: Sequence[int],
    groups: Groups,
    budget: Budget,
    used: set[tuple[int, ...]],
) -> tuple[sentential.Sentential, list[Any]]:
    diagrams = table.sentential.get(groups)
    if diagrams is not None and used <= diagrams.used:
        try:
            return diagrams, diagrams.compile(table, roots, budget)
        except TooLargeError:  # perhaps because of its order
            pass
    while len(table.sentential) >= KEPT_SENTENTIAL:
        table.sentential.pop(next(iter(table.sentential)))
    diagrams = _best_of(table, roots, orders_of_groups(table, roots, groups), used)
    nodes = diagrams.compile(table, roots, budget)
    table.sentential[groups] = diagrams
    return diagrams, nodes


def _best_of(
    table: FormulaTable, roots: Sequence[int], orders: Sequence[Order], used: set[tuple[int, ...]]
) -> sentential.Sentential:
    """Diagrams in the order that gets furthest with few nodes. A bad one takes ten times as many.

    No measure of an order tells as much as a trial.
    """
    candidates = [sentential.Sentential(order, used, "right") for order in orders]
    if len(candidates) == 1 or len(table.reachable(roots)) < WORTH_A_TRIAL:
        return candidates[0]
    progress = [each.progress(table, roots, TRIAL_NODES) for each in candidates]
    return candidates[progress.index(max(progress))]


LEVEL = 200  # products of 64 rows that take as long as a level by itself
MANY_LEVELS = 8


def _cost(circuit: Circuit) -> int:
    return circuit.pairs + LEVEL * len(circuit.levels)


def _faster(circuit: Circuit, order: Order) -> Circuit:
    """The same circuit, or one of fewer levels if that is faster to evaluate."""
    if len(circuit.levels) <= MANY_LEVELS or not sentential.available():
        return circuit
    nodes = LEVEL * len(circuit.levels) + circuit.pairs
    try:
        other = sentential.balanced(circuit, order, Budget(nodes, TRYING))
    except TooLargeError:
        return circuit
    return min(circuit, other, key=_cost)


def same(
    table: FormulaTable,
    pairs: Sequence[tuple[int, int]],
    groups: Groups,
    limits: tuple[int, float],
    compiler: str,
) -> bool:
    """Whether the formulas of each pair are equivalent."""
    with table.lock:
        if differ_somewhere(table, pairs, groups):
            return False
    roots = sorted({formula for pair in pairs for formula in pair})
    order = order_of_groups(table, roots, groups)
    reasons = []
    with table.lock:
        if compiler != "diagrams" and sentential.available():
            try:
                _, nodes = _sentential(table, roots, groups, Budget(*limits))
                number = {root: node.id for root, node in zip(roots, nodes, strict=True)}
                return all(number[a] == number[b] for a, b in pairs)
            except TooLargeError as error:
                reasons.append(f"as a sentential decision diagram it {error}")
        budget = Budget(*limits)
        try:
            compiled = _diagrams_for(table, order, budget).compile(roots, budget)
        except TooLargeError as error:
            reasons.append(f"as a decision diagram it {error}")
            raise too_large(table, roots, reasons) from None
    node = dict(zip(roots, compiled, strict=True))
    return all(node[a] == node[b] for a, b in pairs)


def diagram_of(
    table: FormulaTable, root: int, groups: Groups, limits: tuple[int, float]
) -> tuple[Diagrams, int]:
    """The decision diagram of a formula, and its node there. The table is locked."""
    budget = Budget(*limits)
    diagrams = _diagrams_for(table, order_of_groups(table, [root], groups), budget)
    try:
        return diagrams, diagrams.compile([root], budget)[0]
    except TooLargeError as error:
        raise too_large(table, [root], [f"as a decision diagram it {error}"]) from None


def _diagrams_for(table: FormulaTable, order: Order, budget: Budget) -> Diagrams:
    """The diagrams to extend: earlier compilations help later ones, until there are too many."""
    diagrams = table.diagrams.get(order)
    if diagrams is None or len(diagrams.nodes) > budget.nodes // 2:
        while len(table.diagrams) >= KEPT:
            table.diagrams.pop(next(iter(table.diagrams)))
        diagrams = table.diagrams[order] = Diagrams(table, order)
    return diagrams


def too_large(table: FormulaTable, roots: Sequence[int], reasons: Sequence[str]) -> SizeError:
    """The error if every compiler failed."""
    parts = len(table.reachable(roots))
    return SizeError(
        f"Exact: the formulas behind {len(roots):,} symbols have {parts:,} parts, too many to "
        f"compile: {'; '.join(reasons)}. Use dolphin.TopKProofs(k=...), keep fewer symbols "
        "(dolphin.sample, dolphin.filter), draw samples (dolphin.estimate), or raise the limits "
        "with Exact(max_nodes=..., seconds=...)."
    )
