"""The same question asked in two ways gets the same answer."""

from __future__ import annotations

import itertools
import operator

import pytest
import torch

import compare
import dolphin as dl
from programs import PROGRAMS

PROVENANCES = {
    "damp": dl.DAMP(),
    "top-1": dl.TopKProofs(k=1),
    "top-3": dl.TopKProofs(k=3),
    "top-30": dl.TopKProofs(k=30),
}
each_provenance = pytest.mark.parametrize(
    "provenance", PROVENANCES.values(), ids=PROVENANCES.keys()
)
SAFE = [p for p in PROGRAMS if not p.negates and p.name != "nothing_left"]
each_program = pytest.mark.parametrize("program", SAFE, ids=lambda p: p.name)
FEW = [p for p in SAFE if p.name in {
    "sum_in_a_chain", "minus_what_was_added", "closure_of_chain", "shape_and_colour", "division",
    "redundant_derivation", "joined_by_key", "five_operands",
}]  # fmt: skip
few_programs = pytest.mark.parametrize("program", FEW, ids=lambda p: p.name)


def draw(shape, batch=4):
    probs = torch.rand(batch, len(shape.symbols), dtype=torch.float64)
    return probs / probs.sum(dim=1, keepdim=True) if shape.exclusive is not False else probs


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def softmax(batch, n):
    return torch.randn(batch, n, dtype=torch.float64).softmax(dim=1)


def as_rows(d_probs, shape, provenance):
    """The same input with every row listing its own symbols."""
    rows = [(list(shape.symbols), row) for row in d_probs]
    exclusive = [shape.exclusive] * len(rows)
    return dl.Distribution.from_rows(rows, exclusive=exclusive, provenance=provenance)


@each_provenance
@each_program
def test_batched_equals_row_by_row(program, provenance):
    probs = [draw(shape) for shape in program.shapes]
    together = compare.evaluate(program, probs, provenance)
    for b in range(4):
        alone = compare.evaluate(program, [p[b : b + 1] for p in probs], provenance)
        assert compare.same_symbols(list(alone.symbols), list(together.symbols))
        close(dl.get_probs(together)[b : b + 1], dl.get_probs(alone))


@each_provenance
@few_programs
def test_shared_equals_per_row(program, provenance):
    """Values and gradients do not depend on the layout."""
    probs = [draw(shape).requires_grad_() for shape in program.shapes]
    shared = compare.evaluate(program, probs, provenance)
    rows = program(
        dl, *(as_rows(p, s, provenance) for p, s in zip(probs, program.shapes, strict=True))
    )
    symbols = list(shared.symbols)
    expected, found = dl.get_probs(shared), dl.get_probs(rows, symbols=symbols)
    close(found, expected)
    weights = torch.linspace(0.5, 2, found.numel(), dtype=torch.float64).view_as(found)
    for a, b in zip(
        torch.autograd.grad((found * weights).sum(), probs),
        torch.autograd.grad((expected * weights).sum(), probs),
        strict=True,
    ):
        close(a, b)


@each_provenance
def test_rows_with_different_symbols(provenance):
    """A per-row batch is its rows, each on its own."""
    lists = [[0, 1, 2], [2, 5], ["x"]]
    probs = [softmax(1, len(symbols))[0] for symbols in lists]
    batch = dl.Distribution.from_rows(list(zip(lists, probs, strict=True)), provenance=provenance)
    doubled = dl.apply(batch, batch, lambda x, y: (x, y) if x == y else "different")
    for b, (symbols, p) in enumerate(zip(lists, probs, strict=True)):
        d = dl.Distribution(p, symbols, provenance=provenance)
        alone = dl.apply(d, d, lambda x, y: (x, y) if x == y else "different")
        expected = dict(zip(alone.symbols, dl.get_probs(alone)[0].tolist(), strict=True))
        found = {s: p for s, p in doubled.row(b) if p > 0}
        assert found == pytest.approx({s: p for s, p in expected.items() if p > 0}, rel=1e-5)


