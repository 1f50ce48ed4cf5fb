"""Recursion with a goal: what is asked for has the tags that it has without."""

from __future__ import annotations

import random

import pytest
import torch

import dolphin as dl
from algebras import NAMES, provenance_of
from dolphin.execution import run
from dolphin.provenance.contract import Provenance
from paths import begins, ends, whole

EDGES = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (1, 4), (5, 0)]  # with a cycle
TREE = [(0, 1), (1, 2), (0, 3), (2, 4), (2, 5), (1, 6), (7, 0)]  # one way to each vertex
EVERY = [(a, b) for a in range(8) for b in range(8)]
STARTS = [2, 0]


def edges_of(name, layout):
    """Where the algebra says when tags are settled, rounds go on until they are; others end with
    the last new symbol, which is the same round with a goal and without only on a tree."""
    settles = type(provenance_of(name)).saturated is not Provenance.saturated
    edges = EDGES if settles else TREE
    values = torch.linspace(0.1, 0.4, 14, dtype=torch.float64)[torch.randperm(14)]
    probs = values.view(2, 7).requires_grad_()
    options = {"exclusive": False, "provenance": provenance_of(name)}
    if layout == "shared":
        return probs, dl.Distribution(probs, edges, **options)
    rows = [(edges, probs[0]), (edges[:5], probs[1, :5])]
    return probs, dl.Distribution.from_rows(rows, **options)


def grown(edges):
    return lambda paths: dl.union(edges, dl.apply_if(paths, edges, whole, on=(ends, begins)))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("layout", ["shared", "ragged"])
def test_what_is_asked_for_has_the_same_tags(name, layout):
    probs, edges = edges_of(name, layout)
    everything = dl.get_probs(dl.fixpoint(grown(edges), edges), EVERY)
    goals = {
        "predicate": (lambda path: path[0] == 2, [2, 2]),
        "one key": ((begins, [2]), [2, 2]),
        "a key for each row": ((begins, STARTS), STARTS),
    }
    for kind, (goal, starts) in goals.items():
        answer = dl.get_probs(dl.fixpoint(grown(edges), edges, goal=goal), EVERY)
        asked = torch.tensor([[pair[0] == start for pair in EVERY] for start in starts])
        expected = torch.where(asked, everything, 0.0)
        torch.testing.assert_close(answer, expected, msg=kind)
        if answer.requires_grad:
            both = [
                torch.autograd.grad(a.sum(), probs, retain_graph=True)[0]
                for a in (answer, expected)
            ]
            torch.testing.assert_close(*both, msg=kind)


def test_rows_of_queries_to_one_base():
    edges = dl.Distribution([0.5] * 7, EDGES, exclusive=False, provenance="exact")
    answer = dl.fixpoint(grown(edges), edges, goal=(begins, [3, 1, 3, 9]), only_new=True)
    assert [sorted(symbol for symbol, _ in answer.row(i)) for i in range(4)] == [
        [(3, 4)], [(1, 0), (1, 1), (1, 2), (1, 3), (1, 4)], [(3, 4)], [],
    ]  # fmt: skip


@pytest.mark.parametrize("goal", [lambda path: path[0] == 2, (begins, [2]), (begins, [2, 2])])
def test_a_round_costs_what_it_keeps(goal, monkeypatch):
    _, edges = edges_of("damp", "shared")
    united, unite = [], run._united

    def watched(operands):
        united.extend(d.width for d in operands)
        return unite(operands)

    monkeypatch.setattr(run, "_united", watched)
    dl.fixpoint(grown(edges), edges, goal=goal)  # nothing follows: the program is tried, once
    united.clear()
    dl.fixpoint(grown(edges), edges, goal=goal)
    assert united
    assert max(united) <= 2  # (2, 4) and (2, 5): never the seven facts


def test_a_union_that_the_step_reads_is_an_ordinary_one():
    _, edges = edges_of("dtkp-am", "shared")
    seen = []

    def step(paths):
        inner = dl.union(paths, dl.apply_if(paths, edges, whole, on=(ends, begins)))
        seen.append((inner.symbols, inner.batch_size, inner.probs().shape))
        return dl.union(edges, dl.filter(inner, lambda path: path[0] != path[1]))

    def nested(paths):
        longer = dl.apply_if(paths, edges, whole, on=(ends, begins))
        return dl.union(dl.union(edges, longer), edges, paths)

    expected = dl.get_probs(dl.fixpoint(grown(edges), edges), EVERY)
    for each in (step, nested):
        answer = dl.get_probs(dl.fixpoint(each, edges, goal=(begins, [5])), EVERY)
        chosen = [place for place, pair in enumerate(EVERY) if pair[0] == 5]
        torch.testing.assert_close(answer[:, chosen], expected[:, chosen])
    assert seen[0] == (((5, 0), (5, 1)), 2, (2, 2))
    assert not dl.union(edges, edges).probs().isnan().any()  # outside, at once


