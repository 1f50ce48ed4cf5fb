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
