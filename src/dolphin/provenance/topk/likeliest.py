"""The likeliest choice of facts under which a target holds, among the proofs that were kept.

A proof allows some values of each exclusive group. The choice takes the likeliest of them, also
where a proof doesn't mention a group; the proof with the likeliest choice wins.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dolphin.provenance.contract import not_an_input
from dolphin.provenance.topk import proofs
from dolphin.provenance.topk.encoding import Group, Layout, Placement
from dolphin.provenance.topk.proofs import NO_PROOF, Proofs

Choice = dict[tuple[int, int], int]  # of each group of each placement: the place of its value


def allowed_values(words: Sequence[int], placement: Placement, group: Group) -> set[int]:
    """The values of a group that a proof allows: places of columns, "none of them" as the last."""
    allowed = set(range(len(group.columns) + 1))
    scale = 1
    for digit in map(placement.moved, group.digits):
        ruled_out = (words[digit.word] >> digit.shift) & ((1 << digit.size) - 1)
        if digit.size == 1:  # the single bit stands for "it fails", the second value
            ruled_out <<= 1
        allowed = {v for v in allowed if not ruled_out >> ((v // scale) % max(2, digit.size)) & 1}
        scale *= digit.size
    return allowed


def value_probs(probs: Sequence[float], group: Group) -> list[float]:
    """The probability of each value of a group, from those of an input's columns."""
    values = [probs[column] for column in group.columns]
    return [*values, max(0.0, 1.0 - sum(values))]


def likeliest_choices(
    inputs: Sequence[Proofs], target: Proofs
) -> tuple[np.ndarray, list[np.ndarray]]:
    """See `Provenance.likeliest`."""
    layout, patterns, scores = proofs.aligned([*inputs, target])
    wanted, exists = patterns[-1][..., 0].cpu().numpy(), (scores[-1] > NO_PROOF)[..., 0]
    rows_of = [_rows(tags) for tags in (*inputs, target)]
    batch = wanted.shape[-1]
    probs = [p.facts.probs.double().cpu().numpy() for p in layout.placements]
    possible = np.zeros(batch, dtype=bool)
    choices: list[Choice] = [{} for _ in range(batch)]
    for place, row in enumerate(rows_of[-1]):
        own = [each[:, 0 if each.shape[1] == 1 else row].tolist() for each in probs]
        slots = exists[:, place].nonzero()[:, 0].tolist()
        options = [_chosen(wanted[:, slot, place].tolist(), layout, own) for slot in slots]
        options = [(weight, choice) for weight, choice in options if weight > -math.inf]
        if options:
            possible[place], choices[place] = True, max(options, key=lambda each: each[0])[1]
    held = []
    for number, (tags, pattern, rows) in enumerate(
        zip(inputs, patterns[:-1], rows_of[:-1], strict=True)
    ):
        if (tags.scores[1:] > NO_PROOF).any():
            raise not_an_input(number)
        words = pattern[:, 0, :, 0].cpu().numpy()
        present = (tags.scores[0, :, 0] > NO_PROOF).tolist()
        held.append(
            np.array(
                [
                    there
                    and bool(possible[row])
                    and _holds(number, words[:, n].tolist(), layout, choices[row])
                    for n, (there, row) in enumerate(zip(present, rows, strict=True))
                ],
                dtype=bool,
            )
        )
    return possible, held


def _rows(tags: Proofs) -> list[int]:
    return [0] * tags.n if tags.row_map is None else tags.row_map.numbers.tolist()


def _chosen(
    words: Sequence[int], layout: Layout, probs: Sequence[Sequence[float]]
) -> tuple[float, Choice]:
    """The likeliest choice that a proof allows, and the logarithm of its probability."""
    total, choice = 0.0, {}
    for number, (placement, own) in enumerate(zip(layout.placements, probs, strict=True)):
        for which, group in enumerate(placement.code.groups):
            values = value_probs(own, group)
            allowed = sorted(allowed_values(words, placement, group))
            best = max(allowed, key=values.__getitem__, default=None)
            if best is None or values[best] <= 0.0:
                return -math.inf, {}
            total += math.log(values[best])
            choice[number, which] = best
    return total, choice


def _holds(number: int, words: Sequence[int], layout: Layout, choice: Choice) -> bool:
    """Whether a choice has the fact with this pattern."""
    for at, placement in enumerate(layout.placements):
        for which, group in enumerate(placement.code.groups):
            allowed = allowed_values(words, placement, group)
            if len(allowed) == len(group.columns) + 1:
                continue
            if len(allowed) != 1 or max(allowed) == len(group.columns):
                raise not_an_input(number)
            return choice[at, which] in allowed
    return True
