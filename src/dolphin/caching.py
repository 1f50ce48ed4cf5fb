"""Inspecting and emptying the caches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from dolphin.settings import current_settings
from dolphin.symbolic.bounded import all_caches
from dolphin.symbolic.identity.functions import NotRemembered, not_remembered
from dolphin.symbolic.plans import caches


class CacheInfo(NamedTuple):
    """Cache sizes and their limits. A plan weighs 1000, plus 1 per combination.

    `entries` counts every cache by name; `not_remembered` lists the latest functions (at most 100)
    that run again in every operation, each with the reason.
    """

    plans: int
    plan_weight: int
    max_plan_weight: int
    hits: int
    misses: int
    symbols: int
    max_symbols: int
    remembered: int
    max_remembered: int
    restarts: int
    entries: Mapping[str, int]
    not_remembered: tuple[NotRemembered, ...]

    def __str__(self) -> str:
        lines = [
            f"plans: {self.plans:,}, weight {self.plan_weight:,} of {self.max_plan_weight:,}, "
            f"hits {self.hits:,}, misses {self.misses:,}",
            f"symbols: {self.symbols:,} of {self.max_symbols:,}, restarts {self.restarts:,}",
            f"remembered results: {self.remembered:,} of {self.max_remembered:,}",
        ]
        return "\n".join(
            [*lines, *(f"not remembered: {name} {reason}" for name, reason in self.not_remembered)]
        )


def cache_info() -> CacheInfo:
    """Sizes and limits of all caches, hits and misses of plans, and resets of the symbol table.

    >>> import dolphin as dl
    >>> dl.cache_clear()
    >>> d = dl.Distribution([0.5, 0.5], [0, 1])
    >>> for _ in range(3):
    ...     total = dl.apply(d, d, lambda x, y: x + y)
    >>> dl.cache_info().plans, dl.cache_info().hits, dl.cache_info().remembered
    (1, 2, 4)
    >>> print(dl.cache_info())
    plans: 1, weight 1,000 of 4,000,000, hits 2, misses 1
    symbols: 3 of 200,000, restarts 0
    remembered results: 4 of 1,000,000
    >>> box = object()
    >>> print(total.map(lambda x: (x, str(box))[0]).symbols)
    (0, 1, 2)
    >>> dl.cache_info().not_remembered[0].reason
    'reads the global `box`, an object that is used as a whole (passed on, called or iterated)'
    """
    limits = current_settings()
    return CacheInfo(
        plans=len(caches.plans),
        plan_weight=caches.plans.weight,
        max_plan_weight=caches.plans.limit,
        hits=caches.plans.hits,
        misses=caches.plans.misses,
        symbols=len(caches.table),
        max_symbols=limits.max_symbols,
        remembered=caches.table.remembered,
        max_remembered=limits.max_remembered,
        restarts=caches.restarts,
        entries={name: cache.count() for name, cache in all_caches().items()},
        not_remembered=not_remembered(),
    )


def cache_clear() -> None:
    """Empty all caches. This affects speed only, never a result.

    >>> import dolphin as dl
    >>> dl.cache_clear()
    >>> dl.cache_info().plans
    0
    """
    for cache in all_caches().values():
        cache.clear()
