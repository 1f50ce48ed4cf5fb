"""Recursions over symbols of each row's own that run as one loop: the same results as by rounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import dolphin as dl
from dolphin.execution.recursion.sketching import RowLoop
from paths import both, closure, extend, kept

Rows = list[list[tuple[int, int]]]
Program = Callable[[dl.Distribution], dl.Distribution]

RING = [(0, 1), (1, 2), (2, 0), (1, 3), (3, 1), (3, 4)]
RAGGED: Rows = [RING, [(7, 8), (8, 9)], [], [(0, 1), (2, 3), (1, 2), (3, 2)], [(5, 5), (5, 6)]]


def _by_condition(edges: dl.Distribution) -> dl.Distribution:
    def step(paths: dl.Distribution) -> dl.Distribution:
        longer = dl.apply_if(
            paths, edges, lambda p, e: (p[0], e[1]), lambda p, e: p[1] == e[0] and p[0] != e[1]
        )
        return dl.union(edges, longer)

    return dl.fixpoint(step, edges)


def _from_one(edges: dl.Distribution) -> dl.Distribution:
    """What can be reached from the first node; the start has other symbols than the edges."""
    near = dl.filter(edges, lambda e: e[0] in (0, 5, 7)).map(lambda e: ("at", e[1]))

    def step(found: dl.Distribution) -> dl.Distribution:
        on = (lambda place: place[1], lambda e: e[0])
        return dl.union(near, dl.apply_if(found, edges, lambda _, e: ("at", e[1]), on=on))

    return dl.fixpoint(step, near)


PROGRAMS = [closure, kept, both, _by_condition, _from_one]
ALGEBRAS = [
    dl.DAMP(),
    dl.DAMP(above_one="pass"),
    dl.TopKProofs(k=1),
    dl.TopKProofs(k=2),
    dl.TopKProofs(k=3),
    dl.TopKProofs(k=3, wmc="exact"),
    dl.TopKProofs(k=9),
]


def _input(rows: Rows, logits: Tensor, algebra: dl.Provenance, exclusive: bool) -> dl.Distribution:
    """Edges on their own, or of two neighbours at most one."""
    parts = logits.split([len(row) for row in rows])
    pairs = [(row, 0.7 * part.sigmoid()) for row, part in zip(rows, parts, strict=True)]
    if exclusive:
        pairs = [(row, 0.7 * part) for row, part in pairs]
    groups = [[[at, at + 1] for at in range(0, len(row), 2)] for row in rows]
    return dl.Distribution.from_rows(
        pairs, exclusive=groups if exclusive else False, provenance=algebra
    )


def _run(
    program: Program,
    rows: Rows,
    algebra: dl.Provenance,
    *,
    scale: float = 1.0,
    exclusive: bool = False,
    dtype: torch.dtype = torch.float64,
) -> tuple[Any, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(len(rows))
    logits = scale * torch.randn(sum(map(len, rows)), generator=generator, dtype=torch.float64)
    logits = (logits - 1.0).to(dtype).requires_grad_()
    found = program(_input(rows, logits, algebra, exclusive))
    probs = found.probs()
    weights = torch.linspace(0.1, 1.0, probs.numel(), dtype=dtype).view_as(probs)
    (grad,) = torch.autograd.grad((probs * weights).sum(), logits)
    return [[s for s, _ in found.row(row)] for row in range(len(rows))], probs.detach(), grad


@pytest.fixture
def loops(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether a fixpoint ran as one loop, for each of them."""
    asked: list[bool] = []
    own = RowLoop.run

    def run(*given: Any) -> Any:
        result = own(*given)
        asked.append(result is not None)
        return result

    monkeypatch.setattr(RowLoop, "run", run)
    return asked


def _by_rounds(monkeypatch: pytest.MonkeyPatch, *given: Any, **options: Any) -> Any:
    with monkeypatch.context() as patched:
        patched.setattr(RowLoop, "run", lambda *_: None)
        return _run(*given, **options)


