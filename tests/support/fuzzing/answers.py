"""Questions to a result by their definitions: one row at a time, every subset of its symbols."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fuzzing.diagrams import Group
from fuzzing.jets import Jet, total
from fuzzing.rows import Row, Value, key_of
from fuzzing.semirings import Numbers, RefusedError, Semiring, TopK, UnsettledError

Entry = tuple[Any, Any]  # a symbol and its tag
Choice = list[Entry]  # symbols of which at most one holds
Answer = Callable[[list[Any]], Any]
Answers = Callable[[list[Choice], list[Entry]], list[Entry]]
SMALL = 1e-12  # more than rounding leaves of 1 - 1 in double precision


class Questions:
    """The part of the module `dolphin` that asks; `Reference` inherits it."""

    semiring: Semiring
    groups: Iterator[int]
    disordered: bool
    divisor = 1.0  # the least that was divided by, times that of what was divided again

    def _batch(self, values: Sequence[Value]) -> int:
        raise NotImplementedError

    # -- quantifiers -------------------------------------------------------------------------------

    def exists(self, d: Value, predicate: Any = None, by: Any = None, cache: bool = True) -> Value:
        return self._asked(d, predicate, by, self._some)

    def forall(self, d: Value, predicate: Any, by: Any = None, cache: bool = True) -> Value:
        def every(choices: list[Choice], entries: list[Entry]) -> list[Entry]:
            some, none = self._some(choices, entries)
            return [(True, none[1]), (False, some[1])]

        return self._asked(d, lambda symbol: not predicate(symbol), by, every)

    def count(self, d: Value, predicate: Any = None, by: Any = None, cache: bool = True) -> Value:
        def counted(choices: list[Choice], entries: list[Entry]) -> list[Entry]:
            known = self._folded(choices, len)
            have = {answer for answer, _ in known}
            missing = [n for n in range(len(entries) + 1) if n not in have]
            return [*known, *((n, self.semiring.zero) for n in missing)]

        return self._asked(d, predicate, by, counted)

    def total(self, d: Value, value: Any = None, by: Any = None, cache: bool = True) -> Value:
        def summed(choices: list[Choice], entries: list[Entry]) -> list[Entry]:
            return self._folded(choices, lambda held: sum(value(s) if value else s for s in held))

        return self._asked(d, None, by, summed)

    def maximum(self, d: Value, key: Any = None, by: Any = None, cache: bool = True) -> Value:
        return self._first(d, key, by, reverse=True)

    def minimum(self, d: Value, key: Any = None, by: Any = None, cache: bool = True) -> Value:
        return self._first(d, key, by, reverse=False)

    def _asked(self, d: Value, predicate: Any, by: Any, answers: Answers) -> Value:
        """The answers of every group of every row; every row has the groups of all rows."""
        if getattr(self.semiring, "negates", True) is False:
            raise RefusedError("no negation")
        if not self.semiring.asks:
            raise UnsettledError("questions depend on the order of ⊕ and ⊗ here")
        wanted = [
            [(s, tag) for s, tag in row if predicate is None or predicate(s)] for row in d.each
        ]
        keys = {} if by is None else {key_of(by(s)): by(s) for row in d.each for s in row.symbols}
        rows = []
        for row, entries in zip(d.each, wanted, strict=True):
            if by is None:
                rows.append(answers(self._choices(d, row, entries), entries))
                continue
            own: list[Entry] = []
            for key, label in keys.items():
                some = [entry for entry in entries if key_of(by(entry[0])) == key]
                answered = answers(self._choices(d, row, some), some)
                own += [((label, answer), tag) for answer, tag in answered]
            rows.append(own)
        made = []
        for entries in rows:
            row = Row()
            for symbol, tag in entries:
                row.add(symbol, tag)
            made.append(row.settled(self.semiring))
        return Value(d.reference, made, exclusive=by is None)

    def _fails(self, tag: Any) -> Any:
        return self.semiring.one if tag is self.semiring.zero else self.semiring.negate(tag)

    def _disjoint(self, tags: Sequence[Any]) -> Any:
        tags = [tag for tag in tags if tag is not self.semiring.zero]
        if not tags:
            return self.semiring.zero
        return tags[0] if len(tags) == 1 else self.semiring.plus_disjoint(tags)

    def _choices(self, d: Value, row: Row, entries: list[Entry]) -> list[Choice]:
        """Which of these exclude each other; formulas and proofs know it from the tags."""
        if d.exclusive:
            return [entries]
        if d.given is False or not isinstance(self.semiring, Numbers):
            return [[entry] for entry in entries]
        if d.given is None:
            raise UnsettledError("a filter that drops nothing may be its operand")
        choices: dict[int, Choice] = {}
        for entry in entries:
            choices.setdefault(row.group_of[key_of(entry[0])], []).append(entry)
        return list(choices.values())

    def _some(self, choices: list[Choice], entries: list[Entry]) -> list[Entry]:
        if len(choices) > 1:
            each = [self._some([choice], choice) for choice in choices]
            none = self._parts([none for _, (_, none) in each])
            tags = [some for (_, some), _ in each]
            if not self.semiring.adds:
                return [(True, self.semiring.plus(tags)), (False, none)]
            found = dict(self._folded(choices, bool))
            return [(True, found.get(True, self.semiring.zero)), (False, none)]
        tags = [tag for _, tag in entries]
        some, none = self._disjoint(tags), self._parts([self._fails(tag) for tag in tags])
        return [
            (True, some),
            (False, self._fails(some) if isinstance(self.semiring, Numbers) else none),
        ]

    def _parts(self, tags: Sequence[Any]) -> Any:
        """⊗ of these; where proofs are kept, those of its parts need their place, too."""
        if isinstance(self.semiring, TopK):
            for start in range(1, len(tags) - 1):
                self.semiring.product(tags[start:])
        return self.semiring.product(tags)

    def _folded(self, choices: list[Choice], answer: Answer) -> list[Entry]:
        """⊕ over the worlds that give an answer of ⊗ of what holds in each choice, or doesn't."""
        if sum(map(len, choices)) > 6:
            raise UnsettledError("too many subsets")
        if isinstance(self.semiring, TopK) and len(choices) > 1:
            for start, end in itertools.combinations(range(len(choices) + 1), 2):
                if end - start < len(choices):  # the proofs of parts need their place, too
                    self._worlds(choices[start:end], answer)
        return self._worlds(choices, answer)

    def _worlds(self, choices: list[Choice], answer: Answer) -> list[Entry]:
        found: dict[Any, list[Any]] = {}
        options = [[(None, self._some([c], c)[1][1]), *(([s], t) for s, t in c)] for c in choices]
        for world in itertools.product(*options):
            held = [symbol for symbols, _ in world for symbol in symbols or ()]
            tag = self.semiring.product([tag for _, tag in world])
            found.setdefault(answer(held), []).append(tag)
        return [(result, self._disjoint(tags)) for result, tags in found.items()]

    def _first(self, d: Value, key: Any, by: Any, *, reverse: bool) -> Value:
        def first(choices: list[Choice], entries: list[Entry]) -> list[Entry]:
            ordered = sorted(entries, key=lambda e: key(e[0]) if key else e[0], reverse=reverse)
            if self.disordered and key and len({key(s) for s, _ in entries}) < len(entries):
                raise UnsettledError("which of equal ones comes first")
            if len(choices) > 1:
                self._parts([self._fails(tag) for _, tag in ordered])
            found, before = [], [[] for _ in choices]
            own = {id(entry): c for c, choice in enumerate(choices) for entry in choice}
            for entry in ordered:
                others = [e for c, e in enumerate(before) if e and c != own[id(entry)]]
                fail = [self._some([earlier], earlier)[1][1] for earlier in others]
                found.append((entry[0], self.semiring.product([entry[1], *fail])))
                before[own[id(entry)]].append(entry)
            return [*found, (None, self._some(choices, entries)[1][1])]

        return self._asked(d, None, by, first)

    # -- conditions --------------------------------------------------------------------------------

    def condition(self, d: Value, event: Value) -> Value:
        batch = self._batch([d, event])
        if any(not isinstance(s, bool) for s in event.symbols):
            raise RefusedError("an event is true or false")
        if isinstance(self.semiring, Numbers) or not self.semiring.counts:
            raise UnsettledError("only exact answers are compared")
        rows, divisors = [], [1.0]
        for number in range(batch):
            row, holds = d.row_of(number), event.row_of(number).tag(True, self.semiring.zero)
            whole = self.semiring.probability(holds)
            if 0.0 < whole.real < 1e-25:
                raise UnsettledError("single precision can't tell the event from an impossible one")
            if self._loose(holds):
                raise UnsettledError("an event that rounding makes possible or impossible")
            divisors.append(whole.real or 1.0)
            parts = [
                Jet(0.0)
                if whole.real <= 0.0
                else self.semiring.probability(self.semiring.product([tag, holds])) / whole
                for _, tag in row
            ]
            loose = [self._loose(self.semiring.product([tag, holds])) for _, tag in row]
            groups = self._groups_in(d, row)
            rows.append(self._input(row.symbols, parts, loose, groups))
        self.divisor *= min(divisors)
        return Value(d.reference, rows, exclusive=d.exclusive, given=d.given)

    def normalized(self, d: Value) -> Value:
        rows, divisors = [], [1.0]
        for row in d.each:
            probs = [self.semiring.probability(tag) for _, tag in row]
            whole = total(probs)
            # a + b - 1 next to 0 is rounding in single precision
            least = 1e-9 if self.semiring.rounding == 0.0 else 1e-6
            if any(0.0 < p.real < 1e-25 for p in probs) or 0.0 < whole.real < least:
                raise UnsettledError("too small to be divided by")
            if whole.real > 0.0:
                probs = [p / whole for p in probs]
                divisors.append(whole.real)
            loose = [self._loose(tag) for _, tag in row]
            rows.append(self._input(row.symbols, probs, loose, [list(range(len(probs)))]))
        self.divisor *= min(divisors)
        return Value(d.reference, rows, exclusive=True)

    def _loose(self, tag: Any) -> bool:
        """Whether a probability is 0 only up to rounding."""
        if isinstance(self.semiring, Numbers) or not self.semiring.counts:
            return False
        found = self.semiring.probability(tag).real
        return found < SMALL and self.semiring.rounded(tag, SMALL).real > found + SMALL / 2.0

    def _groups_in(self, d: Value, row: Row) -> list[list[int]]:
        """Which columns of a row exclude each other."""
        if d.exclusive:
            return [list(range(len(row)))]
        if d.given is None:
            raise UnsettledError("a filter that drops nothing may be its operand")
        groups: dict[int, list[int]] = {}
        for column, symbol in enumerate(row.symbols):
            number = row.group_of[key_of(symbol)] if d.given else column
            groups.setdefault(number, []).append(column)
        return list(groups.values())

    def _input(
        self, symbols: list[Any], probs: list[Jet], loose: list[bool], groups: list[list[int]]
    ) -> Row:
        """Facts of their own."""
        row, tags = Row(), {}
        for number, members in enumerate(groups):
            may_round = frozenset(at for at, c in enumerate(members) if loose[c])
            group = Group(next(self.groups), tuple(probs[c] for c in members), may_round)
            for choice, column in enumerate(members):
                tags[column] = self.semiring.fact(group, choice)
                row.group_of[key_of(symbols[column])] = number
        for column, symbol in enumerate(symbols):
            row.add(symbol, tags[column])
        return row


def expectation(value: Value, row: int) -> Jet:
    """Σ P(symbol) · symbol, of symbols that are numbers."""
    return total(value.probability(row, s) * float(s) for s in value.row_of(row).symbols)


def uncertainty(value: Value, row: int) -> Jet | None:
    """-Σ p log p; None where a probability is so small that its slope is anybody's guess."""
    probs = [value.probability(row, s) for s in value.row_of(row).symbols]
    if any(0.0 < p.real < 1e-4 for p in probs):
        return None
    return total(-(p * p.log()) for p in probs if p.real > 0.0)
