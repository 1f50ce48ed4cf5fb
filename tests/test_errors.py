"""Every error names the operation, the sizes or symbols involved, and what to do about it.

The words that are asked for are those that a user needs to find the mistake, not the whole text.
"""

from __future__ import annotations

import math
import operator
import time

import pytest
import torch

import dolphin as dl
from dolphin import Distribution, DolphinError


def fails(*words: str, kind: type[Exception] | None = None):
    """A DolphinError whose message has all these words; `a|b` asks for one of them."""
    return _Fails(words, kind)


class _Fails:
    def __init__(self, words, kind):
        self.words = words
        self.kind = kind
        self.raises = pytest.raises(DolphinError)

    def __enter__(self):
        self.info = self.raises.__enter__()
        return self.info

    def __exit__(self, *details):
        handled = self.raises.__exit__(*details)
        text = str(self.info.value)
        for word in self.words:
            options = word.split("|")
            assert any(option.lower() in text.lower() for option in options), (
                f"no {word!r} in: {text}"
            )
        assert len(text) < 1000, "a message, not a page"
        if self.kind is not None:
            assert isinstance(self.info.value, self.kind)
        return handled


def digits(batch=2, n=3, provenance=None):
    return Distribution(torch.full((batch, n), 1 / n), range(n), provenance=provenance)


# ------------------------------------------------------------------------ making distributions


def test_wrong_number_of_symbols():
    with fails("Distribution", "10", "9", "symbols", "columns", kind=ValueError):
        Distribution(torch.full((4, 10), 0.1), range(9))
    with fails("from_logits", "10", "9", "symbols"):
        Distribution.from_logits(torch.zeros(4, 10), range(9))
    with fails("from_rows", "2", "3", "row"):
        Distribution.from_rows([([0, 1], torch.ones(2) / 2), ([0, 1], torch.ones(3) / 3)])


def test_each_from_logits_names_the_shape():
    with fails("each_from_logits", "(4, 10)", "(batch, distributions, symbols)", "from_logits"):
        Distribution.each_from_logits(torch.zeros(4, 10), range(10))
    with fails("each_from_logits", "9 symbols", "(batch, 3, 9)"):
        Distribution.each_from_logits(torch.zeros(4, 3, 10), range(9))
    with fails("from_logits", "(4, 3, 10)", "each_from_logits"):
        Distribution.from_logits(torch.zeros(4, 3, 10), range(10))
    with fails("each_from_logits", "NaN"):
        Distribution.each_from_logits(torch.full((1, 1, 2), math.nan), "ab")


def test_duplicate_symbols():
    with fails("Distribution", "duplicate|twice", "'a'", kind=ValueError):
        Distribution(torch.full((1, 3), 0.3), ["a", "b", "a"])
    with fails("duplicate|twice", "1", "True"):
        Distribution(torch.full((1, 2), 0.3), [1, True])
    with fails("from_rows", "duplicate|twice", "7"):
        Distribution.from_rows([([7, 7], torch.ones(2) / 2)])


def test_unhashable_symbol():
    with fails("[1, 2]", "unhashable|hashable", "tuple", kind=TypeError):
        Distribution(torch.ones(1), [[1, 2]])
    with fails("apply", "unhashable|hashable", "list", "tuple", "0"):
        dl.apply(digits(), lambda x: [x])
    with fails("tensor", "item|tolist"):
        Distribution(torch.ones(1), [torch.tensor(1)])
    with fails("hashable", "tuple"):
        Distribution.certain({"a": 1}, batch=1)
    with fails("hashable"):
        digits().prob_of([[1], [2]])
    with fails("hashable"):
        dl.get_probs(digits(), symbols=[[1]])


@pytest.mark.parametrize("value", [-0.5, 1.5, 7.0, math.inf])
def test_probabilities_outside_the_unit_interval(value):
    with fails("Distribution", "[0, 1]", f"{value:g}", "from_logits", kind=ValueError):
        Distribution(torch.tensor([[0.5, value], [0.5, 0.5]]), ["a", "b"])
    with fails("from_rows", "row 1", "[0, 1]", f"{value:g}"):
        Distribution.from_rows([(["a"], [0.5]), (["a"], [value])])


