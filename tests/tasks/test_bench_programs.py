"""The programs of the benchmark against enumeration, and with perfect perception."""

from __future__ import annotations

import itertools
import math
from collections import deque

import pytest
import torch
from torch.nn.functional import one_hot

import dolphin as dl
from dolphin_tasks.add_n.program import carry_on
from dolphin_tasks.bench import actions, addition, formulas, kinship, paths, sums
from dolphin_tasks.clutrr.kinship import RELATIONS, Fact
from dolphin_tasks.clutrr.program import relation_along
from dolphin_tasks.digits import digit_distributions
from dolphin_tasks.hwf.program import SYMBOLS, calculate, readings, same
from dolphin_tasks.product_n.program import multiply
from dolphin_tasks.sum_n.program import add_up

SURE = 60.0  # a score that leaves no doubt in double precision


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def sure_of(truth: torch.Tensor, classes: int) -> torch.Tensor:
    return SURE * one_hot(truth, classes).double()


# -- sums and products -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "function"),
    [(add_up, sum), (sums.add_many, sum), (multiply, math.prod)],
    ids=["add", "add_many", "multiply"],
)
def test_digits_against_enumeration(program, function):
    scores = torch.randn(2, 3, 10, dtype=torch.float64, generator=generator())
    probs = scores.softmax(-1)
    found = program(digit_distributions(scores))
    for row in range(2):
        expected: dict[int, float] = {}
        for digits in itertools.product(range(10), repeat=3):
            chance = math.prod(float(probs[row, i, d]) for i, d in enumerate(digits))
            result = function(digits)
            expected[result] = expected.get(result, 0.0) + chance
        assert {s: pytest.approx(p, abs=1e-5) for s, p in found.row(row)} == expected


def test_twenty_nines_do_not_overflow():
    nine = dl.Distribution(torch.ones(1, 1).double(), [9])
    either = dl.Distribution(torch.full((1, 2), 0.5).double(), [8, 9])
    found = multiply([nine] * 10 + [either] * 10)
    assert 9**20 in found.symbols and 9**20 > 2**63
    assert float(found.prob_of([9**20])) == pytest.approx(2**-10)
    assert float(found.prob_of([9**19 * 8])) == pytest.approx(10 * 2**-10)
    assert float(dl.get_probs(found).sum()) == pytest.approx(1.0)


# -- addition --------------------------------------------------------------------------------------


