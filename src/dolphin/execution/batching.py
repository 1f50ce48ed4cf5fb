"""Operations that run at once, or inside `dolphin.batched` together with those of other samples.

The symbolic stage does not depend on numbers, so a sample goes through it on its own, with plans
that are remembered as everywhere. Only the tag stage waits: a contraction of one sample is a block
of a contraction of many, whatever the functions and symbols were. Where symbols depend on numbers
(after `sample`), operations with the same function wait for each other and then run as a batch
whose rows have symbols of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from dolphin.execution import run, selecting
from dolphin.execution.gathering import Row, gathered, with_shared_symbols
from dolphin.execution.indices import Contraction, lists_of
from dolphin.execution.pending import Node, Pending, Waiting, collecting
from dolphin.execution.profiling import active_profile
from dolphin.execution.steady import steady
from dolphin.execution.tagged import Tagged, like_of
from dolphin.execution.tracing import Notes
from dolphin.provenance.contract import Provenance, TagInfo, TensorProvenance
from dolphin.provenance.registry import negates
from dolphin.symbolic.calling import ABSENT
from dolphin.symbolic.plans import (
    Plan,
    RowAddress,
    Rows,
    RowSymbols,
    Task,
    caches,
    make_plan,
    union_plan,
)
from dolphin.symbolic.symbols import Symbols

_WORTH_A_RUN = 2048  # combinations with one plan for which a run of their own costs less


class _Common(NamedTuple):
    """What the operands of a sample's operation have in common."""

    agenda: Waiting
    provenance: Provenance
    info: TagInfo

    def key(self, *more: Hashable) -> Hashable:
        return (self.provenance, self.info.device, self.info.dtype, *more)


class _Block(NamedTuple):
    """What a sample's contraction is in a contraction of many."""

    plan: Plan
    provenance: Provenance


def _common(operands: Sequence[Tagged]) -> _Common | None:
    """None where an operation runs at once: not in a sample, or not on single rows of one kind."""
    agenda = collecting()
    if agenda is None:
        return None
    provenance: Provenance | None = None
    info: TagInfo | None = None
    for d in operands:
        if d.batch != 1:
            return None
        if d.certain:
            continue
        if provenance is None:
            provenance = d.provenance
        elif provenance is not d.provenance and provenance != d.provenance:
            return None
        if d.constant:
            continue
        own = d.info()
        if info is not None and (own.dtype, own.device) != (info.dtype, info.device):
            return None
        info = own
    if provenance is None or info is None or isinstance(provenance, Notes):
        return None
    return _Common(agenda, provenance, info)


def _known(d: Tagged) -> Symbols | None:
    """The symbols of one row, if they are known without waiting."""
    domain = d.known_domain if isinstance(d, Pending) else d.domain
    return domain if isinstance(domain, Symbols) else None


def combine(task: Task, operands: Sequence[Tagged], where: Any) -> Tagged:
    """What a task makes of its operands."""
    common = _common(operands) if where is None else None
    if common is None:
        return run.combine(task, operands, where)
    domains = [_known(d) for d in operands]
    if None in domains:
        return _combine_later(common, task, operands)
    skipped = run.left_out(common.provenance, operands)
    plan = _plan(task, domains, skipped)
    taking_part = [d for d, skip in zip(operands, skipped, strict=True) if not skip]
    block = _Block(plan, common.provenance)
    key = common.key(len(taking_part))
    node = Node(common.agenda, "combine", key, _run_contractions, taking_part, block)
    assert isinstance(plan.domain, Symbols)
    return Pending(
        node,
        common.provenance,
        common.info,
        domain=plan.domain,
        exclusive=all(d.exclusive for d in operands),
    )


def _plan(task: Task, domains: Sequence[Any], skipped: Sequence[bool]) -> Plan:
    active = active_profile()
    if active is None:
        return make_plan(task, domains, skipped)
    shown = task.condition if task.operation == "filter" else task.function
    with active.operation(task.operation, shown):
        return make_plan(task, domains, skipped)


def _combine_later(common: _Common, task: Task, operands: Sequence[Tagged]) -> Tagged:
    """Symbols depend on numbers: functions run later, so what they read must not change."""
    functions = (task.function, task.condition, *(task.on or ()))
    held = [None if f is None else steady(f) for f in functions]
    changing = any(h is None for h, f in zip(held, functions, strict=True) if f is not None)
    identity = task.key()
    if not changing:
        on = (held[2], held[3]) if task.on is not None else None
        task = task._replace(function=held[0], condition=held[1], on=on)
    if identity is None:
        identity = tuple(map(id, functions))
    key = common.key(task.operation, identity, task.cache, len(operands))
    node = Node(common.agenda, task.operation, key, _run_combinations, operands, task)
    exclusive = all(d.exclusive for d in operands)
    result = Pending(node, common.provenance, common.info, exclusive=exclusive)
    if changing:
        node.wait()
    return result


