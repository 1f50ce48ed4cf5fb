"""What random programs found out about numbers: at 0, at 1, in single precision."""

from __future__ import annotations

import math

import pytest
import torch

import dolphin as dl

NUMBERS = ["damp", "noisy-or", "viterbi", "min-max", "lukasiewicz", "hamacher"]
SEVERAL = [*NUMBERS, "exact", "dtkp-am", "dtkp-wmc"]


# -- next to zero


def test_sums_of_masked_symbols_have_finite_gradients():
    """The logarithm of zero, added up, is too large a number for a difference to be exact."""
    x = torch.tensor([[1.0, -math.inf]], dtype=torch.float64, requires_grad=True)
    with dl.using("damp"):
        d = dl.Distribution.from_logits(x, [0, 1])
        total = dl.apply(d, d, d, d, lambda *s: sum(s))
        probs = dl.apply(total, d, total, lambda a, b, c: a + b + c).probs()
    (gradient,) = torch.autograd.grad(probs.sum(), x)
    assert gradient.tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("name", ["dtkp-am", "dtkp-wmc"])
def test_proofs_with_impossible_facts_absorb_as_others_do(name):
    logits = torch.tensor([[-math.inf, 0.012, -0.098]], dtype=torch.float64)
    with dl.using(name, k=3):
        d = dl.Distribution.from_logits(logits, [1, 4, 3], exclusive=False)

        def step(known):
            return dl.union(d, dl.apply(known, d, lambda a, b: (a * b + 1) % 4))

        result = dl.fixpoint(step, d, max_iterations=20)
    facts = [{fact.symbol for fact in proof.facts} for proof in result.explain(0, 0)]
    assert sorted(map(sorted, facts)) == [[1], [3, 4]]  # not 1 with 3, nor 1 with 4


@pytest.mark.parametrize("name", ["exact", "dtkp-wmc"])
def test_what_single_precision_can_not_tell_from_zero_is_impossible(name):
    x = torch.tensor([[0.0, 1.0]], requires_grad=True)
    with dl.using(name):
        d, e = dl.Distribution(x, "ab"), dl.Distribution.from_logits(torch.zeros(1, 2), "ab")
        both = dl.apply(d, e, lambda s, t: s + t)
    assert both.prob_of(["aa"]).item() == 0.0
    (gradient,) = torch.autograd.grad(both.prob_of(["aa"]), x)
    torch.testing.assert_close(gradient, torch.tensor([[0.5, 0.0]]))
    assert [table.tolist() for table in dl.posterior([d, e], both, ["aa"])] == [[[0.0, 0.0]]] * 2


def test_shares_of_something_small_have_precise_gradients():
    x = torch.tensor([[0.724, 6.6e-7]], requires_grad=True)
    d = dl.Distribution(x, [4, 0], provenance="damp")
    one = dl.normalized(dl.filter(d, lambda s: s == 0)).prob_of([0])
    assert one.item() == 1.0
    assert torch.autograd.grad(one, x)[0].abs().max().item() < 1e-3


# -- numbers near 1


def test_hamacher_unions_keep_their_distance_from_one_in_single_precision():
    """`bce_loss` reads the distance: 1 - ab would leave 1e-4 of it to rounding."""
    found = {}
    for dtype in (torch.float32, torch.float64):
        with dl.using("hamacher"):
            x = torch.tensor([[0.9375], [0.3125], [2.0**-20]], dtype=dtype)
            d = dl.fixpoint(
                lambda d: dl.union(d, dl.apply(d, lambda a: (a + 1) % 4)), dl.Distribution(x, [4])
            )
            d = dl.reduce(max, [d, d])
        rest = (1.0 - d.probs().double()).prod(1)
        found[dtype] = torch.stack([rest, d.probs().double().prod(1)])
    torch.testing.assert_close(found[torch.float32], found[torch.float64], rtol=5e-5, atol=0.0)


# -- numbers at 0


