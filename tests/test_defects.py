"""What went wrong once, where features meet: each of these was a wrong answer or a crash.

Random programs look for more of the kind (`test_random_programs.py`); these are the ones that are
known by name.
"""

from __future__ import annotations

import copy
import functools
import math
import pickle
import time

import pytest
import torch

import dolphin as dl

PROOFS = ["exact", "dtkp-am", "dtkp-wmc"]
SEVERAL = ["damp", *PROOFS, "noisy-or", "viterbi", "min-max", "lukasiewicz", "hamacher"]


def add(x, y):
    return x + y


# -- facts and rows


@pytest.mark.parametrize("name", PROOFS)
def test_a_stack_knows_the_facts_of_its_parts(name):
    with dl.using(name):
        a, b = (dl.Distribution([[0.5, 0.5]], [0, 1]) for _ in range(2))
        stacked = dl.Distribution.stack([a, b])
        assert (stacked == a).prob_of([True, True]).tolist() == pytest.approx([1.0, 0.5])
        again = dl.Distribution.stack([a, b])
        assert (stacked == again).prob_of([True, True]).tolist() == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize("name", PROOFS)
def test_stacks_of_the_same_part_with_different_numbers_of_rows(name):
    with dl.using(name):
        a, c = dl.Distribution([[0.3, 0.7]], [0, 1]), dl.Distribution([[0.5, 0.5]], [0, 1])
        f = dl.Distribution([[0.2, 0.3, 0.5]], [0, 1, 2])
        e = dl.Distribution([[0.1, 0.9], [0.4, 0.6]], [0, 1])
        first = dl.Distribution.stack([dl.apply(a, e, lambda x, y: x), f])
        second = dl.Distribution.stack([a, f])
        third = dl.Distribution.stack([dl.apply(a, c, lambda x, y: x), f])
    own, other = [0.3, 0.7, 0.0], [0.2, 0.3, 0.5]
    for made, rows in ((first, [own, own, other]), (second, [own, other]), (third, [own, other])):
        torch.testing.assert_close(made.probs([0, 1, 2]), torch.tensor(rows))


@pytest.mark.parametrize("name", PROOFS)
def test_a_row_that_meets_another_row_of_its_own_input_teaches_both(name):
    """The second row's facts are put beside the first row's while proofs are searched."""
    x = torch.tensor([[0.1, 0.2], [0.4, 0.3]], dtype=torch.float64, requires_grad=True)
    d = dl.Distribution(x, [0, 1], exclusive=False, provenance=name)
    both = dl.apply(d, d[[1, 1]], add).prob_of([2, 2])  # 1 in this row and 1 in the other one
    assert both.tolist() == pytest.approx([0.2 * 0.3, 0.3])
    (gradient,) = torch.autograd.grad(both[0], x)
    torch.testing.assert_close(gradient, torch.tensor([[0.0, 0.3], [0.0, 0.2]]).double())


@pytest.mark.parametrize("name", PROOFS)
def test_a_stack_meets_one_of_its_parts_in_rows_of_other_parts(name):
    """The part stands for all rows at once, and must not be taken for the row of another part."""
    with dl.using(name):
        a = dl.Distribution([[0.6, 0.4]], [1, 2], exclusive=False)
        b = dl.Distribution([[0.1, 0.9]], [1, 3], exclusive=False)
        both = dl.apply(dl.Distribution.stack([a, b, a]), a, lambda x, y: (x, y))
    found = both.probs([(1, 1), (3, 1)])
    torch.testing.assert_close(found, torch.tensor([[0.6, 0.0], [0.06, 0.54], [0.6, 0.0]]))


@pytest.mark.parametrize("name", [*SEVERAL, "boolean"])
def test_a_sample_keeps_all_of_a_short_row_in_both_layouts(name):
    """Impossible symbols included, which a negation makes certain."""
    logits = torch.tensor([[0.0, -math.inf], [1.0, 0.0]])
    with dl.using(name):
        shared = dl.Distribution.from_logits(logits, [0, 1])
        wide = dl.Distribution.from_rows([(range(3), [0.2, 0.3, 0.5])])
        rows = dl.Distribution.stack([shared, wide])
        for d in (shared, rows):
            assert [s for s, _ in dl.sample(d, 2).row(0)] == [0, 1]
            assert dl.negate(dl.sample(d, 2)).row(0)[1] == (1, 1.0)


