"""Operations that samples request, to be run together with those of other samples.

Inside `dolphin.batched` a sample's operation is a `Node`: it is recorded, and its result is a
`Pending` row. Code that reads the row's numbers waits until they are there. What doesn't need
numbers (symbols of results, sizes, errors of user functions) is done at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import is_grad_enabled, is_inference_mode_enabled

from dolphin.execution.gathering import Row, with_shared_symbols
from dolphin.execution.tagged import Tagged
from dolphin.provenance.contract import Provenance, TagInfo, Tags
from dolphin.provenance.facts import Groups
from dolphin.settings import Settings, current_settings, settings_in_force
from dolphin.symbolic.plans import Domain, RowSymbols
from dolphin.symbolic.surroundings import Surroundings
from dolphin.symbolic.symbols import Symbols
from dolphin.symbolic.tasks import Task


class Waiting(Protocol):
    """What runs the nodes of a sample, and how it waits for them."""

    @property
    def agenda(self) -> Kinds:
        """What it has in common with the other samples."""
        ...

    def add(self, node: Node) -> None:
        """Record a node."""
        ...

    def wait_for(self, node: Node) -> None:
        """Wait until the node has run."""
        ...


class Sample(Waiting, Protocol):
    """A running sample whose operations wait for those of others."""

    alone: Surroundings | None
    """The surroundings of an operation that runs inside the sample and nothing else."""

    def combine(self, task: Task, operands: Sequence[Tagged]) -> Tagged:
        """The result of a task, recorded if it can run with those of other samples."""
        ...

    def unite(self, operands: Sequence[Tagged]) -> Tagged:
        """The same for a union."""
        ...


class Kinds(Protocol):
    """What the samples of a batch have in common."""

    recipes: dict[Hashable, Any]

    def kind(self, name: str, key: Hashable, run: Run) -> Kind:
        """The kind of nodes with this name and key, in the current mode."""
        ...

    def mode(self) -> Mode:
        """The current mode; one object for all that are equal."""
        ...

    def form(
        self, domain: Symbols | None, provenance: Provenance, info: TagInfo, exclusive: bool
    ) -> Form:
        """The form of rows with these properties."""
        ...


class Mode(NamedTuple):
    """What tensor operations depend on besides their arguments."""

    gradients: bool
    inference: bool
    autocast: tuple[tuple[str, torch.dtype], ...]  # where it is on
    settings: Settings

    @classmethod
    def current(cls) -> Mode:
        gradients, inference = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        return cls(gradients, inference, _autocast("cpu") + _autocast("cuda"), current_settings())

    def in_force(self) -> bool:
        """Whether it is the current mode."""
        return self.glance() == now_at_a_glance() or Mode.current() == self

    def glance(self) -> Glance | None:
        """What `now_at_a_glance` is in this mode; None where a glance doesn't tell."""
        if self.autocast:
            return None
        return (self.gradients, self.inference, False, self.settings)

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """A block in this mode."""
        now = Mode.current()
        if now == self:
            yield
            return
        with contextlib.ExitStack() as stack:
            if now.inference != self.inference:
                stack.enter_context(torch.inference_mode(self.inference))
            stack.enter_context(torch.set_grad_enabled(self.gradients))
            for kind in ("cpu", "cuda"):
                wanted = next((own for own in self.autocast if own[0] == kind), (kind, None))
                if wanted not in (*now.autocast, (kind, None)):
                    stack.enter_context(torch.autocast(kind, dtype=wanted[1]))
                elif wanted[1] is None and any(own[0] == kind for own in now.autocast):
                    stack.enter_context(torch.autocast(kind, enabled=False))
            stack.enter_context(settings_in_force(self.settings))
            yield


Glance = tuple[bool, bool, bool, Settings]


def now_at_a_glance() -> Glance:
    """What every operation checks, to see that the mode is still the same."""
    return (is_grad_enabled(), is_inference_mode_enabled(), _casts(), current_settings())


def _casts_somewhere() -> bool:
    return torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")


# One call instead of one per device, where torch has it.
_casts: Callable[[], bool] = getattr(torch._C, "_is_any_autocast_enabled", _casts_somewhere)


def _autocast(kind: str) -> tuple[tuple[str, torch.dtype], ...]:
    return ((kind, torch.get_autocast_dtype(kind)),) if torch.is_autocast_enabled(kind) else ()


class Kind:
    """Nodes that run as one: the same operation in the same mode."""

    __slots__ = ("depths", "left", "mode", "name", "ready", "run")

    def __init__(self, name: str, run: Run, mode: Mode) -> None:
        self.name, self.run, self.mode = name, run, mode
        self.ready: list[Node] = []
        self.left = 0  # nodes that have not run
        self.depths = 0  # their depths together


