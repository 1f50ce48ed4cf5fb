"""Samples of CLUTRR: stories with [names], two people, and what the second is to the first.

The official data sets are read from their zip files, or from folders with the same CSVs, in either
of the two forms in which they are published. Only the story, the query and the answer are learnt
from; the relations that the CSVs list serve to measure how well passages are read, and for the runs
in which relations are given.
"""

from __future__ import annotations

import ast
import csv
import io
import os
import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dolphin_tasks.clutrr import stories
from dolphin_tasks.clutrr.kinship import RELATIONS, Fact, inverse
from dolphin_tasks.clutrr.passages import Passage, cut
from dolphin_tasks.clutrr.stories import Told
from dolphin_tasks.fetch import BROKEN_ARCHIVE, DataError
from dolphin_tasks.training.noise import Noise
from dolphin_tasks.training.task import Data

ARCHIVES = {3: "data_089907f8", 4: "data_db9b8f04"}
"""The official data sets by the longest chain of relations in training."""
VALIDATION = 500
ASKER, ASKED = 0, 1
NOT_TOLD = -1
LENGTHS = range(2, 11)
NOISES = {2: "supporting facts", 3: "irrelevant facts", 4: "disconnected facts"}
MISSPELT = {"neice": "niece"}
"""How the public generator spells a relation."""
_SHE = re.compile(r"\b(she|her|hers|herself)\b", re.IGNORECASE)
_HE = re.compile(r"\b(he|his|him|himself)\b", re.IGNORECASE)
COLUMNS = ("story", "query", "target", "story_edges", "edge_types", "genders")
GROUPS = (*map(str, LENGTHS), *NOISES.values(), "others")
"""Chain lengths of plain stories, and the official kinds of noise."""


@dataclass(frozen=True)
class Mention:
    """Two people who occur in one passage, in one order."""

    passage: int  # of the story
    slots: tuple[int, int]  # of the two people in the passage
    pair: tuple[int, int]  # their numbers in the story
    repeat: int  # how many passages before this one name the same two
    truth: int  # number of the relation that the data lists, or NOT_TOLD
    untold: bool = False  # the other way round, and no sentence tells the gender


@dataclass(frozen=True)
class Story:
    """A story as the network and the program see it. Person 0 asks, person 1 is asked about."""

    told: Told
    passages: tuple[Passage, ...]
    people: tuple[str, ...]
    mentions: tuple[Mention, ...]

    @classmethod
    def of(cls, told: Told) -> Story:
        """Cut a story into passages, and number its people."""
        passages = tuple(cut(told.text))
        named = [name for passage in passages for name in passage.people]
        listed = [name for first, _, second in told.relations for name in (first, second)]
        people = tuple(dict.fromkeys([*told.query, *named, *listed]))
        return cls(told, passages, people, tuple(_mentions(told, passages, people)))

    @property
    def group(self) -> int:
        """The place in `GROUPS`."""
        plain = self.told.noise == 1 and self.told.length in LENGTHS
        name = str(self.told.length) if plain else NOISES.get(self.told.noise, "others")
        return GROUPS.index(name)

    def facts(self) -> list[Fact]:
        """The relations that the data lists, from person to person."""
        numbers = {name: number for number, name in enumerate(self.people)}
        return [Fact(numbers[a], r, numbers[b]) for a, r, b in self.told.relations]


def _mentions(told: Told, passages: Sequence[Passage], people: Sequence[str]) -> Iterator[Mention]:
    """All ordered pairs of people of all passages."""
    numbers = {name: number for number, name in enumerate(people)}
    truths, unclear = _truths(told), _unclear_people(told, passages)
    listed = {(a, b) for a, _, b in told.relations}
    seen: dict[tuple[int, int], int] = {}
    for place, passage in enumerate(passages):
        for i, a in enumerate(passage.people):
            for j, b in enumerate(passage.people):
                pair = (numbers[a], numbers[b])
                if i == j:
                    continue
                repeat = seen.get(pair, 0)
                seen[pair] = repeat + 1
                truth = truths.get((a, b), NOT_TOLD)
                untold = b in unclear and (b, a) in listed and (a, b) not in listed
                yield Mention(place, (i, j), pair, repeat, truth, untold)


def _truths(told: Told) -> dict[tuple[str, str], int]:
    """Numbers of the listed relations, in both directions where the data tells who is a woman."""
    truths: dict[tuple[str, str], int] = {}
    for a, relation, b in told.relations:
        truths[a, b] = RELATIONS.index(relation)
    for a, relation, b in told.relations:
        if a in told.women or a in told.men:
            truths.setdefault((b, a), RELATIONS.index(inverse(relation, a in told.women)))
    return truths