def test_nan_probabilities():
    with fails("Distribution", "nan", "row 1", "check|from_logits", kind=ValueError):
        Distribution(torch.tensor([[0.5, 0.5], [0.5, math.nan]]), ["a", "b"])
    with fails("from_rows", "nan", "row 1"):
        Distribution.from_rows([(["a"], [0.5]), (["a"], [math.nan])])


def test_logits_instead_of_probabilities():
    with fails("did you mean", "from_logits"):
        Distribution(torch.randn(4, 10) * 3, range(10))


def test_nan_logits():
    with fails("from_logits", "NaN"):
        Distribution.from_logits(torch.tensor([[0.0, math.nan]]), [0, 1])


def test_rounding_is_no_error():
    """softmax may be a bit off 1; that is nobody's mistake."""
    Distribution(torch.tensor([1.0 + 1e-7, -1e-9]), [0, 1])
    Distribution(torch.rand(3, 10).softmax(dim=1).to(torch.bfloat16), range(10))


def test_a_row_swapped():
    with pytest.raises(dl.InputError, match=r"second one \('a'\).*\(symbols, probs\) for each row"):
        dl.Distribution.from_rows([([0], "a")])


def test_arguments_swapped():
    with fails("Distribution(probs, symbols)", "swap|order"):
        Distribution(["a", "b"], torch.tensor([0.5, 0.5]))
    with fails("Distribution(probs, symbols)", "swap|order"):
        Distribution(range(2), torch.tensor([0.5, 0.5]))


@pytest.mark.parametrize("shape", [(), (2, 3, 2), (1, 1, 1, 2)])
def test_wrong_dimensions(shape):
    with fails("Distribution", str(shape), "(B, N)|(batch", "(N,)|(symbols,)"):
        Distribution(torch.full(shape, 0.5), [0, 1])


def test_wrong_exclusive_groups():
    p = torch.full((1, 3), 0.2)
    with fails("exclusive", "3"):
        Distribution(p, range(3), exclusive=[[0, 3]])
    with fails("exclusive", "1"):
        Distribution(p, range(3), exclusive=[[0, 1], [1, 2]])


def test_nothing_to_build_from():
    with fails("from_rows"):
        Distribution.from_rows([])
    with fails("stack"):
        Distribution.stack([])
    with fails("union"):
        dl.union()
    with fails("apply"):
        dl.apply(lambda x: x)


# ---------------------------------------------------------------------- operands that don't fit


def test_batch_sizes():
    with fails("apply", "2", "3", "batch", kind=ValueError):
        dl.apply(digits(batch=2), digits(batch=3), operator.add)
    with fails("union", "2", "3", "batch"):
        dl.union(digits(batch=2), digits(batch=3))
    with fails("apply_if", "4", "3", "batch"):
        dl.apply_if(digits(batch=4), digits(batch=3), operator.add, operator.lt)
    with fails("apply_if", "4", "3", "batch"):
        dl.apply_if(digits(batch=4), digits(batch=3), operator.add, on=(abs, abs))
    with fails("apply", "where", "2", "5"):
        dl.apply(digits(), digits(), operator.add, where=torch.ones(5, dtype=torch.bool))
    with fails("prob_of", "2", "3"):
        digits(batch=2).prob_of([0, 1, 2])


def test_devices():
    here = digits()
    there = Distribution(torch.full((2, 3), 1 / 3, device="meta"), range(3))
    with fails("apply", "cpu", "meta", "move|.to(", kind=ValueError):
        dl.apply(here, there, operator.add)
    with fails("union", "cpu", "meta"):
        dl.union(here, there)


def test_provenances():
    one, other = digits(provenance=dl.DAMP()), digits(provenance=dl.TopKProofs(k=3))
    with fails("apply", "DAMP", "TopKProofs", "using|provenance", kind=ValueError):
        dl.apply(one, other, operator.add)
    with fails("union", "DAMP", "TopKProofs"):
        dl.union(one, other)
    with fails("apply", "k=3", "k=5"):
        dl.apply(other, digits(provenance=dl.TopKProofs(k=5)), operator.add)
    with fails("stack", "DAMP", "TopKProofs"):
        Distribution.stack([one, other])


