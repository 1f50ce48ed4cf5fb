"""Abduction: revise a network's predictions so that the sum is right, and train on the revision.

Only the sum of two digits is known. `most_likely` returns the likeliest pair of digits with that
sum: pseudo-labels for an ordinary cross-entropy. A few labelled digits initialise the network.

    python examples/pseudo_labels.py --picture pseudo_labels.png
"""

import argparse

import torch
import torch.nn.functional as F

import dolphin as dl

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=300)
parser.add_argument("--labelled", type=int, default=20, help="number of labelled digits")
parser.add_argument("--picture")
args = parser.parse_args()

torch.manual_seed(0)
prototypes = torch.randn(10, 32)  # what the ten digits look like


def draw(digits: torch.Tensor) -> torch.Tensor:
    """Noisy pictures of digits."""
    return prototypes[digits] + 1.2 * torch.randn(*digits.shape, 32)


network = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
optimiser = torch.optim.Adam(network.parameters(), lr=3e-3)
test = torch.randint(0, 10, (1000,))
test_pictures = draw(test)


def accuracy() -> float:
    """The share of test pictures that are classified correctly."""
    return (network(test_pictures).argmax(1) == test).float().mean().item()


few = torch.arange(args.labelled) % 10
few_pictures = draw(few)
for _ in range(20):
    optimiser.zero_grad()
    F.cross_entropy(network(few_pictures), few).backward()
    optimiser.step()
print(f"digits right with {args.labelled} labels: {accuracy():.1%}")

revised: list[int] = []  # readings per step
for _ in range(args.steps):
    digits = torch.randint(0, 10, (32, 2))
    logits = network(draw(digits))  # (32, 2, 10)
    with torch.no_grad():
        left, right = dl.Distribution.each_from_logits(logits, range(10), provenance="exact")
        readings = dl.most_likely([left, right], left + right, digits.sum(1))
    labels = torch.tensor([reading for reading in readings if reading is not None])
    revised.append(int((labels != logits.argmax(2)).any(1).sum()))
    optimiser.zero_grad()
    F.cross_entropy(logits.flatten(0, 1), labels.flatten()).backward()
    optimiser.step()
print(f"{sum(revised)} readings revised")
print(f"digits right after training on sums: {accuracy():.1%}")
if args.picture:
    from matplotlib.figure import Figure

    axis = (figure := Figure(figsize=(5, 2.8), layout="constrained")).subplots()
    axis.scatter(range(args.steps), revised, s=6)
    axis.set(xlabel="step", ylabel="predictions revised, of 32", yticks=range(0, 33, 8))
    figure.savefig(args.picture)
