"""The program: derive relations from told ones by the kinship table, until nothing is new."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

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
    symbols, one_each = _facts_about(batch.people)
    first, second = batch.pairs.unbind(1)
    columns = first * (batch.people - 1) + second - (second > first).long()
    layers = []
    for repeat in range(1 + max(batch.repeats.tolist(), default=0)):
        mentioned = batch.repeats == repeat
        index = (batch.rows[mentioned].to(probs.device), columns[mentioned].to(probs.device))
        layer = probs.new_zeros(len(batch.stories), len(one_each), len(RELATIONS))
        layer = layer.index_put(index, probs[mentioned.to(probs.device)])
        layers.append(dl.Distribution(layer.flatten(1), symbols, exclusive=one_each))
    return dl.union(*layers)


@functools.cache
def _facts_about(people: int) -> tuple[tuple[Fact, ...], tuple[range, ...]]:
    """All facts about this many people, and those of each pair, of which one holds at most."""
    pairs = list(itertools.permutations(range(people), 2))
    facts = tuple(Fact(a, relation, b) for a, b in pairs for relation in RELATIONS)
    size = len(RELATIONS)
    return facts, tuple(range(size * place, size * (place + 1)) for place in range(len(pairs)))


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


def relation_asked_for(told: dl.Distribution, links: int | None = None) -> dl.Distribution:
    """What person 1 is to person 0: a distribution over relations.

    It follows from told facts, in any way that the table allows. Facts are derived until nothing
    changes; that needs a provenance that sees when another derivation of a known fact adds nothing.
    Where probabilities are added up, `links` bounds how many told facts a derivation may use, and
    each derivation counts once.
    """
    return _asked_for(derive(told)) if links is None else _answers_by_length(told, links)


def relation_along(told: dl.Distribution) -> dl.Distribution:
    """What person 1 is to person 0, one told fact after the other from the asker on.

    Finds what the table composes in this order only, which is fast for long chains, whatever the
    provenance. `relation_asked_for` finds all that can be derived.
    """
    begun = dl.filter(told, lambda fact: fact.whose == ASKER)
    away = dl.filter(told, lambda fact: fact.who != ASKER)
    return _asked_for(dl.fixpoint(lambda known: dl.union(begun, _compose(known, away)), begun))


def _asked_for(facts: dl.Distribution) -> dl.Distribution:
    """The relations that facts state between the asker and the person asked about."""
    return dl.apply_if(
        facts,
        lambda fact: fact.relation,
        lambda fact: fact.whose == ASKER and fact.who == ASKED,
    )


def derive(told: dl.Distribution) -> dl.Distribution:
    """All facts that follow from told ones."""
    return dl.fixpoint(lambda known: dl.union(told, _compose(known, known)), told)


def _compose(
    first: dl.Distribution,
    second: dl.Distribution,
    where: Callable[[Fact, Fact], bool] = connects,
    function: Callable[[Fact, Fact], Any] = compose,
) -> dl.Distribution:
    """Facts composed with facts about the person that they end with."""
    return dl.apply_if(
        first, second, function, where, on=(lambda fact: fact.who, lambda fact: fact.whose)
    )


def _answers_by_length(told: dl.Distribution, links: int) -> dl.Distribution:
    """Answers from one told fact, from two, from three ..., all together.

    Of facts from one less than `links`, only those that an answer can begin or end with; of those
    from `links`, which nothing is derived from, only answers: a step of CLUTRR-4 takes 7 % less
    CPU time than with all facts.
    """
    by_length = [told]
    for length in range(2, links):
        where = connects if length < links - 1 else _begins_or_ends
        splits = [(by_length[left], by_length[-1 - left]) for left in range(length - 1)]
        by_length.append(dl.union(*(_compose(first, second, where) for first, second in splits)))
    answers = [_asked_for(facts) for facts in by_length]
    if links > 1:
        pairs = zip(by_length, by_length[::-1], strict=True)
        answers += [_compose(first, second, _answers, _relation) for first, second in pairs]
    return dl.union(*answers)


def _begins_or_ends(first: Fact, second: Fact) -> bool:
    """Whether two facts give one that an answer can begin or end with."""
    return (first.whose == ASKER or second.who == ASKED) and connects(first, second)


def _answers(first: Fact, second: Fact) -> bool:
    """Whether two facts give an answer."""
    return first.whose == ASKER and second.who == ASKED and connects(first, second)


def _relation(first: Fact, second: Fact) -> str:
    return compose(first, second).relation


def likeliest(answers: dl.Distribution) -> list[str]:
    """The likeliest relation of each row; "unknown" where none can be derived.

    Where two are equally likely the nearer one is chosen, a parent before a parent-in-law.
    """
    probs = dl.get_probs(answers, symbols=RELATIONS).detach().cpu().numpy()
    return [RELATIONS[int(np.argmax(row))] if row.any() else UNKNOWN for row in probs]
