"""Whole recursions that are remembered, for algebras whose tags depend on the program alone.

Under `exact` a fixpoint makes the same formulas at every training step, whatever the numbers. Once
a run has called no user function and read no number, its outcome is known by what went in: the
functions by content (see symbolic/identity/), the distributions that they refer to by symbols and
formulas. A later run with the same key gets the same formulas, over its own facts.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from dolphin.execution.deferred import Deferred
from dolphin.execution.tagged import Holder, Tagged, tagged_of
from dolphin.provenance.contract import Tags
from dolphin.provenance.facts import Facts
from dolphin.symbolic.bounded import BoundedCache, register
from dolphin.symbolic.identity.functions import identify
from dolphin.symbolic.identity.values import Slot
from dolphin.symbolic.surroundings import calls_so_far, surroundings
from dolphin.symbolic.symbols import Symbols


class _Outcome(NamedTuple):
    domain: Symbols
    tags: Callable[[Sequence[Facts]], Tags]
    batch: int
    exclusive: bool
    constant: bool


_known: BoundedCache[Hashable, _Outcome] = BoundedCache(256)
register("recursions", _known.__len__, _known.clear)


def slots(parts: list[Tagged]) -> Slot:
    """Distributions that a function refers to join the parts, and count by their place there."""

    def slot(value: Any) -> Hashable | None:
        if not isinstance(value, Holder):
            return None
        own = tagged_of(value)
        for place, part in enumerate(parts):
            if part is own:
                return ("distribution", place)
        parts.append(own)
        return ("distribution", len(parts) - 1)

    return slot


class Recollection:
    """What is known of a recursion: its outcome, or what is needed to remember it."""

    def __init__(self, start: Tagged, step: Any, options: Hashable) -> None:
        self._parts = [start]
        self._provenance = start.provenance
        self._key = content = None
        own = self._key_of(step)
        if own is not None and all(map(is_plain, self._parts)):
            content = self._provenance.content([d.made for d in self._parts])
        if content is not None:
            about = tuple((d.domain, d.batch, d.exclusive, d.constant) for d in self._parts)
            formulas, self._facts = content
            self._key = (self._provenance, own, about, formulas, options)
        self._calls, self._reads = calls_so_far(), self._provenance.reads()

    def _key_of(self, step: Any) -> Hashable | None:
        if surroundings().execution is not None:  # of a `program`, which remembers more than this
            return None
        return identify(step, "fixpoint", slots(self._parts)).key

    @property
    def outcome(self) -> Tagged | None:
        remembered = None if self._key is None else _known.get(self._key)
        if remembered is None:
            return None
        return Tagged(
            remembered.domain,
            remembered.tags(self._facts),
            self._provenance,
            remembered.batch,
            exclusive=remembered.exclusive,
            constant=remembered.constant,
        )

    def keep(self, outcome: Tagged) -> None:
        """Remember what came out, if nothing but what the key says went in."""
        if self._key is None or not is_plain(outcome) or not isinstance(outcome.domain, Symbols):
            return
        if (self._calls, self._reads) != (calls_so_far(), self._provenance.reads()):
            return
        tags = self._provenance.of_other_facts(outcome.made, self._facts)
        if tags is not None:
            kept = _Outcome(
                outcome.domain, tags, outcome.batch, outcome.exclusive, outcome.constant
            )
            _known.put(self._key, kept)


def is_plain(d: Tagged) -> bool:
    """Whether the symbols are shared, and the tags computed."""
    return type(d) is Tagged and d.shared and not isinstance(d.made, (Deferred, type(None)))
