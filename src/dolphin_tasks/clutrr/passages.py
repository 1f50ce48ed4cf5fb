"""Cutting a story into passages: the sentences that have to be read together.

A relation is often told over two sentences ("[Ann] could not find her son [Bob]. She found him with
her mother [Eve]."), so a sentence that leans on the one before it is kept with it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

NAME = re.compile(r"\[([^\[\]]+)\]")
_END = re.compile(r"""(?<=[.!?])["']?\s+(?=["'A-Z\[])|(?<=\])\s+(?=\[)""")  # or a missing full stop
_PRONOUN = re.compile(r"\b(he|she|they|him|her|his|hers|them|their)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Passage:
    """Text in which [0], [1], ... stand for people, and who they are."""

    text: str
    people: tuple[str, ...]

    def told(self) -> str:
        """The text with the names of the people.

        >>> Passage("[0] is [1]'s sister.", ("Eve", "Ann")).told()
        "Eve is Ann's sister."
        """
        return NAME.sub(lambda number: self.people[int(number[1])], self.text)


def find_names(text: str) -> tuple[str, ...]:
    """The names in brackets, each once, in order of appearance.

    >>> find_names("[Ann] and [Bob] like [Ann]'s cat.")
    ('Ann', 'Bob')
    """
    return tuple(dict.fromkeys(NAME.findall(text)))


def cut(story: str) -> list[Passage]:
    """The passages of a story, without those that name fewer than two people.

    Names are replaced by numbers: a passage says the same whatever the names are, and stories
    share passages.

    >>> cut("[Ann] has a son. He is called [Bob]. It rains. [Eve] is [Ann]'s sister.")
    [Passage(text='[0] has a son. He is called [1]. It rains.', people=('Ann', 'Bob')),
     Passage(text="[0] is [1]'s sister.", people=('Eve', 'Ann'))]
    """
    texts: list[str] = []
    for sentence in filter(None, (part.strip() for part in _END.split(story))):
        if texts and _continues(sentence, texts[-1]):
            texts[-1] += " " + sentence
        else:
            texts.append(sentence)
    if len(texts) > 1 and len(find_names(texts[-1])) < 2:  # belongs to the one before
        texts[-2:] = [" ".join(texts[-2:])]
    return [_number_people(text) for text in texts if len(find_names(text)) >= 2]


def _continues(sentence: str, before: str) -> bool:
    """Whether a sentence needs the text before it, or the other way round."""
    first = NAME.search(sentence)
    if first is None or _PRONOUN.search(sentence[: first.start()]):
        return True
    return len(find_names(before)) < 2


def _number_people(text: str) -> Passage:
    people = find_names(text)
    return Passage(NAME.sub(lambda name: f"[{people.index(name[1])}]", text), people)
