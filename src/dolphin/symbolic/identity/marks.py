"""Keys by identity: for what can't be compared by content."""

from __future__ import annotations

import types
import weakref
from collections.abc import Iterable
from operator import is_
from typing import Any


class Same:
    """Equal only to another reference to the same object, while it is alive."""

    __slots__ = ("_hash", "_strong", "_weak")

    def __init__(self, target: Any) -> None:
        self._hash = id(target)
        self._weak: weakref.ref[Any] | None = None
        self._strong = None
        try:
            self._weak = weakref.ref(target)
        except TypeError:
            self._strong = target

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Same):
            return NotImplemented
        if self._weak is None or other._weak is None:
            return self._weak is other._weak and self._strong is other._strong
        target = self._weak()
        return target is not None and target is other._weak()


class Objects:
    """Some objects, in this order: equal only if all of them are the same."""

    __slots__ = ("_hash", "_parts")

    def __init__(self, parts: Iterable[Any]) -> None:
        self._parts = tuple(parts)  # kept alive, so that no id is reused
        self._hash = hash(tuple(map(id, self._parts)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Objects):
            return NotImplemented
        return len(self._parts) == len(other._parts) and all(map(is_, self._parts, other._parts))


class Code(Objects):
    """What can be replaced in functions: code and defaults. Equal only if all are the same."""

    __slots__ = ()

    def __init__(self, functions: Iterable[types.FunctionType]) -> None:
        parts: list[Any] = []
        for function in functions:
            parts.append(function.__code__)
            parts += function.__defaults__ or ()
            parts += (function.__kwdefaults__ or {}).values()
        super().__init__(parts)