def test_addition_against_enumeration():
    scores = torch.randn(8, 2, 2, 10, dtype=torch.float64, generator=generator())
    probs = scores.softmax(-1)
    labels = [0, 7, 18, 99, 100, 123, 197, 198]
    x, y = (
        [dl.Distribution.from_logits(place, range(10)) for place in number.unbind(1)]
        for number in scores.unbind(1)
    )
    found = carry_on(x, y, labels).prob_of([label // 100 for label in labels])
    for row, label in enumerate(labels):
        expected = sum(
            math.prod(float(probs[row, n, place, d]) for (n, place), d in zip(
                [(0, 0), (0, 1), (1, 0), (1, 1)], digits, strict=True))
            for digits in itertools.product(range(10), repeat=4)
            if 10 * digits[0] + digits[1] + 10 * digits[2] + digits[3] == label
        )  # fmt: skip
        assert float(found[row]) == pytest.approx(expected, rel=1e-9)


def test_addition_of_perfectly_read_numbers():
    truth = torch.randint(10, (4, 2, 15), generator=generator())
    labels = [sum(int("".join(map(str, n))) for n in row) for row in truth.tolist()]
    program = addition.Addition(15)
    assert float(program.loss(sure_of(truth, 10), labels)) == pytest.approx(0.0, abs=1e-9)
    wrong = [label + 10**15 for label in labels]
    assert float(program.loss(sure_of(truth, 10), wrong)) > 50


# -- formulas --------------------------------------------------------------------------------------


def by_precedence(symbols: list) -> float:
    """* and / first, then + and -."""
    terms, signs = [float(symbols[0])], [1]
    for operator, digit in zip(symbols[1::2], symbols[2::2], strict=True):
        if operator in "+-":
            terms.append(float(digit))
            signs.append(1 if operator == "+" else -1)
        elif operator == "*":
            terms[-1] *= digit
        else:
            terms[-1] = terms[-1] / digit if digit else math.nan
    return sum(sign * term for sign, term in zip(signs, terms, strict=True))


@pytest.mark.parametrize("length", [1, 3, 7, 19])
def test_perfectly_read_formulas(length):
    program = formulas.Formula(length)
    truth = torch.randint(1, 10, (6, length), generator=generator(1))
    truth[:, 1::2] = torch.randint(10, 14, truth[:, 1::2].shape, generator=generator(2))
    labels = [by_precedence([SYMBOLS[s] for s in row]) for row in truth.tolist()]
    with dl.using(dl.TopKProofs(k=3)):
        loss = program.loss(sure_of(truth, 14), labels)
        wrong = program.loss(sure_of(truth, 14), [label + 1 for label in labels])
    assert float(loss) == pytest.approx(0.0, abs=1e-6)
    assert float(wrong) > 30


def test_formulas_against_enumeration():
    scores = 2 * torch.randn(3, 3, 14, dtype=torch.float64, generator=generator())
    digits, operators = scores[..., :10].softmax(-1), scores[..., 10:].softmax(-1)
    # Different formulas exclude each other: DAMP is exact.
    found = calculate(readings(scores), torch.full((3,), 3), keep=1000)
    for row in range(3):
        for result, chance in found.row(row):
            expected = sum(
                float(digits[row, 0, a] * operators[row, 1, o] * digits[row, 2, b])
                for a, (o, operator), b in itertools.product(
                    range(10), enumerate("+-*/"), range(10)
                )
                if same(by_precedence([a, operator, b]), result)
            )
            # Results within the tolerance of each other are different symbols.
            alike = sum(p for r, p in found.row(row) if same(r, result))
            assert alike == pytest.approx(expected, abs=1e-4)
            assert chance <= alike + 1e-9


# -- paths -----------------------------------------------------------------------------------------


def reaches(edges: set, start: int) -> set[int]:
    seen, todo = set(), deque([start])
    while todo:
        node = todo.popleft()
        for a, b in edges:
            if a == node and b not in seen:
                seen.add(b)
                todo.append(b)
    return seen


def test_a_grid_of_36_nodes_has_120_edges():
    assert len(set(paths.directed_edges(6))) == len(paths.directed_edges(6)) == 120


@pytest.mark.parametrize("provenance", [dl.DAMP(), dl.TopKProofs(k=1)], ids=repr)
def test_paths_against_breadth_first_search(provenance):
    side, rows = 3, 40
    edges = paths.directed_edges(side)
    truth = torch.rand(rows, 9 + len(edges), generator=generator()) < 0.3
    answers = []
    for row in truth.tolist():
        ends = [node for node in range(9) if row[node]]
        there = {edge for edge, holds in zip(edges, row[9:], strict=True) if holds}
        answers.append(any(b in reaches(there, a) for a in ends for b in ends if a != b))
    assert 0 < sum(answers) < rows
    scores = torch.where(truth, SURE, -SURE).double()
    with dl.using(provenance):
        ends = dl.Distribution.from_logits(scores[:, :9], range(9), exclusive=False)
        between = dl.Distribution.from_logits(scores[:, 9:], edges, exclusive=False)
        found = dl.get_probs(paths.joined(ends, between), symbols=[True])[:, 0]
    torch.testing.assert_close(found, torch.tensor(answers).double())


@pytest.mark.parametrize("provenance", [dl.DAMP(), dl.TopKProofs(k=1)], ids=repr)
def test_perfectly_seen_paths(provenance):
    program = paths.GridPaths(6)
    truth, labels = program.truth(12, generator())
    assert 0 < labels.mean() < 1
    scores = torch.where(truth, SURE, -SURE).double()
    with dl.using(provenance):
        assert float(program.loss(scores, labels.double())) == pytest.approx(0.0, abs=1e-9)
        assert float(program.loss(scores, 1 - labels.double())) > 10


@pytest.mark.parametrize("provenance", [dl.DAMP(), dl.TopKProofs(k=1)], ids=repr)
def test_a_chain_holds_if_all_its_links_do(provenance):
    program = paths.Chain(12)
    scores, _ = program.draw(5, "early", generator())
    scores = scores.double().requires_grad_()
    with dl.using(provenance):
        loss = program.loss(scores, None)
    expected = -torch.nn.functional.logsigmoid(scores).sum(1).mean()
    torch.testing.assert_close(loss, expected)
    (got,) = torch.autograd.grad(loss, scores, retain_graph=True)
    (wanted,) = torch.autograd.grad(expected, scores)
    torch.testing.assert_close(got, wanted)


# -- kinship ---------------------------------------------------------------------------------------


def test_nobody_is_derived_through_the_asker():
    """My brother's sister may be me, but my daughter is not my niece."""
    told = [Fact(0, "brother", 2), Fact(2, "sister", 0), Fact(0, "daughter", 1)]
    facts = dl.Distribution.from_rows([(told, [1.0] * 3)], exclusive=False)
    assert relation_along(facts).row(0) == [("daughter", 1.0)]


@pytest.mark.parametrize("provenance", [dl.DAMP(), dl.TopKProofs(k=1)], ids=repr)
def test_perfectly_read_stories(provenance):
    _, batch = kinship.Kinship(10).draw(12, "early", generator())
    assert {story.told.length for story in batch.stories} == set(range(2, 11))
    with dl.using(provenance):
        told = kinship.facts_of_each(one_hot(batch.truths, len(RELATIONS)).double(), batch)
    found = dl.get_probs(relation_along(told), symbols=RELATIONS)
    wanted = torch.tensor([RELATIONS.index(answer) for answer in batch.answers])
    torch.testing.assert_close(found, one_hot(wanted, len(RELATIONS)).to(found))


@pytest.mark.parametrize("program", [kinship.Kinship(5), kinship.Clutrr(3)], ids=repr)
def test_stories_that_are_read_perfectly_cost_nothing(program):
    _, batch = program.draw(6, "early", generator())
    with dl.using("dtkp-am", k=1):
        loss = program.loss(sure_of(batch.truths, len(RELATIONS) + 1), batch)
    assert float(loss) == pytest.approx(0.0, abs=1e-6)


def test_the_network_reads_every_mention_of_a_story():
    program = kinship.Kinship(2)
    scores, _ = program.draw(2, "early", generator())
    assert program.network()(program.pictures(2)).shape == scores.shape


def test_chance_of_a_short_story_by_hand():
    told = [Fact(0, "father", 2), Fact(0, "brother", 2), Fact(2, "mother", 1), Fact(2, "sister", 1)]
    rows = [(told, [0.7, 0.2, 0.6, 0.3])]
    facts = dl.Distribution.from_rows(rows, exclusive=[[0, 1], [2, 3]])
    found = dict(relation_along(facts).row(0))
    expected = {"grandmother": 0.42, "aunt": 0.21, "mother": 0.12, "sister": 0.06}
    assert found == {relation: pytest.approx(p) for relation, p in expected.items()}


# -- captions --------------------------------------------------------------------------------------


def test_captions_against_enumeration():
    scores = torch.randn(2, 4, 8, dtype=torch.float64, generator=generator())
    probs = scores.softmax(-1)
    captions = [("walk", "jump"), ("walk", "jump", "walk"), ("die",)]
    frames = [dl.Distribution.from_logits(s, actions.ACTIONS) for s in scores.unbind(1)]
    found = dl.get_probs(actions.watch(frames, captions), symbols=captions)
    expected = torch.zeros(2, 3, dtype=torch.float64)
    for video in itertools.product(range(8), repeat=4):
        shown = tuple(actions.ACTIONS[a] for a, _ in itertools.groupby(video))
        if shown in captions:
            for row in range(2):
                chance = math.prod(float(probs[row, i, a]) for i, a in enumerate(video))
                expected[row, captions.index(shown)] += chance
    torch.testing.assert_close(found, expected)


def test_perfectly_seen_videos_find_their_captions():
    truth = torch.tensor([[2] * 10 + [4] * 6, [2] * 4 + [5] * 12, [7] * 16])
    captions = [("walk", "jump"), ("walk", "collect"), ("kill",)]
    assert float(actions.Captions(16).loss(sure_of(truth, 8), captions)) < 1e-9
    assert float(actions.Captions(16).loss(sure_of(truth, 8), captions[::-1])) > 10
