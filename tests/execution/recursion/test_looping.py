"""Fixpoints that are known from an earlier run: the same results as round by round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import dolphin as dl
from dolphin.execution.recursion.recurrences import Recurrence
from dolphin.provenance.topk.ways import LikeliestWays
from paths import both, closure, extend, kept

EDGES = [(0, 1), (1, 2), (2, 0), (1, 3), (3, 4), (4, 1), (0, 4), (5, 0), (4, 5)]
Step = Callable[[dl.Distribution], dl.Distribution]


def _swapped(edges: dl.Distribution) -> dl.Distribution:
    def step(paths: dl.Distribution) -> dl.Distribution:
        back = dl.apply_if(
            edges, paths, lambda e, p: (e[0], p[1]), on=(lambda e: e[1], lambda p: p[0])
        )
        return dl.union(edges, back)

    return dl.fixpoint(step, edges)


PROGRAMS = [closure, kept, both]


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
    dl.get_provenance("viterbi"),
]


@pytest.fixture
def loops(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the algebra had a loop, for each time that it was asked."""
    asked: list[bool] = []
    for kind in (dl.DAMP, dl.TopKProofs, type(dl.get_provenance("viterbi"))):

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


def _here(edges: dl.Distribution, prob: float, *symbols: Any) -> dl.Distribution:
    """A fact beside the edges."""
    probs = torch.full((edges.batch_size, len(symbols)), prob, dtype=edges.dtype)
    return dl.Distribution(probs, symbols, exclusive=False, provenance=edges.provenance)


def _even_and_odd(edges: dl.Distribution) -> dl.Distribution:
    """Nodes by the parity of the ways to them, which may go round a cycle twice for it."""
    start = _here(edges, 0.5, (0, 0))

    def step(reached: dl.Distribution) -> dl.Distribution:
        further = dl.apply_if(
            reached,
            edges,
            lambda node, edge: (edge[1], 1 - node[1]),
            on=(lambda node: node[0], lambda edge: edge[0]),
        )
        return dl.union(start, further)

    return dl.fixpoint(step, start)


def _undirected(edges: dl.Distribution) -> dl.Distribution:
    """Both directions are one fact, and leading back costs nothing."""
    return closure(dl.union(edges, dl.apply(edges, lambda edge: edge[::-1])))


def _ends_from_one(edges: dl.Distribution) -> dl.Distribution:
    """Where one gets from 0, given that the edge to 1 is there: that one is free then."""
    start = dl.apply_if(edges, lambda edge: edge[0], lambda edge: edge == (0, 1))

    def step(reached: dl.Distribution) -> dl.Distribution:
        further = dl.apply_if(
            reached, edges, lambda _, edge: edge[1], on=(lambda node: node, lambda edge: edge[0])
        )
        return dl.union(start, further)

    return dl.fixpoint(step, start)


def _start_that_goes(edges: dl.Distribution) -> dl.Distribution:
    """What the first round starts from is likelier than what the others have."""
    start, later = _here(edges, 0.9, 0), _here(edges, 0.1, 0)

    def step(reached: dl.Distribution) -> dl.Distribution:
        further = dl.apply_if(
            reached, edges, lambda _, edge: edge[1], on=(lambda node: node, lambda edge: edge[0])
        )
        return dl.union(later, further)

    return dl.fixpoint(step, start, rounds=30)


@pytest.mark.parametrize(
    ("program", "once"),
    [(closure, True), (kept, True)]
    + [(each, False) for each in (_even_and_odd, _undirected, _ends_from_one, _start_that_goes)],
)
@pytest.mark.parametrize("shortcut", [0.5, 0.9])
def test_facts_that_are_worth_using_twice(
    program: Step, once: bool, shortcut: float, monkeypatch: pytest.MonkeyPatch, loops: list[bool]
) -> None:
    searches: list[bool] = []
    own = LikeliestWays.of

    def of(*given: Any) -> LikeliestWays | None:
        searches.append((ways := own(*given)) is not None)
        return ways

    monkeypatch.setattr(LikeliestWays, "of", of)
    # From 0 to 1 in an even number of steps: round the cycle, which has 0 → 1 twice, or over 4.
    probs = {(0, 1): 0.6, (1, 2): 0.99, (2, 0): 0.99, (0, 4): shortcut, (4, 1): 0.99}
    likely = torch.tensor([[probs.get(edge, 0.1) for edge in EDGES]], dtype=torch.float64).logit()
    algebra = dl.TopKProofs(k=1)
    for logits in (likely, _logits(1)):
        plain = _run(program, logits, algebra)
        for _ in range(3):
            again = _run(program, logits, algebra)
        assert again[0] == plain[0]
        torch.testing.assert_close(again[1:], plain[1:])
    assert loops and all(loops) and set(searches) == {once}