class Node:
    """An operation on one row of each operand, to be run with all others of its kind.

    `kind.run` gets all of them and settles each: with a row of a distribution, or with a value.
    There are many nodes, so they hold little: the garbage collector visits all of it.
    """

    __slots__ = (
        "blockers",
        "dependents",
        "depth",
        "done",
        "error",
        "facts",
        "kind",
        "number",
        "operands",
        "payload",
        "raised",
        "sample",
        "source",
        "value",
    )  # fmt: skip

    def __init__(
        self, sample: Waiting, kind: Kind, operands: Sequence[Tagged], payload: Any = None
    ) -> None:
        self.sample: Any = sample
        self.kind = kind
        self.operands: Sequence[Tagged] = operands
        self.payload: Any = payload
        self.source: Tagged | None = None
        self.number = 0  # which row of the source is its result
        self.value: Any = None
        self.error: BaseException | None = None
        self.raised = False  # whether the sample has seen the error
        self.done = False
        self.depth, self.blockers = 0, 0
        self.facts = 0  # which inputs it depends on, one bit each; 0: not recorded by a sample
        self.dependents: list[Node] | None = None

    def settle(self, source: Tagged | None, number: int = 0, value: Any = None) -> None:
        """Store the result and release the operands."""
        self.source, self.number, self.value, self.done = source, number, value, True
        self.operands, self.payload = (), None

    def fail(self, error: BaseException) -> None:
        """Store the error because of which the node could not run."""
        self.error = error
        self.settle(None)

    def wait(self) -> Node:
        """The same node, once it has run; raises what went wrong in it."""
        if not self.done:
            self.sample.wait_for(self)
        if self.error is not None:
            self.raised = True
            raise self.error
        return self

    def row_of(self, operand: int) -> Row:
        """The row that an operand stands for."""
        return row_of(self.operands[operand])


Run = Callable[[Sequence[Node]], None]
"""Runs nodes of one kind."""


class Form:
    """What is known about a row before its numbers. Equal forms of a batch are one object."""

    __slots__ = ("domain", "exclusive", "info", "provenance")

    def __init__(
        self, domain: Symbols | None, provenance: Provenance, info: TagInfo, exclusive: bool
    ) -> None:
        self.domain, self.provenance = domain, provenance
        self.info, self.exclusive = info, exclusive


def recorded(
    sample: Waiting, kind: Kind, operands: Sequence[Tagged], payload: Any, form: Form
) -> Pending:
    """The result of an operation that a sample requests."""
    node = Node(sample, kind, operands, payload)
    sample.add(node)
    return Pending(node, form)


class Pending(Tagged):
    """One row: the result of a node."""

    __slots__ = ("_own", "form", "node")

    def __init__(self, node: Node, form: Form) -> None:
        """The attributes of `Tagged` that need numbers are properties here."""
        self.node = node
        self.form = form  # what is known about the row
        self.provenance = form.provenance
        self.batch = 1
        self.exclusive = form.exclusive
        self.constant = False
        self._own: Tagged | None = None

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
    def groups(self) -> Groups | None:  # type: ignore[override]
        return self.own().groups

    @property
    def certain(self) -> bool:
        return False

    def info(self) -> TagInfo:
        """Device and precision: the predicted ones until the row is there."""
        source = self.node.source
        return self.form.info if source is None else source.info()._replace(rows=1)

    def copied(self) -> Pending:
        """The same row as a separate distribution."""
        return Pending(self.node, self.form)

    def own(self) -> Tagged:
        """The row as a separate distribution, once it is there."""
        if self._own is None:
            row = row_of(self)
            d = row.of.take_rows(np.array([row.number]))
            domain = self.form.domain
            if domain is None:
                members = d.domain.row(0) if isinstance(d.domain, RowSymbols) else d.domain
                domain = members if isinstance(members, Symbols) else Symbols.of(members)
                self.form = self._form_with(domain)
            self._own = with_shared_symbols(d, domain)
        return self._own

    def _form_with(self, domain: Symbols) -> Form:
        """The same form with the symbols, which are not known beforehand in any sample."""
        agenda, old = self.node.sample.agenda, self.form
        make = Form if agenda is None else agenda.form
        return make(domain, old.provenance, old.info, old.exclusive)


def row_of(d: Tagged) -> Row:
    """The row that one sample's distribution stands for."""
    if not isinstance(d, Pending):
        return Row(d, 0, d.exclusive)
    node = d.node if d.node.done and d.node.error is None else d.node.wait()
    assert node.source is not None
    return Row(node.source, node.number, d.exclusive)


def made_as(d: Tagged) -> Tagged:
    """The distribution that a sample's row is part of, with all others of its kind."""
    return row_of(d).of if isinstance(d, Pending) else d


def own_row(d: Tagged, tags: Tags) -> Tags:
    """The part of the given tags of `made_as(d)` that belongs to the row."""
    if not isinstance(d, Pending):
        return tags
    row, domain = row_of(d), d.domain
    assert isinstance(domain, Symbols)
    taken = row.of.replaced(row.of.domain, tags).take_rows(np.array([row.number]))
    return with_shared_symbols(taken, domain).tags


class Cancelled(BaseException):
    """Ends a sample because another one failed. Not an `Exception`: programs don't catch it."""
