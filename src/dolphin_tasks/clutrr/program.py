"""The program: derive relations from told ones by the kinship table, until nothing is new."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from torch import Tensor

import dolphin as dl
from dolphin_tasks.clutrr.data import ASKED, ASKER, StoryBatch
from dolphin_tasks.clutrr.kinship import RELATIONS, UNKNOWN, Fact, compose, connects

LIKELIEST = dl.get_provenance("viterbi")
"""For answers: each fact has the probability of the likeliest way to derive it."""


def told_facts(probs: Tensor, batch: StoryBatch) -> dl.Distribution:
    """What passages say: probabilities (mentions, 20) as a distribution over facts.

    People are numbers, so all stories share their symbols: a pair that a story doesn't mention has
    probability 0. Each mention of a pair is a separate input; two that say the same are two proofs
    of one fact.
    """
    pairs = list(itertools.permutations(range(batch.people), 2))
    first, second = batch.pairs.unbind(1)
    columns = first * (batch.people - 1) + second - (second > first).long()
    symbols = [Fact(a, relation, b) for a, b in pairs for relation in RELATIONS]
    size = len(RELATIONS)
    one_each = [range(size * place, size * (place + 1)) for place in range(len(pairs))]
    layers = []
    for repeat in range(1 + max(batch.repeats.tolist(), default=0)):
        mentioned = batch.repeats == repeat
        index = (batch.rows[mentioned].to(probs.device), columns[mentioned].to(probs.device))
        layer = probs.new_zeros(len(batch.stories), len(pairs), size)
        layer = layer.index_put(index, probs[mentioned.to(probs.device)])
        layers.append(dl.Distribution(layer.flatten(1), symbols, exclusive=one_each))
    return dl.union(*layers)


def relation_in_one(
    pairs: Sequence[tuple[int, int]], probs: Tensor, *, links: int | None = None
) -> dl.Distribution:
    """What person 1 is to person 0 in one story: `told_facts` and `relation_asked_for`.

    Takes the probabilities (mentions, 20) of the relations for each mention of two people. Batched
    by `dolphin.batched(relation_in_one)`: every story has only the facts of its own people.
    """
    told = [
        dl.Distribution(mention, [Fact(a, relation, b) for relation in RELATIONS])
        for (a, b), mention in zip(pairs, probs, strict=True)
    ]
    return relation_asked_for(dl.union(*told), links)


def derive(told: dl.Distribution, links: int | None = None) -> dl.Distribution:
    """All facts that follow from told ones, in any way that the table allows.

    It derives until nothing changes; that needs a provenance that sees when another derivation of a
    known fact adds nothing. Where probabilities are added up, `links` bounds how many told facts a
    derivation may use, and each derivation counts once.
    """
    if links is not None:
        return _derive_by_length(told, links)
    return dl.fixpoint(lambda known: dl.union(told, _compose(known, known)), told)


def _compose(first: dl.Distribution, second: dl.Distribution) -> dl.Distribution:
    """Facts composed with facts about the person that they end with."""
    return dl.apply_if(
        first, second, compose, connects, on=(lambda fact: fact.who, lambda fact: fact.whose)
    )


def _derive_by_length(told: dl.Distribution, links: int) -> dl.Distribution:
    """Facts from one told fact, from two, from three ..., all together."""
    by_length = [told]
    for length in range(2, links + 1):
        parts = [
            _compose(by_length[left - 1], by_length[length - left - 1]) for left in range(1, length)
        ]
        by_length.append(dl.union(*parts))
    return dl.union(*by_length)


def relation_asked_for(told: dl.Distribution, links: int | None = None) -> dl.Distribution:
    """What person 1 is to person 0: a distribution over relations. `links` as in `derive`."""
    return dl.apply_if(
        derive(told, links),
        lambda fact: fact.relation,
        lambda fact: fact.whose == ASKER and fact.who == ASKED,
    )


def likeliest(answers: dl.Distribution) -> list[str]:
    """The likeliest relation of each row; "unknown" where none can be derived.

    Where two are equally likely the nearer one is chosen, a parent before a parent-in-law.
    """
    probs = dl.get_probs(answers, symbols=RELATIONS).detach().cpu().numpy()
    return [RELATIONS[int(np.argmax(row))] if row.any() else UNKNOWN for row in probs]
