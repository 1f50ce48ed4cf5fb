"""Running user functions once for each new combination of symbols."""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import types
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from dolphin.errors import DolphinError, FunctionError, SymbolError, shorten, told
from dolphin.symbolic.chance import Sources, Weighted, chance_number
from dolphin.symbolic.identity.changing import Changing, including
from dolphin.symbolic.identity.functions import fingerprint, key_of
from dolphin.symbolic.memos import MISSING
from dolphin.symbolic.surroundings import calls_of_functions
from dolphin.symbolic.tables import SymbolTable

ABSENT = -1  # instead of a symbol's number: this combination gives nothing


def evaluate(
    operation: str,
    function: Callable[..., Any],
    condition: Callable[..., Any] | None,
    key: Hashable | None,
    table: SymbolTable,
    columns: Sequence[np.ndarray],
    *,
    distinct: bool,
    watch: Watch | None = None,
    sources: Sources | None = None,
) -> np.ndarray:
    """The numbers of `function(...)` for each combination, `ABSENT` where `condition` is false.

    `columns` holds one array of symbol numbers per argument. With a `key` the results are
    remembered in `table`, if `watch` sees no change while they are computed. `distinct` promises
    that no combination occurs twice. Where there are `sources` of weights, results may be random:
    then they are numbers of chances.
    """
    if len(columns[0]) == 0:
        return np.empty(0, dtype=np.int64)
    memo = None if key is None else table.memo(key, len(columns))
    since = 0 if memo is None else len(memo)
    if memo is None:
        results = np.full(len(columns[0]), MISSING, dtype=np.int64)
    else:
        results = memo.find(columns)
    missing = np.flatnonzero(results == MISSING)
    if len(missing) == 0:
        return results
    new = [column[missing] for column in columns]
    inverse: np.ndarray | None = None
    if not distinct:
        new, inverse = _distinct(new)
    call = _Call(operation, function, condition, table, sources)
    watching = contextlib.nullcontext() if sources is None else sources.watching()
    made, kept = (np.empty(len(new[0]), dtype=kind) for kind in (np.int64, bool))
    with calls_of_functions(len(new[0])), watching:
        alone = sources is not None and bool(sources.tensors)  # each call may read numbers
        seen = None if memo is None or watch is None else watch.over(len(made), len(memo))
        for part in _parts(len(made), seen, alone):
            made[part], kept[part] = call.some([column[part].tolist() for column in new])
    if call.address and watch is not None:
        watch.disturb(f"returned {call.address}, which contains an address")
    if memo is not None and (watch is None or watch.steady):
        table.remember(memo, [column[kept] for column in new], made[kept], since)
    results[missing] = made if inverse is None else made[inverse]
    return results


class Watch:
    """Notices functions that change what they read while they run: their results are not kept.

    A function that counts its calls, for example, is a different function after every call.
    """

    def __init__(
        self, key: Hashable, look: Callable[[], Hashable | None], changing: Changing = ()
    ) -> None:
        self.key = key
        self.look = look  # computes the key again
        self.changing = changing  # what may change about the arguments
        self.steady = True
        self.reason = ""  # why it is not

    @classmethod
    def of(
        cls,
        operation: str,
        functions: Sequence[Callable[..., Any] | None],
        cache: bool = True,
        changing: Changing = (),
    ) -> Watch | None:
        """A watch over the functions of an operation; None if they must not be remembered.

        `changing`: what may change about their arguments.
        """
        first = next(function for function in functions if function is not None)

        def look() -> Hashable | None:
            key = including(key_of(operation, functions, cache), changing, first)
            return None if key is None else (operation, key)

        key = look()
        return None if key is None else cls(key, look, changing)

    def key_of(self, function: Callable[..., Any]) -> Hashable | None:
        """The key of one of the functions alone, with such arguments."""
        return including(fingerprint(function), self.changing, function)

    def over(self, count: int, before: int) -> Iterator[slice]:
        """Parts of this many calls, with a check after the 1st, 2nd, 4th, 8th, ... and the last.

        Calls `before` these, whose results were kept, count as well.
        """
        start = 0
        while start < count:
            stop = min(count, max(1, before + 2 * start))
            yield slice(start, stop)
            self.check()
            start = stop

    def check(self) -> None:
        if self.steady and self.look() != self.key:
            self.disturb("changes what it reads")

    def disturb(self, reason: str) -> None:
        """Results are not to be kept, for this reason."""
        if self.steady:
            self.steady, self.reason = False, reason


