"""Generated word problems. Templates, names and numbers of the test set are never trained on."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dolphin_tasks.words.program import carry_out

Templates = dict[str, tuple[str, ...]]

TRAINING: Templates = {
    "+": (
        "{n} has {x} {t}. A friend brings {y} more. How many {t} does {n} have now?",
        "There are {x} {t} in a box and {y} {t} in a bag. How many {t} are there in all?",
        "{n} is {d} years old. {n} finds {x} {t} in the morning and {y} in the evening. How many "
        "{t} does {n} find?",
        "On {d} shelves {n} puts {x} red {t} and {y} blue {t}. How many {t} is that together?",
        "{n} buys {x} {t} and {m} buys {y}. How many {t} do they buy together?",
    ),
    "-": (
        "{n} has {x} {t} and loses {y} of them. How many {t} are left?",
        "{n} gives {y} of {x} {t} to {m}. How many {t} does {n} keep?",
        "Of {x} {t}, {y} are broken. How many {t} are whole?",
        "{n} has {x} {t}, {m} has {y}. How many more {t} does {n} have than {m}?",
        "{n} carries {x} {t} up {d} stairs and drops {y}. How many {t} arrive?",
    ),
    "*": (
        "{n} has {x} boxes with {y} {t} in each. How many {t} does {n} have?",
        "A {s} costs {x} coins. {n} buys {y} {t}. How many coins does {n} pay?",
        "{n} puts {x} {t} on each of {y} tables. How many {t} are on the tables?",
        "For {x} days, {n} makes {y} {t} a day, with {d} helpers. How many {t} does {n} make?",
        "There are {x} rows of {y} {t}. How many {t} are there?",
    ),
    "/": (
        "{n} shares {x} {t} equally among {y} friends. How many {t} does each friend get?",
        "{n} packs {x} {t} into bags of {y}. How many bags are there?",
        "{x} {t} lie on {y} plates, the same number on each. How many {t} are on one plate?",
        "{n} pays {x} coins for {y} {t}. How many coins does one {s} cost?",
        "In {d} hours {n} puts {x} {t} into {y} equal piles. How many {t} are in a pile?",
    ),
}
HELD_OUT: Templates = {
    "+": (
        "{n} picked {x} {t} on Monday. On Tuesday {n} picked {y} more. What is the total number of "
        "{t}?",
        "{n} had {x} {t} before {m} came with another {y}. How many are there after that?",
        "A basket holds {x} green {t}, {y} yellow {t} and nothing else. {d} people look at it. How "
        "many {t} does it hold?",
    ),
    "-": (
        "{n} baked {x} {t}. The children ate {y}. How many {t} remain?",
        "{m} took {y} {t} away from the {x} that {n} had. How many does {n} still have?",
        "After {d} days, {y} of the {x} {t} were sold. How many {t} were not sold?",
    ),
    "*": (
        "Each of {x} children has {y} {t}. How many {t} do the children have altogether?",
        "One bag holds {y} {t}. {n} fills {x} bags. How many {t} are in the bags?",
        "{n} walks {d} miles to sell {x} packs of {y} {t}. How many {t} are sold?",
    ),
    "/": (
        "{y} children divide {x} {t} so that all get the same. How many {t} does a child get?",
        "{x} {t} are put into boxes, {y} in every box. How many boxes are filled?",
        "{n}, who is {d}, cuts {x} {t} into {y} equal groups. How large is a group?",
    ),
}
NAMES = (
    ("Anna", "Ben", "Carla", "David", "Emma", "Frank", "Grace", "Henry"),
    ("Lucy", "Oscar", "Nina", "Peter"),
)
THINGS = (
    (("apples", "apple"), ("books", "book"), ("shells", "shell"), ("pens", "pen"), ("cups", "cup")),
    (("stones", "stone"), ("cakes", "cake"), ("lamps", "lamp")),
)
SMALL = ((2, 4, 5, 6, 8, 9, 12), (3, 7, 11))
LARGE = (
    tuple(n for n in range(13, 60) if n % 3),
    tuple(n for n in range(13, 60) if n % 3 == 0),
)
"""Numbers of training and of test problems; what is divided is a product of two of them."""


@dataclass(frozen=True)
class Problem:
    """A text, what it asks for, and the calculation behind it, which training doesn't see."""

    text: str
    answer: Fraction
    calculation: str


def make_problems(count: int, seed: int, held_out: bool = False) -> list[Problem]:
    """Different problems, the four operations in turn."""
    chance = random.Random(f"words/{seed}/{held_out}")
    templates = HELD_OUT if held_out else TRAINING
    problems: dict[str, Problem] = {}
    while len(problems) < count:
        operation = "+-*/"[len(problems) % 4]
        problem = _make(chance, operation, chance.choice(templates[operation]), int(held_out))
        problems.setdefault(problem.text, problem)
    return list(problems.values())


def _make(chance: random.Random, operation: str, template: str, split: int) -> Problem:
    x, y = _quantities(chance, operation, split)
    spare = [number for number in (*SMALL[split], *LARGE[split]) if number not in (x, y)]
    name, other = chance.sample(NAMES[split], 2)
    things, thing = chance.choice(THINGS[split])
    text = template.format(n=name, m=other, t=things, s=thing, x=x, y=y, d=chance.choice(spare))
    calculation = f"{x}{operation}{y}"
    answer = carry_out(calculation)
    assert answer is not None
    return Problem(text, answer, calculation)


def _quantities(chance: random.Random, operation: str, split: int) -> tuple[int, int]:
    """Two different numbers; a greater one first where they are subtracted or divided."""
    if operation in "+-":
        low, high = sorted(chance.sample(LARGE[split], 2))
        return (high, low) if operation == "-" or chance.random() < 0.5 else (low, high)
    x, y = chance.sample(SMALL[split], 2)
    return (x * y, y) if operation == "/" else (x, y)


@dataclass(frozen=True)
class ProblemBatch:
    """Some problems."""

    problems: Sequence[Problem]

    @property
    def answers(self) -> list[Fraction]:
        """The results that are asked for."""
        return [problem.answer for problem in self.problems]
