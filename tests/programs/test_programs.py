"""`dl.program` and `dl.choose`, against every execution of the same program in plain Python."""

from __future__ import annotations

import itertools
import sys

import pytest
import torch

import dolphin as dl

# -- how often user code runs ----------------------------------------------------------------------


def test_a_second_call_runs_nothing_and_new_symbols_only_what_is_new():
    calls = []

    @dl.program
    def difference(a, b):
        x, y = dl.choose(a), dl.choose(b)
        calls.append((x, y))
        return x - y

    for _ in range(3):
        a = dl.Distribution(torch.rand(4, 3).softmax(1), range(3))
        b = dl.Distribution(torch.rand(4, 2).softmax(1), range(2))
        torch.testing.assert_close(difference(a, b).probs(), (a - b).probs())
    assert calls == [(x, y) for x in range(3) for y in range(2)]
    calls.clear()
    rows = dl.Distribution.from_rows([([0, 1], [0.5, 0.5]), ([7], [1.0])])
    for _ in range(2):
        difference(rows, dl.Distribution.from_rows([([0], [1.0]), ([0, 1], [0.5, 0.5])]))
    assert sorted(calls) == [(0, 0), (1, 0), (7, 0), (7, 1)]


def test_a_row_takes_part_only_where_it_has_all_symbols():
    calls = []

    @dl.program
    def pair(a, b):
        calls.append((dl.choose(a), dl.choose(b)))
        return calls[-1]

    a = dl.Distribution.from_rows([([1], [0.5]), ([2], [1.0])])
    b = dl.Distribution.from_rows([(["x"], [0.5]), (["y"], [1.0])])
    result = pair(a, b)
    assert calls == [(1, "x"), (2, "y")]
    assert (result.row(0), result.row(1)) == ([((1, "x"), 0.25)], [((2, "y"), 1.0)])


def test_what_a_closure_or_an_argument_says_is_seen():
    limit = 1

    @dl.program
    def above(d, scale):
        return dl.choose(d) * scale["by"] > limit

    d = dl.Distribution([0.25, 0.75], [1, 2])
    assert above(d, {"by": 1}).prob_of([True]).item() == pytest.approx(0.75)
    assert above(d, {"by": 2}).prob_of([True]).item() == pytest.approx(1.0)
    limit = 3
    assert above(d, {"by": 2}).prob_of([True]).item() == pytest.approx(0.75)


def test_objects_that_hold_distributions():
    class Scene:
        def __init__(self, shape, colour):
            self.shape, self.colour = shape, colour

        def is_round(self):
            return dl.choose(self.shape) in ("disc", "ball")

    @dl.program
    def answer(scene, wanted):
        if not scene.is_round():
            return "no such thing"
        return wanted + dl.choose(scene.colour)

    for p in (0.25, 0.5):
        shape = dl.Distribution([p, 1 - p], ["disc", "cube"])
        colour = dl.Distribution([0.5, 0.5], ["red", "blue"])
        result = answer(Scene(shape, colour), "a ")
        assert dict(result.row(0)) == {
            "a red": p / 2, "a blue": p / 2, "no such thing": 1 - p,
        }  # fmt: skip


def test_a_program_that_looks_at_numbers_is_run_every_time():
    @dl.program
    def likeliest(d):
        return (d.argmax()[0], dl.choose(d))

    for probs, best in (([0.75, 0.25], "a"), ([0.25, 0.75], "b")):
        assert {s[0] for s in likeliest(dl.Distribution(probs, "ab")).symbols} == {best}