def _unclear_people(told: Told, passages: Sequence[Passage]) -> set[str]:
    """People whose gender no listed relation tells ("his aunt Eve"), and no pronoun that is clear.

    A pronoun is clear where nobody else of that gender is named beside it.
    """
    clear = {b for _, _, b in told.relations}
    for passage in passages:
        for people, pronoun in ((told.women, _SHE), (told.men, _HE)):
            named = [name for name in passage.people if name in people]
            if len(named) == 1 and pronoun.search(passage.text):
                clear.add(named[0])
    return {name for passage in passages for name in passage.people} - clear


@dataclass(frozen=True)
class StoryBatch:
    """Distinct passages of a batch of stories, and every mention of two people in them."""

    stories: tuple[Story, ...]
    passages: tuple[str, ...]
    where: Tensor  # (mentions,) place in `passages`
    slots: Tensor  # (mentions, 2) people in the passage
    reverse: Tensor  # (mentions,) the mention of the same two people in the other order
    rows: Tensor  # (mentions,) story
    pairs: Tensor  # (mentions, 2) people in the story
    repeats: Tensor  # (mentions,)
    truths: Tensor  # (mentions,) relation or NOT_TOLD
    untold: Tensor  # (mentions,) the other way round, and no sentence tells the gender

    @property
    def people(self) -> int:
        """The greatest number of people in one of the stories."""
        return max(len(story.people) for story in self.stories)

    @property
    def answers(self) -> list[str]:
        """The right answers."""
        return [story.told.answer for story in self.stories]

    @classmethod
    def of(cls, stories: Sequence[Story]) -> StoryBatch:
        """Stories as one batch."""
        texts = dict.fromkeys(p.text for story in stories for p in story.passages)
        places = {text: place for place, text in enumerate(texts)}
        mentions = [(row, story, m) for row, story in enumerate(stories) for m in story.mentions]
        where = [places[story.passages[m.passage].text] for _, story, m in mentions]
        numbers = {(row, m.passage, m.slots): n for n, (row, _, m) in enumerate(mentions)}
        reverse = [numbers[row, m.passage, (m.slots[1], m.slots[0])] for row, _, m in mentions]

        def column(values: list[int], *shape: int) -> Tensor:
            return torch.tensor(values, dtype=torch.int64).view(-1, *shape)

        return cls(
            tuple(stories),
            tuple(texts),
            column(where),
            column([slot for *_, m in mentions for slot in m.slots], 2),
            column(reverse),
            column([row for row, *_ in mentions]),
            column([person for *_, m in mentions for person in m.pair], 2),
            column([m.repeat for *_, m in mentions]),
            column([m.truth for *_, m in mentions]),
            column([m.untold for *_, m in mentions]).bool(),
        )


class Stories:
    """One split."""

    def __init__(self, told: Sequence[Told]) -> None:
        self.stories = [Story.of(story) for story in told]
        self._mentions = torch.tensor([len(s.mentions) for s in self.stories], dtype=torch.int64)

    def __len__(self) -> int:
        return len(self.stories)

    def reads(self, index: Tensor) -> int:
        """Mentions of two people in these stories."""
        return int(self._mentions[index].sum())

    def batch(self, index: Tensor, noise: Noise | None = None) -> StoryBatch:
        """These stories."""
        return StoryBatch.of([self.stories[i] for i in index.tolist()])


# -- the official data -----------------------------------------------------------------------------


def find_archive(data_dir: Path | None, chains: int) -> Path | None:
    """The zip file or the folder with the CSVs, or None.

    `data_dir` may be either of the two, one of the CSVs, or a folder with the official zip files.
    """
    if data_dir is not None and not data_dir.exists():
        raise DataError(f"{data_dir}: there is no such file or folder.")
    root = data_dir or (Path(os.environ["DOLPHIN_DATA"]) if "DOLPHIN_DATA" in os.environ else None)
    if root is None:
        return None
    name = ARCHIVES[chains]
    if data_dir is not None and (root.is_file() or any(root.glob("*test.csv"))):
        return root
    for folder in (root, root / "clutrr"):
        for path in (folder / f"{name}.zip", folder / name):
            if path.exists():
                return path
    if data_dir is not None:
        raise DataError(
            f"{data_dir} holds neither {name}.zip nor test stories of CLUTRR (*test.csv)."
        )
    return None


def read_archive(path: Path) -> tuple[list[Told], list[Told]]:
    """Training and test stories, the latter in order of chain length."""
    train: list[Told] = []
    test: list[Told] = []
    for name, where, content in _files(path):
        if name.endswith(("train.csv", "test.csv")):
            stories = list(_read_csv(name, where, content))
            if not stories:
                raise DataError(f"{where} holds no stories.")
            (train if name.endswith("train.csv") else test).extend(stories)
    if not test:
        raise DataError(f"{path} holds no test stories (*test.csv).")
    return train, sorted(test, key=lambda story: (story.noise, story.length))