@pytest.mark.parametrize("algebra", ALGEBRAS, ids=repr)
@pytest.mark.parametrize("rounds", [0, 2, 5, 50])
@pytest.mark.parametrize("scale", [0.0, 30.0])
def test_a_number_of_rounds(
    algebra: dl.Provenance, rounds: int, scale: float, loops: list[bool]
) -> None:
    def by_hand(edges: dl.Distribution) -> dl.Distribution:
        paths = edges
        for _ in range(rounds):
            paths = dl.union(edges, extend(paths, edges))
        return paths

    def bounded(edges: dl.Distribution) -> dl.Distribution:
        return dl.fixpoint(
            lambda paths: dl.union(edges, extend(paths, edges)), edges, rounds=rounds
        )

    expected = _run(by_hand, _logits(1, scale), algebra)
    for _ in range(3):
        found = _run(bounded, _logits(1, scale), algebra)
        assert found[0] == expected[0]
        torch.testing.assert_close(found[1:], expected[1:])
    assert loops == ([True] * 2 if rounds >= 5 else [])  # until then there are new symbols


def test_a_number_of_rounds_is_traced_step_by_step() -> None:
    def program(edges: dl.Distribution) -> dl.Distribution:
        return dl.fixpoint(lambda paths: dl.union(edges, extend(paths, edges)), edges, rounds=3)

    logits = _logits(1)
    for algebra in ("damp", "viterbi", "exact"):
        edges = dl.Distribution.from_logits(
            logits, EDGES, exclusive=False, provenance=dl.get_provenance(algebra)
        )
        expected = program(edges)
        module = dl.trace(program, EDGES, exclusive=False, provenance=edges.provenance)
        assert module.symbols == expected.symbols
        torch.testing.assert_close(module.probs(logits.sigmoid()), expected.probs())


@pytest.mark.parametrize("rounds", [-1, 1.5, True, "3"])
def test_rounds_that_are_no_number(rounds: Any) -> None:
    edges = dl.Distribution([0.5], [(0, 1)], exclusive=False)
    with pytest.raises(dl.InputError, match="rounds= must be an integer of at least 0"):
        dl.fixpoint(lambda paths: paths, edges, rounds=rounds)


@pytest.mark.parametrize("name", ["damp", "exact", "viterbi"])
def test_rounds_that_would_not_end(name: str) -> None:
    edges = dl.Distribution([0.5], [(0, 1)], exclusive=False, provenance=name)
    with pytest.raises(dl.InputError, match=r"at most 100,000 steps, got 10+\. Leave it out"):
        dl.fixpoint(lambda paths: paths, edges, rounds=10**30)


def test_rounds_count_everything() -> None:
    edges = dl.Distribution([0.5], [(0, 1)], exclusive=False, provenance="viterbi")
    with pytest.raises(dl.InputError, match="only_new=True takes steps over new ones"):
        dl.fixpoint(lambda paths: paths, edges, rounds=3, only_new=True)


def _negated(edges: dl.Distribution) -> dl.Distribution:
    return dl.fixpoint(lambda paths: dl.union(edges, extend(paths, dl.negate(edges))), edges)


def _squared(edges: dl.Distribution) -> dl.Distribution:
    return dl.fixpoint(lambda paths: dl.union(edges, extend(paths, paths)), edges)


def _looking(edges: dl.Distribution) -> dl.Distribution:
    def step(paths: dl.Distribution) -> dl.Distribution:
        more = dl.union(edges, extend(paths, edges))
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
    runs = [_run(closure, tiny, dl.DAMP()) for _ in range(3)]
    assert loops == [False]
    torch.testing.assert_close(runs[2], runs[0])


DIAMOND = [(0, 1), (0, 2), (1, 3), (2, 3), (0, 3), (3, 4)]


