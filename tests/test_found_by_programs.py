"""What random programs have found (`test_fuzzing.py`): each of these was a wrong answer once."""

from __future__ import annotations

import copy
import math

import pytest
import torch

import dolphin as dl

NUMBERS = ["damp", "noisy-or", "viterbi", "min-max", "lukasiewicz", "hamacher"]
SEVERAL = [*NUMBERS, "exact", "dtkp-am", "dtkp-wmc"]


# -- what is certain takes no part in ties


@dl.program
def partly(a, b):
    return 1 if dl.choose(a) == 0 else dl.choose(b)


CERTAIN = {
    "an operand that some executions leave out": lambda d, e: partly(d, e),
    "a chance that some symbols leave out": lambda d, e: dl.apply(
        d, lambda s: dl.weighted({2: 0.5}) if s else 1
    ),
    "what is absent from a closed world": lambda d, e: dl.apply(
        dl.negate(e, among=[5]), d, lambda s, t: 1 - t
    ),
    "a question's start": lambda d, e: dl.forall(d, lambda s: s != 0).map(lambda true: not true),
}


@pytest.mark.parametrize("how", CERTAIN)
def test_a_fact_of_exactly_one_shares_its_gradient_with_nothing_certain(how):
    x = torch.tensor([[1.0, 0.25]], requires_grad=True)
    with dl.using("min-max"):
        d = dl.Distribution(x, [0, 1], exclusive=False)
        result = CERTAIN[how](d, dl.Distribution([0.5], [7], exclusive=False))
    probability = result.prob_of([1])
    assert probability.item() == 1.0
    (gradient,) = torch.autograd.grad(probability, x)
    assert gradient.tolist() == [[1.0, 0.0]]


# -- what is one distribution


@dl.program
def same(a, b):
    return dl.choose(a) == dl.choose(b)


@pytest.mark.parametrize("name", NUMBERS)
def test_a_sample_is_a_distribution_of_its_own_however_long_other_rows_are(name):
    """One that drops nothing, too: else a row would mean something else beside a longer one."""
    with dl.using(name):
        rows = [([0, 1], [0.25, 0.5]), ([0, 1, 2], [0.25, 0.25, 0.5])]
        both, alone = dl.Distribution.from_rows(rows), dl.Distribution.from_rows(rows[:1])
        found = same(both, dl.sample(both, 2)).probs([True, False])[0]
        wanted = same(alone, dl.sample(alone, 2)).probs([True, False])[0]
        copied = same(alone, copy.deepcopy(alone)).probs([True, False])[0]
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(copied, wanted)


def test_a_whole_sample_inside_batched_is_what_it_is_in_the_loop():
    def one(shift):
        d = dl.Distribution([0.25, 0.75], [0, 1], provenance="damp")
        moved = dl.apply(d, d, lambda a, b: (a + b + shift) % 3)
        return same(moved, dl.sample(moved, 5))

    loop = dl.Distribution.stack([one(0), one(1)])
    torch.testing.assert_close(dl.batched(one)([0, 1]).probs(loop.symbols), loop.probs())


# -- traced programs


@pytest.mark.parametrize("name", SEVERAL)
def test_a_traced_program_may_be_certain_whatever_its_inputs_are(name):
    module = dl.trace(lambda d: dl.Distribution.certain(3), [0, 1], provenance=name)
    assert module.symbols == (3,)
    assert module.probs(torch.tensor([[0.5, 0.25]])).tolist() == [[1.0]]


def test_a_traced_program_may_not_return_what_it_was_not_given():
    other = dl.Distribution([0.5, 0.5], [0, 1])
    with pytest.raises(dl.InputError, match="doesn't depend on the inputs"):
        dl.trace(lambda d: other, [0, 1])


