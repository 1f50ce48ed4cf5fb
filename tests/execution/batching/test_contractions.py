"""Contractions of samples with different structure, run as one: trees, shared parts, aliases."""

from __future__ import annotations

import random

import pytest
import torch

import dolphin as dl
from same_as_the_loop import assert_same_as_the_loop

OPERATIONS = {
    "+": lambda x, y: (x + y) % 4,
    "-": lambda x, y: (x - y) % 4,
    "max": max,
    "=": lambda x, y: x == y,
}
ALGEBRAS = [dl.DAMP(), dl.TopKProofs(k=1), dl.TopKProofs(k=3), dl.TopKProofs(k=3, wmc="exact")]


def tree(choice, leaves, among):
    """A random tree; leaves are numbers of the sample's inputs, perhaps more than once."""
    if leaves == 1:
        return choice.randrange(among)
    left = choice.randint(1, leaves - 1)
    operation = choice.choice(list(OPERATIONS))
    return (operation, tree(choice, left, among), tree(choice, leaves - left, among))


def value(node, inputs):
    if isinstance(node, int):
        return inputs[node]
    operation, left, right = node
    return dl.apply(value(left, inputs), value(right, inputs), OPERATIONS[operation])


def each_once(node, count):
    """The same tree over different inputs."""
    if isinstance(node, int):
        return next(count)
    operation, left, right = node
    return (operation, each_once(left, count), each_once(right, count))


def batch(seed, samples=7, most=6):
    choice = random.Random(seed)
    torch.manual_seed(seed)
    sizes = [choice.randint(1, most) for _ in range(samples)]
    rows = [
        [torch.randn(4, dtype=torch.float64, requires_grad=True) for _ in range(n)] for n in sizes
    ]
    return choice, sizes, rows


def leaves_of(rows):
    return [leaf for sample in rows for leaf in sample]


def program(node, rows):
    return value(node, [dl.Distribution.from_logits(row, range(4)) for row in rows])


@pytest.mark.parametrize("algebra", ALGEBRAS, ids=str)
@pytest.mark.parametrize("shared", [False, True], ids=["each once", "shared leaves"])
def test_trees(algebra, shared):
    for seed in range(3):
        choice, sizes, rows = batch(seed)
        trees = [tree(choice, n, n) for n in sizes]
        if not shared:
            trees = [each_once(node, iter(range(10))) for node in trees]
        with dl.using(algebra):
            assert_same_as_the_loop(program, (trees, rows), leaves_of(rows), 1e-8)


@pytest.mark.parametrize("algebra", ALGEBRAS[1:], ids=str)
def test_inputs_from_outside_are_the_same_facts_inside(algebra):
    numbers = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    one = torch.randn(4, dtype=torch.float64, requires_grad=True)
    with dl.using(algebra):
        rows = dl.Distribution.from_logits(numbers, range(4))
        alone = dl.Distribution.from_logits(one, range(4))
        second = dl.apply(alone, lambda x: 3 - x)

        def mixed(number, row):
            same = {0: alone, 1: alone[0], 2: rows[number], 3: second, 4: row}[number]
            inside = dl.Distribution.from_logits(2 * one, range(4))
            left = dl.apply(row, inside, OPERATIONS["+"])
            right = dl.apply(alone, same, OPERATIONS["-"])
            return dl.apply(left, right, OPERATIONS["max"])

        pairs = [[*range(5)], [rows[n] for n in range(5)]]
        assert_same_as_the_loop(mixed, pairs, [numbers, one], 1e-8)
        found = dl.batched(mixed)(range(5), rows)
        expected = dl.Distribution.stack([mixed(*pair) for pair in zip(*pairs, strict=True)])
        torch.testing.assert_close(found.probs(range(4)), expected.probs(range(4)))


@pytest.mark.parametrize("algebra", ALGEBRAS[1:], ids=str)
def test_results_can_be_sampled_negated_united_and_read(algebra):
    def ends(node, rows):
        inputs = [dl.Distribution.from_logits(row, range(4)) for row in rows]
        result = value(node, inputs)
        if result.top(1)[0][0][1] > 0.5:
            return dl.sample(result, 2).map(lambda x: x)
        if len(rows) % 2:
            return dl.union(result, inputs[0])
        return dl.apply(dl.negate(result), inputs[-1], lambda x, y: (x, y))

    def rest(node, rows):
        return dl.filter(ends(node, rows), lambda x: x != 1)

    choice, sizes, rows = batch(4, samples=9)
    trees = [each_once(tree(choice, n, n), iter(range(10))) for n in sizes]
    with dl.using(algebra):
        expected = [rest(*pair) for pair in zip(trees, rows, strict=True)]
        found = dl.batched(rest)(trees, rows)
    for row, own in enumerate(expected):
        torch.testing.assert_close(dict(found.row(row)), dict(own.row(0)))


def test_explanations_name_the_facts():
    def both(rows):
        left, right = (dl.Distribution(row, "ab") for row in rows)
        return dl.apply(left, right, lambda x, y: x + y)

    numbers = torch.tensor([[[0.2, 0.8], [0.3, 0.7]], [[0.9, 0.1], [0.6, 0.4]]])
    with dl.using("dtkp-am", k=2):
        found = dl.batched(both)(numbers)
    (proof,) = found.explain("ab", 1)
    assert proof.probability == pytest.approx(0.36)
    assert [fact.symbol for fact in proof.facts] == ["a", "b"]


def test_a_second_network_behind_the_first():
    first = dl.network(torch.nn.Linear(3, 4).double(), range(4))
    deep = dl.network(torch.nn.Linear(3, 4).double(), range(4))

    def chained(inputs):
        total = first(inputs[0])
        for row in inputs[1:]:
            again = first(row) if total.argmax()[0] < 2 else deep(row)
            total = dl.apply(total, again, OPERATIONS["+"])
        return total

    torch.manual_seed(1)
    inputs = [torch.randn(n, 3, dtype=torch.float64) for n in (1, 4, 2, 3)]
    leaves = [*first.parameters(), *deep.parameters()]
    with dl.using("dtkp-am", k=3):
        assert_same_as_the_loop(chained, (inputs,), leaves, 1e-8)


def test_a_distribution_compared_with_itself_is_no_coincidence():
    def same(row):
        d = dl.Distribution.from_logits(row, range(4))
        e = dl.apply(d, lambda x: x + 1)
        return dl.apply(dl.apply(d, e, lambda x, y: (x, y)), d, lambda x, y: x == (y, y + 1))

    with dl.using("dtkp-am", k=4):
        found = dl.batched(same)(torch.randn(5, 4))
    torch.testing.assert_close(found.probs([True]), torch.ones(5, 1))
