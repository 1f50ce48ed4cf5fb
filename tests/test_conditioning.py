"""Conditions, posteriors and likeliest choices, against the enumeration of possible worlds."""

from __future__ import annotations

import itertools
import math
import random

import pytest
import torch

import dolphin as dl

PROVENANCES = ["exact", "dtkp-wmc", "dtkp-am", "damp"]


def algebra(name):
    return dl.get_provenance(name, k=12) if name.startswith("dtkp") else dl.get_provenance(name)


class Case:
    """Two digits and a coin, with probabilities of their own in each row, and a program."""

    def __init__(self, seed, name, layout="shared", rows=3, dtype=torch.float64):
        draw = random.Random(seed)
        self.symbols = [(0, 1, 2), (0, 1, 2), (False, True)]
        self.probs = []
        for symbols in self.symbols:
            table = torch.tensor([[draw.random() for _ in symbols] for _ in range(rows)]).double()
            table = (table / table.sum(1, keepdim=True)).to(dtype)
            self.probs.append(table.requires_grad_())
        given = {"provenance": algebra(name)}
        if layout == "shared":
            made = [
                dl.Distribution(p, s, **given)
                for p, s in zip(self.probs, self.symbols, strict=True)
            ]
        else:  # the second digit's symbols stand in another order in every other row
            made = []
            for p, s in zip(self.probs, self.symbols, strict=True):
                order = [range(len(s))[:: 1 if row % 2 else -1] for row in range(rows)]
                listed = [
                    ([s[c] for c in columns], p[row][list(columns)])
                    for row, columns in enumerate(order)
                ]
                made.append(dl.Distribution.from_rows(listed, **given))
        self.inputs = made
        self.rows = rows

    @staticmethod
    def value(a, b, coin):
        return a + b if coin else a * b

    def result(self):
        return dl.apply(*self.inputs, self.value)

    def worlds(self, row):
        for choice in itertools.product(*self.symbols):
            chance = math.prod(
                p[row, s.index(c)].item()
                for p, s, c in zip(self.probs, self.symbols, choice, strict=True)
            )
            yield choice, chance

    def posterior(self, row, target):
        """P(symbol | target) of each input, and P(target)."""
        total = sum(chance for world, chance in self.worlds(row) if self.value(*world) == target)
        found = [
            [
                sum(
                    chance
                    for world, chance in self.worlds(row)
                    if self.value(*world) == target and world[number] == symbol
                )
                for symbol in symbols
            ]
            for number, symbols in enumerate(self.symbols)
        ]
        return [[p / total if total else 0.0 for p in row] for row in found], total


@pytest.mark.parametrize("layout", ["shared", "rows"])
@pytest.mark.parametrize("name", PROVENANCES)
def test_posteriors_against_enumeration(name, layout):
    case = Case(1, name, layout)
    targets = [2, 0, 9]  # the last one can't be reached
    found = dl.posterior(case.inputs, case.result(), targets)
    for row, target in enumerate(targets):
        expected, _ = case.posterior(row, target)
        for table, d, symbols, wanted in zip(
            found, case.inputs, case.symbols, expected, strict=True
        ):
            given = dict(zip(d.symbols, table[row].tolist(), strict=True))
            assert [given[s] for s in symbols] == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("name", ["exact", "dtkp-wmc"])
def test_posteriors_without_recorded_gradients_and_their_gradients(name):
    case = Case(2, name)
    with torch.no_grad():
        found = dl.posterior(case.inputs, case.result(), [1, 2, 4])
    again = dl.posterior(case.inputs, case.result(), [1, 2, 4])
    torch.testing.assert_close(found, [table.detach() for table in again])

    def first(p):
        d = dl.Distribution(p, case.symbols[0], provenance=algebra(name))
        made = dl.apply(d, *case.inputs[1:], case.value)
        return dl.posterior([d], made, [1, 2, 4])[0]

    leaf = case.probs[0].detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(first, (leaf,))


