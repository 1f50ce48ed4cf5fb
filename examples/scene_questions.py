"""Questions about scenes as programs: shapes and colours are learnt from answers alone.

A scene is a few objects, each seen as a noisy vector. A question is a small program of its own
(filter, count, exists, query), different from sample to sample; the label is its answer.

    python examples/scene_questions.py --picture scenes.png
"""

import argparse
import operator
from typing import Any

import torch
from torch import Tensor, nn

import dolphin as dl

SHAPES, COLOURS = ("cube", "ball", "cone"), ("red", "green", "blue")
KINDS = ("count", "exists", "first")
LOOKS = torch.randn(2, 3, 16, generator=torch.Generator().manual_seed(0))
read_shape, read_colour = (
    dl.network(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 3)), names)
    for names in (SHAPES, COLOURS)
)


@dl.batched
def answer(things: Tensor, question: tuple[str, str]) -> dl.Distribution[Any]:
    """ONE scene, ONE question: how many of a colour, is there a shape, what is the first red?"""
    kind, wanted = question
    if kind == "first":
        result = dl.Distribution.certain("none")
        for thing in reversed(list(things)):
            both = dl.apply(read_colour(thing), read_shape(thing), lambda c, s: (c, s))
            result = dl.apply(both, result, lambda b, rest: b[1] if b[0] == wanted else rest)
        return result
    read = read_colour if kind == "count" else read_shape
    number = dl.reduce(operator.add, [read(t).map(lambda x: int(x == wanted)) for t in things])
    return number if kind == "count" else number.map(bool)


def scenes(count: int, seed: int) -> tuple[Any, ...]:
    """Things (n, 16), questions and true answers."""
    generator, made = torch.Generator().manual_seed(seed), []
    for size in torch.randint(1, 5, (count,), generator=generator).tolist():
        shape, colour = torch.randint(0, 3, (2, size), generator=generator)
        noise = 0.3 * torch.randn(size, 16, generator=generator)
        kind, wanted = torch.randint(0, 3, (2,), generator=generator).tolist()
        first = [SHAPES[s] for s, c in zip(shape.tolist(), colour, strict=True) if c == wanted]
        truth = [int((colour == wanted).sum()), bool((shape == wanted).any()), (*first, "none")[0]]
        question = KINDS[kind], (SHAPES if kind == 1 else COLOURS)[wanted]
        made.append((LOOKS[0, shape] + LOOKS[1, colour] + noise, question, truth[kind]))
    return tuple(zip(*made, strict=True))


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--picture")
args = parser.parse_args()
optimizer = torch.optim.Adam([*read_shape.parameters(), *read_colour.parameters()], lr=3e-3)
for step in range(args.steps):
    things, questions, truth = scenes(48, seed=step)
    optimizer.zero_grad()
    dl.nll_loss(answer(things, questions), truth).backward()
    optimizer.step()
things, questions, truth = scenes(300, seed=10**6)
right = list(map(operator.eq, answer(things, questions).argmax(), truth))
shares = {}
for kind in KINDS:
    marks = [mark for mark, (asked, _) in zip(right, questions, strict=True) if asked == kind]
    shares[kind] = sum(marks) / len(marks)
    print(f"{kind}: {shares[kind]:.1%} right")
if args.picture:
    from matplotlib.figure import Figure

    axis = (figure := Figure(figsize=(5, 2.4), layout="constrained")).subplots()
    axis.barh(list(shares), list(shares.values()))
    axis.set(xlim=(0, 1), xlabel="answers right")
    figure.savefig(args.picture)
