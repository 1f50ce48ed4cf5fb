"""Learn to recognise red things from how many there are: counting and quantifiers.

A scene is a bag of up to six things, each observed as a noisy vector. The label of a scene is the
number of its red things; no thing is labelled. Once trained, the same network answers other
questions: is any of them red, are more than three of them red?

    python examples/counting.py --picture counting.png
"""

import argparse

import torch
from torch import Tensor, nn

import dolphin as dl

Scene = tuple[Tensor, list[bool]]


def scenes(count: int) -> list[Scene]:
    """Things (n, 6) of each scene, and which of them are red; a scene may be empty."""
    made = []
    for size in torch.randint(0, 7, (count,)).tolist():
        red = torch.rand(size) < 0.4
        things = torch.randn(size, 6)
        things[:, 2] += 4 * (red.float() - 0.5)  # only this feature carries information
        made.append((things, red.tolist()))
    return made


def reds(network: nn.Module, batch: list[Scene]) -> dl.Distribution[int]:
    """One row per scene: the indices of its things, and how likely each of them is red."""
    logits = network(torch.cat([things for things, _ in batch])).squeeze(1)
    rows = zip(batch, logits.split([len(red) for _, red in batch]), strict=True)
    return dl.Distribution.from_rows(
        [(range(len(red)), scores) for (_, red), scores in rows], exclusive=False, logits=True
    )


def main() -> None:
    """Train on counts, then ask."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--picture")
    args = parser.parse_args()
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    for _ in range(args.steps):
        batch = scenes(32)
        optimizer.zero_grad()
        dl.nll_loss(dl.count(reds(network, batch)), [sum(red) for _, red in batch]).backward()
        optimizer.step()
    batch = scenes(200)
    with torch.no_grad():
        found = reds(network, batch)
        answers = {
            "how many are red": (dl.count(found), [sum(red) for _, red in batch]),
            "is any red": (dl.exists(found), [any(red) for _, red in batch]),
            "more than three": (
                dl.count(found).map(lambda n: n > 3),
                [sum(red) > 3 for _, red in batch],
            ),
        }
    for question, (answer, truth) in answers.items():
        right = [a == b for a, b in zip(answer.argmax(), truth, strict=True)]
        print(f"{question}? {sum(right) / len(right):.1%} right")
    if args.picture:
        from matplotlib.figure import Figure

        scale = network[0].weight.detach().abs().sum(0)  # pyright: ignore
        axis = (figure := Figure(figsize=(5, 2.8), layout="constrained")).subplots()
        axis.bar(range(6), (scale / scale.sum()).tolist())
        axis.set(xlabel="feature (only 2 is informative)", ylabel="share of the weights")
        figure.savefig(args.picture)


if __name__ == "__main__":
    main()
