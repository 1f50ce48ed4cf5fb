"""The likeliest executions of a program, level by level: `program(keep=k)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dolphin.distribution import Distribution, distribution_of
from dolphin.execution.tagged import Tagged, tagged_of
from dolphin.operations import apply, filter, sample, union
from dolphin.symbolic.chance import Weighted
from dolphin.symbolic.executions import Execution, Node, run

if TYPE_CHECKING:
    from dolphin.programs.choices import Call

Nodes = list[tuple[Node, tuple[int, ...]]]  # by number, with the choices that lead there


def likeliest(call: Call, keep: int) -> Tagged:
    """All executions run to their next choice, then each row keeps `keep` of them, and so on."""
    root = Node()
    nodes: Nodes = [(root, ())]
    frontier = Distribution.certain(0, provenance=call.provenance())
    while True:
        for number in frontier.symbols:
            node, script = nodes[number]
            if not node.known:
                run(Execution(call, root, script, None, one_step=True), call.function)
        if all(nodes[number][0].result is not None for number in frontier.symbols):
            break
        frontier = sample(_next_level(call, frontier, nodes), keep)
    results = {n: call.table.symbols[node.result] for n, (node, _) in enumerate(nodes)
               if node.result is not None}  # fmt: skip
    d = tagged_of(apply(frontier, lambda number: results[number], cache=False))
    batch = max([d.batch, *(other.batch for other in call.known)])
    if d.batch < batch:  # what is not asked for has more rows
        d = d.take_rows(np.zeros(batch, dtype=np.int64))
    exclusive = all(each.tagged.exclusive for each in call.choices.values())
    return Tagged(d.domain, d.made, d.provenance, d.batch, exclusive=exclusive, constant=d.constant)


def _next_level(call: Call, frontier: Distribution[int], nodes: Nodes) -> Distribution[int]:
    """Every execution with each of the symbols that it could choose next."""

    def child(number: int, choice: int) -> int:
        node, script = nodes[number]
        nodes.append((node.child(choice), (*script, choice)))
        return len(nodes) - 1

    def chosen(number: int, symbol: Any) -> int:
        return child(number, call.table.number(symbol))

    def drawn(number: int) -> Any:
        chance = nodes[number][0].chance
        assert isinstance(chance, Weighted)
        return Weighted(
            tuple(child(number, place) for place in range(len(chance.outcomes))),
            chance.weights,
        )

    ended = [n for n in frontier.symbols if nodes[n][0].result is not None]
    draws = [n for n in frontier.symbols if nodes[n][0].chance is not None]
    parts = [filter(frontier, lambda n: n in ended, cache=False)] if ended else []
    if draws:
        some = filter(frontier, lambda n: n in draws, cache=False)
        parts.append(apply(some, drawn, cache=False))
    asked = {nodes[n][0].asked for n in frontier.symbols} - {None}
    for number in sorted(asked):  # type: ignore[type-var]
        assert number is not None
        some = filter(frontier, lambda n, a=number: nodes[n][0].asked == a, cache=False)
        own = distribution_of(call.asked(number).tagged)
        parts.append(apply(some, own, chosen, cache=False))
    return parts[0] if len(parts) == 1 else union(*parts)
