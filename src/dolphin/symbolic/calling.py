"""Running user functions once for each new combination of symbols."""

from __future__ import annotations

import contextlib
import inspect
import types
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from dolphin.errors import DolphinError, FunctionError, SymbolError, shorten
from dolphin.symbolic.chance import Sources, Weighted, chance_number
from dolphin.symbolic.symbols import SymbolTable
from dolphin.symbolic.watching import calls_of_functions

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
    sources: Sources | None = None,
) -> np.ndarray:
    """The numbers of `function(...)` for each combination, `ABSENT` where `condition` is false.

    `columns` holds one array of symbol numbers per argument. With a `key` the results are
    remembered in `table`. `distinct` promises that no combination occurs twice. Results may be a
    matter of chance where there are `sources` of weights: then they are numbers of chances.
    """
    if len(columns[0]) == 0:
        return np.empty(0, dtype=np.int64)
    inverse: np.ndarray | None = None
    if not distinct:
        columns, inverse = _distinct(columns)
    keys: list[Any]
    if len(columns) == 1:
        keys = columns[0].tolist()
    elif len(columns) == 2:
        keys = ((columns[0] << 32) | columns[1]).tolist()
    else:
        keys = list(zip(*(column.tolist() for column in columns), strict=True))
    memo = table.memos.setdefault(key, {}) if key is not None else {}
    before = len(memo)
    results = [memo.get(k) for k in keys]
    missing = [place for place, result in enumerate(results) if result is None]
    if missing:
        call = _Call(operation, function, condition, table, sources)
        combinations = zip(*(column[missing].tolist() for column in columns), strict=True)
        watching = contextlib.nullcontext() if sources is None else sources.watching()
        with calls_of_functions(len(missing)), watching:
            for place, result in zip(missing, call.all(combinations), strict=True):
                results[place] = result
                if sources is None or sources.take_note():
                    memo[keys[place]] = result
        if key is not None:
            table.remembered += len(memo) - before
    found = np.array(results, dtype=np.int64)
    return found if inverse is None else found[inverse]


def _distinct(columns: Sequence[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
    """Each combination once, and where each of the given ones is among them."""
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

    def all(self, combinations: Iterable[Sequence[int]]) -> Iterator[int]:
        """The results for all combinations: quickly, and slowly once more for one that fails."""
        symbols, number = self.table.symbols, self._number
        function, condition = self.function, self.condition
        for numbers in combinations:
            arguments = [symbols[n] for n in numbers]
            result = None
            try:
                holds = condition is None or condition(*arguments)
                if holds is True or holds is False:
                    result = number(function(*arguments)) if holds else ABSENT
            except Exception:
                result = None
            # What failed is called once more, by the one who explains what went wrong.
            yield self(numbers) if result is None else result

    def _number(self, result: Any) -> int:
        """The number of a result: of a symbol, or of a chance."""
        if type(result) is not Weighted:
            return self.table.number(result)
        if self.sources is None:
            raise SymbolError(
                "what is compared can't be a matter of chance. Draw first, with "
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
            f"{type(error).__name__}: {error}, called with {_quote(arguments)}"
        )
        if wants is not None and wants != len(arguments):
            message += (
                f". It takes {wants} argument{'s' * (wants != 1)}, and {self.operation} passes one "
                f"symbol for each of the {len(arguments)} distribution"
                f"{'s' * (len(arguments) != 1)}"
            )
        return FunctionError(message + ".")


def _arity(function: Callable[..., Any]) -> int | None:
    """How many positional arguments a plain Python function takes, or None if that varies."""
    code = getattr(function, "__code__", None)
    if (
        code is None
        or code.co_flags & inspect.CO_VARARGS
        or getattr(function, "__defaults__", None)
    ):
        return None
    return code.co_argcount - isinstance(function, types.MethodType)


def name_of(function: Callable[..., Any]) -> str:
    """What messages call a user function."""
    return getattr(function, "__qualname__", None) or shorten(function, 40)


def _quote(arguments: Sequence[Any]) -> str:
    if len(arguments) == 1:
        return f"the symbol {shorten(arguments[0])}"
    return "the symbols (" + ", ".join(shorten(argument) for argument in arguments) + ")"
