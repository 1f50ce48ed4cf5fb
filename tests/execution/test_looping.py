"""Fixpoints that are known from an earlier run: the same results as round by round."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import dolphin as dl

EDGES = [(0, 1), (1, 2), (2, 0), (1, 3), (3, 4), (4, 1), (0, 4), (5, 0), (4, 5)]
Step = Callable[[dl.Distribution], dl.Distribution]


@pytest.fixture(autouse=True)
def _nothing_known() -> Iterator[None]:
    dl.cache_clear()
    yield
    dl.cache_clear()


def _extend(paths: dl.Distribution, edges: dl.Distribution) -> dl.Distribution:
    return dl.apply_if(paths, edges, lambda p, e: (p[0], e[1]), on=(lambda p: p[1], lambda e: e[0]))


def _closure(edges: dl.Distribution) -> dl.Distribution:
    return dl.fixpoint(lambda paths: dl.union(edges, _extend(paths, edges)), edges)


def _kept(edges: dl.Distribution) -> dl.Distribution:
    return dl.fixpoint(lambda paths: dl.union(paths, _extend(paths, edges)), edges)


def _swapped(edges: dl.Distribution) -> dl.Distribution:
    def step(paths: dl.Distribution) -> dl.Distribution:
        back = dl.apply_if(
            edges, paths, lambda e, p: (e[0], p[1]), on=(lambda e: e[1], lambda p: p[0])
        )
        return dl.union(edges, back)

    return dl.fixpoint(step, edges)


def _both(edges: dl.Distribution) -> dl.Distribution:
    return dl.fixpoint(lambda paths: dl.union(edges, paths, _extend(paths, edges)), edges)


PROGRAMS = [_closure, _kept, _both]


def _logits(seed: int, scale: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(5, len(EDGES), generator=generator, dtype=torch.float64) - 1.0


def _run(
    program: Callable[[dl.Distribution], dl.Distribution], logits: Tensor, algebra: dl.Provenance
) -> tuple[Any, Tensor, Tensor]:
    logits = logits.clone().requires_grad_()
    edges = dl.Distribution.from_logits(logits, EDGES, exclusive=False, provenance=algebra)
    found = program(edges)
    probs = found.probs()
    weights = torch.linspace(0.1, 1.0, probs.numel(), dtype=probs.dtype).view_as(probs)
    return found.symbols, probs.detach(), torch.autograd.grad((probs * weights).sum(), logits)[0]


ALGEBRAS = [
    dl.DAMP(),
    dl.DAMP(above_one="pass"),
    dl.TopKProofs(k=1),
]


@pytest.fixture
def loops(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the algebra had a loop, for each time that it was asked."""
    asked: list[bool] = []
    for kind in (dl.DAMP, dl.TopKProofs):

        def looped(*given: Any, own: Any = kind.looped) -> Any:
            tags = own(*given)
            asked.append(tags is not None)
            return tags

        monkeypatch.setattr(kind, "looped", looped)
    return asked


@pytest.mark.parametrize("algebra", ALGEBRAS, ids=repr)
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("scale", [0.0, 30.0])
def test_a_known_loop_gives_what_its_rounds_give(
    program: Step, algebra: dl.Provenance, scale: float, loops: list[bool]
) -> None:
    plain = _run(program, _logits(1, scale), algebra)
    _run(program, _logits(2, scale), algebra)  # by now the functions are known
    again = _run(program, _logits(1, scale), algebra)
    assert loops == [True]
    assert again[0] == plain[0]
    torch.testing.assert_close(again[1], plain[1])
    torch.testing.assert_close(again[2], plain[2])


def _negated(edges: dl.Distribution) -> dl.Distribution:
    return dl.fixpoint(lambda paths: dl.union(edges, _extend(paths, dl.negate(edges))), edges)


def _squared(edges: dl.Distribution) -> dl.Distribution:
    return dl.fixpoint(lambda paths: dl.union(edges, _extend(paths, paths)), edges)


def _looking(edges: dl.Distribution) -> dl.Distribution:
    def step(paths: dl.Distribution) -> dl.Distribution:
        more = dl.union(edges, _extend(paths, edges))
        return more if float(paths.probs().detach().max()) < 0.9 else paths

    return dl.fixpoint(step, edges)


@pytest.mark.parametrize("program", [_negated, _squared, _looking, _swapped])
def test_other_steps_are_run_as_they_are_written(program: Step, loops: list[bool]) -> None:
    *_, last = (_run(program, _logits(seed), dl.TopKProofs(k=1)) for seed in (1, 2, 3, 4))
    dl.cache_clear()
    again = _run(program, _logits(4), dl.TopKProofs(k=1))
    assert not loops and again[0] == last[0]
    torch.testing.assert_close(again[1:], last[1:])


def test_numbers_too_small_to_be_multiplied_plainly(loops: list[bool]) -> None:
    tiny = torch.full((2, len(EDGES)), -300.0, dtype=torch.float64)
    runs = [_run(_closure, tiny, dl.DAMP()) for _ in range(3)]
    assert loops == [False]
    torch.testing.assert_close(runs[2], runs[0])


def test_another_derivative_of_a_loop(loops: list[bool]) -> None:
    logits = _logits(3) - 2.0

    def probs(scores: Tensor) -> Tensor:
        edges = dl.Distribution.from_logits(scores, EDGES, exclusive=False, provenance=dl.DAMP())
        return _both(edges).probs()

    for _ in range(2):
        probs(logits)
    assert torch.autograd.gradgradcheck(probs, (logits[:1].requires_grad_(),))
    assert loops and all(loops)
