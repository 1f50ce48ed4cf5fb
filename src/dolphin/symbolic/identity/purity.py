"""`pure`: the user's declaration that results can be remembered."""

from __future__ import annotations

import weakref
from typing import Any, TypeVar

from dolphin.errors import InputError, shorten

_T = TypeVar("_T")

_declared: dict[int, weakref.ref[Any]] = {}  # by identity: objects may define __eq__


def pure(thing: _T) -> _T:
    """Declare a function, a class or an object pure: same arguments, same result, always.

    Dolphin remembers a function only if it can see everything that the function reads. For what it
    can't see (an object that is passed on or called, a tensor, a file) it relies on this
    declaration. For a class it covers the methods and calls of its instances, for an object its
    methods and calls.

    A pure function is identified by its code and by what it closes over: plain values by content,
    objects by identity. So `@pure` also works on a function that is defined in `forward`. Any other
    change goes unnoticed until `cache_clear()`; `cache=False` opts out as usual.

    Args:
        thing: a function, a class or an object; it is returned unchanged.

    >>> import dolphin as dl
    >>> dl.cache_clear()
    >>> class Rules:
    ...     def __init__(self): self.table = {1: "one", 2: "two"}
    ...     def __getitem__(self, n): return self.table[n]
    >>> rules = dl.pure(Rules())
    >>> dl.Distribution([0.5, 0.5], [1, 2]).map(lambda n: rules[n]).symbols
    ('one', 'two')
    >>> dl.cache_info().not_remembered
    ()
    """
    things: list[Any] = [thing]
    if isinstance(thing, (staticmethod, classmethod)):
        things = [thing.__func__]
    for one in things:
        try:
            reference = weakref.ref(one, _forgetter(id(one)))
        except TypeError:
            raise InputError(
                f"pure: {shorten(one)} of type {type(one).__name__} can't be marked. Declare its "
                "class pure, or a function that uses it."
            ) from None
        _declared[id(one)] = reference
    return thing


def _forgetter(key: int) -> Any:
    def forget(reference: weakref.ref[Any]) -> None:
        if _declared.get(key) is reference:
            del _declared[key]

    return forget


def is_declared(value: Any) -> bool:
    """Whether a value, or its class, was declared pure."""
    return bool(_declared) and (_is_pure(value) or _is_pure(type(value)))


def _is_pure(thing: Any) -> bool:
    """Whether this object itself was declared pure."""
    reference = _declared.get(id(thing))
    return reference is not None and reference() is thing
