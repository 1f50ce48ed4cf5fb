"""Learn what a relative of a relative is, from questions alone, and apply it to longer chains.

Each question is a chain of relations; the answer is what the last person is to the first. The rules
are not given: `table[r, s]` has the probability of each relation for the s of an r, and its entries
are the weights of a function with random outcomes. Trained on chains of 2 and 3, tested up to 6.

    python examples/learnt_rules.py --picture rules.png
"""

import argparse
import random
from typing import Any

import torch

import dolphin as dl
from dolphin_tasks.clutrr.kinship import COMPOSITIONS, RELATIONS

SIZE = len(RELATIONS)
RULES = {tuple(map(RELATIONS.index, two)): RELATIONS.index(s) for two, s in COMPOSITIONS.items()}


def draw(rows: int, length: int, rng: random.Random) -> tuple[list[list[int]], list[int]]:
    """Chains of relations that have an answer, and the answers."""
    chains, answers = [], []
    while len(chains) < rows:
        chain = [rng.randrange(SIZE)]
        relative = chain[0]
        while len(chain) < length and (known := [s for r, s in RULES if r == relative]):
            chain.append(rng.choice(known))
            relative = RULES[relative, chain[-1]]
        if len(chain) == length:
            chains.append(chain)
            answers.append(relative)
    return chains, answers


def answer(chains: list[list[int]], table: torch.Tensor) -> dl.Distribution:
    """What the last person of each chain is to the first."""

    def follow(so_far: int, following: int) -> Any:
        return dl.weighted({r: table[so_far, following, r] for r in range(SIZE)})

    first, *others = (dl.Distribution.certain_rows(column) for column in zip(*chains, strict=True))
    for relation in others:
        first = dl.apply(first, relation, follow)
    return first


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Learn rules from questions.")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--picture", default=None)
    args = parser.parse_args()
    rng = random.Random(0)
    scores = torch.zeros(SIZE, SIZE, SIZE, requires_grad=True)
    optimizer = torch.optim.Adam([scores], lr=0.3)
    for step in range(args.steps):
        chains, answers = draw(64, 2 + step % 2, rng)
        loss = dl.nll_loss(answer(chains, scores.softmax(-1)), answers)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    table = scores.softmax(-1).detach()
    learnt = sum(int(table[pair].argmax()) == third for pair, third in RULES.items())
    print(f"rules learnt: {learnt} of {len(RULES)}")
    right = {}
    for length in range(2, 7):
        chains, answers = draw(200, length, rng)
        guesses = answer(chains, table).argmax()
        right[length] = sum(a == b for a, b in zip(guesses, answers, strict=True)) / 200
    print("answers right:", *(f"{length} links {share:.0%}" for length, share in right.items()))
    if args.picture:
        from matplotlib.figure import Figure

        axis = (figure := Figure(figsize=(5, 2.8), layout="constrained")).subplots()
        axis.bar(list(map(str, right)), list(right.values()))
        axis.set(xlabel="links of a chain (trained on 2 and 3)", ylabel="accuracy")
        figure.savefig(args.picture)
