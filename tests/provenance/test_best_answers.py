"""Questions to recursions under max-product, followed from the start of each answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import dolphin as dl
import reaching
from dolphin.execution.recursion import recurrences
from dolphin.provenance import best_answers, max_product
from dolphin.provenance.max_product import MaxProduct
from dolphin_tasks.pathfinder.program import both_ways, connected


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was found for each question; small ones are looked at as closely as large ones.

    Views of a small graph are copies of one recursion, too.
    """
    dl.cache_clear()
    every: list[Any] = []

    def follow(*given: Any, own: Any = best_answers.follow) -> Any:
        every.append(own(*given))
        return every[-1]

    monkeypatch.setattr(max_product, "follow", follow)
    for name, value in {"_FEWEST": 0, "_MOST_WAYS": 1.0, "_MOST_PRODUCTS": 10.0}.items():
        monkeypatch.setattr(best_answers, name, value)
    monkeypatch.setattr(recurrences, "_LARGE", 1)
    return every


def _directed(ends: dl.Distribution, edges: dl.Distribution) -> dl.Distribution:
    return connected(ends, edges, 9)


def _symmetric(ends: dl.Distribution, edges: dl.Distribution) -> dl.Distribution:
    return connected(ends, edges, 9, symmetric=True)


def _by_rounds(program: reaching.Program, given: list[Tensor]) -> list[Tensor]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MaxProduct, "deferral", lambda *_: None)
        return reaching.run(program, given)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["any", "ties", "likely", "sharp", "impossible"])
@pytest.mark.parametrize(
    "program", [reaching.from_ends, reaching.kept, reaching.replaced, _directed, _symmetric]
)
def test_answers_are_those_of_all_rounds(
    program: reaching.Program, kind: str, dtype: torch.dtype, found: list[Any]
) -> None:
    for _ in range(3):  # plans are made in the first calls
        reaching.run(program, reaching.given(0, kind, dtype))
    found.clear()
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    for seed in range(8):
        expected = _by_rounds(program, reaching.given(seed, kind, dtype))
        answers = reaching.run(program, reaching.given(seed, kind, dtype))
        assert torch.equal(answers[0], expected[0])
        torch.testing.assert_close(answers, expected, rtol=tolerance, atol=0.0)
    assert len(found) == 8
    if program is reaching.replaced:
        assert found == [None] * 8
    elif kind != "impossible":
        assert any(each is not None for each in found)


def _best_path(ends: list[float], edges: list[float], steps: int) -> float:
    """The best product of an end, at most so many edges and another end, in plain Python."""
    ways = [(a, b, p) for (a, b), p in zip(reaching.EDGES, edges, strict=True)]
    ways += [(b, a, p) for a, b, p in ways]
    answer = 0.0
    for first, begun in enumerate(ends):
        reached = {first: begun}
        for _ in range(steps):
            further = dict(reached)
            for a, b, p in ways:
                if a in reached:
                    further[b] = max(further.get(b, 0.0), reached[a] * p)
            reached = further
        answer = max([answer, *(p * ends[n] for n, p in reached.items() if n != first)])
    return answer


@pytest.mark.parametrize("kind", ["any", "ties", "likely", "sharp"])
@pytest.mark.parametrize("program", [_directed, _symmetric])
def test_answers_are_those_of_plain_python(
    program: reaching.Program, kind: str, found: list[Any]
) -> None:
    for seed in range(6):
        probs = reaching.given(seed, kind)
        logs, *gradients = reaching.run(program, probs)
        ends, edges = (each.tolist() for each in probs)
        wanted = [_best_path(*row, 9) for row in zip(ends, edges, strict=True)]
        torch.testing.assert_close(logs[:, 0].exp(), torch.tensor(wanted).double())
        # Each path has two ends: gradients of logarithms, times their factors, say how often.
        counts = gradients[0] * probs[0]
        torch.testing.assert_close(counts.sum(1), torch.full((reaching.ROWS,), 2.0).double())
    assert any(each is not None for each in found)


def test_some_rows_need_more_slack_and_some_all_rounds(found: list[Any]) -> None:
    for seed in range(8):
        reaching.run(_symmetric, reaching.given(seed, "sharp"))
        ends, edges = reaching.given(seed, "any")
        reaching.run(_symmetric, [ends, edges**5])
    some = [each for each in found if each is not None]
    assert {len(each.attempts) for each in some} >= {1, 2, 3}
    assert {len(each.left) > 0 for each in some} == {True, False}


