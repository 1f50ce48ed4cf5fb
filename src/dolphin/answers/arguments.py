"""The arguments of questions: their types for editors, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import numpy as np

from dolphin.errors import FunctionError, InputError, shorten
from dolphin.execution.tagged import Holder, check_arity
from dolphin.symbolic.questions import Items

if TYPE_CHECKING:
    from fractions import Fraction

    from _typeshed import SupportsDunderGT, SupportsDunderLT


# Symbols that can be added to 0, and symbols that can be compared.
class _Adds(Protocol):
    def __add__(self, other: int, /) -> Any: ...
    def __radd__(self, other: int, /) -> Any: ...


Comparable: TypeAlias = "SupportsDunderLT[Any] | SupportsDunderGT[Any]"
Added = TypeVar("Added", bound="_Adds | Fraction | np.generic")
Ordered = TypeVar("Ordered", bound="SupportsDunderLT[Any] | SupportsDunderGT[Any]")

_NUMBERS = frozenset({bool, int, float})


def check_numbers(values: Sequence[Any]) -> None:
    """Refuse what can't be added up: where nothing holds, the sum is 0."""
    for value in () if _NUMBERS.issuperset(map(type, values)) else values:
        try:
            _ = 0 + value
        except Exception:
            raise FunctionError(
                f"total: {shorten(value)} ({type(value).__name__}) can't be added to a number. "
                "Give value=, a function from a symbol to a number."
            ) from None


def sorted_by_key(operation: str, items: Items, keys: Sequence[Any], reverse: bool) -> np.ndarray:
    """Items by group, then by key; equal keys in the items' order."""
    if any(isinstance(key, float) and key != key for key in keys):
        raise FunctionError(
            f"{operation}: the key of a symbol is nan, which has no place in an order."
        )
    try:
        order = sorted(range(len(keys)), key=keys.__getitem__, reverse=reverse)
    except TypeError as error:
        raise FunctionError(
            f"{operation}: symbols can't be compared: {error}. Give key=, a function from a symbol "
            "to a number."
        ) from error
    by_key = np.array(order, dtype=np.int64)
    return by_key[np.argsort(items.groups_of[by_key], kind="stable")]


def check_function(operation: str, role: str, function: Any) -> None:
    """Refuse what is not a function of one symbol."""
    if isinstance(function, Holder) or not callable(function):
        raise InputError(
            f"{operation}: {role} must be a function of one symbol, got {shorten(function)}. Write "
            f"{operation}(d, {'lambda symbol: ...' if role == 'predicate' else role + '=...'})."
        )
    check_arity(operation, role, function, 1)
