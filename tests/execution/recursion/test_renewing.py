"""Recursion over what is new, and over what is asked for: the same results as over everything."""

from __future__ import annotations

import pytest
import torch

import dolphin as dl
from algebras import NAMES, provenance_of
from dolphin.execution.recursion import renewing
from paths import begins, ends, whole

EDGES = [(0, 1), (1, 2), (2, 0), (2, 3), (0, 2), (3, 4), (1, 4)]  # with a cycle
REPEATABLE = ["exact", "viterbi", "min-max", "boolean"]
LAYOUTS = ["shared", "rows", "ragged"]


def edges_of(layout, probs, provenance):
    options = {"exclusive": False, "provenance": provenance}
    if layout == "shared":
        return dl.Distribution(probs, EDGES, **options)
    rows = [
        (EDGES, probs[0]),
        (EDGES[:4], probs[1, :4]) if layout == "ragged" else (EDGES, probs[1]),
    ]
    return dl.Distribution.from_rows(rows, **options)


def linear(edges):
    def step(paths):
        return dl.union(edges, paths, dl.apply_if(paths, edges, whole, on=(ends, begins)))

    return step


def quadratic(edges):
    def step(paths):
        return dl.union(edges, paths, dl.apply_if(paths, paths, whole, on=(ends, begins)))

    return step


@pytest.mark.parametrize("name", REPEATABLE)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("recursion", [linear, quadratic])
def test_only_new_gives_what_all_rounds_give(name, layout, recursion):
    probs = torch.linspace(0.15, 0.9, 14, dtype=torch.float64).view(2, 7)
    probs = probs[:, torch.randperm(7)].requires_grad_()
    edges = edges_of(layout, probs, provenance_of(name))
    asked = [(a, b) for a in range(5) for b in range(5)]
    answers = [
        dl.get_probs(dl.fixpoint(recursion(edges), edges, only_new=new), symbols=asked)
        for new in (False, True)
    ]
    torch.testing.assert_close(*answers)
    if name != "boolean":
        weights = torch.rand_like(answers[0])
        grads = [
            torch.autograd.grad((a * weights).sum(), probs, retain_graph=True)[0] for a in answers
        ]
        torch.testing.assert_close(*grads)


def onwards(d):
    return dl.union(d, dl.apply(d, lambda a: (a + 1) % 4))


def again(d, start):
    return dl.union(start, dl.apply(d, start, lambda p, e: (p * e + 1) % 4))


@pytest.mark.parametrize("name", ["viterbi", "min-max"])
@pytest.mark.parametrize("layout", ["shared", "rows"])
@pytest.mark.parametrize("step", [lambda d, _: onwards(d), again])
def test_only_new_shares_gradients_among_equals_as_all_rounds_do(name, layout, step):
    grads = []
    for new in (False, True):
        x = torch.tensor([[0.0, 1.0, 1.0]], dtype=torch.float64, requires_grad=True)
        with dl.using(name):
            if layout == "shared":
                start = dl.Distribution(x, [3, 0, 2], exclusive=False)
            else:
                start = dl.Distribution.from_rows([([3, 0, 2], x[0])], exclusive=False)
            found = dl.fixpoint(lambda d, start=start: step(d, start), start, only_new=new)
            read = found.probs([0, 1, 2, 3])
        weights = torch.tensor([0.3, 0.7, 1.1, 1.9], dtype=torch.float64)
        grads.append(torch.autograd.grad((read * weights).sum(), x)[0])
    torch.testing.assert_close(*grads)


def test_only_new_looks_at_less():
    chain = [(n, n + 1) for n in range(24)]
    edges = dl.Distribution(torch.full((1, 24), 0.9), chain, exclusive=False, provenance="viterbi")
    looked = []
    for new in (False, True):
        combined = []

        def step(paths, combined=combined):
            combined.append(len(paths))
            return dl.union(edges, dl.apply_if(paths, edges, whole, on=(ends, begins)))

        dl.fixpoint(step, edges, only_new=new)
        looked.append(sum(combined))
    assert 3 * looked[1] < looked[0]


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(REPEATABLE)))
def test_only_new_is_refused_where_repetition_counts(name):
    edges = edges_of("shared", torch.full((2, 7), 0.5), provenance_of(name))
    if provenance_of(name).laws >= {"idempotent-add", "absorption", "distributive", "associative"}:
        pytest.skip("repetition means nothing")
    with pytest.raises(dl.UnsupportedError, match=r"only_new=True .* use 'exact'"):
        dl.fixpoint(linear(edges), edges, only_new=True)


