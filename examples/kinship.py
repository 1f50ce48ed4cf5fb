"""Learn to read family relations from how the last person of a story is related to the first.

A story is a chain of sentences, each about two people: A's mother is B, B's brother is C. The label
is what C is to A. The network reads one relation per sentence; the program composes them. Trained
on chains of two and three sentences, tested on longer ones.

    python examples/kinship.py --picture kinship.png
"""

import argparse

import torch
from torch import nn

import dolphin as dl
from dolphin_tasks.clutrr.kinship import COMPOSITIONS, RELATIONS

torch.manual_seed(0)
SENTENCES = torch.randn(len(RELATIONS), 24)  # the vector of a sentence with this relation


def compose(first: str, second: str) -> str | None:
    """What a relative of a relative is, if the table has it."""
    return COMPOSITIONS.get((first, second))


def stories(count: int, length: int) -> tuple[torch.Tensor, list[str]]:
    """Noisy sentences (count, length, 24) of chains with an answer, and the answers."""
    kinds, targets = [], []
    while len(targets) < count:
        chain = torch.randint(0, len(RELATIONS), (length,)).tolist()
        whole: str | None = RELATIONS[chain[0]]
        for kind in chain[1:]:
            whole = compose(whole, RELATIONS[kind]) if whole else None
        if whole:
            kinds.append(chain)
            targets.append(whole)
    return SENTENCES[torch.tensor(kinds)] + 0.7 * torch.randn(count, length, 24), targets


def related(network: nn.Module, sentences: torch.Tensor) -> dl.Distribution:
    """The program: compose the relations of a chain from left to right."""
    first, *rest = dl.Distribution.each_from_logits(network(sentences), RELATIONS)
    whole: dl.Distribution = first
    for relation in rest:
        whole = dl.filter(dl.apply(whole, relation, compose), lambda name: name is not None)
    return whole


def main() -> None:
    """Train on short chains, test on longer ones."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--picture")
    args = parser.parse_args()
    network = nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, len(RELATIONS)))
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    for step in range(args.steps):
        sentences, targets = stories(32, 2 + step % 2)
        loss = dl.nll_loss(related(network, sentences).normalized(), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    shares = {}
    for length in range(2, 6):
        sentences, targets = stories(200, length)
        answers = related(network, sentences).argmax()
        shares[length] = sum(a == b for a, b in zip(answers, targets, strict=True)) / 200
        print(f"{length} sentences: {shares[length]:.1%} right")
    if args.picture:
        from matplotlib.figure import Figure

        axis = (figure := Figure(figsize=(5, 2.8), layout="constrained")).subplots()
        axis.bar([str(n) for n in shares], list(shares.values()), color=["C0", "C0", "C1", "C1"])
        axis.set(xlabel="sentences (blue: lengths seen in training)", ylabel="accuracy")
        figure.savefig(args.picture)


if __name__ == "__main__":
    main()
