"""Networks inside of `batched`: called for one sample, run as one batch."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import dolphin as dl


def coin(p):
    return dl.Distribution(torch.stack([1 - p, p]), [0, 1])


def plus(x, y):
    return x + y


def coins(*rows):
    return [torch.tensor(row) for row in rows]


class Reader(nn.Module):
    """Reads digits out of sequences of any length, with a program for one sample."""

    def __init__(self):
        super().__init__()
        layer = nn.Linear(4, 3)
        self.read = dl.network(layer, range(3))
        self.batches = []
        layer.register_forward_hook(lambda m, x, y: self.batches.append(len(y)))

    @dl.batched
    def value(self, images):
        return dl.reduce(plus, [self.read(image) for image in images])

    def forward(self, samples):
        return self.value(samples).log_probs(range(7))


def sequences():
    return [torch.randn(n, 4) for n in (1, 3, 2)]


def test_network_calls_run_as_one_batch():
    reader, given = Reader(), sequences()
    found = reader(given)
    assert reader.batches == [6]
    each = [dl.reduce(plus, [reader.read(x) for x in images]) for images in given]
    expected = dl.Distribution.stack(each).log_probs(range(7))
    torch.testing.assert_close(found, expected)
    assert {name for name, _ in reader.named_parameters()} == {"read.net.weight", "read.net.bias"}


def test_networks_learn():
    reader, given = Reader(), sequences()
    found = torch.autograd.grad(reader(given)[:, 1].sum(), reader.parameters())
    each = [dl.reduce(plus, [reader.read(x) for x in images]) for images in given]
    expected = dl.Distribution.stack(each).log_probs(range(7))[:, 1].sum()
    for own, other in zip(found, torch.autograd.grad(expected, reader.parameters()), strict=True):
        torch.testing.assert_close(own, other)


def test_inputs_of_different_shape_and_inputs_that_are_no_tensors():
    sizes = []

    def count(images):
        sizes.append(len(images))
        return torch.stack([torch.tensor([float(len(x)), 0.0]) for x in images])

    read = dl.network(count, "ab")
    dl.batched(lambda x: read(x))([torch.zeros(2), torch.zeros(3), torch.zeros(2)])
    assert sorted(sizes) == [1, 2]
    assert dl.batched(lambda x: read(x))(["text", "words"]).batch_size == 2
    assert sizes[-1] == 2
    assert read("one").symbols == ("a", "b")


def test_networks_of_probabilities_and_their_errors():
    read = dl.network(lambda x: x.sigmoid(), "ab", exclusive=False, logits=False)
    assert read(torch.zeros(2)).row(0) == [("a", 0.5), ("b", 0.5)]
    with pytest.raises(dl.InputError, match=r"shape \(1, 3\), got shape \(1, 2\)"):
        dl.batched(dl.network(lambda x: x, "abc"))(torch.zeros(2, 2))
    with pytest.raises(dl.InputError, match="expected a network"):
        dl.network(3, "ab")  # type: ignore[arg-type]


# -------------------------------------------------------------------- modes, threads, processes


def test_no_grad_and_inference_mode():
    reader, given = Reader(), sequences()
    with torch.no_grad():
        assert not reader(given).requires_grad
    with torch.inference_mode():
        assert reader(given).is_inference()

    @dl.batched
    def partly(images):
        with torch.no_grad():
            first = reader.read(images[0])
        return first + reader.read(images[-1]) if len(images) > 1 else first

    result = partly(given)
    assert result.log_probs(range(5)).requires_grad
    assert not partly(given[:1]).log_probs(range(3)).requires_grad


def test_autocast():
    seen = []
    layer = nn.Linear(4, 3)
    layer.register_forward_hook(lambda m, x, y: seen.append(y.dtype))
    program = dl.batched(dl.network(layer, range(3)))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        d = program(torch.randn(2, 4))
    assert seen == [torch.bfloat16]
    assert d.dtype == torch.float32

    @dl.batched
    def inside(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return dl.network(layer, range(3))(x)

    inside(torch.randn(2, 4))
    assert seen[-1] == torch.bfloat16