@pytest.mark.parametrize("name", SEVERAL)
@pytest.mark.parametrize("numbers", [[0.0, 1.0], [0.5, 0.0], [0.0, 0.0]])
def test_what_is_impossible_is_pushed_down_in_single_precision_too(name, numbers):
    """Under `exact` the logarithm of 0 is that of double precision: its exp is 0 in single."""
    found = {}
    for dtype in (torch.float32, torch.float64):
        x = torch.tensor([numbers], dtype=dtype, requires_grad=True)
        with dl.using(name):
            d = dl.Distribution(x, [0, 1])
            e = dl.Distribution(torch.tensor([[0.25, 0.75]], dtype=dtype), [0, 1])
            loss = dl.bce_loss(dl.apply(d, e, lambda a, b: a + b), [7])
        (found[dtype],) = torch.autograd.grad(loss, x)
    assert found[torch.float64].abs().min() > 0.0 or name in ("viterbi", "min-max", "lukasiewicz")
    torch.testing.assert_close(
        found[torch.float32].double(), found[torch.float64], rtol=1e-5, atol=1e-6
    )


TNORMS = ["hamacher", "schweizer-sklar", "yager", "frank", "nilpotent"]


@pytest.mark.parametrize("name", TNORMS)
def test_unions_of_small_numbers_are_not_rounded_away(name):
    """By the dual of the product, 1 - (1 - a) ⊗ (1 - b), they were 0 under `schweizer-sklar`."""
    with dl.using(name):
        x = torch.tensor([[1e-20, 3e-12], [1e-9, 2e-9], [1e-4, 0.3], [0.7, 1e-9]])
        d, e = (dl.Distribution(x[:, [at]], ["s"]) for at in (0, 1))
        single = dl.union(d, e).probs()
        d, e = (dl.Distribution(x[:, [at]].double(), ["s"]) for at in (0, 1))
        double = dl.union(d, e).probs()
    torch.testing.assert_close(single.double(), double, rtol=1e-5, atol=0.0)
    assert (double >= x.max(1).values[:, None] * (1.0 - 1e-9)).all()


def test_keys_of_groups_are_spelled_as_the_function_says_them():
    """Not as another program's equal ones were: True is 1, but is written otherwise."""
    d = dl.Distribution([[0.25, 0.75]], [3, 2], provenance="min-max")
    for by in (lambda s: s % 2, lambda s: s % 2 == 1, lambda s: float(s % 2)):
        found = {repr(key) for key, _ in dl.minimum(d, by=by).symbols}
        assert found == {repr(by(3)), repr(by(2))}


