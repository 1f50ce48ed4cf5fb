"""Your own provenance: bounds that hold however facts depend on each other.

The tag of a symbol is a lower and an upper bound of its probability (Fréchet bounds): ten lines of
algebra, and every operation works with it. Here it bounds the probability that towns are connected
if nothing is known about whether roads are closed at the same time.

    python examples/own_provenance.py --picture bounds.png
"""

import argparse

import torch
from torch import Tensor

import dolphin as dl
from dolphin.provenance import TensorProvenance

ROADS = ["ab", "bc", "cf", "ad", "de", "ef", "be"]
OPEN = torch.tensor([0.95, 0.9, 0.95, 0.9, 0.95, 0.9, 0.8])


class Bounds(TensorProvenance):
    """(lower, upper): a ⊗ b is "and", a ⊕ b is "or", for any dependence between the two."""

    name = "bounds"
    tag_shape = (2,)  # 0 and 1 are (0, 0) and (1, 1), which need not be said

    def from_probs(self, probs: Tensor) -> Tensor:
        return torch.stack([probs, probs], -1)

    def to_probs(self, tags: Tensor) -> Tensor:
        return tags.mean(-1)

    def mul(self, a: Tensor, b: Tensor) -> Tensor:
        lower = (a[..., 0] + b[..., 0] - 1).clamp(min=0)
        return torch.stack([lower, torch.minimum(a[..., 1], b[..., 1])], -1)

    def add(self, tags: Tensor, dim: int) -> Tensor:
        upper = tags[..., 1].sum(dim).clamp(max=1)
        return torch.stack([tags[..., 0].amax(dim), upper], -1)


def ways(provenance: dl.Provenance) -> dl.Distribution[str]:
    """All pairs of connected towns, as strings of two letters."""
    roads = dl.Distribution(OPEN, ROADS, exclusive=False, provenance=provenance)

    def step(found: dl.Distribution[str]) -> dl.Distribution[str]:
        ends = (lambda way: way[1], lambda road: road[0])
        return dl.union(roads, dl.apply_if(found, roads, lambda w, r: w[0] + r[1], on=ends))

    return dl.fixpoint(step, roads)


def main() -> None:
    """Compare the bounds with independent roads."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--picture")
    args = parser.parse_args()
    towns = ["a" + town for town in "bcdef"]
    bounds = dl.get_tags(ways(Bounds()), towns)[:, 0]
    exact = dl.get_probs(ways(dl.Exact()), towns)[0]
    for way, (low, high), p in zip(towns, bounds.tolist(), exact.tolist(), strict=True):
        print(f"{way[0]} to {way[1]}: between {low:.3f} and {high:.3f}; independent {p:.3f}")
        assert low <= p <= high
    if args.picture:
        from matplotlib.figure import Figure

        axis = (figure := Figure(figsize=(5, 2.8), layout="constrained")).subplots()
        low, high = bounds.T
        axis.bar(towns, high - low, bottom=low, alpha=0.4, label="bounds for any dependence")
        axis.plot(towns, exact.tolist(), "o", color="C1", label="exact for independent roads")
        axis.set(ylabel="P(connected)", ylim=(0.7, 1.03))
        axis.legend(loc="lower left")
        figure.savefig(args.picture)


if __name__ == "__main__":
    main()
