"""Dolphin as a citizen of PyTorch: modules, modes, dtypes, several models, several threads."""

from __future__ import annotations

import copy
import io
import operator
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

import dolphin as dl


def add(x, y):
    return x + y


def is_even(x):
    return x % 2 == 0


class SumNet(nn.Module):
    """A network and the program behind it, which it holds as attributes."""

    def __init__(self, provenance=None, function=add):
        super().__init__()
        self.layer = nn.Linear(4, 5)
        self.provenance = provenance
        self.function = function
        self.label = dl.Distribution.certain(1, batch=1, provenance=provenance)

    def result(self, x):
        d = dl.Distribution(self.layer(x).softmax(dim=-1), range(5), provenance=self.provenance)
        e = dl.Distribution(self.layer(-x).softmax(dim=-1), range(5), provenance=self.provenance)
        total = dl.apply(d, e, self.function)
        return dl.apply(total, self.label, lambda s, one: s + one)

    def forward(self, x):
        return dl.get_probs(self.result(x))


PROVENANCES = {"damp": dl.DAMP(), "top-3": dl.TopKProofs(k=3)}
each_provenance = pytest.mark.parametrize(
    "provenance", PROVENANCES.values(), ids=PROVENANCES.keys()
)


# ------------------------------------------------------------------------------------ modules


@each_provenance
def test_pickle_and_deepcopy(provenance):
    model, x = SumNet(provenance), torch.randn(3, 4)
    expected = model(x)
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        torch.testing.assert_close(twin(x), expected)
        assert twin.provenance == provenance
        twin(x).pow(2).sum().backward()
        assert model.layer.weight.grad is None


@each_provenance
def test_torch_save_of_a_whole_module(provenance):
    model, x = SumNet(provenance), torch.randn(3, 4)
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    twin = torch.load(buffer, weights_only=False)
    torch.testing.assert_close(twin(x), model(x))


@each_provenance
def test_state_dict_round_trip(provenance):
    model, twin, x = SumNet(provenance), SumNet(provenance), torch.randn(3, 4)
    assert set(model.state_dict()) == {"layer.weight", "layer.bias"}
    twin.load_state_dict(model.state_dict())
    torch.testing.assert_close(twin(x), model(x))


@each_provenance
@pytest.mark.parametrize("layout", ["shared", "rows", "derived"])
def test_pickle_and_deepcopy_of_distributions(provenance, layout):
    if layout == "rows":
        d = dl.Distribution.from_rows(
            [(["a", "b"], torch.tensor([0.4, 0.6])), (["b"], torch.tensor([1.0]))],
            provenance=provenance,
        )
    else:
        d = dl.Distribution(
            torch.tensor([[0.4, 0.6], [0.0, 1.0]]), ["a", "b"], provenance=provenance
        )
    if layout == "derived":
        d = dl.apply(d, d, operator.eq).map(lambda same: "ab"[same])
    for twin in (pickle.loads(pickle.dumps(d)), copy.deepcopy(d), copy.copy(d)):
        assert list(twin.symbols) == list(d.symbols)
        symbols = ["a", "b"]
        torch.testing.assert_close(
            dl.get_probs(twin, symbols=symbols), dl.get_probs(d, symbols=symbols)
        )
        assert len(dl.apply(twin, twin, add)) > 0


def test_a_copied_distribution_is_another_input_or_the_same_one_consistently():
    """Two copies made together still know that they are about the same facts."""
    d = dl.Distribution(torch.tensor([0.5, 0.5]), [0, 1], provenance=dl.TopKProofs(k=3))
    for twin, again in (copy.deepcopy((d, d)), pickle.loads(pickle.dumps((d, d)))):
        same = dl.apply(twin, again, operator.eq)
        assert same.prob_of([True]).item() == pytest.approx(1.0)


def test_training_mode_and_optimizers_see_only_parameters():
    model = SumNet(dl.TopKProofs(k=2))
    assert len(list(model.parameters())) == 2
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    x, target = torch.randn(16, 4), torch.randint(1, 10, (16,))
    losses = []
    for _ in range(20):
        result = model.result(x)
        loss = -result.prob_of(target.tolist()).clamp(min=1e-6).log().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


# -------------------------------------------------------------------------------------- modes


