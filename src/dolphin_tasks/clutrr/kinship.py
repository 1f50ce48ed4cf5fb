"""Kinship: twenty relations, what a relative of a relative is, and the inverse of a relation.

A relation is told as (Ann, mother, Eve): Ann's mother is Eve. The table `kinship.csv` holds every
composition that the proofs of the official CLUTRR data use, and no other. (mother, father) is
grandfather: a person's mother's father is that person's grandfather.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple


class Fact(NamedTuple):
    """The mother of person 0 is person 2: `Fact(0, "mother", 2)`."""

    whose: int
    relation: str
    who: int


KINDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "parent": ("father", "mother"),
        "child": ("son", "daughter"),
        "sibling": ("brother", "sister"),
        "spouse": ("husband", "wife"),
        "grandparent": ("grandfather", "grandmother"),
        "grandchild": ("grandson", "granddaughter"),
        "parent's sibling": ("uncle", "aunt"),
        "sibling's child": ("nephew", "niece"),
        "parent-in-law": ("father-in-law", "mother-in-law"),
        "child-in-law": ("son-in-law", "daughter-in-law"),
    }
)
"""Each kind of relation, to a man and to a woman."""

RELATIONS = tuple(relation for both in KINDS.values() for relation in both)
UNKNOWN = "unknown"
"""The answer where a story doesn't connect the two people."""

_SEEN_FROM_THERE = {
    "parent": "child",
    "child": "parent",
    "sibling": "sibling",
    "spouse": "spouse",
    "grandparent": "grandchild",
    "grandchild": "grandparent",
    "parent's sibling": "sibling's child",
    "sibling's child": "parent's sibling",
    "parent-in-law": "child-in-law",
    "child-in-law": "parent-in-law",
}
_KIND_OF = {relation: kind for kind, both in KINDS.items() for relation in both}
REVERSED_KINDS = tuple(list(KINDS).index(_SEEN_FROM_THERE[kind]) for kind in KINDS)
"""For each kind, the number of its inverse kind."""


def read_table(path: Path) -> dict[tuple[str, str], str]:
    """The compositions in a CSV with the columns first, second, whole."""
    with path.open(newline="", encoding="utf-8") as stream:
        return {(row["first"], row["second"]): row["whole"] for row in csv.DictReader(stream)}


COMPOSITIONS: Mapping[tuple[str, str], str] = MappingProxyType(
    read_table(Path(__file__).with_name("kinship.csv"))
)


def is_female(relation: str) -> bool:
    """Whether it is a relation to a woman.

    >>> is_female("aunt"), is_female("son")
    (True, False)
    """
    return KINDS[_KIND_OF[relation]].index(relation) == 1


def inverse(relation: str, female: bool) -> str:
    """What the first person, a woman or a man, is to the second.

    >>> inverse("mother", female=False), inverse("wife", female=False)
    ('son', 'husband')
    """
    return KINDS[_SEEN_FROM_THERE[_KIND_OF[relation]]][female]


def connects(first: Fact, second: Fact) -> bool:
    """Whether two facts, the second about the person that the first ends with, give a third."""
    return first.whose != second.who and (first.relation, second.relation) in COMPOSITIONS


def compose(first: Fact, second: Fact) -> Fact:
    """What two facts say together.

    >>> compose(Fact(0, "wife", 2), Fact(2, "son", 3))
    Fact(whose=0, relation='son', who=3)
    """
    return Fact(first.whose, COMPOSITIONS[first.relation, second.relation], second.who)


def derivable(facts: Iterable[Fact], asker: int, asked: int) -> set[str]:
    """Everything that `asked` can be shown to be to `asker`, by the table and plain sets.

    >>> told = [Fact(0, "wife", 2), Fact(2, "son", 3), Fact(3, "grandmother", 1)]
    >>> sorted(derivable(told, 0, 1))
    ['mother', 'mother-in-law']
    """
    derived = set(facts)
    while True:
        about: dict[int, list[Fact]] = {}
        for fact in derived:
            about.setdefault(fact.whose, []).append(fact)
        new = {
            compose(first, second)
            for first in derived
            for second in about.get(first.who, ())
            if connects(first, second)
        }
        if new <= derived:
            return {fact.relation for fact in about.get(asker, ()) if fact.who == asked}
        derived |= new
