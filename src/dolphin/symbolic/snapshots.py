"""What names and containers hold, object by object, to notice cheaply that something was replaced.

Library code is checked in every operation that calls it, hundreds of names at a time. So all of
them are compared in a few calls of compiled functions, without a loop in Python.
"""

from __future__ import annotations

import types
from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from operator import attrgetter, is_, itemgetter
from typing import Any

import numpy as np

from dolphin.symbolic.marks import Objects

ABSENT = object()  # a name that stands for nothing
_CODE = attrgetter("__code__")
_DEFAULTS = attrgetter("__defaults__", "__kwdefaults__")

Picked = Mapping[int, tuple[Mapping[str, Any], Mapping[str, Any]]]
"""Some names of scopes with what they stand for, by the numbers (`id`) of the scopes."""
Whole = Mapping[tuple[int, str], Collection[Any]]
"""Containers, or live views of dictionaries, by the number of their owner and what they show."""


class Snapshot:
    """The objects that some names, containers and functions hold.

    >>> scope, items = {"a": 1, "b": 2}, [1, 2]
    >>> before = Snapshot({0: (scope, {"a": 1, "c": ABSENT})}, {(1, "items"): items})
    >>> before.unchanged()
    True
    >>> scope["b"] = 3
    >>> before.unchanged()
    True
    >>> scope["c"] = 3
    >>> before.unchanged()
    False
    """

    __slots__ = (
        "_absent",
        "_addresses",
        "_codes",
        "_defaults",
        "_functions",
        "_items",
        "_lengths",
        "_picked",
        "_present",
        "_views",
        "_whole",
        "_with_defaults",
    )

    def __init__(
        self,
        picked: Picked | None = None,
        whole: Whole | None = None,
        functions: Iterable[types.FunctionType] = (),
    ) -> None:
        self._whole = {} if whole is None else whole
        self._picked = {
            owner: names
            for owner, names in (picked or {}).items()
            if (owner, "values") not in self._whole
        }
        self._present, self._absent = [], []
        for scope, names in self._picked.values():
            present = [name for name in names if names[name] is not ABSENT]
            if present:
                # The first name twice: a single one would not give a tuple.
                read = itemgetter(*present, present[0])
                values = tuple(names[name] for name in (*present, present[0]))
                self._present.append((read, scope, values))
            if len(present) < len(names):
                self._absent.append((scope.keys(), tuple(names.keys() - set(present))))
        self._views = tuple(self._whole.values())
        self._lengths = [*map(len, self._views)]
        self._items = tuple(chain.from_iterable(self._views))
        self._addresses = _addresses(self._views, len(self._items))
        self._functions = tuple(functions)
        self._codes = tuple(map(_CODE, self._functions))
        self._with_defaults = tuple(f for f in self._functions if any(_DEFAULTS(f)))
        self._defaults = self._present_defaults()

    @classmethod
    def of_all(cls, snapshots: Iterable[Snapshot]) -> Snapshot:
        """One for all of them, with what they share once."""
        picked: dict[int, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
        whole: dict[tuple[int, str], Collection[Any]] = {}
        functions: dict[types.FunctionType, None] = {}
        for each in snapshots:
            for owner, (scope, names) in each._picked.items():
                known = picked[owner][1] if owner in picked else {}
                picked[owner] = (scope, {**known, **names})
            whole |= each._whole
            functions |= dict.fromkeys(each._functions)
        return cls(picked, whole, functions)

    def unchanged(self) -> bool:
        """Whether all of them hold the same objects as before."""
        try:
            for read, scope, values in self._present:
                if not all(map(is_, read(scope), values)):
                    return False
            for keys, names in self._absent:
                if not keys.isdisjoint(names):
                    return False
            return (
                [*map(len, self._views)] == self._lengths
                and _addresses(self._views, len(self._items)) == self._addresses
                and all(map(is_, map(_CODE, self._functions), self._codes))
                and all(map(is_, self._present_defaults(), self._defaults))
            )
        except (KeyError, RuntimeError, ValueError):  # gone, or changed by another thread just now
            return False

    def _present_defaults(self) -> tuple[Any, ...]:
        return tuple(chain.from_iterable(map(_DEFAULTS, self._with_defaults)))

    def objects(self) -> tuple[Any, ...]:
        """All that is held, functions aside."""
        return (*chain.from_iterable(values for *_, values in self._present), *self._items)

    def mark(self) -> Objects:
        """A key that is equal for snapshots of the same objects."""
        return Objects((*self.objects(), *self._functions, *self._codes, *self._defaults))


def _addresses(views: Iterable[Collection[Any]], count: int) -> bytes:
    """Which objects they contain: 30 % faster than comparing one by one with `is`."""
    return np.fromiter(chain.from_iterable(views), dtype=object, count=count).tobytes()
