"""Sets of proofs: how many are kept, and what negation and absorption do to them."""

from __future__ import annotations

import itertools

import pytest
import torch

import dolphin as dl
from algebras import Algebra
from dolphin.provenance.topk import provenance, search, weighing


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_top_k_keeps_at_most_k_proofs(k):
    """At most k proofs: a sum over ten facts of .01 each is k · .01."""
    algebra = Algebra(dl.TopKProofs(k=k), "shared")
    total = algebra.plus(*(algebra.fact([0.01]) for _ in range(10)))
    assert algebra.value(total).item() == pytest.approx(0.01 * k)


def test_negation_inside_exclusive_inputs():
    """ "It is 1" and "it is not 0" are the same world twice: the first says it all."""
    probs = torch.tensor([[0.2, 0.5, 0.3]], dtype=torch.float64)
    d = dl.Distribution(probs, [0, 1, 2], provenance=dl.TopKProofs(k=9))
    pairs = dl.apply(dl.negate(d), d, lambda not_x, y: (not_x, y))
    for x in range(3):
        for y in range(3):
            expected = 0.0 if x == y else probs[0, y].item()
            assert pairs.prob_of([(x, y)]).item() == pytest.approx(expected)


@pytest.mark.parametrize("probs", [[0.5, 0.0, 0.25], [0.5, 0.0, 0.5], [0.0, 0.0, 1.0]])
def test_absorption_among_negated_facts_of_no_weight(probs):
    """ "Not 2" absorbs "not 1 and not 2", also where "not 1" is certain and costs nothing."""
    d = dl.Distribution(
        torch.tensor(probs, dtype=torch.float64), [0, 1, 2], provenance=dl.TopKProofs(k=9)
    )
    nothing = dl.negate(d)
    same = dl.apply(nothing, nothing, lambda x, y: x)
    assert dl.get_probs(same)[0].tolist() == pytest.approx([1 - p for p in probs])
    assert [len(same.explain(x)) for x in range(3)] == [1, 1, 1]


def test_inputs_weighed_together_or_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs of different sizes and numbers of rows, with groups of columns that are apart."""
    groups = [True, [[0, 2], [1]], True, [[0, 1], [2, 3]], False]
    sizes, rows = [4, 3, 10, 4, 2], [3, 3, 1, 3, 3]

    def answer(together: int) -> list[torch.Tensor]:
        monkeypatch.setattr(weighing, "_TOGETHER", together)
        noise = torch.Generator().manual_seed(0)
        given = [
            torch.rand(r, n, dtype=torch.float64, generator=noise).mul_(0.09).requires_grad_()
            for n, r in zip(sizes, rows, strict=True)
        ]
        inputs = [
            dl.Distribution(p, range(p.shape[1]), exclusive=e, provenance="dtkp-am")
            for p, e in zip(given, groups, strict=True)
        ]
        found = dl.reduce(lambda a, b: (a + b) % 3, inputs).log_probs()
        weights = torch.linspace(0.5, 2.0, found.numel(), dtype=torch.float64).view_as(found)
        return [found.detach(), *torch.autograd.grad((found * weights).sum(), given)]

    for one, other in zip(answer(1 << 16), answer(0), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("way", ["sorted", "searched", "every group searched"])
def test_formulas_that_are_mostly_alone(way: str, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strings grow by a symbol; some meet, and some rows have ended: values by enumeration."""
    if way == "searched":
        monkeypatch.setattr(search, "_FEW", 0)
    if way == "every group searched":
        monkeypatch.setattr(search.Candidates, "in_order", False, raising=False)
        original = search.Candidates.__init__

        def init(self: search.Candidates, *args: object, **kwargs: object) -> None:
            original(self, *args, **kwargs)  # type: ignore[arg-type]
            self.in_order = False

        monkeypatch.setattr(search.Candidates, "__init__", init)
    noise = torch.Generator().manual_seed(1)
    given = torch.rand(3, 4, 3, dtype=torch.float64, generator=noise).softmax(-1)
    given.requires_grad_()
    lengths = torch.tensor([4, 2, 3])
    with dl.using("dtkp-am", k=k):
        places = [dl.Distribution(p, [1, 2, 3]) for p in given.unbind(1)]
    total = dl.sample(places[0].map(lambda s: (s,)), 2)
    for number, place in enumerate(places[1:], start=1):
        total = dl.apply(total, place, _extended, where=lengths > number)
    proofs: dict[tuple[int, tuple[int, ...]], list[torch.Tensor]] = {}
    for row in range(3):
        first = given[row, 0].detach().topk(2).indices.tolist()
        for symbols in itertools.product(range(3), repeat=int(lengths[row])):
            if symbols[0] not in first:
                continue
            made: tuple[int, ...] = (symbols[0] + 1,)
            for symbol in symbols[1:]:
                made = _extended(made, symbol + 1)
            weight = torch.stack([given[row, at, s] for at, s in enumerate(symbols)]).prod()
            proofs.setdefault((row, made), []).append(weight)
    wanted = {key: torch.stack(w).topk(min(k, len(w))).values.sum() for key, w in proofs.items()}
    found = {(row, symbol): total.probs([symbol])[row, 0] for row, symbol in wanted}
    torch.testing.assert_close(list(found.values()), list(wanted.values()))
    for numbers in (found, wanted):
        numbers["all"] = sum(p * (1 + n) for n, p in enumerate(numbers.values()))
    grads = [torch.autograd.grad(numbers["all"], given)[0] for numbers in (found, wanted)]
    torch.testing.assert_close(*grads)


