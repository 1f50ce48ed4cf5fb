"""The best product of every symbol of a linear recursion under max-product, all rounds in one loop.

A gradient goes from a best product to its two factors and nowhere else, so of the thousands of
symbols of a recursion hardly one per row has any: the backward pass computes only their products
again. PathFinder on 16×16 blocks with edges that jump, 22 rounds over 64 rows: the whole program
takes 32 ms of CPU time instead of 91 round by round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dolphin.execution.indices import Contraction, to_device
from dolphin.execution.recursion.recurrences import Copies, Limit, Recurrence
from dolphin.provenance.damp.chains import spread_rows
from dolphin.provenance.derivations import one_winner
from dolphin.provenance.differentiation import Formula, followed, reading_is_free
from dolphin.provenance.numerics import at_once, chunk_elements

_IN_CACHE = 500_000  # products that are computed at once
# Rounds that change fewer than one in so many numbers look at what follows from these only, one by
# one: PathFinder on 16×16 blocks, 64 rows, takes a fifth less CPU time forward.
_FEW = 32
_OF_NUMPY = (torch.float32, torch.float64)


def best_products(
    form: Recurrence,
    limit: Limit,
    start: Tensor,
    constant: Tensor,
    other: Tensor,
    asked: Asked | None = None,
) -> Tensor | None:
    """The logarithms of all symbols' best products when the rounds end.

    Where something is `asked`, only of products that can decide the answer; others may be smaller
    than they are. None if the rounds don't end in time.
    """
    given = spread_rows([start, constant, other])
    recorded = torch.is_grad_enabled() and any(logs.requires_grad for logs in given)
    with torch.no_grad():
        every = _run(form, limit, recorded, *given, asked=asked)
    if every is None:
        return None
    return _Rounds.of(form, len(every) - 1, [every], None if asked is None else limit, *given)


def has_best_products(form: Recurrence, start: Tensor, constant: Tensor, other: Tensor) -> bool:
    """Whether `best_products` applies, and pays.

    Not if a symbol has several constants, which would get another share of a gradient at ties.
    """
    given = [start, constant, other]
    if followed() or not reading_is_free(start) or len({each.dtype for each in given}) > 1:
        return False
    if start.dtype not in _OF_NUMPY or form.constants.max(initial=0) > 1:
        return False
    rows = max(each.shape[1] for each in given)
    return form.copies.into.places.size * rows <= chunk_elements()


def can_be_asked(plan: Contraction, given: Sequence[Tensor], partner: Tensor) -> bool:
    """Whether there is one answer, and no factor above 1."""
    other, rows = given[-1], max(each.shape[1] for each in given)
    if plan.groups != 1 or partner.shape[1] not in (1, rows) or partner.dtype != other.dtype:
        return False
    if followed() or not reading_is_free(partner):
        return False
    return not bool((other > 0.0).any()) and not bool((partner > 0.0).any())


class Asked:
    """The best product of a symbol and a partner, over some pairs, for each row.

    Factors are at most 1, so nothing that follows from a product below the best answer so far
    can be a better one: such products are not followed. PathFinder on 16×16 blocks follows
    one in ten numbers or less after the third round.
    """

    def __init__(self, form: Recurrence, plan: Contraction, partner: Tensor) -> None:
        symbols, places = plan.indices
        slots = form.copies.slots_of(symbols)
        values = partner.detach().numpy()
        self.partners = np.full((form.copies.slots, values.shape[1]), -math.inf, values.dtype)
        if len(np.unique(slots)) == len(slots):
            self.partners[slots] = values.take(places, axis=0)
        else:
            np.maximum.at(self.partners, slots, values.take(places, axis=0))
        self.best = np.full(values.shape[1], -math.inf, values.dtype)

    def see(self, state: np.ndarray) -> np.ndarray:
        """The best answer that is known, for each row, with the numbers of a state."""
        np.maximum(self.best, (state + self.partners).max(0), out=self.best)
        return self.best

    def see_some(self, at: np.ndarray, row: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """The same with some numbers, at these places."""
        np.maximum.at(self.best, row, numbers + self.partners.reshape(-1).take(at))
        return self.best


def _run(
    form: Recurrence,
    limit: Limit,
    recorded: bool,
    start: Tensor,
    constant: Tensor,
    other: Tensor,
    asked: Asked | None = None,
) -> list[Tensor] | None:
    """All states by slot, or the last one; None if they don't settle in time.

    A symbol that isn't there yet has only products with others that aren't there either.
    """
    rows, copies, depth = start.shape[1], form.copies, form.copies.into.depth
    state = copies.arranged(_filled_up(start, form.n + 1))
    fixed = _constants(form, constant)
    step = at_once(copies.n, depth * rows, _IN_CACHE)
    room = start.new_empty(depth * min(step, copies.n), rows)
    cuts = (slice(at, min(at + step, copies.n)) for at in range(0, copies.n, step))
    parts = [_Part(copies, where, other, room) for where in cuts]
    every, few, rising = [state], None, False
    for _ in range(limit.rounds):
        if few is not None:
            new, few = _improved(copies, state, few, other, asked)
            done = not len(few)
            few = few if len(few) * _FEW < state.numel() else None
        else:
            new = torch.empty_like(state)
            new.view(copies.count, -1, rows)[:, copies.n] = -math.inf
            for part in parts:
                part.round(state, new)
            torch.maximum(new, fixed, out=new)
            if form.keeps:
                torch.maximum(new, state, out=new)
            unlike = new.numpy() != state.numpy()
            # Once a round only improves products, so does every later one.
            if asked is not None and (rising := rising or bool((new >= state).all())):
                unlike &= new.numpy() >= asked.see(new.numpy())
            count = np.count_nonzero(unlike)
            done = not count
            if count * _FEW < unlike.size and (rising or bool((new >= state).all())):
                few = np.flatnonzero(unlike)
        every = [*every, new] if recorded else [new]
        if done:
            return every
        state = new
    return every if limit.enough else None


def _improved(
    copies: Copies, state: Tensor, changed: np.ndarray, other: Tensor, asked: Asked | None
) -> tuple[Tensor, np.ndarray]:
    """The state after a round that can only improve it, and what it changes.

    That follows from the numbers that changed before.
    """
    rows, factors, known = state.shape[1], _flat(other), _flat(state)
    slot, row = np.divmod(changed, rows)
    place = slot % (copies.n + 1)
    leads, others = copies.out_of.by_symbol
    products = factors.take(others.take(place, axis=0) * rows + row[:, None])
    products += known.take(changed)[:, None]
    # Numbers with products that are large enough, and which ones of theirs these are.
    some = np.flatnonzero(
        products >= (-math.inf if asked is None else asked.best.take(row)[:, None])
    )
    which, lane = np.divmod(some, copies.out_of.depth)
    lead = leads.reshape(-1).take(place.take(which) * copies.out_of.depth + lane)
    targets = (lead + (slot - place).take(which)) * rows + row.take(which)
    products = products.reshape(-1).take(some)
    better = np.flatnonzero((products > known.take(targets)) & (lead < copies.n))
    targets, products = targets.take(better), products.take(better)
    new = state.clone()
    numbers = _flat(new)
    np.maximum.at(numbers, targets, products)
    targets = np.unique(targets)
    if asked is not None:
        row, reached = targets % rows, numbers.take(targets)
        targets = targets[reached >= asked.see_some(targets, row, reached).take(row)]
    return new, targets


class _Part:
    """Some symbols of every copy: their products stay in the CPU's cache while compared."""

    def __init__(self, copies: Copies, where: slice, other: Tensor, room: Tensor) -> None:
        self.where, self.count, rows = where, copies.count, other.shape[1]
        self.places, which = copies.into.part(where, other.device)
        shape = (copies.into.depth, -1, rows)
        self.factors = other.index_select(0, which).view(shape)
        self.gathered = room[: len(which)]
        self.products = self.gathered.view(shape)

    def round(self, state: Tensor, new: Tensor) -> None:
        """The best products of these symbols, written into `new`."""
        before, after = (each.view(self.count, -1, each.shape[1]) for each in (state, new))
        for old, best in zip(before.unbind(), after[:, self.where].unbind(), strict=True):
            torch.index_select(old, 0, self.places, out=self.gathered)
            torch.amax(self.products.add_(self.factors), 0, out=best)