@pytest.mark.parametrize("name", PROVENANCES)
def test_facts_that_the_target_does_not_mention_keep_their_probability(name):
    p = torch.tensor([[0.2, 0.7]], dtype=torch.float64, requires_grad=True)
    d = dl.Distribution(p, "ab", exclusive=False, provenance=algebra(name))
    other = dl.Distribution(p.clone(), "ab", exclusive=True, provenance=algebra(name))
    result = dl.filter(d, lambda s: s == "a")
    found = dl.posterior([d, other], result, ["a"])
    torch.testing.assert_close(found[0].detach(), torch.tensor([[1.0, 0.7]]).double())
    torch.testing.assert_close(found[1].detach(), p.detach())


@pytest.mark.parametrize("name", PROVENANCES)
def test_exclusive_groups_and_missing_mass(name):
    """A shape and a colour from one input; not all of the mass is given."""
    p = torch.tensor([[0.3, 0.6, 0.2, 0.5]], dtype=torch.float64, requires_grad=True)
    groups = [[0, 1], [2, 3]]
    figure = dl.Distribution(
        p, ["square", "disc", "red", "blue"], exclusive=groups, provenance=algebra(name)
    )
    coin = dl.Distribution(
        torch.tensor([[0.5]], dtype=torch.float64, requires_grad=True), ["yes"],
        provenance=algebra(name),
    )  # fmt: skip
    # The square, or the coin and red: P = .3 + .5 · .2 · (the shapes that are left: .7)
    red = dl.apply_if(figure, coin, lambda f, c: "hit", lambda f, c: f == "red")
    result = dl.union(dl.apply_if(figure, lambda f: "hit", lambda f: f == "square"), red)
    found = dl.posterior([figure, coin], result, ["hit"])[0][0]
    if name in ("damp", "dtkp-am"):  # their sum counts "square and red" twice
        total, square, red_too = 0.4, 0.3 + 0.1 * 0.3, 0.1 + 0.3 * 0.2
        disc = 0.1 * 0.6
        square = 0.3 if name == "dtkp-am" else square  # a proof absorbs those that contain it
    else:
        total = 0.3 + 0.7 * 0.1
        square, red_too, disc = 0.3, 0.1 + 0.3 * 0.2 * 0.5, 0.6 * 0.1
    expected = [square / total, disc / total, red_too / total]
    assert found[:3].tolist() == pytest.approx(expected, abs=1e-9)


def test_an_input_of_one_row_serves_many():
    for name in ("damp", "exact"):
        p = torch.tensor([[0.2, 0.8]], dtype=torch.float64, requires_grad=True)
        q = torch.tensor([[0.5, 0.5], [0.1, 0.9]], dtype=torch.float64, requires_grad=True)
        a = dl.Distribution(p, [0, 1], provenance=name)
        b = dl.Distribution(q, [0, 1], provenance=name)
        found = dl.posterior([a, b], a + b, [1, 1])
        top = [0.2 * 0.5, 0.2 * 0.9]
        bottom = [0.8 * 0.5, 0.8 * 0.1]
        expected = [[x / (x + y), y / (x + y)] for x, y in zip(top, bottom, strict=True)]
        torch.testing.assert_close(found[0].detach(), torch.tensor(expected).double())
        torch.testing.assert_close(found[1].detach().flip(1), found[0].detach())


@pytest.mark.parametrize("layout", ["shared", "rows"])
@pytest.mark.parametrize("name", ["exact", "dtkp-am", "dtkp-wmc", "viterbi"])
def test_likeliest_choices_against_enumeration(name, layout):
    for seed in range(4):
        case = Case(seed, name, layout)
        for targets in ([2, 0, 9], [3, 1, 4]):
            found = dl.most_likely(case.inputs, case.result(), targets)
            for row, target in enumerate(targets):
                fits = [w for w in case.worlds(row) if case.value(*w[0]) == target]
                best = max(fits, key=lambda world: world[1], default=(None, 0.0))
                assert found[row] == best[0]


