"""Questions to recursions under max-product: only products that can decide them are followed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import dolphin as dl
from dolphin.provenance import max_product, winners
from dolphin.provenance.max_product import MaxProduct
from dolphin_tasks.pathfinder.program import both_ways, connected, grid_edges

SIDE, ROWS = 4, 6
EDGES = grid_edges(SIDE)
NODES = range(SIDE**2)
Program = Callable[[dl.Distribution, dl.Distribution, bool], dl.Distribution]


def _ahead(reached: dl.Distribution, edges: dl.Distribution) -> dl.Distribution:
    return dl.apply_if(reached, edges, lambda _, edge: edge[1], on=(lambda n: n, lambda e: e[0]))


def _asked(reached: dl.Distribution, ends: dl.Distribution, first_read: bool) -> dl.Distribution:
    if first_read:
        reached.probs()
    return dl.apply_if(
        reached, ends, lambda *_: True, lambda _, end: end >= 8, on=(lambda n: n, lambda end: end)
    )


def _from_ends(ends: dl.Distribution, edges: dl.Distribution, first_read: bool) -> dl.Distribution:
    few = dl.filter(ends, lambda end: end < 8)
    reached = dl.fixpoint(lambda found: dl.union(few, _ahead(found, edges)), few, rounds=7)
    return _asked(reached, ends, first_read)


def _kept(ends: dl.Distribution, edges: dl.Distribution, first_read: bool) -> dl.Distribution:
    few = dl.filter(ends, lambda end: end < 8)
    reached = dl.fixpoint(lambda found: dl.union(found, _ahead(found, edges)), few, rounds=9)
    return _asked(reached, ends, first_read)


def _replaced(ends: dl.Distribution, edges: dl.Distribution, first_read: bool) -> dl.Distribution:
    """Where the start is better than what replaces it, numbers fall."""
    always = dl.filter(ends, lambda end: end < 8)
    start = dl.apply(dl.filter(ends, lambda end: end >= 8), lambda end: end - 8)
    reached = dl.fixpoint(lambda found: dl.union(always, _ahead(found, edges)), start, rounds=7)
    return _asked(reached, ends, first_read)


def _run(program: Program, given: tuple[Tensor, Tensor], first_read: bool) -> list[Tensor]:
    ends, edges = (each.clone().requires_grad_() for each in given)
    where = dl.Distribution(ends, NODES, exclusive=False, provenance="viterbi")
    roads = dl.Distribution(edges, EDGES, exclusive=False, provenance="viterbi")
    logs = program(where, both_ways(roads), first_read).log_probs()
    return [logs.detach(), *torch.autograd.grad(logs[:, 0].sum(), (ends, edges))]


def _given(seed: int, kind: str) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)

    def numbers(count: int) -> Tensor:
        probs = torch.rand(ROWS, count, generator=generator, dtype=torch.float64)
        match kind:
            case "ties":
                return probs.mul(3).round().add(1).div(4)  # 1/4, 1/2, 3/4 and 1
            case "likely":
                return 0.9 + 0.1 * probs
            case "sharp":
                return torch.where(probs < 0.3, 0.9 + probs / 10, probs / 1000)
        return probs

    return numbers(len(NODES)), numbers(len(EDGES))


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
@pytest.mark.parametrize("program", [_from_ends, _kept, _replaced])
@pytest.mark.parametrize("few", [1, 32])
def test_an_answer_is_that_of_the_whole_recursion(
    program: Program, kind: str, few: int, answers: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(winners, "_FEW", few)
    for _ in range(3):
        _run(program, _given(0, kind), False)
    assert answers and all(answers)
    for seed in range(4):
        expected, found = (_run(program, _given(seed, kind), read) for read in (True, False))
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=0.0)


@pytest.mark.parametrize("symmetric", [False, True])
def test_paths_between_ends(symmetric: bool, answers: list[bool]) -> None:
    def program(ends: dl.Distribution, edges: dl.Distribution, _: bool) -> dl.Distribution:
        return connected(ends, edges, 9, symmetric)

    given = _given(1, "sharp")
    plain = _run(program, given, False)
    for _ in range(3):
        torch.testing.assert_close(_run(program, given, False), plain, rtol=1e-12, atol=0.0)
    assert answers and all(answers)


def test_other_questions_need_the_whole_recursion(answers: list[bool]) -> None:
    def program(ends: dl.Distribution, edges: dl.Distribution, _: bool) -> dl.Distribution:
        few = dl.filter(ends, lambda end: end < 8)
        reached = dl.fixpoint(lambda found: dl.union(few, _ahead(found, edges)), few, rounds=7)
        parity = dl.apply_if(reached, ends, lambda n, _: n % 2, on=(lambda n: n, lambda end: end))
        again = dl.apply_if(reached, ends, lambda *_: 0, on=(lambda n: n, lambda end: end))
        return dl.union(parity, again)

    given = _given(2, "any")
    plain = _run(program, given, False)
    for _ in range(3):
        torch.testing.assert_close(_run(program, given, False), plain)
    assert answers and not any(answers)


def test_a_recursion_from_the_result_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    loops: list[Any] = []
    own = MaxProduct.looped
    monkeypatch.setattr(MaxProduct, "looped", lambda *given: loops.append(1) or own(*given))

    def program(ends: dl.Distribution, edges: dl.Distribution, _: bool) -> dl.Distribution:
        near = dl.fixpoint(lambda n: dl.union(ends, _ahead(n, edges)), ends, rounds=2)
        far = dl.fixpoint(lambda n: dl.union(near, _ahead(n, edges)), near, rounds=2)
        return dl.filter(far, lambda n: n == 15)

    given = _given(4, "any")
    plain = _run(program, given, False)
    for _ in range(3):
        loops.clear()
        torch.testing.assert_close(_run(program, given, False), plain)
    assert len(loops) == 2


def test_an_answer_is_computed_with_the_gradients_of_its_recursion() -> None:
    def run() -> list[Tensor]:
        ends, edges = _given(3, "any")
        ends.requires_grad_()
        where = dl.Distribution(ends, NODES, exclusive=False, provenance="viterbi")
        roads = both_ways(dl.Distribution(edges, EDGES, exclusive=False, provenance="viterbi"))
        with torch.no_grad():
            few = dl.filter(where, lambda end: end < 8)
            reached = dl.fixpoint(lambda n: dl.union(few, _ahead(n, roads)), few, rounds=7)
        logs = _asked(reached, where, False).log_probs()
        return [logs.detach(), torch.autograd.grad(logs.sum(), ends)[0]]

    plain = run()
    for _ in range(3):
        torch.testing.assert_close(run(), plain)
