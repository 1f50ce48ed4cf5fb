"""What counts as one symbol.

Two notions are distinguished:

* *equal* symbols (Python's `==`) are one symbol of a distribution: `1`, `1.0` and `True`;
* *alike* symbols (equal, and of the same types all the way down) may share a remembered result of
  a user function: `str(1)` must not be answered with the result of `str(True)`.
"""

from __future__ import annotations

import contextlib
import decimal
import itertools
import math
import operator
import types
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from dolphin.errors import SymbolError, shorten

NAN = math.nan
COMPLEX_NAN = complex(math.nan, math.nan)
DECIMAL_NAN = decimal.Decimal("nan")
SCALARS = frozenset({int, str, bool, bytes, type(None)})
FLAT = SCALARS | {float}
_NUMBERS: tuple[Any, ...] = (
    int,
    float,
    complex,
    str,
    bytes,
)  # whose subclasses hold more than attributes
# Of these types and no other, equal objects are alike: 1 equals True, but True is not here.
UNMISTAKABLE = frozenset({int, str, bytes, type(None)})
# Libraries whose objects compare with anything, by all that they hold.
_WELL_KNOWN = frozenset({"builtins", "fractions", "decimal", "datetime", "uuid", "pathlib"})


def kind(symbol: Any) -> Any:
    """What, besides equality, makes two symbols interchangeable as arguments of a function.

    Two equal objects of a user class are interchangeable if their attributes are: a function may
    read what `__eq__` leaves out.

    >>> kind(1) == kind(True), kind((1, "a")) == kind((1.0, "a")), kind(0.0) == kind(-0.0)
    (False, False, False)
    """
    cls = type(symbol)
    if cls in SCALARS:
        return cls
    if cls is float:
        return (float, math.copysign(1.0, symbol)) if symbol == 0.0 else float
    if isinstance(symbol, tuple):
        if cls.__eq__ is not tuple.__eq__:  # which may leave members out
            return (cls, *((kind(member), member) for member in tuple.__iter__(symbol)))
        return (cls, *map(kind, symbol))
    if isinstance(symbol, frozenset):
        return (cls, frozenset((kind(member), member) for member in symbol))
    if cls.__eq__ is object.__eq__:
        return cls
    if cls.__module__ in _WELL_KNOWN:  # equal, and yet different: Decimal("1.0") and Decimal("1")
        return (cls, repr(symbol))
    return (cls, *_attributes(symbol))


def _attributes(symbol: Any) -> Iterator[Any]:
    """Names, kinds and values of the attributes of an object, whatever its `__eq__` compares."""
    try:
        items = list(vars(symbol).items())
    except TypeError:
        items = []
    for base in type(symbol).__mro__:
        for name, member in vars(base).items():
            if isinstance(member, types.MemberDescriptorType):
                with contextlib.suppress(AttributeError):
                    items.append((name, member.__get__(symbol)))
    items += [("", base.__repr__(symbol)) for base in _NUMBERS if isinstance(symbol, base)]
    for name, value in items:
        try:
            hash(value)
        except Exception:
            yield name, id(value)
        else:
            yield name, kind(value), value


def canonical(symbol: Any) -> Any:
    """One object for all `nan` of a type, Python numbers for numpy's; everything else as it is."""
    cls = type(symbol)
    if cls in SCALARS or (cls is float and symbol == symbol):
        return symbol
    if isinstance(symbol, tuple):
        for member in symbol:
            inner = type(member)
            if inner in SCALARS or (inner is float and member == member):
                continue
            if canonical(member) is not member:
                make: Any = getattr(cls, "_make", cls)
                return make(map(canonical, symbol))
        return symbol
    if cls is frozenset:
        plain = frozenset(map(canonical, symbol))
        return symbol if all(map(operator.is_, plain, symbol)) else plain
    if isinstance(symbol, np.generic):  # numpy integers overflow, Python's don't
        symbol = symbol.item()
    if isinstance(symbol, (float, np.floating, complex, decimal.Decimal)) and symbol != symbol:
        if isinstance(symbol, complex):
            return COMPLEX_NAN
        return DECIMAL_NAN if isinstance(symbol, decimal.Decimal) else NAN
    _refuse(symbol, cls)
    return symbol


def unhashable(symbol: Any) -> SymbolError:
    """What is said of an object that has no hash."""
    return SymbolError(
        f"unhashable symbol {shorten(symbol)} of type {type(symbol).__name__}. Symbols are "
        "hashable Python objects: use a tuple instead of a list, a frozenset instead of a set, a "
        "frozen dataclass instead of a dict."
    )


