"""How a symbol follows from the facts of a proof, operation by operation.

The operations of a recorded program are replayed with only the facts of one proof. From so few
facts each operation derives few symbols, and the symbols that it combined are their derivation.
User functions are called again for these symbols. Operations on all symbols at once (a question, a
negation, a `program`) are not expanded: below them are the facts that they need.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from dolphin.display.proofs import Derivation, Fact, Key, Proof, Proofs, proofs_of
from dolphin.display.showing import members_of
from dolphin.execution.tagged import Tagged
from dolphin.symbolic.chance import Weighted
from dolphin.symbolic.kinds import canonical
from dolphin.symbolic.symbols import Symbols
from dolphin.symbolic.tasks import Task

_COMBINATIONS = 10_000  # that are tried in one operation
_SYMBOLS = 1_000  # whose proofs are read, where an operation isn't expanded
_LINES = 200  # of a tree that is still readable


@dataclass(frozen=True)
class Record:
    """A step of a program: its operands and its result. An input has no operands."""

    operation: str
    name: str
    sources: tuple[int, ...]
    result: Tagged
    function: Callable[..., Any] | None = None
    task: Task | None = None

    @property
    def title(self) -> str:
        """The operation with its function."""
        return f"{self.operation} {self.name}".strip()


class _Node(NamedTuple):
    tree: Derivation | Fact
    size: int  # how many lines it has


_Symbols = dict[Any, _Node]  # those that follow from the facts


def explained(records: dict[int, Record], last: int, symbol: Any, row: int) -> Proofs:
    """The proofs of a symbol of step `last`, and how it follows from each."""
    result = records[last].result
    every = proofs_of(result, symbol, row)
    row %= result.batch
    proofs, derivations = [], []
    for probability, facts in every:
        replay = _Replay(records, facts, row)
        node = replay.follows(last).get(canonical(symbol))
        named = tuple(replay.facts.values())
        proofs.append(Proof(probability, named))
        readable = node is not None and node.size <= _LINES
        derivations.append(
            node.tree if node and readable else Derivation(symbol, records[last].title, named)
        )
    return Proofs(proofs, symbol, derivations)


class _Replay:
    """A recorded program over the facts of one proof, in one row."""

    def __init__(self, records: dict[int, Record], facts: dict[Key, Fact], row: int) -> None:
        self.records, self.row = records, row
        self.facts = dict(facts)
        self._known: dict[int, _Symbols] = {}
        for number, record in records.items():
            if record.operation == "input":
                self._name_facts(record.result, record.name or f"input {number}")

    def follows(self, number: int) -> _Symbols:
        """The symbols of a step's result that follow from the facts."""
        symbols = self._known.get(number)
        if symbols is None:
            symbols = self._known[number] = self._made(self.records[number])
        return symbols

    def _made(self, record: Record) -> _Symbols:
        d = record.result
        if d.certain and record.operation == "input":
            symbols = itertools.islice(self._members(d), _COMBINATIONS)
            return {canonical(s): _Node(Derivation(s, "certain", ()), 1) for s in symbols}
        if record.operation in ("union", "sample", "filter", "new"):
            derived = _smallest(self._handed_on(record))
        elif record.task is not None or record.operation == "reduce":
            derived = _smallest(self._combined(record))
        else:
            derived = {}
        return derived or self._not_taken_apart(record)

    def _handed_on(self, record: Record) -> Iterator[tuple[Any, _Node]]:
        """The symbols that an operation passes on unchanged, without a separate line."""
        members = self._members(record.result)
        for source in record.sources:
            for symbol, node in self.follows(source).items():
                if members.index_of(symbol) >= 0:
                    yield symbol, node

    def _combined(self, record: Record) -> Iterator[tuple[Any, _Node]]:
        members = self._members(record.result)
        operands = [self.follows(source) for source in record.sources]
        for nodes in itertools.islice(_combinations(record.task, operands), _COMBINATIONS):
            result = _called(record, [node.tree.symbol for node in nodes])
            parts = tuple(node.tree for node in nodes)
            size = 1 + sum(node.size for node in nodes)
            if not isinstance(result, Weighted):
                if result is not _NOTHING and members.index_of(result) >= 0:
                    yield canonical(result), _Node(Derivation(result, record.title, parts), size)
                continue
            for outcome in result.outcomes:  # chance: an outcome that is a fact of the proof
                facts = self._proof_among_facts(record.result, outcome, members)
                chance = tuple(f for f in facts or () if not f.source)
                if chance:
                    tree = Derivation(outcome, record.title, (*parts, *chance))
                    yield canonical(outcome), _Node(tree, size + len(chance))

    def _not_taken_apart(self, record: Record) -> _Symbols:
        """The symbols that have a proof among the facts, with these facts below them."""
        symbols: _Symbols = {}
        d, members = record.result, self._members(record.result)
        if d.certain:
            return symbols
        if d.groups is not None:  # an input, which may have many symbols
            likely: Iterable[Any] = [fact.symbol for fact in self.facts.values()]
        else:
            likely = itertools.islice(members, _SYMBOLS)
        for symbol in likely:
            facts = self._proof_among_facts(d, symbol, members)
            if facts is None:
                continue
            alone = facts[0] if record.operation == "input" and len(facts) == 1 else None
            tree = alone or Derivation(symbol, record.title, facts)
            symbols[canonical(symbol)] = _Node(tree, 1 + len(facts) * (alone is None))
        return symbols

    def _proof_among_facts(
        self, d: Tagged, symbol: Any, members: Symbols
    ) -> tuple[Fact, ...] | None:
        if members.index_of(symbol) < 0:
            return None
        for _, facts in proofs_of(d, symbol, self._row_of(d)):
            if facts.keys() <= self.facts.keys():
                return tuple(self.facts[key] for key in facts)
        return None

    def _name_facts(self, d: Tagged, name: str) -> None:
        """Label the facts of an input with its name."""
        if d.certain:
            return
        members = self._members(d)
        for key, fact in list(self.facts.items()):
            if fact.source or members.index_of(fact.symbol) < 0:
                continue
            proofs = proofs_of(d, fact.symbol, self._row_of(d))
            if any(facts.keys() == {(key[0], True)} for _, facts in proofs):
                self.facts[key] = fact._replace(source=name)

    def _row_of(self, d: Tagged) -> int:
        return self.row if d.batch > 1 else 0

    def _members(self, d: Tagged) -> Symbols:
        return Symbols.of(members_of(d, self._row_of(d)))