def test_the_likeliest_world_need_not_be_that_of_the_likeliest_proof():
    """Paths: a short proof leaves edges open, which then take their likelier value."""
    rng = random.Random(0)
    edges = [(0, 1), (1, 3), (0, 2), (2, 3), (1, 2)]
    for _ in range(10):
        probs = [round(rng.uniform(0.05, 0.95), 3) for _ in edges]
        for compiler in ("diagrams", "auto"):
            d = dl.Distribution(
                probs, edges, exclusive=False, provenance=dl.Exact(compiler=compiler)
            )
            ends = (lambda p: p[1], lambda e: e[0])
            paths = d
            for _ in range(2):
                step = dl.apply_if(paths, d, lambda p, e: (p[0], e[1]), on=ends)
                paths = dl.union(d, step)
            (found,) = dl.most_likely([d], paths, [(0, 3)])
            best = None
            for holds in itertools.product((False, True), repeat=5):
                there = list(itertools.compress(edges, holds))
                reached = {0}
                for _ in there:
                    reached |= {y for x, y in there if x in reached}
                chance = math.prod(p if h else 1 - p for p, h in zip(probs, holds, strict=True))
                if 3 in reached and (best is None or chance > best[0]):
                    best = (chance, tuple(there))
            assert best is not None and found == (best[1],)


def test_ties_give_a_choice_that_fits():
    for name in ("exact", "dtkp-am"):
        a, b = (dl.Distribution([0.25] * 4, range(4), provenance=name) for _ in "ab")
        (found,) = dl.most_likely([a, b], a + b, [3])
        assert found is not None and sum(found) == 3
    leaf = torch.full((1, 4), 0.25, requires_grad=True)
    a, b = (dl.Distribution(leaf, range(4), provenance="viterbi") for _ in "ab")
    with pytest.raises(dl.UnsupportedError, match="equally likely"):
        dl.most_likely([a, b], a + b, [3])


def test_unused_inputs_and_none_of_them():
    for name in ("exact", "dtkp-am"):
        a = dl.Distribution([0.5, 0.2], "xy", provenance=name)
        b = dl.Distribution([0.1, 0.2], "uv", provenance=name)  # most likely none of them
        c = dl.Distribution([0.9, 0.2], "pq", exclusive=False, provenance=name)
        assert dl.most_likely([a, b, c], a, ["y"]) == [("y", None, ("p",))]


@pytest.mark.parametrize("layout", ["shared", "rows"])
@pytest.mark.parametrize("name", PROVENANCES)
def test_conditions_against_enumeration(name, layout):
    case = Case(3, name, layout)
    event = case.result() == 2
    given = dl.condition(case.inputs[0], event)
    for row in range(case.rows):
        expected, _ = case.posterior(row, 2)
        found = dict(given.row(row))
        assert [found[s] for s in case.symbols[0]] == pytest.approx(expected[0], abs=1e-5)
    total = dl.apply(given, case.inputs[1].detach(), lambda x, y: x + y)  # a distribution like any
    torch.testing.assert_close(total.probs().sum(1).detach(), torch.ones(3).double())


def test_conditions_with_results_and_impossible_events():
    a, b = (dl.Distribution([0.5, 0.3, 0.2], range(3), provenance="exact") for _ in "ab")
    larger = dl.condition(a + b, a > b)
    worlds = {
        (x, y): p * q
        for x, p in enumerate((0.5, 0.3, 0.2))
        for y, q in enumerate((0.5, 0.3, 0.2))
        if x > y
    }
    total = sum(worlds.values())
    for symbol, p in larger.row(0):
        assert p == pytest.approx(
            sum(w for k, w in worlds.items() if sum(k) == symbol) / total, rel=1e-5
        )
    never = dl.condition(a, (a == 0) & (a == 1))
    assert [p for _, p in never.row(0)] == [0.0, 0.0, 0.0]
    with pytest.raises(dl.InputError, match="over True and False"):
        dl.condition(a, a + b)