def _refuse(symbol: Any, cls: type) -> None:
    """Raise for objects that hash by identity and can't be intended as symbols."""
    if cls.__module__.startswith("torch") and hasattr(symbol, "requires_grad"):
        raise SymbolError(
            f"a tensor can't be a symbol: {shorten(symbol)} compares elementwise and hashes by "
            "identity. Return a Python number, e.g. tensor.item()."
        )
    if isinstance(symbol, (types.CoroutineType, types.AsyncGeneratorType)):
        raise SymbolError(
            f"{shorten(symbol)} can't be a symbol: nothing awaits it. Write a plain `def` instead "
            "of `async def`."
        )
    if isinstance(symbol, Iterator) and cls.__module__ in ("builtins", "itertools"):
        raise SymbolError(
            f"a {cls.__name__} can't be a symbol: {shorten(symbol)} hashes by identity and can be "
            "read only once. Return tuple(...) of it; for several possible results, pass a "
            "distribution over them as another operand."
        )
    if any(base.__module__ == "dolphin.distribution" for base in cls.__mro__):
        raise SymbolError(
            "a Distribution can't be a symbol of another. Pass it as another operand, "
            "apply(d, e, f), or write the operations one after another instead of one inside "
            "another's function."
        )


def obviously_alike(symbol: Any, equal: Any) -> bool:
    """Whether two equal symbols are of the same kind, as far as can be told quickly."""
    cls = type(symbol)
    if symbol is equal:
        return True
    if cls is not type(equal):
        return False
    if cls in SCALARS:
        return True
    if cls is float:
        return symbol != 0.0
    if cls is not tuple:
        return False
    for member, other in zip(symbol, equal, strict=True):
        inner = type(member)
        if inner is not type(other) or not (inner in SCALARS or (inner is float and member != 0)):
            return False
    return True


def simple_type(symbols: Iterable[Any]) -> type | None:
    """The type of symbols for which equal means alike, None if they are not of such a type.

    That is a type of `UNMISTAKABLE`, or tuples of one type whose members are of such types.
    """
    symbols = list(symbols)
    types_ = set(map(type, symbols))
    if len(types_) != 1:
        return None
    (cls,) = types_
    if cls in UNMISTAKABLE:
        return cls
    members = itertools.chain.from_iterable(symbols) if is_tuple(cls) else symbols
    return cls if UNMISTAKABLE.issuperset(map(type, members)) else None


def means_alike(symbol: Any) -> bool:
    """Whether symbols of its type that are equal to it are alike: `simple_type` of one."""
    cls = type(symbol)
    if cls is tuple or (cls not in UNMISTAKABLE and is_tuple(cls)):
        return UNMISTAKABLE.issuperset(map(type, symbol))
    return cls in UNMISTAKABLE


def is_tuple(cls: type) -> bool:
    """Whether it compares, hashes and iterates as tuples do."""
    if cls is tuple:
        return True
    same = (cls.__eq__ is tuple.__eq__, cls.__hash__ is tuple.__hash__)
    return issubclass(cls, tuple) and all(same) and cls.__iter__ is tuple.__iter__


def equal(one: Any, other: Any) -> bool:
    """Whether two symbols are equal; they are not if `__eq__` can't tell."""
    try:
        return one is other or bool(one == other)
    except Exception:
        return False


def compares_with_anything(symbol: Any) -> bool:
    """Whether a symbol, as a key of a dictionary, can be compared with any other."""
    cls = type(symbol)
    if cls in SCALARS or cls is float or cls.__eq__ is object.__eq__:
        return True
    if cls.__eq__ is tuple.__eq__ or cls.__eq__ is frozenset.__eq__:
        return all(map(compares_with_anything, symbol))
    return cls.__module__ in _WELL_KNOWN


def address_in(results: Iterable[Any]) -> str:
    """A text that contains an address, as the `repr` of most objects does; "" if there is none.

    >>> address_in(["pure", (1, 2)]), address_in([(1, repr(object()))]) == ""
    ('', False)
    """
    items: list[Any] = list(results)
    while items:
        texts = [item for item in items if type(item) is str]
        if texts and " at 0x" in "\n".join(texts):
            return next(shorten(text) for text in texts if " at 0x" in text)
        items = [*itertools.chain.from_iterable(item for item in items if type(item) is tuple)]
    return ""