@pytest.mark.parametrize("name", ["damp", "exact", "dtkp-wmc", "dtkp-am", "noisy-or"])
@pytest.mark.parametrize("exclusive", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_rows_of_logits_and_rows_of_probabilities_in_one_stack(name, exclusive, masked):
    """Each row's derivatives are those of the numbers that were given, at 0 and beside -inf."""
    logits = torch.tensor([[1.2, -math.inf if masked else -3.0, -0.7]]).double().requires_grad_()
    probs = torch.tensor([[0.8, 0.0, 0.2]]).double().requires_grad_()
    with dl.using(name):
        one = dl.Distribution.from_logits(logits, [3, 4, 1], exclusive=exclusive)
        both = dl.Distribution.stack([one, dl.Distribution(probs, [0, 3, 1])])
        (slope,) = torch.autograd.grad(both.probs([3])[1].sum(), probs, retain_graph=True)
        torch.testing.assert_close(slope, torch.tensor([[0.0, 1.0, 0.0]]).double())
        for symbol in (0, 1, 3, 4):
            apart = torch.autograd.grad(one.log_probs([symbol]).sum(), logits, retain_graph=True)
            found = torch.autograd.grad(
                both.log_probs([symbol])[0].sum(), logits, retain_graph=True
            )
            torch.testing.assert_close(found, apart)


def test_pieces_of_a_large_group_that_never_agree():
    """Where rounding hides which proof contains which, the search in pieces never ended."""
    logits = torch.tensor([[0.113, 1.425, -math.inf, -2.602], [1.725, -1.357, -1.014, 0.05]])
    probs = torch.tensor([[0.0625, 0.5, 0.25], [0.8125, 0.0, 0.1875]])

    def counted():
        one = dl.Distribution.from_logits(logits, [1, 0, 2, 3])
        rows = [([1, 2, 4], probs[0]), ([3, 2, 1], probs[1])]
        other = dl.Distribution.from_rows(rows, exclusive=[False, True])
        return dl.count(dl.apply(one, other, max)).probs(range(5))

    with dl.using("dtkp-am", k=5):
        whole = counted()
        # Nothing holds where all of the first row's independent facts fail.
        assert whole[0, 0].item() == pytest.approx(0.9375 * 0.5 * 0.75)
        with dl.settings(chunk_elements=50):
            torch.testing.assert_close(counted(), whole)


# -- single precision


BESIDE_ONE = {
    "a fact": ([0.0, 0.0, 1.0000002], lambda b: b),
    "what is left": ([0.0085215155983, 0.9914784840286, 3.729e-10], dl.negate),
}


@pytest.mark.parametrize("how", BESIDE_ONE)
@pytest.mark.parametrize("name", ["dtkp-am", "dtkp-wmc"])
def test_a_longer_proof_is_absorbed_although_rounding_makes_it_likelier(name, how):
    probs, certain = BESIDE_ONE[how]
    with dl.using(name, k=5):
        a = dl.Distribution(torch.tensor([0.5]), [1])
        b = dl.Distribution(torch.tensor(probs), [0, 1, 2])
        longer = dl.apply_if(a, certain(b), lambda s, t: s, lambda s, t: t == 2)
        both = dl.union(a, longer)
    assert both.prob_of([1]).item() == 0.5
    assert len(both.explain(1)) == 1


@pytest.mark.parametrize("name", ["exact", "dtkp-wmc"])
def test_what_is_impossible_has_its_gradient_in_a_loss_that_pushes_it_down(name):
    """-log(1 - P) at P = 0 needs the double precision in which such a P is counted."""
    x = torch.tensor([[1.0, 0.25]], requires_grad=True)
    with dl.using(name):
        absent = dl.negate(dl.Distribution(x, [0, 1], exclusive=False))
        least = dl.apply(absent, absent, min)
    assert least.prob_of([0]).item() == 0.0
    (gradient,) = torch.autograd.grad(dl.bce_loss(least, [1]), x)
    assert gradient.tolist() == [pytest.approx([-1.0, 1 / 0.75])]


@pytest.mark.parametrize("name", ["exact", "dtkp-am", "dtkp-wmc"])
def test_what_is_impossible_without_any_input_stays_so_among_precise_rows(name):
    """In single precision it was 1e-30, which is a number in double precision."""
    numbers = torch.tensor([[0.25, 0.5]], dtype=torch.float64)
    with dl.using(name):
        nothing = dl.Distribution.certain(0)
        impossible = dl.condition(nothing, nothing.map(lambda s: s > 0))
        rows = dl.Distribution.stack([impossible, dl.Distribution(numbers, [0, 1])])
        again = dl.condition(rows, rows.map(lambda s: s == 0))
    assert again.probs([0]).tolist() == [[0.0], [1.0]]


@pytest.mark.parametrize("name", ["damp", "exact", "dtkp-am"])
def test_a_distribution_without_symbols_normalised(name):
    with dl.using(name):
        none = dl.Distribution(torch.tensor([[0.5, 0.5]]), [1, 2]).filter(lambda s: s > 2)
        groups = dl.exists(none, by=lambda s: s % 2).normalized()
        assert groups.probs([(1, True)]).tolist() == [[0.0]]
        assert dl.union(groups, dl.Distribution.certain("x")).row(0) == [("x", 1.0)]


def test_weights_decide_the_precision_of_what_is_certain():
    weights = torch.tensor([0.25, 0.75], requires_grad=True)
    drawn = dl.Distribution.certain_rows([1, 0]).map(lambda s: dl.weighted({s: 0.5, s + 1: 0.5}))
    found = drawn.map(lambda s: dl.weighted({s: weights[0], -1: weights[1]}))
    assert found.dtype == found.probs().dtype == torch.float32


@pytest.mark.parametrize("name", ["damp", "exact", "dtkp-am", "noisy-or"])
def test_shares_of_what_is_certain_are_as_precise_as_the_rows_beside_them(name):
    numbers = torch.tensor([[0.25, 0.75]], dtype=torch.float64)
    with dl.using(name):
        several = dl.union(*(dl.Distribution.certain(s) for s in range(3))).normalized()
        rows = dl.Distribution.stack([several, dl.Distribution(numbers, [0, 1])])
    assert rows.probs([0])[0].item() == pytest.approx(1 / 3, rel=1e-14)
    assert several.probs().dtype == torch.float32


EVERY = list(dict.fromkeys([*TNORMS, *SEVERAL]))


# -- numbers at 1


@pytest.mark.parametrize("name", EVERY)
def test_what_a_program_does_not_ask_for_takes_no_share_of_a_gradient(name):
    """It is **1** there: a fact of exactly 1 beside it must not count as its equal."""
    x = torch.tensor([[1.0, 1e-9]], requires_grad=True)

    @dl.program
    def first_or_second(a, b):
        symbol = dl.choose(a)
        return symbol if symbol in "xy" else dl.choose(b)

    with dl.using(name):
        d = dl.Distribution(x, "xy", exclusive=False)
        beside = dl.Distribution(torch.tensor([[0.5]]), "z")
        probs = first_or_second(dl.union(d, beside), beside).probs(["x", "y"])
    assert probs.tolist() == [pytest.approx([1.0, 1e-9])]
    for symbol, wanted in enumerate(([1.0, 0.0], [0.0, 1.0])):
        (gradient,) = torch.autograd.grad(probs[0, symbol], x, retain_graph=True)
        assert gradient.tolist() == [pytest.approx(wanted)]


@pytest.mark.parametrize("name", EVERY)
def test_rounding_may_carry_probabilities_out_of_their_range(name):
    """The gradient was cut off under `min-max`, and nan under `schweizer-sklar`."""
    found = {}
    for numbers in ([1.0000002, -1e-7, 0.5], [1.0, 0.0, 0.5]):
        x = torch.tensor([numbers], requires_grad=True)
        with dl.using(name):
            d = dl.Distribution(x, [0, 1, 2], exclusive=False)
            rows = dl.Distribution.from_rows([([0, 1, 2], x[0])], exclusive=False)
            both = dl.Distribution.stack([d, rows])
            probs = dl.apply(both, dl.Distribution.certain(1), lambda a, b: a + b).probs()
        assert probs.tolist() == [[1.0, 0.0, 0.5]] * 2
        (found[numbers[0]],) = torch.autograd.grad(probs.sum(), x)
    assert found[1.0000002].tolist() == found[1.0].tolist() == [pytest.approx([2.0, 2.0, 2.0])]


@pytest.mark.parametrize("name", ["damp", "dtkp-am"])
def test_a_sum_that_single_precision_carries_above_one_keeps_its_gradient(name):
    """Also where it is added up in double precision, because another input has it."""
    logits = torch.tensor([[0.125, -0.875]])
    assert torch.log_softmax(logits, 1).double().exp().sum() > 1.0 + 1e-9
    x = torch.tensor([[1.0]], dtype=torch.float64, requires_grad=True)
    with dl.using(name):
        d = dl.Distribution.from_logits(logits, [0, 1])
        result = dl.apply(dl.Distribution(x, ["x"]), d, lambda s, t: s).probs()
    assert result.item() == 1.0
    assert torch.autograd.grad(result, x)[0].item() == pytest.approx(1.0)
