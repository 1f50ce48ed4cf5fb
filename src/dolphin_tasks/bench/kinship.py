"""Kinship in stories, from the relation of two people that no sentence names together.

Every story has its own people and graph. All stories of a batch are derived together: each is a row
with its own symbols.

This is not the program of the task (dolphin_tasks/clutrr/program.py), which composes all facts with
each other, in at most as many steps as a training story has links. Chains of ten need a recursion,
and this one follows them from the asker on, by rules that leave no doubt: the derivation that other
systems and earlier versions were measured with. Relations and their inverses are the task's.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import dolphin as dl
from dolphin_tasks.bench.networks import SentenceNetwork
from dolphin_tasks.bench.program import Inputs, Program, class_scores
from dolphin_tasks.clutrr.kinship import KINDS, RELATIONS, inverse

# "My parent's child is my sibling": what a kind of a kind is, where there is no doubt about it.
RULES = {
    ("parent", "parent"): "grandparent",
    ("parent", "child"): "sibling",
    ("parent", "sibling"): "parent's sibling",
    ("parent", "spouse"): "parent",
    ("child", "child"): "grandchild",
    ("child", "sibling"): "child",
    ("child", "spouse"): "child-in-law",
    ("sibling", "parent"): "parent",
    ("sibling", "child"): "sibling's child",
    ("sibling", "sibling"): "sibling",
    ("sibling", "grandparent"): "grandparent",
    ("sibling", "parent's sibling"): "parent's sibling",
    ("spouse", "parent"): "parent-in-law",
    ("spouse", "child"): "child",
    ("spouse", "grandchild"): "grandchild",
    ("grandparent", "spouse"): "grandparent",
    ("grandchild", "sibling"): "grandchild",
}
TABLE = {
    (one, other): KINDS[kind][KINDS[second].index(other)]
    for (first, second), kind in RULES.items()
    for one in KINDS[first]
    for other in KINDS[second]
}
NAMES = (
    "Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hal", "Ida", "Jon",
    "Kay", "Leo", "Mia", "Ned", "Ola", "Pia", "Quin", "Ray", "Sue", "Tom",
)  # fmt: skip

Relation = tuple[str, str, str]  # (Ada, mother, Eva): Ada's mother is Eva


@dataclass(frozen=True)
class Story:
    """Who is named together, who is asked about, and the answer."""

    pairs: tuple[tuple[str, str], ...]
    relations: tuple[str, ...]
    query: tuple[str, str]
    answer: str


def answers(facts: dl.Distribution, stories: list[Story]) -> dl.Distribution:
    """How the second person of each query is related to the first."""
    asker = dl.Distribution.certain_rows([story.query[0] for story in stories])
    asked = dl.Distribution.certain_rows([story.query[1] for story in stories])
    away = dl.apply_if(facts, asker, lambda fact, asker: fact, lambda fact, asker: fact[2] != asker)
    # What people are to the asker: (Eva, mother).
    close = dl.apply_if(
        facts,
        asker,
        lambda fact, asker: (fact[2], fact[1]),
        on=(lambda fact: fact[0], lambda asker: asker),
    )

    def derive(found: dl.Distribution) -> dl.Distribution:
        farther = dl.apply_if(
            found,
            away,
            lambda kin, fact: (fact[2], TABLE[kin[1], fact[1]]),
            lambda kin, fact: (kin[1], fact[1]) in TABLE,
            on=(lambda kin: kin[0], lambda fact: fact[0]),
        )
        return dl.union(close, farther)

    found = dl.fixpoint(derive, close)
    return dl.apply_if(
        found, asked, lambda kin, asked: kin[1], on=(lambda kin: kin[0], lambda asked: asked)
    )


@dataclass(frozen=True)
class Kinship(Program):
    """Stories of chains of `shortest` to `longest` relations, a sentence each."""

    longest: int
    shortest: int = 2
    words: int = 24  # of a sentence

    def network(self) -> nn.Module:
        return SentenceNetwork(len(RELATIONS) + 1)

    def pictures(self, rows: int) -> Tensor:
        sentences = sum(self._length(row) for row in range(rows))
        return torch.randint(4000, (sentences, self.words))

    def _length(self, row: int) -> int:
        return self.shortest + row % (self.longest - self.shortest + 1)

    def draw(
        self, rows: int, inputs: Inputs, generator: torch.Generator
    ) -> tuple[Tensor, list[Story]]:
        stories = [tell(self._length(row), generator) for row in range(rows)]
        truth = [RELATIONS.index(relation) for story in stories for relation in story.relations]
        return class_scores(torch.tensor(truth), len(RELATIONS) + 1, inputs, generator), stories

    def loss(self, scores: Tensor, labels: list[Story]) -> Tensor:
        # The last class says that the two people are not related at all.
        probs = scores.softmax(-1)[:, :-1]
        parts = probs.flatten().split([len(RELATIONS) * len(story.pairs) for story in labels])
        rows = [
            ([(a, r, b) for a, b in story.pairs for r in RELATIONS], part)
            for story, part in zip(labels, parts, strict=True)
        ]
        size = len(RELATIONS)
        groups = [
            [range(size * pair, size * (pair + 1)) for pair in range(len(story.pairs))]
            for story in labels
        ]
        found = answers(dl.Distribution.from_rows(rows, exclusive=groups), labels)
        wanted = torch.tensor([RELATIONS.index(story.answer) for story in labels])
        right = F.one_hot(wanted, size).to(scores)
        return F.binary_cross_entropy(dl.get_probs(found, symbols=RELATIONS), right)


def tell(length: int, generator: torch.Generator) -> Story:
    """A random story: a chain of relations that the table can reduce, told in both directions."""
    order = torch.randperm(len(NAMES), generator=generator).tolist()
    names = [NAMES[place] for place in order[: length + 1]]
    genders = torch.randint(2, (length + 1,), generator=generator).tolist()
    chain, whole = _chain(length, generator)
    pairs, relations = [], []
    for place, kind in enumerate(chain):
        pairs += [(names[place], names[place + 1]), (names[place + 1], names[place])]
        relation = KINDS[kind][genders[place + 1]]
        relations += [relation, inverse(relation, female=genders[place] == 1)]
    answer = KINDS[whole][genders[-1]]
    return Story(tuple(pairs), tuple(relations), (names[0], names[-1]), answer)


def _chain(length: int, generator: torch.Generator) -> tuple[list[str], str]:
    """Kinds of relation from person to person, and what the last person is to the first."""
    told = ["parent", "child", "sibling", "spouse"]
    while True:
        chain = [told[int(torch.randint(len(told), (), generator=generator))]]
        whole = chain[0]
        while len(chain) < length:
            known = [kind for kind in told if (whole, kind) in RULES]
            if not known:
                break
            chain.append(known[int(torch.randint(len(known), (), generator=generator))])
            whole = RULES[whole, chain[-1]]
        if len(chain) == length:
            return chain, whole
