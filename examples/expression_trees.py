"""Evaluate expression trees of different shapes, and learn to read their leaves from the values.

Every sample is a different tree, with an image of a digit at each leaf and an operation at each
node. The program is the recursion you would write for a single tree; `dl.batched` runs it on all
trees at once. Only the value of a tree is labelled, never a digit.

    python examples/expression_trees.py --picture trees.png
"""

import argparse
import random
from typing import Any

import torch

import dolphin as dl

OPERATIONS = {"+": lambda x, y: (x + y) % 10, "-": lambda x, y: (x - y) % 10, "max": max}
STROKES = torch.rand(10, 6, 6, generator=torch.Generator().manual_seed(7)).round()


def draw_tree(leaves: int, choice: random.Random) -> Any:
    """A random tree, digits at its leaves: 7, or ("+", left, right)."""
    if leaves == 1:
        return choice.randrange(10)
    left = choice.randint(1, leaves - 1)
    return (choice.choice([*OPERATIONS]), draw_tree(left, choice), draw_tree(leaves - left, choice))


def with_images(tree: Any) -> Any:
    """The same tree with a noisy image in the place of each digit."""
    if isinstance(tree, int):
        return STROKES[tree] + 0.3 * torch.randn(6, 6)
    return (tree[0], with_images(tree[1]), with_images(tree[2]))


def solve(tree: Any, leaf: Any, combine: Any) -> Any:
    """The value of a tree: the same recursion for plain digits and for distributions."""
    if not isinstance(tree, tuple):
        return leaf(tree)
    operation, left, right = tree
    return combine(solve(left, leaf, combine), solve(right, leaf, combine), OPERATIONS[operation])


def main() -> None:
    """Train on values of trees, and test on single digits."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--picture", default=None)
    args = parser.parse_args()
    torch.manual_seed(0)
    choice = random.Random(0)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(36, 10))
    read = dl.network(net, range(10))
    value: Any = dl.batched(lambda tree: solve(tree, read, dl.apply))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    right = []
    for step in range(args.steps):
        trees = [draw_tree(choice.randint(2, 6), choice) for _ in range(16)]
        result = value([with_images(tree) for tree in trees])
        values = [solve(tree, int, lambda x, y, f: f(x, y)) for tree in trees]
        loss = dl.nll_loss(result, values)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            right.append((net(STROKES).argmax(1) == torch.arange(10)).float().mean().item())
        if step % 50 == 0 or step == args.steps - 1:
            print(f"step {step:3}  loss {loss.item():.3f}  digits read {right[-1]:.0%}")
    if args.picture:
        from matplotlib.figure import Figure

        axis = (figure := Figure(figsize=(5, 2.8), layout="constrained")).subplots()
        axis.plot(right)
        axis.set(xlabel="step (16 trees each)", ylabel="accuracy on single digits")
        figure.savefig(args.picture)


if __name__ == "__main__":
    main()
