"""Chance, branches and programs by their definitions: every execution, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

from fuzzing.diagrams import Group
from fuzzing.jets import Jet
from fuzzing.rows import Row, Value, key_of
from fuzzing.semirings import RefusedError, Semiring, UnsettledError


class Weighted:
    """One of several outcomes, at random."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, outcomes: dict[Any, Any]) -> None:
        self.outcomes = list(outcomes)
        self.weights = tuple(
            weight if isinstance(weight, Jet) else Jet(float(weight))
            for weight in outcomes.values()
        )
        if any(weight.real < -1e-4 for weight in self.weights):
            raise RefusedError("a negative weight")
        if sum(weight.real for weight in self.weights) > 1.001:
            raise RefusedError("weights that pass 1")


class NothingError(Exception):
    """An execution that has no result."""


class Execution:
    """One way through a program in one row: the choices of a script, then every first one."""

    def __init__(self, row: int, script: list[int]) -> None:
        self.row, self.script, self.step = row, script, 0
        self.others: list[list[int]] = []
        self.tags: list[Any] = []
        self.made: dict[int, Any] = {}

    def pick(self, options: Sequence[tuple[Any, Any]]) -> Any:
        if not options:
            raise NothingError
        if self.step == len(self.script):
            self.others += [[*self.script, other] for other in range(len(options) - 1, 0, -1)]
            self.script.append(0)
        symbol, tag = options[self.script[self.step]]
        self.step += 1
        self.tags.append(tag)
        return symbol


class Language:
    """The part of the module `dolphin` that programs are written in; `Reference` inherits it."""

    semiring: Semiring
    groups: Iterator[int]
    Distribution: Any
    most = 3000  # executions that the reference goes along with

    def __init__(self) -> None:
        self._running: Execution | None = None
        self._drawn: dict[Hashable, Group] = {}
        self._asked_for: list[Value] = []
        self._states: dict[Hashable, Value] = {}
        self.disordered = False  # whether symbols may come in another order

    def _batch(self, values: Sequence[Value]) -> int:
        raise NotImplementedError

    def weighted(self, outcomes: dict[Any, Any]) -> Weighted:
        return Weighted(outcomes)

    def outcomes(self, result: Any) -> list[tuple[Any, list[Any]]]:
        """What a function of symbols gave: symbols, each with the tags that it comes with."""
        if not isinstance(result, Weighted):
            return [(result, [])]
        group = Group(next(self.groups), result.weights)
        return [(o, [self.semiring.fact(group, c)]) for c, o in enumerate(result.outcomes)]

    def where(self, cond: Any, yes: Any, no: Any) -> Value:
        first, second = (
            b if isinstance(b, Value) else self.Distribution.certain(b) for b in (yes, no)
        )
        if not isinstance(cond, Value):
            if any(value.batch_size not in (1, len(cond)) for value in (first, second)):
                raise RefusedError("a mask of another length")
            rows = [(first if own else second).row_of(n) for n, own in enumerate(cond)]
            exclusive = first.exclusive and second.exclusive
            return Value(first.reference, rows, exclusive=exclusive)
        if any(not isinstance(symbol, bool) for symbol in cond.symbols):
            raise RefusedError("a condition is true or false")
        rows = []
        for number in range(self._batch([cond, first, second])):
            row, held = Row(), {key_of(s): tag for s, tag in cond.row_of(number)}
            for truth, branch in ((True, first), (False, second)):
                if key_of(truth) in held:
                    for symbol, tag in branch.row_of(number):
                        row.add(symbol, held[key_of(truth)], tag)
            rows.append(row.settled(self.semiring))
        # A branch that no row can take says nothing of the result.
        taken = [
            branch for truth, branch in ((True, first), (False, second)) if truth in cond.symbols
        ]
        exclusive = all(value.exclusive for value in (cond, *taken))
        return Value(first.reference, rows, exclusive=exclusive)

    # -- programs ----------------------------------------------------------------------------------

    def program(self, function: Callable | None = None, keep: int | None = None) -> Callable:
        """⊕ over all executions of ⊗ of the choices made, row by row; `keep` is large enough."""
        if function is None:
            self.disordered = True
            return self.program

        def run(*arguments: Any) -> Value:
            if self._running is None:
                self._states.clear()
                return self._explored(function, arguments)
            state = (function, *map(id, arguments))
            if state not in self._states:  # a program in a program: equal states are merged
                outer = self._running, self._drawn, self._asked_for
                self._drawn, self._asked_for = {}, []
                self._states[state] = self._explored(function, arguments)
                self._running, self._drawn, self._asked_for = outer
            return self._states[state]

        return run

    def _explored(self, function: Callable, arguments: Sequence[Any]) -> Value:
        values = [a for a in arguments if isinstance(a, Value)]
        batch = self._batch(values)
        self._drawn.clear()
        self._asked_for.clear()
        rows = [self._row(function, arguments, number) for number in range(batch)]
        exclusive = all(value.exclusive for value in self._asked_for)
        return Value(values[0].reference, rows, exclusive=exclusive)

    def _row(self, function: Callable, arguments: Sequence[Any], number: int) -> Row:
        row, waiting, runs = Row(), [[]], 0
        while waiting:
            runs += 1
            if runs > self.most:
                raise UnsettledError("too many executions")
            execution = self._running = Execution(number, waiting.pop())
            try:
                result = function(*arguments)
                row.add(result, *execution.tags)
            except NothingError:
                pass
            finally:
                self._running = None
            waiting += execution.others  # the last choice varies fastest
        return row.settled(self.semiring)

    def choose(self, value: Any) -> Any:
        execution = self._running
        if execution is None:
            raise RefusedError("a choice outside of a program")
        if isinstance(value, Weighted):
            key = ("draw", execution.row, execution.step, tuple(execution.script[: execution.step]))
            group = self._drawn.setdefault(key, Group(next(self.groups), value.weights))
            return execution.pick(
                [(o, self.semiring.fact(group, c)) for c, o in enumerate(value.outcomes)]
            )
        if id(value) not in execution.made:
            self._asked_for.append(value)
            execution.made[id(value)] = execution.pick(list(value.row_of(execution.row)))
        return execution.made[id(value)]

    def batched(self, function: Callable) -> Callable:
        """The loop over samples, and the rows of what it gives."""

        def run(*columns: Any) -> Value:
            return self.Distribution.stack([function(*one) for one in zip(*columns, strict=True)])

        return run