def unite(operands: Sequence[Tagged]) -> Tagged:
    """All symbols of all operands; the tags of common symbols are ⊕-ed."""
    common = _common(operands)
    if common is None:
        return run.unite(operands)
    domains = [_known(d) for d in operands]
    domain: Any = None
    if None not in domains:
        addresses = [RowAddress(len(own), per_row=False) for own in domains if own is not None]
        domain = union_plan("union", domains, Rows(1, addresses)).domain  # type: ignore[arg-type]
    key = common.key(len(operands))
    node = Node(common.agenda, "union", key, _run_unions, operands)
    return Pending(node, common.provenance, common.info, domain=domain)


def rowwise(
    name: str,
    operation: Callable[[Tagged], Tagged],
    d: Tagged,
    key: Hashable,
    domain: Symbols | None,
    *,
    exclusive: bool = False,
) -> Tagged:
    """An operation on one distribution that treats every row by itself. Equal keys: the same one.

    `domain`: the symbols of the result, where they are known beforehand.
    """
    common = _common([d])
    if common is None:
        return operation(d)
    node = Node(common.agenda, name, common.key(key), _run_rowwise, [d], operation)
    return Pending(node, common.provenance, common.info, domain=domain, exclusive=exclusive)


def read_rows(
    name: str,
    reader: Callable[[Tagged, list[Any]], Sequence[Any]],
    d: Tagged,
    key: Hashable,
    argument: Any = None,
) -> Any:
    """A value for each row, one for the row of a sample: `reader` gets rows and their arguments."""
    common = _common([d]) if isinstance(d, Pending) and not d.node.done else None
    if common is None:
        return reader(d, [argument] * d.batch)
    node = Node(common.agenda, name, common.key(key), _run_readers, [d], (reader, argument))
    return [node.wait().value]


def negated(d: Tagged, world: Symbols | None) -> Tagged:
    """The same symbols, or those of a closed world, with negated tags."""
    if not negates(d.provenance):
        return selecting.negated(d, world)  # says so
    domain = d.known_domain if isinstance(d, Pending) else None
    return rowwise("negate", partial(_negated, world), d, world, world or domain)


def _negated(world: Symbols | None, d: Tagged) -> Tagged:
    return selecting.negated(d, world)


def sampled(d: Tagged, k: int, method: str, generator: torch.Generator | None) -> Tagged:
    """At most k symbols of each row, each row its own, with their tags unchanged."""
    selecting.check_sample(k, method)
    if isinstance(d, Pending) and d.known_domain is not None and len(d.known_domain) <= k:
        return d
    chosen = partial(_sampled, k, method, generator)
    return rowwise("sample", chosen, d, (k, method, id(generator)), None, exclusive=d.exclusive)


def _sampled(k: int, method: str, generator: torch.Generator | None, d: Tagged) -> Tagged:
    return selecting.sampled(d, k, method, generator)


# -- running many as one ---------------------------------------------------------------------------


def settle(nodes: Sequence[Node], result: Tagged) -> None:
    """Each node gets its row of the result."""
    for number, node in enumerate(nodes):
        node.settle(Row(result, number if result.batch > 1 else 0, result.exclusive))


def _operand(nodes: Sequence[Node], place: int) -> Tagged:
    return gathered([node.row_of(place) for node in nodes])


def _spread(d: Tagged, batch: int) -> Tagged:
    """One row that is the same for all, as this many rows."""
    return d if d.batch == batch else d.take_rows(np.zeros(batch, dtype=np.int64))


def _run_combinations(nodes: Sequence[Node]) -> None:
    task: Task = nodes[0].payload
    operands = [_operand(nodes, place) for place in range(len(nodes[0].operands))]
    settle(nodes, run.combine(task, operands, None))


def _run_unions(nodes: Sequence[Node]) -> None:
    settle(nodes, run.unite([_operand(nodes, at) for at in range(len(nodes[0].operands))]))


def _run_rowwise(nodes: Sequence[Node]) -> None:
    settle(nodes, nodes[0].payload(_operand(nodes, 0)))


def _run_readers(nodes: Sequence[Node]) -> None:
    reader = nodes[0].payload[0]
    rows = _spread(_operand(nodes, 0), len(nodes))
    values = reader(rows, [node.payload[1] for node in nodes])
    for node, value in zip(nodes, values, strict=True):
        node.settle(None, value)