def test_weights_that_train():
    p = torch.tensor([0.25, 0.5], requires_grad=True)
    runs = []

    @dl.program
    def walk(d):
        runs.append(1)
        steps = dl.choose(d)
        for _ in range(2):
            steps += dl.choose(dl.weighted({1: p[0], 0: 1 - p[0]}))
        return steps

    def value(numbers):
        with torch.no_grad():
            p.copy_(numbers)
        return walk(dl.Distribution(torch.ones(1, 1).double(), [0])).prob_of([1])[0]

    start = p.detach().clone()
    (grad,) = torch.autograd.grad(value(start), p)
    before = len(runs)
    step = torch.tensor([1e-3, 0.0])
    slope = (value(start + step) - value(start - step)).item() / 2e-3
    assert grad[0].item() == pytest.approx(slope, abs=1e-3)
    assert grad[1] == 0
    assert len(runs) == before


# -- which choice is which -------------------------------------------------------------------------


@pytest.mark.parametrize("provenance", ["damp", "exact", dl.TopKProofs(8)])
def test_the_same_distribution_gives_the_same_symbol(provenance):
    @dl.program
    def twice(d, e):
        return dl.choose(d) == dl.choose(e)

    d = dl.Distribution([0.5, 0.5], "ab", provenance=provenance)
    assert twice(d, d).row(0) == [(True, 1.0)]
    other = dl.Distribution([0.5, 0.5], "ab", provenance=provenance)
    assert twice(d, other).prob_of([True]).item() == pytest.approx(0.5)


@pytest.mark.parametrize("provenance", ["exact", dl.TopKProofs(8)])
def test_the_same_distribution_through_a_program_inside(provenance):
    @dl.program
    def parity(d):
        return dl.choose(d) % 2

    @dl.program
    def consistent(d):
        return dl.choose(parity(d)) == dl.choose(d) % 2

    d = dl.Distribution([0.25, 0.25, 0.5], [0, 1, 2], provenance=provenance)
    assert consistent(d).prob_of([True]).item() == pytest.approx(1.0)


@pytest.mark.parametrize("provenance", ["damp", "exact", dl.TopKProofs(8)])
def test_draws_are_fresh_and_equal_calls_draw_anew(provenance):
    @dl.program
    def flip(side):
        return dl.choose(dl.weighted({side: 0.5, "other": 0.5}))

    @dl.program
    def both():
        return (dl.choose(flip("heads")), dl.choose(flip("heads")))

    with dl.using(provenance):
        result = both()
    assert result.prob_of([("heads", "heads")]).item() == pytest.approx(0.25)


def test_equal_states_meet():
    calls = []

    @dl.program
    def ways(n):
        calls.append(n)
        if n <= 0:
            return n == 0
        return dl.choose(ways(n - dl.choose(dl.weighted({1: 0.5, 2: 0.5}))))

    def by_hand(n):
        return float(n == 0) if n <= 0 else (by_hand(n - 1) + by_hand(n - 2)) / 2

    assert ways(12).prob_of([True]).item() == pytest.approx(by_hand(12))
    assert len(calls) < 60


def test_a_running_total():
    digits = [dl.Distribution(torch.rand(3, 10).softmax(1), range(10)) for _ in range(6)]

    @dl.program
    def add(total, digit):
        return dl.choose(total) + dl.choose(digit)

    total = plain = digits[0]
    for digit in digits[1:]:
        total, plain = add(total, digit), plain + digit
    torch.testing.assert_close(total.probs(), plain.probs())


def test_operations_inside_a_program():
    @dl.program
    def story(a, b):
        s = dl.choose(a + b)
        if s > 1:
            return "many"
        return dl.choose(dl.union(a.filter(lambda x: x > 0), b)) + s

    a, b = (dl.Distribution([0.5, 0.5], [0, 1], provenance="exact") for _ in "ab")
    result = story(a, b)
    assert result.prob_of(["many"]).item() == pytest.approx(0.25)
    for _ in range(2):
        assert story(a, b).probs().sum().item() == pytest.approx(result.probs().sum().item())


def test_draws_inside_a_fixpoint_are_those_of_the_first_round():
    @dl.program
    def follow(node):
        at = dl.choose(node)
        return dl.choose(dl.weighted({(at + 1) % 3: 0.5}))

    start = dl.Distribution([1.0], [0], exclusive=False, provenance="exact")
    reached = dl.fixpoint(lambda d: dl.union(d, follow(d)), start)
    assert reached.prob_of([2]).item() == pytest.approx(0.25)


