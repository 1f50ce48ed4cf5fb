"""Learn rules of kinship from the graphs of CLUTRR: trained on 2 and 3 steps, tested on up to 10.

A graph is a chain of relations; the answer is what its last person is to the first. The rules are
not given: `table[r, s]` has the probability of each relation, or none, for the s of an r. A chain
is split at every position, so that rules are combined in any order, as in CTP.

    python examples/clutrr_graphs.py --data data_089907f8.zip --picture graphs.png
"""

import argparse
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch

import dolphin as dl
from dolphin_tasks.clutrr.data import read_archive
from dolphin_tasks.clutrr.kinship import RELATIONS
from dolphin_tasks.clutrr.stories import make_sets

SIZE = len(RELATIONS)


def graphs(stories: Any) -> dict[int, list]:
    """Chains of relations with their answers, by length; the text is not used."""
    found: dict[int, list] = defaultdict(list)
    for story in stories:
        chain = [RELATIONS.index(relation) for _, relation, _ in story.relations][: story.length]
        if len(chain) == story.length:
            found[story.length].append((chain, RELATIONS.index(story.answer)))
    return found


def answer(chains: Any, table: torch.Tensor) -> dl.Distribution[int]:
    """What the last person of each chain is to the first, given that some rule applies."""
    n = len(chains[0])
    spans = {(i, i + 1): dl.Distribution.certain_rows([c[i] for c in chains]) for i in range(n)}
    for width in range(2, n + 1):
        share = table / (width - 1)  # split at a random position

        def rule(r: int, s: int, share: torch.Tensor = share) -> Any:
            return dl.weighted({t: share[r, s, t] for t in range(SIZE)})

        for i in range(n - width + 1):
            cuts = range(i + 1, i + width)
            parts = [dl.apply(spans[i, k], spans[k, i + width], rule) for k in cuts]
            spans[i, i + width] = dl.union(*parts) if len(parts) > 1 else parts[0]
    return spans[0, n].normalized() if n > 2 else spans[0, n]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Learn rules from the graphs of CLUTRR.")
    parser.add_argument("--data", type=Path, help="zip file or folder of CLUTRR")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--longest", type=int, default=10)
    parser.add_argument("--picture")
    args, rng = parser.parse_args(), random.Random(0)
    train, test = map(graphs, read_archive(args.data) if args.data else make_sets(3))
    scores = torch.zeros(SIZE, SIZE, SIZE + 1, requires_grad=True)  # the last: no relation
    optimizer = torch.optim.Adam([scores], lr=0.1)
    for step in range(args.steps):
        chains, answers = zip(*rng.choices(train[2 + step % 2], k=64), strict=True)
        optimizer.zero_grad()
        dl.nll_loss(answer(chains, scores.softmax(-1)), list(answers)).backward()
        optimizer.step()
    right, table = {}, scores.softmax(-1).detach()
    for length in sorted(n for n in test if n <= args.longest):
        chains, answers = zip(*test[length], strict=True)
        marks = [a == b for a, b in zip(answer(chains, table).argmax(), answers, strict=True)]
        print(f"{length} steps: {sum(marks)} of {len(marks)} right")
        right[length] = sum(marks) / len(marks)
    if args.picture:
        from matplotlib.figure import Figure

        axis = (figure := Figure(figsize=(5, 2.8), layout="constrained")).subplots()
        axis.bar(list(map(str, right)), list(right.values()))
        axis.set(xlabel="steps of a question (trained on 2 and 3)", ylabel="accuracy")
        figure.savefig(args.picture)