@pytest.mark.parametrize("name", SEVERAL)
def test_a_branch_that_is_not_taken_has_rows_all_the_same(name):
    with dl.using(name):
        one, two = dl.Distribution([[0.5]], [1]), dl.Distribution([[0.5, 0.5]] * 2, [1, 2])
        result = dl.where(one > 5, two, one)
        assert result.batch_size == 2
        assert result.row(1) == [(1, pytest.approx(result.row(0)[0][1]))]
        with pytest.raises(dl.MismatchError):
            dl.where(dl.Distribution([[0.5]] * 3, [False]), two, one)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("name", ["dtkp-am", "dtkp-wmc"])
def test_three_operands_of_which_the_last_has_more_rows(name, k):
    a, b, c = (torch.rand(rows, 4).softmax(1) for rows in (1, 1, 4))
    with dl.using(name, k=k):
        one, other, many = (dl.Distribution(x, range(4)) for x in (a, b, c))
        found = dl.apply(one, other, many, lambda x, y, z: x + y + z)
        spread = dl.Distribution(a.expand(4, 4), range(4))
        wanted = dl.apply(spread, other, many, lambda x, y, z: x + y + z)
    torch.testing.assert_close(found.probs(), wanted.probs())


@pytest.mark.parametrize("name", [*SEVERAL, "boolean"])
def test_negation_leaves_the_padding_of_short_rows_alone(name):
    rows = [(["a", "b", "c"], [0.2, 0.3, 0.5]), (["x", "y"], [0.6, 0.4])]
    negated = dl.negate(dl.Distribution.from_rows(rows, provenance=name))
    assert [symbol for symbol, _ in negated.row(1)] == ["x", "y"]
    if name != "boolean":
        assert negated.argmax() == ["a", "y"]
        assert dl.sample(negated, 1).row(1) == [("y", 0.6)]


def test_groups_of_each_row_are_checked_by_that_row():
    rows = [([0, 1, 2], [0.5, 0.5, 0.9]), ([0], [0.7])]
    d = dl.Distribution.from_rows(rows, exclusive=[[[0, 1]], False], provenance="exact")
    assert (d == d).prob_of([True, True]).tolist() == pytest.approx([1.0, 0.7])
    with pytest.raises(dl.InputError, match=r"row 1.*column 1"):
        dl.Distribution.from_rows(rows, exclusive=[[0, 1]])


# -- certain operands, precision, memory


@pytest.mark.parametrize("name", SEVERAL)
def test_a_program_has_the_precision_of_its_inputs(name):
    x = torch.tensor([[0.1, 0.9]], dtype=torch.float64, requires_grad=True)
    with dl.using(name):
        flags = dl.union(dl.Distribution.certain(0), dl.Distribution.certain(1))
        for order in (slice(None), slice(None, None, -1)):
            probs = dl.apply(*(flags, dl.Distribution(x, [0, 1]))[order], add).probs()
            assert probs.dtype == torch.float64
            assert probs[0, 0].item() == pytest.approx(0.1, abs=1e-12)
            probs.sum().backward()


@pytest.mark.parametrize("name", PROOFS)
@pytest.mark.parametrize("several", [1, 2])
def test_certain_operands_repeat_no_proof(name, several):
    """Two certain symbols give each proof twice; it counts once, or P would be twice as large."""
    with dl.using(name):
        d = dl.Distribution([[0.3, 0.2], [0.1, 0.6]], [0, 1])
        rows = dl.Distribution.from_rows([([0, 1], [0.3, 0.2]), ([1, 0], [0.6, 0.1])])
        flags = dl.union(dl.Distribution.certain(5), dl.Distribution.certain(6))
        for given in (d, rows):
            result = dl.apply(given, *[flags] * several, lambda x, *others: x)
            torch.testing.assert_close(result.probs([0, 1]), d.probs())
        module = dl.trace(lambda x: dl.apply(x, flags, lambda x, flag: x), [0, 1])
    torch.testing.assert_close(module.probs(d.probs()), d.probs())


