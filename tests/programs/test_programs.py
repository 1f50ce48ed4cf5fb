"""`dl.program` and `dl.choose`, against every execution of the same program in plain Python."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass

import pytest
import torch

import dolphin as dl
from dolphin.symbolic import endless
from executions import every_execution

SYMBOLS = range(3)


# -- random programs -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Body:
    """A piece of a program: what it does, and with what."""

    kind: str
    number: int = 0
    parts: tuple[Body, ...] = ()


def random_body(rng: random.Random, depth: int, inputs: int, subs: bool) -> Body:
    kinds = ["return", "if", "if", "loop", "draw", "try", *(["sub", "sub"] if subs else [])]
    kind = rng.choice(kinds) if depth else "return"
    if kind == "return":
        return Body(kind, rng.randrange(6))
    parts = tuple(random_body(rng, depth - 1, inputs, subs) for _ in range(2))
    if kind == "sub":
        parts = (random_body(rng, 1, inputs, False), *parts)
    return Body(kind, rng.randrange(inputs), parts)


def run_body(body: Body, state: int, choose, draw, call, weights) -> int:
    """The program itself: plain control flow. What choosing means is up to the caller."""
    go = run_body, (choose, draw, call, weights)

    def further(part: Body, state: int) -> int:
        return go[0](part, state, *go[1])

    match body.kind:
        case "return":
            return (state + body.number) % 4 if body.number < 4 else body.number
        case "if":
            if choose(body.number) == state % 3:
                return further(body.parts[0], state)
            return further(body.parts[1], state + 1)
        case "loop":
            while choose(body.number) > state and state < 2:
                state += 1
            return further(body.parts[state % 2], state)
        case "draw":
            state += draw({0: weights[body.number, 0], 1: 1 - weights[body.number, 0]})
            return further(body.parts[state % 2], state)
        case "try":
            try:
                if choose(body.number):
                    raise KeyError(state)
                state += 1
            except Exception:
                state += 2
            finally:
                state += 1
            return further(body.parts[0], state)
        case "sub":
            found = call(body.parts[0], state)
            return further(body.parts[1 + found % 2], state + found)
    raise AssertionError(body.kind)


class Case:
    def __init__(self, seed: int, *, subs: bool) -> None:
        rng = random.Random(seed)
        self.batch = rng.choice([1, 2])
        self.rows = rng.random() < 0.4
        self.inputs = [self._numbers(rng, self.batch, 3) for _ in range(rng.choice([1, 2, 3]))]
        self.weights = self._numbers(rng, len(self.inputs), 1)
        self.body = random_body(rng, rng.choice([1, 2, 3]), len(self.inputs), subs)

    @staticmethod
    def _numbers(rng: random.Random, rows: int, columns: int) -> torch.Tensor:
        raw = torch.tensor([[rng.random() + 0.1 for _ in range(columns)] for _ in range(rows)])
        slack = rng.choice([0.0, 0.5]) if columns > 1 else 0.5
        return (raw.double() / (raw.double().sum(1, keepdim=True) + slack)).requires_grad_()

    @property
    def leaves(self) -> list[torch.Tensor]:
        return [*self.inputs, self.weights]

    def distributions(self, provenance) -> list[dl.Distribution]:
        made = []
        for place, numbers in enumerate(self.inputs):
            if self.rows and place == 0:
                rows = [(SYMBOLS[: 3 - r], row[: 3 - r]) for r, row in enumerate(numbers.unbind())]
                made.append(dl.Distribution.from_rows(rows, provenance=provenance))
            else:
                made.append(dl.Distribution(numbers, SYMBOLS, provenance=provenance))
        return made

    def with_dolphin(self, provenance, **options) -> dl.Distribution:
        weights = self.weights

        @dl.program(**options)
        def go(body, state, inputs):
            return run_body(
                body,
                state,
                lambda number: dl.choose(inputs[number]),
                lambda outcomes: dl.choose(dl.weighted(outcomes)),
                lambda part, now: dl.choose(go(part, now, inputs)),
                weights,
            )

        return go(self.body, 0, self.distributions(provenance))

    def by_hand(self, row: int) -> dict:
        def run(pick):
            drawn = iter(range(1000))

            def choose(number):
                own = self.inputs[number][row]
                options = list(enumerate(own.unbind()))
                if self.rows and number == 0:
                    options = options[: 3 - row]
                return pick(("input", number), options)

            def draw(outcomes):
                return pick(("draw", next(drawn)), list(outcomes.items()))

            def call(part, state):
                return run_body(part, state, choose, draw, call, self.weights)

            return run_body(self.body, 0, choose, draw, call, self.weights)

        return every_execution(run)


def same(case: Case, provenance, **options) -> None:
    result = case.with_dolphin(provenance, **options)
    answers = [case.by_hand(row) for row in range(case.batch)]
    symbols = sorted({symbol for answer in answers for symbol in answer})
    assert set(symbols) <= set(result.symbols)
    probs = result.probs(symbols)
    rows = [
        torch.stack([torch.as_tensor(a.get(s, 0.0), dtype=torch.float64) for s in symbols])
        for a in answers
    ]
    expected = torch.stack(rows).expand(probs.shape) if len(rows) == 1 else torch.stack(rows)
    if len(probs) < len(expected):  # nothing in it differs from row to row
        probs = probs.expand(expected.shape)
    torch.testing.assert_close(probs.double(), expected, atol=1e-6, rtol=1e-6)
    goal = torch.linspace(0.5, 1.5, probs.numel(), dtype=torch.float64).view_as(probs)
    found, wanted = (
        torch.autograd.grad((p * goal).sum(), case.leaves, allow_unused=True)
        if p.requires_grad
        else [None] * len(case.leaves)
        for p in (probs, expected)
    )
    for a, b, leaf in zip(found, wanted, case.leaves, strict=True):
        a, b = (torch.zeros_like(leaf) if g is None else g for g in (a, b))
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("part", range(4))
def test_random_programs_under_damp(part):
    for seed in range(250 * part, 250 * part + 250):
        same(Case(seed, subs=False), "damp")


@pytest.mark.parametrize("provenance", ["exact", dl.TopKProofs(200), "damp"])
def test_random_programs_of_every_provenance(provenance):
    for seed in range(2000, 2060):
        same(Case(seed, subs=False), provenance)


@pytest.mark.parametrize("part", range(2))
def test_random_programs_with_programs_inside_are_exact(part):
    for seed in range(3000 + 40 * part, 3040 + 40 * part):
        same(Case(seed, subs=True), "exact")


@pytest.mark.parametrize("provenance", ["damp", dl.TopKProofs(200), "exact"])
def test_keeping_all_executions_keeps_the_result(provenance):
    for seed in range(4000, 4015):
        same(Case(seed, subs=False), provenance, keep=10_000)


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


# -- refused ---------------------------------------------------------------------------------------


def test_errors_name_the_choices():
    @dl.program
    def invert(d, e):
        return (dl.choose(e), 1 / dl.choose(d))

    d, e = dl.Distribution([0.5, 0.5], [1, 0]), dl.Distribution([1.0], ["x"])
    with pytest.raises(
        dl.FunctionError, match=r"invert.*ZeroDivisionError.*choosing 'x', 0"
    ) as raised:
        invert(d, e)
    assert isinstance(raised.value.__cause__, ZeroDivisionError)


def test_what_cannot_be_meant():
    d = dl.Distribution([0.5, 0.5], [0, 1])
    with pytest.raises(dl.InputError, match="only a program can choose"):
        dl.choose(d)
    for returned, message in [
        (lambda: d, "return dolphin.choose"),
        (lambda: dl.weighted({1: 0.5}), "choose"),
        (lambda: [1], "unhashable"),
        (lambda: dl.choose(3), "A plain symbol needs no choice"),
    ]:
        with pytest.raises(dl.DolphinError, match=message):
            dl.program(returned)()
    with pytest.raises(dl.InputError, match="keep must be"):
        dl.program(keep=0)
    with pytest.raises(dl.InputError, match="expected a function"):
        dl.program(d)  # type: ignore[call-overload]


def test_a_loop_without_a_choice_is_noticed():
    @dl.program
    def stuck(coin):
        side = dl.choose(coin)
        while side == "tail":
            try:
                side = "tail"
            except Exception:
                side = "head"
        return side

    with (
        dl.settings(max_seconds=1),
        pytest.raises(dl.SizeError, match=r"stuck: .* 1 seconds .*choosing 'tail'.*max_seconds"),
    ):
        stuck(dl.Distribution([0.5, 0.5], ["head", "tail"]))


def test_a_program_is_stopped_in_its_own_code_only(monkeypatch):
    monkeypatch.setattr(endless, "_PERIOD", 0.01)
    inside_of_a_library = threading.Event()  # as inside of Dolphin: locks may be held there
    with endless.watched(0.01):
        inside_of_a_library.wait(0.2)
    with pytest.raises(endless.EndlessError), endless.watched(0.01):
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            pass
    assert not endless._watchman._watched


def test_a_long_program_that_chooses_is_not_endless():
    @dl.program
    def inner(coin):
        time.sleep(0.6)
        return dl.choose(coin)

    @dl.program
    def outer(coin):
        return [dl.choose(inner(coin)) for _ in range(2)] == [0, 0]

    with dl.settings(max_seconds=1):
        found = outer(dl.Distribution([0.5, 0.5], [0, 1]))
    assert found.row(0) == [(True, 0.5), (False, 0.5)]


def test_recursion_without_end_is_an_error_that_says_so():
    @dl.program
    def down(coin):
        return 1 + down(coin)

    with pytest.raises(dl.DolphinError, match=r"down: .*RecursionError"):
        down(dl.Distribution([0.5, 0.5], [0, 1]))


def test_programs_without_end():
    coin = dl.Distribution([0.5, 0.5], [0, 1])

    @dl.program(max_choices=100)
    def forever():
        while dl.choose(dl.weighted({True: 0.5, False: 0.5})):
            pass
        return 1

    with pytest.raises(dl.SizeError, match=r"made 100 choices.*max_choices"):
        forever()

    @dl.program
    def again():
        while dl.choose(coin) in (0, 1):
            pass

    with pytest.raises(dl.SizeError, match="symbols without returning after choosing 0"):
        again()


def test_too_many_executions():
    @dl.program
    def word(letters):
        return tuple(dl.choose(letter) for letter in letters)

    letters = [dl.Distribution([0.5, 0.5], "ab") for _ in range(8)]
    with dl.settings(max_combinations=100), pytest.raises(dl.SizeError, match="keep=k"):
        word(letters)
    assert len(word(letters)) == 256


def test_a_program_that_changes_its_mind():
    state = []

    @dl.program
    def fickle(d, e):
        state.append(1)
        return dl.choose(d if len(state) == 1 else e)

    with pytest.raises(dl.FunctionError, match="something different"):
        fickle(dl.Distribution([0.5, 0.5], "ab"), dl.Distribution([0.5, 0.5], "cd"))


def test_bare_except_is_noticed():
    @dl.program(keep=2)
    def stubborn(d):
        try:
            return dl.choose(d)
        except BaseException:
            return 0

    with pytest.raises(dl.FunctionError, match="Catch Exception"):
        stubborn(dl.Distribution([0.5, 0.5], [1, 2]))


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