_NOTHING = object()  # the condition doesn't hold


def _called(record: Record, symbols: Sequence[Any]) -> Any:
    """The result of the user's function for these symbols."""
    task = record.task
    if task is None:
        assert record.function is not None
        return functools.reduce(record.function, symbols)
    if task.condition is not None and not task.condition(*symbols):
        return _NOTHING
    return task.function(*symbols)


def _combinations(task: Task | None, operands: Sequence[_Symbols]) -> Iterator[tuple[_Node, ...]]:
    """One symbol of each operand; where `on=` is given, those with equal keys."""
    if task is None or task.on is None:
        yield from itertools.product(*(operand.values() for operand in operands))
        return
    sides: list[dict[Any, list[_Node]]] = []
    for key, operand in zip(task.on, operands, strict=True):
        side: dict[Any, list[_Node]] = {}
        for node in operand.values():
            side.setdefault(canonical(key(node.tree.symbol)), []).append(node)
        sides.append(side)
    for key, first in sides[0].items():
        yield from itertools.product(first, *(side.get(key, []) for side in sides[1:]))


def _smallest(derivations: Iterable[tuple[Any, _Node]]) -> _Symbols:
    """The smallest of several derivations of each symbol."""
    kept: _Symbols = {}
    for symbol, node in derivations:
        if symbol not in kept or node.size < kept[symbol].size:
            kept[symbol] = node
    return kept
