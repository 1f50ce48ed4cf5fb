"""Yes/no questions whose answers constrain each other: the likeliest consistent set of answers.

A small language model is asked which of two things is bigger. It answers no to every question, and
so contradicts itself. The program accepts only answers that fit some order of the three things; the
likeliest such answers put most of the things in the right order.

    python examples/consistent_answers.py --picture answers.png
"""

import argparse
import itertools
from pathlib import Path

import torch

import dolphin as dl
from dolphin_tasks.pictures import draw_bars
from dolphin_tasks.words.model import any_language_model

THINGS = (("coin", "chair", "house"), ("bee", "hen", "cow"), ("mouse", "dog", "horse"))
PAIRS = tuple(itertools.permutations(range(3), 2))
ORDERS = tuple(itertools.permutations(range(3)))
"""The sizes of three things: (0, 2, 1) if the second one is the biggest."""


def sizes(*answers: str) -> tuple[int, ...] | None:
    """The order that the answers to "is the first bigger than the second?" describe, if any."""
    for order in ORDERS:
        if answers == tuple(" yes" if order[x] > order[y] else " no" for x, y in PAIRS):
            return order
    return None


def consistent(*answers: str) -> bool:
    """Whether the answers describe an order."""
    return sizes(*answers) is not None


def main() -> None:
    """Ask about every pair, with and without the constraint."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tiny", action="store_true", help="random weights, nothing to download")
    parser.add_argument("--picture", default=None)
    args = parser.parse_args()
    lm = any_language_model(args.tiny)

    def ask(x: int, y: int) -> dl.Distribution[str]:
        """One question about each row of things: B rows over yes and no."""
        questions = [f"Is a {names[x]} bigger than a {names[y]}?" for names in THINGS]
        prompts = [f"Question: {question}\nAnswer:" for question in questions]
        return lm.options(prompts, [" yes", " no"], normalise=True)

    with torch.no_grad(), dl.using("exact"):
        answers = [ask(*pair) for pair in PAIRS]
        makes_sense = dl.apply(*answers, consistent)
        together = dl.most_likely(answers, makes_sense, [True] * len(THINGS))
        alone = zip(*(answer.argmax() for answer in answers), strict=True)
        chance = makes_sense.prob_of([True] * len(THINGS)).tolist()
    for names, by_itself, likeliest, p in zip(THINGS, alone, together, chance, strict=True):
        order = sizes(*(likeliest or ())) or (0, 1, 2)
        print(f"{', '.join(names)}: P(consistent) = {p:.3f}")
        print(f"  each by itself:{''.join(by_itself)}, consistent: {consistent(*by_itself)}")
        print(f"  together:      {' < '.join(names[order.index(n)] for n in range(3))}")
    if args.picture:
        picked = [word.strip() for word in together[0] or ()]
        asked = [f"{THINGS[0][x]} > {THINGS[0][y]}" for x, y in PAIRS]
        titles = [f"{pair}? chosen: {word}" for pair, word in zip(asked, picked, strict=True)]
        draw_bars(dict(zip(titles, (a.row(0) for a in answers), strict=True)), Path(args.picture))


if __name__ == "__main__":
    main()