def test_gradients_of_equal_products_are_those_of_all_rounds(
    found: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    passed: list[bool] = []
    own = best_answers._Passed.through
    monkeypatch.setattr(
        best_answers._Passed, "through", lambda *given: passed.append(own(*given)) or passed[-1]
    )
    for kind in ("ties", "any"):
        given = reaching.given(1, kind)
        for _ in range(3):
            torch.testing.assert_close(
                reaching.run(reaching.from_ends, given), _by_rounds(reaching.from_ends, given)
            )
    assert {True, False} == set(passed)


@pytest.mark.parametrize("rounds", range(3, 8))
@pytest.mark.parametrize("keeps", [False, True])
def test_gradients_of_the_start_and_of_what_joins_in_every_round(
    rounds: int, keeps: bool, found: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path of as many edges as there are rounds begins at the start."""
    monkeypatch.setattr(best_answers, "_SLACKS", (100.0,))
    given = reaching.given(rounds, "sharp")

    def run(all_rounds: bool) -> list[Tensor]:
        leaves = [each.clone().requires_grad_() for each in (given[0], given[0], given[1])]
        first, always, edges = (
            dl.Distribution(each, symbols, exclusive=False, provenance="viterbi")
            for each, symbols in zip(
                leaves, (reaching.NODES, reaching.NODES, reaching.EDGES), strict=True
            )
        )
        start, few = (dl.filter(each, lambda end: end < 8) for each in (first, always))
        roads = both_ways(edges)
        with pytest.MonkeyPatch.context() as patch:
            if all_rounds:
                patch.setattr(MaxProduct, "deferral", lambda *_: None)
            if keeps:
                reached = dl.fixpoint(
                    lambda n: dl.union(n, reaching.ahead(n, roads)), start, rounds=rounds
                )
            else:
                reached = dl.fixpoint(
                    lambda n: dl.union(few, reaching.ahead(n, roads)), start, rounds=rounds
                )
            logs = reaching.asked(reached, first).log_probs()
        grads = torch.autograd.grad(logs.sum(), leaves, materialize_grads=True, allow_unused=True)
        return [logs.detach(), *grads]

    for _ in range(3):
        torch.testing.assert_close(run(False), run(True), rtol=1e-12, atol=0.0)
    assert any(each is not None for each in found)


def test_copies_that_begin_alike_are_followed_once(found: list[Any]) -> None:
    for _ in range(3):
        reaching.run(_symmetric, reaching.given(1, "sharp"))
    attempt = found[-1].attempts[0]
    views = 4  # of 16 nodes
    assert 1 <= len(attempt.row_of) / len(attempt.rows) < views


def test_one_row_of_partners_for_many_rows(
    found: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(best_answers, "_SLACKS", (100.0,))
    given = reaching.given(3, "any")
    goals = torch.linspace(0.2, 0.9, len(reaching.NODES), dtype=torch.float64, requires_grad=True)

    def program(ends: dl.Distribution, edges: dl.Distribution) -> dl.Distribution:
        few = dl.filter(ends, lambda end: end < 8)
        reached = dl.fixpoint(lambda n: dl.union(few, reaching.ahead(n, edges)), few, rounds=7)
        goal = dl.Distribution(goals, reaching.NODES, exclusive=False, provenance="viterbi")
        answer = reaching.asked(reached, goal)
        passed.append(torch.autograd.grad(answer.log_probs().sum(), goals, retain_graph=True)[0])
        return answer

    passed: list[Tensor] = []
    for _ in range(3):
        torch.testing.assert_close(reaching.run(program, given), _by_rounds(program, given))
        torch.testing.assert_close(passed[-2], passed[-1])
    assert any(each is not None for each in found)


def test_second_derivatives(found: list[Any]) -> None:
    ends, edges = reaching.given(5, "any")
    vector = torch.rand(len(reaching.EDGES), generator=torch.Generator().manual_seed(0)).double()

    def grad_of(edges: Tensor) -> Tensor:
        where = dl.Distribution(ends, reaching.NODES, exclusive=False, provenance="viterbi")
        roads = dl.Distribution(edges, reaching.EDGES, exclusive=False, provenance="viterbi")
        loss = reaching.from_ends(where, both_ways(roads)).probs().sum()
        return torch.autograd.grad(loss, edges, create_graph=True)[0] @ vector

    for _ in range(3):
        leaf = edges.clone().requires_grad_()
        (second,) = torch.autograd.grad(grad_of(leaf).sum(), leaf)
    step = 1e-6 * torch.ones_like(edges)
    lower, upper = (grad_of((edges + s).requires_grad_()).sum() for s in (-step, step))
    torch.testing.assert_close(second.sum(), (upper - lower) / 2e-6, rtol=1e-5, atol=1e-6)
    assert any(each is not None for each in found)


@pytest.mark.parametrize("kind", ["any", "ties"])
def test_proofs_of_an_answer(kind: str, found: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """One path, although it is found in both directions."""
    monkeypatch.setattr(best_answers, "_SLACKS", (100.0,))
    ends, edges = (each.requires_grad_() for each in reaching.given(2, kind))
    where = dl.Distribution(ends, reaching.NODES, exclusive=False, provenance="viterbi")
    roads = dl.Distribution(edges, reaching.EDGES, exclusive=False, provenance="viterbi")
    for _ in range(3):
        answer = _symmetric(where, both_ways(roads))
    assert found[-1] is not None
    for row in range(reaching.ROWS):
        (proof,) = answer.explain(True, row=row)
        assert proof.probability == pytest.approx(answer.probs()[row, 0].item(), rel=1e-5)
        product = np.prod([fact.probability for fact in proof.facts])
        assert product == pytest.approx(proof.probability, rel=1e-5)


def test_equal_answers_share_a_gradient_and_one_is_explained(found: list[Any]) -> None:
    ends, edges = (torch.tensor(p, requires_grad=True) for p in ([0.9, 0.8, 0.8], [0.5, 0.5]))
    where = dl.Distribution(ends, [0, 8, 9], exclusive=False, provenance="viterbi")
    roads = dl.Distribution(edges, [(0, 8), (0, 9)], exclusive=False, provenance="viterbi")
    for _ in range(3):
        answer = reaching.from_ends(where, both_ways(roads))
    assert found[-1] is not None
    assert [fact.symbol for fact in answer.explain(True)[0].facts] == [0, 8, (0, 8)]
    (grad,) = torch.autograd.grad(answer.log_probs().sum(), edges)
    torch.testing.assert_close(grad, torch.tensor([1.0, 1.0]))  # half of 1 / 0.5 each


@pytest.mark.parametrize("limit", ["_MOST_WAYS", "_MOST_PRODUCTS"])
def test_where_much_would_be_followed_all_numbers_are_looked_at(
    limit: str, found: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(best_answers, limit, 0.0)
    given = reaching.given(0, "likely")
    for _ in range(3):
        torch.testing.assert_close(
            reaching.run(reaching.from_ends, given), _by_rounds(reaching.from_ends, given)
        )
    assert found == [None] * len(found)


def test_a_class_reaches_the_best_partner_of_any_of_its_copies(found: list[Any]) -> None:
    """A partner of one copy that another one doesn't have decides an answer."""
    given = reaching.given(145, "sharp")
    for _ in range(3):
        answers = reaching.run(_directed, given)
    assert found[-1] is not None
    assert torch.equal(answers[0], _by_rounds(_directed, given)[0])


def test_copies_begin_alike_with_the_same_numbers_at_the_same_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row, copy, places = (
        np.array(each) for each in ([0, 0, 0, 0, 1], [0, 1, 1, 2, 2], [1, 1, 2, 1, 1])
    )
    logs = np.array([-0.5, -0.5, -0.25, -0.5, -0.5], dtype=np.float32)
    classes = best_answers._Classes.by_start(row, copy, places, logs, (2, 4))
    assert classes is not None
    first, second, third = classes.of[0, :3]
    assert first == third != second
    assert classes.of[0, 3] == -1 and classes.of[1].tolist() == [-1, -1, 2, -1]
    assert classes.rows.tolist() == [0, 0, 1]
    monkeypatch.setattr(best_answers, "_scrambled", lambda places, _: np.zeros(len(places)))
    for order in (
        copy,
        np.array([1, 0, 0, 2, 2]),
    ):  # the second begins with all of the first, or less
        assert best_answers._Classes.by_start(row, order, places, logs, (2, 4)) is None


def test_a_checksum_that_is_the_same_by_chance(
    found: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(best_answers, "_SLACKS", (100.0,))
    for constant in (False, True):
        if constant:
            monkeypatch.setattr(best_answers, "_scrambled", lambda places, _: np.zeros(len(places)))
        for seed in range(4):
            given = reaching.given(seed, "any")
            torch.testing.assert_close(reaching.run(_directed, given), _by_rounds(_directed, given))
    assert found[0] is not None
    assert found[-4:] == [None] * 4
