"""Arguments of programs by content, so that a program explored once is found again."""

from __future__ import annotations

import enum
import functools
import types
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from dolphin.symbolic.identity.functions import fingerprint
from dolphin.symbolic.kinds import kind


class Held:
    """Equal only to a holder of the same object, which it keeps alive."""

    def __init__(self, target: Any) -> None:
        self.target = target

    def __hash__(self) -> int:
        return id(self.target)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Held) and other.target is self.target


class UnknownError(Exception):
    """An argument can't be compared by content."""


_PLAIN = (int, str, bool, bytes, type(None), complex)
_MOST_VALUES = 2000
_MOST_BYTES = 4096


class Contents:
    """Arguments by content: values, containers and the attributes of objects, all of them."""

    def __init__(self, slot: Callable[[Any], Hashable | None]) -> None:
        self.slot = slot
        self.left = _MOST_VALUES
        self.seen: dict[int, int] = {}

    def of(self, value: Any) -> Hashable:
        cls = type(value)
        if cls in _PLAIN:
            return (cls, value)
        if cls is float:
            return (cls, value if value == value else "nan", kind(value))
        known = self.slot(value)
        if known is not None:
            return known
        self.left -= 1
        if self.left < 0:
            raise UnknownError
        if id(value) in self.seen:
            return ("again", self.seen[id(value)])
        self.seen[id(value)] = len(self.seen)
        return self._container(value, cls) or self._value(value, cls)

    def _container(self, value: Any, cls: type) -> Hashable | None:
        if cls in (tuple, list, deque) or hasattr(cls, "_fields"):
            return (cls, *map(self.of, value))
        if cls in (set, frozenset):
            return (cls, frozenset(map(self.of, value)))
        if cls is dict:
            return (cls, *((self.of(k), self.of(v)) for k, v in value.items()))
        return None

    def _value(self, value: Any, cls: type) -> Hashable:
        if isinstance(value, (enum.Enum, range, type)):
            return (cls, value)
        if isinstance(value, (np.ndarray, np.generic)):
            if value.nbytes > _MOST_BYTES or value.dtype.hasobject:
                raise UnknownError
            return (cls, value.dtype.str, value.shape, value.tobytes())
        if isinstance(value, (types.FunctionType, types.MethodType, functools.partial)):
            own = fingerprint(value, "program", self.slot)
            if own is None:
                raise UnknownError
            return own
        return self._object(value, cls)

    def _object(self, value: Any, cls: type) -> Hashable:
        """An object by its attributes, and by what its methods do."""
        if cls.__module__ == "builtins" or hasattr(cls, "__getattr__"):
            raise UnknownError
        attributes = dict(getattr(value, "__dict__", {}))
        methods: list[Hashable] = []
        for base in cls.__mro__:
            if base is object:
                continue
            slots = base.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if name not in ("__dict__", "__weakref__"):
                    attributes[name] = getattr(value, name, None)
            for name, method in vars(base).items():
                function = method.fget if isinstance(method, property) else method
                if isinstance(function, types.FunctionType):
                    own = fingerprint(function, "program", self.slot)
                    if own is None:
                        raise UnknownError
                    methods.append((name, own))
        own = tuple((name, self.of(attributes[name])) for name in attributes)
        return (cls, own, tuple(methods))
