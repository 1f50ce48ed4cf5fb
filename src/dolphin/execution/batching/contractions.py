"""Contractions of many samples as one: rows of a batch, or blocks of one long list of tags.

Where the symbols of samples differ, or their operands come from different places, rows are not
gathered first: the tags of all operands are in one *pool*, and each sample's contraction is a
block of index lists into it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dolphin.execution import run
from dolphin.execution.batching.gathering import Part, Pooled, gathered, with_shared_symbols
from dolphin.execution.batching.in_step import settle
from dolphin.execution.batching.nodes import Node
from dolphin.execution.indices import Contraction, Index, lists_of
from dolphin.execution.tagged import Tagged, like_of
from dolphin.provenance.contract import Provenance, Tags
from dolphin.provenance.tensors import TensorProvenance
from dolphin.symbolic.calling import ABSENT
from dolphin.symbolic.plans import Plan, RowAddress, RowSymbols, caches
from dolphin.symbolic.symbols import Symbols

_WORTH_A_RUN = 8192  # combinations with one plan for which a separate run costs less


def operand_of(nodes: Sequence[Node], place: int) -> Tagged:
    """One operand of all nodes, row by row; one row if that is the same for all."""
    return gathered([node.rows(place) for node in nodes])


def spread_out(d: Tagged, batch: int) -> Tagged:
    """One row that is the same for all, as this many rows."""
    return d if d.batch == batch else d.take_rows(np.zeros(batch, dtype=np.int64))


def run_contractions(nodes: Sequence[Node]) -> None:
    """Contractions with the same number of operands and any plans."""
    provenance = nodes[0].recipe.form.provenance
    if provenance.spreads:
        nodes = _run_apart(nodes, provenance)
    by_plan: dict[int, list[Node]] = {}
    for node in nodes:
        by_plan.setdefault(id(node.payload), []).append(node)
    mixed: list[Node] = []
    for some in by_plan.values():
        combinations = lists_of(some[0].payload.combinations).combinations
        if len(by_plan) == 1 or sum(map(len, some)) * combinations >= _WORTH_A_RUN:
            _run_shared(some, provenance)
        else:
            mixed += some
    if mixed:
        _run_mixed(mixed, provenance)


def _run_shared(nodes: Sequence[Node], provenance: Provenance) -> None:
    """One plan for all: rows of a batch whose symbols are shared."""
    plan = nodes[0].payload
    operands = []
    for place in range(len(nodes[0].operands)):
        domain = nodes[0].recipe.forms[place].domain
        assert isinstance(domain, Symbols)
        operands.append(with_shared_symbols(operand_of(nodes, place), domain))
    like = like_of(operands)
    tags = run.run(plan, [d.tags_like(like) for d in operands], provenance)
    batch = max(d.batch for d in operands)
    settle(nodes, Tagged(plan.domain, tags, provenance, batch))


def _run_mixed(nodes: Sequence[Node], provenance: Provenance) -> None:
    """Different plans: each is a block of one contraction."""
    if isinstance(provenance, TensorProvenance):
        pool = Pool.of(_operands(nodes), provenance)
        tags, starts = [pool.tags] * len(pool.starts), pool.starts
    else:
        tags, starts = _side_by_side(nodes)
    plans = _plans(nodes)
    domain = _domain(plans)
    made = run.run_lists(_blocks(plans, starts, domain.width), tags, provenance)
    settle(nodes, Tagged(domain, made, provenance, len(plans)))


def _run_apart(nodes: Sequence[Node], provenance: Provenance) -> Sequence[Node]:
    """Run those whose operands have no fact in common, where facts belong to rows of a batch.

    The rest is returned. These tags know which sample they belong to, so facts need not be arranged
    again for each operation: 64 trees take a quarter of the time under top-k proofs.
    """
    size = nodes[0].sample().agenda.size
    apart = [node for node in nodes if _is_apart(node, provenance, size)]
    if not apart:
        return nodes
    operands = _operands(apart)
    if _are_a_batch(apart, operands):
        return nodes  # as a batch of its own rows
    sources = {id(part.of): part.of for parts in operands for part in parts}.values()
    if not provenance.all_apart([d.flat_tags()[0] for d in sources]):
        return nodes  # the same inputs under different names
    pool, plans = Pool.of(operands, provenance), _plans(apart)
    domain = _domain(plans)
    whole = _blocks(plans, pool.starts, domain.width)
    made = provenance.contract_apart([pool.tags] * len(operands), whole)
    places = np.array([number for node in apart for number in node.numbers()], dtype=np.int64)
    settle(apart, Pooled(domain, made, provenance, places, size))
    return [node for node in nodes if not node.done]


def _is_apart(node: Node, provenance: Provenance, size: int) -> bool:
    """Whether the operands of a node come from different inputs, each in the row of its sample."""
    seen = 0
    for operand, d in enumerate(node.operands):
        source = d.source
        assert source is not None
        if seen & d.facts or not provenance.excludes(source.tags):
            return False
        seen |= d.facts
        if isinstance(source, Pooled) or source.batch == 1:
            continue
        if source.batch != size or node.rows(operand).numbers != node.numbers():
            return False
    return True


def _are_a_batch(nodes: Sequence[Node], operands: Sequence[Sequence[Part]]) -> bool:
    """Whether the operands are whole distributions, so that pooling gains nothing."""
    if any(node.payload is not nodes[0].payload for node in nodes):
        return False
    for parts in operands:
        source = parts[0].of
        if isinstance(source, Pooled) and source.plain is None:
            return False
        if any(part.of is not source for part in parts):
            return False
        if [number for part in parts for number in part.numbers] != list(range(source.batch)):
            return False
    return True


def _operands(nodes: Sequence[Node]) -> list[list[Part]]:
    """The rows of each operand."""
    return [[node.rows(at) for node in nodes] for at in range(len(nodes[0].operands))]


def _plans(nodes: Sequence[Node]) -> list[Plan]:
    """The plan of each row."""
    return [plan for node in nodes for plan in [node.payload] * len(node)]


def _domain(plans: Sequence[Plan]) -> RowSymbols:
    """The symbols of the results, row by row."""
    domains: list[Any] = [plan.domain for plan in plans]
    width = max(1, *map(len, domains))
    table = caches.current_table()
    numbers = np.full((len(plans), width), ABSENT, dtype=np.int64)
    for row, domain in zip(numbers, domains, strict=True):
        row[: len(domain)] = domain.numbers(table)
    return RowSymbols(table, numbers)


def _blocks(plans: Sequence[Plan], starts: Sequence[np.ndarray], width: int) -> Contraction:
    """One contraction of all: row r has `plans[r]`, on tags from starts[operand][r] on."""
    places: dict[int, list[int]] = {}
    for place, plan in enumerate(plans):
        places.setdefault(id(plan), []).append(place)
    indices: list[list[np.ndarray]] = [[] for _ in starts]
    group_of, address = [], RowAddress(width)
    for rows in places.values():
        contraction = lists_of(plans[rows[0]].combinations).spelled_out()
        for collected, index, start in zip(indices, contraction.indices, starts, strict=True):
            collected.append((start[rows][:, None] + index).reshape(-1))
        group_of.append(address.at(np.array(rows)[:, None], contraction.group_of).reshape(-1))
    joined = [np.concatenate(parts) for parts in indices]
    # Rows of the operands are samples, of which one may have several rows here: no address.
    return Contraction(joined, np.concatenate(group_of), address.size(len(plans)))


class Pool(NamedTuple):
    """Tags of rows of many distributions, one after the other."""

    tags: Tags
    starts: list[np.ndarray]  # of each operand, where the tags of each row begin

    @classmethod
    def of(cls, operands: Sequence[Sequence[Part]], provenance: Provenance) -> Pool:
        """The rows of each operand. Each distribution that rows come from is read once."""
        wanted: dict[int, tuple[Tagged, set[int]]] = {}
        for parts in operands:
            for part in parts:
                wanted.setdefault(id(part.of), (part.of, set()))[1].update(part.numbers)
        like = like_of([source for source, _ in wanted.values()])
        blocks, begin, at = [], {}, 0
        for key, (source, numbers) in wanted.items():
            flat, firsts, size = _flat_rows(source, sorted(numbers), like)
            begin[key] = (at + firsts).tolist()
            blocks.append(flat)
            at += size
        starts = [
            np.array([begin[id(part.of)][row] for part in parts for row in part.numbers], np.int64)
            for parts in operands
        ]
        return cls(provenance.concat(blocks) if len(blocks) > 1 else blocks[0], starts)


def _flat_rows(
    source: Tagged, numbers: Sequence[int], like: Tags | None
) -> tuple[Tags, np.ndarray, int]:
    """Flattened tags of at least these rows, where each row starts, and the number of tags."""
    few = 2 * len(numbers) < source.batch
    kept = np.array(numbers, dtype=np.int64)
    if few and isinstance(source.provenance, TensorProvenance):
        flat, address = source.take_rows(kept).flat_tags(like)
        firsts = np.zeros(source.batch, dtype=np.int64)
        firsts[kept] = address.at(np.arange(len(kept)), 0)
        return flat, firsts, address.size(len(kept))
    flat, address = source.flat_tags(like)
    firsts = address.at(np.arange(source.batch), 0)
    if not few:
        return flat, firsts, address.size(source.batch)
    places = firsts[kept][:, None] + np.arange(source.width)
    firsts[kept] = np.arange(len(kept)) * source.width
    return source.provenance.select(flat, Index(places.reshape(-1))), firsts, places.size


def one_per_sample(rows: Sequence[Part]) -> Tagged:
    """A row of each sample of a batch, in order."""
    first = rows[0].of
    pooled = all(
        isinstance(row.of, Pooled)
        and row.of.size == len(rows)
        and row.of.places[row.numbers[0]] == number
        for number, row in enumerate(rows)
    )
    if not pooled:
        together = gathered(rows)
        return spread_out(together, len(rows))
    # Facts have a row for each sample already.
    pool = Pool.of([rows], first.provenance)
    table, width = caches.current_table(), max(1, *(row.of.width for row in rows))
    numbers = np.full((len(rows), width), ABSENT, dtype=np.int64)
    places = np.full((len(rows), width), -1, dtype=np.int64)
    for number, (row, start) in enumerate(zip(rows, pool.starts[0].tolist(), strict=True)):
        own = row.of.domain.in_table(table)
        own = own[row.numbers[0]] if len(own) > 1 else own[0]
        numbers[number, : len(own)] = own
        places[number, : len(own)] = start + np.arange(len(own))
    tags = first.provenance.pick([pool.tags], Index(places.reshape(-1)))
    exclusive = all(row.exclusive for row in rows)
    domain = RowSymbols(table, numbers)
    return Tagged(domain, tags, first.provenance, len(rows), exclusive=exclusive)


def _side_by_side(nodes: Sequence[Node]) -> tuple[list[Any], list[np.ndarray]]:
    """The tags of each operand, row after row, and where each row starts."""
    operands = [gathered(parts) for parts in _operands(nodes)]
    like, batch = like_of(operands), sum(map(len, nodes))
    tags, starts = [], []
    for d in operands:
        flat, address = spread_out(d, batch).flat_tags(like)
        tags.append(flat)
        starts.append(address.at(np.arange(batch), 0))
    return tags, starts
