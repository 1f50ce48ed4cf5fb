"""Tries an installed dolphin: `python -I smoke.py` in an environment with nothing but the wheel."""

import importlib.metadata
import sys
from pathlib import Path

import torch

import dolphin as dl


def check_installation() -> None:
    package = Path(dl.__file__).parent
    assert package.is_relative_to(sys.prefix), f"{package} is not the installed wheel"
    assert (package / "py.typed").exists(), "py.typed is not shipped"
    assert importlib.metadata.version("dolphin-nesy") == dl.__version__
    extras = {"rich", "tyro", "matplotlib", "accelerate", "pysdd", "transformers"}
    assert not extras & set(sys.modules), "an extra is imported by the core"


def check_training(provenance: object) -> None:
    torch.manual_seed(0)
    network = torch.nn.Linear(4, 10)
    with dl.using(provenance):
        left = dl.Distribution.from_logits(network(torch.randn(8, 4)), range(10))
        right = dl.Distribution.from_logits(network(torch.randn(8, 4)), range(10))
        total = dl.apply(left, right, lambda a, b: a + b)
    assert sorted(total.symbols) == list(range(19))
    loss = dl.nll_loss(total, [9] * 8)
    loss.backward()
    gradient = network.weight.grad
    assert gradient is not None
    assert gradient.isfinite().all()
    assert gradient.abs().sum() > 0


def check_values() -> None:
    d1 = dl.Distribution(torch.tensor([[0.00, 0.90]]), [0, 1])
    d2 = dl.Distribution(torch.tensor([[0.78, 0.09]]), [0, 1])
    probs = dl.get_probs(d1 + d2, symbols=[1])
    assert torch.allclose(probs, torch.tensor([[0.702]])), probs


def main() -> None:
    check_installation()
    check_values()
    for provenance in (dl.DAMP(), dl.TopKProofs(k=3)):
        check_training(provenance)
    print(f"dolphin {dl.__version__} works from {Path(dl.__file__).parent}")


if __name__ == "__main__":
    main()
