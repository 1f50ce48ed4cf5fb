"""Operations that samples have requested, and the order in which they run."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from dolphin.execution.batching.modes import Glance, Mode, now_at_a_glance
from dolphin.execution.batching.nodes import Failure, Form, Kind, Node, Recipe, Run
from dolphin.execution.batching.pending import Pending, rows_given
from dolphin.execution.tagged import Tagged
from dolphin.provenance.contract import Provenance, TagInfo
from dolphin.symbolic.surroundings import surroundings
from dolphin.symbolic.symbols import Symbols


class Agenda:
    """Nodes of all samples. Those that are ready and of the same kind run as one.

    Among the kinds with ready nodes, the one whose rows, ready or not, have the smallest average
    depth runs first: early operations don't wait, late ones wait until more of their kind are
    ready. (The rule of dynamic batching in DyNet: Neubig, Goldberg and Dyer, 2017.)
    """

    def __init__(self, size: int) -> None:
        self.size = size  # samples
        self.open: dict[Hashable, Node] = {}
        self.recipes: dict[Hashable, Any] = {}
        self.failed: list[Failure] = []
        self.cancelled = False
        self.new: list[Node] = []
        self._ready: dict[Kind, None] = {}  # kinds of which some are ready, in order
        self._outside: dict[int, Pending] = {}  # operands from outside, by id
        self._given: dict[int, tuple[int, Any]] = {}  # facts from outside by id: bit, and itself
        self._kinds: dict[Hashable, Kind] = {}
        self._recipes: dict[Hashable, Recipe] = {}
        self._forms: dict[Hashable, Form] = {}
        self._modes: dict[Mode, Mode] = {}
        self._mode: Mode | None = None  # the last one
        self._glance: Glance | None = None

    def kind(self, name: str, key: Hashable, run: Run) -> Kind:
        """The kind of nodes with this name and key, in the current mode."""
        mode = self.mode()
        whole = (name, key, id(mode))
        cached = self._kinds.get(whole)
        if cached is None:
            cached = self._kinds[whole] = Kind(name, run, mode)
        return cached

    def mode(self) -> Mode:
        """The current mode; one object for all that are equal."""
        if self._mode is None or self._glance != now_at_a_glance():
            mode = Mode.current()
            self._mode = self._modes.setdefault(mode, mode)
            self._glance = mode.glance()
        return self._mode

    def form(
        self, domain: Symbols | None, provenance: Provenance, info: TagInfo, exclusive: bool
    ) -> Form:
        """The form of rows with these properties; it keeps the objects in its key alive."""
        key = (id(domain), id(provenance), info.device, info.dtype, exclusive)
        cached = self._forms.get(key)
        if cached is None:
            cached = self._forms[key] = Form(domain, provenance, info, exclusive)
        return cached

    def recipe(
        self, kind: Kind, mark: Hashable, payload: Any, form: Form, forms: tuple[Form, ...] = ()
    ) -> Recipe:
        """The recipe with these properties; `mark` tells payloads of the same kind apart."""
        key = (kind, mark, form, forms)
        cached = self._recipes.get(key)
        if cached is None:
            cached = self._recipes[key] = Recipe(kind, payload, form, forms)
        return cached

    def outside(self, d: Tagged) -> Pending:
        """The one row of a distribution from outside as an operand."""
        cached = self._outside.get(id(d))
        if cached is None:
            domain = d.domain if isinstance(d.domain, Symbols) else None
            form = Form(domain, d.provenance, d.info(), d.exclusive)
            cached = self._outside[id(d)] = rows_given(d, form)[0]
        return cached

    def _facts_given(self, node: Node) -> int:
        if node.source is not None:
            node.facts = self.bits_of(node.source)
        return node.facts

    def bits_of(self, d: Tagged) -> int:
        """Which inputs a distribution from outside depends on, where its algebra can tell."""
        bits = 0
        if d.provenance.spreads and not d.certain:
            for facts in d.provenance.facts_in(d.tags):
                bit, _ = self._given.setdefault(id(facts), (2 * len(self._given) + 1, facts))
                bits |= 1 << bit
        return bits

    def run(self) -> None:
        """Run all nodes."""
        while self.new or self._ready:
            self._schedule()
            kind = min(self._ready, key=lambda kind: kind.depths / kind.left)
            del self._ready[kind]
            nodes, kind.ready = kind.ready, []
            for node in nodes:
                kind.left -= len(node)
                kind.depths -= len(node) * node.depth
            self._run_as_one(kind, nodes)
            self._release(nodes)

    def _schedule(self) -> None:
        """New nodes become ready when all their operands have run; no other sample joins them."""
        if not self.new:
            return
        self.open.clear()
        self._outside.clear()
        nodes, self.new = self.new, []
        for node in nodes:
            for before in node.operands:
                node.facts |= before.facts or self._facts_given(before)
                if before.depth >= node.depth:
                    node.depth = before.depth + 1
                if not before.done:
                    node.blockers += 1
                    if before.dependents is None:
                        before.dependents = [node]
                    else:
                        before.dependents.append(node)
            rows, kind = len(node), node.kind
            kind.left += rows
            kind.depths += rows * node.depth
            if not node.blockers:
                self._make_ready(node)

    def _make_ready(self, node: Node) -> None:
        kind = node.kind
        kind.ready.append(node)
        self._ready[kind] = None

    def _run_as_one(self, kind: Kind, nodes: list[Node]) -> None:
        parts: list[Node] = []
        if self.failed:
            split = [node for node in nodes if any(d.parts for d in node.operands)]
            nodes = [node for node in nodes if not any(d.parts for d in node.operands)]
            parts = [part for node in split for part in _split(node) if not _fails(part)]
        if not nodes and not parts:
            return
        active = surroundings().profile
        if active is not None:
            active.ran(kind.name)
        with kind.mode.entered():
            try:
                kind.run([*nodes, *parts])
            except Exception as error:
                left = [node for node in nodes if not node.done]
                parts += [part for node in left for part in _split(node)]
                self._find_out([part for part in parts if not part.done], error)

    def _find_out(self, parts: list[Node], error: Exception) -> None:
        """A joint run failed: run each row separately to find the one that fails."""
        for part in parts:
            if len(parts) > 1:
                try:
                    part.kind.run([part])
                    continue
                except Exception as own:
                    error = own
            self.failed.append(Failure(part.sample(), error))
            part.fail(self.failed[-1])

    def _release(self, nodes: list[Node]) -> None:
        """Make ready what waited for these nodes, unless it waits for others, too."""
        for node in nodes:
            for dependent in node.dependents or ():
                dependent.blockers -= 1
                if not dependent.blockers:
                    self._make_ready(dependent)
            node.dependents = None


def _split(node: Node) -> list[Node]:
    parts = node.split()
    node.settle(None)  # by its parts
    return parts


def _fails(part: Node) -> bool:
    """Whether a part can't run because of an error of an operand, which becomes its own."""
    for d in part.operands:
        if d.failure is not None:
            part.fail(d.failure)
            return True
    return False
