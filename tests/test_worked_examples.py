"""The examples of the paper and of the design, as written."""

from __future__ import annotations

import math
from collections import namedtuple

import pytest
import torch

import dolphin as dl
from dolphin import Distribution, apply, apply_if, get_logits, get_probs, union

both = pytest.mark.parametrize("provenance", [dl.DAMP(), dl.TopKProofs(k=3)], ids=["damp", "top-k"])


def as_dict(d: dl.Distribution, row: int = 0) -> dict:
    return dict(zip(d.symbols, dl.get_probs(d)[row].tolist(), strict=True))


@both
def test_sum_of_two_digits(provenance):
    """D'(1) = .00·.09 + .90·.78."""
    d1 = Distribution(torch.tensor([0.00, 0.90]), [0, 1], provenance=provenance)
    d2 = Distribution(torch.tensor([0.78, 0.09]), [0, 1], provenance=provenance)
    total = apply(d1, d2, lambda x, y: x + y)
    assert list(total.symbols) == [0, 1, 2]
    assert as_dict(total) == pytest.approx({0: 0.0, 1: 0.702, 2: 0.081})


@both
def test_union(provenance):
    d1 = Distribution(torch.tensor([0.01, 0.24]), [0, 1], provenance=provenance)
    d2 = Distribution(torch.tensor([0.63, 0.37]), [0, 4], provenance=provenance)
    assert as_dict(union(d1, d2)) == pytest.approx({0: 0.64, 1: 0.24, 4: 0.37})


@both
def test_filter(provenance):
    d = Distribution(torch.tensor([0.1, 0.6, 0.3]), [0, 1, 2], provenance=provenance)
    even = dl.filter(d, lambda x: x % 2 == 0)
    assert as_dict(even) == pytest.approx({0: 0.1, 2: 0.3})


@pytest.mark.parametrize("probs", [[0.25] * 4, [0.5, 0.5, 0.0, 0.0], [0.7, 0.1, 0.1, 0.1]])
def test_a_distribution_equals_itself(probs):
    """The appendix's f(D, D): certain under proofs, Σ p² under DAMP, ties or not."""
    p = torch.tensor(probs)
    d = Distribution(p, range(4), provenance=dl.TopKProofs(k=4))
    assert as_dict(apply(d, d, lambda a, b: a == b)) == pytest.approx({True: 1.0, False: 0.0})
    d = Distribution(p, range(4), provenance=dl.DAMP())
    squares = (p * p).sum().item()
    same = as_dict(apply(d, d, lambda a, b: a == b))
    assert same == pytest.approx({True: squares, False: 1 - squares})


def test_equality_with_more_symbols_than_proofs():
    """The k likeliest symbols count: .5 + .2 of five."""
    p = torch.tensor([0.1, 0.5, 0.1, 0.2, 0.1])
    d = Distribution(p, range(5), provenance=dl.TopKProofs(k=2))
    assert as_dict(apply(d, d, lambda a, b: a == b)) == pytest.approx({True: 0.7, False: 0.0})


class SumNNet(torch.nn.Module):
    """The paper's first figure, with a linear layer for a CNN."""

    def __init__(self):
        super().__init__()
        self.CNN = torch.nn.Sequential(torch.nn.Linear(5, 10), torch.nn.Softmax(dim=1))

    def forward(self, imgs):
        d = range(10)
        D_res = Distribution(self.CNN(imgs[0]), d)
        for i in range(1, len(imgs)):
            D_i = Distribution(self.CNN(imgs[i]), d)
            D_res = apply(D_res, D_i, lambda x, y: x + y)
        return get_logits(D_res)


