"""Recursions from certain symbols: as one loop they give what their rounds give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import dolphin as dl

EDGES = [(0, 1), (1, 2), (2, 0), (1, 3), (3, 4), (4, 1), (0, 4), (5, 0), (4, 5)]
Start = Callable[[dl.Provenance], dl.Distribution]

STARTS: dict[str, Start] = {
    "one": lambda algebra: dl.Distribution.certain(0, batch=4, provenance=algebra),
    "of one row": lambda algebra: dl.Distribution.certain(0, provenance=algebra),
    "of no provenance": lambda algebra: dl.Distribution.certain(0),
    "several": lambda algebra: dl.union(
        dl.Distribution.certain(0, provenance=algebra),
        dl.Distribution.certain(4, provenance=algebra),
    ),
}
ALGEBRAS = [
    dl.DAMP(),
    dl.DAMP(above_one="pass"),
    dl.TopKProofs(k=1),
    dl.get_provenance("viterbi"),
]
NUMBERS = {
    "any": torch.rand(4, len(EDGES), generator=torch.Generator().manual_seed(3)),
    "ties": torch.full((4, len(EDGES)), 0.5),
    "ones": torch.ones(4, len(EDGES)),
    "zeros and ones": (torch.arange(4 * len(EDGES)) % 3 > 0).float().view(4, -1),
}


def _reached(
    edges: dl.Distribution, start: dl.Distribution, form: str, rounds: int | None = None
) -> dl.Distribution:
    def step(nodes: dl.Distribution) -> dl.Distribution:
        on = (lambda node: node, lambda edge: edge[0])
        further = dl.apply_if(nodes, edges, lambda _, edge: edge[1], on=on)
        given = {"start": [start], "kept": [nodes], "both": [start, nodes]}[form]
        return dl.union(*given, further)

    return dl.fixpoint(step, start, rounds=rounds)


def _answers(found: dl.Distribution, numbers: Tensor) -> tuple[Any, Tensor, Tensor]:
    probs = found.probs(range(6))
    weights = torch.linspace(0.1, 1.0, probs.numel(), dtype=probs.dtype).view_as(probs)
    return found.symbols, probs.detach(), torch.autograd.grad((probs * weights).sum(), numbers)[0]


def _same(again: tuple[Any, Tensor, Tensor], plain: tuple[Any, Tensor, Tensor]) -> None:
    assert again[0] == plain[0]
    tolerance = 1e-5 if plain[1].dtype == torch.float32 else 1e-7
    for new, old in zip(again[1:], plain[1:], strict=True):
        torch.testing.assert_close(new, old, rtol=tolerance, atol=tolerance)


def _noted(looped: Callable[..., Any], asked: list[bool]) -> Callable[..., Any]:
    def noted(*given: Any) -> Any:
        tags = looped(*given)
        asked.append(tags is not None)
        return tags

    return noted


@pytest.fixture
def loops(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the algebra had a loop, for each time that it was asked."""
    asked: list[bool] = []
    for kind in (dl.DAMP, dl.TopKProofs, type(dl.get_provenance("viterbi"))):
        for name in ("looped", "looped_in_rows"):
            monkeypatch.setattr(kind, name, _noted(getattr(kind, name), asked))
    return asked


CASES = [  # each pair of options
    (algebra, start, form, rounds)
    for a, algebra in enumerate(ALGEBRAS)
    for b, start in enumerate(STARTS)
    for c, form in enumerate(["start", "kept", "both"])
    for d, rounds in enumerate([None, 12])
    if (a + b + c + d) % 3 == 0
]


@pytest.mark.parametrize(("algebra", "start", "form", "rounds"), CASES, ids=str)
def test_shared_symbols(
    algebra: dl.Provenance, start: str, form: str, rounds: int | None, loops: list[bool]
) -> None:
    def run(numbers: Tensor, dtype: torch.dtype) -> tuple[Any, Tensor, Tensor]:
        numbers = numbers.to(dtype, copy=True).requires_grad_()
        edges = dl.Distribution(numbers, EDGES, exclusive=False, provenance=algebra)
        return _answers(_reached(edges, STARTS[start](algebra), form, rounds), numbers)

    plain = {}
    for name, numbers in NUMBERS.items():
        for dtype in (torch.float64, torch.float32):
            dl.cache_clear()
            plain[name, dtype] = run(numbers, dtype)
    run(NUMBERS["any"], torch.float64)  # by now the functions are known
    assert not loops
    for (name, dtype), expected in plain.items():
        _same(run(NUMBERS[name], dtype), expected)
    assert loops[:-2] == [True] * (len(plain) - 2)  # sums of probabilities need numbers above 0


