"""Folds over many operands: computed at once when they are read, and the same as step by step."""

from __future__ import annotations

import functools
import gc
import threading
import weakref

import numpy as np
import pytest
import torch

import dolphin as dl
from dolphin.execution import deferred, run
from dolphin.execution.deferred import Deferred
from dolphin.execution.indices import Contraction, Convolution
from dolphin.execution.tagged import tagged_of
from dolphin.provenance.contract import Deferral
from dolphin.provenance.damp import chains, steps, sums
from dolphin.provenance.damp import provenance as damp
from dolphin.provenance.damp.chains import plain_chain
from dolphin.provenance.damp.convolution import log_convolution
from dolphin.provenance.damp.sums import Tree
from dolphin.provenance.numerics import ZERO
from dolphin.provenance.topk import provenance as topk
from dolphin.settings import current_settings


def add(x, y):
    return x + y


def multiply(x, y):
    return x * y


def fold(function, digits, *, at_once):
    """All steps at once, or every step read before the next."""
    total = digits[0]
    for digit in digits[1:]:
        total = dl.apply(total, digit, function)
        assert isinstance(tagged_of(total).made, Deferred)
        if not at_once:
            dl.get_probs(total)
    return total


def digits_of(logits, count=10):
    return [dl.Distribution.from_logits(part, range(count)) for part in logits.unbind(1)]


def log_fold(function, logits):
    """The definition, in double precision and log space, by plain torch and Python."""
    table = dict(enumerate(logits[:, 0].double().log_softmax(1).unbind(1)))
    for place in range(1, logits.shape[1]):
        other = logits[:, place].double().log_softmax(1).unbind(1)
        terms: dict[int, list[torch.Tensor]] = {}
        for x, p in table.items():
            for y, q in enumerate(other):
                terms.setdefault(function(x, y), []).append(p + q)
        table = {symbol: torch.stack(logs).logsumexp(0) for symbol, logs in terms.items()}
    return table