def test_normalized_expected_entropy():
    p = torch.tensor([[0.2, 0.3], [0.0, 1.0]], dtype=torch.float64, requires_grad=True)
    for name in ("damp", "exact", "dtkp-am"):
        d = dl.Distribution(p, [1, 10], provenance=name)
        assert d.normalized().row(0) == [(1, 0.4), (10, 0.6)]
        assert d.normalized().row(1) == [(1, 0.0), (10, 1.0)]
        torch.testing.assert_close(d.expected().detach(), torch.tensor([3.2, 10.0]).double())
        assert d.expected(lambda s: -s)[0].item() == pytest.approx(-3.2)
        entropy = -(0.4 * math.log(0.4) + 0.6 * math.log(0.6))
        assert d.normalized().entropy().tolist() == pytest.approx([entropy, 0.0])
        (gradient,) = torch.autograd.grad(d.normalized().entropy().sum(), p)
        assert torch.isfinite(gradient).all()
        assert gradient[0].tolist() == pytest.approx(
            [0.6 / 0.5 * math.log(0.6 / 0.4), -0.4 / 0.5 * math.log(0.6 / 0.4)]
        )
    rows = dl.Distribution.from_rows([([1, 2], [0.5, 0.25]), ([], []), ([7], [1.0])])
    assert rows.expected().tolist() == [1.0, 0.0, 7.0]
    assert rows.normalized().row(0) == [(1, 0.666667), (2, 0.333333)]
    assert rows.entropy()[1:].tolist() == [0.0, 0.0]
    unlikely = dl.Distribution.from_log_probs(torch.tensor([[-200.0, -200.0]]), "ab")
    assert unlikely.normalized().probs()[0].tolist() == pytest.approx([0.5, 0.5], rel=1e-4)
    with pytest.raises(dl.FunctionError, match="expected: the symbol 'a' is not a number"):
        dl.expected(dl.Distribution([1.0], "a"))


def test_what_is_refused():
    plain = dl.Distribution([0.5, 0.5], [0, 1])
    with pytest.raises(dl.UnsupportedError, match=r"posterior: no gradients.*requires_grad_"):
        dl.posterior([plain], plain + 1, [1])
    leaf = torch.tensor([0.5, 0.5], requires_grad=True)
    d = dl.Distribution(leaf, [0, 1])
    with torch.no_grad():
        unrecorded = d + d
    with pytest.raises(dl.UnsupportedError, match="no gradients were recorded"):
        dl.posterior([d], unrecorded, [1])
    with pytest.raises(dl.UnsupportedError, match=r"most_likely: DAMP.*'exact'"):
        dl.most_likely([d], d + 1, [1])
    for name in ("exact", "dtkp-am"):
        a = dl.Distribution([0.5, 0.25], [0, 1], provenance=name)
        with pytest.raises(dl.UnsupportedError, match="input 0 is the result of an operation"):
            dl.most_likely([a.map(lambda x: 0)], a, [1])
    with pytest.raises(dl.InputError, match=r"posterior\(\[d1, d2\], result, targets\)"):
        dl.posterior(d, d, [1])
    with pytest.raises(dl.MismatchError, match="2 targets for 1 rows"):
        dl.posterior([d], d + 1, [1, 2])