def test_unknown_provenance():
    with fails("get_provenance", "'dampp'", "damp", "dtkp-am"):
        dl.get_provenance("dampp")
    with fails("get_provenance", "dtkp-am", "wmc", "takes k="):
        dl.get_provenance("dtkp-am", wmc="exact")
    with fails("get_provenance", "viterbi", "k=", "takes none"):
        dl.get_provenance("viterbi", k=3)
    with fails("TopKProofs", "k", "0"):
        dl.TopKProofs(k=0)
    with fails("provenance", "12", "get_provenance|DAMP()|TopKProofs"):
        Distribution(torch.ones(1), [0], provenance=12)


def test_operands_that_are_no_distributions():
    with fails("apply", "Tensor", "Distribution"):
        dl.apply(digits(), torch.ones(3), operator.add)
    with fails("union", "int", "Distribution"):
        dl.union(digits(), 3)
    with fails("apply", "function|callable"):
        dl.apply(digits(), digits())
    with fails("filter", "predicate|callable|function"):
        dl.filter(digits(), 3)
    with fails("get_probs", "list", "Distribution"):
        dl.get_probs([0.5])
    with fails("where", "bool"):
        dl.apply(digits(), digits(), operator.add, where=torch.ones(2))
    with fails("sample", "k", "0"):
        dl.sample(digits(), 0)
    with fails("sample", "'best'", "top", "categorical"):
        dl.sample(digits(), 2, method="best")
    with fails("apply_if", "condition|cond", "on="):
        dl.apply_if(digits(), digits(), operator.add)


# ------------------------------------------------------------------------------ user functions


def divide(x, y):
    return x / y


def test_exception_in_a_user_function():
    with fails("apply", "divide", "ZeroDivisionError", "(0, 0)", kind=RuntimeError) as info:
        dl.apply(digits(), digits(), divide)
    assert isinstance(info.value.__cause__, ZeroDivisionError)
    assert info.value.__cause__.__traceback__ is not None
    with fails("filter", "KeyError", "0") as info:
        dl.filter(digits(), lambda x: {}[x])
    assert isinstance(info.value.__cause__, KeyError)
    with fails("apply_if", "condition", "ZeroDivisionError", "(0, 0)"):
        dl.apply_if(digits(), digits(), operator.add, lambda x, y: 1 / (x * y) > 0)
    with fails("apply_if", "ZeroDivisionError", "0", "key|on"):
        dl.apply_if(digits(), digits(), operator.add, on=(lambda x: 1 / x, lambda y: y))


def test_errors_are_the_same_for_every_layout_and_method():
    rows = Distribution.from_rows([([0, 1], torch.ones(2) / 2)])
    with fails("apply", "divide", "ZeroDivisionError", "(0, 0)"):
        dl.apply(rows, rows, divide)
    with fails("apply|map", "ZeroDivisionError", "0"):
        digits().map(lambda x: 1 / x)
    with fails("ZeroDivisionError", "0", "/|truediv"):
        digits() / digits()


def test_wrong_arity():
    with fails("apply", "2 distributions", "2 arguments", "(x, y, z)|takes 3"):
        dl.apply(digits(), digits(), lambda x, y, z: x)
    with fails("apply", "2 distributions", "2 arguments", "(x)|takes 1"):
        dl.apply(digits(), digits(), lambda x: x)
    with fails("apply", "argument", "(0, 0)|2 distributions"):
        dl.apply(digits(), digits(), len)
    with fails("filter", "argument"):
        dl.filter(digits(), lambda: True)
    with fails("apply_if", "condition", "argument"):
        dl.apply_if(digits(), digits(), operator.add, lambda x: True)
    with fails("on", "2", "3"):
        dl.apply_if(digits(), digits(), operator.add, on=(abs, abs, abs))


@pytest.mark.parametrize("answer", [None, 1, "yes", [], 0.0])
def test_a_condition_that_returns_no_bool(answer):
    with fails("apply_if", "condition", repr(answer), "True or False|bool", "(0, 0)"):
        dl.apply_if(digits(), digits(), operator.add, lambda x, y: answer)
    with fails("filter", repr(answer), "True or False|bool", "0"):
        dl.filter(digits(), lambda x: answer)


def test_a_condition_that_returns_a_tensor():
    with fails("filter", "bool"):
        dl.filter(digits(), lambda x: torch.tensor([True, False]))