@each_provenance
def test_shared_with_per_row(provenance):
    shared_probs, targets = softmax(3, 10), [3, 5, 3]
    digits = dl.Distribution(shared_probs, range(10), provenance=provenance)
    target = dl.Distribution.certain_rows(targets, provenance=provenance)
    hit = dl.apply(digits, target, lambda d, t: d == t)
    expected = shared_probs[torch.arange(3), torch.tensor(targets)]
    close(dl.get_probs(hit, symbols=[True])[:, 0], expected)
    other_way = dl.apply(target, digits, lambda t, d: d == t)
    close(dl.get_probs(other_way, symbols=[True])[:, 0], expected)


@each_provenance
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_order_of_operands(provenance, order):
    inputs = [dl.Distribution(softmax(3, 4), range(4), provenance=provenance) for _ in range(3)]
    straight = dl.apply(*inputs, lambda *xs: sum(xs))
    turned = dl.apply(*(inputs[i] for i in order), lambda *xs: sum(xs))
    assert set(straight.symbols) == set(turned.symbols)
    close(dl.get_probs(turned, symbols=list(straight.symbols)), dl.get_probs(straight))


@each_provenance
@pytest.mark.parametrize("order", [(2, 0, 1, 3), (3, 2, 1, 0)])
def test_order_of_symbols(provenance, order):
    probs, other = softmax(3, 4), softmax(3, 4)
    d = dl.Distribution(probs, range(4), provenance=provenance)
    shuffled = dl.Distribution(probs[:, list(order)], list(order), provenance=provenance)
    e = dl.Distribution(other, range(4), provenance=provenance)
    f = operator.mul
    expected = dl.apply(d, e, f)
    close(
        dl.get_probs(dl.apply(shuffled, e, f), symbols=list(expected.symbols)),
        dl.get_probs(expected),
    )


@pytest.mark.parametrize("k", [3, 30])
@few_programs
def test_redundant_derivations_change_nothing(program, k):
    """Proofs are sets: the same result derived a second time is no news. DAMP would add it up."""
    probs = [draw(shape) for shape in program.shapes]
    inputs = compare.distributions(program, probs, dl.TopKProofs(k=k))
    result = program(dl, *inputs)
    again = dl.union(result, program(dl, *inputs), result)
    assert compare.same_symbols(list(again.symbols), list(result.symbols))
    close(dl.get_probs(again), dl.get_probs(result))


@each_provenance
@few_programs
def test_cached_equals_uncached(program, provenance):
    class Uncached:
        """The operations with cache=False."""

        filter, union, fixpoint = dl.filter, dl.union, dl.fixpoint

        @staticmethod
        def apply(*arguments):
            return dl.apply(*arguments, cache=False)

        @staticmethod
        def apply_if(*arguments, **options):
            return dl.apply_if(*arguments, **options, cache=False)

    for _ in range(3):  # the second and third time the plans are remembered
        probs = [draw(shape) for shape in program.shapes]
        inputs = compare.distributions(program, probs, provenance)
        cached, uncached = program(dl, *inputs), program(Uncached, *inputs)
        assert compare.same_symbols(list(cached.symbols), list(uncached.symbols))
        close(dl.get_probs(cached), dl.get_probs(uncached))


@each_provenance
def test_a_batch_of_one_is_broadcast(provenance):
    many, one = softmax(5, 3), softmax(1, 4)
    d = dl.Distribution(many, range(3), provenance=provenance)
    e = dl.Distribution(one, range(4), provenance=provenance)
    expanded = dl.Distribution(one.expand(5, 4), range(4), provenance=provenance)
    for f in (operator.add, operator.mul):
        expected = dl.get_probs(dl.apply(d, expanded, f))
        close(dl.get_probs(dl.apply(d, e, f)), expected)
    close(dl.get_probs(dl.union(d, e)), dl.get_probs(dl.union(d, expanded)))
    back = dl.apply(e, d, operator.sub)
    assert back.batch_size == 5


