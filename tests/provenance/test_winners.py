"""Questions to recursions under max-product: only products that can decide them are followed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import dolphin as dl
import reaching
from dolphin.provenance import max_product, winners
from dolphin.provenance.max_product import MaxProduct
from dolphin_tasks.pathfinder.program import both_ways, connected


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether a question was answered by itself, for each time that one was asked."""
    found: list[bool] = []

    def answer(*given: Any, own: Any = max_product._BestAnswers.answer) -> Any:
        tags = own(*given)
        found.append(tags is not None)
        return tags

    monkeypatch.setattr(max_product._BestAnswers, "answer", answer)
    return found


@pytest.mark.parametrize("kind", ["any", "ties", "likely", "sharp"])
@pytest.mark.parametrize("program", [reaching.from_ends, reaching.kept, reaching.replaced])
@pytest.mark.parametrize("few", [1, 32])
def test_an_answer_is_that_of_the_whole_recursion(
    program: reaching.Program,
    kind: str,
    few: int,
    answers: list[bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(winners, "_FEW", few)
    for _ in range(3):
        reaching.run(program, reaching.given(0, kind), False)
    assert answers and all(answers)
    for seed in range(4):
        expected, found = (
            reaching.run(program, reaching.given(seed, kind), read) for read in (True, False)
        )
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=0.0)


@pytest.mark.parametrize("symmetric", [False, True])
def test_paths_between_ends(symmetric: bool, answers: list[bool]) -> None:
    def program(ends: dl.Distribution, edges: dl.Distribution, _: bool) -> dl.Distribution:
        return connected(ends, edges, 9, symmetric)

    given = reaching.given(1, "sharp")
    plain = reaching.run(program, given, False)
    for _ in range(3):
        torch.testing.assert_close(reaching.run(program, given, False), plain, rtol=1e-12, atol=0.0)
    assert answers and all(answers)


def test_other_questions_need_the_whole_recursion(answers: list[bool]) -> None:
    def program(ends: dl.Distribution, edges: dl.Distribution, _: bool) -> dl.Distribution:
        few = dl.filter(ends, lambda end: end < 8)
        reached = dl.fixpoint(
            lambda found: dl.union(few, reaching.ahead(found, edges)), few, rounds=7
        )
        parity = dl.apply_if(reached, ends, lambda n, _: n % 2, on=(lambda n: n, lambda end: end))
        again = dl.apply_if(reached, ends, lambda *_: 0, on=(lambda n: n, lambda end: end))
        return dl.union(parity, again)

    given = reaching.given(2, "any")
    plain = reaching.run(program, given, False)
    for _ in range(3):
        torch.testing.assert_close(reaching.run(program, given, False), plain)
    assert answers and not any(answers)


def test_a_recursion_from_the_result_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    loops: list[Any] = []
    own = MaxProduct.looped
    monkeypatch.setattr(MaxProduct, "looped", lambda *given: loops.append(1) or own(*given))

    def program(ends: dl.Distribution, edges: dl.Distribution, _: bool) -> dl.Distribution:
        near = dl.fixpoint(lambda n: dl.union(ends, reaching.ahead(n, edges)), ends, rounds=2)
        far = dl.fixpoint(lambda n: dl.union(near, reaching.ahead(n, edges)), near, rounds=2)
        return dl.filter(far, lambda n: n == 15)

    given = reaching.given(4, "any")
    plain = reaching.run(program, given, False)
    for _ in range(3):
        loops.clear()
        torch.testing.assert_close(reaching.run(program, given, False), plain)
    assert len(loops) == 2


def test_an_answer_is_computed_with_the_gradients_of_its_recursion() -> None:
    def run() -> list[Tensor]:
        ends, edges = reaching.given(3, "any")
        ends.requires_grad_()
        where = dl.Distribution(ends, reaching.NODES, exclusive=False, provenance="viterbi")
        roads = both_ways(
            dl.Distribution(edges, reaching.EDGES, exclusive=False, provenance="viterbi")
        )
        with torch.no_grad():
            few = dl.filter(where, lambda end: end < 8)
            reached = dl.fixpoint(lambda n: dl.union(few, reaching.ahead(n, roads)), few, rounds=7)
        logs = reaching.asked(reached, where, False).log_probs()
        return [logs.detach(), torch.autograd.grad(logs.sum(), ends)[0]]

    plain = run()
    for _ in range(3):
        torch.testing.assert_close(run(), plain)
