"""A language model reads a family story sentence by sentence, and a program composes it.

The model says who two people of one sentence are to each other; a table of kinship says what a
relative's relative is. The relation that is asked for stands in no sentence.

    python examples/kinship_model.py [--tiny]
"""

import argparse
import functools

import torch

import dolphin as dl
from dolphin_tasks.clutrr.kinship import COMPOSITIONS, UNKNOWN
from dolphin_tasks.words.model import any_language_model

STORY = (
    ("Ann called her mother Eve on Sunday.", "Ann", "Eve"),
    ("Eve told her brother Tom about it.", "Eve", "Tom"),
)
SHOWN = (
    "Ben visited his father Carl. Carl is Ben's father.\n"
    "Mia wrote to her sister Zoe. Zoe is Mia's sister.\n"
    "Paul and his daughter Lea went out. Lea is Paul's daughter.\n"
)
"""How to answer: a small model needs to see it."""
CHOICES = ("mother", "father", "sister", "brother", "daughter", "son")


def compose(first: str, second: str) -> str:
    """What the second's relative is to whom the first is a relative of."""
    return COMPOSITIONS.get((first, second), UNKNOWN)


def main() -> None:
    """Read every sentence, compose, and show the likeliest relations."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tiny", action="store_true", help="random weights, nothing to download")
    lm = any_language_model(parser.parse_args().tiny)
    with torch.no_grad():
        relations = []
        for sentence, first, second in STORY:
            prompt = f"{SHOWN}{sentence} {second} is {first}'s"
            read = lm.options(prompt, [f" {choice}." for choice in CHOICES], normalise=True)
            relations.append(read.map(lambda text: text.strip(" .")))
            shown = ", ".join(f"{relation} ({p:.2f})" for relation, p in relations[-1].top(3)[0])
            print(f"{sentence}  {second} is {first}'s {shown}")
        result = functools.reduce(lambda a, b: dl.apply(a, b, compose), relations)
    asker, asked = STORY[0][1], STORY[-1][2]
    shown = ", ".join(f"{relation} ({p:.2f})" for relation, p in result.top(3)[0])
    print(f"{asked} is {asker}'s {shown}")


if __name__ == "__main__":
    main()
