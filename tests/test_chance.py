"""`dl.weighted`: functions with weighted outcomes, against every way in which the dice can fall."""

from __future__ import annotations

import random

import pytest
import torch

import dolphin as dl
from executions import every_execution

STATES = 3
PROVENANCES = ["damp", "exact", dl.TopKProofs(200), dl.TopKProofs(8, wmc="exact")]


def weights(rng: random.Random, rows: int, columns: int, full: bool) -> torch.Tensor:
    numbers = torch.tensor([[rng.random() + 0.05 for _ in range(columns)] for _ in range(rows)])
    slack = 0.0 if full else 0.5
    numbers = numbers.double() / (numbers.double().sum(1, keepdim=True) + slack)
    return numbers.requires_grad_()


class Story:
    """A random program over a few inputs: steps that map, combine or draw."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.batch = rng.choice([1, 2])
        self.inputs = [
            weights(rng, self.batch, STATES, rng.random() < 0.5) for _ in range(rng.choice([1, 2]))
        ]
        self.matrix = weights(rng, STATES, STATES, rng.random() < 0.5)
        self.coin = weights(rng, 1, 1, False)
        self.steps = []
        known = len(self.inputs)
        for _ in range(rng.choice([1, 2, 3])):
            kind = rng.choice(["walk", "walk", "noise", "mixed", "plain"])
            self.steps.append((kind, rng.randrange(known), rng.randrange(known)))
            known += 1
        self.rows = rng.random() < 0.4

    @property
    def leaves(self) -> list[torch.Tensor]:
        return [*self.inputs, self.matrix, self.coin]

    def functions(self):
        matrix, coin = self.matrix, self.coin

        def walk(x):
            return {y: matrix[x, y] for y in range(STATES)}

        def noise(x, y):
            return {(x + y) % STATES: coin[0, 0], x: 1 - coin[0, 0]} if (x + y) % STATES != x else x

        def mixed(x):
            return {0: 0.25, x: 0.5} if x else 0

        def plain(x, y):
            return max(x, y)

        return {"walk": walk, "noise": noise, "mixed": mixed, "plain": plain}

    def with_dolphin(self, provenance) -> dl.Distribution:
        def random_of(function):
            def run(*symbols):
                result = function(*symbols)
                return dl.weighted(result) if isinstance(result, dict) else result

            return run

        functions = {name: random_of(f) for name, f in self.functions().items()}
        values = [self._input(numbers, provenance) for numbers in self.inputs]
        for kind, a, b in self.steps:
            both = kind in ("noise", "plain")
            operands = (values[a], values[b]) if both else (values[a],)
            values.append(dl.apply(*operands, functions[kind]))
        return values[-1]

    def _input(self, numbers, provenance) -> dl.Distribution:
        if not self.rows:
            return dl.Distribution(numbers, range(STATES), provenance=provenance)
        rows = [(range(STATES), row) for row in numbers.unbind()]
        return dl.Distribution.from_rows(rows, provenance=provenance)

    def by_hand(self, row: int) -> dict:
        functions = self.functions()

        def run(pick):
            def value(number):  # asked for only where the result depends on it
                if number < len(self.inputs):
                    own = self.inputs[number][row]
                    return pick(("input", number), list(enumerate(own.unbind())))
                kind, a, b = self.steps[number - len(self.inputs)]
                both = kind in ("noise", "plain")
                symbols = (value(a), value(b)) if both else (value(a),)
                result = functions[kind](*symbols)
                if isinstance(result, dict):
                    result = pick((number, symbols), list(result.items()))
                return result

            return value(len(self.inputs) + len(self.steps) - 1)

        return every_execution(run)


def same(story: Story, provenance) -> None:
    result = story.with_dolphin(provenance)
    answers = [story.by_hand(row) for row in range(story.batch)]
    symbols = sorted({symbol for answer in answers for symbol in answer})
    assert set(result.symbols) <= set(symbols) | set(range(STATES))
    probs = result.probs(symbols)
    expected = torch.stack(
        [torch.stack([torch.as_tensor(answer.get(s, 0.0), dtype=torch.float64) for s in symbols])
         for answer in answers]
    )  # fmt: skip
    torch.testing.assert_close(probs, expected, atol=1e-9, rtol=1e-7)
    goal = torch.linspace(0.5, 1.5, probs.numel(), dtype=torch.float64).view_as(probs)
    found, wanted = (
        torch.autograd.grad((p * goal).sum(), story.leaves, allow_unused=True)
        for p in (probs, expected)
    )
    for a, b in zip(found, wanted, strict=True):
        a, b = (torch.zeros(1).double() if g is None else g for g in (a, b))
        torch.testing.assert_close(*torch.broadcast_tensors(a, b), atol=1e-8, rtol=1e-6)


@pytest.mark.parametrize("part", range(4))
def test_random_programs_with_chance_are_exact_under_exact(part):
    for seed in range(50 * part, 50 * part + 50):
        same(Story(seed), "exact")


@pytest.mark.parametrize("provenance", ["damp", dl.TopKProofs(300)])
def test_chains_are_exact_under_every_provenance(provenance):
    for seed in range(30):
        story = Story(seed)
        story.inputs = story.inputs[:1]
        story.steps = [(kind, n, n) for n, kind in enumerate(["walk", "mixed", "walk"])]
        same(story, provenance)


# -- which draw is which ---------------------------------------------------------------------------


def coin_of(x):
    return dl.weighted({(x, "heads"): 0.5, (x, "tails"): 0.5})


@pytest.mark.parametrize("provenance", ["exact", dl.TopKProofs(8)])
def test_a_result_used_twice_is_one_draw_and_two_calls_are_two(provenance):
    x = dl.Distribution([0.5, 0.5], "ab", provenance=provenance)
    once = x.map(coin_of)
    assert (once == once).prob_of([True]).item() == pytest.approx(1.0)
    assert (once == x.map(coin_of)).prob_of([True]).item() == pytest.approx(0.5)


@pytest.mark.parametrize("provenance", ["exact", dl.TopKProofs(8)])
def test_rows_draw_on_their_own(provenance):
    x = dl.Distribution([[1.0], [1.0]], "a", provenance=provenance)
    drawn = x.map(coin_of)
    assert (drawn[0] == drawn[1]).prob_of([True]).item() == pytest.approx(0.5)
    assert (drawn[0] == drawn[0]).prob_of([True]).item() == pytest.approx(1.0)


def test_the_rounds_of_a_fixpoint_repeat_their_draws():
    links = {0: {1: 0.5, 2: 0.25}, 1: {2: 0.5, 0: 0.25}, 2: {0: 0.5}}

    def follow(node):
        return dl.weighted(links[node])

    start = dl.Distribution([1.0], [0], exclusive=False, provenance="exact")
    reached = dl.fixpoint(lambda d: dl.union(d, d.map(follow)), start)

    def run(pick):
        known, seen = 0, {0}
        for _ in range(3):
            options = [*links[known].items()]
            rest = 1 - sum(links[known].values())
            known = pick(known, [*options, *([(None, rest)] if rest else [])])
            if known is None:
                break
            seen.add(known)
        return tuple(n in seen for n in range(3))

    answer = every_execution(run)
    for node in range(3):
        wanted = sum(p for seen, p in answer.items() if seen[node])
        assert reached.prob_of([node]).item() == pytest.approx(wanted)


def test_a_fixpoint_redraws_in_every_call_and_not_in_nested_rounds():
    def noisy(x):
        return dl.weighted({min(x + 1, 3): 0.5})

    start = dl.Distribution([1.0], [0], exclusive=False, provenance="exact")

    def grow(d):
        return dl.union(d, dl.fixpoint(lambda e: dl.union(e, e.map(noisy)), d))

    nested = dl.fixpoint(grow, start)
    assert nested.prob_of([3]).item() == pytest.approx(0.125)
    both = [dl.fixpoint(lambda e: dl.union(e, e.map(noisy)), start) for _ in range(2)]
    assert dl.union(*both).prob_of([1]).item() == pytest.approx(0.75)


# -- weights ---------------------------------------------------------------------------------------


def test_a_step_sees_present_weights_and_the_function_runs_once():
    calls = []
    scores = torch.zeros(2, 2, requires_grad=True)
    start = dl.Distribution([0.25, 0.75], [0, 1])
    seen = []
    for _ in range(3):
        matrix = scores.softmax(1)

        def move(x):
            calls.append(x)
            return dl.weighted({y: matrix[x][y] for y in range(2)})  # noqa: B023

        probs = start.map(move).probs([0, 1])
        seen.append(probs.detach())
        torch.testing.assert_close(probs, torch.tensor([[0.25, 0.75]]) @ matrix)
        (grad,) = torch.autograd.grad(probs[0, 0], scores)
        with torch.no_grad():
            scores += grad
    assert calls == [0, 1]
    assert not torch.equal(seen[0], seen[2])


def test_weights_of_a_module_changed_in_place():
    calls = []

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.p = torch.nn.Parameter(torch.tensor([0.25, 0.5]))

        def flip(self, x):
            calls.append(x)
            return dl.weighted({x: 1 - self.p[x], 1 - x: self.p[x]})

        def forward(self, d):
            return d.map(self.flip)

    model = Model()
    d = dl.Distribution([1.0, 0.0], [0, 1])
    assert model(d).row(0) == [(0, 0.75), (1, 0.25)]
    with torch.no_grad():
        model.p[0] = 0.5
    assert model(d).row(0) == [(0, 0.5), (1, 0.5)]
    assert len(calls) == 2


@pytest.mark.parametrize(
    "function",
    [
        lambda p: lambda x: dl.weighted({"hot" if p[x] > 0.3 else "cold": p[x]}),
        lambda p: lambda x: dl.weighted({"hot": p[x] * p[x]}),
        lambda p: lambda x: dl.weighted({"hot": p.softmax(0)[0] + 0 * x}),
        lambda p: lambda x: dl.weighted({"hot": float(p[x])}),
        lambda p: lambda x: dl.weighted({"hot": p.tolist()[x]}),
        lambda p: lambda x: dl.weighted({"hot": p.detach().numpy()[x]}),
        lambda p: lambda x: dl.weighted({"hot": p[p.argmax()]}),
    ],
)
def test_functions_that_look_at_numbers_are_not_remembered(function):
    d = dl.Distribution([0.5, 0.5], [0, 1])
    p = torch.tensor([0.25, 0.75], requires_grad=True)
    before = d.map(function(p)).row(0)
    with torch.no_grad():
        p.copy_(torch.tensor([0.5, 0.125]))
    after = d.map(function(p)).row(0)
    dl.cache_clear()
    assert after == d.map(function(p)).row(0) != before


def test_entries_by_other_ways_than_indexing():
    p = torch.tensor([[0.25, 0.5], [0.125, 0.75]], requires_grad=True)
    d = dl.Distribution([0.5, 0.5], [0, 1])
    ways = [
        lambda x: dl.weighted(dict(zip("ab", p[x], strict=True))),
        lambda x: dl.weighted(dict(zip("ab", p.unbind()[x].unbind(), strict=True))),
        lambda x: dl.weighted({"a": p.t()[0, x], "b": p.reshape(-1)[2 * x + 1]}),
        lambda x: dl.weighted({"a": (2 * p[x, 0]) / 2, "b": p[x, 1] + 0.0 * p[0, 0]}),
    ]
    for way in ways:
        probs = d.map(way).probs(["a", "b"])
        torch.testing.assert_close(probs, torch.tensor([[0.1875, 0.625]]))
        (grad,) = torch.autograd.grad(probs[0, 1], p)
        torch.testing.assert_close(grad, torch.tensor([[0.0, 0.5], [0.0, 0.5]]))


def test_the_more_precise_of_inputs_and_weights_decides():
    p = torch.tensor([0.1, 0.9], dtype=torch.float64)
    d = dl.Distribution([0.5, 0.5], [0, 1])
    drawn = d.map(lambda x: dl.weighted({"a": p[x]}))
    assert drawn.dtype == torch.float64
    number = dl.Distribution(p, [0, 1]).map(lambda x: dl.weighted({"a": 0.1, "b": 0.9}))
    assert number.dtype == torch.float64
    assert number.prob_of(["a"]).item() == pytest.approx(0.1, abs=1e-15)
    certain = dl.Distribution.certain(1).map(lambda x: dl.weighted({"a": 0.1, "b": 0.9}))
    assert (certain + "!").row(0) == [("a!", 0.1), ("b!", 0.9)]
    both = dl.apply(certain, dl.Distribution(p, "xy"), lambda a, b: a + b)
    assert both.dtype == torch.float64


@pytest.mark.parametrize("provenance", ["damp", "exact", dl.TopKProofs(3), "min-max", "noisy-or"])
def test_every_provenance_draws(provenance):
    d = dl.Distribution([[0.5, 0.5], [1.0, 0.0]], [0, 1], provenance=provenance)
    drawn = d.map(lambda x: dl.weighted({"a": 1.0}) if x else dl.weighted({}))
    assert drawn.symbols == ("a",)
    torch.testing.assert_close(drawn.probs(), torch.tensor([[0.5], [0.0]]))
    joined = dl.apply_if(
        drawn, d, lambda a, x: dl.weighted({x: 0.5, a: 0.5}), on=(lambda a: 1, lambda x: x)
    )
    assert set(joined.symbols) == {1, "a"}


# -- refused ---------------------------------------------------------------------------------------


def test_weights_that_cannot_be_meant_name_the_call_and_the_sum():
    d = dl.Distribution([0.5, 0.5], [3, 4])

    def slip(x):
        return dl.weighted({x: 0.75, x + 1: 0.5})

    with pytest.raises(dl.FunctionError, match=r"slip.*add up to 1.25.*the symbol 3"):
        d.map(slip)
    p = torch.tensor([0.75, 0.5], requires_grad=True)

    def slide(x):
        return dl.weighted({x: p[0], x + 1: p[1]})

    with pytest.raises(dl.InputError, match=r"weights of slide\(3\) add up to 1.25.*softmax"):
        d.map(slide)
    with torch.no_grad():
        p.copy_(torch.tensor([-0.5, 0.5]))
    with pytest.raises(dl.InputError, match=r"slide\(3\) -> 3 is -0.5"):
        d.map(slide)
    with torch.no_grad():
        p.copy_(torch.tensor([float("nan"), 0.5]))
    with pytest.raises(dl.InputError, match="nan"):
        d.map(slide)
    for bad, message in [
        ({1: -0.5}, "at least 0"),
        ({1: float("inf")}, "at least 0"),
        ({1: "often"}, "must be a number"),
        ({1: torch.ones(2)}, "a single entry"),
        ([(1, 0.5)], "a dictionary"),
    ]:
        with pytest.raises(dl.InputError, match=message):
            dl.weighted(bad)


def test_where_chance_has_no_place():
    d = dl.Distribution([0.5, 0.5], [0, 1])
    chance = lambda x: dl.weighted({True: 0.5})  # noqa: E731
    with pytest.raises(dl.FunctionError, match=r"condition is True or False. Draw first"):
        d.filter(chance)
    with pytest.raises(dl.DolphinError, match="can't be random"):
        dl.apply_if(d, d, lambda x, y: x, on=(chance, chance))
    with pytest.raises(dl.SymbolError):
        dl.Distribution([1.0], [dl.weighted({1: 0.5})])
    with pytest.raises(dl.UnsupportedError, match="chances"):
        dl.trace(lambda a: a.map(lambda x: dl.weighted({x: 0.5})), range(2))


# -- for people ------------------------------------------------------------------------------------


def test_explain_names_each_draw():
    d = dl.Distribution([0.25, 0.75], [3, 4], provenance=dl.TopKProofs(3))
    move = dl.Distribution([1.0], ["left"], provenance=dl.TopKProofs(3))

    def slip(x, direction):
        return dl.weighted({x: 0.5, x + 1: 0.5})

    proof = dl.apply(d, move, slip).explain(4)[0]
    assert [fact.symbol for fact in proof.facts] == [4, "left", "slip(4, 'left') -> 4"]
    assert proof.probability == pytest.approx(0.375)


def test_memory_of_functions_that_are_not_remembered_is_bounded():
    p = torch.tensor([0.5, 0.5], requires_grad=True)
    d = dl.Distribution([0.5, 0.5], [0, 1])
    with dl.settings(max_remembered=50):
        for _ in range(100):
            d.map(lambda x: dl.weighted({x: p[x] * p[x]}))
    from dolphin.symbolic.plans import caches

    assert len(caches.table.chances) <= 60


# -- branches --------------------------------------------------------------------------------------


def test_where_is_both_branches_weighed():
    cond = dl.Distribution([[0.25, 0.75], [1.0, 0.0]], [True, False])
    yes, no = dl.Distribution([0.5, 0.5], "ab"), dl.Distribution([0.25, 0.75], "bc")
    result = dl.where(cond, yes, no)
    torch.testing.assert_close(
        result.probs(["a", "b", "c"]),
        torch.tensor([[0.125, 0.125 + 0.1875, 0.5625], [0.5, 0.5, 0.0]]),
    )
    assert dl.where(cond, "yes", "no").row(0) == [("yes", 0.25), ("no", 0.75)]


def test_where_knows_shared_facts():
    x = dl.Distribution([0.25, 0.75], [0, 1], provenance="exact")
    result = dl.where(x == 0, x + 10, x)
    torch.testing.assert_close(result.probs([10, 11, 0, 1]), torch.tensor([[0.25, 0, 0, 0.75]]))


def test_where_with_a_mask_takes_rows():
    a = dl.Distribution([[0.5, 0.5], [0.25, 0.75]], "ab")
    b = dl.Distribution([0.5, 0.5], "bc")
    for mask in ([True, False], torch.tensor([True, False])):
        result = dl.where(mask, a, b)
        assert result.row(0) == [("a", 0.5), ("b", 0.5)]
        assert result.row(1) == [("b", 0.5), ("c", 0.5)]
    assert dl.where([False, True], a, "z").row(0) == [("z", 1.0)]
    assert dl.where([False, True], a, a[0]).row(0) == a.row(0)


def test_where_takes_no_part_of_a_branch_that_cannot_be_taken():
    cond = dl.Distribution([1.0], [True])
    assert dl.where(cond, "yes", dl.Distribution([0.5, 0.5], "ab")).symbols == ("yes",)
    rows = dl.Distribution.from_rows([([True], [0.5]), ([False], [0.25])])
    result = dl.where(rows, "yes", "no")
    assert (result.row(0), result.row(1)) == ([("yes", 0.5)], [("no", 0.25)])


def test_where_refuses_what_is_no_condition():
    a = dl.Distribution([0.5, 0.5], [0, 1])
    with pytest.raises(dl.InputError, match="True and False"):
        dl.where(a, "yes", "no")
    with pytest.raises(dl.InputError, match="one per row"):
        dl.where("yes", a, a)  # type: ignore[arg-type]
    with pytest.raises(dl.InputError, match="3 rows doesn't fit a distribution of 2 rows"):
        dl.where([True, False, True], dl.Distribution([[1.0], [1.0]], "a"), "b")


def test_weights_that_the_function_makes_itself_are_made_anew():
    """Results with such tensors must not be remembered without them."""

    def coin(x):
        return dl.weighted(dict(zip("ab", torch.tensor([0.25, 0.75]), strict=True)))

    d = dl.Distribution([0.5, 0.5], [0, 1])
    for _ in range(2):
        assert d.map(coin).row(0) == [("a", 0.25), ("b", 0.75)]


@pytest.mark.parametrize("name", ["damp", "noisy-or", "exact", "dtkp-am", "dtkp-wmc"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_chances_of_what_is_certain_are_as_precise_as_the_program(name, dtype):
    """Precision is undecided until inputs take part; read on its own, it is the default."""
    numbers = torch.tensor([[0.3, 0.6]], dtype=dtype)
    with dl.using(name):
        drawn = dl.Distribution.certain(1).map(lambda s: dl.weighted({s: 0.3, s + 1: 0.1}))
        assert drawn.dtype == drawn.probs().dtype == torch.float32
        both = dl.apply(drawn, dl.Distribution(numbers, [1, 3]), lambda a, b: a == b)
        asked = dl.apply(
            dl.exists(drawn, lambda s: s > 1), dl.Distribution(numbers, [1, 3]), tuple_of
        )
    for found, wanted in ((both.prob_of([True]), 0.09), (asked.prob_of([(True, 3)]), 0.06)):
        assert found.dtype == dtype
        assert found.item() == pytest.approx(wanted, rel=1e-6 if dtype == torch.float32 else 1e-14)


def tuple_of(*symbols):
    return symbols
