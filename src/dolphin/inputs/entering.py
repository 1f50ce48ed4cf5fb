"""From a user's numbers to tags; inside `dolphin.batched` together with those of other samples."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import torch
from torch import Tensor

from dolphin.errors import InputError
from dolphin.execution.in_step import by_place, settle_inputs
from dolphin.execution.pending import Form, Kind, Kinds, Node, Waiting, recorded
from dolphin.execution.tagged import Tagged
from dolphin.inputs.checks import Exclusive, precision, read_symbols
from dolphin.inputs.checks import Kind as Numbers
from dolphin.inputs.shared import Given, is_one_row, read, read_columns, read_each
from dolphin.provenance.contract import Provenance, TagInfo
from dolphin.provenance.facts import Facts
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
        recipe = _recipe_for(sample, operation, numbers, symbols, exclusive, kind, algebra)
        return _recorded(sample, recipe, numbers)
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
    if sample is None or not isinstance(logits, Tensor) or logits.dim() != 3 or len(logits) != 1:
        return [
            tags_of(given, algebra) for given in read_each(operation, logits, symbols, exclusive)
        ]
    if type(symbols) is not tuple:
        symbols = read_symbols(operation, symbols)
    parts = logits.unbind(1)
    if not parts or not is_one_row(parts[0]):
        return [input_of(operation, each, symbols, exclusive, "logits", algebra) for each in parts]
    recipe = _recipe_for(sample, operation, parts[0], symbols, exclusive, "logits", algebra)
    return [_recorded(sample, recipe, part) for part in parts]


def _recipe_for(
    sample: Waiting,
    operation: str,
    row: Tensor,
    symbols: Any,
    exclusive: Exclusive,
    kind: Numbers,
    algebra: Provenance,
) -> tuple[Kind, Form]:
    """How an input is recorded, as before if it is like another one."""
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
        layout = (row.shape, row.dtype, row.device)
        key = (operation, mark, exclusive, kind, id(algebra), layout, id(agenda.mode()))
    recipe = None if key is None else agenda.recipes.get(key)
    if recipe is None:
        recipe = _recipe_of_input(agenda, operation, row, symbols, exclusive, kind, algebra), given
        if key is not None:
            agenda.recipes[key] = recipe
    return recipe[0]


def _recorded(sample: Waiting, recipe: tuple[Kind, Form], row: Tensor) -> Tagged:
    written, form = recipe
    version = None if row.is_inference() else row._version
    payload = (row.clone() if version is None else row, version)
    return recorded(sample, written, (), payload, form)


def _recipe_of_input(
    agenda: Kinds,
    operation: str,
    row: Tensor,
    symbols: Any,
    exclusive: Exclusive,
    kind: Numbers,
    algebra: Provenance,
) -> tuple[Kind, Form]:
    """How inputs like this one are recorded."""
    one = row if row.dim() == 1 else row[0]
    members, groups = read_columns(operation, one, symbols, exclusive, kind)
    together = torch.stack if row.dim() == 1 else torch.cat
    info = TagInfo(row.device, 1, precision(row))
    whole = exclusive if isinstance(exclusive, bool) else groups

    def run(nodes: Sequence[Node]) -> None:
        places = by_place(nodes, algebra)
        rows = [_unchanged(operation, *node.payload) for place in places for node in place]
        settle_given(places, read(operation, together(rows), members, whole, kind), algebra)

    key = (algebra, info.device, row.dtype, row.dim(), members, whole, kind)
    written = agenda.kind(operation, key, run)
    return written, agenda.form(members, algebra, info, len(groups) == 1)


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
    )
