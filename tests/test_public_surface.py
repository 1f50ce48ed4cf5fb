"""What users may rely on: names, signatures, docstrings, and what an import costs."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch

import dolphin as dl

FUNCTIONS = [
    "apply", "apply_if", "filter", "union", "negate", "fixpoint", "sample", "get_probs",
    "get_logits", "using", "get_provenance", "cache_info", "cache_clear", "settings",
]  # fmt: skip
CLASSES = ["Distribution", "DAMP", "TopKProofs", "DolphinError"]
CONSTRUCTORS = ["from_logits", "each_from_logits", "certain", "from_rows", "certain_rows", "stack"]
METHODS = ["apply", "map", "filter", "prob_of", "argmax", "top", "row", "explain"]
PROPERTIES = ["symbols", "batch_size", "provenance"]
OPERATORS = [
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "eq", "ne", "lt", "le", "gt", "ge",
    "and", "or", "xor", "invert", "neg", "radd", "rsub", "rmul",
]  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS + CLASSES)
def test_names_exist_and_are_exported(name):
    assert hasattr(dl, name)
    assert name in dl.__all__


def test_the_top_level_shows_public_names_only():
    assert set(dir(dl)) == {*dl.__all__, "__version__", "lm", "provenance"}
    assert len(set(dl.__all__)) == len(dl.__all__)
    assert all(hasattr(dl, name) for name in dir(dl))
    assert not hasattr(dl, "estimates")


@pytest.mark.parametrize("name", CONSTRUCTORS + METHODS + PROPERTIES)
def test_distribution_has(name):
    assert hasattr(dl.Distribution, name)


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_exist(name):
    method = getattr(dl.Distribution, f"__{name}__")
    assert method is not getattr(object, f"__{name}__", None)


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (dl.Distribution, ["probs", "symbols", "exclusive", "provenance"]),
        (dl.Distribution.from_logits, ["logits", "symbols", "exclusive", "provenance"]),
        (dl.Distribution.certain, ["symbol", "batch", "provenance"]),
        (dl.Distribution.from_rows, ["rows", "exclusive", "provenance"]),
        (dl.Distribution.certain_rows, ["provenance"]),
        (dl.Distribution.prob_of, ["targets", "match"]),
        (dl.Distribution.explain, ["symbol", "row"]),
        (dl.Distribution.top, ["k"]),
        (dl.apply, ["where", "cache"]),
        (dl.apply_if, ["on", "cache"]),
        (dl.filter, ["predicate"]),
        (dl.fixpoint, ["step", "start", "max_iterations"]),
        (dl.sample, ["k", "method", "generator"]),
        (dl.get_probs, ["symbols"]),
        (dl.get_logits, ["symbols"]),
        (dl.TopKProofs, ["k"]),
        (dl.get_provenance, ["name"]),
    ],
    ids=lambda value: getattr(value, "__qualname__", None),
)
def test_parameters_have_their_names(function, parameters):
    names = list(inspect.signature(function).parameters)
    assert [name for name in parameters if name not in names] == []


def test_order_of_the_positional_parameters():
    names = [n for n in inspect.signature(dl.Distribution).parameters if n != "self"]
    assert names[:2] == ["probs", "symbols"]
    assert list(inspect.signature(dl.fixpoint).parameters)[:2] == ["step", "start"]


def public_objects():
    for name in dl.__all__:
        value = getattr(dl, name)
        if callable(value) or inspect.isclass(value):
            yield name, value
    for name in CONSTRUCTORS + METHODS + PROPERTIES:
        yield f"Distribution.{name}", inspect.getattr_static(dl.Distribution, name)


PUBLIC = dict(public_objects())


@pytest.mark.parametrize("name", PUBLIC)
def test_everything_public_is_documented(name):
    value = PUBLIC[name]
    doc = inspect.getdoc(getattr(value, "__func__", value))
    assert doc, name
    assert len(doc) >= 20, name


WITH_EXAMPLES = [
    "apply", "apply_if", "filter", "union", "sample", "get_probs", "get_logits", "fixpoint",
    "Distribution", "DAMP", "TopKProofs",
]  # fmt: skip


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_main_docstrings_have_an_example(name):
    assert ">>>" in inspect.getdoc(getattr(dl, name))


def test_version():
    from importlib.metadata import version

    assert version("dolphin-nesy")


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("damp", {}, dl.DAMP()),
        ("dtkp-am", {}, dl.TopKProofs()),
        ("dtkp-am", {"k": 5}, dl.TopKProofs(k=5)),
    ],
)
def test_provenances_by_name(name, options, expected):
    assert dl.get_provenance(name, **options) == expected
    assert type(dl.get_provenance(name, **options)) is type(expected)


def test_provenances_are_values():
    assert dl.TopKProofs(k=3) == dl.TopKProofs(k=3) != dl.TopKProofs(k=4)
    assert hash(dl.TopKProofs(k=3)) == hash(dl.TopKProofs(k=3))
    assert "3" in repr(dl.TopKProofs(k=3))
    assert eval(repr(dl.TopKProofs(k=3)), vars(dl)) == dl.TopKProofs(k=3)
    assert eval(repr(dl.DAMP()), vars(dl)) == dl.DAMP()


def test_subpackages_are_importable():
    import dolphin.provenance

    assert dolphin.provenance.DAMP is dl.DAMP


def test_a_categorical_is_exclusive():
    given = torch.distributions.Categorical(probs=torch.tensor([[0.3, 0.7]]))
    assert dl.Distribution(given, "ab").row(0) == [("a", 0.3), ("b", 0.7)]
    for exclusive in (False, [[0, 1]]):
        with pytest.raises(dl.InputError, match="a Categorical exclude each other"):
            dl.Distribution(given, "ab", exclusive=exclusive)


def test_a_misspelt_provenance_is_answered_with_the_nearest_name():
    with pytest.raises(dl.InputError, match=r"from_logits: no provenance 'exakt'.*mean 'exact'"):
        dl.Distribution.from_logits(torch.zeros(1, 2), "ab", provenance="exakt")  # type: ignore


def test_programs_show_what_they_are():
    def first(d):
        return dl.choose(d)

    assert repr(dl.program(first)) == "program(first)"
    assert repr(dl.program(keep=3)(first)) == "program(first, keep=3)"
    assert repr(dl.batched(first)) == "batched(first)"
    traced = dl.trace(lambda d: d, "ab", provenance="exact")
    assert repr(traced).startswith("Traced(symbols=('a', 'b'), provenance=Exact(")


def test_lists_of_tensor_entries_have_gradients():
    p = torch.tensor([0.3, 0.7], requires_grad=True)
    for d in (
        dl.Distribution([p[0], 1 - p[0]], "ab"),
        dl.Distribution([[p[0], 0.5], p], "ab"),
        dl.Distribution.from_logits([p[0], p[1]], "ab"),
        dl.Distribution.from_rows([("ab", [p[0], 0.2]), ("c", [1.0])]),
        dl.Distribution.from_rows([("ab", list(p)), ("c", [1.0])]),
    ):
        (grad,) = torch.autograd.grad(d.probs(["a"]).sum(), p)
        assert grad[0] != 0
    assert dl.Distribution([p[0], 0.5], "ab").row(0) == [("a", pytest.approx(0.3)), ("b", 0.5)]
    double = torch.tensor([0.3, 0.7], dtype=torch.float64)
    assert dl.Distribution(list(double), "ab").dtype == torch.float64
    with pytest.raises(dl.InputError, match="must be a tensor of numbers"):
        dl.Distribution([torch.zeros(2), torch.zeros(3)], "ab")


@pytest.mark.parametrize("family", [torch.distributions.Categorical, torch.distributions.Bernoulli])
@pytest.mark.parametrize("asked", [(), ("probs",), ("logits",), ("logits", "probs")])
def test_torch_distributions_keep_the_numbers_that_they_were_given(family, asked):
    """torch computes logits from probabilities, and the other way round, with rounding."""
    tiny = torch.tensor([[1e-20, 1.0], [0.0, 1.0]])
    by_probs, logs = family(probs=tiny), torch.tensor([[-80.0, 0.0], [-100.0, 0.0]])
    by_logits = family(logits=logs)
    for name in asked:  # what somebody has asked for is kept in the object
        getattr(by_probs, name), getattr(by_logits, name)
    d = dl.Distribution(by_probs, "ab")
    assert d.row(1)[0][1] == 0.0
    torch.testing.assert_close(d.log_probs(["a"])[0, 0], torch.tensor(1e-20).log())
    torch.testing.assert_close(dl.Distribution(by_logits, "ab").log_probs(["a"]), logs[:, :1])


def test_a_bernoulli_has_no_groups():
    given = torch.distributions.Bernoulli(torch.tensor([[0.2, 0.3]]))
    assert dl.Distribution(given, "ab").row(0) == [
        ("a", pytest.approx(0.2)), ("b", pytest.approx(0.3)),
    ]  # fmt: skip
    with pytest.raises(dl.InputError, match="Bernoulli hold independently"):
        dl.Distribution(given, "ab", exclusive=[[0, 1]])


def test_numbers_of_numpy_on_the_left_of_an_operator():
    d = dl.Distribution([0.3, 0.7], [1, 2])
    assert (np.float64(1) + d).symbols == (2.0, 3.0)
    assert (np.int64(1) - d).symbols == (0, -1)
    assert (np.int64(1) == d).row(0) == [(True, pytest.approx(0.3)), (False, pytest.approx(0.7))]
    assert (np.float32(2) * d).symbols == (2.0, 4.0)
    assert (np.float64(2) ** d).symbols == (2.0, 4.0)
    with pytest.raises(dl.DolphinError):
        np.array([1, 2]) + d
