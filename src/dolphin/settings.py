"""Limits that can be set for a block of code."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Never

from dolphin.errors import InputError
from dolphin.inputs.arguments import count


@dataclass(frozen=True)
class Settings:
    """Limits on time and memory; see `settings`."""

    max_combinations: int = 30_000_000
    """Combinations of symbols that one operation may create."""
    max_symbols: int = 200_000
    """Symbols that are numbered before the symbol table is reset."""
    max_remembered: int = 1_000_000
    """Results of user functions that are remembered before all of them are dropped."""
    chunk_elements: int = 4_000_000
    """Numbers that the tag stage holds at once; larger work is done in chunks."""
    max_seconds: int = 30
    """Seconds that a program may run from one choice to the next before it counts as endless."""


USUAL = Settings()
_current: ContextVar[Settings] = ContextVar("dolphin_settings", default=USUAL)

current_settings = _current.get
"""The limits in force."""


@contextlib.contextmanager
def settings_in_force(limits: Settings) -> Iterator[None]:
    """A block with exactly these limits."""
    token = _current.set(limits)
    try:
        yield
    finally:
        _current.reset(token)


@contextlib.contextmanager
def settings(
    *,
    max_combinations: int | None = None,
    max_symbols: int | None = None,
    max_remembered: int | None = None,
    chunk_elements: int | None = None,
    max_seconds: int | None = None,
    **unknown: Never,
) -> Iterator[Settings]:
    """Change limits for a block of code, in this thread or task only.

    Args:
        max_combinations: combinations of symbols that one operation may create.
        max_symbols: symbols that are numbered before the symbol table is reset.
        max_remembered: results of user functions that are remembered before they are dropped.
        chunk_elements: numbers that the tag stage holds at once; larger work is done in chunks.
        max_seconds: seconds that a `program` may run from one choice to the next before it counts
            as endless.

    >>> import dolphin as dl
    >>> with dl.settings(max_combinations=1000) as limits:
    ...     limits.max_combinations
    1000
    """
    given = {
        "max_combinations": max_combinations,
        "max_symbols": max_symbols,
        "max_remembered": max_remembered,
        "chunk_elements": chunk_elements,
        "max_seconds": max_seconds,
    }
    for name in unknown:
        raise InputError(f"settings: unknown setting {name!r}; the settings are {sorted(given)}.")
    changes = {name: value for name, value in given.items() if value is not None}
    for name, value in changes.items():
        changes[name] = count("settings", name, value)
    token = _current.set(replace(_current.get(), **changes))
    try:
        yield _current.get()
    finally:
        _current.reset(token)