@pytest.mark.parametrize("name", ["exact", "dtkp-wmc", "dtkp-am", "damp", "noisy-or", "viterbi"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_target_of_probability_zero_is_not_reached(name, dtype):
    """Facts of exactly 0, as of a perception that is sure."""
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=dtype, requires_grad=True)
    with dl.using(name):
        a, b = (dl.Distribution(x, [0, 1]) for _ in "ab")
        result = a + b
        known = dl.posterior([a, b], result, [2, 2])[0]
        torch.testing.assert_close(known, torch.tensor([[0.0, 0.0], [0.0, 1.0]], dtype=dtype))
        given = dl.condition(a, result == 2)
        torch.testing.assert_close(given.probs(), known)


@pytest.mark.parametrize("name", ["exact", "dtkp-wmc", "damp", "noisy-or"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_normalized_has_gradients_at_zero(name, dtype):
    x = torch.tensor([[1.0, 0.0]], dtype=dtype, requires_grad=True)
    d = dl.Distribution(x, [0, 1], provenance=name).normalized()
    (gradient,) = torch.autograd.grad(d.probs()[0, 1], x)
    torch.testing.assert_close(gradient, torch.tensor([[0.0, 1.0]], dtype=dtype))


@pytest.mark.parametrize("name", ["exact", "dtkp-am", "damp", "viterbi", "min-max"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_row_of_zeros_is_not_normalized(name, dtype):
    x = torch.tensor([[0.0, 0.0], [0.2, 0.3], [0.0, 1.0]], dtype=dtype, requires_grad=True)
    expected = torch.tensor([[0.0, 0.0], [0.4, 0.6], [0.0, 1.0]], dtype=dtype)
    d = dl.Distribution(x, [0, 1], provenance=name)
    rows = dl.Distribution.from_rows([([0, 1], row) for row in x], provenance=name)
    for given in (d, rows, d.map(lambda s: s + 1).map(lambda s: s - 1)):
        result = given.normalized()
        torch.testing.assert_close(result.probs([0, 1]), expected)
        (gradient,) = torch.autograd.grad(result.probs().sum(), x, retain_graph=True)
        assert gradient.isfinite().all()
    tiny = dl.Distribution.from_log_probs(torch.tensor([[-69.0, -72.0]], dtype=dtype), "ab")
    torch.testing.assert_close(
        tiny.normalized().probs(),
        torch.tensor([[0.952574, 0.047426]], dtype=dtype),
        atol=1e-5,
        rtol=0.0,
    )


@pytest.mark.parametrize("name", ["exact", "dtkp-wmc", "dtkp-am", "damp", "viterbi", "min-max"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_can_not_be_keeps_its_gradient_when_it_is_normalized(name, dtype):
    x = torch.tensor([[1.0], [0.3]], dtype=dtype, requires_grad=True)
    d = dl.negate(dl.Distribution(x, [1], provenance=name)).normalized()
    for result in (d, d.map(lambda s: s + 1)):
        torch.testing.assert_close(result.probs(), torch.tensor([[0.0], [1.0]], dtype=dtype))
        (gradient,) = torch.autograd.grad(result.probs().sum(), x, retain_graph=True)
        torch.testing.assert_close(gradient, torch.tensor([[-1.0], [0.0]], dtype=dtype))


NUMBERS = ["damp", "viterbi", "noisy-or", "min-max", "hamacher", "schweizer-sklar", "frank"]


@pytest.mark.parametrize("per_row", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["exact", "dtkp-am", "dtkp-wmc", "boolean", "counting", *NUMBERS])
def test_a_row_of_products_with_zero_is_not_normalized(name, dtype, per_row):
    """In logarithms such products differ, but nothing is possible in the first row."""
    x = torch.tensor([[0.0, 0.0], [0.25, 0.5]], dtype=dtype, requires_grad=True)
    y = torch.tensor([[0.25, 0.5], [0.25, 0.5]], dtype=dtype, requires_grad=True)
    with dl.using(name):
        a, b = dl.Distribution(x, [0, 1]), dl.Distribution(y, [0, 10])
        if per_row:
            a, b = (dl.Distribution.stack(d.rows()) for d in (a, b))
        result = a + b
        given = None if name in ("boolean", "counting") else dl.condition(a, result == 11)
    shares = result.normalized()
    assert shares.probs()[0].tolist() == [0.0] * 4
    assert shares.expected()[0] == shares.entropy()[0] == 0.0
    if given is not None:
        assert shares.probs()[1].sum().item() == pytest.approx(1.0)
        assert given.probs()[0].tolist() == [0.0, 0.0]
        read = shares.probs().sum() + given.probs().sum() + shares.entropy().sum()
        assert all(grad.isfinite().all() for grad in torch.autograd.grad(read, (x, y)))


@pytest.mark.parametrize("name", ["exact", "dtkp-wmc"])
@pytest.mark.parametrize(("missing", "dtype"), [(1e-11, torch.float64), (1e-4, torch.float32)])
def test_gradients_given_a_rare_event(name, missing, dtype):
    """One of three is none of its symbols, given that some one is: 1 / (3 - 3m + m²)."""
    x = torch.tensor([[0.25, 0.75 - missing]], dtype=dtype, requires_grad=True)
    with dl.using(name, **({} if name == "exact" else {"k": 8})):
        parts = [dl.Distribution(x, [4, 0]) for _ in range(3)]
        seen = dl.maximum(dl.apply(*parts, lambda *s: 0)).map(lambda s: s is None)
        alone = dl.maximum(parts[0]).map(lambda s: s is None)
        found = dl.condition(alone, seen).prob_of([True])
    error = 100 * torch.finfo(dtype).eps / missing
    assert found.item() == pytest.approx(1 / 3, abs=error)
    (slope,) = torch.autograd.grad(found.sum(), x)
    torch.testing.assert_close(slope, torch.full_like(x, -1 / 3), rtol=0.0, atol=error)


@pytest.mark.parametrize("name", ["damp", "viterbi", "min-max", "noisy-or", "exact", "dtkp-am"])
@pytest.mark.parametrize("holds", [True, False])
def test_a_certain_event_says_nothing_and_a_certain_no_leaves_nothing(name, holds):
    x = torch.tensor([[0.3, 0.7], [0.6, 0.4]])  # no gradients are needed for it
    d = dl.Distribution(x, [0, 1], provenance=name)
    found = dl.condition(d, dl.Distribution.certain(holds, batch=2, provenance=name)).probs()
    torch.testing.assert_close(found, x if holds else torch.zeros(2, 2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_event_below_what_single_precision_holds(dtype):
    """Half of e^-100: only the event itself is too small to be told from 0."""
    x = torch.tensor([[100.0, 0.0, 0.0]], dtype=dtype, requires_grad=True)
    d = dl.Distribution.from_logits(x, [0, 1, 2], provenance="exact")
    found = dl.condition(d, dl.apply(d, lambda s: s > 0)).probs()
    torch.testing.assert_close(found, torch.tensor([[0.0, 0.5, 0.5]], dtype=dtype))
    (gradient,) = torch.autograd.grad(found[0, 1], x)
    torch.testing.assert_close(gradient, torch.tensor([[0.0, 0.25, -0.25]], dtype=dtype))


def test_what_a_rare_event_does_not_depend_on_has_no_gradient():
    """P(1 | not 0) is P(1): what numerator and denominator say about 0 cancels, in float32 too."""
    x = torch.tensor([[1.0 - 2.0**-22, 1.0 - 2.0**-22]], requires_grad=True)
    d = dl.Distribution(x, [1, 0], exclusive=False, provenance="exact")
    found = dl.condition(d, dl.forall(d, lambda s: s > 0)).probs([1])
    (gradient,) = torch.autograd.grad(found.sum(), x)
    assert gradient[0].tolist() == pytest.approx([1.0, 0.0], abs=1e-6)


@pytest.mark.parametrize("name", ["damp", "noisy-or", "exact"])
def test_symbols_exclude_each_other_however_their_rows_were_put_together(name):
    """Given a, b is impossible where the two exclude each other, and as likely as before elsewhere.

    Algebras of numbers have only the derivatives, so a distribution has to know its groups.
    """
    numbers = [torch.tensor(row, requires_grad=True) for row in ([0.3, 0.5], [0.3, 0.5, 0.1])]
    rows = [("ab", numbers[0]), ("abc", numbers[1]), ("bca", numbers[1]), ("ab", numbers[0])]
    groups = [False, [[0, 1]], [[0, 2]], True]
    with dl.using(name):
        d = dl.Distribution.from_rows(rows, exclusive=groups)
        one = dl.Distribution(numbers[1][None], "abc", exclusive=[[0, 1]])
    moved = [d, d.to("cpu"), d[[2, 1, 3, 0]][[3, 1, 0, 2]], dl.Distribution.stack(list(d.rows()))]
    for each in moved:
        given = dl.condition(each, dl.exists(each, lambda symbol: symbol == "a"))
        wanted = [[0.5, 0.0], [0.0, 0.1], [0.0, 0.5], [0.0, 0.0]]
        torch.testing.assert_close(given.probs(["b", "c"]), torch.tensor(wanted))
    for each in (one.to("cpu"), dl.Distribution.stack([one]), dl.Distribution.stack([one, one])):
        given = dl.condition(each, dl.exists(each, lambda symbol: symbol == "a"))
        torch.testing.assert_close(given.probs(["b", "c"])[0], torch.tensor([0.0, 0.1]))
    for each in (dl.sample(one, 2), dl.sample(d, 2)[[1]]):
        given = dl.condition(each, dl.exists(each, lambda symbol: symbol == "a"))
        torch.testing.assert_close(given.probs(["b", "c"])[0], torch.tensor([0.0, 0.0]))