def test_a_union_keeps_the_gradient_mode_in_which_it_was_written():
    _, edges = edges_of("damp", "shared")

    def step(paths):
        with torch.no_grad():
            return dl.union(edges, dl.apply_if(paths, edges, whole, on=(ends, begins)))

    answer = dl.fixpoint(step, edges, max_iterations=20, goal=lambda path: path[0] == 2)
    assert not answer.probs().requires_grad


def rules(edges):
    """Paths that grow at their ends, at their fronts, and by pairs."""
    on = (ends, begins)
    return {
        "ends": lambda paths: dl.union(edges, dl.apply_if(paths, edges, whole, on=on)),
        "fronts": lambda paths: dl.union(edges, dl.apply_if(edges, paths, whole, on=on)),
        "pairs": lambda paths: dl.union(edges, dl.apply_if(paths, paths, whole, on=on)),
    }


@pytest.mark.parametrize("name", ["damp", "viterbi", "dtkp-am", "exact", "min-max"])
@pytest.mark.parametrize("layout", ["shared", "ragged"])
def test_a_goal_that_leaves_out_what_it_needs_is_refused(name, layout):
    _, edges = edges_of(name, layout)
    rule = rules(edges)
    refused = [
        ("ends", lambda path: path[1] == 4), ("ends", (ends, [4])), ("ends", (ends, [4, 0])),
        ("ends", lambda path: path[1] >= 3),  # all that follows from it is wanted, not only that
        ("fronts", lambda path: path[0] == 0), ("fronts", (begins, [0, 7])),
        ("pairs", (begins, [0])), ("pairs", lambda path: path[0] == 0),
    ]  # fmt: skip
    for kind, goal in refused:
        with pytest.raises(dl.InputError, match="goal= leaves out what it needs: step derives"):
            dl.fixpoint(rule[kind], edges, goal=goal)
    for kind, goal in (("ends", (begins, [0])), ("fronts", (ends, [4]))):
        dl.fixpoint(rule[kind], edges, goal=goal)


def test_what_a_goal_drops_may_be_needed_only_beside_what_it_keeps():
    """Every pair is an edge, so nothing is new: only the probabilities show it."""
    pairs = [(a, b) for a in range(3) for b in range(3)]
    for name in ("damp", "exact", "dtkp-am"):
        edges = dl.Distribution([0.5] * 9, pairs, exclusive=False, provenance=name)
        with pytest.raises(dl.InputError, match="leaves out"):
            dl.fixpoint(rules(edges)["ends"], edges, goal=lambda path: path[1] == 1)


@pytest.mark.parametrize("seed", range(8))
def test_random_recursions_are_answered_right_or_refused(seed):
    dice = random.Random(seed)
    size = dice.choice([4, 7, 20, 60])
    facts = list({(dice.randrange(size), dice.randrange(size)) for _ in range(2 * size)})
    edges = dl.Distribution(torch.full((len(facts),), 0.5), facts, exclusive=False,
                            provenance="boolean")  # fmt: skip
    answered = 0
    for rule in rules(edges).values():
        everything = set(dl.fixpoint(rule, edges).symbols)
        vertex, other = dice.randrange(size), dice.randrange(size)
        predicates = [
            lambda path, v=vertex: path[0] == v,
            lambda path, v=vertex: path[1] == v,
            lambda path, v=vertex: path[0] >= v,
            lambda path, v=vertex: path[1] >= v,
            lambda path, v=vertex: path[0] < v or path[1] < v,
        ]
        goals = [(predicate, predicate) for predicate in predicates]
        goals += [((begins, [other]), lambda path, v=other: path[0] == v)]
        goals += [((ends, [other]), lambda path, v=other: path[1] == v)]
        for goal, wanted in goals:
            try:
                answer = dl.fixpoint(rule, edges, goal=goal)
            except dl.InputError:
                continue
            answered += 1
            assert set(answer.symbols) == {path for path in everything if wanted(path)}
    assert answered > 3


