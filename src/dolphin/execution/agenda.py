"""What samples have asked for and what has not run yet, and the order in which it runs."""

from __future__ import annotations

from collections.abc import Hashable

from dolphin.execution.pending import Node, Pending
from dolphin.execution.profiling import active_profile


class _Kind:
    """Nodes with the same key."""

    __slots__ = ("depths", "left", "ready")

    def __init__(self) -> None:
        self.ready: list[Node] = []
        self.left = 0  # nodes that have not run
        self.depths = 0  # their depths together


class Agenda:
    """Nodes of all samples. Those that are ready and have the same key run as one.

    Of the kinds of nodes that are ready the one runs first whose nodes, ready or not, need the
    fewest steps before them: what comes early waits for nothing, what comes late waits until more
    of its kind are ready. (The rule of dynamic batching in DyNet: Neubig, Goldberg and Dyer, 2017.)
    """

    def __init__(self) -> None:
        self._kinds: dict[Hashable, _Kind] = {}
        self._ready: dict[_Kind, None] = {}  # kinds of which some are ready, in order
        self.failed: list[Node] = []

    def add(self, node: Node) -> None:
        """Write a node down; it becomes ready when all operands are there."""
        for d in node.operands:
            if isinstance(d, Pending):
                before = d.node
                if before.depth >= node.depth:
                    node.depth = before.depth + 1
                if not before.done:
                    before.dependents.append(node)
                    node.blockers += 1
        kind = self._kinds.get(node.key)
        if kind is None:
            kind = self._kinds[node.key] = _Kind()
        node.kind = kind
        kind.left += 1
        kind.depths += node.depth
        if not node.blockers:
            self._make_ready(node)
        active = active_profile()
        if active is not None:
            active.asked(node.name)

    def _make_ready(self, node: Node) -> None:
        kind = node.kind
        kind.ready.append(node)
        if len(kind.ready) == 1:
            self._ready[kind] = None

    def run(self) -> None:
        """Run everything that was asked for."""
        while self._ready:
            kind = min(self._ready, key=lambda kind: kind.depths / kind.left)
            del self._ready[kind]
            nodes, kind.ready = kind.ready, []
            kind.left -= len(nodes)
            kind.depths -= sum(node.depth for node in nodes)
            self._run_as_one(nodes)
            for node in nodes:
                self._release(node)

    def _run_as_one(self, nodes: list[Node]) -> None:
        broken = [node for node in nodes if _error_of_operands(node) is not None]
        for node in broken:
            error = _error_of_operands(node)
            assert error is not None
            node.fail(error)
        nodes = [node for node in nodes if not node.done]
        if not nodes:
            return
        active = active_profile()
        if active is not None:
            active.ran(nodes[0].name)
        with nodes[0].mode.entered():
            try:
                nodes[0].run(nodes)
            except Exception as error:
                self._find_out(nodes, error)

    def _find_out(self, nodes: list[Node], error: Exception) -> None:
        """Something failed for all of them: run each on its own to see which one it is."""
        for node in nodes:
            if len(nodes) > 1:
                try:
                    node.run([node])
                    continue
                except Exception as own:
                    error = own
            node.fail(error)
            self.failed.append(node)

    def _release(self, node: Node) -> None:
        for dependent in node.dependents:
            dependent.blockers -= 1
            if not dependent.blockers:
                self._make_ready(dependent)
        node.dependents = []


def _error_of_operands(node: Node) -> BaseException | None:
    """What went wrong before this node, so that it can't run."""
    for d in node.operands:
        if isinstance(d, Pending) and d.node.error is not None:
            return d.node.error
    return None
