"""Exact answers for small programs in plain Python: the yardstick of the suite.

A *program* is an ordinary function `program(ops, *inputs)`. `ops` carries the operations
(`apply`, `apply_if`, `filter`, `union`, `negate`, `fixpoint`), so the very same program runs with
`ops = dolphin` on tensors and with `ops = Interpreter(algebra)` here, on dictionaries.
The algebras:

* `Worlds`: a tag is the set of possible worlds in which the symbol holds. The probability of a
  symbol is the total weight of its worlds, which is the exact answer, whatever the program does.
* `Proofs`: a tag is the set of *all* minimal consistent proofs, so the value of top-k proofs with
  add-mult follows for every k that is at least the number of proofs.
* `AddMult`: a tag is a number, added and multiplied: what DAMP is defined to give.

Numbers are fractions. Gradients are exact too: they are derivatives of polynomials.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

Fact = int
Proof = frozenset[tuple[int, Fact | None]]


# ---------------------------------------------------------------------------------------- inputs


@dataclass(frozen=True)
class Input:
    """One row of a network's output: symbols, their probabilities and which exclude each other.

    `exclusive=True`: at most one symbol holds; what is missing to 1 is "none of them".
    `exclusive=False`: each symbol holds or not on its own. Or groups of columns: in each group at
    most one holds.
    """

    symbols: tuple[Hashable, ...]
    probs: tuple[Fraction, ...]
    exclusive: bool | tuple[tuple[int, ...], ...] = True

    def __post_init__(self):
        assert len(self.symbols) == len(self.probs)
        assert all(0 <= p <= 1 for p in self.probs)
        assert all(sum(self.probs[c] for c in group) <= 1 for group in self.groups)

    @property
    def groups(self) -> list[tuple[int, ...]]:
        columns = range(len(self.symbols))
        if self.exclusive is True:
            return [tuple(columns)]
        if self.exclusive is False:
            return [(c,) for c in columns]
        return [tuple(group) for group in self.exclusive]


class Facts:
    """The facts of several inputs, numbered through, with their probabilities and groups."""

    def __init__(self, inputs: Sequence[Input]):
        self.inputs = list(inputs)
        self.probs: list[Fraction] = []
        self.groups: list[tuple[Fact, ...]] = []
        self.offsets: list[int] = []
        for source in self.inputs:
            offset = len(self.probs)
            self.offsets.append(offset)
            self.probs += [Fraction(p) for p in source.probs]
            self.groups += [tuple(offset + c for c in group) for group in source.groups]
        self.group_of = {fact: g for g, group in enumerate(self.groups) for fact in group}

    def tables(self, tag_of: Callable[[Fact], Any]) -> list[Table]:
        """Each input as a table whose tags are those of its facts."""
        return [
            Table((s, tag_of(offset + c)) for c, s in enumerate(source.symbols))
            for source, offset in zip(self.inputs, self.offsets, strict=True)
        ]


# ---------------------------------------------------------------------------- the interpreter


def key_of(symbol: Hashable) -> Hashable:
    """What tells symbols apart: equality, except that every nan is the same symbol."""
    if isinstance(symbol, float) and math.isnan(symbol):
        return ("nan",)
    return symbol


class Table:
    """A distribution as a dictionary: symbols in order of first appearance, and their tags."""

    def __init__(self, items: Iterable[tuple[Hashable, Any]] = ()):
        self._entries: dict[Hashable, tuple[Hashable, Any]] = {}
        for symbol, tag in items:
            assert key_of(symbol) not in self._entries, f"duplicate symbol {symbol!r}"
            self._entries[key_of(symbol)] = (symbol, tag)

    @property
    def symbols(self) -> list[Hashable]:
        return [symbol for symbol, _ in self._entries.values()]

    def items(self) -> list[tuple[Hashable, Any]]:
        return list(self._entries.values())

    def add(self, symbol: Hashable, tag: Any, plus: Callable[[Any, Any], Any]) -> None:
        known = self._entries.get(key_of(symbol))
        self._entries[key_of(symbol)] = (
            (symbol, tag) if known is None else (known[0], plus(known[1], tag))
        )

    def __getitem__(self, symbol: Hashable) -> Any:
        return self._entries[key_of(symbol)][1]

    def __contains__(self, symbol: Hashable) -> bool:
        return key_of(symbol) in self._entries

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self._entries == other._entries

    __hash__ = None  # type: ignore[assignment]


class Interpreter:
    """The operations, by their definitions, over tables and any algebra."""

    def __init__(self, algebra: Any):
        self.algebra = algebra

    def apply(self, *arguments: Any) -> Table:
        *tables, f = arguments
        return self._combine(tables, f, lambda *symbols: True)

    def apply_if(self, *arguments: Any, on: tuple[Callable, ...] | None = None) -> Table:
        if on is None:
            *tables, f, condition = arguments
            return self._combine(tables, f, condition)
        *tables, f = arguments

        def keys_agree(*symbols):
            keys = [key_of(key(symbol)) for key, symbol in zip(on, symbols, strict=True)]
            return all(key == keys[0] for key in keys)

        return self._combine(tables, f, keys_agree)

    def _combine(self, tables: Sequence[Table], f: Callable, condition: Callable) -> Table:
        result = Table()
        for combination in itertools.product(*(table.items() for table in tables)):
            symbols = [symbol for symbol, _ in combination]
            if condition(*symbols):
                tag = self.algebra.one
                for _, factor in combination:
                    tag = self.algebra.times(tag, factor)
                result.add(f(*symbols), tag, self.algebra.plus)
        return result

    def filter(self, table: Table, predicate: Callable[[Any], bool]) -> Table:
        return Table((s, tag) for s, tag in table.items() if predicate(s))

    def union(self, *tables: Table) -> Table:
        result = Table()
        for table in tables:
            for symbol, tag in table.items():
                result.add(symbol, tag, self.algebra.plus)
        return result

    def negate(self, table: Table) -> Table:
        return Table((s, self.algebra.negate(tag)) for s, tag in table.items())

    def fixpoint(self, step: Callable[[Table], Table], start: Table, max_iterations: int = 100):
        """Repeat `step` until it changes neither the symbols nor (what this algebra sees of)
        their tags."""
        for _ in range(max_iterations):
            following = step(start)
            if self.algebra.saturated(start, following):
                return following
            start = following
        raise RuntimeError("no fixpoint")


# --------------------------------------------------------------------------- possible worlds


class Worlds:
    """Tags are sets of possible worlds, written as the bits of an integer."""

    def __init__(self, inputs: Sequence[Input]):
        self.facts = Facts(inputs)
        # In each exclusive group one fact is chosen, or None: no fact of the group holds.
        choices = [(*group, None) for group in self.facts.groups]
        self.worlds = list(itertools.product(*choices))
        self.one = (1 << len(self.worlds)) - 1
        self.zero = 0

    def tag_of(self, fact: Fact) -> int:
        return sum(1 << w for w, world in enumerate(self.worlds) if fact in world)

    def plus(self, a: int, b: int) -> int:
        return a | b

    def times(self, a: int, b: int) -> int:
        return a & b

    def negate(self, a: int) -> int:
        return self.one & ~a

    def saturated(self, before: Table, after: Table) -> bool:
        return before == after

    def _factors(self, world: tuple[Fact | None, ...]) -> list[Fraction]:
        return [
            1 - sum((self.facts.probs[f] for f in group), Fraction(0))
            if choice is None
            else self.facts.probs[choice]
            for group, choice in zip(self.facts.groups, world, strict=True)
        ]

    def probability(self, tag: int) -> Fraction:
        held = [world for w, world in enumerate(self.worlds) if tag >> w & 1]
        weights = (math.prod(self._factors(world), start=Fraction(1)) for world in held)
        return sum(weights, Fraction(0))

    def gradient(self, tag: int) -> list[Fraction]:
        """d probability / d p_f for each fact f.

        The weight of a world is a product with one factor for each group, linear in the
        probabilities of that group.
        """
        gradient = [Fraction(0)] * len(self.facts.probs)
        for w, world in enumerate(self.worlds):
            if not tag >> w & 1:
                continue
            factors = self._factors(world)
            for g, (group, choice) in enumerate(zip(self.facts.groups, world, strict=True)):
                rest = math.prod(factors[:g] + factors[g + 1 :])
                if choice is None:
                    for fact in group:
                        gradient[fact] -= rest
                else:
                    gradient[choice] += rest
        return gradient


# ------------------------------------------------------------------------------------- proofs


class Proofs:
    """Tags are sets of proofs: no proof is ever dropped for being unlikely.

    A proof is written as what it rules out: pairs (group, choice), where the choices of an
    exclusive group are its facts, or None for "no fact of this group holds". "f holds" rules out
    every other choice, "f does not hold" rules out f. So a conjunction is a union, a contradiction
    leaves a group without any choice, and equal proofs are equal sets.
    """

    zero: frozenset[Proof] = frozenset()
    one: frozenset[Proof] = frozenset([frozenset()])

    def __init__(self, inputs: Sequence[Input]):
        self.facts = Facts(inputs)

    def choices(self, group: int) -> tuple[Fact | None, ...]:
        return (*self.facts.groups[group], None)

    def tag_of(self, fact: Fact) -> frozenset[Proof]:
        group = self.facts.group_of[fact]
        return frozenset([frozenset((group, c) for c in self.choices(group) if c != fact)])

    def allowed(self, proof: Proof) -> dict[int, list[Fact | None]]:
        """For each group that the proof refers to, the choices that it leaves."""
        groups = {group for group, _ in proof}
        return {g: [c for c in self.choices(g) if (g, c) not in proof] for g in groups}

    def consistent(self, proof: Proof) -> bool:
        return all(self.allowed(proof).values())

    @staticmethod
    def absorb(proofs: Iterable[Proof]) -> frozenset[Proof]:
        """Without the proofs that contain another one (equal ones are one in a set anyway)."""
        proofs = set(proofs)
        return frozenset(p for p in proofs if not any(other < p for other in proofs))

    def plus(self, a: frozenset[Proof], b: frozenset[Proof]) -> frozenset[Proof]:
        return self.absorb(a | b)

    def times(self, a: frozenset[Proof], b: frozenset[Proof]) -> frozenset[Proof]:
        return self.absorb(p | q for p in a for q in b if self.consistent(p | q))

    def negate(self, a: frozenset[Proof]) -> frozenset[Proof]:
        """De Morgan: every proof must fail, each in one of the groups that it refers to."""
        result = self.one
        for proof in a:
            failures = (
                frozenset((group, c) for c in left) for group, left in self.allowed(proof).items()
            )
            result = self.times(result, frozenset(failures))
        return result

    def saturated(self, before: Table, after: Table) -> bool:
        return before == after

    def choice_probability(self, group: int, choice: Fact | None) -> Fraction:
        if choice is not None:
            return self.facts.probs[choice]
        return 1 - sum((self.facts.probs[f] for f in self.facts.groups[group]), Fraction(0))

    def factors(self, proof: Proof) -> dict[int, Fraction]:
        """For each group that the proof refers to, the probability that it is right about it."""
        return {
            group: sum((self.choice_probability(group, c) for c in left), Fraction(0))
            for group, left in self.allowed(proof).items()
        }

    def proof_probability(self, proof: Proof) -> Fraction:
        return math.prod(self.factors(proof).values(), start=Fraction(1))

    def likeliest(self, tag: frozenset[Proof], k: int) -> list[Proof]:
        return sorted(tag, key=self.proof_probability, reverse=True)[:k]

    def total(self, proofs: Iterable[Proof]) -> Fraction:
        """The sum over proofs of the product over their facts, before it is clipped at 1."""
        return sum((self.proof_probability(p) for p in proofs), Fraction(0))

    def add_mult(self, proofs: Iterable[Proof]) -> Fraction:
        return min(Fraction(1), self.total(proofs))

    def gradient(self, proofs: Iterable[Proof]) -> list[Fraction]:
        """d total / d p_f for each fact f.

        A factor grows with p_f if it allows f, and shrinks with it if it allows None.
        """
        gradient = [Fraction(0)] * len(self.facts.probs)
        for proof in proofs:
            factors = self.factors(proof)
            for group, left in self.allowed(proof).items():
                others = (value for g, value in factors.items() if g != group)
                rest = math.prod(others, start=Fraction(1))
                for fact in self.facts.groups[group]:
                    gradient[fact] += rest * ((fact in left) - (None in left))
        return gradient


# ----------------------------------------------------------------------------------- add-mult


@dataclass(frozen=True)
class Dual:
    """A number, its gradient with respect to every fact, and whether it was clipped on the way.

    From there on the gradient is a matter of convention, not of calculus."""

    value: Fraction
    gradient: tuple[Fraction, ...]
    clipped: bool = False

    def __add__(self, other: Dual) -> Dual:
        gradient = tuple(a + b for a, b in zip(self.gradient, other.gradient, strict=True))
        return Dual(self.value + other.value, gradient, self.clipped or other.clipped)

    def __mul__(self, other: Dual) -> Dual:
        gradient = tuple(
            a * other.value + b * self.value
            for a, b in zip(self.gradient, other.gradient, strict=True)
        )
        return Dual(self.value * other.value, gradient, self.clipped or other.clipped)


class AddMult:
    """DAMP by its definition: numbers, ⊕ = min(1, a + b), ⊗ = a · b, negation 1 − a."""

    def __init__(self, inputs: Sequence[Input]):
        self.facts = Facts(inputs)
        self.zero = self._constant(Fraction(0))
        self.one = self._constant(Fraction(1))

    def _constant(self, value: Fraction) -> Dual:
        return Dual(value, (Fraction(0),) * len(self.facts.probs))

    def tag_of(self, fact: Fact) -> Dual:
        unit = tuple(Fraction(int(f == fact)) for f in range(len(self.facts.probs)))
        return Dual(self.facts.probs[fact], unit)

    def plus(self, a: Dual, b: Dual) -> Dual:
        total = a + b
        if total.value < 1:
            return total
        return Dual(Fraction(1), total.gradient, clipped=True)

    def times(self, a: Dual, b: Dual) -> Dual:
        return a * b

    def negate(self, a: Dual) -> Dual:
        return Dual(1 - a.value, tuple(-g for g in a.gradient), a.clipped)

    def saturated(self, before: Table, after: Table) -> bool:
        """Sums go on growing, so it is the symbols that say when a recursion has ended."""
        return before.symbols == after.symbols


# ------------------------------------------------------------------------------------ answers


def run(program: Callable, algebra: Any) -> Table:
    """The program's result as a table of tags of this algebra."""
    return program(Interpreter(algebra), *algebra.facts.tables(algebra.tag_of))


