"""Stories as they are told, and a generator for when the official ones are not available.

Generated stories follow the idea of CLUTRR: a relation is split again and again by the kinship
table into a chain of relations, and each link is told by a sentence. Test stories use sentences
that no training story uses.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from dolphin_tasks.clutrr.kinship import (
    COMPOSITIONS,
    RELATIONS,
    Fact,
    derivable,
    inverse,
    is_female,
)

TRAIN_STORIES, TEST_STORIES = 2_000, 100
"""Stories of each chain length."""
TEST_LENGTHS = range(2, 11)


@dataclass(frozen=True)
class Told:
    """A story with [names], a query, and what the second person of it is to the first."""

    text: str
    query: tuple[str, str]
    answer: str
    length: int = 0
    """Relations in the chain that leads from one to the other."""
    noise: int = 1
    """The official kind: 1 plain, 2 with supporting, 3 irrelevant, 4 disconnected facts."""
    relations: tuple[tuple[str, str, str], ...] = ()
    """(Ann, mother, Eve): listed by the data, and never learnt from."""
    women: frozenset[str] = frozenset()
    men: frozenset[str] = frozenset()


WOMEN = (
    "Ada", "Bella", "Clara", "Dora", "Edith", "Flora", "Greta", "Hilda", "Ines", "Julia",
    "Klara", "Lydia", "Marta", "Nora", "Olive", "Paula", "Rosa", "Sylvia", "Thea", "Vera",
)  # fmt: skip
MEN = (
    "Anton", "Bruno", "Carl", "David", "Emil", "Felix", "Georg", "Hugo", "Ivan", "Jakob",
    "Konrad", "Leon", "Martin", "Niels", "Oscar", "Peter", "Ruben", "Simon", "Theo", "Victor",
)  # fmt: skip
TRAIN_SENTENCES = (
    "{a}'s {r} is called {b}.",
    "{a} went to the market with {his} {r} {b}.",
    "{a} phoned {his} {r}, {b}, on Sunday.",
    "{b} is the {r} of {a}.",
    "{b} baked a cake. {a} was delighted with what {his} {r} had made.",
    "{a} has a {r}. The name is {b}.",
    "Every summer {a} visits {his} {r} {b} at the lake.",
    "{a} and {his} {r} {b} painted the fence.",
    "{b}, {a}'s {r}, sings in a choir.",
    "Because it rained, {a} stayed at home with {his} {r}, {b}.",
)
TEST_SENTENCES = (
    "{a} played chess with {his} {r} {b}.",
    "{a}'s {r}, {b}, came to dinner.",
    "{a} wrote a long letter to {his} {r} {b}.",
    "{a} is proud of {his} {r}, {b}.",
)


def make_sets(chains: int, seed: int = 0) -> tuple[list[Told], list[Told]]:
    """Training stories with chains of 2 ... `chains` relations, test stories with 2 ... 10."""
    rng = random.Random(seed)
    train = [
        make_story(length, TRAIN_SENTENCES, rng)
        for length in range(2, chains + 1)
        for _ in range(TRAIN_STORIES)
    ]
    test = [
        make_story(length, TEST_SENTENCES, rng)
        for length in TEST_LENGTHS
        for _ in range(TEST_STORIES)
    ]
    return train, test


def make_story(length: int, sentences: tuple[str, ...], rng: random.Random) -> Told:
    """A story with one answer, told link by link in random order.

    >>> story = make_story(2, ("{a}'s {r} is {b}.",), random.Random(1))
    >>> print(story.text, story.query, story.answer)
    [Martin]'s father is [Peter]. [Greta]'s father is [Peter]. ('Greta', 'Martin') brother
    """
    while True:
        answer = rng.choice(RELATIONS)
        chain = _split(answer, length, rng)
        told = None if chain is None else tell(chain, answer, sentences, rng)
        if told is not None:
            return told


def tell(
    chain: list[str], answer: str, sentences: tuple[str, ...], rng: random.Random
) -> Told | None:
    """The story of a chain of relations, if `answer` and nothing else follows from them."""
    length = len(chain)
    facts = [Fact(place, relation, place + 1) for place, relation in enumerate(chain)]
    female = _genders(chain, rng)
    if female is None:
        return None
    back = [Fact(f.who, inverse(f.relation, female[f.whose]), f.whose) for f in facts]
    if derivable(facts + back, 0, length) != {answer}:
        return None
    names = [rng.sample(MEN, length + 1), rng.sample(WOMEN, length + 1)]
    people = [names[woman][place] for place, woman in enumerate(female)]
    told = [_tell(fact, people, female, rng.choice(sentences), rng) for fact in facts]
    rng.shuffle(told)
    return Told(
        text=" ".join(told),
        query=(people[0], people[-1]),
        answer=answer,
        length=length,
        relations=tuple((people[f.whose], f.relation, people[f.who]) for f in facts),
        women=frozenset(n for n, woman in zip(people, female, strict=True) if woman),
        men=frozenset(n for n, woman in zip(people, female, strict=True) if not woman),
    )


def _split(answer: str, length: int, rng: random.Random) -> list[str] | None:
    """A chain of relations that composes to `answer`, or None if it can't be split further."""
    chain = [answer]
    while len(chain) < length:
        place = rng.randrange(len(chain))
        parts = [both for both, whole in COMPOSITIONS.items() if whole == chain[place]]
        if not parts:
            return None
        chain[place : place + 1] = rng.choice(parts)
    return chain


def _genders(chain: list[str], rng: random.Random) -> list[bool] | None:
    """Who is a woman, or None where a wife would have a wife: the table knows no such couple."""
    female = [rng.random() < 0.5, *map(is_female, chain)]
    for place, relation in enumerate(chain):
        if relation in ("husband", "wife") and female[place] == female[place + 1]:
            if place:
                return None
            female[0] = not female[0]
    return female


def _tell(
    fact: Fact, people: list[str], female: list[bool], sentence: str, rng: random.Random
) -> str:
    """A sentence about a relation, seen from either side."""
    a, relation, b = fact
    if rng.random() < 0.5:
        a, relation, b = b, inverse(relation, female[a]), a
    pronoun = "her" if female[a] else "his"
    return sentence.format(a=f"[{people[a]}]", b=f"[{people[b]}]", r=relation, his=pronoun)
