"""Operations of samples, each together with its history.

Samples that have done the same so far request the same `Node`, which has one row for each of them:
recording, grouping and running it costs little more for all of them than for one. 64 formulas of 7
symbols are 25 nodes instead of 1,600, and take four fifths of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from dolphin.execution.batching.gathering import Part
from dolphin.execution.batching.modes import Mode
from dolphin.execution.tagged import Tagged
from dolphin.provenance.contract import Provenance, TagInfo
from dolphin.symbolic.surroundings import Surroundings
from dolphin.symbolic.symbols import Symbols
from dolphin.symbolic.tasks import Task

if TYPE_CHECKING:
    from dolphin.execution.batching.pending import Pending


class Sample(Protocol):
    """A running sample whose operations wait for those of others."""

    number: int
    """Its number in the batch."""
    inputs: int
    """How many inputs it has created."""
    thread: int
    """The thread that it runs in."""
    alone: Surroundings | None
    """The surroundings of an operation that runs inside the sample and nothing else."""

    @property
    def agenda(self) -> Nodes:
        """What it has in common with the other samples."""
        ...

    def wait_for(self, node: Node) -> None:
        """Wait until the node has run."""
        ...

    def combine(self, task: Task, operands: Sequence[Tagged]) -> Tagged:
        """The result of a task, recorded if it can run with those of other samples."""
        ...

    def unite(self, operands: Sequence[Tagged]) -> Tagged:
        """The same for a union."""
        ...


class Nodes(Protocol):
    """What the samples of a batch have in common."""

    size: int
    """How many samples there are."""
    cancelled: bool
    recipes: dict[Hashable, Any]
    """How operations were recorded."""
    open: dict[Hashable, Node]
    """Nodes that have not run, by recipe and operands: samples can still join them."""
    new: list[Node]
    """All that have been recorded since the last run."""

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

    def recipe(
        self, kind: Kind, mark: Hashable, payload: Any, form: Form, forms: tuple[Form, ...] = ()
    ) -> Recipe:
        """The recipe with these properties; `mark` tells payloads of the same kind apart."""
        ...

    def outside(self, d: Tagged) -> Pending:
        """The one row of a distribution from outside as an operand."""
        ...


class Kind:
    """Nodes that run as one: the same operation in the same mode."""

    __slots__ = ("depths", "left", "mode", "name", "ready", "run")

    def __init__(self, name: str, run: Run, mode: Mode) -> None:
        self.name, self.run, self.mode = name, run, mode
        self.ready: list[Node] = []
        self.left = 0  # rows that have not run
        self.depths = 0  # their depths together


class Form:
    """What is known about a row before its numbers. Equal forms of a batch are one object."""

    __slots__ = ("domain", "exclusive", "info", "provenance")

    def __init__(
        self, domain: Symbols | None, provenance: Provenance, info: TagInfo, exclusive: bool
    ) -> None:
        self.domain, self.provenance = domain, provenance
        self.info, self.exclusive = info, exclusive


class Recipe:
    """How an operation is recorded. Equal recipes of a batch are one object."""

    __slots__ = ("form", "forms", "kind", "payload")

    def __init__(self, kind: Kind, payload: Any, form: Form, forms: tuple[Form, ...] = ()) -> None:
        self.kind = kind
        self.payload = payload  # a plan, a task for later, or a function of rows
        self.form = form  # of the result
        self.forms = forms  # of the operands


class Failure:
    """Why a row could not be computed, nor those that depend on it."""

    __slots__ = ("error", "raised", "sample")

    def __init__(self, sample: Sample, error: BaseException) -> None:
        self.sample, self.error = sample, error
        self.raised = False  # whether the sample has seen the error


class Node:
    """An operation on rows: one row of each operand for every sample that has requested it.

    `recipe.kind.run` gets all ready nodes of a kind and settles each. There are many nodes, so they
    hold little: the garbage collector visits all of it.
    """

    __slots__ = (
        "blockers",
        "dependents",
        "depth",
        "done",
        "entries",
        "facts",
        "failure",
        "operands",
        "parts",
        "recipe",
        "source",
        "start",
        "step",
        "values",
        "width",
    )  # fmt: skip

    values: Sequence[Any]  # if the results are no distributions

    def __init__(self, recipe: Recipe, operands: tuple[Node, ...], entries: list[Any]) -> None:
        self.recipe = recipe
        self.operands = operands
        # Of each row: its sample, its place in each operand, an argument if there is one.
        self.entries, self.width = entries, len(entries)
        self.facts = 0  # which inputs it depends on, one bit each; 0: not recorded by a sample
        self.depth, self.blockers = 0, 0
        self.dependents: list[Node] | None = None
        self.done = False
        # The result: row r is row start + r * step of the source.
        self.source: Tagged | None = None
        self.start, self.step = 0, 1
        self.parts: list[Node] | None = None  # one for each row, if some of them failed
        self.failure: Failure | None = None  # of a part

    @property
    def kind(self) -> Kind:
        return self.recipe.kind

    @property
    def payload(self) -> Any:
        """The payload of its recipe."""
        return self.recipe.payload

    def __len__(self) -> int:
        return len(self.entries) // self.width

    def sample(self, row: int = 0) -> Sample:
        """The sample of a row."""
        return self.entries[row * self.width]

    def numbers(self) -> list[int]:
        """The number of each row's sample."""
        return [sample.number for sample in self.entries[:: self.width]]

    def arguments(self) -> list[Any]:
        """The argument of each row."""
        return self.entries[self.width - 1 :: self.width]

    def settle(self, source: Tagged | None, start: int = 0, step: int = 1) -> None:
        """Store the result and release the operands."""
        self.source, self.start, self.step, self.done = source, start, step, True
        self.operands = ()
        self.entries, self.width = self.entries[:: self.width], 1  # the samples

    def fail(self, failure: Failure) -> None:
        """Store why a part could not run."""
        self.failure = failure
        self.settle(None)

    def rows(self, operand: int) -> Part:
        """The rows that an operand stands for."""
        before, places = self.operands[operand], self.entries[1 + operand :: self.width]
        assert before.source is not None
        if before.step != 1:
            places = [before.start] * len(places)
        elif before.start:
            places = [before.start + place for place in places]
        return Part(before.source, places, self.recipe.forms[operand].exclusive)

    def split(self) -> list[Node]:
        """One node per row, so that some can fail."""
        self.parts = [self._part(row) for row in range(len(self))]
        return self.parts

    def _part(self, row: int) -> Node:
        sample, *entry = self.entries[row * self.width : (row + 1) * self.width]
        operands = list(self.operands)
        for place, d in enumerate(operands):
            if d.parts is not None:
                operands[place], entry[place] = d.parts[entry[place]], 0
        part = Node(self.recipe, tuple(operands), [sample, *entry])
        part.depth, part.facts = self.depth, self.facts
        return part


Run = Callable[[Sequence[Node]], None]
"""Runs nodes of one kind."""