def _filled_up(values: Tensor, count: int, nothing: float = -math.inf) -> Tensor:
    """Values of this many symbols, with `nothing` for those that are missing."""
    return torch.cat([values, values.new_full((count - len(values), values.shape[1]), nothing)])


def _constants(form: Recurrence, constant: Tensor) -> Tensor:
    """By slot; below any number where a symbol has none: no fact of probability 0 equals it."""
    missing = to_device(form.constants == 0, constant.device)[:, None]
    numbers = constant.masked_fill(missing, -math.inf)
    return form.copies.arranged(_filled_up(numbers, form.n + 1))


class _Rounds(Formula):
    """The last state, which was computed before, as were the others."""

    @staticmethod
    def value(
        ctx: Any,
        form: Recurrence,
        rounds: int,
        computed: list[Any],
        limit: Limit | None,
        *operands: Tensor,
    ) -> tuple[Tensor, Sequence[Tensor]]:
        every = computed.pop()  # only what the backward pass needs stays alive
        ctx.form, ctx.limit = form, limit
        return form.copies.by_symbol(every[-1]), (*operands, *every)

    @staticmethod
    def gradients(ctx: Any, saved: Sequence[Tensor], grad: Tensor) -> Sequence[Tensor | None]:
        start, constant, other, *every = saved
        back = _Back(ctx.form, constant, other, grad).through(every)
        if back.tied and ctx.limit is not None:
            # How often a tie is met again depends on the number of rounds, which depends on all.
            all_rounds = _run(ctx.form, ctx.limit, True, start, constant, other)
            assert all_rounds is not None
            back = _Back(ctx.form, constant, other, grad).through(all_rounds)
        return back.of_state()[: len(start)], back.of_constant(), back.of_other()

    @staticmethod
    def formula(
        form: Recurrence, rounds: int, computed: Any, limit: Any, *operands: Tensor
    ) -> Tensor:
        start, constant, other = operands
        n, rows = form.n, start.shape[1]
        constant = constant.masked_fill(
            to_device(form.constants == 0, start.device)[:, None], -math.inf
        )
        places, which = form.into.part(slice(n), start.device)
        state = start
        for _ in range(rounds):
            padded = _filled_up(state, n + 1)
            products = padded.index_select(0, places) + other.index_select(0, which)
            choices = [constant, products.view(form.into.depth, n, rows).amax(0)]
            choices += [padded[:n]] if form.keeps else []
            state = torch.stack(choices).amax(0)
        return state


