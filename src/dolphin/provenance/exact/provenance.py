"""Exact probabilities as a provenance."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dolphin.errors import InputError, SizeError
from dolphin.execution.indices import Contraction, Index, to_device
from dolphin.provenance.contract import Provenance, TagInfo, not_an_input
from dolphin.provenance.exact import sentential
from dolphin.provenance.exact.circuits import Circuit
from dolphin.provenance.exact.compiling import (
    COMPILERS,
    Compiler,
    circuit_of,
    diagram_of,
    same,
)
from dolphin.provenance.exact.diagrams import Diagrams
from dolphin.provenance.exact.explaining import Literal, likeliest_proofs
from dolphin.provenance.exact.formulas import FACT, FALSE, TRUE, FormulaTable, tables
from dolphin.provenance.exact.likeliest import likeliest_worlds
from dolphin.provenance.exact.ordering import Groups
from dolphin.provenance.facts import Facts, Place, View, all_apart, arrange
from dolphin.provenance.numerics import connected
from dolphin.symbolic.bounded import register


@dataclass(frozen=True, eq=False)
class Formulas:
    """A formula for each of n symbols, in each of r rows or (r = 1) the same in all of them."""

    table: FormulaTable
    numbers: np.ndarray  # (n, r) formulas of the table
    inputs: tuple[Facts, ...]  # what the formulas speak of, by position
    like: Tensor  # empty; its device and precision are those of the probabilities
    row_of: np.ndarray | None = None  # (n,) which row a symbol belongs to, where rows are flattened

    @property
    def rows(self) -> int:
        if self.row_of is not None:
            return 1
        return max([self.numbers.shape[1], *(facts.rows for facts in self.inputs)])

    @property
    def groups(self) -> Groups:
        return tuple(facts.groups for facts in self.inputs)

    def __reduce__(self) -> Any:  # a table belongs to its process: formulas travel, numbers don't
        parts = self.table.written_down(np.unique(self.numbers).tolist())
        return _restored, (parts, self.numbers, self.inputs, self.like, self.row_of)


def _restored(
    parts: list[tuple[int, int, tuple[int, ...]]],
    numbers: np.ndarray,
    inputs: tuple[Facts, ...],
    like: Tensor,
    row_of: np.ndarray | None,
) -> Formulas:
    table = tables.current()
    with table.lock:
        number = table.read_back(parts)
    moved = [number[formula] for formula in numbers.reshape(-1).tolist()]
    again = np.array(moved, dtype=np.int64).reshape(numbers.shape)
    return Formulas(table, again, inputs, like, row_of)


class Exact(Provenance):
    """Exact probabilities (`exact`): tags are formulas, a ⊕ b = a ∨ b, a ⊗ b = a ∧ b.

    The probability of a symbol is that of all worlds in which it can be derived, whatever the
    program shares, repeats or negates. No proof is dropped.

    Gradients are exact too: for an independent fact, P(symbol | fact) - P(symbol | not fact).

    Cost: formulas are compiled when probabilities are first asked for, which can take exponential
    time and is bounded by `max_nodes` and `seconds`; past them a SizeError says how large the
    formula is. What was compiled is remembered by its structure: later training steps only evaluate
    it, which is O(B · nodes) in a few tensor operations per layer.

    Args:
        max_nodes: how many nodes a compiled formula may have.
        seconds: how long compiling it may take.
        compiler: "diagrams" (decision diagrams in Python, always there), "sdd" (PySDD, the extra
            `exact`), or "auto": the first, and the second for formulas that are too much for it.

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
        if compiler not in COMPILERS:
            raise InputError(f"Exact: compiler must be one of {COMPILERS}, got {compiler!r}.")
        if compiler == "sdd" and not sentential.available():
            raise InputError(
                "Exact: compiler='sdd' needs PySDD: pip install 'dolphin-nesy[exact]'. "
                "compiler='auto' does without."
            )
        if not max_nodes >= 1 or not seconds > 0:
            raise InputError(
                f"Exact: max_nodes and seconds must be positive, got {max_nodes!r}, {seconds!r}."
            )
        self.max_nodes, self.seconds, self.compiler = max_nodes, seconds, compiler

    def parameters(self) -> dict[str, Any]:
        return {"max_nodes": self.max_nodes, "seconds": self.seconds, "compiler": self.compiler}

    # -- in and out --------------------------------------------------------------------------------

    def from_facts(self, facts: Facts) -> Formulas:
        table = tables.current()
        with table.lock:
            numbers = [table.fact(0, column) for column in range(facts.columns)]
        return Formulas(table, _column(numbers), (facts,), facts.log_probs.detach().new_empty(0))

    def log_probs(self, tags: Formulas) -> Tensor:
        return self._read(tags, Circuit.log_probs).to(tags.like.dtype)

    def probs(self, tags: Formulas) -> Tensor:
        # In double precision to the end: next to 0 and 1 gradients need it.
        return self._read(tags, Circuit.probs).to(tags.like.dtype)

    def _read(
        self, tags: Formulas, evaluate: Callable[[Circuit, Sequence[Facts], torch.device], Tensor]
    ) -> Tensor:
        """In double precision, (n, r)."""
        device = tags.like.device
        if tags.numbers.size == 0:
            nothing = tags.like.double().new_zeros(0, tags.rows)
            return connected(nothing, [facts.log_probs for facts in tags.inputs])
        circuit, places = self._compiled(tags)
        roots = evaluate(circuit, tags.inputs, device)
        roots = connected(roots, [facts.log_probs for facts in tags.inputs])
        if tags.row_of is not None:
            row = tags.row_of if roots.shape[1] > 1 else np.zeros_like(tags.row_of)
            flat = to_device(places[:, 0] * roots.shape[1] + row, device)
            return roots.reshape(-1).index_select(0, flat)[:, None]
        if places.shape[1] == 1:
            return roots.index_select(0, to_device(places[:, 0], device))
        return roots.expand(-1, places.shape[1]).gather(0, to_device(places, device))

    def _compiled(self, tags: Formulas) -> tuple[Circuit, np.ndarray]:
        """The circuit of all formulas, and which of its roots each of them is."""
        roots, inverse = np.unique(tags.numbers, return_inverse=True)
        circuit = circuit_of(
            tags.table, tuple(roots.tolist()), tags.groups, self._limits, self.compiler
        )
        return circuit, np.asarray(inverse).reshape(tags.numbers.shape)

    def evaluator(
        self, tags: Formulas, inputs: Sequence[Facts]
    ) -> Callable[[Sequence[Facts]], Tensor]:
        order = [next(i for i, facts in enumerate(inputs) if facts is own) for own in tags.inputs]
        circuit, places = self._compiled(tags)
        return _Evaluator(circuit, places[:, 0], order, [facts.columns for facts in tags.inputs])

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
        table, inputs, numbers = _aligned(operands)
        columns = max(part.shape[1] for part in numbers)
        spread = [np.broadcast_to(part, (len(part), columns)) for part in numbers]
        key = (_content(plan), *((part.shape, part.tobytes()) for part in spread))
        made = _remembered(table, key, lambda: _combined(table, spread, plan))
        return Formulas(table, made, inputs, operands[0].like, _rows_of_groups(operands, plan))

    def negate(self, tags: Formulas) -> Formulas:
        table = tags.table
        key = ("not", tags.numbers.shape, tags.numbers.tobytes())
        return replace(
            tags, numbers=_remembered(table, key, lambda: _each(tags.numbers, table.negation))
        )

    def saturated(self, old: Formulas, new: Formulas) -> bool:
        table, inputs, (before, after) = _aligned([old, new])
        before, after = np.broadcast_arrays(before, after)
        changed = before != after
        if not changed.any():
            return True
        pairs = sorted({*zip(before[changed].tolist(), after[changed].tolist(), strict=True)})
        groups = tuple(facts.groups for facts in inputs)
        key = ("same", tuple(pairs), groups)
        return _remembered(table, key, lambda: same(table, pairs, groups, self._limits))

    # -- moving tags about -------------------------------------------------------------------------

    def select(self, tags: Formulas, index: Index) -> Formulas:
        if index.is_identity(len(tags.numbers)):
            return tags
        padded = np.concatenate([tags.numbers, np.full((1, tags.numbers.shape[1]), FALSE)])
        row_of = None if tags.row_of is None else np.append(tags.row_of, 0)[index.places]
        return replace(tags, numbers=padded[index.places], row_of=row_of)

    def concat(self, parts: Sequence[Formulas]) -> Formulas:
        if len(parts) == 1:
            return parts[0]
        table, inputs, numbers = _aligned(parts)
        columns = max(part.shape[1] for part in numbers)
        spread = [np.broadcast_to(part, (len(part), columns)) for part in numbers]
        row_of = None
        if any(part.row_of is not None for part in parts):
            row_of = np.concatenate([_row_of(part) for part in parts])
        return Formulas(table, np.concatenate(spread), inputs, parts[0].like, row_of)

    def where(self, mask: Tensor, yes: Formulas, no: Formulas) -> Formulas:
        table, inputs, numbers = _aligned([yes, no])
        chosen = np.where(mask.cpu().numpy()[None, :], *numbers)
        return Formulas(table, chosen, inputs, yes.like, yes.row_of)

    def flatten(self, tags: Formulas, rows: int) -> Formulas:
        n = len(tags.numbers)
        spread = np.broadcast_to(tags.numbers, (n, rows)).T.reshape(-1, 1)
        return replace(tags, numbers=spread, row_of=np.repeat(np.arange(rows), n))

    def unflatten(self, tags: Formulas, rows: int) -> Formulas:
        n = len(tags.numbers) // rows
        return replace(tags, numbers=tags.numbers.reshape(rows, n).T, row_of=None)

    def stack(self, parts: Sequence[Formulas], batches: Sequence[int], *, flat: bool) -> Formulas:
        starts = np.cumsum([0, *batches])
        every = np.arange(starts[-1])
        views = []
        for part, start, rows in zip(parts, starts, batches, strict=False):
            inside = np.where((every >= start) & (every < start + rows), every - start, -1)
            views.append([View.whole(facts, rows).taken(inside) for facts in part.inputs])
        slots, places = arrange(views, len(every))
        table = _newest_table(parts)
        numbers = []
        for part, own, start, rows in zip(parts, places, starts, batches, strict=False):
            cut = [
                [(slot, None if r is None else r[start : start + rows]) for slot, r in view]
                for view in own
            ]
            moved = _seated(part, table, cut, rows)
            numbers.append(moved if flat else np.broadcast_to(moved, (len(moved), rows)))
        like = parts[0].like
        if not flat:
            return Formulas(table, np.concatenate(numbers, axis=1), tuple(slots), like)
        row_of = np.repeat(every, len(numbers[0]) // batches[0])
        return Formulas(table, np.concatenate(numbers), tuple(slots), like, row_of)

    def take_rows(self, tags: Formulas, rows: np.ndarray, width: int | None) -> Formulas:
        batch = len(rows)
        if width is None:
            numbers = tags.numbers if tags.numbers.shape[1] == 1 else tags.numbers[:, rows]
            taken = replace(tags, numbers=numbers)
        else:
            numbers = tags.numbers.reshape(-1, width)[rows].reshape(-1, 1)
            taken = replace(tags, numbers=numbers, row_of=np.repeat(np.arange(batch), width))
        if all(facts.rows == 1 for facts in tags.inputs):
            return taken
        views = [
            View(facts, rows if facts.rows > 1 else np.zeros_like(rows)) for facts in tags.inputs
        ]
        slots, places = arrange([views], batch)
        numbers = _seated(taken, tags.table, places[0], batch)
        return replace(taken, numbers=numbers, inputs=tuple(slots))

    def likeliest(
        self, inputs: Sequence[Formulas], target: Formulas
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        table, slots, (*given, wanted) = _aligned([*inputs, target])
        circuit, roots = self._compiled(replace(target, table=table, numbers=wanted, inputs=slots))
        possible, holds = likeliest_worlds(circuit, roots[:, 0], slots)
        found = []
        for number, (tags, formulas) in enumerate(zip(inputs, given, strict=True)):
            if any(f > TRUE and table.kinds[f] != FACT for f in formulas[:, 0].tolist()):
                raise not_an_input(number)
            held = [
                formula == TRUE
                if formula <= TRUE
                else holds[table.parts[formula][0]][table.parts[formula][1], row]
                for formula, row in zip(
                    formulas[:, 0].tolist(), _row_of(tags).tolist(), strict=True
                )
            ]
            found.append(np.array(held, dtype=bool))
        return possible, found

    def moved(self, tags: Formulas, move: Callable[[Tensor], Tensor]) -> Formulas:
        inputs = tuple(facts.moved(move) for facts in tags.inputs)
        return replace(tags, inputs=inputs, like=move(tags.like))

    def describe(self, tags: Formulas) -> TagInfo:
        return TagInfo(tags.like.device, tags.rows, tags.like.dtype)

    def proofs(self, tags: Formulas, place: int, row: int) -> list[tuple[float, list[Any]]]:
        """The likeliest ones, at most ten: sets of facts none of which can be left out."""
        numbers = tags.numbers
        formula = int(numbers[place, 0 if numbers.shape[1] == 1 else row])
        with tags.table.lock:
            diagrams, node = diagram_of(tags.table, formula, tags.groups, self._limits)
            spelled = _Spelling(diagrams, tags.inputs, row)
            found = likeliest_proofs(diagrams, node, spelled.probability)
        return [
            (weight, [fact for literal in sorted(proof) for fact in spelled.facts(literal)])
            for weight, proof in found
        ]


class _Spelling:
    """What is said of groups, in one row: how likely it is, and in terms of facts."""

    def __init__(self, diagrams: Diagrams, inputs: Sequence[Facts], row: int) -> None:
        self.order, self.inputs, self.row = diagrams.order, inputs, row
        self.probs = [
            facts.probs[:, 0 if facts.rows == 1 else row].detach().tolist() for facts in inputs
        ]

    def probability(self, literal: Literal) -> float:
        probs = self.probs[self.order[literal.level][0]]
        held = sum(probs[column] for column in literal.columns)
        return held if literal.holds else max(0.0, 1.0 - held)

    def facts(self, literal: Literal) -> list[tuple[Any, bool, float]]:
        position = self.order[literal.level][0]
        facts, probs = self.inputs[position], self.probs[position]
        row = 0 if facts.rows == 1 else self.row
        return [
            (facts.label(c, row), literal.holds, probs[c] if literal.holds else 1.0 - probs[c])
            for c in literal.columns
        ]


class _Evaluator:
    """A compiled program that takes its facts as arguments."""

    def __init__(
        self,
        circuit: Circuit,
        places: np.ndarray,
        order: Sequence[int],
        columns: Sequence[int],
    ) -> None:
        self.circuit, self.places = circuit, places
        self.order, self.columns = tuple(order), tuple(columns)
        self._tensors: dict[torch.device, Tensor] = {}

    def prepare(self, device: torch.device) -> None:
        """Make all index tensors on `device`."""
        self._tensors[device] = to_device(self.places, device)
        self.circuit.prepare(self.columns, device)

    def __call__(self, facts: Sequence[Facts]) -> Tensor:
        logs = facts[0].log_probs
        made = self.circuit.log_probs([facts[at] for at in self.order], logs.device)
        return made.index_select(0, self._tensors[logs.device]).to(logs.dtype)


# -- helpers ---------------------------------------------------------------------------------------


def _column(numbers: Sequence[int]) -> np.ndarray:
    return np.array(numbers, dtype=np.int64)[:, None]


def _row_of(tags: Formulas) -> np.ndarray:
    return np.zeros(len(tags.numbers), dtype=np.int64) if tags.row_of is None else tags.row_of


def _newest_table(parts: Sequence[Formulas]) -> FormulaTable:
    return max((part.table for part in parts), key=lambda table: table.generation)


def _aligned(
    parts: Sequence[Formulas],
) -> tuple[FormulaTable, tuple[Facts, ...], list[np.ndarray]]:
    """One table and one list of inputs for all parts, and their formulas in these terms."""
    table = _newest_table(parts)
    every = {id(facts): facts for part in parts for facts in part.inputs}
    batch = max((facts.rows for facts in every.values()), default=1)
    if all_apart(list(every.values())):
        slots = list(every.values())
        position = {key: at for at, key in enumerate(every)}
        places = [[[(position[id(facts)], None)] for facts in part.inputs] for part in parts]
    else:
        views = [[View.whole(facts, batch) for facts in part.inputs] for part in parts]
        slots, places = arrange(views, batch)
    numbers = [_seated(part, table, own, batch) for part, own in zip(parts, places, strict=True)]
    return table, tuple(slots), numbers


def _seated(
    tags: Formulas, table: FormulaTable, places: Sequence[Sequence[Place]], batch: int
) -> np.ndarray:
    """Formulas in terms of `table`, whose inputs are found in other slots.

    An input may be found in one slot in some rows and in another one in others.
    """
    if all(len(own) == 1 for own in places):
        return _renamed(tags, tags.numbers, table, [own[0][0] for own in places])
    # Rows in which all inputs are found in the same slots have their formulas moved together.
    slot_in = np.array([_slot_in_rows(own, batch) for own in places])  # (inputs, batch)
    patterns, kind = np.unique(slot_in, axis=1, return_inverse=True)
    kind = np.asarray(kind).reshape(-1)
    flat = tags.row_of is not None
    shape = tags.numbers.shape if flat else (len(tags.numbers), batch)
    source, out = np.broadcast_to(tags.numbers, shape), np.empty(shape, dtype=np.int64)
    for number, slots in enumerate(patterns.T.tolist()):
        here = kind == number
        chosen = (here[_row_of(tags)], slice(None)) if flat else (slice(None), here)
        out[chosen] = _renamed(tags, source[chosen], table, slots)
    return out


def _slot_in_rows(places: Sequence[Place], batch: int) -> np.ndarray:
    slots = np.zeros(batch, dtype=np.int64)
    for slot, rows in places:
        slots[slice(None) if rows is None else rows] = slot
    return slots


def _renamed(
    tags: Formulas, numbers: np.ndarray, table: FormulaTable, positions: Sequence[int]
) -> np.ndarray:
    if tags.table is table and list(positions) == list(range(len(positions))):
        return numbers
    with table.lock:
        moved = table.moved(numbers.reshape(-1).tolist(), tags.table, tuple(positions))
    return np.array(moved, dtype=np.int64).reshape(numbers.shape)


def _combined(table: FormulaTable, operands: Sequence[np.ndarray], plan: Contraction) -> np.ndarray:
    """∨ over each group of ∧ over the operands, (groups, r)."""
    groups = plan.group_of.tolist()
    columns = []
    for column in range(operands[0].shape[1]):
        chosen = [
            part[index, column].tolist() for part, index in zip(operands, plan.indices, strict=True)
        ]
        members: list[list[int]] = [[] for _ in range(plan.groups)]
        for group, combination in zip(groups, zip(*chosen, strict=True), strict=True):
            members[group].append(table.conjunction(combination))
        columns.append([table.disjunction(formulas) for formulas in members])
    return np.array(columns, dtype=np.int64).reshape(len(columns), plan.groups).T


def _each(numbers: np.ndarray, function: Callable[[int], int]) -> np.ndarray:
    flat = [function(number) for number in numbers.reshape(-1).tolist()]
    return np.array(flat, dtype=np.int64).reshape(numbers.shape)


def _rows_of_groups(operands: Sequence[Formulas], plan: Contraction) -> np.ndarray | None:
    """The row of each group. Operands that are the same in all rows say 0, the others are right."""
    if all(operand.row_of is None for operand in operands):
        return None
    row_of = np.zeros(plan.groups, dtype=np.int64)
    for operand, index in zip(operands, plan.indices, strict=True):
        if operand.row_of is not None:
            np.maximum.at(row_of, plan.group_of, operand.row_of[index])
    return row_of


_contents: weakref.WeakKeyDictionary[Contraction, bytes] = weakref.WeakKeyDictionary()
register("digests of index lists", _contents.__len__, _contents.clear)


def _content(plan: Contraction) -> bytes:
    """What tells one contraction from another, whichever object it is."""
    known = _contents.get(plan)
    if known is None:
        digest = hashlib.sha256(str(plan.groups).encode())
        for array in (*plan.indices, plan.group_of):
            digest.update(b"|" + np.ascontiguousarray(array, dtype=np.int64).tobytes())
        known = _contents[plan] = digest.digest()
    return known


def _remembered(table: FormulaTable, key: Any, make: Callable[[], Any]) -> Any:
    """The outcome of an operation on formulas of this table, made once."""
    with table.lock:
        if key not in table.remembered:
            made = table.remembered[key] = make()
            table.remembered_bytes += 1000 + 2 * getattr(made, "nbytes", 0)
        return table.remembered[key]
