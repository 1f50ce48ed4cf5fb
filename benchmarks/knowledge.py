"""Queries to knowledge bases of growing size: two hops beside plain torch, and recursion.

    python benchmarks/knowledge.py                       # 10³ to 10⁵ facts, 1 and 32 rows
    python benchmarks/knowledge.py --graph scale-free --provenance dtkp-am
    python benchmarks/knowledge.py --recursion           # everything above a vertex of a tree

Facts are the edges of random graphs of networkx, each with a probability of its own; every step
has fresh probabilities and fresh queries. The reference is what one writes by hand: multiply the
whole list of facts with what holds at their heads, and add up at their tails. Both compute forward
and backward, in turns. Memory is the largest that Python and numpy held during a step.

With `--recursion` the facts are the edges of a random recursive tree, and queries ask what is above
some vertices: once by deriving everything (while that is at most 10⁴ facts), once with
`fixpoint(goal=...)`. `derived` counts the symbols that the last round has.
"""

from __future__ import annotations

import argparse
import statistics
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import networkx as nx
import torch
from torch import Tensor

import dolphin as dl

Facts = tuple[tuple[int, int], ...]
STEPS = 15
LARGEST_CLOSURE = 10_000  # facts; of 10⁵ there are a million pairs


def facts_of(graph: str, size: int) -> Facts:
    """Edges over a fifth as many entities."""
    entities = size // 5
    if graph == "uniform":
        made = nx.gnm_random_graph(entities, size, seed=0, directed=True)
        return tuple(made.edges)
    made = nx.barabasi_albert_graph(entities + 5, 5, seed=0)
    return tuple(made.edges)


def with_dolphin(weights: Tensor, facts: Facts, starts: list[int], ends: list[int]) -> Tensor:
    """How likely the ends are two facts away from the starts."""
    base = dl.Distribution(weights, facts, exclusive=False)
    at = dl.Distribution.certain_rows(starts)
    for _ in range(2):
        keys = (lambda entity: entity, lambda fact: fact[0])
        at = dl.apply_if(at, base, lambda _, fact: fact[1], on=keys)
    return at.prob_of(ends)


def by_hand(weights: Tensor, places: Tensor, entities: int, starts: list, ends: list) -> Tensor:
    """The same over all facts and entities at once."""
    rows = torch.arange(len(starts))
    at = torch.zeros(entities, len(starts))
    at[starts, rows] = 1.0
    for _ in range(2):
        moved = weights[:, None] * at.index_select(0, places[0])
        at = torch.zeros_like(at).index_add(0, places[1], moved).clamp(max=1.0)
    return at[ends, rows]


def median(steps: list[Callable[[], Tensor]]) -> list[float]:
    """Milliseconds of forward and backward of each of some steps, which take turns."""
    times: list[list[float]] = [[] for _ in steps]
    for turn in range(STEPS + 3):
        for number, step in enumerate(steps):
            started = time.perf_counter()
            step().sum().backward()
            if turn >= 3:
                times[number].append(1000 * (time.perf_counter() - started))
    return [statistics.median(each) for each in times]


def main() -> None:
    """Print a line for each size and number of rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--graph", choices=["uniform", "scale-free"], default="uniform")
    parser.add_argument("--provenance", default="damp")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 10_000, 50_000, 100_000])
    parser.add_argument("--recursion", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.recursion:
        recursions(options.provenance, options.sizes)
        return
    print(f"{'facts':>8} {'rows':>5} {'Dolphin ms':>11} {'by hand ms':>11} {'ratio':>6} {'MB':>6}")
    for size in options.sizes:
        facts = facts_of(options.graph, size)
        places = torch.tensor(facts).t().contiguous()
        entities = int(places.max()) + 1
        for rows in (1, 32):
            compare(options.provenance, facts, places, entities, rows)


def recursions(provenance: Any, sizes: list[int]) -> None:
    """Print a line for each size, and each way to ask."""
    print(f"{'facts':>8} {'asked':>16} {'derived':>9} {'ms':>9} {'CPU ms':>9} {'MB':>8}")
    for size in sizes:
        facts = tuple(nx.gnr_graph(size + 1, 0.0, seed=0).edges)
        with dl.settings(max_symbols=10_000_000), dl.using(dl.get_provenance(provenance)):
            if size <= LARGEST_CLOSURE:
                recursion("everything", facts, 0, turns=1)
            for rows in (1, 32):
                recursion(f"goal, rows: {rows}", facts, rows)


def recursion(name: str, facts: Facts, rows: int, turns: int = STEPS) -> None:
    """Time what is above some vertices, fresh ones in every turn; rows = 0 asks for everything."""
    derived = 0

    def above() -> Tensor:
        nonlocal derived
        base = dl.Distribution(torch.rand(len(facts), requires_grad=True), facts, exclusive=False)

        def longer(paths: dl.Distribution) -> dl.Distribution:
            keys = (lambda path: path[1], lambda fact: fact[0])
            return dl.union(base, dl.apply_if(paths, base, lambda p, f: (p[0], f[1]), on=keys))

        asked = torch.randint(1, len(facts), (rows,)).tolist()
        goal = (lambda path: path[0], asked) if rows else None
        paths = dl.fixpoint(longer, base, goal=goal)
        derived = len(paths)
        return paths.probs([(start, 0) for start in asked]) if rows else paths.probs()

    wall, busy = [], []
    for turn in range(turns + 3 * (turns > 1)):
        started = time.perf_counter(), time.process_time()
        above().sum().backward()
        if turn >= 3 or turns == 1:
            wall.append(1000 * (time.perf_counter() - started[0]))
            busy.append(1000 * (time.process_time() - started[1]))
    tracemalloc.start()
    above()
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    ms, cpu = statistics.median(wall), statistics.median(busy)
    print(f"{len(facts):8,} {name:>16} {derived:9,} {ms:9.1f} {cpu:9.1f} {peak:8.2f}", flush=True)


def compare(provenance: Any, facts: Facts, places: Tensor, entities: int, rows: int) -> None:
    """Time both on the same facts, and print."""

    def drawn() -> tuple[Tensor, list[int], list[int]]:
        queries = torch.randint(entities, (2, rows)).tolist()
        return torch.rand(len(facts), requires_grad=True), queries[0], queries[1]

    def ours() -> Tensor:
        weights, starts, ends = drawn()
        with dl.using(dl.get_provenance(provenance)):
            return with_dolphin(weights, facts, starts, ends)

    def theirs() -> Tensor:
        weights, starts, ends = drawn()
        return by_hand(weights, places, entities, starts, ends)

    mine, hand = median([ours, theirs])
    tracemalloc.start()
    ours()
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    print(f"{len(facts):8,} {rows:5} {mine:11.2f} {hand:11.2f} {mine / hand:6.2f} {peak:6.2f}")


if __name__ == "__main__":
    main()
