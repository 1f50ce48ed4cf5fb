"""How operations of samples were recorded, so that the same ones are recorded again quickly.

Most samples of `dolphin.batched` request what another one has requested before: the same functions
on rows of which the same is known. Then nothing is checked or planned again.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from dolphin.execution.batching.nodes import Node, Recipe, Sample
from dolphin.execution.batching.pending import Pending, recorded
from dolphin.execution.draws import repeats_draws
from dolphin.execution.tagged import Holder, Tagged
from dolphin.symbolic.identity.functions import key_of, lasting
from dolphin.symbolic.identity.trails import Trail
from dolphin.symbolic.surroundings import Surroundings
from dolphin.symbolic.tasks import Task


class Later(NamedTuple):
    """A task whose plan is built when it runs."""

    task: Task
    identity: Hashable | None  # of its functions; None if they have none

    @classmethod
    def of(cls, task: Task) -> Later:
        """A task with the identity that its functions have now. Tensors count as themselves."""
        return cls(task, key_of(task.operation, given_functions(task), task.cache))

    def unchanged(self) -> bool:
        """Whether what the functions read is still the same."""
        return self.identity is None or self.identity == Later.of(self.task).identity


class Known(NamedTuple):
    """How an operation was recorded."""

    recipe: Recipe | None  # None: the result is the operand
    kept: tuple[Any, ...] = ()  # objects whose numbers are in the key
    trails: tuple[Trail, ...] = ()  # what they read that the recipe depends on


def recalled(
    around: Surroundings, operation: str, arguments: Sequence[Any], cache: bool
) -> Tagged | None:
    """An operation on distributions and functions, recorded as before; None if it is a new one.

    It takes a third of the time of checking the arguments and finding the plan.
    """
    sample = around.sample
    if sample is None or cache is not True or (sample.alone is not around and _is_seen(around)):
        return None
    agenda = sample.agenda
    first: Pending | None = None
    nodes: list[Node] = []
    entry: list[Any] = [sample]
    key: list[Hashable] = [operation, id(agenda.mode())]
    for given in arguments:
        if type(given) is types.FunctionType:
            if given.__closure__ or given.__defaults__ or given.__kwdefaults__ or given.__dict__:
                return None
            key += (id(given.__code__), id(given.__globals__))
        elif isinstance(given, Holder):
            d = given._tagged
            if type(d) is not Pending:
                return None
            first = d if first is None else first
            nodes.append(d.node)
            entry.append(d.place)
            key.append(d.form)
        else:
            key.append(id(given))
    known: Known | None = agenda.recipes.get(tuple(key))
    if known is None or first is None:
        return None
    recipe, _, trails = known
    for trail in trails:
        if not trail.unchanged():
            return None
    if recipe is None:
        return first.copied()
    if type(recipe.payload) is Later and repeats_draws():
        return None
    return recorded(sample, recipe, nodes, entry)


def _is_seen(around: Surroundings) -> bool:
    """Whether something else has to see the operations."""
    return any(part is not None for part in (around.sketch, around.profile, around.execution))


def remember(sample: Sample, operands: Sequence[Tagged], task: Task, recipe: Recipe | None) -> None:
    """Keep how a task was recorded, if it can be recognised: see `recalled`."""
    if task.on is not None or task.cache is not True:
        return
    functions = given_functions(task)
    key: list[Hashable] = [task.operation, id(sample.agenda.mode())]
    for d in operands:
        if type(d) is not Pending:
            return
        key.append(d.form)
    kept: list[Any] = []
    for f in functions:
        if lasting(f) is None:
            return
        kept += (f.__code__, f.__globals__) if type(f) is types.FunctionType else (f,)
    key += map(id, kept)
    later = recipe is not None and type(recipe.payload) is Later
    now = () if later else trails_of(functions)
    sample.agenda.recipes[tuple(key)] = Known(recipe, tuple(kept), now)


def given_functions(task: Task) -> tuple[Callable[..., Any], ...]:
    """The functions of a task that a user gave; the function of a filter is Dolphin's own."""
    every = (None if task.operation == "filter" else task.function, task.condition)
    return tuple(f for f in (*every, *(task.on or ())) if f is not None)


def trails_of(functions: Sequence[Callable[..., Any]]) -> tuple[Trail, ...]:
    """What functions read, where that is names of modules and is known."""
    return tuple(mark for mark in map(lasting, functions) if isinstance(mark, Trail))


def recalled_row(around: Surroundings, d: Tagged, *key: Hashable) -> Tagged | None:
    """The same for an operation on one distribution, row by row."""
    sample = around.sample
    if sample is None or type(d) is not Pending or around.profile is not None:
        return None
    agenda = sample.agenda
    known: Known | None = agenda.recipes.get((d.form, id(agenda.mode()), *key))
    if known is None:
        return None
    recipe = known.recipe
    return d.copied() if recipe is None else recorded(sample, recipe, [d.node], [sample, d.place])


def remember_row(sample: Sample, d: Tagged, recipe: Recipe | None, *key: Hashable) -> None:
    """Keep how an operation on one distribution was recorded."""
    if type(d) is Pending:
        sample.agenda.recipes[d.form, id(sample.agenda.mode()), *key] = Known(recipe)