@each_provenance
def test_broadcast_gradients_add_up(provenance):
    one = softmax(1, 3).requires_grad_()
    many = softmax(4, 3)

    def loss(p):
        d = dl.Distribution(p, range(3), provenance=provenance)
        e = dl.Distribution(many, range(3), provenance=provenance)
        return dl.get_probs(dl.apply(d, e, operator.add)).pow(2).sum()

    (found,) = torch.autograd.grad(loss(one), one)
    (expected,) = torch.autograd.grad(loss(one.expand(4, 3)), one)
    close(found, expected)


@pytest.mark.parametrize("name", ["damp", "top-30"])  # with fewer proofs, a chain drops some early
@pytest.mark.parametrize("number", [1, 2, 3, 5])
def test_any_number_of_operands(name, number):
    """All at once or one after the other, when no proof has to be dropped."""
    provenance = PROVENANCES[name]
    inputs = [
        dl.Distribution(softmax(2, 2), range(2), provenance=provenance) for _ in range(number)
    ]
    at_once = dl.apply(*inputs, lambda *xs: sum(xs))
    chain = inputs[0]
    for following in inputs[1:]:
        chain = dl.apply(chain, following, operator.add)
    assert list(at_once.symbols) == list(chain.symbols)
    close(dl.get_probs(at_once), dl.get_probs(chain))


@each_provenance
def test_methods_and_operators_are_the_functions(provenance):
    d = dl.Distribution(softmax(2, 3), range(3), provenance=provenance)
    e = dl.Distribution(softmax(2, 3), range(3), provenance=provenance)
    pairs = [
        (d.apply(e, operator.add), dl.apply(d, e, operator.add)),
        (d + e, dl.apply(d, e, operator.add)),
        (d * e, dl.apply(d, e, operator.mul)),
        (d - e, dl.apply(d, e, operator.sub)),
        (d == e, dl.apply(d, e, operator.eq)),
        (d < e, dl.apply(d, e, operator.lt)),
        (d + 1, dl.apply(d, lambda x: x + 1)),
        (d.map(lambda x: x % 2), dl.apply(d, lambda x: x % 2)),
        ((d < e) & (d == e), dl.apply(d < e, d == e, lambda a, b: a and b)),
        (~(d < e), dl.apply(d < e, lambda a: not a)),
        (d**2, dl.apply(d, lambda x: x**2)),
        (2**d, dl.apply(d, lambda x: 2**x)),
        (True ^ (d < e), dl.apply(d < e, lambda a: not a)),
    ]
    for sugar, plain in pairs:
        assert list(sugar.symbols) == list(plain.symbols)
        close(dl.get_probs(sugar), dl.get_probs(plain))


@each_provenance
def test_where_keeps_the_other_rows(provenance):
    p, q = softmax(4, 3).requires_grad_(), softmax(4, 3)
    d = dl.Distribution(p, range(3), provenance=provenance)
    e = dl.Distribution(q, range(3), provenance=provenance)
    mask = torch.tensor([True, False, True, False])
    result = dl.apply(d, e, operator.add, where=mask)
    symbols = list(range(5))
    everywhere = dl.get_probs(dl.apply(d, e, operator.add), symbols=symbols)
    untouched = dl.get_probs(d, symbols=symbols)
    expected = torch.where(mask[:, None], everywhere, untouched)
    close(dl.get_probs(result, symbols=symbols), expected)
    (found,) = torch.autograd.grad(dl.get_probs(result, symbols=symbols)[1, 2], p)
    close(
        found, torch.eye(3, dtype=torch.float64)[2] * torch.eye(4, dtype=torch.float64)[1][:, None]
    )