@each_provenance
def test_no_grad_and_inference_mode(provenance):
    model, x = SumNet(provenance), torch.randn(3, 4)
    expected = model(x).detach()
    with torch.no_grad():
        quiet = model(x)
        assert not quiet.requires_grad
        torch.testing.assert_close(quiet, expected)
    with torch.inference_mode():
        quiet = model(x)
        assert quiet.is_inference()
        torch.testing.assert_close(quiet.clone(), expected)
    # What was remembered in inference mode must not poison a later training step.
    trained = model(x)
    trained.pow(2).sum().backward()
    assert torch.isfinite(model.layer.weight.grad).all()
    torch.testing.assert_close(trained.detach(), expected)


@each_provenance
@pytest.mark.parametrize("first", ["inference", "training"])
def test_plans_made_in_inference_mode_serve_training(provenance, first):
    """The caches are empty at the start: whoever comes first fills them."""
    model, x = SumNet(provenance), torch.randn(3, 4)
    if first == "inference":
        with torch.inference_mode():
            model(x)
    model(x).pow(2).sum().backward()
    if first == "training":
        with torch.inference_mode():
            model(x)
    assert model.layer.weight.grad.abs().sum() > 0


@each_provenance
def test_mixed_requires_grad(provenance):
    p = torch.tensor([[0.3, 0.7]], requires_grad=True)
    d = dl.Distribution(p, [0, 1], provenance=provenance)
    e = dl.Distribution(torch.tensor([[0.2, 0.8]]), [0, 1], provenance=provenance)
    probs = dl.get_probs(dl.apply(d, e, add))
    (gradient,) = torch.autograd.grad(probs[0, 0], p)
    torch.testing.assert_close(gradient, torch.tensor([[0.2, 0.0]]))
    assert not dl.get_probs(dl.apply(e, e, add)).requires_grad


@each_provenance
def test_autocast(provenance):
    model, x = SumNet(provenance), torch.randn(8, 4)
    expected = model(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = model(x)
        loss = found.float().pow(2).sum()
    loss.backward()
    torch.testing.assert_close(found.float(), expected, atol=0.02, rtol=0.05)
    assert torch.isfinite(model.layer.weight.grad).all()


@each_provenance
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_dtypes_in_and_out(provenance, dtype):
    p = torch.tensor([[0.25, 0.75], [0.5, 0.5]], dtype=dtype, requires_grad=True)
    q = torch.tensor([[0.5, 0.5], [1.0, 0.0]], dtype=dtype, requires_grad=True)
    d = dl.Distribution(p, [0, 1], provenance=provenance)
    e = dl.Distribution(q, [0, 1], provenance=provenance)
    probs = dl.get_probs(dl.apply(d, e, add))
    assert probs.dtype in (dtype, torch.float32)
    expected = torch.tensor([[0.125, 0.5, 0.375], [0.5, 0.5, 0.0]])
    tolerance = 1e-2 if dtype in (torch.bfloat16, torch.float16) else 1e-6
    torch.testing.assert_close(probs.float().detach(), expected, atol=tolerance, rtol=tolerance)
    probs.float().pow(2).sum().backward()
    assert p.grad.dtype == dtype
    assert torch.isfinite(p.grad).all()


@each_provenance
def test_operands_of_different_precision(provenance):
    """Half of a model runs under autocast, the other half does not."""
    d = dl.Distribution(
        torch.tensor([[0.25, 0.75]], dtype=torch.bfloat16), [0, 1], provenance=provenance
    )
    e = dl.Distribution(torch.tensor([[0.5, 0.5]]), [0, 1], provenance=provenance)
    f = dl.Distribution(
        torch.tensor([[0.5, 0.5]], dtype=torch.float64), [0, 1], provenance=provenance
    )
    for one, other in ((d, e), (e, f), (d, f)):
        probs = dl.get_probs(dl.apply(one, other, add))
        assert probs[0, 0].item() == pytest.approx(0.125 if one is d else 0.25, rel=1e-2)


@each_provenance
def test_results_are_on_the_inputs_device(provenance, device):
    p = torch.rand(3, 4, device=device).softmax(dim=1).requires_grad_()
    d = dl.Distribution(p, range(4), provenance=provenance)
    result = dl.apply(d, dl.Distribution.certain(1, batch=3, provenance=provenance), add)
    probs = dl.get_probs(result)
    assert probs.device.type == device.type
    probs.sum().backward()
    assert p.grad.device.type == device.type


# ---------------------------------------------------------------------- provenances in a process


def test_using_is_a_block_and_nests():
    default = dl.Distribution(torch.ones(1), [0]).provenance
    with dl.using(dl.TopKProofs(k=3)):
        assert dl.Distribution(torch.ones(1), [0]).provenance == dl.TopKProofs(k=3)
        with dl.using(dl.DAMP()):
            assert dl.Distribution(torch.ones(1), [0]).provenance == dl.DAMP()
            certain = dl.Distribution.certain(0, batch=1)
            assert certain.provenance == dl.DAMP()
        assert dl.Distribution(torch.ones(1), [0]).provenance == dl.TopKProofs(k=3)
    assert dl.Distribution(torch.ones(1), [0]).provenance == default


def test_using_ends_with_an_exception():
    default = dl.Distribution(torch.ones(1), [0]).provenance
    with pytest.raises(KeyError), dl.using(dl.TopKProofs(k=7)):
        raise KeyError
    assert dl.Distribution(torch.ones(1), [0]).provenance == default


def equality(provenance=None):
    d = dl.Distribution(torch.full((1, 4), 0.25), range(4), provenance=provenance)
    return dl.apply(d, d, operator.eq).prob_of([True]).item()


EXPECTED = {
    dl.DAMP(): 0.25,
    dl.TopKProofs(k=1): 0.25,
    dl.TopKProofs(k=2): 0.5,
    dl.TopKProofs(k=4): 1.0,
}


def test_two_models_in_one_process():
    for _ in range(3):
        for provenance, expected in EXPECTED.items():
            assert equality(provenance) == pytest.approx(expected)
            with dl.using(provenance):
                assert equality() == pytest.approx(expected)


def in_threads(work, number=5):
    """Runs work(i) in `number` threads that start together; the first exception is raised."""
    barrier = threading.Barrier(number)

    def start(i):
        barrier.wait()
        return work(i)

    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(start, range(number)))