def _parts(count: int, parts: Iterator[slice] | None, alone: bool) -> Iterator[slice]:
    """Calls that are made together, or each one by itself."""
    for part in [slice(count)] if parts is None else parts:
        if not alone:
            yield part
            continue
        yield from (slice(at, at + 1) for at in range(*part.indices(count)))


def _distinct(columns: Sequence[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
    """The distinct combinations, and the place of each given one among them."""
    rank = columns[0]
    for column in columns[1:]:
        if len(columns) > 2:  # keep the packed number within 64 bits
            rank = np.unique(rank, return_inverse=True)[1]
        rank = (rank << 32) | column
    _, first, inverse = np.unique(rank, return_index=True, return_inverse=True)
    return [column[first] for column in columns], inverse


class _Call:
    """Calls a user function with symbols instead of numbers, and explains what goes wrong."""

    def __init__(
        self,
        operation: str,
        function: Callable[..., Any],
        condition: Callable[..., Any] | None,
        table: SymbolTable,
        sources: Sources | None,
    ) -> None:
        self.operation = operation
        self.function = function
        self.condition = condition
        self.table = table
        self.sources = sources
        self.address = ""  # a result that tells where an object is in memory

    def some(self, columns: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
        """The results for some combinations, given by columns, and which may be remembered.

        All calls are made in one go; where one fails, they are repeated one by one to explain it.
        Results are numbered together: 0.5 instead of 2.0 microseconds for a call that does next to
        nothing.
        """
        count = len(columns[0])
        made = np.full(count, ABSENT, dtype=np.int64)
        places, results = self._in_one_go(columns) or self._one_by_one(columns, made)
        kept = np.full(count, self.sources is None or self.sources.take_note())
        with contextlib.suppress(Exception):  # one of them fails again below
            if Weighted not in set(map(type, results)):
                made[places] = self.table.numbers(results)
                self._look_for_addresses(made)
                return made, kept
        for place, result in zip(places, results, strict=True):
            try:
                made[place] = self._number(result)
            except Exception:
                made[place] = self([column[place] for column in columns])
            kept[place] &= self.sources is None or self.sources.take_note()
        self._look_for_addresses(made)
        return made, kept

    def _look_for_addresses(self, made: np.ndarray) -> None:
        self.address = self.address or self.table.address_among(made)

    def _in_one_go(
        self, columns: Sequence[Sequence[int]]
    ) -> tuple[Sequence[int] | np.ndarray, list[Any]] | None:
        """Where the condition holds, and the results there; None if a call fails."""
        symbol = self.table.symbols.__getitem__
        places = np.arange(len(columns[0]))
        try:
            given = [list(map(symbol, column)) for column in columns]
            if self.condition is not None:
                holds = list(map(self.condition, *given))
                # `map` takes a StopIteration that a function raises for its end.
                if len(holds) < len(places) or not _BOOLEANS.issuperset(map(type, holds)):
                    return None
                if not all(holds):
                    places = np.flatnonzero(holds)
                    given = [list(itertools.compress(column, holds)) for column in given]
            results = list(map(self.function, *given))
            return None if len(results) < len(places) else (places, results)
        except Exception:
            return None

    def _one_by_one(
        self, columns: Sequence[Sequence[int]], made: np.ndarray
    ) -> tuple[Sequence[int], list[Any]]:
        """The same; a call that fails is repeated, and explained or written to `made`."""
        symbols, function, condition = self.table.symbols, self.function, self.condition
        results, places = [], []
        for place, numbers in enumerate(zip(*columns, strict=True)):
            arguments = [symbols[n] for n in numbers]
            try:
                holds = condition is None or condition(*arguments)
                if holds is True:
                    results.append(function(*arguments))
                    places.append(place)
            except Exception:
                holds = None
            if holds is not True and holds is not False:
                made[place] = self(numbers)
        return places, results

    def _number(self, result: Any) -> int:
        """The number of a result: of a symbol, or of a chance."""
        if type(result) is not Weighted:
            return self.table.number(result)
        if self.sources is None:
            raise SymbolError(
                "what is compared can't be random. Draw first, with "
                "d.map(lambda x: dolphin.weighted(...)), and compare the result."
            )
        if not result.outcomes:
            return ABSENT
        return chance_number(self.table, self.sources.written_down(result, self.table))

    def __call__(self, numbers: Sequence[int]) -> int:
        symbols = self.table.symbols
        arguments = [symbols[number] for number in numbers]
        if self.condition is not None:
            try:
                holds = self.condition(*arguments)
            except Exception as error:
                raise self._failure("condition", self.condition, arguments, error) from error
            if type(holds) is Weighted:
                raise FunctionError(
                    f"{self.operation}: the condition {name_of(self.condition)} returned a "
                    f"dolphin.weighted for {_quote(arguments)}; a condition is True or False. Draw "
                    "first, with d.map(lambda x: dolphin.weighted({(x, True): 0.9, (x, False): "
                    "0.1})), and filter the result by what was drawn."
                )
            if holds is not True and holds is not False and type(holds) is not np.bool_:
                raise FunctionError(
                    f"{self.operation}: the condition {name_of(self.condition)} returned "
                    f"{shorten(holds)} ({type(holds).__name__}) for {_quote(arguments)}; it must "
                    "return True or False. Write a comparison, or wrap the result in bool(...)."
                )
            if not holds:
                return ABSENT
        try:
            result = self.function(*arguments)
        except Exception as error:
            raise self._failure("function", self.function, arguments, error) from error
        try:
            return self._number(result)
        except SymbolError as error:
            raise SymbolError(
                f"{self.operation}: the result of {name_of(self.function)} for {_quote(arguments)} "
                f"can't be a symbol: {error}"
            ) from None

    def _failure(
        self, role: str, function: Callable[..., Any], arguments: list[Any], error: Exception
    ) -> DolphinError:
        wants = _arity(function)
        message = (
            f"{self.operation}: the {role} {name_of(function)} raised "
            f"{told(error)}, called with {_quote(arguments)}"
        )
        if wants is not None and wants != len(arguments):
            message += (
                f". It takes {wants} argument{'s' * (wants != 1)}, and {self.operation} passes one "
                f"symbol for each of the {len(arguments)} distribution"
                f"{'s' * (len(arguments) != 1)}"
            )
        return FunctionError(message + ".")


_BOOLEANS = frozenset({bool, np.bool_})


def _arity(function: Callable[..., Any]) -> int | None:
    """The number of positional arguments of a plain Python function, or None if it varies."""
    code = getattr(function, "__code__", None)
    if (
        code is None
        or code.co_flags & inspect.CO_VARARGS
        or getattr(function, "__defaults__", None)
    ):
        return None
    return code.co_argcount - isinstance(function, types.MethodType)


def name_of(function: Callable[..., Any]) -> str:
    """The name of a user function in messages.

    >>> name_of(functools.partial(max, 3))
    'max(3, ...)'
    """
    if isinstance(function, functools.partial):
        given = [name_of(each) if callable(each) else shorten(each, 40) for each in function.args]
        return f"{name_of(function.func)}({', '.join([*given, '...'])})"
    return getattr(function, "__qualname__", None) or shorten(function, 40)


def _quote(arguments: Sequence[Any]) -> str:
    if len(arguments) == 1:
        return f"the symbol {shorten(arguments[0])}"
    return "the symbols (" + ", ".join(shorten(argument) for argument in arguments) + ")"
