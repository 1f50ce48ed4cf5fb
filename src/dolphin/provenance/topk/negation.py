"""The ways in which a proof fails: what negation is made of.

A proof fails if any one of its constraints is broken. It has few of them, out of the facts of all
inputs: where reading values costs nothing, only these are looked at. Negating an input of 300
independent facts in 16 rows takes 0.2 s and 0.1 GB, instead of 3.7 s and 2.5 GB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from dolphin.errors import SizeError
from dolphin.provenance.differentiation import reading_is_free
from dolphin.provenance.topk import together
from dolphin.provenance.topk.encoding import Digit, constant
from dolphin.provenance.topk.proofs import NO_PROOF, Proofs
from dolphin.provenance.topk.weighing import SEARCHING, opposite_facts, weights_by_group
from dolphin.settings import current_settings

Weigh = Callable[[Tensor, Tensor | None], Tensor]


class _Way(NamedTuple):
    """Some symbols whose proof a digit can break, and how likely that is, (symbols, rows)."""

    digit: int
    symbols: Tensor
    scores: Tensor


_WORDS_EACH = 10  # words that proofs that fail may take at once, per combination that is allowed
_STEPS = 100  # times as many words that they may take one after another


def check_size(tags: Proofs, k: int) -> None:
    """Refuse a negation that would fill the memory or take hours, before it starts.

    Each proof fails in at least two ways, or it is missing, and each way is a proof over all facts.
    """
    if torch.compiler.is_compiling():  # compiled code can't read the limits in force
        return
    ways = min(2, k)
    words = tags.layout.words * (1 if tags.signed else 2)
    most = _WORDS_EACH * current_settings().max_combinations
    at_once = tags.n * tags.rows * ways * words
    in_all = at_once * tags.k * (k if tags.k > 1 else 1)
    if at_once > most or in_all > _STEPS * most:
        raise SizeError(
            f"negate: {tags.n:,} symbols with up to {tags.k:,} proofs in {tags.rows:,} rows, over "
            f"inputs whose facts take {words:,} words for each proof, make {in_all:,} words of "
            f"proofs that fail, {at_once:,} of them at once and more than {most:,}. Keep fewer "
            f"symbols (dolphin.filter, dolphin.sample), use smaller batches, a k below {k} or a "
            "provenance that keeps numbers ('damp', 'noisy-or'), or raise the limit with "
            "dolphin.settings(max_combinations=...)."
        )


def broken(tags: Proofs, slot: int, k: int) -> Proofs:
    """The k likeliest ways in which one proof fails; a missing proof always does."""
    pattern, exists = tags.patterns[:, slot], tags.exists[slot]
    always = torch.zeros_like(tags.scores[slot]).masked_fill_(exists, NO_PROOF)
    if reading_is_free(pattern):
        order, which = _in_columns(list(_ways(tags, pattern, exists)), always)
        scores, at = order.topk(min(k, len(order)), dim=0)
        chosen = which[at, torch.arange(tags.n, device=at.device)[:, None]]
    else:
        order = _all_ways(tags, pattern, exists, always)
        scores, at = order.topk(min(k, len(order)), dim=0)
        chosen = at - 1
    # Number -1, the last one, stands for no digit: nothing is ruled out.
    digits = [digit for placement in tags.layout.placements for digit in placement.digits()]
    words = at.new_tensor([*(digit.word for digit in digits), 0])[chosen]
    masks = at.new_tensor([*(digit.mask for digit in digits), 0])[chosen]
    patterns = pattern.new_zeros(len(pattern), *at.shape)
    if digits:
        ruled_out = masks & ~pattern.expand(-1, -1, at.shape[-1]).gather(0, words)
        patterns.scatter_(0, words[None], ruled_out[None])
    return Proofs(patterns, scores, tags.layout, disjoint=False, row_map=tags.row_map)


def _ways(tags: Proofs, pattern: Tensor, exists: Tensor) -> Iterator[_Way]:
    """For each digit the symbols that it can be broken for."""
    digits = [
        (digit, weigh)
        for placement, group, weigh in weights_by_group(tags.layout, SEARCHING)
        for digit in map(placement.moved, group.digits)
    ]
    for number, (digit, weigh) in enumerate(digits):
        kept = pattern[digit.word] & digit.mask
        breaks = (kept != 0) & exists
        symbols = breaks.any(1).nonzero().squeeze(1)
        if not len(symbols):
            continue
        row = None if tags.row is None else tags.row.index_select(0, symbols)
        scores = _broken_digit(pattern, kept.index_select(0, symbols), digit, weigh, row)
        scores = torch.where(breaks.index_select(0, symbols), scores, NO_PROOF)
        yield _Way(number, symbols, scores)


def _broken_digit(
    pattern: Tensor, kept: Tensor, digit: Digit, weigh: Weigh, row: Tensor | None
) -> Tensor:
    """How likely one of the values is that proofs rule out at a digit, (symbols, rows)."""
    way = pattern.new_zeros(len(pattern), 1, *kept.shape)
    way[digit.word, 0] = digit.mask & ~kept
    return weigh(way, row)[0]


def _all_ways(tags: Proofs, pattern: Tensor, exists: Tensor, always: Tensor) -> Tensor:
    """Scores of all digits' ways, (1 + digits, n, rows), without reading any value.

    The first one has the scores `always`, and breaks nothing.
    """
    layout, row, penalty = tags.layout, tags.row, SEARCHING.penalty
    weighed: list[tuple[list[Digit], Tensor, Tensor]] = []  # digits, what is kept, scores
    for members in together.alike(layout):
        digits = [member.digit for member in members]
        kept = together.at_digits(pattern, digits)
        logs = SEARCHING.of(together.logs_of(members))
        others = (kept ^ ((1 << digits[0].size) - 1))[:, None]
        normalised = together.normalised_of(members)
        scores = together.allowed(logs, normalised, others, row, penalty)[:, 0]
        weighed.append((digits, kept, scores))
    for placement in layout.placements:
        if placement.code.all_binary:
            digits = placement.digits()
            kept = together.at_digits(pattern, digits)
            weighed.append((digits, kept, opposite_facts(placement, kept, row, SEARCHING)))
    for placement, group, weigh in weights_by_group(layout, SEARCHING, several_digits=True):
        for digit in map(placement.moved, group.digits):
            kept = pattern[digit.word] & digit.mask
            scores = _broken_digit(pattern, kept, digit, weigh, row)
            weighed.append(([digit], kept[None], scores[None]))
    rows = max(part.shape[-1] for part in (always, *(scores for _, _, scores in weighed)))
    parts = [always.expand(-1, rows)[None]]
    for _, kept, scores in weighed:
        parts.append(torch.where((kept != 0) & exists, scores, NO_PROOF).expand(-1, -1, rows))
    # In the order of the layout's digits, which other ways of searching have, too.
    where = [(digit.word, digit.shift) for digits, _, _ in weighed for digit in digits]
    order = sorted(range(len(where)), key=where.__getitem__)
    places = constant((0, *(1 + place for place in order)), pattern.device)
    return torch.cat(parts).index_select(0, places)


def _in_columns(ways: list[_Way], always: Tensor) -> tuple[Tensor, Tensor]:
    """Scores of each symbol's ways, (ways, n, rows), and which digit each of them is, (ways, n).

    The first one has the scores `always` and breaks nothing, digit -1.
    """
    count = torch.zeros(len(always), dtype=torch.int64, device=always.device)
    places = []
    for way in ways:
        count[way.symbols] += 1
        places.append(count[way.symbols])
    depth = int(count.max()) if ways else 0
    rows = max(scores.shape[1] for scores in (always, *(way.scores for way in ways)))
    order = always.new_full((depth + 1, len(always), rows), NO_PROOF)
    which = count.new_full((depth + 1, len(always)), -1)
    order[0] = always
    for way, place in zip(ways, places, strict=True):
        order[place, way.symbols] = way.scores.expand(-1, rows)
        which[place, way.symbols] = way.digit
    return order, which
