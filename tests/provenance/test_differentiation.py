"""Derivatives of derivatives, and the transforms of `torch.func`, for every provenance."""

from __future__ import annotations

import operator

import pytest
import torch

import dolphin as dl

SMOOTH = [
    "damp", "dtkp-am", "dtkp-wmc", "exact", "min-max", "noisy-or", "lukasiewicz", "viterbi",
    "stable-product", "hamacher", "nilpotent", "yager", "schweizer-sklar", "frank",
]  # fmt: skip
each_smooth = pytest.mark.parametrize("name", SMOOTH)


def shared(p, q, provenance):
    d = dl.Distribution(p, range(3), provenance=provenance)
    e = dl.Distribution(q, range(4), provenance=provenance)
    plus = dl.apply(d, e, operator.add)  # a convolution
    times = dl.apply(d, e, lambda a, b: a * b % 3)
    return torch.cat([dl.get_probs(plus), dl.get_probs(times)], 1)


def chain_and_loss(p, q, provenance):
    parts = [dl.Distribution(x, range(x.shape[1]), provenance=provenance) for x in (p, q, q / 2)]
    total = dl.apply(dl.apply(*parts[:2], operator.add), parts[2], lambda a, b: (a + b) % 3)
    return dl.get_probs(total).prod() + total.prob_of([1, 2])


def negated(p, q, provenance):
    d = dl.Distribution(p, range(3), exclusive=False, provenance=provenance)
    e = dl.Distribution(q, range(4), exclusive=False, provenance=provenance)
    return dl.get_probs(dl.apply(dl.negate(d), e, lambda a, b: (a + b) % 3))


def rows_and_stack(p, q, provenance):
    rows = [([0, 1, 2], p[0]), ([5, 6], p[1, :2])]
    d = dl.Distribution.from_rows(rows, provenance=provenance)
    e = dl.Distribution(q, range(4), provenance=provenance)
    parts = [dl.apply(d, e, lambda a, b, n=n: a * b % n) for n in (3, 5)]
    return dl.get_probs(dl.Distribution.stack(parts))


def from_logits(p, q, provenance):
    d = dl.Distribution.from_logits(2 * p, range(3), provenance=provenance)
    e = dl.Distribution.from_logits(3 * q, range(4), exclusive=False, provenance=provenance)
    return dl.get_probs(dl.union(dl.apply(d, e, operator.lt), d.map(lambda x: x > 0)))


def interior():
    generator = torch.Generator().manual_seed(3)
    sizes = ((2, 3), (2, 4))
    parts = [torch.rand(size, generator=generator, dtype=torch.float64) for size in sizes]
    return [(0.9 * part.softmax(1)).requires_grad_() for part in parts]


@each_smooth
@pytest.mark.parametrize(
    "program",
    [shared, chain_and_loss, negated, rows_and_stack, from_logits],
    ids=lambda f: f.__name__,
)
def test_second_derivatives(name, program):
    """Those of a random direction, against differences of first gradients."""
    provenance = dl.get_provenance(name)
    inputs = interior()
    torch.manual_seed(5)
    directions = [torch.randn_like(each) for each in inputs]

    def gradients(values, **options):
        out = program(*values, provenance)
        weights = torch.linspace(1.0, 2.0, out.numel(), dtype=out.dtype).view_as(out)
        return torch.autograd.grad((weights * out).sum(), values, allow_unused=True, **options)

    first = [g for g in gradients(inputs, create_graph=True) if g is not None]
    along = sum((g * v).sum() for g, v in zip(first, directions, strict=True))
    second = [torch.zeros_like(each) for each in inputs]
    if along.requires_grad:
        found = torch.autograd.grad(along, inputs, allow_unused=True)
        second = [z if g is None else g for z, g in zip(second, found, strict=True)]
    step = 1e-6
    ends = [
        gradients(
            [(x + s * v).detach().requires_grad_() for x, v in zip(inputs, directions, strict=True)]
        )
        for s in (step, -step)
    ]
    for number, (high, low) in enumerate(zip(*ends, strict=True)):
        expected = (high - low) / (2 * step)
        torch.testing.assert_close(second[number], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["damp", "exact", "dtkp-am", "noisy-or", "viterbi"])
def test_a_gradient_penalty_reaches_the_program_both_ways(name):
    """d²/dp² of Σ P², by `autograd.grad` and by `.backward()`."""

    def penalty():
        p = torch.tensor([[0.2, 0.3, 0.5]], dtype=torch.float64, requires_grad=True)
        d = dl.Distribution(p, range(3), provenance=dl.get_provenance(name))
        probs = dl.get_probs(dl.apply(d, d, operator.mul))
        (g,) = torch.autograd.grad((probs**2).sum(), p, create_graph=True)
        return p, (g**2).sum()

    p, total = penalty()
    (h,) = torch.autograd.grad(total, p)
    again, total = penalty()
    total.backward()
    assert again.grad is not None
    torch.testing.assert_close(again.grad, h)
    assert (h != 0).any()