@pytest.mark.parametrize("algebra", ALGEBRAS, ids=repr)
@pytest.mark.parametrize("numbers", NUMBERS)
def test_certain_symbols_beside_the_start(
    algebra: dl.Provenance, numbers: str, loops: list[bool]
) -> None:
    def run() -> tuple[Any, Tensor, Tensor]:
        probs = NUMBERS[numbers].to(torch.float64, copy=True).requires_grad_()
        edges = dl.Distribution(probs, EDGES, exclusive=False, provenance=algebra)
        start = edges.filter(lambda edge: edge == (1, 3)).map(lambda edge: edge[1])
        beside = dl.Distribution.certain(3)

        def step(nodes: dl.Distribution) -> dl.Distribution:
            on = (lambda node: node, lambda edge: edge[0])
            further = dl.apply_if(nodes, edges, lambda _, edge: edge[1], on=on)
            return dl.union(beside, further)

        return _answers(dl.fixpoint(step, start), probs)

    dl.cache_clear()
    plain = run()
    run()
    assert not loops
    _same(run(), plain)
    assert len(loops) == 1


ROWS = [[(0, 1), (1, 2), (2, 0), (2, 3)], [(0, 2), (2, 1)], [], [(1, 0), (1, 3), (3, 1)]]
ROW_ALGEBRAS = [dl.DAMP(), dl.DAMP(above_one="pass"), dl.TopKProofs(k=1), dl.TopKProofs(k=3)]


@pytest.mark.parametrize("algebra", ROW_ALGEBRAS, ids=repr)
@pytest.mark.parametrize("form", ["start", "kept", "both"])
@pytest.mark.parametrize("in_rows", [True, False])
@pytest.mark.parametrize("prob", [0.5, 0.7, 1.0, 0.0])
def test_per_row_symbols(
    algebra: dl.Provenance, form: str, in_rows: bool, prob: float, loops: list[bool]
) -> None:
    def run() -> tuple[Any, Tensor, Tensor]:
        numbers = torch.full((sum(map(len, ROWS)),), prob, dtype=torch.float64)
        numbers = numbers.requires_grad_()
        parts = numbers.split(list(map(len, ROWS)))
        edges = dl.Distribution.from_rows(
            list(zip(ROWS, parts, strict=True)), exclusive=False, provenance=algebra
        )
        if in_rows:
            start = dl.Distribution.certain_rows([0, 0, 2, 1], provenance=algebra)
        else:
            start = dl.Distribution.certain(0, provenance=algebra)
        return _answers(_reached(edges, start, form), numbers)

    dl.cache_clear()
    plain = run()
    assert not loops
    _same(run(), plain)
    assert loops == [prob > 0.0 or not isinstance(algebra, dl.DAMP)]  # see above


@pytest.mark.parametrize("algebra", ["damp", "viterbi", "dtkp-am", "exact"])
def test_traced(algebra: str) -> None:
    own = dl.get_provenance(algebra)

    def program(edges: dl.Distribution) -> dl.Distribution:
        start = dl.Distribution.certain(0, batch=edges.batch_size, provenance=edges.provenance)
        return _reached(edges, start, "start")

    module = dl.trace(program, EDGES, exclusive=False, provenance=own)
    for numbers in NUMBERS.values():
        for _ in range(2):
            edges = dl.Distribution(numbers, EDGES, exclusive=False, provenance=own)
            expected = program(edges)
        assert module.symbols == expected.symbols
        torch.testing.assert_close(module.probs(numbers), expected.probs())


@pytest.mark.parametrize("algebra", [dl.DAMP("pass"), dl.get_provenance("viterbi")], ids=repr)
@pytest.mark.parametrize("per_row", [False, True])
def test_a_round_that_only_adds_rows_is_not_the_last_one(
    algebra: dl.Provenance, per_row: bool
) -> None:
    """The first round changes no symbols, but it has three rows instead of one.

    How many rounds there are shows in the gradients, of sums above 1 and of products that are tied.
    """

    def run() -> tuple[Any, Tensor, Tensor]:
        numbers = torch.ones(3, 1, dtype=torch.float64).requires_grad_()
        if per_row:
            rows = [([(0, 0)], row) for row in numbers]
            edges = dl.Distribution.from_rows(rows, exclusive=False, provenance=algebra)
        else:
            edges = dl.Distribution(numbers, [(0, 0)], exclusive=False, provenance=algebra)
        start = dl.Distribution.certain(0, provenance=algebra)
        return _answers(_reached(edges, start, "both"), numbers)

    dl.cache_clear()
    plain = run()
    for _ in range(3):
        _same(run(), plain)