@pytest.mark.parametrize("name", SEVERAL)
def test_a_traced_program_takes_inputs_of_different_precision(name):
    x = torch.tensor([[0.5, 0.25]], requires_grad=True)
    y = torch.tensor([[0.125, 0.5]], dtype=torch.float64, requires_grad=True)
    with dl.using(name):
        module = dl.trace(lambda a, b: dl.apply(b, b, a, lambda *s: max(s)), [0, 1], [0, 1])
        a, b = (dl.Distribution(t, [0, 1]) for t in (x, y))
        eager = dl.apply(b, b, a, lambda *s: max(s))
    probs = module.probs(x, y)
    torch.testing.assert_close(probs, eager.probs(module.symbols))
    for one, other in zip(
        torch.autograd.grad(probs.sum(), (x, y)),
        torch.autograd.grad(eager.probs().sum(), (x, y)),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


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


# -- proofs


def likely_or_not(name, chunk):
    """One symbol with the proofs ab, ac, d and a, of which two are kept: a and d."""
    x = torch.tensor([[0.9, 0.9, 0.9, 0.3]], dtype=torch.float64, requires_grad=True)
    with dl.using(name, k=2), dl.settings(chunk_elements=chunk):
        facts = dl.Distribution(x, "abcd", exclusive=False)
        both = dl.apply_if(facts, facts, lambda s, t: s + t, lambda s, t: s == "a" and t in "bc")
        either = dl.union(both, facts.map(lambda s: {"d": "ac"}.get(s, s)))
        wanted = dl.filter(either, lambda s: s in ("ab", "ac", "a"))
        result = dl.apply(wanted, lambda s: "yes").prob_of(["yes"])
    return result, torch.autograd.grad(result, x)[0]


@pytest.mark.parametrize("name", ["dtkp-am", "dtkp-wmc"])
@pytest.mark.parametrize("chunk", [1, 4])
def test_a_proof_of_one_piece_absorbs_those_of_another_before_the_best_are_chosen(name, chunk):
    (found, gradient), (whole, wanted) = likely_or_not(name, chunk), likely_or_not(name, 10**6)
    assert whole.item() == pytest.approx(1.0 if name == "dtkp-am" else 1.0 - 0.1 * 0.7)
    torch.testing.assert_close(found, whole)
    torch.testing.assert_close(gradient, wanted)


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


# -- orders


def test_what_comes_first_in_a_row_of_a_program_does_not_depend_on_other_rows():
    """Of symbols with equal keys the first one is the least."""

    @dl.program
    def same(d):
        symbol = dl.choose(d)
        return symbol if dl.choose(dl.weighted({0: 0.5, 1: 0.5})) else symbol + 10

    rows = [([0, 4, 2], [0.5, 0.5, 0.5]), ([1, 3, 2], [0.5, 0.25, 0.125])]
    with dl.using("damp"):
        together = dl.Distribution.from_rows(rows, exclusive=False)
        least = dl.minimum(same(together), key=lambda s: 0)
        for number, row in enumerate(rows):
            alone = dl.minimum(same(dl.Distribution.from_rows([row], exclusive=False)), lambda s: 0)
            torch.testing.assert_close(least.probs(alone.symbols)[[number]], alone.probs())


# -- programs as functions


def gradients(function, x):
    """By `torch.func`, and by a backward pass."""
    y = x.clone().requires_grad_()
    return torch.func.grad(function)(x), torch.autograd.grad(function(y), y)[0]


@pytest.mark.parametrize("name", ["damp", "exact", "noisy-or", "viterbi"])
@pytest.mark.parametrize("rows", ["a list", "a tensor", "a distribution"])
def test_transforms_see_what_samples_do(name, rows):
    """Samples run in threads, whose operations a transform doesn't see: gradients were 0."""

    @dl.batched
    def shares(given):
        one = given if isinstance(given, dl.Distribution) else dl.Distribution(given, [0, 1, 2])
        return one.filter(lambda s: s > 0).normalized()

    def first(x):
        with dl.using(name):
            given = list(x) if rows == "a list" else x
            if rows == "a distribution":
                given = dl.Distribution(x, [0, 1, 2])
            return shares(given).probs([1])[0].sum()

    functional, backward = gradients(first, torch.tensor([[0.5, 0.25, 0.25], [0.2, 0.3, 0.5]]))
    assert backward.abs().max() > 0.5
    torch.testing.assert_close(functional, backward)


@pytest.mark.parametrize("name", ["damp", "exact", "noisy-or", "viterbi"])
def test_transforms_follow_operations_on_some_rows(name):
    def some(x):
        with dl.using(name):
            d = dl.Distribution(x, [1, 2, 3])
            d = dl.apply(d, lambda s: s + 1, where=[False, True])
            d = dl.where([True, False], dl.sample(d, 2), d)
            return d.probs([2]).sum()

    functional, backward = gradients(some, torch.tensor([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]]))
    assert backward.abs().max() > 0.9
    torch.testing.assert_close(functional, backward)


def test_alternatives_to_what_is_certain_have_gradients_in_transforms_too():
    def either(x):
        d = dl.Distribution(x, [0, 1, 2], exclusive=False, provenance="noisy-or")
        return d.map(lambda s: "some").probs().sum()

    functional, backward = gradients(either, torch.tensor([[1.0, 0.5, 0.25]]).double())
    assert backward.tolist() == [pytest.approx([0.375, 0.0, 0.0])]
    torch.testing.assert_close(functional, backward)


# -- rows and precision


@pytest.mark.parametrize("keep", [None, 5])
def test_programs_have_the_rows_of_what_they_do_not_ask_for(keep):
    @dl.program(keep=keep)
    def first(a, b):
        return dl.choose(a)

    one = dl.Distribution([0.25, 0.75], [0, 1])
    three = dl.Distribution(torch.full((3, 2), 0.5), [0, 1])
    assert first(one, three).probs().tolist() == [[0.25, 0.75]] * 3


@pytest.mark.parametrize("name", ["exact", "dtkp-am", "dtkp-wmc"])
def test_events_that_depend_on_no_input_leave_the_precision_as_it_is(name):
    with dl.using(name):
        d = dl.Distribution(torch.tensor([[0.25, 0.75]]), [0, 1])
        event = dl.Distribution.certain_rows([1, 0]).map(lambda s: s == 1)
        given = dl.condition(d, event)
        (table,) = dl.posterior([d], event, [True, True])
    assert given.dtype == given.probs().dtype == table.dtype == torch.float32
    assert given.probs().tolist() == table.tolist() == [[0.25, 0.75], [0.0, 0.0]]