def test_exact_has_second_derivatives_at_0_and_1():
    """P(a and not b) = a (1 - b): the mixed derivative is -1, the others are 0."""
    p = torch.tensor([[0.0, 1.0]], dtype=torch.float64, requires_grad=True)
    d = dl.Distribution(p, "ab", exclusive=False, provenance="exact")
    both = dl.apply_if(d, dl.negate(d), lambda x, y: x + y, lambda x, y: x + y == "ab")
    (g,) = torch.autograd.grad(dl.get_probs(both).sum(), p, create_graph=True)
    torch.testing.assert_close(g.detach(), torch.zeros(1, 2, dtype=torch.float64))
    (h,) = torch.autograd.grad(g[0, 0], p)
    torch.testing.assert_close(h, torch.tensor([[0.0, -1.0]], dtype=torch.float64))


@pytest.mark.parametrize("a", [0.25, 1.0])
def test_noisy_or_has_second_derivatives_next_to_something_certain(a):
    """a + b - a·b: the mixed derivative is -1 wherever a and b are, the others are 0."""
    p = torch.tensor([[a, 1.0]], dtype=torch.float64, requires_grad=True)
    d = dl.Distribution(p, "ab", exclusive=False, provenance="noisy-or")
    either = dl.get_probs(d.map(lambda _: "either"))
    (g,) = torch.autograd.grad(either.sum(), p, create_graph=True)
    (h,) = torch.autograd.grad(g[0, 1], p)
    torch.testing.assert_close(h, torch.tensor([[-1.0, 0.0]], dtype=torch.float64))


@pytest.mark.parametrize("how", ["grad", "backward"])
def test_second_derivatives_of_the_logarithm_of_0_are_refused_on_the_spot(how):
    p = torch.tensor([[0.0, 1.0]], requires_grad=True)
    d = dl.Distribution(p, range(2), provenance="damp")
    total = dl.get_probs(dl.apply(d, d, operator.add)).sum()
    with pytest.raises(dl.DolphinError, match="from_logits"):
        if how == "grad":
            torch.autograd.grad(total, p, create_graph=True)
        else:
            total.backward(create_graph=True)


def test_masked_logits_have_second_derivatives():
    x = torch.tensor([[-torch.inf, 0.3, 1.0]], dtype=torch.float64, requires_grad=True)
    for exclusive in (True, False):
        for name in ("damp", "exact", "dtkp-wmc", "noisy-or"):
            d = dl.Distribution.from_logits(x, range(3), exclusive=exclusive, provenance=name)
            probs = dl.get_probs(dl.apply(d, d, operator.add))
            (g,) = torch.autograd.grad(probs.square().sum(), x, create_graph=True)
            (h,) = torch.autograd.grad(g.square().sum(), x)
            assert torch.isfinite(h).all(), name
            assert h[0, 0] == 0, name


# -- torch.func ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["damp", "exact", "noisy-or", "viterbi", "min-max", "dtkp-am"])
@pytest.mark.parametrize("program", [shared, chain_and_loss, negated], ids=lambda f: f.__name__)
def test_functional_gradients_are_those_of_autograd(name, program):
    p, q = interior()
    provenance = dl.get_provenance(name)

    def function(p, q):
        return program(p, q, provenance).flatten()

    jacobian = torch.autograd.functional.jacobian(function, (p, q))
    found = torch.func.jacrev(function, argnums=(0, 1))(p, q)
    torch.testing.assert_close(found, jacobian)
    (single,) = torch.autograd.grad(function(p, q).sum(), p)
    torch.testing.assert_close(torch.func.grad(lambda p: function(p, q).sum())(p), single)


@pytest.mark.parametrize("name", ["damp", "exact", "dtkp-am", "noisy-or"])
def test_vmap_is_refused(name):
    def function(p):
        return dl.get_probs(dl.Distribution(p, range(3), provenance=name))

    with pytest.raises(dl.DolphinError, match="batched already"):
        torch.func.vmap(function)(torch.rand(4, 3).softmax(1))


def test_work_in_parts_can_be_transformed():
    """Parts are recomputed in a backward pass, which a transform has none of."""

    def loss(probs):
        with dl.settings(chunk_elements=4):
            d = dl.Distribution(
                probs, range(6), exclusive=False, provenance=dl.TopKProofs(8, wmc="exact")
            )
            return dl.apply(d, d, lambda x, y: (x + y) % 3).probs().sum()

    probs = torch.rand(2, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    plain = probs.clone().requires_grad_()
    (wanted,) = torch.autograd.grad(loss(plain), plain)
    torch.testing.assert_close(torch.func.grad(loss)(probs), wanted)