@each_provenance
def test_sequences_of_different_lengths(provenance):
    """A loop with `where=` sums each row up to its own length."""
    steps, lengths = softmax(3 * 4, 3).view(3, 4, 3), torch.tensor([1, 2, 3, 1])
    total = dl.Distribution(steps[0], range(3), provenance=provenance)
    for t in range(1, 3):
        following = dl.Distribution(steps[t], range(3), provenance=provenance)
        total = dl.apply(total, following, operator.add, where=lengths > t)
    for b, length in enumerate(lengths.tolist()):
        alone = dl.Distribution(steps[0, b], range(3), provenance=provenance)
        for t in range(1, length):
            following = dl.Distribution(steps[t, b], range(3), provenance=provenance)
            alone = dl.apply(alone, following, operator.add)
        symbols = list(alone.symbols)
        close(dl.get_probs(total, symbols=symbols)[b], dl.get_probs(alone)[0])


@each_provenance
@pytest.mark.parametrize("mask", [[True] * 3, [False] * 3], ids=["all", "none"])
def test_where_of_all_or_no_rows(provenance, mask):
    d = dl.Distribution(softmax(3, 2), range(2), provenance=provenance)
    e = dl.Distribution(softmax(3, 2), range(2), provenance=provenance)
    result = dl.apply(d, e, operator.add, where=torch.tensor(mask))
    expected = dl.apply(d, e, operator.add) if mask[0] else d
    close(dl.get_probs(result, symbols=[0, 1, 2]), dl.get_probs(expected, symbols=[0, 1, 2]))


@each_provenance
def test_union_of_many(provenance):
    inputs = [
        dl.Distribution(softmax(2, 2) / 5, [i, i + 1], provenance=provenance) for i in range(5)
    ]
    at_once = dl.union(*inputs)
    folded = inputs[0]
    for following in inputs[1:]:
        folded = dl.union(folded, following)
    assert list(at_once.symbols) == list(folded.symbols) == list(range(6))
    close(dl.get_probs(at_once), dl.get_probs(folded))
    assert list(dl.union(inputs[0]).symbols) == [0, 1]


@each_provenance
def test_join_equals_condition(provenance):
    p, q = softmax(3, 6), softmax(3, 8)
    d = dl.Distribution(p, range(6), provenance=provenance)
    e = dl.Distribution(q, range(8), provenance=provenance)
    joined = dl.apply_if(d, e, lambda x, y: x * y, on=(lambda x: x % 3, lambda y: y % 4))
    plain = dl.apply_if(d, e, lambda x, y: x * y, lambda x, y: x % 3 == y % 4)
    assert list(joined.symbols) == list(plain.symbols)
    close(dl.get_probs(joined), dl.get_probs(plain))


@each_provenance
def test_condition_equals_filter_afterwards(provenance):
    d = dl.Distribution(softmax(3, 4), range(4), provenance=provenance)
    e = dl.Distribution(softmax(3, 4), range(4), provenance=provenance)
    early = dl.apply_if(d, e, operator.add, lambda x, y: (x + y) % 2 == 0)
    late = dl.filter(dl.apply(d, e, operator.add), lambda s: s % 2 == 0)
    assert list(early.symbols) == list(late.symbols)
    close(dl.get_probs(early), dl.get_probs(late))


@each_provenance
def test_sampling_everything_changes_nothing(provenance):
    d = dl.Distribution(softmax(3, 4), range(4), provenance=provenance)
    sampled = dl.sample(d, 10)
    close(dl.get_probs(sampled, symbols=range(4)), dl.get_probs(d))
    total = dl.apply(sampled, d, lambda x, y: x == y)
    expected = dl.apply(d, d, lambda x, y: x == y)
    close(dl.get_probs(total, symbols=[True]), dl.get_probs(expected, symbols=[True]))


@each_provenance
def test_sampling_keeps_the_likeliest_of_each_row(provenance):
    probs = softmax(6, 8)
    d = dl.Distribution(probs, range(8), provenance=provenance)
    sampled = dl.sample(d, 3)
    for b in range(6):
        likeliest = probs[b].topk(3)
        expected = dict(zip(likeliest.indices.tolist(), likeliest.values.tolist(), strict=True))
        assert dict(sampled.row(b)) == pytest.approx(expected, rel=1e-5)


