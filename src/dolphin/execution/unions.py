"""Unions that are deferred until read, so that a goal can select from their parts first.

A step of a recursion is often `union(facts, what follows)`, of which a goal keeps little: selecting
from each part and uniting what is left gives the same symbols, in the same order, with the same
tags, and doesn't number every fact in every round.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from dolphin.execution import run
from dolphin.execution.tagged import Tagged, check
from dolphin.symbolic.surroundings import surrounded, surroundings


@contextlib.contextmanager
def open_unions() -> Iterator[None]:
    """A block whose unions are deferred until read, outside profiles, `batched` and programs."""
    around = surroundings()
    watched = (around.profile, around.sample, around.execution) != (None, None, None)
    deferred = None if watched or torch.compiler.is_compiling() else _deferred
    with surrounded(unions=deferred):
        yield


def _deferred(operands: Sequence[Tagged]) -> Tagged:
    """All symbols of all operands, once they are read."""
    check("union", [leaf for d in operands for leaf in _leaves(d)])
    return OpenUnion(operands)


def _united(operands: Sequence[Tagged]) -> Tagged:
    """All symbols of all operands, now."""
    with surrounded(unions=None):
        return run.unite(operands)


def chosen_from(d: Tagged, choose: Callable[[Tagged], Tagged]) -> Tagged:
    """What `choose` selects from a distribution, or from each part of a union not read yet."""
    if not isinstance(d, OpenUnion) or d.parts is None:
        return choose(d)
    parts = d.parts
    return d.run(lambda: _united([chosen_from(part, choose) for part in parts]))


class OpenUnion(Tagged):
    """A union that becomes an ordinary result when one of its attributes is read.

    It is computed with the settings and the gradient mode in force when it was recorded.
    """

    __slots__ = ("context", "gradients", "parts")

    parts: Sequence[Tagged] | None

    def __init__(self, parts: Sequence[Tagged]) -> None:
        self.parts = parts  # nothing else is set: what is missing comes from `__getattr__`
        self.context = contextvars.copy_context()
        self.gradients = torch.is_grad_enabled()

    def run(self, work: Callable[[], Tagged]) -> Tagged:
        """Run `work` in the context in which the union was recorded."""
        with torch.set_grad_enabled(self.gradients):
            return self.context.copy().run(work)

    def __getattr__(self, name: str) -> Any:
        parts = self.parts
        if parts is None or name not in Tagged.__slots__:
            raise AttributeError(name)
        whole = self.run(lambda: _united(parts))
        self.parts = None
        for slot in Tagged.__slots__:
            if slot != "__weakref__":
                setattr(self, slot, getattr(whole, slot))
        return getattr(self, name)


def _leaves(d: Tagged) -> Iterator[Tagged]:
    if not isinstance(d, OpenUnion) or d.parts is None:
        yield d
        return
    for part in d.parts:
        yield from _leaves(part)
