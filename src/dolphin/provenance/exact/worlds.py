"""Trying formulas in random worlds: a cheap way to see that two of them differ."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dolphin.provenance.exact.formulas import AND, FACT, FALSE, NOT, TRUE, FormulaTable
from dolphin.provenance.exact.ordering import Groups

WORLDS = 4096


def differ_somewhere(table: FormulaTable, pairs: Sequence[tuple[int, int]], groups: Groups) -> bool:
    """Whether the formulas of a pair differ in some world, among a few thousand.

    All worlds are tried at once, as the bits of long integers.
    """
    random = np.random.default_rng(0)
    every = (1 << WORLDS) - 1
    facts: dict[tuple[int, ...], int] = {}
    value = {FALSE: 0, TRUE: every}
    # Some worlds have few facts, some have many: long derivations need many, negations few.
    density = random.beta(0.7, 0.7, WORLDS)
    group_of = {
        (position, column): group
        for position, columns_of in enumerate(groups)
        for group in columns_of
        for column in group
    }
    for formula in table.reachable({formula for pair in pairs for formula in pair}):
        kind, parts = table.kinds[formula], table.parts[formula]
        if kind == FACT:
            if parts not in facts:
                group = group_of[parts[0], parts[1]]
                holds = random.random(WORLDS) < density
                chosen = random.integers(len(group), size=WORLDS)
                for place, column in enumerate(group):
                    bits = np.packbits(holds & (chosen == place))
                    facts[parts[0], column] = int.from_bytes(bits.tobytes(), "big")
            value[formula] = facts[parts]
        elif kind == NOT:
            value[formula] = every ^ value[parts[0]]
        elif kind == AND:
            where = every
            for part in parts:
                where &= value[part]
            value[formula] = where
        elif formula > TRUE:
            where = 0
            for part in parts:
                where |= value[part]
            value[formula] = where
    return any(value[a] != value[b] for a, b in pairs)
