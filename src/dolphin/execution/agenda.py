"""Operations that samples have requested, and the order in which they run."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from dolphin.execution.pending import (
    Cancelled,
    Form,
    Glance,
    Kind,
    Mode,
    Node,
    Pending,
    Run,
    now_at_a_glance,
)
from dolphin.execution.tagged import Tagged
from dolphin.provenance.contract import Provenance, TagInfo
from dolphin.symbolic.surroundings import surroundings
from dolphin.symbolic.symbols import Symbols


class Agenda:
    """Nodes of all samples. Those that are ready and of the same kind run as one.

    Among the kinds with ready nodes, the one whose nodes, ready or not, have the smallest average
    depth runs first: early operations don't wait, late ones wait until more of their kind are
    ready. (The rule of dynamic batching in DyNet: Neubig, Goldberg and Dyer, 2017.)
    """

    def __init__(self, size: int) -> None:
        self.size = size  # samples
        self._given: dict[int, tuple[int, Any]] = {}  # facts from outside by id: bit, and itself
        self._kinds: dict[Hashable, Kind] = {}
        self._modes: dict[Mode, Mode] = {}
        self._mode: Mode | None = None  # the last one
        self._glance: Glance | None = None
        self._forms: dict[Hashable, Form] = {}
        self._ready: dict[Kind, None] = {}  # kinds of which some are ready, in order
        self.recipes: dict[Hashable, Any] = {}
        self.failed: list[Node] = []
        self.cancelled = False

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

    def add(self, node: Node) -> None:
        """Add a node; it becomes ready when all its operands have run."""
        if self.cancelled:
            raise Cancelled
        for d in node.operands:
            if isinstance(d, Pending):
                before = d.node
                node.facts |= before.facts or self._facts_given(before)
                if before.depth >= node.depth:
                    node.depth = before.depth + 1
                if not before.done:
                    if before.dependents is None:
                        before.dependents = [node]
                    else:
                        before.dependents.append(node)
                    node.blockers += 1
            else:
                node.facts |= self.bits_of(d)
        if not node.operands:
            node.facts = 1 << (2 * node.sample.inputs)
            node.sample.inputs += 1
        kind = node.kind
        kind.left += 1
        kind.depths += node.depth
        if not node.blockers:
            self._make_ready(node)
        active = surroundings().profile
        if active is not None:
            active.asked(kind.name)

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

    def _make_ready(self, node: Node) -> None:
        kind = node.kind
        kind.ready.append(node)
        if len(kind.ready) == 1:
            self._ready[kind] = None

    def run(self) -> None:
        """Run all nodes."""
        while self._ready:
            kind = min(self._ready, key=lambda kind: kind.depths / kind.left)
            del self._ready[kind]
            nodes, kind.ready = kind.ready, []
            kind.left -= len(nodes)
            kind.depths -= sum([node.depth for node in nodes])
            self._run_as_one(nodes)
            self._release(nodes)

    def _run_as_one(self, nodes: list[Node]) -> None:
        if self.failed:
            nodes = [node for node in nodes if not _fails_with_operands(node)]
        if not nodes:
            return
        active = surroundings().profile
        if active is not None:
            active.ran(nodes[0].kind.name)
        with nodes[0].kind.mode.entered():
            try:
                nodes[0].kind.run(nodes)
            except Exception as error:
                self._find_out(nodes, error)

    def _find_out(self, nodes: list[Node], error: Exception) -> None:
        """A joint run failed: run each node separately to find the one that fails."""
        for node in nodes:
            if len(nodes) > 1:
                try:
                    node.kind.run([node])
                    continue
                except Exception as own:
                    error = own
            node.fail(error)
            self.failed.append(node)

    def _release(self, nodes: list[Node]) -> None:
        """Make ready what waited for these nodes, unless it waits for others, too."""
        for node in nodes:
            if node.dependents is None:
                continue
            for dependent in node.dependents:
                dependent.blockers -= 1
                if not dependent.blockers:
                    self._make_ready(dependent)
            node.dependents = None


def _fails_with_operands(node: Node) -> bool:
    """Whether a node can't run because of an error of an operand, which becomes its own."""
    for d in node.operands:
        if isinstance(d, Pending) and d.node.error is not None:
            node.fail(d.node.error)
            return True
    return False