def test_certain_operands_fit_any_provenance():
    certain = dl.Distribution.certain(1)
    for name in SEVERAL:
        d = dl.Distribution([0.25, 0.5], [0, 1], provenance=name)
        assert dl.union(certain, d).row(0) == [(1, 1.0), (0, 0.25)]
        assert dl.Distribution.stack([certain, d]).row(1) == [(0, 0.25), (1, 0.5)]
        module = dl.trace(lambda d: dl.union(certain, d), [0, 1], provenance=name)
        found = module.probs(torch.tensor([[0.25, 0.5]]))
        torch.testing.assert_close(found, torch.tensor([[1.0, 0.25]]))


@pytest.mark.parametrize("name", SEVERAL)
def test_nothing_shares_memory_with_what_a_user_can_write_to(name):
    given = torch.tensor([[0.2, 0.8]])
    d = dl.Distribution(given, "ab", provenance=name)
    given.zero_()
    d.probs().zero_()
    d.log_probs().zero_()
    assert d.row(0) == [("a", 0.2), ("b", 0.8)]


# -- numbers at the edges


@pytest.mark.parametrize("name", SEVERAL)
def test_a_masked_logit_is_probability_zero(name):
    logits = torch.tensor([[-math.inf, 0.0, 1.0]])
    d = dl.Distribution.from_logits(logits, "abc", exclusive=False, provenance=name)
    assert [p for _, p in d.row(0)] == pytest.approx([0.0, 0.5, 0.731059], abs=1e-5)
    both = dl.apply(d, d, add).prob_of(["bc"]).item()
    assert 0.2 < both < 0.6
    if name in ("damp", *PROOFS, "noisy-or", "viterbi"):
        assert both == pytest.approx(0.5 * 0.731059, abs=1e-5)


def test_a_single_symbol_can_not_be_masked():
    for rows in ([[-math.inf]], [[0.0], [-math.inf]]):
        with pytest.raises(dl.InputError, match="all logits of row"):
            dl.Distribution.from_logits(torch.tensor(rows), ["a"])
    assert dl.Distribution.from_logits([[-math.inf]], ["a"], exclusive=False).row(0) == [("a", 0.0)]


def test_yagers_sum_of_a_tiny_number_and_nothing():
    """In single precision 1 - (1 - 1e-8) is nothing, too."""
    x = torch.tensor([[1e-8, 0.0]], requires_grad=True)
    d = dl.Distribution(x, [0, 1], exclusive=False, provenance="yager")
    dl.apply(d, lambda s: True).probs().sum().backward()
    torch.testing.assert_close(x.grad, torch.tensor([[1.0, 0.0]]))


def test_a_sum_that_passes_one_by_more_than_rounding_is_clipped():
    x = torch.tensor([[0.5005, 0.5]], dtype=torch.float64, requires_grad=True)
    d = dl.Distribution(x, [0, 1], exclusive=False, provenance="damp")
    dl.apply(d, lambda s: True).probs().sum().backward()
    assert x.grad is not None and not x.grad.any()


@pytest.mark.parametrize("name", SEVERAL)
@pytest.mark.parametrize("layout", ["shared", "rows"])
def test_a_target_that_no_symbol_is_costs_the_same_everywhere(name, layout):
    probs = torch.tensor([[0.4, 0.6], [0.5, 0.5]], requires_grad=True)
    rows = [([0, 1], probs[0]), ([0, 1], probs[1])]
    d = dl.Distribution(probs, [0, 1], provenance=name)
    if layout == "rows":
        d = dl.Distribution.from_rows(rows, provenance=name)
    losses = dl.nll_loss(d, [99, 0], reduction="none")
    assert losses.tolist() == pytest.approx([1e4, math.log(2)])
    matched = dl.nll_loss(d, [99, 0], match=lambda symbol, target: symbol == target)
    assert matched.item() == pytest.approx((1e4 + math.log(2)) / 2)
    losses.sum().backward()


# -- tracing