@pytest.mark.parametrize("nothing", [0.0, 1e-9])
@pytest.mark.parametrize("program", PROGRAMS)
def test_nothing_beside_a_sum_above_one_keeps_its_gradient(
    program: Step, nothing: float, loops: list[bool]
) -> None:
    """min(1, x + min(1, 2)): at x = 0 the outer sum is 1 and doesn't pass it."""
    probs = torch.tensor([[1.0] * 4 + [nothing, 1.0]]).double().requires_grad_()
    found = []
    for _ in range(3):
        edges = dl.Distribution(probs, DIAMOND, exclusive=False, provenance="damp")
        reached = program(edges).prob_of([(0, 3)])
        for graph in (False, True) if nothing else (False,):
            (grad,) = torch.autograd.grad(reached, probs, retain_graph=True, create_graph=graph)
            found.append(grad.detach())
    assert loops == [True]
    for each in found:
        torch.testing.assert_close(each, found[0])
    if program is closure:  # the others add what there was before, which is 1 by then
        assert found[0].tolist() == [[0.0] * 4 + [pytest.approx(1.0), 0.0]]


def test_another_derivative_of_a_loop(loops: list[bool]) -> None:
    logits = _logits(3) - 2.0

    def probs(scores: Tensor) -> Tensor:
        edges = dl.Distribution.from_logits(scores, EDGES, exclusive=False, provenance=dl.DAMP())
        return both(edges).probs()

    for _ in range(2):
        probs(logits)
    assert torch.autograd.gradgradcheck(probs, (logits[:1].requires_grad_(),))
    assert loops and all(loops)


VITERBI = dl.get_provenance("viterbi")


def _likeliest(logits: Tensor) -> tuple[list[Any], Tensor]:
    edges = dl.Distribution.from_logits(logits, EDGES, exclusive=False, provenance=VITERBI)
    paths = closure(edges)
    symbols = [fact.symbol for fact in paths.explain((0, 3), row=1)[0].facts]
    return symbols, paths.probs()


@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_the_best_path_of_a_loop_is_explained(scale: float, loops: list[bool]) -> None:
    logits = _logits(4, scale).requires_grad_()
    runs = [_likeliest(logits) for _ in range(3)]
    assert loops == [True] and runs[2][0] == runs[0][0]


def test_second_derivatives_of_the_best_products(loops: list[bool]) -> None:
    logits = _logits(5).requires_grad_()
    found = []
    for _ in range(3):
        probs = _likeliest(logits)[1]
        (first,) = torch.autograd.grad(probs.sum(), logits, create_graph=True)
        found.append((first.detach(), torch.autograd.grad(first.square().sum(), logits)[0]))
    assert loops == [True]
    torch.testing.assert_close(found[2], found[0])


def test_best_products_of_facts_that_cannot_be(loops: list[bool]) -> None:
    probs = torch.tensor([[0.0, 0.5, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0]], dtype=torch.float64)
    found = []
    for _ in range(3):
        given = probs.clone().requires_grad_()
        paths = closure(dl.Distribution(given, EDGES, exclusive=False, provenance=VITERBI))
        (grad,) = torch.autograd.grad(paths.probs().sum(), given)
        found.append((paths.probs().detach(), grad))
    assert loops == [True]
    torch.testing.assert_close(found[2], found[0])


@pytest.mark.parametrize("later", [0.1, 0.9])
def test_rounds_that_change_few_numbers(later: float, loops: list[bool]) -> None:
    """One step further in every round; what the start is replaced by follows behind it."""
    links = [(node, node + 1) for node in range(70)]

    def program(edges: dl.Distribution) -> dl.Distribution:
        always = _here(edges, later, 0)

        def step(reached: dl.Distribution) -> dl.Distribution:
            further = dl.apply_if(
                reached, edges, lambda _, edge: edge[1], on=(lambda n: n, lambda edge: edge[0])
            )
            return dl.union(always, further)

        return dl.fixpoint(step, _here(edges, 0.5, 0), rounds=73)

    def run() -> tuple[Tensor, Tensor]:
        logits = torch.linspace(3.0, 5.0, 140, dtype=torch.float64).view(2, 70).requires_grad_()
        edges = dl.Distribution.from_logits(logits, links, exclusive=False, provenance="viterbi")
        logs = program(edges).log_probs()
        return logs.detach(), torch.autograd.grad(logs.sum(), logits)[0]

    plain = run()
    for _ in range(3):
        again = run()
    assert loops and all(loops)
    torch.testing.assert_close(again, plain)


