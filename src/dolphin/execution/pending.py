"""Operations that samples ask for, to be run together with those of other samples.

Inside `dolphin.batched` a sample's operation is a `Node`: it is written down, and what it will make
is a `Pending` row. Whoever reads the row's numbers waits until they are there. What a sample can do
without numbers (symbols of results, sizes, errors of user functions) it does at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from dolphin.execution.gathering import Row, with_shared_symbols
from dolphin.execution.tagged import Tagged
from dolphin.provenance.contract import Provenance, TagInfo, Tags
from dolphin.settings import Settings, current_settings, settings_in_force
from dolphin.symbolic.plans import Domain, RowSymbols
from dolphin.symbolic.symbols import Symbols


class Waiting(Protocol):
    """Who runs nodes, and where samples wait for them."""

    def add(self, node: Node) -> None:
        """Write a node down."""
        ...

    def wait_for(self, node: Node) -> None:
        """Return when the node has run."""
        ...


_agenda: ContextVar[Waiting | None] = ContextVar("dolphin_agenda", default=None)
collecting = _agenda.get
"""The agenda of the sample that is running; None outside of `dolphin.batched`."""


@contextlib.contextmanager
def collecting_in(agenda: Waiting) -> Iterator[None]:
    """A block whose operations are written down in an agenda."""
    token = _agenda.set(agenda)
    try:
        yield
    finally:
        _agenda.reset(token)


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


def _autocast(kind: str) -> tuple[tuple[str, torch.dtype], ...]:
    return ((kind, torch.get_autocast_dtype(kind)),) if torch.is_autocast_enabled(kind) else ()


class Node:
    """An operation on one row of each operand. Nodes with equal keys run as one.

    `run` gets all of them and settles each: with a row of a distribution, or with a value.
    """

    __slots__ = (
        "agenda",
        "blockers",
        "dependents",
        "depth",
        "done",
        "error",
        "key",
        "kind",
        "mode",
        "name",
        "operands",
        "payload",
        "raised",
        "row",
        "run",
        "sample",
        "value",
    )  # fmt: skip

    def __init__(
        self,
        agenda: Waiting,
        name: str,
        key: Hashable,
        run: Callable[[Sequence[Node]], None],
        operands: Sequence[Tagged],
        payload: Any = None,
    ) -> None:
        self.agenda, self.name, self.run = agenda, name, run
        self.payload: Any = payload
        self.mode = Mode.current()
        self.key: Hashable = (name, key, self.mode)
        self.operands: Sequence[Tagged] = operands
        self.row: Row | None = None
        self.value: Any = None
        self.error: BaseException | None = None
        self.raised = False  # whether the sample has seen the error
        self.done = False
        self.sample = -1
        self.depth, self.blockers = 0, 0
        self.dependents: list[Node] = []
        self.kind: Any = None  # the agenda's: nodes with the same key
        agenda.add(self)

    def settle(self, row: Row | None, value: Any = None) -> None:
        """The node has run. What it needed is let go."""
        self.row, self.value, self.done = row, value, True
        self.operands, self.payload = (), None

    def fail(self, error: BaseException) -> None:
        """The node could not run."""
        self.error = error
        self.settle(None)

    def wait(self) -> Node:
        """The same node, once it has run; raises what went wrong in it."""
        if not self.done:
            self.agenda.wait_for(self)
        if self.error is not None:
            self.raised = True
            raise self.error
        return self

    def row_of(self, operand: int) -> Row:
        """The row that an operand stands for."""
        return row_of(self.operands[operand])


class Pending(Tagged):
    """One row of what a node makes."""

    __slots__ = ("_domain", "_info", "_own", "node")

    def __init__(  # the attributes of `Tagged` that need numbers are properties here
        self,
        node: Node,
        provenance: Provenance,
        info: TagInfo,
        *,
        domain: Symbols | None = None,
        exclusive: bool = False,
    ) -> None:
        self.node = node
        self.provenance = provenance
        self.batch = 1
        self.exclusive = exclusive
        self.constant = False
        self._info = info
        self._domain = domain
        self._own: Tagged | None = None

    @property
    def known_domain(self) -> Symbols | None:
        """The symbols, if they are known before the numbers."""
        return self._domain

    @property
    def domain(self) -> Domain:  # type: ignore[override]
        return self.own().domain if self._domain is None else self._domain

    @property
    def made(self) -> Tags:  # type: ignore[override]
        return self.own().made

    @property
    def tags(self) -> Tags:
        return self.own().tags

    @property
    def certain(self) -> bool:
        return False

    def info(self) -> TagInfo:
        """Device and precision: as foreseen, until the row is there."""
        if not self.node.done or self.node.row is None:
            return self._info
        return self.node.row.of.info()._replace(rows=1)

    def own(self) -> Tagged:
        """The row on its own, once it is there."""
        if self._own is None:
            row = row_of(self)
            d = row.of.take_rows(np.array([row.number]))
            if self._domain is None:
                members = d.domain.row(0) if isinstance(d.domain, RowSymbols) else d.domain
                self._domain = members if isinstance(members, Symbols) else Symbols.of(members)
            self._own = with_shared_symbols(d, self._domain)
        return self._own


def row_of(d: Tagged) -> Row:
    """The row that one sample's distribution stands for."""
    if not isinstance(d, Pending):
        return Row(d, 0, d.exclusive)
    row = d.node.wait().row
    assert row is not None
    return Row(row.of, row.number, d.exclusive)


class Cancelled(BaseException):
    """Ends a sample because another one failed. Not an `Exception`: programs don't catch it."""