def _assert_same(one: Any, other: Any, tolerance: float = 1e-9) -> None:
    assert one[0] == other[0]
    torch.testing.assert_close(one[1], other[1], rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(one[2], other[2], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("program", "algebra", "exclusive"),
    [
        (program, algebra, (a + b) % 2 > 0)  # each program and each algebra with both
        for a, program in enumerate(PROGRAMS)
        for b, algebra in enumerate(ALGEBRAS)
    ],
)
def test_one_loop_gives_what_the_rounds_give(
    program: Program,
    algebra: dl.Provenance,
    exclusive: bool,
    loops: list[bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for scale in (1.0, 0.0, 8.0):  # 0: every choice is a tie
        options = {"scale": scale, "exclusive": exclusive}
        plain = _by_rounds(monkeypatch, program, RAGGED, algebra, **options)
        _assert_same(_run(program, RAGGED, algebra, **options), plain)
    assert loops == [True] * 3


@pytest.mark.parametrize("algebra", ALGEBRAS, ids=repr)
def test_one_row_and_single_precision(
    algebra: dl.Provenance, loops: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    for rows in ([RING], [[(0, 1)]], RAGGED):
        given = closure, rows, algebra
        plain = _by_rounds(monkeypatch, *given, dtype=torch.float32)
        _assert_same(_run(*given, dtype=torch.float32), plain, tolerance=2e-5)
    assert all(loops)


@pytest.mark.parametrize("program", PROGRAMS[:3])
def test_nothing_beside_a_sum_above_one_keeps_its_gradient(
    program: Program, loops: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """min(1, x + min(1, 2)): at x = 0 the outer sum is 1 and doesn't pass it."""

    def gradient(graph: bool) -> list[float]:
        probs = torch.tensor([1.0, 1.0, 1.0, 1.0, 1e-9], dtype=torch.float64, requires_grad=True)
        rows = [([(0, 1), (0, 2), (1, 3), (2, 3), (0, 3)], probs), ([(0, 3)], probs[:1])]
        edges = dl.Distribution.from_rows(rows, exclusive=False, provenance="damp")
        reached = program(edges).prob_of([(0, 3), (0, 3)])[0]
        return torch.autograd.grad(reached, probs, create_graph=graph)[0].tolist()

    gradient(False)  # by now the functions are known
    found = gradient(False), gradient(True)
    assert loops[1:] == [True] * 2
    with monkeypatch.context() as patched:
        patched.setattr(RowLoop, "run", lambda *_: None)
        plain = gradient(False)
    assert [pytest.approx(plain)] * 2 == [*found]
    assert plain[4] == pytest.approx(2.0 if program is both else 1.0)


def test_proofs_that_contain_others(loops: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """Ways around a ring contain shorter ones: with many places, those must not be kept."""
    ring = [(a, (a + 1) % 4) for a in range(4)] + [(b, a) for a, b in RING[:2]] + [(2, 2), (3, 3)]
    for k in (2, 4, 12):
        plain = _by_rounds(monkeypatch, closure, [ring, RING], dl.TopKProofs(k=k), scale=4.0)
        _assert_same(_run(closure, [ring, RING], dl.TopKProofs(k=k), scale=4.0), plain)
    assert all(loops)


@pytest.mark.parametrize("algebra", ALGEBRAS[:2], ids=repr)
def test_second_derivatives(
    algebra: dl.Provenance, loops: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    def second(logits: Tensor) -> Tensor:
        logits = logits.clone().requires_grad_()
        probs = closure(_input(RAGGED, logits, algebra, False)).probs()
        (first,) = torch.autograd.grad((probs**2).sum(), logits, create_graph=True)
        return torch.autograd.grad((first**2).sum(), logits)[0]

    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(sum(map(len, RAGGED)), generator=generator, dtype=torch.float64) - 2.0
    with monkeypatch.context() as patched:
        patched.setattr(RowLoop, "run", lambda *_: None)
        plain = second(logits)
    torch.testing.assert_close(second(logits), plain, rtol=1e-7, atol=1e-9)
    assert loops == [True]


def _looking(edges: dl.Distribution) -> dl.Distribution:
    def step(paths: dl.Distribution) -> dl.Distribution:
        return dl.union(edges, extend(paths, edges)) if len(paths) < 9 else paths

    return dl.fixpoint(step, edges)


def _reading(edges: dl.Distribution) -> dl.Distribution:
    def step(paths: dl.Distribution) -> dl.Distribution:
        assert paths.symbols
        return dl.union(edges, extend(paths, edges))

    return dl.fixpoint(step, edges)


def _without_gradient(edges: dl.Distribution) -> dl.Distribution:
    def step(paths: dl.Distribution) -> dl.Distribution:
        with torch.no_grad():
            longer = extend(paths, edges)
        return dl.union(edges, longer)

    return dl.fixpoint(step, edges)


def _squared(edges: dl.Distribution) -> dl.Distribution:
    return dl.fixpoint(lambda paths: dl.union(edges, extend(paths, paths)), edges)


def _swapped(edges: dl.Distribution) -> dl.Distribution:
    def step(paths: dl.Distribution) -> dl.Distribution:
        on = (lambda e: e[1], lambda p: p[0])
        return dl.union(edges, dl.apply_if(edges, paths, lambda e, p: (e[0], p[1]), on=on))

    return dl.fixpoint(step, edges)


def _filtered(edges: dl.Distribution) -> dl.Distribution:
    def step(paths: dl.Distribution) -> dl.Distribution:
        return dl.union(edges, dl.filter(extend(paths, edges), lambda p: p[0] != p[1]))

    return dl.fixpoint(step, edges)


def _random(edges: dl.Distribution) -> dl.Distribution:
    def step(paths: dl.Distribution) -> dl.Distribution:
        longer = dl.apply_if(
            paths,
            edges,
            lambda p, e: dl.weighted({(p[0], e[1]): 0.5, (p[0], p[0]): 0.5}),
            on=(lambda p: p[1], lambda e: e[0]),
        )
        return dl.union(edges, longer)

    return dl.fixpoint(step, edges)


def _new_edges_each_time(edges: dl.Distribution) -> dl.Distribution:
    def step(paths: dl.Distribution) -> dl.Distribution:
        return dl.union(edges, extend(paths, dl.negate(edges)))

    return dl.fixpoint(step, edges)


def _counting(edges: dl.Distribution) -> dl.Distribution:
    rounds = [0]

    def step(paths: dl.Distribution) -> dl.Distribution:
        rounds[0] += 1
        return dl.union(edges, extend(paths, edges)) if rounds[0] < 3 else paths

    return dl.fixpoint(step, edges)


@pytest.mark.parametrize(
    "program",
    [
        _looking, _reading, _without_gradient, _squared, _swapped, _filtered, _random,
        _new_edges_each_time, _counting,
    ],
)  # fmt: skip
@pytest.mark.parametrize("algebra", [ALGEBRAS[0], ALGEBRAS[4]], ids=repr)
def test_other_steps_run_as_they_are_written(
    program: Program,
    algebra: dl.Provenance,
    loops: list[bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = _by_rounds(monkeypatch, program, RAGGED, algebra)
    _assert_same(_run(program, RAGGED, algebra), plain)
    assert loops == [False]


def test_an_endless_recursion_is_refused_as_ever() -> None:
    edges = _input([RING, [(0, 1)]], torch.zeros(len(RING) + 1), dl.DAMP(), False)

    def longer(paths: dl.Distribution) -> dl.Distribution:
        on = (lambda p: p[-1], lambda e: e[0])
        return dl.union(edges, dl.apply_if(paths, edges, lambda p, e: (*p, e[1]), on=on))

    with pytest.raises(dl.FixpointError, match="max_iterations=6"):
        dl.fixpoint(longer, edges, 6)


@pytest.mark.parametrize("algebra", [dl.DAMP(), dl.TopKProofs(k=2)], ids=repr)
def test_a_loop_ends_after_as_many_rounds(algebra: dl.Provenance, loops: list[bool]) -> None:
    edges = _input([RING, [(0, 1)]], torch.zeros(len(RING) + 1), algebra, False)

    def step(paths: dl.Distribution) -> dl.Distribution:
        return dl.union(edges, extend(paths, edges))

    for _ in range(2):
        dl.fixpoint(step, edges)
    assert loops[-1]
    with pytest.raises(dl.FixpointError, match="max_iterations=2"):
        dl.fixpoint(step, edges, 2)


def test_an_error_of_a_function_names_it() -> None:
    edges = _input([RING], torch.zeros(len(RING)), dl.DAMP(), False)

    def step(paths: dl.Distribution) -> dl.Distribution:
        on = (lambda p: p[1], lambda e: e[0])
        return dl.union(edges, dl.apply_if(paths, edges, lambda p, e: p[5], on=on))

    with pytest.raises(dl.FunctionError, match=r"raised IndexError.*called with the symbols"):
        dl.fixpoint(step, edges)


def test_what_can_not_be_reached_has_no_proof() -> None:
    """Edges that exclude each other make no path of two."""
    rows = [([(0, 1), (1, 2)], torch.tensor([0.5, 0.4]))] * 2
    edges = dl.Distribution.from_rows(rows, exclusive=True, provenance="dtkp-am")
    found = closure(edges)
    assert found.row(0) == [((0, 1), 0.5), ((1, 2), 0.4), ((0, 2), 0.0)]


def test_nothing_of_a_step_is_kept_alive() -> None:
    import gc
    import weakref

    logits = torch.zeros(sum(map(len, RAGGED)), requires_grad=True)
    edges = _input(RAGGED, logits, dl.TopKProofs(k=2), False)
    found = closure(edges)
    dead = [weakref.ref(edges), weakref.ref(found)]
    del edges, found
    gc.collect()
    assert [each() for each in dead] == [None, None]


@pytest.mark.parametrize("algebra", ["damp", "dtkp-am", "viterbi", "exact"])
def test_a_step_that_changes_nothing_ends_at_once(algebra: dl.ProvenanceName) -> None:
    """Also with rows of different lengths, whose padding is nothing."""
    rows = [(["a", "b"], [0.5, 0.5]), (["a"], [0.3])]
    start = dl.Distribution.from_rows(rows, provenance=algebra)
    assert dl.fixpoint(lambda d: d, start).row(1) == [("a", pytest.approx(0.3))]
