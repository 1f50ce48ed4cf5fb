"""Yes/no questions whose answers constrain each other: the likeliest consistent set of answers.

A language model answers each question by itself, and may contradict itself. The program knows what
goes together, and finds the likeliest answers that do.

    python examples/consistent_answers.py [--tiny]
"""

import argparse

import torch

import dolphin as dl
from dolphin_tasks.words.model import any_language_model

ANIMALS = ("whale", "eagle", "trout")
QUESTIONS = ("Is a {} a mammal?", "Is a {} a fish?", "Is a {} a bird?", "Does a {} lay eggs?")


def consistent(mammal: str, fish: str, bird: str, eggs: str) -> bool:
    """It is exactly one of the three; fish and birds lay eggs, and mammals don't."""
    one = [mammal, fish, bird].count(" yes") == 1
    return one and eggs == (" no" if mammal == " yes" else " yes")


def main() -> None:
    """Ask about each animal, with and without the constraints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tiny", action="store_true", help="random weights, nothing to download")
    lm = any_language_model(parser.parse_args().tiny)

    def ask(question: str) -> dl.Distribution[str]:
        """One question about each animal: B rows over yes and no."""
        prompts = [f"Question: {question.format(animal)}\nAnswer:" for animal in ANIMALS]
        return lm.options(prompts, [" yes", " no"], normalise=True)

    with torch.no_grad(), dl.using("exact"):
        answers = [ask(question) for question in QUESTIONS]
        makes_sense = dl.apply(*answers, consistent)
        together = dl.most_likely(answers, makes_sense, [True] * len(ANIMALS))
        alone = zip(*(answer.argmax() for answer in answers), strict=True)
        chance = makes_sense.prob_of([True] * len(ANIMALS)).tolist()
    for animal, by_itself, likeliest, p in zip(ANIMALS, alone, together, chance, strict=True):
        print(f"{animal}: mammal, fish, bird, eggs?  P(consistent) = {p:.3f}")
        print(f"  each by itself: {''.join(by_itself)}  consistent: {consistent(*by_itself)}")
        print(f"  together:       {''.join(likeliest or ())}")


if __name__ == "__main__":
    main()
