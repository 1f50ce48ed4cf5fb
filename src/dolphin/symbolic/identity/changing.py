"""Symbols that may change: what a function can read in its arguments beyond what makes them equal.

A function may call the methods of a symbol and read its attributes. Numbers, strings and tuples of
them never change. Objects of user classes may: in place, or because their methods read something
that changes. Frozen dataclasses, named tuples and enum members with plain contents don't change, so
only their classes are checked, each time; where equal ones may differ (`field(compare=False)`, an
`__eq__` of their own) their contents are, too. For all others nothing is remembered, unless they
were declared pure.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import fractions
import pathlib
import uuid
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple

import numpy as np

from dolphin.symbolic.bounded import BoundedCache, register
from dolphin.symbolic.identity.bytecode import Use
from dolphin.symbolic.identity.contents import Reader
from dolphin.symbolic.identity.functions import note_not_remembered
from dolphin.symbolic.identity.libraries import of_library
from dolphin.symbolic.identity.randomness import ChanceError
from dolphin.symbolic.identity.trails import Trail, trail_of_classes
from dolphin.symbolic.identity.values import TooMuchError

_PLAIN = frozenset({int, str, bool, bytes, type(None), float, complex})
# Values of Python and numpy, whose methods may be patched or read settings (a time zone).
_VALUES = (
    range, fractions.Fraction, decimal.Decimal, datetime.date, datetime.time, datetime.timedelta,
    datetime.timezone, uuid.UUID, pathlib.PurePath, np.number, np.bool_, np.datetime64,
    np.str_, np.bytes_, np.dtype,
)  # fmt: skip


Changing = tuple[Any, ...]
"""What may change about some symbols: classes with their methods, and symbols as a whole."""


def changing_among(symbols: Iterable[Any]) -> Changing:
    """What may change about these symbols.

    >>> changing_among([1, ("a", 2.0), None])
    ()
    """
    classes: dict[type, None] = {}
    whole = [s for s in symbols if not (is_plain(s) or _fixed(s, classes))]
    return (*whole, *classes)


class _Look(NamedTuple):
    """Classes, what their methods read when that was last looked at, and a key for it."""

    classes: Changing  # kept alive, as they are looked up by their addresses
    trail: Trail
    contents: list[Hashable]


# Looking at a named tuple again costs 10 microseconds instead of 700.
_looks: BoundedCache[tuple[int, ...], _Look] = BoundedCache(64)
register("classes of symbols", _looks.__len__, _looks.clear)


def including(
    key: Hashable | None, changing: Changing, function: Callable[..., Any]
) -> Hashable | None:
    """The key of a function that is called with such symbols; None if it has none."""
    if key is None or not changing:
        return key
    look = _looks.peek(tuple(map(id, changing)))
    if look is not None and look.trail.unchanged():
        return (key, *look.contents)
    reader, use = Reader(), Use("first", "the symbols", ())
    try:
        contents = [reader.value(each, use) for each in changing]
    except (ChanceError, TooMuchError):
        contents = None
    except Exception:  # inspecting an object can raise anything
        contents = None
    if contents is None or reader.reasons:
        kind = next((type(each) for each in changing if not isinstance(each, type)), changing[0])
        note_not_remembered(
            function,
            f"is given symbols of the class {kind.__name__}, which may change (a frozen dataclass "
            "doesn't, and `pure` declares that a class doesn't)",
        )
        return None
    trail = trail_of_classes(changing)
    if trail is not None:
        _looks.replace(tuple(map(id, changing)), _Look(changing, trail, contents))
    return (key, *contents)


def is_plain(symbol: Any) -> bool:
    """Whether a symbol is a value that never changes."""
    cls = type(symbol)
    if cls in _PLAIN:
        return True
    if cls is not tuple and cls is not frozenset:
        return False
    return _PLAIN.issuperset(map(type, symbol)) or all(map(is_plain, symbol))


def _fixed(symbol: Any, classes: dict[type, None]) -> bool:
    """Whether an object itself can't change; its classes are noted."""
    cls: Any = type(symbol)
    if isinstance(symbol, enum.Enum):
        classes[cls] = None
        return True
    if isinstance(symbol, (tuple, frozenset)) and not getattr(symbol, "__dict__", None):
        if cls not in (tuple, frozenset):
            if cls.__eq__ not in (tuple.__eq__, frozenset.__eq__):  # equal ones may differ
                return False
            classes[cls] = None
        return all(is_plain(member) or _fixed(member, classes) for member in symbol)
    params = getattr(cls, "__dataclass_params__", None)
    if params is not None and params.frozen:
        classes[cls] = None
        fields = dataclasses.fields(cls)
        if not params.eq or not all(field.compare for field in fields):  # equal ones may differ
            return False
        names = [field.name for field in fields]
        values = [getattr(symbol, name) for name in names]
        whole = set(getattr(symbol, "__dict__", ())) <= set(names)
        return whole and all(is_plain(value) or _fixed(value, classes) for value in values)
    if not isinstance(symbol, _VALUES) or isinstance(symbol, pathlib.Path):  # a path reads files
        return False
    zone = getattr(symbol, "tzinfo", None)
    classes[cls] = None
    return of_library(cls.__module__) and (zone is None or of_library(type(zone).__module__))
