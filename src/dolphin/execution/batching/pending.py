"""Rows that are computed together with those of other samples.

Inside `dolphin.batched` a sample's operation is recorded, and its result is a `Pending` row. Code
that reads the row's numbers waits until they are there. What doesn't need numbers (symbols of
results, sizes, errors of user functions) is done at once.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from threading import get_ident
from typing import Any

import numpy as np

from dolphin.execution.batching.gathering import Part, with_shared_symbols
from dolphin.execution.batching.nodes import Form, Node, Recipe, Sample
from dolphin.execution.tagged import Tagged
from dolphin.provenance.contract import Provenance, TagInfo, Tags
from dolphin.provenance.facts import Groups
from dolphin.symbolic.plans import Domain, RowSymbols
from dolphin.symbolic.surroundings import surroundings
from dolphin.symbolic.symbols import Symbols


def requested(
    sample: Sample, recipe: Recipe, operands: Sequence[Tagged], *argument: Any
) -> Pending:
    """The result of an operation that a sample requests, with an argument if it has one."""
    note_request(recipe)
    rows = [d if isinstance(d, Pending) else sample.agenda.outside(d) for d in operands]
    entry = [sample, *[d.place for d in rows], *argument]
    return recorded(sample, recipe, [d.node for d in rows], entry)


def recorded(sample: Sample, recipe: Recipe, operands: list[Node], entry: list[Any]) -> Pending:
    """The same by an entry of its node."""
    agenda = sample.agenda
    if agenda.cancelled:
        raise Cancelled
    key = (recipe, *operands)
    node = agenda.open.get(key)
    if node is None or get_ident() != sample.thread:
        node = _new_node(sample, recipe, tuple(operands), entry, key)
        return Pending(node, 0, recipe.form)
    entries = node.entries
    place = len(entries) // node.width
    entries += entry
    return Pending(node, place, recipe.form)


def recorded_input(sample: Sample, recipe: Recipe, argument: Any) -> Pending:
    """An input that a sample creates. Inputs of a node have the same place in their samples."""
    note_request(recipe)
    agenda = sample.agenda
    if agenda.cancelled:
        raise Cancelled
    place = sample.inputs
    sample.inputs += 1
    key = (recipe, place)
    node = agenda.open.get(key)
    if node is None or get_ident() != sample.thread:
        node = _new_node(sample, recipe, (), [sample, argument], key)
        node.facts = 1 << (2 * place)
        return Pending(node, 0, recipe.form)
    node.entries += (sample, argument)
    return Pending(node, len(node) - 1, recipe.form)


def _new_node(
    sample: Sample, recipe: Recipe, operands: tuple[Node, ...], entry: list[Any], key: Hashable
) -> Node:
    """A node that will run, and that other samples can join.

    Not in a thread that the program started, which may record even while nodes run.
    """
    node = Node(recipe, operands, entry)
    if get_ident() == sample.thread:
        sample.agenda.open[key] = node
    sample.agenda.new.append(node)
    return node


def note_request(recipe: Recipe) -> None:
    """Let a profile see that an operation is requested."""
    active = surroundings().profile
    if active is not None:
        active.asked(recipe.kind.name)


_NO_RECIPE: Any = None  # of nodes that needn't run


def rows_given(d: Tagged, form: Form) -> list[Pending]:
    """The rows of a distribution from outside."""
    node = Node(_NO_RECIPE, (), [None])
    node.settle(d)
    return [Pending(node, row, form) for row in range(d.batch)]


class Pending(Tagged):
    """One row: the result of a node for one sample."""

    __slots__ = ("_own", "form", "node", "place")

    batch = 1  # type: ignore[assignment]
    constant = False  # type: ignore[assignment]

    def __init__(self, node: Node, place: int, form: Form) -> None:
        """The attributes of `Tagged` that need numbers are properties here."""
        self.node = node
        self.place = place  # which row of the node
        self.form = form  # what is known about the row
        self._own: Tagged | None = None

    @property
    def provenance(self) -> Provenance:  # type: ignore[override]
        return self.form.provenance

    @property
    def exclusive(self) -> bool:  # type: ignore[override]
        return self.form.exclusive

    @property
    def known_domain(self) -> Symbols | None:
        """The symbols, if they are known before the numbers."""
        return self.form.domain

    @property
    def domain(self) -> Domain:  # type: ignore[override]
        known = self.form.domain
        return self.own().domain if known is None else known

    @property
    def made(self) -> Tags:  # type: ignore[override]
        return self.own().made

    @property
    def tags(self) -> Tags:
        return self.own().tags

    @property
    def groups(self) -> Groups | np.ndarray | None:  # type: ignore[override]
        return self.own().groups

    @property
    def normalised(self) -> bool:  # type: ignore[override]
        return self.own().normalised

    @property
    def certain(self) -> bool:
        return False

    def info(self) -> TagInfo:
        """Device and precision: the predicted ones until the row is there."""
        node = self.node
        source = node.source if node.parts is None else node.parts[self.place].source
        return self.form.info if source is None else source.info()._replace(rows=1)

    def copied(self) -> Pending:
        """The same row as a separate distribution."""
        return Pending(self.node, self.place, self.form)

    def own(self) -> Tagged:
        """The row as a separate distribution, once it is there."""
        if self._own is None:
            row = row_of(self)
            d = row.of.take_rows(np.array(row.numbers))
            domain = self.form.domain
            if domain is None:
                members = d.domain.row(0) if isinstance(d.domain, RowSymbols) else d.domain
                domain = members if isinstance(members, Symbols) else Symbols.of(members)
                self.form = self._form_with(domain)
            self._own = with_shared_symbols(d, domain)
        return self._own

    def _form_with(self, domain: Symbols) -> Form:
        """The same form with the symbols, which are not known beforehand in any sample."""
        node, old = self.node, self.form
        make = Form if node.recipe is _NO_RECIPE else node.sample(self.place).agenda.form
        return make(domain, old.provenance, old.info, old.exclusive)

    def wait(self) -> Node:
        """The node, or its part, once it has run; raises what went wrong in it."""
        node = self.node
        if not node.done:
            node.sample(self.place).wait_for(node)
        if node.parts is None:
            return node
        part = node.parts[self.place]
        if part.failure is not None:
            part.failure.raised = True
            raise part.failure.error
        return part

    def value(self) -> Any:
        """The result of an operation that gives a value per row, once it is there."""
        node = self.wait()
        return node.values[self.place if node is self.node else 0]


def row_of(d: Tagged) -> Part:
    """The row that one sample's distribution stands for."""
    if not isinstance(d, Pending):
        return Part(d, [0], d.exclusive)
    node = d.wait()
    assert node.source is not None
    place = d.place if node is d.node else 0
    return Part(node.source, [node.start + place * node.step], d.exclusive)


def made_as(d: Tagged) -> Tagged:
    """The distribution that a sample's row is part of, with all others of its kind."""
    return row_of(d).of if isinstance(d, Pending) else d


def own_row(d: Tagged, tags: Tags) -> Tags:
    """The part of the given tags of `made_as(d)` that belongs to the row."""
    if not isinstance(d, Pending):
        return tags
    row, domain = row_of(d), d.domain
    assert isinstance(domain, Symbols)
    taken = row.of.replaced(row.of.domain, tags).take_rows(np.array(row.numbers))
    return with_shared_symbols(taken, domain).tags


class Cancelled(BaseException):
    """Ends a sample because another one failed. Not an `Exception`: programs don't catch it."""
