"""Proofs as bit patterns: what a set of facts rules out.

Every exclusive group of an input takes exactly one value: one of its columns, or "none of them".
A proof is stored as the values that it *rules out*, one bit per value:

* the fact "column c holds" rules out every other value of its group, its negation only c itself;
* the union of two proofs is the bitwise or of their patterns;
* it is a contradiction if some group has no value left (all ones: adding the lowest bit of the
  group carries into a guard bit above it);
* a proof contains another if it rules out at least as much.

Groups with many columns are written with several digits, each its own pattern. Where no fact
occurs negated, an independent fact needs a single bit: "it fails" is ruled out. The patterns
of several inputs share 64-bit words (the sign bit stays unused), so that a proof over fifteen
ten-way inputs takes three words.
"""

from __future__ import annotations

import copy
import functools
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from dolphin.execution.indices import to_device
from dolphin.provenance.facts import Facts, Groups, each_alone
from dolphin.symbolic.bounded import register

WORD_BITS = 63
WHOLE_WORD = (1 << WORD_BITS) - 1
_SMALL = 1 << 14  # numbers of flattened patterns that are kept
_MANY, _MOST_KEPT = 64, 1 << 14  # independent facts that share the code of more of them
DIGIT_VALUES = 60  # values per digit; with the guard bit one digit always fits in a word


# A plain dictionary, because the compiler can trace it.
_constants: dict[tuple[tuple[int, ...], torch.device], Tensor] = {}
_MOST_CONSTANTS = 4096
register("constants", _constants.__len__, _constants.clear)


def constant(values: tuple[int, ...], device: torch.device) -> Tensor:
    """A few integers as a tensor, created once per device."""
    if torch.compiler.is_compiling():
        # Neither kept (an exporter's tensors have no values) nor looked up: the program would be
        # compiled again whenever eager calls add constants.
        return torch.tensor(values, dtype=torch.int64, device=device)
    cached = _constants.get((values, device))
    if cached is None:
        if len(_constants) >= _MOST_CONSTANTS:
            _constants.clear()
        cached = to_device(np.array(values, dtype=np.int64), device)
        _constants[(values, device)] = cached
    return cached


@dataclass(frozen=True)
class Digit:
    """One pattern: `size` value bits from `shift` on in `word`, then the guard bit."""

    word: int
    shift: int
    size: int

    @property
    def mask(self) -> int:
        return ((1 << self.size) - 1) << self.shift


@dataclass(frozen=True)
class Group:
    """The columns that exclude each other, and the digits that distinguish them."""

    columns: tuple[int, ...]
    digits: tuple[Digit, ...]


@dataclass(frozen=True)
class CodeTensors:
    """A code on one device."""

    holds: Tensor  # (words, 1, columns, 1): the pattern of "this column holds"
    words: Tensor  # (columns,) the word of each column's first digit
    bits: Tensor  # (columns,) and its lowest bit
    masks: Tensor  # (columns,) and its mask
    _rows: dict[int, tuple[Tensor, Tensor, Tensor]] = field(default_factory=dict, init=False)

    def in_rows(self, rows: int) -> tuple[Tensor, Tensor, Tensor]:
        """`holds`, `words` and `masks` for flattened rows; those of the last number are kept.

        Formulas of 7 symbols flatten 7 inputs in a step, 35 instead of 110 microseconds each.
        """
        kept = self._rows.get(rows)
        if kept is not None:
            return kept
        with torch.inference_mode(False):  # ordinary tensors: they will be used again
            repeated = (
                self.holds.repeat(1, 1, rows, 1),
                self.words.repeat(rows),
                self.masks.repeat(rows),
            )
        if not torch.compiler.is_compiling() and repeated[0].numel() <= _SMALL:
            self._rows.clear()
            self._rows[rows] = repeated
        return repeated