# -- puzzles ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("provenance", ["damp", "exact", dl.TopKProofs(6)])
def test_monty_hall(provenance):
    doors = (1, 2, 3)

    @dl.program
    def show(switch):
        car = dl.choose(dl.weighted(dict.fromkeys(doors, 1 / 3)))
        pick = dl.choose(dl.weighted(dict.fromkeys(doors, 1 / 3)))
        shut = [door for door in doors if door not in (car, pick)]
        opened = dl.choose(dl.weighted(dict.fromkeys(shut, 1 / len(shut))))
        if switch:
            pick = next(door for door in doors if door not in (pick, opened))
        return pick == car

    with dl.using(provenance):
        assert show(True).prob_of([True]).item() == pytest.approx(2 / 3)
        assert show(False).prob_of([True]).item() == pytest.approx(1 / 3)


def test_the_two_children():
    @dl.program
    def family():
        children = [dl.choose(dl.weighted({"boy": 0.5, "girl": 0.5})) for _ in range(2)]
        return ("boy" in children, children == ["boy", "boy"])

    known = dict(family().row(0))
    assert known[True, True] / (known[True, True] + known[True, False]) == pytest.approx(1 / 3)


# -- the likeliest only ----------------------------------------------------------------------------


def test_keep_prunes_each_row_by_its_own():
    @dl.program(keep=2)
    def spell(letters):
        return "".join(dl.choose(letter) for letter in letters)

    letters = [dl.Distribution([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]], "abc") for _ in range(20)]
    result = spell(letters)
    best = [max(row, key=lambda pair: pair[1]) for row in result.top(2)]
    assert [symbol for symbol, _ in best] == ["a" * 20, "c" * 20]
    assert best[0][1] == pytest.approx(0.7**20, rel=1e-4)
    assert [len(row) for row in result.top(9)] == [2, 2]


# -- the rest of the house -------------------------------------------------------------------------


def test_methods_and_modules():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.flip = torch.nn.Parameter(torch.tensor(0.25))

        @dl.program
        def noisy(self, d):
            x = dl.choose(d)
            return dl.choose(dl.weighted({x: 1 - self.flip, 1 - x: self.flip}))

        def forward(self, d):
            return self.noisy(d)

    model = Model()
    d = dl.Distribution([1.0, 0.0], [0, 1])
    probs = model(d).probs([0, 1])
    torch.testing.assert_close(probs, torch.tensor([[0.75, 0.25]]))
    probs[0, 1].backward()
    assert model.flip.grad.item() == pytest.approx(1.0)


def test_no_grad_and_precision():
    @dl.program
    def total(a, b):
        return dl.choose(a) + dl.choose(b)

    a = dl.Distribution(torch.rand(2, 3, dtype=torch.float64).softmax(1), range(3))
    with torch.no_grad():
        assert total(a, dl.Distribution.certain(1)).dtype == torch.float64
    assert total(dl.Distribution.certain(1), dl.Distribution.certain(2)).row(0) == [(3, 1.0)]


def test_explain_names_the_program():
    @dl.program
    def lamp(switch):
        on = dl.choose(switch)
        return on and dl.choose(dl.weighted({True: 0.9, False: 0.1}))

    switch = dl.Distribution([0.5, 0.5], [True, False], provenance=dl.TopKProofs(3))
    proof = lamp(switch).explain(True)[0]
    assert {str(fact.symbol) for fact in proof.facts} == {"True", "lamp(True) -> True"}