def test_a_step_that_forgets_is_refused():
    edges = edges_of("shared", torch.full((2, 7), 0.5), "exact")
    with pytest.raises(dl.InputError, match="step must keep what it is given"):
        dl.fixpoint(lambda p: dl.apply_if(p, edges, whole, on=(ends, begins)), edges, only_new=True)


@pytest.mark.parametrize("name", ["damp", "dtkp-am", *REPEATABLE])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_goal_keeps_the_tags_of_what_is_asked_for(name, layout):
    probs = torch.linspace(0.05, 0.2, 14, dtype=torch.float64).view(2, 7).requires_grad_()
    edges = edges_of(layout, probs, provenance_of(name))

    def step(paths):
        return dl.union(edges, dl.apply_if(paths, edges, whole, on=(ends, begins)))

    asked = [(2, b) for b in range(5)]
    seen = []

    def watched(paths):
        seen.append({path[0] for path in paths.symbols})
        return step(paths)

    everything = dl.fixpoint(step, edges, max_iterations=50)
    goal = lambda path: path[0] == 2  # noqa: E731
    dl.fixpoint(watched, edges, max_iterations=50, goal=goal)  # tried, once
    seen.clear()
    directed = dl.fixpoint(watched, edges, max_iterations=50, goal=goal)
    assert set().union(*seen) == {2}
    assert {path[0] for path in directed.symbols} == {2}
    answers = [dl.get_probs(d, symbols=asked) for d in (everything, directed)]
    if name == "damp":  # ends when no symbols are new, so the number of rounds differs on a cycle
        assert (answers[1] <= answers[0] + 1e-12).all()
        return
    torch.testing.assert_close(*answers)
    if name != "boolean":
        grads = [torch.autograd.grad(a.sum(), probs, retain_graph=True)[0] for a in answers]
        torch.testing.assert_close(*grads)


# -- what the last round knew ----------------------------------------------------------------------

DETOURS = [(a, b) for a in range(10, 16) for b in range(a + 1, 17)]


def anew(edges):
    def step(paths):
        return dl.union(edges, dl.apply_if(paths, edges, whole, on=(ends, begins)))

    return step


def fickle(edges):
    """A step that finds less from its third round on, and other symbols from its fourth."""
    turn = [0]

    def longer(path, edge):
        return (*whole(path, edge), "late") if turn[0] > 3 and edge == (3, 4) else whole(path, edge)

    def step(paths):
        turn[0] += 1
        return dl.union(
            edges,
            dl.apply_if(
                paths, edges, longer, lambda p, e: turn[0] < 3 or p[0] != e[1], on=(ends, begins)
            ),
        )

    return step


@pytest.mark.parametrize("provenance", [dl.TopKProofs(1), dl.TopKProofs(3, wmc="exact")], ids=repr)
@pytest.mark.parametrize("recursion", [anew, linear, quadratic, fickle])
@pytest.mark.parametrize("shared", [False, True])
def test_what_the_last_round_knew_changes_nothing(monkeypatch, provenance, recursion, shared):
    generator = torch.Generator().manual_seed(3)
    links = [*DETOURS, *EDGES]
    given = torch.rand(6, len(links), generator=generator, dtype=torch.float64) / 20
    given += torch.tensor([0.9 * (b == a + 1) for a, b in links])  # the long way is likelier
    asked = [(a, b) for a in range(5) for b in range(5)] + DETOURS
    taken_over, results = [], []
    renewed = renewing._renewed

    def counted(*arguments):
        taken_over.append(1)
        return renewed(*arguments)

    monkeypatch.setattr(renewing, "_WORTH_A_LOOK", 0)
    monkeypatch.setattr(renewing, "_renewed", counted)
    for known in (True, False):
        monkeypatch.setattr(dl.TopKProofs, "renews", known)
        probs = given.clone().requires_grad_()
        rows = [(links[:n], probs[row, :n]) for row, n in enumerate((28, 24, 28, 21, 1, 15))]
        if shared:
            edges = dl.Distribution(probs, links, exclusive=False, provenance=provenance)
        else:
            edges = dl.Distribution.from_rows(rows, exclusive=False, provenance=provenance)
        found = dl.fixpoint(recursion(edges), edges).probs(asked)
        found.square().sum().backward()
        results.append((found, probs.grad))
        assert bool(taken_over) == known or recursion is not anew
        taken_over.clear()
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