def test_using_in_threads():
    provenances = list(EXPECTED)

    def work(i):
        provenance = provenances[i % len(provenances)]
        for _ in range(30):
            with dl.using(provenance):
                assert equality() == pytest.approx(EXPECTED[provenance])
        return True

    assert all(in_threads(work))


def test_a_block_does_not_leak_into_other_threads():
    default = dl.Distribution(torch.ones(1), [0]).provenance
    with dl.using(dl.TopKProofs(k=9)):
        (seen,) = in_threads(lambda i: dl.Distribution(torch.ones(1), [0]).provenance, number=1)
    assert seen == default


def test_five_threads_hammering():
    """Same functions, overlapping symbols, both layouts, clearing the cache in between."""
    reference = {n: sum_of_squares(n) for n in range(6)}

    def work(i):
        for step in range(25):
            n = (i + step) % 6
            assert sum_of_squares(n) == reference[n]
            if step % 9 == i:
                dl.cache_clear()
            if step % 7 == 0:
                dl.cache_info()
        return True

    assert all(in_threads(work))


def sum_of_squares(n):
    p = torch.full((2, 5), 0.2)
    d = dl.Distribution(p, range(n, n + 5), provenance=dl.TopKProofs(k=3))
    e = dl.Distribution.from_rows(
        [(list(range(n, n + 3)), torch.full((3,), 0.3)), ([n], torch.ones(1))],
        provenance=dl.TopKProofs(k=3),
    )
    squares = dl.apply(d, lambda x: (x * x) % 7)
    total = dl.apply(dl.sample(squares, 2), e, lambda x, y: x + y - n)
    return [sorted((symbol, round(prob, 5)) for symbol, prob in total.row(b)) for b in range(2)]


def test_training_in_threads_equals_training_alone():
    def train(seed):
        torch.manual_seed(0)
        model = SumNet(dl.TopKProofs(k=2) if seed % 2 else dl.DAMP())
        generator = torch.Generator().manual_seed(seed)
        weight = torch.randn(5, 4, generator=generator)
        with torch.no_grad():
            model.layer.weight.copy_(weight)
            model.layer.bias.zero_()
        x = torch.randn(8, 4, generator=generator)
        for _ in range(5):
            model.zero_grad()
            model(x).pow(2).sum().backward()
            with torch.no_grad():
                model.layer.weight -= 0.1 * model.layer.weight.grad
        return model.layer.weight.detach().clone()

    alone = [train(seed) for seed in range(4)]
    for found, expected in zip(in_threads(train, number=4), alone, strict=True):
        torch.testing.assert_close(found, expected)