@pytest.mark.parametrize("name", ["damp", "exact", "dtkp-am"])
@pytest.mark.parametrize("layout", ["shared", "rows"])
def test_a_program_without_a_result_belongs_to_its_inputs(name, layout):
    x = torch.rand(2, 2, dtype=torch.float64, requires_grad=True)
    d = dl.Distribution(x, [0, 1], exclusive=False, provenance=name)
    if layout == "rows":
        rows = [([0, 1], row) for row in x]
        d = dl.Distribution.from_rows(rows, exclusive=False, provenance=name)

    @dl.program
    def never(d):
        return dl.choose(dl.filter(d, lambda s: s > 1))

    for _ in range(2):
        result = never(d)
        assert (result.symbols, result.batch_size, result.dtype) == ((), 2, torch.float64)
        dl.nll_loss(result, [0, 1]).backward(retain_graph=True)


@pytest.mark.parametrize("algebra", ["exact", "dtkp-am"])
def test_two_children_by_condition(algebra):
    @dl.program
    def family():
        return tuple(dl.choose(dl.weighted({"boy": 0.5, "girl": 0.5})) for _ in range(2))

    with dl.using(algebra, k=4) if algebra == "dtkp-am" else dl.using(algebra):
        children = family()
        known = dl.condition(children, children.map(lambda both: "boy" in both))
    assert known.prob_of([("boy", "boy")]).item() == pytest.approx(1 / 3)


def test_an_error_inside_a_program_is_one_sentence():
    @dl.program
    def wrong(d):
        return dl.choose(dl.weighted({dl.choose(d): 0.7, "other": 0.7}))

    with pytest.raises(dl.DolphinError, match=r"Normalise them first after choosing 1\.$"):
        wrong(dl.Distribution([1.0], [1]))


@pytest.mark.parametrize("algebras", list(itertools.permutations(["damp", "dtkp-am", "exact"])))
def test_certain_symbols_under_one_algebra_after_another(algebras):
    """Which certain operands a plan leaves out depends on the algebra."""

    @dl.program
    def pair(a, b):
        return dl.choose(a), dl.choose(b)

    @dl.program
    def length(a):
        return len(dl.choose(a))

    for algebra in (*algebras, *algebras):
        with dl.using(algebra):
            certain = dl.union(*map(dl.Distribution.certain, "ab"))
            coin = dl.Distribution([0.25, 0.75], [0, 1])
        expected = dl.apply(certain, coin, lambda a, b: (a, b))
        torch.testing.assert_close(pair(certain, coin).probs(), expected.probs())
        torch.testing.assert_close(length(certain).probs(), certain.map(len).probs())


_factor = 1


@dl.program
def _scaled(a, b):
    return _factor * (dl.choose(a) + dl.choose(b))


def test_a_repeated_call_notices_what_has_changed(monkeypatch):
    """Later calls are recognised without looking at their arguments' contents."""
    dice = [dl.Distribution([0.5, 0.5], [1, 2]) for _ in range(2)]
    three = dl.Distribution([0.5, 0.25, 0.25], [1, 2, 3])
    for factor in (1, 1, 1, 10, 10, 1):
        monkeypatch.setattr(sys.modules[__name__], "_factor", factor)
        for a, b in itertools.product([*dice, three], repeat=2):
            pairs = (
                [(x, x) for x in a.symbols] if a is b else itertools.product(a.symbols, b.symbols)
            )
            assert set(_scaled(a, b).symbols) == {factor * (x + y) for x, y in pairs}


def test_a_repeated_call_checks_its_operands():
    coins = [dl.Distribution(torch.full((rows, 2), 0.5), [1, 2]) for rows in (1, 2, 3)]
    for _ in range(3):
        assert _scaled(coins[0], coins[2]).batch_size == 3
        with pytest.raises(dl.DolphinError, match="batch sizes"):
            _scaled(coins[1], coins[2])
        double = dl.Distribution(torch.full((2, 2), 0.5, dtype=torch.float64), [1, 2])
        assert _scaled(coins[1], double).dtype == torch.float64
        other = dl.Distribution([0.5, 0.5], [1, 2], provenance="viterbi")
        with pytest.raises(dl.DolphinError, match="provenances"):
            _scaled(coins[0], other)
