"""Dolphin by its definitions, in plain Python: rows are dictionaries, tags those of a semiring.

`Reference` stands for the module `dolphin` in a program's text, and `Torch` for what little of
`torch` such a text uses.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import struct
import types
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

import mpmath

from fuzzing.answers import Questions
from fuzzing.diagrams import Group
from fuzzing.jets import STEP, TIE, Jet, sigmoid, softmax, total
from fuzzing.language import Language
from fuzzing.rows import Row, Value, key_of
from fuzzing.semirings import Numbers, RefusedError, Semiring, TopK, UnsettledError

INF = float("inf")


class Reference(Questions, Language):
    """The module `dolphin`, under one provenance."""

    def __init__(self, semiring: Semiring) -> None:
        super().__init__()
        self.semiring = semiring
        self.groups: Iterator[int] = itertools.count()
        self.Distribution = Constructors(self)
        self.refusals: set[str] = set()  # what Dolphin may say, which tries only some of it

    @contextlib.contextmanager
    def using(self, *names: Any, **parameters: Any) -> Iterator[None]:
        yield

    settings = using

    def may_refuse(self, message: str) -> bool:
        return any(text in message for text in self.refusals)

    def cache_clear(self) -> None:
        pass

    def _batch(self, values: Sequence[Value]) -> int:
        if not all(isinstance(value, Value) for value in values) or not values:
            raise RefusedError("not a distribution")
        sizes = {value.batch_size for value in values} - {1}
        if len(sizes) > 1:
            raise RefusedError("different numbers of rows")
        return sizes.pop() if sizes else 1

    def _combine(
        self, values: Sequence[Value], function: Callable, condition: Callable, where: Any
    ) -> Value:
        batch = self._batch(values)
        if where is not None and len(where) != batch:
            raise RefusedError("a mask of another length")
        rows = []
        for number in range(batch):
            if where is not None and not where[number]:
                rows.append(values[0].row_of(number))
                continue
            row = Row()
            for combination in itertools.product(*(value.row_of(number) for value in values)):
                symbols = [symbol for symbol, _ in combination]
                if not condition(*symbols):
                    continue
                tags, result = [tag for _, tag in combination], function(*symbols)
                for symbol, more in self.outcomes(result):
                    row.add(symbol, *tags, *more)
            rows.append(row.settled(self.semiring))
        return Value(self, rows, exclusive=all(value.exclusive for value in values))

    def apply(self, *arguments: Any, where: Any = None, cache: bool = True) -> Value:
        *values, function = arguments
        return self._combine(values, function, lambda *symbols: True, where)

    def apply_if(
        self, *arguments: Any, on: Any = None, where: Any = None, cache: bool = True
    ) -> Value:
        values = [argument for argument in arguments if isinstance(argument, Value)]
        function, *conditions = arguments[len(values) :]

        def condition(*symbols: Any) -> bool:
            if on is not None:
                one, other = (key(symbol) for key, symbol in zip(on, symbols, strict=True))
                if key_of(one) != key_of(other):
                    return False
            return all(condition(*symbols) for condition in conditions)

        return self._combine(values, function, condition, where)

    def filter(self, value: Value, predicate: Callable, cache: bool = True) -> Value:
        kept = self._combine([value], lambda symbol: symbol, predicate, None)
        if all(len(a) == len(b) for a, b in zip(kept.each, value.each, strict=True)):
            kept.given = None if value.given else value.given  # it may be its operand
            for own, row in zip(kept.each, value.each, strict=True):
                own.group_of = row.group_of
        return kept

    def union(self, *values: Value) -> Value:
        rows = []
        for number in range(self._batch(values)):
            row = Row()
            for value in values:
                for symbol, tag in value.row_of(number):
                    row.add(symbol, tag)
            rows.append(row.settled(self.semiring))
        return Value(self, rows)

    def negate(self, value: Value, among: Iterable[Any] | None = None) -> Value:
        rows = []
        for old in value.each:
            row = Row()
            for symbol in old.symbols if among is None else among:
                row.add(symbol, self._negation(old.tag(symbol, self.semiring.zero)))
            rows.append(row)
        if not any(map(len, rows)) and getattr(self.semiring, "negates", True) is False:
            raise RefusedError("no negation")
        return Value(self, rows)

    def _negation(self, tag: Any) -> Any:
        if tag is self.semiring.zero and getattr(self.semiring, "negates", True):
            return self.semiring.one
        return self.semiring.negate(tag)

    def fixpoint(
        self,
        step: Callable,
        start: Value,
        goal: Any = None,
        only_new: bool = False,
        rounds: int | None = None,
    ) -> Value:
        if rounds is not None and only_new:
            raise RefusedError("rounds are steps over everything")
        if only_new and (self.semiring.by_symbols or isinstance(self.semiring, TopK)):
            raise RefusedError("what is derived again would count again")
        old = self._wanted(start, goal)
        if callable(goal) and self._leaves_out(step, start, old, goal):
            self.refusals.add("goal= leaves out what it needs")
        for _ in range(30 if rounds is None else rounds):
            new = self._wanted(step(old), goal)
            if rounds is None and self._settled(old, new):
                return new
            old = new
        if rounds is not None:
            return old
        raise UnsettledError("no fixpoint within 30 steps")

    def _wanted(self, value: Value, goal: Any) -> Value:
        """The symbols that a goal wants: those of a predicate, or of the key of each row."""
        if goal is None:
            return value
        if callable(goal):
            return self.filter(value, goal)
        key, keys = goal
        return self.apply_if(
            self.Distribution.certain_rows(keys), value, lambda _, symbol: symbol, on=(_itself, key)
        )

    def _leaves_out(self, step: Callable, start: Value, kept: Value, goal: Callable) -> bool:
        """Whether what is wanted is derived with the help of what is not."""
        try:
            alone, together = (self._wanted(step(d), goal) for d in (kept, start))
        except RefusedError:  # a step that fails on what is not wanted
            return False
        keys = [{key_of(s) for s in value.symbols} for value in (alone, together)]
        return keys[0] != keys[1] or any(
            abs(alone.probability(row, s).real - p) > 1e-5 * abs(p)
            for row in range(together.batch_size)
            for s in together.symbols
            for p in [together.probability(row, s).real]
        )

    def _settled(self, old: Value, new: Value) -> bool:
        if old.batch_size != new.batch_size:
            return False
        for before, after in zip(old.each, new.each, strict=True):
            if before.entries.keys() != after.entries.keys():
                return False
        return self.semiring.by_symbols or all(
            self.semiring.same(tag, after.tag(symbol, self.semiring.zero))
            for before, after in zip(old.each, new.each, strict=True)
            for symbol, tag in before
        )

    def reduce(self, function: Callable, values: Iterable[Value], cache: bool = True) -> Value:
        def step(one: Value, other: Value) -> Value:
            return self.apply(one, other, function)

        each = list(values)
        result = functools.reduce(step, each)
        if len(each) < 4 or not isinstance(self.semiring, Numbers):
            return result
        # Any order gives the same numbers, but which of them meet in a tie depends on it.
        while len(each) > 2:
            each = [functools.reduce(step, each[at : at + 2]) for at in range(0, len(each), 2)]
        return self._cornered(result, step(*each))

    def _cornered(self, value: Value, other: Value) -> Value:
        """The same; a gradient is a convention if it is one in the other way to compute it."""
        rows = []
        for own, beside in zip(value.each, other.each, strict=True):
            row = Row()
            for symbol, tag in own:
                row.add(symbol, tag.cornered(not beside.tag(symbol, tag).smooth))
            rows.append(row)
        return Value(self, rows, exclusive=value.exclusive)

    def sample(self, value: Value, k: int) -> Value:
        rows = []
        for old in value.each:
            if len(old) <= k:
                rows.append(old)
                continue
            weights = [(self.semiring.probability(tag).real, s) for s, tag in old]
            nothing = max(1e-25, self.semiring.rounding)
            possible = [(weight, s) for weight, s in weights if weight > nothing]
            if len(possible) < k:
                raise UnsettledError("which impossible symbols stay")
            possible.sort(key=lambda pair: -pair[0])
            if len(possible) > k:
                last, next_ = possible[k - 1][0], possible[k][0]
                if last - next_ <= TIE * next_ + self.semiring.rounding:
                    raise UnsettledError("a tie among symbols")
            kept = {key_of(symbol) for _, symbol in possible[:k]}
            row = Row()
            for symbol, tag in old:
                if key_of(symbol) in kept:
                    row.add(symbol, tag)
            row.group_of = old.group_of
            rows.append(row)
        return Value(self, rows, exclusive=value.exclusive, given=value.given)


def _itself(symbol: Any) -> Any:
    return symbol


class Constructors:
    """`dl.Distribution`, and the other ways to make one."""

    def __init__(self, reference: Reference) -> None:
        self.reference = reference

    def __call__(self, numbers: Any, symbols: Any, exclusive: Any = True) -> Value:
        if isinstance(numbers, Torch.Categorical):
            return self.from_logits(numbers.logits, symbols, exclusive=True)
        if isinstance(numbers, Torch.Bernoulli):
            return self.from_logits(numbers.logits, symbols, exclusive=False)
        return self._rows(numbers, symbols, exclusive, "probs")

    def from_logits(self, logits: Any, symbols: Any, exclusive: Any = True) -> Value:
        return self._rows(logits, symbols, exclusive, "logits")

    def from_log_probs(self, logs: Any, symbols: Any, exclusive: Any = True) -> Value:
        return self._rows(logs, symbols, exclusive, "log_probs")

    def each_from_logits(self, logits: Any, symbols: Any, exclusive: Any = True) -> list[Value]:
        raise NotImplementedError

    def _rows(self, numbers: Leaf, symbols: Any, exclusive: Any, kind: str) -> Value:
        given = numbers.values if isinstance(numbers.values[0], list) else [numbers.values]
        rows = [self._row(list(row), list(symbols), exclusive, kind) for row in given]
        alone = exclusive is True or (exclusive is False and len(list(symbols)) == 1)
        if not isinstance(exclusive, bool):
            alone = len(self._groups(exclusive, len(list(symbols)))) == 1
        return Value(self.reference, rows, exclusive=alone, given=True)

    def _row(self, numbers: list[Jet], symbols: list[Any], exclusive: Any, kind: str) -> Row:
        if len(numbers) != len(symbols) or len({key_of(s) for s in symbols}) != len(symbols):
            raise RefusedError("one symbol per column, all distinct")
        groups = self._groups(exclusive, len(symbols))
        tags: dict[int, Any] = {}
        for members in groups:
            if not members:
                continue
            several = len(members) > 1 or exclusive is True
            probs = self._probs([numbers[column] for column in members], kind, several)
            group = Group(next(self.reference.groups), tuple(probs))
            for choice, column in enumerate(members):
                tags[column] = self.reference.semiring.fact(group, choice)
        row = Row()
        for column, symbol in enumerate(symbols):
            row.add(symbol, tags[column])
        for number, members in enumerate(groups):
            row.group_of.update((key_of(symbols[column]), number) for column in members)
        return row

    def _groups(self, exclusive: Any, number: int) -> list[list[int]]:
        columns = range(number)
        groups = [list(columns)] if exclusive is True else []
        if not isinstance(exclusive, bool):
            groups = [list(group) for group in exclusive if len(group)]
        named = [column for group in groups for column in group]
        if len(set(named)) != len(named) or any(column not in columns for column in named):
            raise RefusedError("groups that don't fit")
        return groups + [[column] for column in columns if column not in named]

    def _probs(self, numbers: list[Jet], kind: str, exclusive: bool) -> list[Jet]:
        if any(number.value != number.value for number in numbers):
            raise RefusedError("nan")
        if kind == "logits" and exclusive:
            if all(number.real == -INF for number in numbers):
                raise RefusedError("every symbol is masked")
            return softmax(numbers)
        if kind == "logits":
            return list(map(sigmoid, numbers))
        given = numbers
        if kind == "log_probs":
            given = [Jet(0.0) if n.real == -INF else n.exp() for n in numbers]
            numbers = [Jet(0.0) if n.real == -INF else _at_most(n, 0.0).exp() for n in numbers]
        if any(not -1e-4 <= number.real <= 1.0 + 1e-4 for number in given):
            raise RefusedError("not a probability")
        if len(numbers) > 1 and total(numbers).real > 1.0 + 1e-3:
            raise RefusedError("exclusive probabilities that pass 1")
        return [-_at_most(-_at_most(n, 1.0), 0.0) for n in numbers]  # what rounding carried there

    def certain(self, symbol: Any, batch: int = 1) -> Value:
        row = Row()
        row.add(symbol, self.reference.semiring.one)
        return Value(self.reference, [row] * batch, exclusive=True)

    def certain_rows(self, symbols: Sequence[Any]) -> Value:
        return self.stack([self.certain(symbol) for symbol in symbols])

    def from_rows(self, rows: Sequence[Any], exclusive: Any = True, logits: bool = False) -> Value:
        per_row = not isinstance(exclusive, bool) and any(
            isinstance(own, bool) or any(isinstance(g, (list, tuple)) for g in own)
            for own in exclusive
        )
        if per_row and len(exclusive) != len(rows):
            raise RefusedError("one entry of exclusive per row")
        made, alone = [], True
        width = max(1, *(len(symbols) for symbols, _ in rows))
        for number, (symbols, numbers) in enumerate(rows):
            own: Any = list(exclusive)[number] if per_row else exclusive
            kind = "logits" if logits else "probs"
            made.append(self._row(list(numbers.values), list(symbols), own, kind))
            choices = len(self._groups(own, len(symbols))) + width - len(symbols)
            alone = alone and (own is True or choices == 1)
        return Value(self.reference, made, exclusive=alone, given=True)

    def stack(self, values: Sequence[Value]) -> Value:
        rows = [row for value in values for row in value.each]
        exclusive = all(value.exclusive for value in values)
        every = {value.given for value in values}
        given = False if False in every else None if None in every else True
        return Value(self.reference, rows, exclusive=exclusive, given=given)


class Leaf:
    """A tensor of numbers with derivatives; a text may take a row, or the start of one."""

    def __init__(self, values: list[Any], numbers: dict[Hashable, float] | None = None) -> None:
        self.values = values

    def __getitem__(self, place: Any) -> Any:
        row, columns = place if isinstance(place, tuple) else (place, slice(None))
        found = self.values[row][columns]
        return found if isinstance(found, Jet) else Leaf(found)

    def zero_(self) -> None:
        self.values = [[Jet(0.0)] * len(row) for row in self.values]


class Torch:
    """The module `torch`, as far as programs use it.

    `direction(leaf, row, column)`: where second derivatives are wanted along. `precise`: with
    numbers of many digits.
    """

    float32, float64 = "float32", "float64"

    class Categorical:
        def __init__(self, logits: Leaf) -> None:
            self.logits = logits

    class Bernoulli:
        def __init__(self, logits: Leaf) -> None:
            self.logits = logits

    distributions = types.SimpleNamespace(Categorical=Categorical, Bernoulli=Bernoulli)

    def __init__(
        self, direction: Callable[[int, int, int], float] | None = None, *, precise: bool = False
    ) -> None:
        self.direction, self.precise = direction, precise
        self.leaves: list[Leaf] = []

    def tensor(self, rows: Any, dtype: str = "float32", requires_grad: bool = False) -> Leaf:
        leaf = len(self.leaves)
        single = dtype == self.float32
        values = [
            [self._entry(_single(x) if single else x, leaf, r, c) for c, x in enumerate(row)]
            for r, row in enumerate(rows)
        ]
        if not requires_grad:
            values = [[Jet(jet.real) for jet in row] for row in values]
        self.leaves.append(Leaf(values))
        return self.leaves[-1]

    def _entry(self, x: float, leaf: int, row: int, column: int) -> Jet:
        if x in (INF, -INF) or x != x:
            return Jet(x)
        along = 0.0 if self.direction is None else self.direction(leaf, row, column)
        real = mpmath.mpf(x) if self.precise else x
        value = real if self.direction is None else real + 1j * STEP * along
        return Jet(value, {(leaf, row, column): 1.0})

    @contextlib.contextmanager
    def no_grad(self) -> Iterator[None]:
        yield


def _at_most(number: Jet, most: float) -> Jet:
    """The smaller of the two, with the gradient of the number."""
    return Jet(number.value - number.real + min(number.real, most), number.grad)


def _single(x: float) -> float:
    """The nearest number of single precision."""
    return struct.unpack("f", struct.pack("f", x))[0]