def test_interrupts_pass_through():
    """Ctrl-C in a user function is not the function's error."""

    def interrupt(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dl.apply(digits(), interrupt)


# ----------------------------------------------------------------------- using distributions


def test_truth_of_a_distribution():
    d = digits()
    with fails("bool", "get_probs|prob_of"):
        bool(d == d)
    with fails("bool"):
        if d:
            pass
    with fails("bool", "&"):
        _ = (d == d) and (d < d)
    with fails("bool"):
        _ = d in [digits(), d]


def test_distributions_hash_by_identity():
    d, e = digits(), digits()
    assert len({d, e, d}) == 2
    assert {d: 1}[d] == 1


def test_distributions_are_no_sequences():
    d = digits()
    with pytest.raises((DolphinError, TypeError)):
        list(d)
    with pytest.raises((DolphinError, TypeError, AttributeError)):
        d.symbols = [1, 2, 3]


def test_empty_results():
    empty = dl.filter(digits(), lambda x: False)
    assert len(empty) == 0
    assert dl.get_probs(empty, symbols=[0, 1]).tolist() == [[0.0, 0.0]] * 2
    assert empty.prob_of([0, 1]).tolist() == [0.0, 0.0]
    assert len(dl.apply(empty, digits(), operator.add)) == 0
    assert list(dl.union(empty, digits()).symbols) == [0, 1, 2]
    with fails("argmax", "no symbols|empty", "filter|condition|where"):
        empty.argmax()
    for read in (dl.get_probs, dl.get_logits):
        with fails(read.__name__, "no symbols", "filtered away", "symbols=[...]"):
            read(empty)


def test_empty_rows():
    """One row has lost all its symbols, the others have not."""
    rows = Distribution.from_rows([([0, 1], torch.ones(2) / 2), ([5, 6], torch.ones(2) / 2)])
    some = dl.filter(rows, lambda x: x < 5)
    assert dict(some.row(0)) == {0: 0.5, 1: 0.5}
    assert some.row(1) == []
    assert some.prob_of([0, 0]).tolist() == [0.5, 0.0]
    with fails("argmax", "row", "1"):
        some.argmax()


def test_unreachable_targets_are_no_error():
    d = digits()
    assert d.prob_of([99, "nothing"]).tolist() == [0.0, 0.0]
    assert d.prob_of([0, 99]).tolist() == pytest.approx([1 / 3, 0.0])
    assert d.prob_of([0.1, 99], match=math.isclose).tolist() == [0.0, 0.0]
    summed = dl.apply(d, d, operator.add).prob_of([-1, 4])
    assert summed[0] == 0


def test_explain_without_proofs():
    with fails("explain", "DAMP", "TopKProofs"):
        digits(provenance=dl.DAMP()).explain(0)
    with fails("explain", "99"):
        digits(provenance=dl.TopKProofs(k=1)).explain(99)
    with fails("explain|row", "7", "2"):
        digits(provenance=dl.TopKProofs(k=1)).explain(0, row=7)
    with fails("row", "7", "2"):
        digits().row(7)


# ---------------------------------------------------------------------------------- too large


def large(n, provenance=None):
    return Distribution(torch.full((1, n), 1 / n), range(n), provenance=provenance)


def test_too_many_combinations():
    d = large(30_000)
    start = time.process_time()
    with fails("apply", "900,000,000|900000000|9e8", "sample", "max_combinations", "on="):
        dl.apply(d, d, operator.add)
    with fails("apply_if", "900,000,000|900000000", "sample", "on="):
        dl.apply_if(d, d, operator.add, operator.eq)
    with fails("apply", "combinations"):
        dl.apply(*[digits() for _ in range(40)], lambda *xs: sum(xs))
    assert time.process_time() - start < 5, "known before anything is allocated"


def test_the_limit_can_be_set():
    with dl.settings(max_combinations=8), fails("apply", "9", "8", "max_combinations"):
        dl.apply(digits(), digits(), operator.add)
    with dl.settings(max_combinations=9):
        dl.apply(digits(), digits(), operator.add)
    rows = Distribution.from_rows([(list(range(3)), torch.ones(3) / 3)] * 4)
    with dl.settings(max_combinations=20), fails("apply", "36", "20", "max_combinations"):
        dl.apply(rows, rows, operator.add)
    with fails("settings", "max_combination", "max_combinations"), dl.settings(max_combination=3):
        pass


def test_a_join_is_not_a_product():
    """2,000 × 2,000 symbols with unique keys, far below the limit and quickly."""
    d, e = large(2000, dl.DAMP()), large(2000, dl.DAMP())
    start = time.process_time()
    with dl.settings(max_combinations=5000):
        joined = dl.apply_if(d, e, lambda x, y: (x, y), on=(lambda x: x, lambda y: y))
    assert time.process_time() - start < 1
    assert len(joined) == 2000
    torch.testing.assert_close(dl.get_probs(joined), torch.full((1, 2000), 1 / 2000**2))


def test_a_join_that_is_too_large():
    d = large(1000)
    with dl.settings(max_combinations=5000), fails("apply_if", "1,000,000|1000000", "sample"):
        dl.apply_if(d, d, operator.add, on=(lambda x: 0, lambda y: 0))


def test_a_list_of_distributions_is_unpacked_by_the_user():
    with fails("apply", "argument 1", "list", "Unpack"):
        dl.apply([digits(), digits()], lambda x, y: x + y)  # pyright: ignore


def test_argmax_has_no_dimension():
    with pytest.raises(TypeError):
        digits().argmax(1)  # pyright: ignore


def test_a_fixpoint_that_does_not_end():
    def step(d):
        return dl.union(d, dl.apply(d, lambda x: x + 1))

    with fails("fixpoint", "5", "iterations", "symbols", "max_iterations"):
        dl.fixpoint(step, digits(), max_iterations=5)
    with fails("fixpoint", "iterations"):
        dl.fixpoint(step, digits())
    with fails("fixpoint", "step", "Distribution", "None|NoneType"):
        dl.fixpoint(lambda d: None, digits())


def test_a_step_that_changes_the_rows_or_the_provenance():
    with fails("fixpoint", "step", "4 rows", "2", "stack"):
        dl.fixpoint(lambda d: Distribution.stack([d, d]), digits())
    with fails("fixpoint", "step", "1 rows", "2"):
        dl.fixpoint(lambda d: d[0], digits())
    with fails("fixpoint", "step", "DAMP", "TopKProofs", "same"):
        dl.fixpoint(lambda d: digits(provenance=dl.TopKProofs(3)), digits())
    spread = dl.fixpoint(lambda d: dl.union(digits(), d), digits(1))  # one row becomes two
    assert spread.batch_size == 2


def test_goals_that_cant_be_meant():
    grow = operator.pos  # never called
    with fails("fixpoint", "goal=", "key function"):
        dl.fixpoint(grow, digits(), goal=3)
    with fails("fixpoint", "goal=", "3"):
        dl.fixpoint(grow, digits(), goal=(str, 3))
    with fails("fixpoint", "goal=", "key function"):
        dl.fixpoint(grow, digits(), goal=(str, digits()))
    with fails("fixpoint", "goal=", "3 keys", "2 rows"):
        dl.fixpoint(grow, digits(), goal=(str, list("abc")))
    wanted = dl.fixpoint(lambda d: d, digits(), goal=(lambda n: n, torch.tensor([0, 2])))
    assert [[s for s, _ in wanted.row(row)] for row in (0, 1)] == [[0], [2]]


@pytest.mark.parametrize("loss", [dl.nll_loss, dl.bce_loss])
def test_unhashable_targets(loss):
    with fails("unhashable", "[0]", "tuple instead of a list"):
        loss(digits(), [[0], 1])


def test_numbers_of_a_row():
    with fails("from_rows: row 0", "must be a tensor of numbers") as info:
        Distribution.from_rows([("ab", [0.5, "x"])])
    assert "order" not in str(info.value)  # symbols come first there


def test_one_family():
    family = [
        value
        for value in vars(dl.errors if hasattr(dl, "errors") else dl).values()
        if isinstance(value, type) and issubclass(value, Exception)
    ]
    assert DolphinError in family
    assert all(issubclass(error, DolphinError) for error in family)


@pytest.mark.parametrize("make", [set, frozenset])
def test_symbols_without_an_order(make):
    with fails("Distribution", make.__name__, "order", "sorted"):
        Distribution(torch.ones(2) / 2, make([0, 1]))


def test_sparse_probabilities():
    with fails("Distribution", "sparse", "to_dense"):
        Distribution((torch.ones(1, 2) / 2).to_sparse(), [0, 1])
