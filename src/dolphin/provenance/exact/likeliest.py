"""The likeliest world in which a formula holds, read off its circuit.

A circuit of sums of products becomes one of largest products. Values of a group are divided by the
likeliest value of that group, so a group that a branch doesn't mention counts as 1: it takes its
likeliest value. Descending from the root along the largest products gives the choices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dolphin.provenance.exact.circuits import Circuit
from dolphin.provenance.facts import Facts
from dolphin.provenance.max_product import MaxProduct
from dolphin.provenance.numerics import IMPOSSIBLE, ZERO, flush, rounding

_LARGEST = MaxProduct()


@dataclass(frozen=True)
class _Values:
    """The values of all groups of an input: of each column, and "none of them" after the last."""

    logs: np.ndarray  # (columns + groups, rows)
    members: dict[int, np.ndarray]  # the places of the values of each column's group
    groups: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, facts: Facts) -> _Values:
        logs = facts.log_probs.detach().double().cpu().numpy()
        logs = np.where(logs < flush(facts.log_probs.dtype), ZERO, logs)  # what is reported as 0
        probs = np.exp(logs)
        groups, members, rests = [], {}, []
        for number, columns in enumerate(facts.groups):
            places = np.array([*columns, facts.columns + number])
            groups.append(places)
            members.update(dict.fromkeys(columns, places))
            rests.append(1.0 - probs[list(columns)].sum(0))
        rest = np.array(rests).reshape(len(rests), logs.shape[1])
        slack = rounding(facts.log_probs.dtype)  # of a softmax
        floored = np.where(rest > slack, np.log(np.maximum(rest, slack)), ZERO)
        return cls(np.concatenate([logs, floored]), members, tuple(groups))

    def best(self, places: np.ndarray) -> np.ndarray:
        """The likeliest of some values in each row."""
        return places[self.logs[places].argmax(0)]

    def others(self, columns: Sequence[int]) -> np.ndarray:
        """The values of a group besides these columns."""
        return np.setdiff1d(self.members[columns[0]], columns)


def likeliest_worlds(
    circuit: Circuit, roots: np.ndarray, inputs: Sequence[Facts]
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Whether each row's root can hold, and which columns of each input hold then, (columns, B)."""
    values = [_Values.of(facts) for facts in inputs]
    layers = _evaluated(circuit, values)
    every = np.arange(len(roots))
    input_row = every if layers[0].shape[1] > 1 else np.zeros_like(every)
    places = circuit.roots[roots]
    possible = layers[-1][places, input_row] > IMPOSSIBLE
    owners, leaves = _descend(circuit, layers, every[possible], places[possible], input_row)
    holds = [
        _by_themselves(each, facts, len(roots)) for each, facts in zip(values, inputs, strict=True)
    ]
    _choose(circuit, values, owners, leaves, holds)
    return possible, holds


def _evaluated(circuit: Circuit, values: Sequence[_Values]) -> list[np.ndarray]:
    """The logarithms of largest products of all layers, (values of the layer, rows)."""
    rows = max((each.logs.shape[1] for each in values), default=1)
    parts = [np.array([[ZERO], [0.0]])]
    for position, column in circuit.facts:
        own = values[position]
        parts.append((own.logs[column] - own.logs[own.members[column]].max(0))[None])
    for position, columns in circuit.rests:
        own = values[position]
        best = own.logs[own.others(columns)].max(0) - own.logs[own.members[columns[0]]].max(0)
        parts.append(best[None])
    leaves = np.concatenate([np.broadcast_to(part, (len(part), rows)) for part in parts])
    layer: Tensor = torch.from_numpy(np.ascontiguousarray(leaves))
    layers = [leaves]
    for contraction, keep in circuit.layers:
        following = _LARGEST.contract([layer, layer], contraction)
        layer = torch.cat([following, layer[torch.from_numpy(keep)]])
        layers.append(layer.numpy())
    return layers


def _descend(
    circuit: Circuit,
    layers: Sequence[np.ndarray],
    owners: np.ndarray,
    places: np.ndarray,
    input_row: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The leaves of the largest products: the row of each, and its number."""
    for (contraction, keep), below in zip(reversed(circuit.layers), layers[-2::-1], strict=True):
        new = places < contraction.groups
        whose, pairs = contraction.members(places[new])
        rows = input_row[owners[new][whose]]
        products = below[pairs[0], rows] + below[pairs[1], rows]
        order = np.lexsort((-products, whose))
        first = order[np.unique(whose[order], return_index=True)[1]]
        kept = keep[places[~new] - contraction.groups] if (~new).any() else places[:0]
        chosen = owners[new][whose[first]]
        owners = np.concatenate([chosen, chosen, owners[~new]])
        places = np.concatenate([pairs[0][first], pairs[1][first], kept])
    return owners, places


def _by_themselves(values: _Values, facts: Facts, batch: int) -> np.ndarray:
    """The likeliest value of every group, (columns, B)."""
    holds = np.zeros((values.logs.shape[0], values.logs.shape[1]), dtype=bool)
    every = np.arange(values.logs.shape[1])
    for places in values.groups:
        holds[values.best(places), every] = True
    return np.broadcast_to(holds[: facts.columns], (facts.columns, batch)).copy()


def _choose(
    circuit: Circuit,
    values: Sequence[_Values],
    owners: np.ndarray,
    leaves: np.ndarray,
    holds: Sequence[np.ndarray],
) -> None:
    """Enter the choices of these leaves in `holds`."""
    for owner, leaf in zip(owners.tolist(), (leaves - 2).tolist(), strict=True):
        if leaf < 0:
            continue
        if leaf < len(circuit.facts):
            position, value = circuit.facts[leaf]
            places = values[position].members[value]
        else:
            position, columns = circuit.rests[leaf - len(circuit.facts)]
            own = values[position]
            places = own.members[columns[0]]
            row = owner if own.logs.shape[1] > 1 else 0
            value = int(own.best(own.others(columns))[row])
        columns_held = holds[position]
        columns_held[places[:-1], owner] = False
        if value < len(columns_held):
            columns_held[value, owner] = True