@dataclass(frozen=True)
class Answer:
    """What a symbol's probability must be, its gradient, and whether that gradient is settled."""

    value: Fraction
    gradient: list[Fraction]
    smooth: bool = True


def exact(program: Callable, inputs: Sequence[Input]) -> dict[Hashable, Answer]:
    """The true probability of each result, by enumeration of possible worlds."""
    worlds = Worlds(inputs)
    return {
        symbol: Answer(worlds.probability(tag), worlds.gradient(tag))
        for symbol, tag in run(program, worlds).items()
    }


def add_mult(program: Callable, inputs: Sequence[Input]) -> dict[Hashable, Answer]:
    """What DAMP must give."""
    return {
        symbol: Answer(tag.value, list(tag.gradient), not tag.clipped)
        for symbol, tag in run(program, AddMult(inputs)).items()
    }


def all_proofs(program: Callable, inputs: Sequence[Input]) -> dict[Hashable, frozenset[Proof]]:
    """Every minimal proof of each result."""
    return dict(run(program, Proofs(inputs)).items())


def proofs_add_mult(program: Callable, inputs: Sequence[Input]) -> dict[Hashable, Answer]:
    """What top-k proofs with add-mult must give when k is large enough to keep every proof."""
    proofs = Proofs(inputs)
    return {
        symbol: Answer(proofs.add_mult(tag), proofs.gradient(tag), proofs.total(tag) < 1)
        for symbol, tag in run(program, proofs).items()
    }


def most_proofs(program: Callable, inputs: Sequence[Input]) -> int:
    """The largest number of proofs that any symbol of any step has: k from there on is exact."""
    largest = 1

    class Counting(Proofs):
        def absorb(self, proofs):  # type: ignore[override]
            nonlocal largest
            kept = Proofs.absorb(proofs)
            largest = max(largest, len(kept))
            return kept

    run(program, Counting(inputs))
    return largest