def _extended(made: tuple[int, ...], symbol: int) -> tuple[int, ...]:
    """One more symbol; after a 3 it is added to that, where 2 and 3 count the same."""
    return (*made[:-1], 3 + min(symbol, 2)) if made[-1] == 3 else (*made, symbol)


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("per_row", [False, True], ids=["shared", "per row"])
def test_groups_weighed_together_or_one_by_one(
    rows: int, per_row: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three exclusive groups of two columns: the same probabilities and gradients either way."""

    def answer(together: int) -> tuple[torch.Tensor, torch.Tensor]:
        monkeypatch.setattr(weighing, "_TOGETHER", together)
        probs = torch.linspace(0.05, 0.45, 6 * rows, dtype=torch.float64).view(rows, 6)
        probs.requires_grad_()
        symbols, groups = list(range(6)), [[0, 1], [2, 3], [4, 5]]
        if per_row:
            pairs = [(symbols, row) for row in probs]
            d = dl.Distribution.from_rows(pairs, exclusive=groups, provenance="dtkp-am")
        else:
            d = dl.Distribution(probs, symbols, exclusive=groups, provenance="dtkp-am")
        found = dl.apply(d, d, lambda a, b: (a + b) % 4).probs()
        weights = torch.linspace(0.5, 2.0, found.numel(), dtype=torch.float64).view_as(found)
        return found.detach(), torch.autograd.grad((found * weights).sum(), probs)[0]

    for one, other in zip(answer(1 << 16), answer(0), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["dtkp-am", "dtkp-wmc"])
@pytest.mark.parametrize("asked", [dl.negate, lambda d: dl.forall(d, lambda s: s < 3), dl.count])
def test_the_size_of_a_negation_is_counted_before_it_is_made(name, asked, monkeypatch):
    with dl.using(name, k=3):
        d = dl.Distribution(torch.rand(64, 200), range(200), exclusive=False)
    monkeypatch.setattr(provenance, "broken", lambda *_: pytest.fail("it was made"))
    with (
        dl.settings(max_combinations=15_000),
        pytest.raises(dl.SizeError, match=r"(?s)negate: .*64 rows.*max_combinations"),
    ):
        asked(d).probs()


def test_a_large_negation_is_refused_at_once_and_a_usual_one_is_not():
    with dl.using("dtkp-am", k=10):
        large = dl.Distribution(torch.rand(256, 20_000), range(20_000), exclusive=False)
        usual = dl.Distribution(torch.rand(16, 300), range(300), exclusive=False)
    with pytest.raises(dl.SizeError, match="20,000 symbols"):
        dl.negate(large)
    torch.testing.assert_close(dl.negate(usual).probs(), 1 - usual.probs())
