"""CLUTRR with given relations: how far the kinship table and the program carry on their own.

    python -m dolphin_tasks.clutrr.graph_only --train-chains 3

There is nothing to learn here. The remaining errors can't be decided by the table: a wife's child's
grandmother is a mother or a mother-in-law.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
import torch.nn.functional as F

import dolphin as dl
from dolphin_tasks.clutrr import data, program
from dolphin_tasks.clutrr.data import ASKED, ASKER, GROUPS, Story, StoryBatch
from dolphin_tasks.clutrr.kinship import RELATIONS, UNKNOWN, derivable

BATCH = 250

Counts = dict[str, dict[str, int]]
"""`right` and `total` of each group of stories."""


def given_batch(stories: Sequence[Story]) -> StoryBatch:
    """Stories as if each listed relation had been read in a separate passage."""
    rows, pairs, repeats, truths = [], [], [], []
    for row, story in enumerate(stories):
        for fact in dict.fromkeys(story.facts()):
            before = [pair for place, pair in zip(rows, pairs, strict=True) if place == row]
            repeats.append(before.count((fact.whose, fact.who)))
            rows.append(row)
            pairs.append((fact.whose, fact.who))
            truths.append(RELATIONS.index(fact.relation))
    return dataclasses.replace(
        StoryBatch.of([dataclasses.replace(story, passages=(), mentions=()) for story in stories]),
        rows=torch.tensor(rows, dtype=torch.int64),
        pairs=torch.tensor(pairs, dtype=torch.int64).view(-1, 2),
        repeats=torch.tensor(repeats, dtype=torch.int64),
        truths=torch.tensor(truths, dtype=torch.int64),
    )


def answer_given(stories: Sequence[Story]) -> list[str]:
    """The program's answers, from the listed relations."""
    answers: list[str] = []
    for start in range(0, len(stories), BATCH):
        batch = given_batch(stories[start : start + BATCH])
        certain = F.one_hot(batch.truths, len(RELATIONS)).float()
        with dl.using(program.LIKELIEST):
            told = program.told_facts(certain, batch)
        answers += program.likeliest(program.relation_asked_for(told))
    return answers


def count_right(stories: Sequence[Story], answers: Sequence[str]) -> Counts:
    """Right answers by group of stories."""
    counts: Counts = {}
    for story, answer in sorted(zip(stories, answers, strict=True), key=lambda both: both[0].group):
        count = counts.setdefault(GROUPS[story.group], {"right": 0, "total": 0})
        count["right"] += answer == story.told.answer
        count["total"] += 1
    return counts


def doubts(story: Story) -> set[str]:
    """Every relation that follows from the listed ones, if there are several."""
    relations = derivable(story.facts(), ASKER, ASKED) or {UNKNOWN}
    return relations if len(relations) > 1 else set()


def explain(story: Story, answer: str) -> str:
    """One line about a story with more than one derivation.

    >>> told = data.Told("", ("Ann", "Eve"), "mother", relations=(
    ...     ("Ann", "husband", "Bob"), ("Bob", "son", "Tom"), ("Tom", "grandmother", "Eve")))
    >>> explain(Story.of(told), "mother")
    'Ann, husband Bob, son Tom, grandmother Eve: mother or mother-in-law (mother is right)'
    """
    chain = [story.told.relations[0][0]]
    chain += [f"{relation} {b}" for _, relation, b in story.told.relations]
    options = " or ".join(sorted(doubts(story)))
    verdict = "is right" if answer == story.told.answer else "is wrong"
    return f"{', '.join(chain)}: {options} ({answer} {verdict})"


@dataclass(frozen=True)
class GraphOnlyOptions:
    """Answer the test stories of CLUTRR from given relations."""

    train_chains: Literal[3, 4] = 3
    """Which data set: CLUTRR-3 or CLUTRR-4."""
    data_dir: Path | None = None
    """Folder to read the data from (default: $DOLPHIN_DATA)."""


def main(options: GraphOnlyOptions) -> None:
    """Print a table by chain length, and the stories that can't be decided."""
    from rich.console import Console
    from rich.table import Table

    loaded = data.load(options.train_chains, options.data_dir)
    assert isinstance(loaded.test, data.Stories)
    stories = loaded.test.stories
    answers = answer_given(stories)
    table = Table("stories", "total", "derivable", "right", "", box=None, pad_edge=False)
    for name, count in count_right(stories, answers).items():
        reached = sum(
            answer != UNKNOWN
            for story, answer in zip(stories, answers, strict=True)
            if GROUPS[story.group] == name
        )
        right, total = count["right"], count["total"]
        table.add_row(name, str(total), str(reached), str(right), f"{right / total:.1%}")
    console = Console(highlight=False)
    console.print(f"data: {loaded.source}")
    console.print(table)
    unsure = [both for both in zip(stories, answers, strict=True) if doubts(both[0])]
    console.print(f"{len(unsure)} stories have two answers by the table:")
    for story, answer in unsure:
        console.print(f"  {explain(story, answer)}", soft_wrap=True)


if __name__ == "__main__":
    import tyro

    try:
        main(tyro.cli(GraphOnlyOptions, prog="python -m dolphin_tasks.clutrr.graph_only"))
    except dl.DolphinError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(2) from None
