"""Caches: one that evicts the least recently used entries, and the registry of all caches.

Whatever is remembered between operations registers how it is counted and how it is cleared, so
that `cache_info` counts all of it and `cache_clear` clears all of it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import _lru_cache_wrapper
from typing import Generic, TypeVar

from dolphin.symbolic.locking import lock

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True)
class Registered:
    """How a cache is counted and cleared."""

    count: Callable[[], int]
    clear: Callable[[], None]


_registry: dict[str, Registered] = {}


def register(name: str, count: Callable[[], int], clear: Callable[[], None]) -> None:
    """Make a cache known to `cache_info` and `cache_clear`."""
    _registry[name] = Registered(count, clear)


def registered(name: str) -> Callable[[_lru_cache_wrapper[V]], _lru_cache_wrapper[V]]:
    """The same for a function behind `functools.lru_cache`."""

    def note(function: _lru_cache_wrapper[V]) -> _lru_cache_wrapper[V]:
        register(name, lambda: function.cache_info().currsize, function.cache_clear)
        return function

    return note


def all_caches() -> dict[str, Registered]:
    """Every registered cache, by name."""
    return dict(_registry)


class BoundedCache(Generic[K, V]):
    """Entries of at most `limit` in total weight; the least recently used one is evicted first.

    Every entry weighs 1 unless `weigh` says otherwise. The newest always stays.

    >>> squares = BoundedCache(limit=2)
    >>> [squares.get_or_make(n, lambda n=n: n * n) for n in (3, 4, 3, 5)]
    [9, 16, 9, 25]
    >>> len(squares), squares.hits, squares.misses
    (2, 1, 3)
    """

    def __init__(self, limit: int, weigh: Callable[[V], int] = lambda value: 1) -> None:
        self.limit = limit
        self.weigh = weigh
        self.weight = 0
        self.hits = 0
        self.misses = 0
        self._entries: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def values(self) -> list[V]:
        """All values, the most recently used last."""
        with lock:
            return list(self._entries.values())

    def get(self, key: K) -> V | None:
        with lock:
            value = self._entries.get(key)
            if value is None:
                self.misses += 1
            else:
                self.hits += 1
                self._entries.move_to_end(key)
            return value

    def peek(self, key: K) -> V | None:
        """The value of a plain key, not counted as a use: for where every microsecond counts."""
        return self._entries.get(key)

    def take(self, key: K) -> V | None:
        """Remove an entry and return it: nobody else has it until it is `put` back."""
        with lock:
            value = self._entries.pop(key, None)
            if value is None:
                self.misses += 1
            else:
                self.hits += 1
                self.weight -= self.weigh(value)
            return value

    def put(self, key: K, value: V) -> V:
        """Store `value`, unless another thread was faster: then return its value."""
        evicted = []  # freed after the lock: finalizers may run then
        with lock:
            if key in self._entries:
                return self._entries[key]
            self._entries[key] = value
            self.weight += self.weigh(value)
            while self.weight > self.limit and len(self._entries) > 1:
                evicted.append(self._entries.popitem(last=False)[1])
                self.weight -= self.weigh(evicted[-1])
            return value

    def replace(self, key: K, value: V) -> None:
        """Store `value` in place of the present one."""
        with lock:
            old = self._entries.pop(key, None)
            self.weight -= 0 if old is None else self.weigh(old)
        self.put(key, value)

    def get_or_make(self, key: K, make: Callable[[], V]) -> V:
        value = self.get(key)
        # `make` may run user code: never while holding the lock.
        return self.put(key, make()) if value is None else value

    def clear(self) -> None:
        with lock:
            self._entries.clear()
            self.weight = 0
            self.hits = self.misses = 0