def test_a_goal_is_tried_on_a_large_base_too():
    facts = [(vertex, vertex // 2) for vertex in range(1, 9001)]
    edges = dl.Distribution(torch.full((9000,), 0.5), facts, exclusive=False, provenance="viterbi")
    rule = rules(edges)
    for kind, goal in [
        ("ends", (ends, [3])), ("ends", lambda path: path[1] == 1),
        ("fronts", (begins, [8999])), ("fronts", lambda path: path[0] == 8999),
    ]:  # fmt: skip
        with pytest.raises(dl.InputError, match="leaves out"):
            dl.fixpoint(rule[kind], edges, goal=goal)
    assert len(dl.fixpoint(rule["ends"], edges, goal=(begins, [8999]))) == 14


def test_a_program_is_tried_once():
    facts = [(vertex, vertex // 2) for vertex in range(1, 40)]
    calls = []

    def run(goal):
        edges = dl.Distribution(torch.rand(39), facts, exclusive=False)

        def step(paths):
            calls.append(len(paths))
            return dl.union(edges, dl.apply_if(paths, edges, whole, on=(ends, begins)))

        dl.fixpoint(step, edges, goal=goal)

    for goal in (lambda path: path[0] == 1, (begins, [1])):  # (1, 0), and nothing follows
        calls.clear()
        run(goal)
        first = len(calls)
        calls.clear()
        run(goal)
        assert calls == [1]
        assert first > 1
    calls.clear()
    run((begins, [39]))
    assert max(calls) <= 6  # other keys of the same program: nothing else is tried


def test_a_function_that_fails_on_what_is_not_wanted_is_no_obstacle():
    edges = dl.Distribution([0.5] * 3, [(1, 2), (2, 3), (0, 9)], exclusive=False)

    def inverse(path, edge):
        return path[0], edge[1] + 0 // path[0]

    def step(paths):
        return dl.union(edges, dl.apply_if(paths, edges, inverse, on=(ends, begins)))

    answer = dl.fixpoint(step, edges, goal=lambda path: path[0] == 1)
    assert answer.symbols == ((1, 2), (1, 3))


def test_a_goal_is_tried_inside_batched_and_programs():
    def reached(graph, goal):
        edges = dl.Distribution([0.5] * len(graph), graph, exclusive=False)
        return dl.fixpoint(rules(edges)["ends"], edges, goal=goal)

    graphs = [[(0, 1), (1, 2)], [(0, 2), (2, 1), (1, 3)]]
    right = dl.batched(lambda graph: reached(graph, lambda path: path[0] == 0))(graphs)
    assert [sorted(s for s, _ in right.row(i)) for i in range(2)] == [
        [(0, 1), (0, 2)], [(0, 1), (0, 2), (0, 3)],
    ]  # fmt: skip
    with pytest.raises(dl.DolphinError, match="leaves out"):
        dl.batched(lambda graph: reached(graph, lambda path: path[1] == 2))(graphs)

    @dl.program
    def chosen(graph):
        return dl.choose(reached(graph, lambda path: path[1] == 2))

    with pytest.raises(dl.DolphinError, match="leaves out"):
        chosen(graphs[0])


def test_mistakes_are_found_where_they_are_made():
    _, edges = edges_of("damp", "shared")
    other = dl.Distribution([0.5], [(2, 7)], exclusive=False, provenance="exact")
    for goal in ((begins,), (2, [3]), (begins, "ab"), (begins, [])):
        with pytest.raises(dl.InputError, match="fixpoint: goal="):
            dl.fixpoint(grown(edges), edges, goal=goal)
    with pytest.raises(dl.InputError, match="key of the goal"):
        dl.fixpoint(grown(edges), edges, goal=(lambda a, b: a, [2]))
    with pytest.raises(dl.MismatchError, match="union: operands have different provenances"):
        dl.fixpoint(lambda d: dl.union(d, other), edges, goal=lambda path: True)
    with pytest.raises(dl.MismatchError, match="rows"):
        dl.fixpoint(grown(edges), edges, goal=(begins, [1, 2, 3]))
    with pytest.raises(dl.InputError, match="step must return a Distribution"):
        dl.fixpoint(lambda d: None, edges, goal=lambda path: True)
