"""Operations of samples, each together with its history.

Samples that have done the same so far request the same `Node`, which has one row for each of them:
recording, grouping and running it costs little more for all of them than for one. 64 formulas of 7
symbols are 25 nodes instead of 1,600, and take four fifths of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from dolphin.execution.gathering import Part
from dolphin.execution.modes import Mode
from dolphin.execution.tagged import Tagged
from dolphin.provenance.contract import Provenance, TagInfo
from dolphin.symbolic.surroundings import Surroundings
from dolphin.symbolic.symbols import Symbols
from dolphin.symbolic.tasks import Task

if TYPE_CHECKING:
    from dolphin.execution.pending import Pending


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

    def add(self, node: Node, place: int) -> None:
        """Add a node to those that will run; `place` numbers the inputs of a sample."""
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
        "arguments",
        "blockers",
        "dependents",
        "depth",
        "done",
        "facts",
        "failure",
        "operands",
        "parts",
        "places",
        "recipe",
        "samples",
        "source",
        "start",
        "step",
        "values",
    )  # fmt: skip

    def __init__(self, recipe: Recipe, operands: tuple[Node, ...]) -> None:
        self.recipe = recipe
        self.operands = operands
        self.places: tuple[list[int], ...] = tuple([[] for _ in operands])  # of rows in operands
        self.samples: list[Sample] = []  # of each row
        self.arguments: list[Any] = []  # of each row, where there are any
        self.depth, self.blockers = 0, 0
        self.facts = 0  # which inputs it depends on, one bit each; 0: not recorded by a sample
        self.dependents: list[Node] = []
        self.done = False
        # The result: row r is row start + r * step of the source, or a value.
        self.source: Tagged | None = None
        self.start, self.step = 0, 1
        self.values: Sequence[Any] = ()
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
        return len(self.samples)

    def numbers(self) -> list[int]:
        """The sample of each row."""
        return [sample.number for sample in self.samples]

    def settle(self, source: Tagged | None, start: int = 0, step: int = 1) -> None:
        """Store the result and release the operands."""
        self.source, self.start, self.step, self.done = source, start, step, True
        self.operands, self.places, self.arguments = (), (), []

    def fail(self, failure: Failure) -> None:
        """Store why a part could not run."""
        self.failure = failure
        self.settle(None)

    def rows(self, operand: int) -> Part:
        """The rows that an operand stands for."""
        before, places = self.operands[operand], self.places[operand]
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
        pairs = [(d, own[row]) for d, own in zip(self.operands, self.places, strict=True)]
        part = Node(self.recipe, tuple([d if d.parts is None else d.parts[at] for d, at in pairs]))
        part.places = tuple([[at] if d.parts is None else [0] for d, at in pairs])
        part.samples, part.arguments = [self.samples[row]], self.arguments[row : row + 1]
        part.depth, part.facts = self.depth, self.facts
        return part


Run = Callable[[Sequence[Node]], None]
"""Runs nodes of one kind."""
