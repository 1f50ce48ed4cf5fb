"""A compiled program as a function of its facts, for `trace`."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from dolphin.execution.indices import to_device
from dolphin.provenance.exact.circuits import Circuit
from dolphin.provenance.exact.ordering import Groups
from dolphin.provenance.facts import Facts
from dolphin.provenance.numerics import rounded_to


class CircuitEvaluator:
    """A compiled program that takes its facts as arguments."""

    def __init__(
        self,
        circuit: Circuit,
        places: np.ndarray,
        order: Sequence[int],
        groups: Groups,
    ) -> None:
        self.circuit, self.places = circuit, places
        self.order, self.groups = tuple(order), groups
        self._tensors: dict[torch.device, Tensor] = {}

    def prepare(self, device: torch.device) -> None:
        """Create all index tensors on `device`."""
        self._tensors[device] = to_device(self.places, device)
        self.circuit.prepare(self.groups, device)

    def __call__(self, facts: Sequence[Facts], logs: bool) -> Tensor:
        device, evaluate = facts[0].device, Circuit.log_probs if logs else Circuit.probs
        made = evaluate(self.circuit, [facts[at] for at in self.order], device)
        widest = functools.reduce(torch.promote_types, (each.dtype for each in facts))
        made = made.index_select(0, self._tensors[device])
        return made.to(widest) if logs else rounded_to(widest, made)