EDGES = [(0, 1), (1, 2), (2, 3), (0, 2), (0, 3), (1, 3)]


@pytest.mark.parametrize("name", SEVERAL)
def test_a_traced_fixpoint_goes_on_until_tags_have_settled(name):
    def program(edges):
        def step(paths):
            on = (lambda p: p[1], lambda e: e[0])
            return dl.union(edges, dl.apply_if(paths, edges, lambda p, e: (p[0], e[1]), on=on))

        return dl.fixpoint(step, edges)

    probs = torch.tensor([[0.9, 0.9, 0.9, 0.01, 0.01, 0.01]])
    with dl.using(name):
        eager = program(dl.Distribution(probs, EDGES, exclusive=False))
        module = dl.trace(program, EDGES, exclusive=False)
    torch.testing.assert_close(module.probs(probs), eager.probs(list(module.symbols)))


@pytest.mark.parametrize("name", SEVERAL)
def test_a_traced_program_may_have_no_result(name):
    module = dl.trace(lambda d: dl.filter(d, lambda s: s > 5), [0, 1], provenance=name)
    assert module.symbols == ()
    assert module(torch.tensor([[0.5, 0.5]])).shape == (1, 0)


@pytest.mark.parametrize("name", SEVERAL)
def test_a_traced_program_has_the_rows_that_it_speaks_of(name):
    module = dl.trace(lambda d: dl.union(d, dl.Distribution.certain(5, batch=2)), [0, 1],
                      provenance=name)  # fmt: skip
    assert module(torch.tensor([[0.5, 0.25]])).shape == (2, 3)
    assert module(torch.tensor([[0.5, 0.25], [0.5, 0.5]])).shape == (2, 3)
    with pytest.raises(dl.InputError, match="fixed to 2 rows"):
        module(torch.full((3, 2), 0.5))


@pytest.mark.parametrize("name", ["exact", "dtkp-wmc", "damp", "noisy-or"])
def test_a_traced_program_has_gradients_at_0_and_1_in_single_precision(name):
    probs = torch.tensor([[1.0, 0.0, 0.5]], requires_grad=True)
    module = dl.trace(dl.negate, "abc", exclusive=False, provenance=name)
    (gradient,) = torch.autograd.grad(module.probs(probs).sum(), probs)
    torch.testing.assert_close(gradient, -torch.ones(1, 3))


@pytest.mark.parametrize("how", [copy.deepcopy, lambda d: pickle.loads(pickle.dumps(d))])
def test_a_traced_program_can_not_copy(how):
    with pytest.raises(dl.UnsupportedError, match="copies or pickles"):
        dl.trace(lambda d: dl.apply(how(d), lambda s: s), [0, 1])


# -- algebra


@pytest.mark.parametrize("name", SEVERAL)
def test_reduce_is_apply_from_left_to_right(name):
    numbers = [torch.rand(2, 3) for _ in range(4)]
    with dl.using(name):
        each = [dl.Distribution(x, range(3), exclusive=False) for x in numbers]
        found = dl.reduce(lambda x, y: (x + y) % 3, each)
        wanted = functools.reduce(lambda x, y: dl.apply(x, y, lambda u, v: (u + v) % 3), each)
    torch.testing.assert_close(found.probs([0, 1, 2]), wanted.probs([0, 1, 2]))


def test_many_operands_are_combined_two_at_a_time():
    with dl.using("dtkp-am", k=16):
        each = [dl.Distribution(torch.rand(2, 5), range(5), exclusive=False) for _ in range(3)]
        x = dl.apply(*each, lambda a, b, c: (a + 2 * b + 3 * c) % 5)
        start = time.process_time()
        dl.apply(x, x, x, x, lambda *symbols: sum(symbols) % 5)
    assert time.process_time() - start < 20  # k⁴ unions a combination would take minutes


@pytest.mark.parametrize("name", PROOFS)
def test_copies_are_the_same_facts(name):
    d = dl.Distribution([[0.5, 0.5]], [0, 1], provenance=name)
    for other in (copy.deepcopy(d), pickle.loads(pickle.dumps(d))):
        assert (other == d).prob_of([True]).item() == pytest.approx(1.0)