def test_constants_that_share_symbols_are_left_to_the_rounds(loops: list[bool]) -> None:
    def program(edges: dl.Distribution) -> dl.Distribution:
        more = dl.filter(edges, lambda edge: edge[0] < 2)
        return dl.fixpoint(lambda paths: dl.union(edges, more, extend(paths, edges)), edges)

    runs = [_run(program, _logits(1, 0.0), VITERBI) for _ in range(3)]
    assert loops == [False]
    torch.testing.assert_close(runs[2][1:], runs[0][1:])


def test_chunks_of_best_products(monkeypatch: pytest.MonkeyPatch, loops: list[bool]) -> None:
    expected = _run(kept, _logits(6), VITERBI)
    monkeypatch.setattr("dolphin.provenance.winners._IN_CACHE", 7)
    runs = [_run(kept, _logits(6), VITERBI) for _ in range(3)]
    assert loops and all(loops)
    torch.testing.assert_close(runs[2][1:], expected[1:])


# -- copies: parts of a recursion that differ in their symbols only --------------------------------


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Small copies count, too; how many of them each recursion had."""
    counts: list[int] = []

    def looped(own: Any, form: Any, *given: Any) -> Any:
        counts.append(form.copies.count)
        return VITERBI_LOOP(own, form, *given)

    monkeypatch.setattr(type(VITERBI), "looped", looped)
    monkeypatch.setattr("dolphin.execution.recursion.recurrences._LARGE", 1)
    return counts


VITERBI_LOOP = type(VITERBI).looped


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0])  # 0: all edges are tied
def test_copies_give_what_their_rounds_give(
    program: Step, scale: float, copies: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = _run(program, _logits(1, scale), VITERBI)
    monkeypatch.setattr("dolphin.provenance.winners._IN_CACHE", 40)  # several parts of a copy
    runs = [_run(program, _logits(1, scale), VITERBI) for _ in range(2)]
    assert copies == [6]  # one for each vertex that paths begin at
    assert runs[1][0] == expected[0]
    torch.testing.assert_close(runs[1][1:], expected[1:])


def test_the_best_path_of_a_copy_is_explained(copies: list[int]) -> None:
    logits = _logits(4).requires_grad_()
    runs = [_likeliest(logits) for _ in range(3)]
    assert copies == [6] and runs[2][0] == runs[0][0]


def test_parts_that_differ_are_no_copies(copies: list[int]) -> None:
    def run(probs: Tensor) -> tuple[Tensor, Tensor]:
        probs = probs.clone().requires_grad_()
        edges = dl.Distribution(probs, DIAMOND, exclusive=False, provenance=VITERBI)
        paths = closure(edges).probs()
        return paths.detach(), torch.autograd.grad(paths.sum(), probs)[0]

    probs = torch.linspace(0.2, 0.9, 2 * len(DIAMOND), dtype=torch.float64).view(2, -1)
    runs = [run(probs) for _ in range(3)]
    assert copies == [1]
    torch.testing.assert_close(runs[2], runs[0])


def test_copies_have_the_same_others() -> None:
    """Three rings of four; the second is combined with the same as the first, the third isn't."""
    ring = np.arange(4)
    sources = np.concatenate([ring, 4 + ring, 8 + ring])
    group_of = np.concatenate([(ring + 1) % 4, 4 + (ring + 1) % 4, 8 + (ring + 1) % 4])
    mixed = np.random.default_rng(0).permutation(12)  # symbols have any numbers
    for others, count in (([0, 1, 2, 3] * 3, 3), ([0, 1, 2, 3] * 2 + [0, 1, 2, 4], 1)):
        form = Recurrence(
            mixed[sources], np.array(others), mixed[group_of], np.ones(12), False, [12]
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("dolphin.execution.recursion.recurrences._LARGE", 1)
            copies = form.copies
        values = torch.arange(13.0)[:, None]
        assert copies.count == count
        torch.testing.assert_close(copies.by_symbol(copies.arranged(values)), values[:-1])
        if count == 3:
            own = copies.arranged(values).view(3, 5)[:, :4].long().numpy()
            assert sorted(own.reshape(-1)) == list(range(12))
            before = np.empty(12, dtype=int)
            before[form.group_of] = form.sources
            expected = own[:, copies.into.places[0]]
            assert np.array_equal(before[own], expected)