class Code:
    """How the facts of one input are written, starting at word 0, bit 0."""

    def __init__(self, groups: tuple[Group, ...], words: int, used: int) -> None:
        self.groups = groups
        self.words = words
        self.used = used  # bits of the last word that are taken
        self.columns = sum(len(group.columns) for group in groups)
        self.all_binary = all(len(group.columns) == 1 for group in groups)
        self.single_digits = all(len(group.digits) == 1 for group in groups)
        self.word_masks = [0] * words
        for digit in (digit for group in groups for digit in group.digits):
            self.word_masks[digit.word] |= digit.mask
        # Whether all groups are neighbouring columns written in one digit.
        self.plain = self.single_digits and all(_neighbours(group.columns) for group in groups)
        self._devices: dict[torch.device, CodeTensors] = {}

    def on(self, device: torch.device) -> CodeTensors:
        """The tensors of this code, created once per device."""
        cached = self._devices.get(device)
        if cached is None:
            holds, first = self.arrays
            tensors = (to_device(each, device) for each in (holds.T[:, None, :, None], *first))
            cached = self._devices[device] = CodeTensors(*tensors)
        return cached

    @functools.cached_property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """The same as arrays, (columns, words) and (3, columns)."""
        holds = np.zeros((self.columns, self.words), dtype=np.int64)
        first = np.zeros((3, self.columns), dtype=np.int64)
        for group in self.groups:
            digit = group.digits[0]
            first[:, list(group.columns)] = [[digit.word], [1 << digit.shift], [digit.mask]]
            for value, column in enumerate(group.columns):
                for word, ruled_out in _others_ruled_out(value, group.digits):
                    holds[column, word] |= ruled_out
        return holds, first

    def beginning(self, count: int) -> Code:
        """The code of the first few of independent facts, whose digits don't depend on the rest."""
        code, last = copy.copy(self), self.groups[count - 1].digits[0]
        code.groups, code.columns, code.words = self.groups[:count], count, last.word + 1
        code.used = last.shift + last.size + (last.size > 1)
        code.word_masks = self.word_masks[: code.words]
        code.word_masks[-1] &= (1 << code.used) - 1
        holds, first = self.arrays
        code.arrays, code._devices = (holds[:count, : code.words], first[:, :count]), {}
        return code


def _neighbours(columns: tuple[int, ...]) -> bool:
    return bool(columns) and columns == tuple(range(columns[0], columns[-1] + 1))


def _others_ruled_out(value: int, digits: Sequence[Digit]) -> Iterator[tuple[int, int]]:
    """Word and bits of each digit that remain when a group takes `value`."""
    for digit in digits:
        value, at = divmod(value, digit.size)
        others = digit.mask & ~(1 << digit.shift + at)
        yield digit.word, digit.mask if digit.size == 1 else others


# A plain dictionary, because the compiler can trace it.
_codes: dict[tuple[tuple[tuple[int, ...], ...], bool], Code] = {}
_MOST_CODES = 512
register("codes of proofs", _codes.__len__, _codes.clear)


def code_of(groups: tuple[tuple[int, ...], ...], signed: bool) -> Code:
    """The code of an input with these groups of columns, with or without negated facts."""
    code = _codes.get((groups, signed))
    if code is None:
        if len(_codes) >= _MOST_CODES:
            _codes.clear()
        code = _codes[(groups, signed)] = _make_code(groups, signed)
        if not signed and len(groups) <= _MANY:
            # What a negation will need: a program would be compiled again once it is there.
            _codes[(groups, True)] = _make_code(groups, True)
    return code


def _make_code(groups: tuple[tuple[int, ...], ...], signed: bool) -> Code:
    # Queries to a knowledge base use another number of facts in each step. Of 50,000 facts, two
    # hops from 32 entities, k = 3: a step takes half the time.
    count = len(groups)
    if _MANY < count < _MOST_KEPT and not torch.compiler.is_compiling():
        longer = 1 << (count - 1).bit_length()
        if count < longer and groups == each_alone(count):
            return code_of(each_alone(longer), signed).beginning(count)
    word, shift = 0, 0
    coded: list[Group] = []
    for columns in groups:
        digits = []
        sizes = [1] if len(columns) == 1 and not signed else _digit_sizes(len(columns) + 1)
        for size in sizes:
            bits = size + (size > 1)  # a single bit can't be a contradiction: no guard
            if shift + bits > WORD_BITS:
                word, shift = word + 1, 0
            digits.append(Digit(word, shift, size))
            shift += bits
        coded.append(Group(columns, tuple(digits)))
    return Code(tuple(coded), word + 1, shift)


