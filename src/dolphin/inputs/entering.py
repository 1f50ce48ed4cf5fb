"""From a user's numbers to tags; inside `dolphin.batched` together with those of other samples."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from typing import Any

import torch
from torch import Tensor

from dolphin.errors import InputError
from dolphin.execution.batching.in_step import by_place, settle_inputs
from dolphin.execution.batching.nodes import Node, Nodes, Recipe, Sample
from dolphin.execution.batching.pending import recorded_input
from dolphin.execution.tagged import Tagged
from dolphin.inputs.checks import Exclusive, precision, read_symbols
from dolphin.inputs.checks import Kind as Numbers
from dolphin.inputs.shared import Given, are_single_rows, is_one_row, read, read_columns, read_each
from dolphin.provenance.contract import Provenance, TagInfo
from dolphin.provenance.facts import Facts, all_alone
from dolphin.provenance.registry import AnyProvenance, resolve
from dolphin.symbolic.surroundings import surroundings
from dolphin.symbolic.symbols import Symbols


def input_of(
    operation: str,
    numbers: Any,
    symbols: Any,
    exclusive: Exclusive,
    kind: Numbers,
    provenance: AnyProvenance | None,
) -> Tagged:
    """A user's input; inside `batched`, recorded to be read together with other samples'."""
    algebra = resolve(operation, provenance)
    sample = surroundings().sample
    if sample is not None and is_one_row(numbers):
        recipes = _recipes_for(sample, operation, numbers, symbols, exclusive, kind, algebra)
        return recorded_input(sample, recipes[0], _held(numbers))
    return tags_of(read(operation, numbers, symbols, exclusive, kind), algebra)


def inputs_of(
    operation: str,
    logits: Any,
    symbols: Any,
    exclusive: Exclusive,
    provenance: AnyProvenance | None,
) -> list[Tagged]:
    """The inputs of `Distribution.each_from_logits`; inside `batched`, recorded one by one."""
    algebra = resolve(operation, provenance)
    sample = surroundings().sample
    if sample is None or not are_single_rows(logits):
        return _tags_of_each(*read_each(operation, logits, symbols, exclusive), algebra)
    recipes = _recipes_for(sample, operation, logits, symbols, exclusive, "logits", algebra)
    held = _held(logits)
    return [recorded_input(sample, recipe, held) for recipe in recipes]


def _recipes_for(
    sample: Sample,
    operation: str,
    numbers: Tensor,
    symbols: Any,
    exclusive: Exclusive,
    kind: Numbers,
    algebra: Provenance,
) -> list[Recipe]:
    """How inputs are recorded, as before if they are like others."""
    agenda = sample.agenda
    key: Hashable = None
    given = symbols  # kept with the recipe: the key may have its number
    if isinstance(exclusive, bool):  # cheap to compare
        if type(symbols) is tuple:  # mostly the same object
            mark: Hashable = id(symbols)
        else:
            if type(symbols) not in (range, str):
                symbols = read_symbols(operation, symbols)
            mark = symbols
        layout = (numbers.shape, numbers.dtype, numbers.device)
        key = (operation, mark, exclusive, kind, id(algebra), layout, id(agenda.mode()))
    known = None if key is None else agenda.recipes.get(key)
    if known is None:
        known = _new_recipes(agenda, operation, numbers, symbols, exclusive, kind, algebra), given
        if key is not None:
            agenda.recipes[key] = known
    return known[0]


_Held = tuple[Tensor, int | None]
"""Numbers, and their version: they are read later and must not change."""


def _held(numbers: Tensor) -> _Held:
    if numbers.is_inference():
        return numbers.clone(), None
    return numbers, numbers._version


def _new_recipes(
    agenda: Nodes,
    operation: str,
    numbers: Tensor,
    symbols: Any,
    exclusive: Exclusive,
    kind: Numbers,
    algebra: Provenance,
) -> list[Recipe]:
    """How inputs like these are recorded: one recipe for each row."""
    one = numbers if numbers.dim() == 1 else numbers[0]
    members, groups = read_columns(operation, one, symbols, exclusive, kind)
    info = TagInfo(numbers.device, 1, precision(numbers))
    whole = exclusive if isinstance(exclusive, bool) else groups

    def run(nodes: Sequence[Node]) -> None:
        places = by_place(nodes, algebra)
        rows = _rows_of(operation, [node for place in places for node in place])
        settle_given(places, read(operation, rows, members, whole, kind), algebra)

    key = (algebra, info.device, numbers.dtype, numbers.dim(), members, whole, kind)
    written = agenda.kind(operation, key, run)
    form = agenda.form(members, algebra, info, len(groups) == 1)
    count = numbers.shape[1] if numbers.dim() == 3 else 1
    return [agenda.recipe(written, number, number, form) for number in range(count)]


def _rows_of(operation: str, nodes: Sequence[Node]) -> Tensor:
    """The numbers of all rows of nodes of one kind.

    Tensors that hold several rows are joined whole: to take them apart, and to join the rows, takes
    1.4 of 36 ms for 64 formulas of 7 symbols, mostly in the backward pass.
    """
    numbers = [held for node in nodes for held in node.arguments()]
    first, _ = numbers[0]
    if first.dim() < 3:
        together = torch.stack if first.dim() == 1 else torch.cat
        return together([_unchanged(operation, *held) for held in numbers])
    distinct = list({id(held): held for held in numbers}.values())
    sizes = [tensor.shape[1] for tensor, _ in distinct]
    starts = dict(zip(map(id, distinct), itertools.accumulate(sizes, initial=0), strict=False))
    rows = torch.cat([_unchanged(operation, *held) for held in distinct], dim=1).squeeze(0)
    places = [starts[id(held)] + node.payload for node in nodes for held in node.arguments()]
    return rows[torch.tensor(places, device=rows.device)]


def _unchanged(operation: str, row: Tensor, version: int | None) -> Tensor:
    if version is not None and row._version != version:
        raise InputError(
            f"{operation}: the numbers were modified in place after they were passed. Inside "
            "dolphin.batched they are read later; pass a copy, numbers.clone()."
        )
    return row


def settle_given(places: Sequence[Sequence[Node]], given: Given, algebra: Provenance) -> None:
    """Each node gets its row of an input, in which places follow each other."""

    def make(facts: Facts) -> Tagged:
        return tags_of(Given(given.symbols, facts, facts.rows), algebra)

    settle_inputs(places, given.facts, make)


def _tags_of_each(
    symbols: Symbols, every: Sequence[Facts], batch: int, algebra: Provenance
) -> list[Tagged]:
    """Inputs that differ in their numbers only: all else is that of the first."""
    if not every:
        return []
    first = tags_of(Given(symbols, every[0], batch), algebra)
    info = first.info()
    rest = [first.with_tags(algebra.from_facts(facts), info) for facts in every[1:]]
    return [first, *rest]


def tags_of(given: Given, algebra: Provenance) -> Tagged:
    """An input with the tags of an algebra."""
    tags = algebra.from_facts(given.facts)
    if not isinstance(given.symbols, Symbols):
        tags = algebra.flatten(tags, given.batch)
    return Tagged(
        given.symbols,
        tags,
        algebra,
        given.batch,
        exclusive=given.exclusive,
        groups=given.facts.groups,
        normalised=given.facts.normalised is True
        and not all_alone(given.facts.groups, given.facts.columns),
        described=algebra.describe(tags),
    )
