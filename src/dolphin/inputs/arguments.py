"""Plain arguments of public functions: flags, counts, names and lists, checked in one way.

A wrong one is refused with the operation, the argument and what it may be.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Sequence
from typing import Any

from dolphin.errors import InputError, SizeError, shorten

_MOST_ITEMS = 5_000_000  # items of an iterator: one without an end must not fill the memory


def flag(operation: str, name: str, value: Any) -> bool:
    """True or False.

    >>> flag("apply", "cache", True)
    True
    """
    if value is True or value is False:
        return value
    if type(value).__name__ not in ("bool", "bool_"):  # those of numpy
        raise InputError(f"{operation}: {name}= must be True or False, got {shorten(value)}.")
    return bool(value)


def count(operation: str, name: str, value: Any, least: int = 1) -> int:
    """A whole number of at least `least`; those of numpy are fine.

    >>> count("sample", "k", 3)
    3
    """
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except Exception:  # whatever can't be read as a number, tensors of several entries included
        number = None
    if number is None or number < least:
        wanted = {0: "an integer of at least 0", 1: "a positive integer"}.get(
            least, f"an integer of at least {least}"
        )
        raise InputError(f"{operation}: {name} must be {wanted}, got {shorten(value)}.")
    return number


def option(operation: str, name: str, value: Any, options: Sequence[str]) -> None:
    """One of a few names.

    >>> option("sample", "method", "top", ("top", "categorical"))
    """
    if not isinstance(value, str) or value not in options:
        *most, last = map(repr, options)
        wanted = f"{', '.join(most)} or {last}"
        raise InputError(f"{operation}: {name} must be {wanted}, got {shorten(value)}.")


def items(operation: str, what: str, values: Iterable[Any], remedy: str = "") -> tuple[Any, ...]:
    """What a list, or anything that can be iterated, contains.

    >>> items("stack", "distributions", [1, 2])
    (1, 2)
    """
    if isinstance(values, tuple):
        return values
    try:
        if hasattr(values, "__len__"):
            return tuple(values)
        members = tuple(itertools.islice(values, _MOST_ITEMS + 1))
    except TypeError:
        hint = f" {remedy}" if remedy else ""
        raise InputError(
            f"{operation}: {what} must be a list, got {shorten(values)}.{hint}"
        ) from None
    if len(members) > _MOST_ITEMS:
        raise SizeError(
            f"{operation}: {what} are more than {_MOST_ITEMS:,}; the iterator may never end."
        )
    return members