# -- what excludes each other


@pytest.mark.parametrize("symbols", [[[4, 2], [4, 2]], [[4, 2], [1, 2]]])
def test_what_a_program_chooses_from_excludes_each_other_whatever_else_it_is_given(symbols):
    @dl.program
    def how_many(d):
        return dl.choose(dl.count(d))

    with dl.using("damp"):
        rows = [(own, torch.tensor([0.5, 0.25])) for own in symbols]
        d = dl.Distribution.from_rows(rows, exclusive=False)
        some = dl.exists(how_many(d), lambda n: n < 2)
    torch.testing.assert_close(some.prob_of([True, True]), torch.tensor([0.875, 0.875]))


# -- second derivatives


@pytest.mark.parametrize("name", ["damp", "noisy-or", "viterbi"])
@pytest.mark.parametrize("negated", [False, True])
def test_second_derivatives_of_several_factors_of_zero_are_refused_not_lost(name, negated):
    """The gradient of p · q is 0 at p = q = 0, but not its derivatives."""
    x = torch.tensor([[float(negated)] * 2], dtype=torch.float64, requires_grad=True)
    with dl.using(name):
        d = dl.Distribution(x, [0, 1], exclusive=False)
        d = dl.negate(d) if negated else d
        both = dl.apply_if(d, d, lambda s, t: "both", lambda s, t: s < t).probs().sum()
    (plain,) = torch.autograd.grad(both, x, retain_graph=True)
    assert plain.tolist() == [[0.0, 0.0]]
    with pytest.raises(dl.UnsupportedError, match="exactly 0"):
        torch.autograd.grad(both, x, create_graph=True)


def test_what_rows_lack_is_no_factor_of_zero():
    x = torch.tensor([0.5, 0.25], dtype=torch.float64, requires_grad=True)
    d = dl.Distribution.from_rows([([0, 1], x), ([0], x[:1])], provenance="damp")
    both = dl.apply(d, d, lambda s, t: s + t).probs([0]).sum()  # 2 x₀²
    (first,) = torch.autograd.grad(both, x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    torch.testing.assert_close(second, torch.tensor([4.0, 0.0]).double())


@pytest.mark.parametrize("name", ["exact", "viterbi", "min-max"])
def test_a_recursion_over_nothing_by_what_is_new(name):
    with dl.using(name):
        d = dl.Distribution([0.5, 0.25], [0, 1], exclusive=False)
        found = dl.fixpoint(
            lambda e: dl.union(e, e.map(lambda s: (s + 1) % 3)), d, goal=lambda s: s > 9,
            only_new=True,
        )  # fmt: skip
    assert found.symbols == ()


@pytest.mark.parametrize("name", ["hamacher", "schweizer-sklar", "frank"])
@pytest.mark.parametrize("numbers", [[0.6, 0.6], [1.0, 0.6], [0.6, 1.0], [0.6, 0.7]])
def test_second_derivatives_where_operands_are_equal_or_one(name, numbers):
    """T is symmetric and smooth there; halves of a minimum and a maximum are not."""
    s = math.log(10.0)
    formula = {
        "hamacher": lambda a, b: a * b / (a + b - a * b),
        "schweizer-sklar": lambda a, b: (a**-2 + b**-2 - 1.0) ** -0.5,
        "frank": lambda a, b: torch.log1p(torch.expm1(s * a) * torch.expm1(s * b) / 9.0) / s,
    }[name]

    def both(x):
        d, e = (dl.Distribution(x[at : at + 1], [at], provenance=name) for at in (0, 1))
        return dl.apply(d, e, lambda a, b: "both").probs().sum()

    x = torch.tensor(numbers, dtype=torch.float64)
    wanted = torch.autograd.functional.hessian(lambda x: formula(x[0], x[1]), x)
    torch.testing.assert_close(torch.autograd.functional.hessian(both, x), wanted)


@pytest.mark.parametrize("name", ["dtkp-am", "dtkp-wmc"])
def test_proofs_with_draws_of_which_none_is_left(name):
    d = dl.Distribution([0.5, 0.3], [1, 2], provenance=dl.get_provenance(name, k=5))
    drawn = dl.apply(d, lambda x: dl.weighted({0: 0.25, x: 0.75}))
    assert dl.entropy(dl.filter(drawn, lambda x: x > 50)).tolist() == [0.0]


def test_proofs_without_facts_in_a_recursion_of_samples():
    """Nothing but certain symbols meet: there are no facts to write down."""

    @dl.batched
    def program(parts, shift):
        d = dl.Distribution.certain(shift)
        for part in parts:
            d = dl.apply(d, dl.Distribution(part, [3]), max)
        return dl.fixpoint(lambda e: dl.union(d, dl.apply(e, lambda s: (s + 1) % 3)), d)

    with dl.using("dtkp-am", k=1):
        found = program([[torch.tensor([0.25])], []], [1, 1])
    assert dict(found.row(0))[3] == pytest.approx(0.25)
    assert dict(found.row(1))[1] == 1.0