@pytest.mark.parametrize("function", [add, multiply])
@pytest.mark.parametrize("scale", [1.0, 8.0, 30.0, 300.0], ids=lambda s: f"scale {s:g}")
def test_a_fold_is_the_definition(function, scale):
    """Early in training, confident (double precision), and beyond any float (logarithms)."""
    logits = (torch.randn(3, 5, 10) * scale).requires_grad_()
    expected = log_fold(function, logits)
    found = dl.get_logits(fold(function, digits_of(logits), at_once=True), symbols=expected)
    wanted = torch.stack(list(expected.values()), 1)
    torch.testing.assert_close(found.double(), wanted.clamp(min=-1e4), rtol=1e-4, atol=1e-4)
    weights = torch.rand(wanted.shape[1])
    (gradient,) = torch.autograd.grad((found * weights).mean(), logits, retain_graph=True)
    (right,) = torch.autograd.grad((wanted.clamp(min=-1e4) * weights).mean(), logits)
    torch.testing.assert_close(gradient, right, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("function", [add, multiply])
def test_at_once_and_step_by_step(function):
    logits = torch.randn(4, 40 if function is add else 5, 10).requires_grad_()
    results = []
    for at_once in (True, False):
        total = fold(function, digits_of(logits), at_once=at_once)
        loss = -dl.get_logits(total)[:, 3].sum()
        results.append((dl.get_probs(total), *torch.autograd.grad(loss, logits)))
    torch.testing.assert_close(results[0], results[1])


def test_gradients_by_finite_differences():
    def program(*operands):
        total = functools.reduce(
            lambda t, x: dl.apply(t, dl.Distribution.from_logits(x, range(3)), add), operands[1:],
            dl.Distribution.from_logits(operands[0], range(3)),
        )  # fmt: skip
        return dl.get_logits(dl.apply(total, total, multiply))

    inputs = tuple(torch.randn(2, 3, dtype=torch.float64, requires_grad=True) for _ in range(3))
    assert torch.autograd.gradcheck(program, inputs)


def test_operands_of_one_row_take_part_in_all_rows():
    one = torch.randn(1, 4).requires_grad_()
    many = torch.randn(5, 2, 4).requires_grad_()
    parts = [dl.Distribution.from_logits(x, range(4)) for x in (many[:, 0], one, many[:, 1])]
    total = functools.reduce(lambda t, d: dl.apply(t, d, add), parts)
    spread = [one.expand(5, 4), many[:, 0], many[:, 1]]
    same = fold(add, [dl.Distribution.from_logits(x, range(4)) for x in spread], at_once=False)
    torch.testing.assert_close(dl.get_probs(total), dl.get_probs(same))
    dl.get_logits(total)[:, 2].sum().backward()
    assert one.grad is not None and (one.grad != 0).all()


def test_the_gradient_mode_is_that_of_the_operation():
    d = dl.Distribution.from_logits(torch.randn(2, 3, requires_grad=True), range(3))
    with torch.no_grad():
        without = dl.apply(d, d, add)
    total = dl.apply(without, d, add)
    with torch.no_grad():
        assert dl.get_probs(total).requires_grad is False
    assert not dl.get_probs(without).requires_grad
    assert dl.get_logits(total).requires_grad
    fresh = dl.apply(d, d, add)
    with torch.no_grad():
        fresh.argmax()
    assert dl.get_probs(fresh).requires_grad


@pytest.mark.parametrize("name", ["damp", "dtkp-am"])
def test_the_settings_are_those_of_the_operation(name, monkeypatch):
    """A chain that is written under a limit and read elsewhere is computed under that limit."""
    seen = []

    def chain(self, first, steps, *, original=Deferral.chain):
        seen.append(current_settings().chunk_elements)
        return original(self, first, steps)

    monkeypatch.setattr(Deferral, "chain", chain)
    monkeypatch.setattr(chains, "plain_chain", lambda *_: None)
    d = dl.Distribution.from_logits(torch.randn(2, 3), range(3), provenance=name)
    with dl.settings(chunk_elements=4321):
        total = dl.apply(dl.apply(d, d, add), d, add)
    with dl.settings(chunk_elements=99):
        dl.get_probs(total)
    assert seen == [4321]


def test_a_step_that_is_used_twice_is_computed_once():
    d = dl.Distribution.from_logits(torch.randn(2, 3), range(3))
    twice = dl.apply(d, d, add)
    first, second = dl.apply(twice, d, add), dl.apply(twice, d, multiply)
    assert not isinstance(tagged_of(twice).made, Deferred)
    doubled = d
    for _ in range(5):
        doubled = dl.apply(doubled, doubled, add)
    assert tagged_of(doubled).made.length == 1  # not 32 operands, but five steps
    assert dl.get_probs(doubled).sum(1).tolist() == pytest.approx([1, 1], abs=1e-5)
    for d in (first, second):
        assert dl.get_probs(d).sum(1).tolist() == pytest.approx([1, 1], abs=1e-5)


def test_steps_can_be_read_in_any_order():
    logits = torch.randn(2, 6, 10)
    digits = digits_of(logits)
    steps = [digits[0]]
    for digit in digits[1:]:
        steps.append(dl.apply(steps[-1], digit, add))
    expected = [dl.get_probs(fold(add, digits[:n], at_once=False)) for n in range(1, 7)]
    for place in (5, 0, 3, 4, 1, 2):
        torch.testing.assert_close(dl.get_probs(steps[place]), expected[place])


def test_sums_above_one_are_clipped_as_ever():
    p = torch.tensor([[0.9, 0.8], [0.2, 0.3]]).requires_grad_()
    d = dl.Distribution(p, [0, 1], exclusive=False)
    total = dl.apply(dl.apply(d, d, add), d, multiply)
    probs = dl.get_probs(total, symbols=[0, 1, 2])
    first = torch.stack([p[:, 0] ** 2, (2 * p[:, 0] * p[:, 1]).clamp(max=1), p[:, 1] ** 2], 1)
    zero = (first.sum(1) * p[:, 0] + first[:, 0] * p[:, 1]).clamp(max=1)
    wanted = torch.stack([zero, first[:, 1] * p[:, 1], first[:, 2] * p[:, 1]], 1)
    torch.testing.assert_close(probs, wanted)
    (found,) = torch.autograd.grad(probs[:, 1].sum(), p, retain_graph=True)
    (right,) = torch.autograd.grad(wanted[:, 1].sum(), p)
    torch.testing.assert_close(found, right)


def test_a_chain_says_when_numbers_do_not_allow_it():
    plan = Convolution((2, 2))
    fine = torch.tensor([[0.25], [0.75]]).log()
    assert plain_chain([fine, fine], [plan]) is not None
    small = torch.tensor([[0.0], [-100.0]])
    found = plain_chain([small, fine], [plan])  # in double precision
    assert found is not None
    torch.testing.assert_close(found[2], fine[1] - 100)
    assert plain_chain([small * 10, fine], [plan]) is None
    assert plain_chain([torch.zeros(2, 1), fine], [plan]) is None  # 2 in all


def test_what_was_read_holds_on_to_nothing():
    d = dl.Distribution.from_logits(torch.randn(2, 3), range(3))
    middle = dl.apply(d, d, add)
    total = dl.apply(middle, d, add)
    gone = weakref.ref(middle)
    del middle
    dl.get_probs(total)
    gc.collect()
    assert gone() is None


def test_a_provenance_that_gains_nothing_does_not_wait():
    d = dl.Distribution.from_logits(torch.randn(2, 4), range(4), provenance="min-max")
    assert not isinstance(tagged_of(dl.apply(d, d, add)).made, Deferred)


@pytest.mark.parametrize("function", [add, multiply])
@pytest.mark.parametrize(
    "provenance", [dl.DAMP(), dl.TopKProofs(k=3), dl.TopKProofs(k=2, wmc="exact")], ids=repr
)
def test_one_symbol_a_row_is_what_reading_all_gives(provenance, function, monkeypatch):
    """With few combinations looked at; targets that can't be reached among them."""
    for module in (damp, topk):
        monkeypatch.setattr(module, "_FEW", 0)
    monkeypatch.setattr(deferred, "_FEW_OF", 0)
    logits = torch.randn(4, 3, 6).requires_grad_()
    targets = [5, 10**6, 0, 12]
    results = []
    for reads_all in (False, True):
        with dl.using(provenance):
            total = fold(function, digits_of(logits, 6), at_once=True)
        if reads_all:
            dl.get_probs(total)
        loss = dl.nll_loss(total, targets, reduction="none")
        assert isinstance(tagged_of(total).made, Deferred) is not reads_all
        results.append((loss, *torch.autograd.grad(loss.sum(), logits)))
    torch.testing.assert_close(results[0], results[1])
    assert results[0][0][1] > 60  # can't be reached


def test_one_symbol_a_row_of_operands_that_are_the_same_in_all_rows(monkeypatch):
    monkeypatch.setattr(damp, "_FEW", 0)
    monkeypatch.setattr(deferred, "_FEW_OF", 0)
    one = dl.Distribution([0.2, 0.3, 0.5], range(3))
    many = dl.Distribution(torch.tensor([[0.1, 0.9], [0.4, 0.6]]), range(2))
    for pair in ((one, many), (many, one)):
        found = dl.apply(*pair, add).prob_of([1, 3])
        assert found.tolist() == pytest.approx([0.2 * 0.9 + 0.3 * 0.1, 0.5 * 0.6])


@pytest.mark.parametrize("function", [add, multiply])
@pytest.mark.parametrize("scale", [1.0, 40.0, 400.0], ids=lambda s: f"scale {s:g}")
def test_the_label_of_a_confident_network(function, scale):
    """Everything but the label is next to impossible; only the label matters for the range."""
    right = torch.tensor([[3, 1, 4], [2, 7, 1]])
    for wrong in (False, True):
        logits = torch.randn(2, 3, 10)
        logits.scatter_(2, right[:, :, None], scale)
        logits.requires_grad_()
        targets = [int(functools.reduce(function, row)) + 2 * wrong for row in right.tolist()]
        loss = dl.nll_loss(fold(function, digits_of(logits), at_once=True), targets)
        expected = log_fold(function, logits)
        wanted = -torch.stack([expected[t][row] for row, t in enumerate(targets)]).mean()
        torch.testing.assert_close(loss.double(), wanted, rtol=1e-4, atol=1e-5)
        (found,) = torch.autograd.grad(loss, logits)
        (gradient,) = torch.autograd.grad(wanted, logits)
        torch.testing.assert_close(found, gradient, rtol=1e-3, atol=1e-5)


def test_a_label_costs_only_its_own_combinations(monkeypatch):
    """Every sum of two wide operands would be all their products, in every row."""
    monkeypatch.setattr(damp, "_FEW", 80_000)  # exactly as many as there are
    p = torch.rand(2, 200, dtype=torch.float64).softmax(1).requires_grad_()
    d, e = (dl.Distribution(numbers, range(200)) for numbers in (p, p.flip(1)))
    total = dl.apply(d, e, add)
    found = total.prob_of([0, 300])
    assert isinstance(tagged_of(total).made, Deferred)
    wanted = [
        p[0, 0] * p[0, 199],
        (p[1, 101:] * p[1, :99]).sum(),  # 199 - (300 - i) is i - 101
    ]
    torch.testing.assert_close(found, torch.stack(wanted))


def test_whole_products_keep_every_group():
    group_of = torch.tensor([0, 1, 1, 2, 0, 2]).numpy()
    indices = [torch.tensor(i).numpy() for i in ([0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1])]
    plan = Contraction(indices, group_of, 3, (3, 2))
    a, b = torch.rand(3, 2).softmax(0), torch.rand(2, 2).softmax(0)
    found = plain_chain([a.log(), b.log()], [plan])
    products = (a[:, None] * b).view(6, 2)
    wanted = torch.zeros(3, 2).index_add_(0, torch.tensor(group_of), products).log()
    torch.testing.assert_close(found, wanted)


def some_pairs(total, digit):
    return dl.apply_if(total, digit, lambda x, y: x * y % 11, lambda x, y: (x + y) % 3 != 1)


def some_of_three(total, digit):
    allowed = dl.Distribution.certain(frozenset({0, 1, 4, 5}), batch=total.batch_size)
    return dl.apply_if(
        total, digit, allowed, lambda x, y, _: (x + 2 * y) % 7, lambda x, y, z: x * y % 6 in z
    )


def all_pairs(total, digit):
    return dl.apply(total, digit, multiply)


@pytest.mark.parametrize("step", [some_pairs, some_of_three, all_pairs])
@pytest.mark.parametrize("scale", [1.0, 30.0, 300.0], ids=lambda s: f"scale {s:g}")
def test_some_pairs_and_labels_alone(step, scale, monkeypatch):
    """Plain numbers, double precision, logarithms: the same as step by step."""
    logits = (torch.randn(3, 5, 4) * scale).requires_grad_()
    total = functools.reduce(step, digits_of(logits, 4))
    assert isinstance(tagged_of(total).made, Deferred)
    targets = [total.symbols[place] for place in (0, 1, -1)]
    losses = [dl.nll_loss(total, targets)]
    weights = torch.rand(len(total.symbols))
    losses.append((dl.get_logits(functools.reduce(step, digits_of(logits, 4))) * weights).mean())
    monkeypatch.setattr(run, "defer", lambda *_: None)
    total = functools.reduce(step, digits_of(logits, 4))
    expected = [dl.nll_loss(total, targets), (dl.get_logits(total) * weights).mean()]
    for found, wanted in zip(losses, expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
        grads = [torch.autograd.grad(each, logits, retain_graph=True) for each in (found, wanted)]
        torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-5)


def test_pairs_that_may_pass_one_are_not_put_off():
    """A pair that occurs twice, and operands that are not exclusive."""
    x, y = digits_of(torch.randn(2, 2, 3), 3)
    some = dl.Distribution([0.9, 0.8, 0.7], range(3), exclusive=False)
    both = dl.union(dl.Distribution.certain(5, batch=2), dl.Distribution.certain(6, batch=2))
    for total in (
        dl.apply_if(x, some, add, lambda a, b: a != b),
        dl.apply_if(some, y, add, lambda a, b: a != b),
        dl.apply_if(x, y, both, lambda a, b, c: a + b, lambda a, b, c: a != b),
    ):
        assert not isinstance(tagged_of(total).made, Deferred)
    pairs = [np.array([0, 0, 1]), np.array([1, 1, 0])]
    assert not Contraction(pairs, np.array([0, 1, 1]), 2).distinct
    assert Contraction([pairs[0][1:], pairs[1][1:]], np.array([0, 1]), 2).distinct


@pytest.mark.parametrize("count", [4, 5, 6, 7, 10, 13])
@pytest.mark.parametrize("whole", [True, False], ids=["whole", "one per row"])
def test_a_tree_of_sums_is_the_chain(count, whole, monkeypatch):
    """Numbers of operands that are even and odd at some level; certain and impossible symbols."""
    logs = torch.randn(count, 3, 4, dtype=torch.float64).log_softmax(1)
    if not whole:  # with a product of 0 plain numbers can't be read as a whole
        logs[0, :, 1] = torch.tensor([ZERO, 0.0, ZERO])
    operands = [each.clone().requires_grad_() for each in logs]
    plans = [Convolution((2 * step + 1, 3)) for step in range(1, count)]
    wanted = None if whole else np.array([0, 1, count, 2 * count])
    assert Tree.of(operands, plans, wanted) is not None
    results = []
    for tree in (True, False):
        if not tree:
            monkeypatch.setattr(Tree, "of", lambda *_: None)
        found = plain_chain(operands, plans, wanted)
        weights = torch.linspace(0.2, 1.0, found.numel(), dtype=torch.float64).view(found.shape)
        results.append((found, torch.autograd.grad(found, operands, weights)))
    torch.testing.assert_close(results[0], results[1], rtol=1e-12, atol=1e-14)


def test_kept_lines_of_sums_are_used_by_one_at_a_time():
    """Zeros are kept for the next sum of the same shape, and belong to one thread while in use."""
    count, width, rows = 15, 10, 3
    plans = [Convolution((width + 9 * step, width)) for step in range(count - 1)]
    drawn = [torch.rand(count, width, rows).log_softmax(1) for _ in range(20)]
    sums._lines.clear()
    alone = [plain_chain(list(operands.unbind()), plans) for operands in drawn]
    assert len(sums._lines)  # they are kept, and full of what the last sums left
    again: dict[int, list[torch.Tensor | None]] = {}

    def work(number):
        again[number] = [plain_chain(list(operands.unbind()), plans) for operands in drawn]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for results in again.values():
        for one, other in zip(alone, results, strict=True):
            assert one is not None and other is not None and torch.equal(one, other)
    with torch.inference_mode():  # and are ordinary tensors, wherever they were made
        sums._lines.clear()
        plain_chain(list(drawn[0].unbind()), plans)
    assert not any(each.is_inference() for pair in sums._lines.values() for each in pair)


def test_lines_of_sums_of_the_latest_shapes_are_kept(monkeypatch):
    """A batch of another size is as quick as the first ones, however many sizes there were."""
    plans = [Convolution((3 + 2 * step, 3)) for step in range(7)]
    made, make = [], sums._new_lines
    monkeypatch.setattr(sums, "_new_lines", lambda *given: made.append(given) or make(*given))
    sums._lines.clear()
    for rows in range(1, 20):
        operands = list(torch.rand(8, 3, rows).log_softmax(1).unbind())
        made.clear()
        plain_chain(operands, plans)
        assert made
        made.clear()
        plain_chain(operands, plans)
        assert not made
    assert len(sums._lines) == sums._lines.limit


@pytest.mark.parametrize(("n", "m"), [(200, 150), (150, 200)])
def test_large_sums_are_added_up_in_pieces(n, m):
    """With more terms than are worked on at once; compared with logarithms."""
    a, b = (torch.randn(size, 8).log_softmax(0).requires_grad_() for size in (n, m))
    assert min(n, m) * (n + m) * 8 > steps._LARGE
    found, wanted = plain_chain([a, b], [Convolution((n, m))]), log_convolution(a, b, clip=True)
    torch.testing.assert_close(found, wanted)
    weights = torch.rand_like(wanted)
    torch.testing.assert_close(
        torch.autograd.grad(found, (a, b), weights),
        torch.autograd.grad(wanted, (a, b), weights),
        rtol=1e-4,
        atol=1e-6,
    )


# -- reduce ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["damp", "viterbi", "min-max", "dtkp-am"])
@pytest.mark.parametrize("count", [1, 2, 3, 7, 8])
def test_reduce_is_a_fold_from_left_to_right(name, count):
    """With a function that does not commute, and operands some of which have other symbols."""
    logits = torch.randn(3, count, 2, dtype=torch.float64)
    found = []
    for fold_all in (dl.reduce, functools.reduce):
        leaf = logits.clone().requires_grad_()
        with dl.using(dl.get_provenance(name)):
            parts = dl.Distribution.each_from_logits(leaf, "ab")
            if count > 4:
                parts[4] = dl.Distribution.from_logits(leaf[:, 4], "ax")
                parts[-1] = dl.Distribution.certain("c")
        if fold_all is dl.reduce:
            whole = dl.reduce(add, parts)
        else:
            whole = functools.reduce(lambda x, y: dl.apply(x, y, add), parts)
        probs = dl.get_probs(whole, symbols=sorted(whole.symbols))
        (probs * torch.arange(1.0, probs.shape[1] + 1)).sum().backward()
        found.append((sorted(whole.symbols), probs, leaf.grad))
    assert found[0][0] == found[1][0]
    torch.testing.assert_close(found[0][1:], found[1][1:])


def test_reduce_joins_all_pairs_at_once():
    """A thousand operands take as many operations as the tree has levels."""
    parts = dl.Distribution.each_from_logits(torch.zeros(2, 1000, 2), [0, 1])
    dl.reduce(max, parts)
    with dl.profile() as seen:
        whole = dl.reduce(max, parts)
    assert sum(entry.calls for entry in seen.entries if entry.operation == "apply") < 20
    assert whole.row(1)[0] == (0, 0.0)


def test_pieces_of_rows_give_the_same(monkeypatch):
    plan = Convolution((5, 3))
    operands = [torch.randn(n, 40, dtype=torch.float64).log_softmax(0) for n in (5, 3)]
    found = []
    # all at once, some rows, some terms, and one term at a time
    for large, in_cache in ((10**6, 10**6), (16 * 5 * 7 + 1, 10**6), (8, 600), (8, 8)):
        monkeypatch.setattr(steps, "_LARGE", large)
        monkeypatch.setattr(steps, "_IN_CACHE", in_cache)
        leaves = [operand.clone().requires_grad_() for operand in operands]
        sums = plain_chain(leaves, [plan])
        assert sums is not None
        (sums * torch.arange(40.0)).sum().backward()
        found.append((sums, *(leaf.grad for leaf in leaves)))
    for other in found[1:]:
        torch.testing.assert_close(other, found[0])


def test_a_fold_without_any_pair_has_second_derivatives():
    p = torch.tensor([[0.75, 0.25]], dtype=torch.float64, requires_grad=True)
    d = dl.Distribution(p, [1, 4])
    nothing = dl.apply_if(d, d, lambda a, b: a + b, on=(lambda a: 0, lambda b: b))
    assert nothing.symbols == ()
    value = (nothing.probs(symbols=[5]) + d.probs(symbols=[1]) ** 2).sum()
    (g,) = torch.autograd.grad(value, p, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), p)
    torch.testing.assert_close(h, torch.tensor([[2.0, 0.0]], dtype=torch.float64))
