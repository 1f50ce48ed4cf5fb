"""From formulas to circuits; compiled circuits are remembered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from dolphin.errors import SizeError
from dolphin.provenance.exact import sentential
from dolphin.provenance.exact.circuits import Circuit
from dolphin.provenance.exact.diagrams import Budget, Diagrams, TooLargeError
from dolphin.provenance.exact.formulas import FormulaTable
from dolphin.provenance.exact.ordering import Groups, Order, order_of_groups
from dolphin.provenance.exact.worlds import differ_somewhere
from dolphin.symbolic.bounded import BoundedCache, register

Compiler = Literal["auto", "diagrams", "sdd"]
COMPILERS: tuple[Compiler, ...] = ("auto", "diagrams", "sdd")
KEPT = 8  # collections of diagrams that a table keeps
SHARE = 4  # "auto" leaves three quarters of the seconds to PySDD

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
    known = _circuits.get(key)
    if known is None:
        with table.lock:
            known = _compile(table, roots, groups, limits, compiler)
        known = _circuits.put(key, known)
    return known


def _compile(
    table: FormulaTable,
    roots: tuple[int, ...],
    groups: Groups,
    limits: tuple[int, float],
    compiler: str,
) -> Circuit:
    order = order_of_groups(table, roots, groups)
    reasons: list[str] = []
    try_both = compiler == "auto" and sentential.available()
    if compiler != "sdd":
        nodes, seconds = limits
        budget = Budget(nodes, seconds / SHARE if try_both else seconds)
        try:
            return _diagrams_for(table, order, budget).circuit(roots, budget)
        except TooLargeError as error:
            reasons.append(f"as a decision diagram it {error}")
    if compiler == "sdd" or try_both:
        try:
            return sentential.compile_sentential(table, roots, order, Budget(*limits))
        except TooLargeError as error:
            reasons.append(f"as a sentential decision diagram it {error}")
    raise too_large(table, roots, reasons)


def same(
    table: FormulaTable,
    pairs: Sequence[tuple[int, int]],
    groups: Groups,
    limits: tuple[int, float],
) -> bool:
    """Whether the formulas of each pair are equivalent."""
    with table.lock:
        if differ_somewhere(table, pairs, groups):
            return False
    roots = sorted({formula for pair in pairs for formula in pair})
    order = order_of_groups(table, roots, groups)
    budget = Budget(*limits)
    try:
        with table.lock:
            found = _diagrams_for(table, order, budget).compile(roots, budget)
    except TooLargeError as error:
        raise too_large(table, roots, [f"as a decision diagram it {error}"]) from None
    node = dict(zip(roots, found, strict=True))
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
    known = table.diagrams.get(order)
    if known is None or len(known.nodes) > budget.nodes // 2:
        while len(table.diagrams) >= KEPT:
            table.diagrams.pop(next(iter(table.diagrams)))
        known = table.diagrams[order] = Diagrams(table, order)
    return known


def too_large(table: FormulaTable, roots: Sequence[int], reasons: Sequence[str]) -> SizeError:
    """The error if every compiler failed."""
    parts = len(table.reachable(roots))
    return SizeError(
        f"Exact: the formulas behind {len(roots):,} symbols have {parts:,} parts, too many to "
        f"compile: {'; '.join(reasons)}. Use dolphin.TopKProofs(k=...), keep fewer symbols "
        "(dolphin.sample, dolphin.filter), draw samples (dolphin.estimate), or raise the limits "
        "with Exact(max_nodes=..., seconds=...)."
    )
