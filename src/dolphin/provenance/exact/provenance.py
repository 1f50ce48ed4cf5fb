"""Exact probabilities as a provenance."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dolphin.errors import InputError, SizeError, shorten
from dolphin.execution.indices import Contraction, Index, RowMap, to_device
from dolphin.execution.kept import kept_index
from dolphin.inputs.arguments import count, option
from dolphin.provenance.arranging import arrange
from dolphin.provenance.contract import Evaluator, Provenance, TagInfo, not_an_input
from dolphin.provenance.differentiation import array_of
from dolphin.provenance.exact import sentential
from dolphin.provenance.exact.circuits import Circuit
from dolphin.provenance.exact.compiling import (
    COMPILERS,
    Compiler,
    circuit_of,
    diagram_of,
    same,
)
from dolphin.provenance.exact.evaluator import CircuitEvaluator
from dolphin.provenance.exact.explaining import Spelling, likeliest_proofs
from dolphin.provenance.exact.formulas import FACT, FALSE, TRUE, FormulaTable, tables
from dolphin.provenance.exact.likeliest import likeliest_worlds
from dolphin.provenance.exact.remembering import combined, content_of, each_of, remembered
from dolphin.provenance.exact.tags import Formulas, Like, Seating, aligned, newest_table, seated
from dolphin.provenance.facts import Facts, View, all_apart
from dolphin.provenance.numerics import connected, log_of_rest, rounded_to


class Exact(Provenance):
    """Exact probabilities (`exact`): tags are formulas, a ⊕ b = a ∨ b, a ⊗ b = a ∧ b.

    The probability of a symbol is that of all worlds in which it can be derived, whatever the
    program shares, repeats or negates. No proof is dropped.

    Gradients are exact too: for an independent fact, P(symbol | fact) - P(symbol | not fact).

    Cost: formulas are compiled when probabilities are first read, which can take exponential time
    and is bounded by `max_nodes` and `seconds`; past them a SizeError says how large the formula
    is. Compiled formulas are remembered by structure: later training steps only evaluate them,
    which is O(B · nodes) in a few tensor operations per layer.

    Args:
        max_nodes: the most nodes that a compiled formula may have.
        seconds: the longest time that compiling it may take.
        compiler: "diagrams" (decision diagrams in Python, always available), "sdd" (PySDD, the
            extra `exact`), or "auto": the first, then the second for formulas too large for it.

    >>> import dolphin as dl
    >>> from dolphin.provenance import Exact
    >>> edges = [("a", "b"), ("b", "d"), ("a", "c"), ("c", "d"), ("b", "c")]
    >>> d = dl.Distribution([0.5] * 5, edges, exclusive=False, provenance=Exact())
    >>> def longer(paths):
    ...     ends = (lambda p: p[1], lambda e: e[0])
    ...     return dl.union(paths, dl.apply_if(paths, d, lambda p, e: (p[0], e[1]), on=ends))
    >>> dl.fixpoint(longer, d).prob_of([("a", "d")])
    tensor([0.4688])
    """

    name = "exact"
    structural = True
    laws = frozenset(
        {
            "commutative", "associative", "identities", "annihilation", "distributive",
            "idempotent-add", "idempotent-mul", "absorption", "one-absorbs", "double-negation",
            "excluded-middle", "contradiction", "de-morgan", "negated-zero",
        }
    )  # fmt: skip

    def __init__(
        self, max_nodes: int = 200_000, seconds: float = 60.0, compiler: Compiler = "auto"
    ) -> None:
        option("Exact", "compiler", compiler, COMPILERS)
        max_nodes = count("Exact", "max_nodes", max_nodes)
        if compiler == "sdd" and not sentential.available():
            raise InputError(
                "Exact: compiler='sdd' needs PySDD: pip install 'dolphin-nesy[exact]'. "
                "compiler='auto' works without it."
            )
        if not isinstance(seconds, (int, float)) or not seconds > 0:
            raise InputError(f"Exact: seconds must be a positive number, got {shorten(seconds)}.")
        self.max_nodes, self.seconds, self.compiler = max_nodes, seconds, compiler

    def parameters(self) -> dict[str, Any]:
        return {"max_nodes": self.max_nodes, "seconds": self.seconds, "compiler": self.compiler}

    # -- in and out --------------------------------------------------------------------------------

    def from_facts(self, facts: Facts) -> Formulas:
        table, columns = tables.current(), facts.columns
        numbers = table.remembered.get(("facts", columns))
        if numbers is None:
            numbers = remembered(table, ("facts", columns), lambda: _facts_of(table, columns))
        return Formulas(table, numbers, (facts,), Like(facts.dtype, facts.device))

    def log_probs(self, tags: Formulas) -> Tensor:
        return self._read(tags, Circuit.log_probs).to(tags.like.dtype)

    def probs(self, tags: Formulas) -> Tensor:
        # In double precision to the end: gradients near 0 and 1 need it.
        return rounded_to(tags.like.dtype, self._read(tags, Circuit.probs))

    def unrounded_probs(self, parts: Sequence[Formulas]) -> list[Tensor]:
        # Read as one: gradients of numerator and denominator may be large and nearly cancel, so
        # they must meet before they are rounded to the precision of the facts.
        every = self._read(self.concat(parts), Circuit.probs)
        return list(every.split([len(part.numbers) for part in parts]))

    def logs_and_rest(self, tags: Formulas) -> tuple[Tensor, Tensor]:
        # In double precision to the end: single precision has no exp of the logarithm of 0 here.
        dtype, logs = tags.like.dtype, self._read(tags, Circuit.log_probs)
        return logs.to(dtype), log_of_rest(logs, dtype).to(dtype)

    def _read(
        self, tags: Formulas, evaluate: Callable[[Circuit, Sequence[Facts], torch.device], Tensor]
    ) -> Tensor:
        """In double precision, (n, r)."""
        _Reads.count += 1
        device = tags.like.device
        if tags.numbers.size == 0:
            nothing = torch.zeros(0, tags.rows, dtype=torch.float64, device=device)
            return connected(nothing, [facts.numbers for facts in tags.inputs])
        circuit, places = self._compiled(tags)
        roots = evaluate(circuit, tags.inputs, device)
        roots = connected(roots, [facts.numbers for facts in tags.inputs])
        if tags.row_map is not None:
            row = tags.row_map.numbers if roots.shape[1] > 1 else 0
            flat = to_device(places[:, 0] * roots.shape[1] + row, device)
            return roots.reshape(-1).index_select(0, flat)[:, None]
        if places.shape[1] == 1:
            return roots.index_select(0, kept_index(places[:, 0]).on(device)[0])
        return roots.expand(-1, places.shape[1]).gather(0, to_device(places, device))

    def _compiled(self, tags: Formulas) -> tuple[Circuit, np.ndarray]:
        """The circuit of all formulas, and which of its roots each of them is."""
        roots, inverse = np.unique(tags.numbers, return_inverse=True)
        circuit = circuit_of(
            tags.table, tuple(roots.tolist()), tags.groups, self._limits, self.compiler
        )
        return circuit, np.asarray(inverse).reshape(tags.numbers.shape)

    def evaluator(self, tags: Formulas, inputs: Sequence[Facts]) -> Evaluator:
        order = [next(i for i, facts in enumerate(inputs) if facts is own) for own in tags.inputs]
        circuit, places = self._compiled(tags)
        groups = tuple(facts.groups for facts in tags.inputs)
        return CircuitEvaluator(circuit, places[:, 0], order, groups)

    def reads(self) -> int:
        return _Reads.count

    def content(self, parts: Sequence[Formulas]) -> tuple[Hashable, Sequence[Facts]] | None:
        facts = list({id(each): each for part in parts for each in part.inputs}.values())
        table = parts[0].table
        if any(part.table is not table or part.row_map is not None for part in parts):
            return None
        if not all_apart(facts):
            return None
        place = {id(each): number for number, each in enumerate(facts)}
        key = tuple(
            (part.numbers.shape, part.numbers.tobytes(), *(place[id(each)] for each in part.inputs))
            for part in parts
        )
        like = parts[0].like
        groups = tuple(each.groups for each in facts)
        return (table.generation, key, groups, like.dtype, like.device), facts

    def of_other_facts(
        self, tags: Formulas, facts: Sequence[Facts]
    ) -> Callable[[Sequence[Facts]], Formulas] | None:
        place = {id(each): number for number, each in enumerate(facts)}
        if tags.row_map is not None or any(id(each) not in place for each in tags.inputs):
            return None
        places = [place[id(each)] for each in tags.inputs]
        table, numbers, like = tags.table, tags.numbers, tags.like
        return lambda given: Formulas(table, numbers, tuple(given[p] for p in places), like)

    def facts_in(self, tags: Formulas) -> tuple[Facts, ...]:
        return tags.inputs

    def glance(self, tags: Formulas) -> Tensor | None:
        quick = Exact(max_nodes=2000, seconds=0.2, compiler="diagrams")
        try:
            return super(Exact, quick).glance(tags)
        except SizeError:
            return None

    @property
    def _limits(self) -> tuple[int, float]:
        return self.max_nodes, self.seconds

    def one(self, n: int, like: Formulas) -> Formulas:
        return Formulas(like.table, np.full((n, 1), TRUE, dtype=np.int64), (), like.like)

    # -- the algebra -------------------------------------------------------------------------------

    def contract(self, operands: Sequence[Formulas], plan: Contraction) -> Formulas:
        return self._contracted(operands, plan, FormulaTable.disjunction)

    def contract_disjoint(self, operands: Sequence[Formulas], plan: Contraction) -> Formulas:
        # Of two operands: states of a fold, which exclude each other whatever the inputs are. Of
        # one: symbols that do so because their input says it, which formulas don't know.
        join = (
            FormulaTable.exclusive_disjunction if len(operands) == 2 else FormulaTable.disjunction
        )
        return self._contracted(operands, plan, join)

    def _contracted(
        self,
        operands: Sequence[Formulas],
        plan: Contraction,
        join: Callable[[FormulaTable, list[int]], int],
    ) -> Formulas:
        seating = Seating(operands)
        table = seating.table
        key = (join.__name__, content_of(plan), *seating.content())
        made = remembered(table, key, lambda: combined(table, seating.numbers(), plan, join))
        row_map = plan.rows_of_groups([operand.row_map for operand in operands])
        return Formulas(table, made, seating.inputs, operands[0].like, row_map)

    def negate(self, tags: Formulas) -> Formulas:
        table = tags.table
        key = ("not", tags.numbers.shape, tags.numbers.tobytes())
        negated = remembered(table, key, lambda: each_of(tags.numbers, table.negation))
        return tags.with_numbers(negated, tags.row_map)

    def saturated(self, old: Formulas, new: Formulas) -> bool:
        table, inputs, (before, after) = aligned([old, new])
        before, after = np.broadcast_arrays(before, after)
        changed = before != after
        if not changed.any():
            return True
        pairs = sorted({*zip(before[changed].tolist(), after[changed].tolist(), strict=True)})
        groups = tuple(facts.groups for facts in inputs)
        key = ("same", tuple(pairs), groups)
        return remembered(
            table, key, lambda: same(table, pairs, groups, self._limits, self.compiler)
        )

    # -- moving tags -------------------------------------------------------------------------------

    def select(self, tags: Formulas, index: Index) -> Formulas:
        if index.is_identity(len(tags.numbers)):
            return tags
        numbers = tags.numbers
        if not index.complete:  # the last one is at -1
            numbers = np.concatenate([numbers, np.full((1, numbers.shape[1]), FALSE)])
        row_map = None if tags.row_map is None else tags.row_map.taken(index.places)
        return tags.with_numbers(numbers[index.places], row_map)

    def concat(self, parts: Sequence[Formulas]) -> Formulas:
        if len(parts) == 1:
            return parts[0]
        table, inputs, numbers = aligned(parts)
        columns = max([part.shape[1] for part in numbers])
        spread = [
            part if part.shape[1] == columns else np.broadcast_to(part, (len(part), columns))
            for part in numbers
        ]
        row_map = RowMap.joined([(part.row_map, len(part.numbers)) for part in parts])
        return Formulas(table, np.concatenate(spread), inputs, parts[0].like, row_map)

    def where(self, mask: Tensor, yes: Formulas, no: Formulas) -> Formulas:
        table, inputs, numbers = aligned([yes, no])
        chosen = np.where(array_of(mask)[None, :], *numbers)
        return Formulas(table, chosen, inputs, yes.like, yes.row_map)

    def flatten(self, tags: Formulas, rows: int) -> Formulas:
        n = len(tags.numbers)
        spread = np.broadcast_to(tags.numbers, (n, rows)).T.reshape(-1, 1)
        return tags.with_numbers(spread, RowMap.of(rows, n))

    def unflatten(self, tags: Formulas, rows: int) -> Formulas:
        n = len(tags.numbers) // rows
        return tags.with_numbers(tags.numbers.reshape(rows, n).T, None)

    def stack(self, parts: Sequence[Formulas], batches: Sequence[int], *, flat: bool) -> Formulas:
        starts = np.cumsum([0, *batches])
        every = np.arange(starts[-1])
        views = []
        for part, start, rows in zip(parts, starts, batches, strict=False):
            inside = np.where((every >= start) & (every < start + rows), every - start, -1)
            views.append([View.whole(facts, rows).taken(inside) for facts in part.inputs])
        slots, places = arrange(views, len(every))
        table = newest_table(parts)
        numbers = []
        for part, own, start, rows in zip(parts, places, starts, batches, strict=False):
            cut = [
                [(slot, None if r is None else r[start : start + rows]) for slot, r in view]
                for view in own
            ]
            moved = seated(part, table, cut, rows)
            numbers.append(moved if flat else np.broadcast_to(moved, (len(moved), rows)))
        like = parts[0].like
        if not flat:
            return Formulas(table, np.concatenate(numbers, axis=1), tuple(slots), like)
        row_map = RowMap.of(len(every), len(numbers[0]) // batches[0])
        return Formulas(table, np.concatenate(numbers), tuple(slots), like, row_map)

    def take_rows(self, tags: Formulas, rows: np.ndarray, width: int | None) -> Formulas:
        batch = len(rows)
        if width is None:
            numbers = tags.numbers if tags.numbers.shape[1] == 1 else tags.numbers[:, rows]
            taken = tags.with_numbers(numbers, tags.row_map)
        else:
            numbers = tags.numbers.reshape(-1, width)[rows].reshape(-1, 1)
            taken = tags.with_numbers(numbers, RowMap.of(batch, width))
        if all(facts.rows == 1 for facts in tags.inputs):
            return taken
        views = [
            View(facts, rows if facts.rows > 1 else np.zeros_like(rows)) for facts in tags.inputs
        ]
        slots, places = arrange([views], batch)
        numbers = seated(taken, tags.table, places[0], batch)
        return Formulas(tags.table, numbers, tuple(slots), tags.like, taken.row_map)

    def likeliest(
        self, inputs: Sequence[Formulas], target: Formulas
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        _Reads.count += 1
        table, slots, (*given, wanted) = aligned([*inputs, target])
        circuit, roots = self._compiled(Formulas(table, wanted, slots, target.like))
        possible, holds = likeliest_worlds(circuit, roots[:, 0], slots)
        choices = []
        for number, (tags, formulas) in enumerate(zip(inputs, given, strict=True)):
            if any(f > TRUE and table.kinds[f] != FACT for f in formulas[:, 0].tolist()):
                raise not_an_input(number)
            held = [
                formula == TRUE
                if formula <= TRUE
                else holds[table.parts[formula][0]][table.parts[formula][1], row]
                for formula, row in zip(formulas[:, 0].tolist(), tags.row.tolist(), strict=True)
            ]
            choices.append(np.array(held, dtype=bool))
        return possible, choices

    def moved(self, tags: Formulas, move: Callable[[Tensor], Tensor]) -> Formulas:
        inputs = tuple(facts.moved(move) for facts in tags.inputs)
        like = move(torch.empty(0, dtype=tags.like.dtype, device=tags.like.device))
        return Formulas(
            tags.table, tags.numbers, inputs, Like(like.dtype, like.device), tags.row_map
        )

    def describe(self, tags: Formulas) -> TagInfo:
        return TagInfo(tags.like.device, tags.rows, tags.like.dtype)

    def proofs(self, tags: Formulas, place: int, row: int) -> list[tuple[float, list[Any]]]:
        """The likeliest ones, at most ten: sets of facts none of which can be left out."""
        _Reads.count += 1
        numbers = tags.numbers
        formula = int(numbers[place, 0 if numbers.shape[1] == 1 else row])
        with tags.table.lock:
            diagrams, node = diagram_of(tags.table, formula, tags.groups, self._limits)
            spelled = Spelling(diagrams, tags.inputs, row)
            weighed = likeliest_proofs(diagrams, node, spelled.probability)
        return [
            (weight, [fact for literal in sorted(proof) for fact in spelled.facts(literal)])
            for weight, proof in weighed
        ]


class _Reads:
    """How often formulas were turned into numbers, in any thread."""

    count = 0


def _facts_of(table: FormulaTable, columns: int) -> np.ndarray:
    """The facts of the only input."""
    facts = [table.fact(0, column) for column in range(columns)]
    return np.array(facts, dtype=np.int64)[:, None]