def test_sum_n_learns_from_sums():
    model = SumNNet()
    images = torch.randn(3, 16, 5)
    logits = model(images)
    assert logits.shape == (16, 28)
    torch.testing.assert_close(logits.exp().sum(dim=1), torch.ones(16))
    target = torch.randint(0, 28, (16,))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    losses = []
    for _ in range(30):
        loss = torch.nn.functional.cross_entropy(model(images), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


Coord = namedtuple("Coord", ["x", "y"])


def compute_paths(paths, edges):
    """The paper's transitive closure."""
    new_paths = apply_if(
        paths, edges, lambda p1, p2: Coord(p1.x, p2.y), lambda p1, p2: p1.y == p2.x
    )
    merged = union(paths, new_paths)
    # checking for convergence via fix-point
    if merged.symbols == paths.symbols:
        return merged
    else:
        return compute_paths(merged, edges)


def test_transitive_closure():
    points = [Coord(0, 1), Coord(1, 2), Coord(2, 3)]
    probs = torch.tensor([[0.9, 0.5, 0.4], [1.0, 1.0, 0.0]], requires_grad=True)
    with dl.using(dl.TopKProofs(k=3)):
        edges = Distribution(probs, points, exclusive=False)
        paths = compute_paths(edges, edges)
    assert set(paths.symbols) == {*points, Coord(0, 2), Coord(1, 3), Coord(0, 3)}
    assert all(isinstance(symbol, Coord) for symbol in paths.symbols)
    ends = get_probs(paths, symbols=[Coord(0, 2), Coord(0, 3)])
    torch.testing.assert_close(ends.detach(), torch.tensor([[0.45, 0.18], [1.0, 0.0]]))
    (gradient,) = torch.autograd.grad(ends[0, 1], probs)
    torch.testing.assert_close(gradient[0], torch.tensor([0.5 * 0.4, 0.9 * 0.4, 0.9 * 0.5]))


def test_transitive_closure_of_a_cycle_ends():
    points = [Coord(0, 1), Coord(1, 0)]
    edges = Distribution(
        torch.tensor([0.5, 0.5]), points, exclusive=False, provenance=dl.TopKProofs(k=3)
    )
    paths = compute_paths(edges, edges)
    assert as_dict(paths) == pytest.approx(
        {Coord(0, 1): 0.5, Coord(1, 0): 0.5, Coord(0, 0): 0.25, Coord(1, 1): 0.25}
    )


CLASSES = ["car", "person", "truck"]


class DetectedObject:
    """The paper's discussion: symbols first, probabilities second."""

    def __init__(self, coords, score, class_logits):
        self.coords = coords
        self.score = score
        self.distr = Distribution(CLASSES, class_logits)


def is_inside(coord_a, coord_b):
    (ax0, ay0, ax1, ay1), (bx0, by0, bx1, by1) = coord_a, coord_b
    return bx0 <= ax0 and by0 <= ay0 and ax1 <= bx1 and ay1 <= by1


def test_object_detection_as_written_or_a_clear_error():
    """`Distribution(CLASSES, class_logits)` has its arguments in the other order."""
    scores = torch.tensor([0.1, 0.8, 0.1])
    try:
        DetectedObject((1, 1, 2, 2), 0.9, scores)
    except dl.DolphinError as error:
        text = str(error)
    else:
        text = "accepted: Distribution(probs, symbols)"
    assert "Distribution(probs, symbols)" in text


@both
def test_object_detection(provenance):
    o1 = DetectedLike((1, 1, 2, 2), torch.tensor([0.1, 0.8, 0.1]), provenance)
    o2 = DetectedLike((0, 0, 9, 9), torch.tensor([0.7, 0.1, 0.2]), provenance)

    def person_inside_car():
        return apply(
            o1.distr,
            o2.distr,
            lambda c1, c2: c1 == "person" and c2 == "car" and is_inside(o1.coords, o2.coords),
        )

    expected = 0.8 * 0.7
    result = person_inside_car()
    assert set(result.symbols) == {True, False}
    assert result.prob_of([True]).item() == pytest.approx(expected)
    o1.coords = (10, 10, 11, 11)  # the object moves out of the car: another answer
    assert person_inside_car().prob_of([True]).item() == pytest.approx(0.0)


class DetectedLike:
    def __init__(self, coords, class_probs, provenance):
        self.coords = coords
        self.distr = Distribution(class_probs, CLASSES, provenance=provenance)


def evaluate_formula(s):
    signs = {"+": float.__add__, "-": float.__sub__, "*": float.__mul__}
    left, sign, right = s
    if sign == "/":
        return float(left) / float(right) if float(right) else math.nan
    return signs[sign](float(left), float(right))


def test_hand_written_formula():
    """The paper's formulas: tuples of strings, padding with certain symbols, nan as a result."""
    symbols = [(str(i),) for i in range(3)] + [(c,) for c in "+-*/"]
    with dl.using(dl.TopKProofs(k=3)):
        pieces = [
            Distribution(torch.full((2, 7), 1 / 7), symbols).filter(keep)
            for keep in (
                lambda s: s[0].isdigit(),
                lambda s: not s[0].isdigit(),
                lambda s: s[0].isdigit(),
            )
        ]
        padding = Distribution(torch.ones(1), [("",)])
        formula = apply(pieces[0], pieces[1], lambda a, b: a + b)
        formula = apply(formula, pieces[2], lambda a, b: a + b)
        formula = apply(formula, padding, lambda a, b: a)
        result = apply(formula, evaluate_formula)
    assert result.batch_size == 2
    by_zero = [s for s in result.symbols if isinstance(s, float) and math.isnan(s)]
    assert len(by_zero) == 1
    # x / 0 for x in 0, 1, 2: three proofs of three facts.
    torch.testing.assert_close(result.prob_of([math.nan, math.nan]), torch.full((2,), 3 / 7**3))


def test_two_numbers_with_many_digits():
    """Each row is conditioned on its own label, so fifteen digits need no list of 10¹⁵ sums."""
    n, labels = 15, [123456789012345, 999999999999999]
    left = [[int(c) for c in str(label // 2).zfill(n)] for label in labels]
    right = [[int(c) for c in str(label - label // 2).zfill(n)] for label in labels]

    def digit(rows, place):
        probs = torch.full((len(rows), 10), 0.01)
        for b, row in enumerate(rows):
            probs[b, row[place]] = 0.91
        return Distribution(probs, range(10))

    carry = Distribution.certain(0, batch=len(labels))
    for place in reversed(range(n)):
        written = Distribution.certain_rows(
            [label // 10 ** (n - 1 - place) % 10 for label in labels]
        )
        total = apply(carry, digit(left, place), digit(right, place), lambda c, x, y: c + x + y)
        carry = apply_if(total, written, lambda s, t: s // 10, lambda s, t: s % 10 == t)
    probs = carry.prob_of([0, 0])
    assert (probs >= 0.91 ** (2 * n) - 1e-6).all()
    assert (probs < 1).all()