def _digit_sizes(values: int) -> list[int]:
    """Sizes of digits, least significant first, that together distinguish `values`."""
    sizes = []
    while values > DIGIT_VALUES:
        sizes.append(DIGIT_VALUES)
        values = -(-values // DIGIT_VALUES)
    return [*sizes, max(values, 2)]


@dataclass(frozen=True)
class Placement:
    """An input's code, moved to start at `word` and `shift` of a layout."""

    facts: Facts
    code: Code
    word: int
    shift: int

    def moved(self, digit: Digit) -> Digit:
        return Digit(digit.word + self.word, digit.shift + self.shift, digit.size)

    def digits(self) -> list[Digit]:
        return [self.moved(digit) for group in self.code.groups for digit in group.digits]


@dataclass(frozen=True)
class Move:
    """Bits `mask` of word `source` go to word `target`, `shift` places up (or down if negative)."""

    source: int
    mask: int
    target: int
    shift: int


def moves_between(source: Placement, target: Placement) -> list[Move]:
    """How an input's bits are moved from one place to another."""
    return [
        Move(
            source.word + word,
            bits << source.shift,
            target.word + word,
            target.shift - source.shift,
        )
        for word, bits in enumerate(source.code.word_masks)
    ]


@dataclass(frozen=True)
class Layout:
    """The place of each input's code in the words of a proof."""

    placements: tuple[Placement, ...] = ()
    words: int = 0
    used: int = WORD_BITS
    signed: bool = False  # whether facts may occur negated

    def find(self, facts: Facts) -> Placement | None:
        for placement in self.placements:
            if placement.facts is facts:
                return placement
        return None

    def having(self, facts: Facts) -> Layout:
        """This layout with room for `facts`, which it doesn't have yet."""
        code = code_of(facts.groups, self.signed)
        if code.words == 1 and self.words and self.used + code.used <= WORD_BITS:
            placement = Placement(facts, code, self.words - 1, self.used)
            words, used = self.words, self.used + code.used
        else:
            placement = Placement(facts, code, self.words, 0)
            words, used = self.words + code.words, code.used
        return Layout((*self.placements, placement), words, used, self.signed)

    def with_signs(self) -> tuple[Layout, list[Move]]:
        """A signed layout of the same inputs, and how words are rewritten for it."""
        layout = Layout(signed=True)
        moves = []
        for old in self.placements:
            layout = layout.having(old.facts)
            new = layout.placements[-1]
            for source, target in zip(old.digits(), new.digits(), strict=True):
                # "It fails" is the only value of the single bit, and the second of two.
                up = target.shift - source.shift + (source.size == 1)
                moves.append(Move(source.word, source.mask, target.word, up))
        return layout, moves

    def extended(self, other: Layout) -> Layout:
        """This layout with room for all inputs of `other`."""
        layout = self
        if other is self:
            return self
        for placement in other.placements:
            if layout.find(placement.facts) is None:
                layout = layout.having(placement.facts)
        return layout

    def moves_to(self, target: Layout) -> list[Move]:
        """How words of this layout are rewritten for `target`, which has all its inputs."""
        if target.begins_with(self):
            return [Move(word, WHOLE_WORD, word, 0) for word in range(self.words)]
        masks: dict[tuple[int, int, int], int] = {}
        for placement in self.placements:
            place = target.find(placement.facts)
            assert place is not None
            for move in moves_between(placement, place):
                key = (move.source, move.target, move.shift)
                masks[key] = masks.get(key, 0) | move.mask
        sources = [source for source, _, _ in masks]
        return [  # of a word that stays together, nothing needs to be masked
            Move(source, WHOLE_WORD if sources.count(source) == 1 else mask, to, shift)
            for (source, to, shift), mask in masks.items()
        ]

    def begins_with(self, other: Layout) -> bool:
        """Whether the inputs of `other` have the same places here."""
        own = self.placements[: len(other.placements)]
        return len(own) == len(other.placements) and all(map(operator.is_, own, other.placements))

    def positions(self) -> list[tuple[Groups, int, int]]:
        """The places of the codes of inputs, whichever inputs they are."""
        return [(p.facts.groups, p.word, p.shift) for p in self.placements]

    def overlaps(self, other: Layout) -> bool:
        return any(self.find(placement.facts) is not None for placement in other.placements)

    def carries(self) -> tuple[list[int], list[int]]:
        """For each word, the lowest bits of all digits and their guard bits."""
        lows, guards = [0] * self.words, [0] * self.words
        for placement in self.placements:
            for digit in placement.digits():
                if digit.size > 1:
                    lows[digit.word] |= 1 << digit.shift
                    guards[digit.word] |= 1 << (digit.shift + digit.size)
        return lows, guards


def merge(layouts: Sequence[Layout]) -> Layout:
    """One layout with the inputs of all; the first one keeps its place."""
    merged = layouts[0]
    for layout in layouts[1:]:
        merged = merged.extended(layout)
    return merged


def moved(patterns: Tensor, moves: Sequence[Move], words: int) -> Tensor:
    """Patterns (W, ...) rewritten for another layout of `words` words."""
    if all(move.source == move.target and move.shift == 0 for move in moves):
        if patterns.shape[0] == words:
            return patterns
        missing = patterns.new_zeros(words - patterns.shape[0], *patterns.shape[1:])
        return torch.cat([patterns, missing])
    first = moves[0].target - moves[0].source
    if moves == [Move(word, WHOLE_WORD, word + first, 0) for word in range(patterns.shape[0])]:
        around = (first, words - patterns.shape[0] - first)
        return F.pad(patterns, (*(0, 0) * (patterns.dim() - 1), *around))
    out = patterns.new_zeros(words, *patterns.shape[1:])
    add_moved(out, patterns, moves)
    return out


def add_moved(out: Tensor, patterns: Tensor, moves: Sequence[Move]) -> None:
    """Add patterns (W, ...) to those in `out`, which has another layout, in place."""
    if len(moves) > 1 and all(move.source == move.target and move.shift == 0 for move in moves):
        out[: patterns.shape[0]] |= patterns
    else:
        add_part(out, patterns, moves)


def add_part(out: Tensor, patterns: Tensor, moves: Sequence[Move]) -> None:
    """The same for some of the inputs that patterns refer to."""
    for move in moves:
        out[move.target] |= _bits(patterns, move)


def joined(patterns: Tensor, more: Tensor, moves: Sequence[Move]) -> Tensor:
    """Unions of patterns with those of another layout, of one or of as many proofs.

    Overwrites the first ones where it can.
    """
    if patterns.shape[0] == 1:
        for move in moves:
            patterns = patterns | _bits(more, move)
        return patterns
    # torch.broadcast_shapes would import a computer algebra system first: half a second.
    sizes = zip(patterns.shape[1:], more.shape[1:], strict=True)
    shape = [other if own == 1 else own for own, other in sizes]
    if shape != list(patterns.shape[1:]):
        patterns = patterns.expand(-1, *shape).clone()
    add_moved(patterns, more, moves)
    return patterns


def _bits(patterns: Tensor, move: Move) -> Tensor:
    """The part of patterns that is moved, in its new place."""
    bits = patterns[move.source]
    if move.mask != WHOLE_WORD:
        bits = bits & move.mask
    return shifted(bits, move.shift)


def shifted(bits: Tensor, by: int) -> Tensor:
    """Bits, some places up, or down if negative."""
    if by == 0:
        return bits
    return bits << by if by > 0 else bits >> -by