def _files(path: Path) -> Iterator[tuple[str, str, bytes]]:
    """Name, place and content of each CSV in a zip file or a folder."""
    if path.is_dir() or path.suffix == ".csv":
        for file in sorted(path.glob("*.csv")) if path.is_dir() else [path]:
            try:
                yield file.name, str(file), file.read_bytes()
            except OSError as error:
                raise DataError(f"{file} can't be read: {error.strerror}.") from None
        return
    try:
        with zipfile.ZipFile(path) as archive:
            for name in sorted(archive.namelist()):
                if name.endswith(".csv"):
                    yield name.rsplit("/", 1)[-1], f"{path}: {name}", archive.read(name)
    except (OSError, *BROKEN_ARCHIVE) as error:
        raise DataError(f"{path} is truncated, damaged or not a zip file ({error}).") from None


def _read_csv(name: str, where: str, content: bytes) -> Iterator[Told]:
    """The stories of one file; a row that can't be read is named, and what is wrong with it."""
    rows = csv.DictReader(io.StringIO(content.decode("utf-8", "replace"), newline=""), strict=True)
    try:
        for values in rows:
            yield _read_row(name, values)
    except DataError as error:
        raise DataError(f"{where}, line {rows.line_num}: {error}") from None
    except (ValueError, KeyError, TypeError, SyntaxError, IndexError, csv.Error) as error:
        raise DataError(
            f"{where} is truncated or not a file of CLUTRR, line {rows.line_num} ({error!r})."
        ) from None


def _read_row(name: str, values: dict[str, str]) -> Told:
    task = re.search(r"(\d+)\.(\d+)", values.get("task_name") or name)
    if None in values.values() or None in values:
        raise ValueError("a row is incomplete")
    missing = [c for c in COLUMNS if c not in values]
    if missing:
        raise DataError(f"there is no column {missing[0]!r}.")
    if task is None:
        raise DataError(
            "neither the column 'task_name' nor the file's name says which task it is (1.2)."
        )
    first, second = _listed(values, "query")
    for person in (first, second):
        if f"[{person}]" not in values["story"]:
            raise DataError(f"the story doesn't name [{person}], whom the query asks about.")
    listed = (entry.partition(":") for entry in values["genders"].split(","))
    genders = {name: gender for name, _, gender in listed}
    names = list(genders)
    edges = _listed(values, "story_edges")
    if any(not 0 <= person < len(names) for edge in edges for person in edge):
        raise DataError(f"the column 'story_edges' names a person whom 'genders' doesn't: {edges}.")
    kinds = [_relation(kind) for kind in _listed(values, "edge_types")]
    if len(kinds) > len(edges):
        raise DataError(f"there are {len(kinds)} relations between {len(edges)} pairs of people.")
    # what is told beside the chain comes last, and the public sets don't say which relation it is
    chain = zip(edges, kinds, strict=False)
    return Told(
        text=values["story"],
        query=(str(first), str(second)),
        answer=_relation(_answer(values)),
        length=int(task[2]),
        noise=int(task[1]),
        relations=tuple((names[a], relation, names[b]) for (a, b), relation in chain),
        women=frozenset(name for name in names if genders[name] == "female"),
        men=frozenset(name for name in names if genders[name] == "male"),
    )


def _listed(values: dict[str, str], column: str) -> Sequence[Any]:
    """A column that holds a list or a tuple, as Python writes it."""
    try:
        listed = ast.literal_eval(values[column])
    except (ValueError, SyntaxError):
        listed = None
    if not isinstance(listed, list | tuple):
        raise DataError(f"the column {column!r} is not a list: {values[column]!r:.60}.")
    return listed


def _answer(values: dict[str, str]) -> str:
    """The answer in words: some public files number it, and spell it beside that."""
    target = values["target"]
    return values.get("target_text", target) if target.isdigit() else target


def _relation(name: str) -> str:
    """One of the twenty relations, as they are spelt here."""
    relation = MISSPELT.get(name, name)
    if relation not in RELATIONS:
        raise DataError(f"{name!r} is not one of the relations {', '.join(RELATIONS)}.")
    return relation


def load(chains: int, data_dir: Path | None = None) -> Data[StoryBatch]:
    """The official stories with training chains of up to 3 or 4 relations, or generated ones."""
    archive = find_archive(data_dir, chains)
    if archive is not None:
        train, test = read_archive(archive)
        source = f"CLUTRR-{chains} in {archive}" if _is_official(archive) else f"{archive}"
    else:
        train, test = stories.make_sets(chains)
        source = "NOT the real CLUTRR, which was not found: generated stories from own templates"
    order = np.random.default_rng(chains).permutation(len(train))
    held = min(VALIDATION, len(train) // 10)
    return Data(
        Stories([train[i] for i in order[held:]]),
        Stories([train[i] for i in order[:held]]),
        Stories(test),
        source,
    )


def _is_official(archive: Path) -> bool:
    return archive.name.removesuffix(".zip") in ARCHIVES.values()
