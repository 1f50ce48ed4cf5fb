"""Joins row by row: those that grow from round to round give what a join from the start gives."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
import torch

import dolphin as dl
from dolphin.symbolic.calling import ABSENT
from dolphin.symbolic.joins import Joined, Matches, Sorted, in_rows
from dolphin.symbolic.plans import caches
from dolphin.symbolic.tables import SymbolTable


def test_matches_are_those_of_two_loops() -> None:
    generator = random.Random(0)
    for _ in range(50):
        left, right = (
            np.array([generator.randint(ABSENT, 5) for _ in range(generator.randint(0, 12))], int)
            for _ in range(2)
        )
        matches = Matches(left, Sorted(right))
        wanted = [
            (i, j)
            for i, j in itertools.product(range(len(left)), range(len(right)))
            if left[i] == right[j] != ABSENT
        ]
        assert matches.size == len(wanted)
        assert list(zip(*(place.tolist() for place in matches.places()), strict=True)) == wanted


def test_keys_of_other_rows_and_of_resting_rows_match_nothing() -> None:
    keys = np.array([[3, 4], [3, ABSENT]])
    everywhere = in_rows(keys, 2, None)
    assert len(set(everywhere.tolist())) == 4
    assert in_rows(keys, 2, np.array([True, False])).tolist()[2:] == [ABSENT, ABSENT]


def _joined(left: list[list[int]], right: list[list[int]]) -> tuple[Joined, SymbolTable]:
    table, nothing = SymbolTable(), np.empty(0, dtype=np.int64)
    keys = Sorted(nothing)
    both = (np.array(left), np.array(right))
    return Joined(table, *both, keys, nothing, [nothing, nothing], nothing), table


def test_only_what_rows_have_got_behind_their_old_symbols_is_fresh() -> None:
    known, table = _joined([[5, 6], [7, ABSENT]], [[1], [2]])
    right = np.array([[1], [2]])
    fresh = known.fresh(table, np.array([[5, 6, 8], [7, 9, ABSENT]]), right)
    assert fresh is not None
    assert fresh.tolist() == [[ABSENT, ABSENT, 8], [ABSENT, 9, ABSENT]]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ([[6, 5, 8], [7, 9, ABSENT]], [[1], [2]]),  # another order
        ([[5, 6], [ABSENT, ABSENT]], [[1], [2]]),  # less
        ([[5], [7]], [[1], [2]]),
        ([[5, 6, 8]], [[1], [2]]),  # other rows
        ([[5, 6, 8], [7, 9, ABSENT]], [[1], [3]]),  # another second operand
    ],
)
def test_a_join_of_anything_else_starts_anew(left: list, right: list) -> None:
    known, table = _joined([[5, 6], [7, ABSENT]], [[1], [2]])
    assert known.fresh(table, np.array(left), np.array(right)) is None
    same = (np.array([[5, 6], [7, ABSENT]]), np.array([[1], [2]]))
    assert known.fresh(table, *same) is not None
    assert known.fresh(SymbolTable(), *same) is None


def _graphs(seed: int, rows: int = 5) -> list[tuple[list[tuple[str, str]], list[float]]]:
    """A few edges between people with other names in every row, also none."""
    generator = random.Random(seed)
    made = []
    for row in range(rows):
        names = generator.sample("abcdefgh", 5)
        edges = generator.sample(list(itertools.permutations(names, 2)), (3 * row) % 8)
        made.append((edges, [round(generator.uniform(0.05, 0.95), 3) for _ in edges]))
    return made


def _closure(graphs: list, provenance: dl.Provenance) -> dl.Distribution:
    edges = dl.Distribution.from_rows(graphs, exclusive=False, provenance=provenance)

    def grow(paths: dl.Distribution) -> dl.Distribution:
        longer = dl.apply_if(
            paths,
            edges,
            lambda path, edge: (path[0], edge[1]),
            lambda path, edge: path[0] != edge[1],
            on=(lambda path: path[1], lambda edge: edge[0]),
        )
        return dl.union(edges, longer)

    return dl.fixpoint(grow, edges)


ALGEBRAS = [dl.DAMP(), dl.get_provenance("viterbi"), dl.TopKProofs(k=2), dl.get_provenance("exact")]


@pytest.mark.parametrize("provenance", ALGEBRAS, ids=lambda algebra: algebra.name)
def test_a_recursion_is_that_of_its_rows_alone(provenance: dl.Provenance) -> None:
    for seed in range(4):
        graphs = _graphs(seed)
        together = _closure(graphs, provenance)
        for row, graph in enumerate(graphs):
            dl.cache_clear()
            alone = _closure([graph], provenance)
            if provenance.name != "damp":  # whose sums depend on the number of rounds
                assert dict(together.row(row)) == pytest.approx(dict(alone.row(0)), rel=1e-5)
            assert [s for s, _ in together.row(row)] == [s for s, _ in alone.row(0)]


def test_a_recursion_that_goes_on_has_the_order_and_numbers_of_one_that_starts_anew() -> None:
    graphs = _graphs(7)
    results = {}
    for remembered in (True, False):
        numbers = [torch.tensor(p, dtype=torch.float64, requires_grad=True) for _, p in graphs]
        given = [(edges, p) for (edges, _), p in zip(graphs, numbers, strict=True)]
        edges = dl.Distribution.from_rows(given, exclusive=False)
        paths = edges
        for _ in range(4):
            if not remembered:
                dl.cache_clear()
            longer = dl.apply_if(
                paths,
                edges,
                lambda path, edge: (path[0], edge[1]),
                on=(lambda path: path[1], lambda edge: edge[0]),
            )
            paths = dl.union(edges, longer)
        rows = [paths.row(row) for row in range(len(graphs))]
        dl.get_probs(paths, symbols=paths.symbols).sum().backward()
        results[remembered] = rows, [p.grad for p in numbers if len(p)]
    assert results[True][0] == results[False][0]
    for with_memory, without in zip(results[True][1], results[False][1], strict=True):
        assert torch.equal(with_memory, without)


def test_what_a_function_reads_may_change_between_two_joins() -> None:
    allowed = {"a"}
    first = dl.Distribution.from_rows([([("a", "k")], [0.5]), ([("b", "k")], [0.5])])
    second = dl.Distribution.from_rows([(["k"], [0.5]), (["k"], [0.5])])

    def ask() -> list:
        joined = dl.apply_if(
            first,
            second,
            lambda x, y: x[0],
            lambda x, y: x[0] in allowed,
            on=(lambda x: x[1], lambda y: y),
        )
        return [[symbol for symbol, _ in joined.row(row)] for row in range(2)]

    assert ask() == [["a"], []]
    allowed.add("b")
    assert ask() == [["a"], ["b"]]


def test_joins_are_counted_and_cleared() -> None:
    dl.cache_clear()
    _closure(_graphs(1), dl.DAMP())
    assert len(caches.joined) == 1
    dl.cache_clear()
    assert len(caches.joined) == 0
