"""Tries an installed dolphin: `python -I smoke.py` in an environment with nothing but the wheel.

Other packages may be within reach: none may be used that the wheel doesn't ask for.
"""

import importlib.metadata
import re
import sys
from pathlib import Path

import torch

BEFORE = set(sys.modules)  # torch takes what it finds

import dolphin as dl  # noqa: E402


def check_installation() -> None:
    package = Path(dl.__file__).parent
    assert package.is_relative_to(sys.prefix), f"{package} is not the installed wheel"
    assert (package / "py.typed").exists(), "py.typed is not shipped"
    assert importlib.metadata.version("dolphin-nesy") == dl.__version__


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def required(name: str, found: set[str]) -> set[str]:
    """The packages that an installed one asks for without extras, theirs included."""
    try:
        requirements = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:  # for another platform
        return found
    for requirement in requirements:
        other = normalised(re.split(r"[^\w.-]", requirement)[0])
        if "extra ==" not in requirement and other not in found:
            found |= required(other, found | {other})
    return found


def check_requirements() -> None:
    allowed = required("dolphin-nesy", {"dolphin-nesy"})
    assert {"torch", "numpy"} < allowed
    owners = importlib.metadata.packages_distributions()
    loaded = {name.partition(".")[0] for name in sys.modules.keys() - BEFORE}
    for module in loaded & owners.keys():
        assert set(map(normalised, owners[module])) & allowed, (
            f"{module} is loaded, and the wheel doesn't ask for it"
        )


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
    check_requirements()
    print(f"dolphin {dl.__version__} works from {Path(dl.__file__).parent}")


if __name__ == "__main__":
    main()
