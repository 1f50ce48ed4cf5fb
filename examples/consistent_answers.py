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


def consistent(mammal: bool, fish: bool, bird: bool, eggs: bool) -> bool:
    """It is exactly one of the three; fish and birds lay eggs, and mammals don't."""
    return mammal + fish + bird == 1 and eggs == (fish or bird)


def main() -> None:
    """Ask about each animal, with and without the constraints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tiny", action="store_true", help="random weights, nothing to download")
    lm = any_language_model(parser.parse_args().tiny)

    def ask(question: str) -> dl.Distribution[bool]:
        """One question for each animal: B rows over True and False."""
        prompts = [f"Question: {question.format(animal)}\nAnswer:" for animal in ANIMALS]
        return lm.options(prompts, [" yes", " no"], normalise=True).map(lambda a: a == " yes")

    with torch.no_grad():
        mammal, fish, bird, eggs = map(ask, QUESTIONS)
        alone = zip(*(answer.argmax() for answer in (mammal, fish, bird, eggs)), strict=True)
        answers = dl.apply(mammal, fish, bird, eggs, lambda *all_four: all_four)
        possible = answers.filter(lambda all_four: consistent(*all_four))
    for animal, by_itself, together, sense in zip(
        ANIMALS, alone, possible.argmax(), possible.probs().sum(1).tolist(), strict=True
    ):
        print(f"{animal}: mammal, fish, bird, eggs?")
        print(f"  each by itself  {by_itself}  consistent: {consistent(*by_itself)}")
        print(f"  consistent      {together}  P(consistent) = {sense:.3f}")


if __name__ == "__main__":
    main()