class _Back:
    """Gradients of the symbols that have any, passed on to what was best, round by round.

    Numbers are addressed by slot · rows + row. There are few: numpy takes a third of torch's time.
    """

    def __init__(self, form: Recurrence, constant: Tensor, other: Tensor, grad: Tensor) -> None:
        self.form, self.rows = form, grad.shape[1]
        into = form.copies.into
        self.places, self.others = into.places * self.rows, into.others * self.rows
        self.width = (form.copies.n + 1) * self.rows  # numbers of a copy
        self.constant, self.other = _flat(_constants(form, constant)), _flat(other)
        every = _flat(form.copies.arranged(_filled_up(grad, form.n + 1, 0.0)))
        self.at = every.nonzero()[0]
        self.grad = every[self.at]
        self.tied = False
        self._to_constants: list[tuple[np.ndarray, np.ndarray]] = []
        self._to_others: list[tuple[np.ndarray, np.ndarray]] = []

    def through(self, every: Sequence[Tensor]) -> _Back:
        """The same after all rounds, from the last to the first."""
        for turn in range(len(every) - 1, 0, -1):
            if not len(self.at):
                break
            self._round(every[turn - 1], every[turn])
        return self

    def _round(self, before: Tensor, after: Tensor) -> None:
        """From gradients of the state after a round to those of the state before it."""
        at, old = self.at, _flat(before)
        place = at % self.width // self.rows
        sources = self.places[:, place] + (at - place * self.rows)
        others = self.others[:, place] + at % self.rows
        products = old[sources] + self.other[others]
        best = products.max(0)
        # Either the constant, or the symbol itself, or a product; then which one of the products.
        choices = [self.constant[at], best, *([old[at]] if self.form.keeps else [])]
        shares = _shares(np.stack(choices), _flat(after)[at], self.grad)
        passed = _shares(products, best, shares[1])
        some = passed.nonzero()
        kept = [np.count_nonzero(shares[0]), len(some[0])]
        kept += [np.count_nonzero(shares[2])] if self.form.keeps else []
        self.tied = self.tied or sum(kept) > len(at)
        self._to_constants.append((at, shares[0]))
        self._to_others.append((others[some], passed[some]))
        going, grads = [sources[some]], [passed[some]]
        if self.form.keeps:
            own = shares[2].nonzero()
            going.append(at[own])
            grads.append(shares[2][own])
        self._take(np.concatenate(going), np.concatenate(grads))

    def _take(self, at: np.ndarray, grad: np.ndarray) -> None:
        """Go on with these."""
        if len(at) > len(self.at):  # by ties; without merging they might double in every round
            at, which = np.unique(at, return_inverse=True)
            grad = np.bincount(which, grad, len(at)).astype(grad.dtype)
        self.at, self.grad = at, grad

    def of_state(self) -> Tensor:
        """The gradients of all symbols."""
        return self._by_symbol([(self.at, self.grad)])

    def of_constant(self) -> Tensor:
        """The gradients of all constants."""
        return self._by_symbol(self._to_constants)

    def of_other(self) -> Tensor:
        """The gradients of what symbols are combined with."""
        return self._summed(self._to_others, len(self.other))

    def _by_symbol(self, gradients: list[tuple[np.ndarray, np.ndarray]]) -> Tensor:
        return self.form.copies.by_symbol(self._summed(gradients, len(self.constant)))

    def _summed(self, gradients: list[tuple[np.ndarray, np.ndarray]], size: int) -> Tensor:
        total = np.zeros(size, dtype=self.other.dtype)
        for at, grad in gradients:
            np.add.at(total, at, grad)
        return torch.from_numpy(total).view(-1, self.rows)


def _flat(values: Tensor) -> np.ndarray:
    return values.detach().numpy().reshape(-1)


def _shares(candidates: np.ndarray, best: np.ndarray, grad: np.ndarray) -> np.ndarray:
    """The gradient of the best of some candidates, along the first dimension, for each of them."""
    equal = candidates == best
    if one_winner():
        equal &= equal.cumsum(0) == 1
    return equal * (grad / equal.sum(0, dtype=grad.dtype))
