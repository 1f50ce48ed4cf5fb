"""Questions about scenes as programs: shapes and colours are learnt from answers alone.

Each question is a program. To run: `python examples/scene_questions.py --picture scenes.png`.
"""

import argparse
import random
from typing import Any

import torch
from torch import nn

import dolphin as dl

SHAPES, COLOURS = ("cube", "ball", "cone"), ("red", "green", "blue")
LOOKS = dict(zip(SHAPES + COLOURS, torch.randn(6, 16, generator=torch.manual_seed(0)), strict=True))
SEEN = {of: dl.network(nn.Linear(16, 3), x) for of, x in (("shape", SHAPES), ("colour", COLOURS))}


@dl.program
def first_shape(chosen: dl.Distribution[frozenset], shapes: list[dl.Distribution[str]]) -> str:
    """The shape of the leftmost of the chosen things."""
    return dl.choose(shapes[min(things)]) if (things := dl.choose(chosen)) else "nothing"


def ask(things: Any, question: list[str], *, shape: Any, colour: Any) -> dl.Distribution[Any]:
    """ONE scene, ONE question: the set of things it refers to so far, then the answer."""
    chosen: Any = dl.Distribution.certain(frozenset(range(n := len(things))))
    for word in question[:-1]:
        if word in ("left", "right"):
            pairs = [(i, j) if word == "left" else (j, i) for j in range(n) for i in range(j)]
            chosen = chosen.map(lambda s, pairs=pairs: frozenset(i for i, j in pairs if j in s))
        else:
            for i, thing in enumerate(things):
                name = colour(thing) if word in COLOURS else shape(thing)
                fits = name.map(lambda name, word=word: name == word)
                chosen = dl.apply(chosen, fits, lambda s, yes, i=i: s if yes else s - {i})
    if question[-1] != "query":
        return chosen.map(len if question[-1] == "count" else bool)
    return first_shape(chosen, [shape(thing) for thing in things])


def scenes(count: int, seed: int) -> tuple[Any, ...]:
    """Things (n, 16), questions, and the answers that perfect perception gives."""
    rng, made, sure = random.Random(seed), [], dl.Distribution.certain
    for _ in range(count):
        scene = [(rng.choice(SHAPES), rng.choice(COLOURS)) for _ in range(rng.randint(1, 5))]
        question = [rng.choice(COLOURS), rng.choice(["left", "right"])][: rng.randint(1, 2)]
        question += rng.choice([[rng.choice(SHAPES), "count"], ["count"], ["exists"], ["query"]])
        true = ask(scene, question, shape=lambda x: sure(x[0]), colour=lambda x: sure(x[1]))
        looks = torch.stack([LOOKS[shape] + LOOKS[colour] for shape, colour in scene])
        made.append((looks + 0.3 * torch.randn_like(looks), question, true.argmax()[0]))
    return tuple(zip(*made, strict=True))


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--picture")
args = parser.parse_args()
optimizer = torch.optim.Adam(nn.ModuleDict(SEEN).parameters(), lr=2e-2)
for step in range(args.steps):
    things, questions, truth = scenes(48, seed=step)
    optimizer.zero_grad()
    dl.nll_loss(dl.batched(ask)(things, questions, **SEEN), truth).backward()
    optimizer.step()
things, questions, truth = scenes(300, seed=10**6)
answers = dl.batched(ask)(things, questions, **SEEN).argmax()
for word in ("count", "exists", "query", "left", "right"):
    marks = [a == b for a, b, q in zip(answers, truth, questions, strict=True) if word in q]
    print(f"{word}: {sum(marks) / len(marks):.1%} right")
if args.picture:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3), layout="constrained")
    for n, axis in enumerate(figure.subplots(2, 3).flat):
        for x, thing in enumerate(things[n]):
            shape, colour = (see(thing).argmax()[0] for see in SEEN.values())
            axis.scatter(x, 0, s=200, marker="so^"[SHAPES.index(shape)], color=colour)
        axis.set(title=f"{' '.join(questions[n])}: {answers[n]}", xticks=[], yticks=[])
    figure.savefig(args.picture)
