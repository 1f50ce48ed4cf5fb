"""Random programs for one sample that use all of the language, and the pairs that meet there."""

from __future__ import annotations

import random
from collections import Counter

import dolphin as dl


def add(x, y):
    return (x + y) % 5


def not_none(x):
    return -1 if x is None else int(x)


@dl.program
def larger_first(a, b):
    """A choice that is made only if the other one says so."""
    x = dl.choose(a)
    if x > 1:
        return x
    return (x + dl.choose(b)) % 5


@dl.program
def noisy(a):
    """A draw after a choice."""
    x = dl.choose(a)
    return dl.choose(dl.weighted({x: 0.75, (x + 1) % 5: 0.25}))


def wavering(x):
    return dl.weighted({x: 0.5, (x + 2) % 5: 0.5})


class Talk:
    """A random program; `met` counts pairs of an operation and one that takes its result."""

    def __init__(self, seed, rows, *, met: Counter | None = None, without=()):
        self.choice = random.Random(seed)
        self.pool = [("input", self.given(row)) for row in rows]
        self.met = met
        self.steps = {
            name[5:]: getattr(self, name)
            for name in sorted(dir(self))
            if name.startswith("step_") and name[5:] not in without
        }

    def given(self, row):
        kind = self.choice.randrange(3)
        if kind == 0:
            return dl.Distribution(row.sigmoid(), range(len(row)), exclusive=False)
        if kind == 1:
            return dl.Distribution.from_rows([(list(range(len(row))), row)], logits=True)
        return dl.Distribution.from_logits(row, range(len(row)))

    def any(self):
        name, d = self.choice.choice(self.pool)
        self.taken.append(name)
        return d

    def step_apply(self):
        return dl.apply(self.any(), self.any(), add)

    def step_apply_if(self):
        return dl.apply_if(self.any(), self.any(), add, lambda x, y: x <= y)

    def step_filter(self):
        n = self.choice.randrange(5)
        return dl.filter(self.any(), lambda x: x != n)

    def step_union(self):
        return dl.union(self.any(), self.any())

    def step_sample(self):
        return dl.sample(self.any(), 1 + self.choice.randrange(3))

    def step_negate(self):
        return dl.negate(self.any())

    def step_weighted(self):
        return self.any().map(wavering)

    def step_program(self):
        return larger_first(self.any(), self.any())

    def step_program_with_chance(self):
        return noisy(self.any())

    def step_exists(self):
        return dl.exists(self.any(), lambda x: x > 1).map(int)

    def step_forall(self):
        return dl.forall(self.any(), lambda x: x > 1).map(int)

    def step_count(self):
        return dl.count(self.any())

    def step_maximum(self):
        return dl.maximum(self.any()).map(not_none)

    def step_condition(self):
        event = dl.exists(self.any(), lambda x: x > 0)
        return dl.condition(self.any(), event)

    def step_where(self):
        return dl.where(self.any().map(lambda x: x > 1), self.any(), self.any())

    def step_fixpoint(self):
        start, more = self.any(), self.any()
        return dl.fixpoint(
            lambda d: dl.union(d, dl.apply_if(d, more, max, lambda x, y: x != y)), start,
            max_iterations=8,
        )  # fmt: skip

    def step_look(self):
        d = self.any()
        return d if len(d) and d.argmax()[0] > 1 else dl.union(d, self.any())

    def run(self, steps):
        for _ in range(self.choice.randint(1, steps)):
            self.taken: list[str] = []
            name = self.choice.choice(list(self.steps))
            result = self.steps[name]()
            if self.met is not None:
                self.met.update((before, name) for before in self.taken)
            if len(result) > 6:
                result = dl.sample(result, 4)
            self.pool.append((name, result))
        return dl.union(self.pool[-1][1], self.pool[0][1])


def talk(seed, rows, *, steps=5, met=None, without=()):
    return Talk(seed, rows, met=met, without=without).run(steps)