@each_provenance
def test_categorical_sampling_is_reproducible(provenance):
    d = dl.Distribution(softmax(16, 8), range(8), provenance=provenance)

    def draw_rows(seed):
        generator = torch.Generator().manual_seed(seed)
        sampled = dl.sample(d, 3, method="categorical", generator=generator)
        return [sorted(s for s, _ in sampled.row(b)) for b in range(16)]

    assert draw_rows(1) == draw_rows(1)
    assert draw_rows(1) != draw_rows(2)
    assert all(1 <= len(row) <= 3 for row in draw_rows(1))


@each_provenance
def test_where_and_negation_do_not_depend_on_the_layout(provenance):
    """A row that `where=` left alone has no new symbols, so there is nothing to negate in it."""
    p, mask = softmax(2, 2), torch.tensor([True, False])
    shared = dl.Distribution(p, [0, 1], provenance=provenance)
    rows = dl.Distribution.from_rows([([0, 1], row) for row in p], provenance=provenance)
    for d in (shared, rows):
        moved = dl.apply(d, lambda x: x + 10, where=mask)
        assert [[s for s, _ in moved.row(b)] for b in range(2)] == [[10, 11], [0, 1]]
        expected = torch.zeros(2, 4, dtype=torch.float64)
        expected[0, 2:], expected[1, :2] = 1 - p[0], 1 - p[1]
        close(dl.get_probs(dl.negate(moved), symbols=[0, 1, 10, 11]), expected)


@each_provenance
def test_columns_asked_for_twice(provenance):
    p = softmax(2, 2)
    shared = dl.Distribution(p, [0, 1], provenance=provenance)
    rows = dl.Distribution.from_rows([([0, 1], row) for row in p], provenance=provenance)
    for d in (shared, rows):
        close(dl.get_probs(d, symbols=[1, 0, 1, True]), p[:, [1, 0, 1, 1]])


@each_provenance
def test_certain_symbols_everywhere(provenance):
    """What is certain fits in wherever something uncertain does."""
    p = softmax(2, 2)
    d = dl.Distribution(p, [0, 1], provenance=provenance)
    one = dl.Distribution.certain(1, batch=2, provenance=provenance)
    own = dl.Distribution.certain_rows([1, 5], provenance=provenance)
    close(dl.get_probs(dl.apply(d, one, operator.add)), p)
    close(dl.apply(d, own, operator.add).prob_of([1, 6]), torch.stack([p[0, 0], p[1, 1]]))
    for certain, expected in ((one, [1.0, 0.0]), (own, [1.0, 0.0])):
        assert certain.prob_of([1, 2]).tolist() == expected
        assert dl.get_probs(certain, symbols=[1]).shape == (2, 1)
        assert dl.get_probs(dl.negate(certain), symbols=[1])[0].tolist() == [0.0]
        assert dl.get_probs(dl.union(certain, d), symbols=[1])[0].tolist() == [1.0]
        assert dl.Distribution.stack([certain, d]).batch_size == 4
        assert dl.sample(certain, 1).row(0) == [(1, 1.0)]
        assert dl.apply(certain, certain, operator.add).row(0) == [(2, 1.0)]


@each_provenance
def test_stack_is_its_parts(provenance):
    p, q = softmax(2, 3), softmax(1, 2)
    d = dl.Distribution(p, [0, 1, 2], provenance=provenance)
    e = dl.Distribution(q, ["a", 1], provenance=provenance)
    both = dl.Distribution.stack([d, e])
    assert both.batch_size == 3
    probs = dl.get_probs(both, symbols=[0, 1, 2, "a"])
    close(probs[:2, :3], p)
    close(probs[2, [3, 1]], q[0])
    assert probs[2, 0] == probs[0, 3] == 0
    equal = dl.apply(both, both, lambda x, y: x == y)
    close(dl.get_probs(equal, symbols=[True])[:2], dl.get_probs(
        dl.apply(d, d, lambda x, y: x == y), symbols=[True]
    ))  # fmt: skip