def _run_contractions(nodes: Sequence[Node]) -> None:
    by_plan: dict[int, list[Node]] = {}
    for node in nodes:
        by_plan.setdefault(id(node.payload.plan), []).append(node)
    mixed: list[Node] = []
    for some in by_plan.values():
        work = len(some) * lists_of(some[0].payload.plan.combinations).combinations
        if len(by_plan) == 1 or work >= _WORTH_A_RUN:
            _run_shared(some)
        else:
            mixed += some
    if mixed:
        _run_mixed(mixed)


def _run_shared(nodes: Sequence[Node]) -> None:
    """One plan for all: rows of a batch whose symbols are shared."""
    plan, provenance = nodes[0].payload
    operands = []
    for place in range(len(nodes[0].operands)):
        domain = _known(nodes[0].operands[place])
        assert domain is not None
        operands.append(with_shared_symbols(_operand(nodes, place), domain))
    like = like_of(operands)
    tags = run.run(plan, [d.tags_like(like) for d in operands], provenance)
    batch = max(d.batch for d in operands)
    settle(nodes, Tagged(plan.domain, tags, provenance, batch))


def _run_mixed(nodes: Sequence[Node]) -> None:
    """Plans of their own: each is a block of one contraction."""
    provenance = nodes[0].payload.provenance
    if isinstance(provenance, TensorProvenance):
        tags, starts = _pooled(nodes)
    else:
        tags, starts = _side_by_side(nodes)
    width = max(1, *(len(node.payload.plan.domain) for node in nodes))
    table = caches.current_table()
    numbers = np.full((len(nodes), width), ABSENT, dtype=np.int64)
    for number, node in enumerate(nodes):
        domain = node.payload.plan.domain
        numbers[number, : len(domain)] = domain.numbers(table)
    whole = _blocks([node.payload.plan for node in nodes], starts, width)
    domain = RowSymbols(table, numbers)
    made = run.run_lists(whole, tags, provenance)
    settle(nodes, Tagged(domain, made, provenance, len(nodes)))


def _blocks(plans: Sequence[Plan], starts: Sequence[np.ndarray], width: int) -> Contraction:
    """One contraction of all: row r has `plans[r]`, on tags from starts[operand][r] on."""
    places: dict[int, list[int]] = {}
    for place, plan in enumerate(plans):
        places.setdefault(id(plan), []).append(place)
    indices: list[list[np.ndarray]] = [[] for _ in starts]
    group_of = []
    for rows in places.values():
        contraction = lists_of(plans[rows[0]].combinations).spelled_out()
        for collected, index, start in zip(indices, contraction.indices, starts, strict=True):
            collected.append((start[rows][:, None] + index).reshape(-1))
        group_of.append((np.array(rows)[:, None] * width + contraction.group_of).reshape(-1))
    joined = [np.concatenate(parts) for parts in indices]
    return Contraction(joined, np.concatenate(group_of), len(plans) * width)


def _pooled(nodes: Sequence[Node]) -> tuple[list[Any], list[np.ndarray]]:
    """The tags of all operands in one pool of numbers, and where each row's begin in it."""
    rows = [[node.row_of(at) for node in nodes] for at in range(len(nodes[0].operands))]
    wanted: dict[int, tuple[Tagged, set[int]]] = {}
    for row in (row for some in rows for row in some):
        wanted.setdefault(id(row.of), (row.of, set()))[1].add(row.number)
    like = like_of([source for source, _ in wanted.values()])
    pool, begin, at = [], {}, 0
    for key, (source, numbers) in wanted.items():
        kept = sorted(numbers)
        few = 2 * len(kept) < source.batch
        part = source.take_rows(np.array(kept, dtype=np.int64)) if few else source
        place = {number: n for n, number in enumerate(kept)} if few else None
        flat, address = part.flat_tags(like)
        begin[key] = (at, address, place)
        pool.append(flat)
        at += address.size(part.batch)
    starts = []
    for some in rows:
        start = []
        for row in some:
            first, address, place = begin[id(row.of)]
            number = row.number if place is None else place[row.number]
            start.append(first + address.at(number, 0))
        starts.append(np.array(start, dtype=np.int64))
    provenance = nodes[0].payload.provenance
    together = provenance.concat(pool) if len(pool) > 1 else pool[0]
    return [together] * len(rows), starts


def _side_by_side(nodes: Sequence[Node]) -> tuple[list[Any], list[np.ndarray]]:
    """The tags of each operand, row after row, and where each row's begin."""
    operands = [_operand(nodes, at) for at in range(len(nodes[0].operands))]
    like = like_of(operands)
    tags, starts = [], []
    for d in operands:
        flat, address = _spread(d, len(nodes)).flat_tags(like)
        tags.append(flat)
        starts.append(address.at(np.arange(len(nodes)), 0))
    return tags, starts
