"""Diagnosing programs that don't learn, from a result and its targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dolphin.display.findings import Diagnosis, Finding, counted
from dolphin.distribution import Distribution
from dolphin.errors import shorten
from dolphin.execution.eager import eager
from dolphin.execution.tagged import Tagged, operand
from dolphin.provenance.damp import DAMP
from dolphin.provenance.differentiation import array_of, cut_values, graph_of
from dolphin.provenance.facts import Facts
from dolphin.provenance.numerics import flush, rounding
from dolphin.provenance.tensors import TensorProvenance
from dolphin.provenance.topk import TopKProofs
from dolphin.reading import (
    Match,
    Targets,
    comparable,
    log_prob_of,
    matching,
    read_targets,
    target_places,
)
from dolphin.symbolic.surroundings import surroundings

_COUNT_ONCE = (
    "'dtkp-am' or 'exact', which count facts once; DAMP(above_one='pass'); a rule that derives "
    "each result once (no cycles, no facts in both directions)"
)
_SHOWN = 3  # examples of each kind
_MOST_NODES = 100_000  # of an autograd graph that are visited
_LITTLE_MASS = 0.5  # exclusive results that add up to less have lost most of their mass


@eager
def diagnose(result: Distribution[Any], targets: Targets, match: Match | None = None) -> Diagnosis:
    """Report why a program doesn't learn from its targets, and what to try.

    It checks for targets that rows can't reach (and for targets of a type that no symbol has), for
    rows without a gradient and where it was lost, for proofs and symbols that were dropped, and for
    inputs that should not be exclusive. Inside a `dolphin.profile()` block it also lists the
    combinations and memory of each operation. It runs one backward pass and leaves `.grad` alone.

    Args:
        result: what the program returned.
        targets: as for `nll_loss`.
        match: as for `nll_loss`.

    >>> import torch, dolphin as dl
    >>> digit = dl.Distribution.from_logits(torch.zeros(1, 2, requires_grad=True), [1, 2])
    >>> print(dl.diagnose(digit + digit, ["3"]))
    1 row, 1 finding
    - wrong type: the target '3' is a str, but no symbol is (2 is an int)
      try: convert the targets to what the program returns
    """
    d = operand("diagnose", result)
    wanted = read_targets("diagnose", targets, d.batch)
    logs = log_prob_of(d, "diagnose", wanted, match)
    with torch.no_grad():
        probs = array_of(d.in_rows(d.provenance.probs(d.tags_like())))
    with graph_of("diagnose"):
        case = _Case(d, wanted, match, logs, probs)
    findings = [*case.types(), *case.out_of_reach(), *case.without_gradient(), *case.dropped()]
    findings += case.independent()
    active = surroundings().profile
    return Diagnosis(
        d.batch,
        tuple(findings),
        tuple(np.flatnonzero(~case.reached).tolist()),
        tuple(np.flatnonzero(case.dead).tolist()),
        case.bounds(),
        () if active is None else active.entries,
        d.info().dtype.itemsize * getattr(d.provenance, "k", 1),
        (sum(not facts.log_probs.requires_grad for facts in case.inputs), len(case.inputs)),
    )


class _Case:
    """A result, its targets, and values that several findings share."""

    def __init__(
        self, d: Tagged, targets: list[Any], match: Match | None, logs: Tensor, probs: np.ndarray
    ) -> None:
        self.d, self.targets, self.match, self.logs = d, targets, match, logs
        self.mass, self.largest = probs.sum(1), probs.max(1, initial=0.0)
        self.present = self._present()
        self.inputs = [facts.whole or facts for facts in d.provenance.facts_in(d.tags_like())]
        self.leaves, self.cut, self.sums = _looked_through(logs)
        likely = (logs.detach() > flush(logs.dtype)).cpu().numpy()
        self.reached = self.present & likely
        self.dead = self._dead() & self.reached

    def _present(self) -> np.ndarray:
        """In which rows some symbol is the target."""
        if self.match is None:
            return target_places(self.d, self.targets) >= 0
        rows, _ = matching("diagnose", self.d.domain, self.targets, self.match)
        present = np.zeros(self.d.batch, dtype=bool)
        present[rows] = True
        return present

    def _dead(self) -> np.ndarray:
        """Which rows pass no gradient to what the result was computed from."""
        if not self.logs.requires_grad:
            return np.zeros(self.d.batch, dtype=bool)
        leaves = self.leaves
        grads = torch.autograd.grad(self.logs.sum(), leaves, retain_graph=True, allow_unused=True)
        alive = np.zeros(self.d.batch, dtype=bool)
        for leaf, grad in zip(leaves, grads, strict=True):
            if grad is None:
                continue
            if leaf.dim() and leaf.shape[0] == self.d.batch:
                alive |= (grad.flatten(1) != 0).any(1).cpu().numpy()
            elif (grad != 0).any():  # shared by all rows: it can't be told apart by row
                alive[:] = True
        return ~alive

    def _clipped(self) -> np.ndarray:
        """Rows in which a result has reached 1 in a sum that is clipped there."""
        if not isinstance(self.d.provenance, (DAMP, TopKProofs)) or self.d.constant:
            return np.zeros(self.d.batch, dtype=bool)
        slack = rounding(self.logs.dtype)
        return (self.largest >= 1.0 - slack) & (self.mass > 1.0 + 10 * slack)

    # -- findings ----------------------------------------------------------------------------------

    def types(self) -> list[Finding]:
        members = self.d.domain.members
        kinds = {comparable(type(member)) for member in members}
        rows = [
            row
            for row, target in enumerate(self.targets)
            if not self.present[row] and members and comparable(type(target)) not in kinds
        ]
        if not rows:
            return []
        target, symbol = self.targets[rows[0]], members[0]
        text = (
            f"{_some(rows, self.d.batch)}the target {shorten(target)} is {_a(target)}, but no "
            f"symbol is ({shorten(symbol)} is {_a(symbol)})"
        )
        advice = "convert the targets to what the program returns"
        return [Finding("wrong type", tuple(rows), text, advice)]

    def out_of_reach(self) -> list[Finding]:
        typed = {row for finding in self.types() for row in finding.rows}
        rows = [row for row in np.flatnonzero(~self.reached).tolist() if row not in typed]
        absent = [row for row in rows if not self.present[row]]
        contradicted = [row for row in rows if self.present[row]]
        findings = []
        if absent:
            text = (
                f"the target is not among the symbols of {len(absent)} of {self.d.batch} rows: "
                f"{self._examples(absent)}"
            )
            advice = (
                "bce_loss, which also learns from wrong results; a larger k in dolphin.sample, or "
                "sampling later; match= if results only approximate the target"
            )
            findings.append(Finding("out of reach", tuple(absent), text, advice))
        if contradicted:
            why, advice = self._why_zero()
            text = (
                f"in {len(contradicted)} of {self.d.batch} rows the target is a result, but with "
                f"probability 0: {why}; {self._examples(contradicted)}"
            )
            findings.append(Finding("contradiction", tuple(contradicted), text, advice))
        return findings

    def _why_zero(self) -> tuple[str, str]:
        """Why a result that has derivations can have probability 0, and what to try."""
        provenance = self.d.provenance
        if isinstance(provenance, TensorProvenance):  # which doesn't know what excludes what
            why = "every derivation uses a fact of probability 0, or a network is too confident"
            if not isinstance(provenance, DAMP):
                why += f", or {provenance.name} turns small values into 0"
            return why, "probabilities from logits instead of hard zeros; smaller logits; 'damp'"
        why = (
            "every derivation uses two symbols that exclude each other, or a fact of probability 0"
        )
        advice = (
            "exclusive=False for inputs whose symbols can hold together; probabilities from "
            "logits instead of hard zeros"
        )
        return why, advice

    def _examples(self, rows: Sequence[int]) -> str:
        shown = []
        for row in rows[:_SHOWN]:
            wanted = shorten(self.targets[row], 30)
            shown.append(f"row {row} has target {wanted} and {_overview(_members(self.d, row))}")
        return "; ".join(shown)

    def without_gradient(self) -> list[Finding]:
        if self.d.constant or (not self.logs.requires_grad and self.reached.any()):
            text = (
                "the result has no gradients: nothing was recorded, or its inputs are constants (a "
                "frozen network, detached tensors)"
            )
            if self.d.constant:
                text = "the result depends on no probability: all of its inputs are certain"
            advice = (
                "run the program outside torch.no_grad(), on the outputs of the network, without "
                "argmax in between"
            )
            return [Finding("no graph", tuple(range(self.d.batch)), text, advice)]
        findings = []
        sums = self._clipped()
        if sums.any():
            rows = np.flatnonzero(sums)
            text = (
                f"in {len(rows)} of {self.d.batch} rows a sum exceeded 1 and was clipped, so "
                f"its result has no gradient (the target in {int(self.dead[rows].sum())} of them); "
                f"the results of such a row add up to {self.mass[rows].mean():.3g} on average"
            )
            findings.append(Finding("clipped sums", tuple(rows.tolist()), text, _COUNT_ONCE))
        elif self.cut:
            text = (
                f"inside the program {self.cut:,} of {self.sums:,} sums exceeded 1 and were "
                "clipped, so no gradient goes through them"
            )
            findings.append(Finding("clipped sums", tuple(range(self.d.batch)), text, _COUNT_ONCE))
        others = self.dead & ~sums
        if others.any():
            rows = np.flatnonzero(others)
            text = f"{len(rows)} of {self.d.batch} rows reach their target without any gradient"
            advice = (
                "other initial weights, if all symbols are equally likely; DAMP("
                "above_one='pass') or 'exact', if sums inside the program exceed 1; see the "
                "gradients of each provenance in docs/provenances.md"
            )
            findings.append(Finding("dead gradients", tuple(rows.tolist()), text, advice))
        return findings

    def dropped(self) -> list[Finding]:
        """Results that should add up to 1, but don't."""
        if not self.d.exclusive or self.d.constant or self._is_fuzzy():
            return []
        rows = np.flatnonzero(self.mass < _LITTLE_MASS)
        if not len(rows):
            return []
        mass = f"the results of a row add up to {self.mass[rows].mean():.2g} on average"
        if isinstance(self.d.provenance, TopKProofs):
            k = self.d.provenance.k
            text = (
                f"{mass}: the {k} likeliest proofs of a result are a small part of all its proofs"
            )
            advice = f"a larger k than {k}, 'exact', or 'damp' where inputs are used once"
            return [Finding("too few proofs", tuple(rows.tolist()), text, advice)]
        text = (
            f"{mass}: the rest was sampled or filtered away, belongs to combinations that a "
            "condition rejected, or is missing from inputs that add up to less than 1"
        )
        advice = (
            "exclusive=False for inputs whose symbols can hold together (edges of a graph, boxes "
            "of an image); a larger k in dolphin.sample; a softmax over the symbols of one input, "
            "not over the batch or over several inputs"
        )
        return [Finding("lost mass", tuple(rows.tolist()), text, advice)]

    def independent(self) -> list[Finding]:
        """Inputs that look like a softmax, but whose symbols are said to hold independently."""
        sizes = [facts.columns for facts in self.inputs if _is_softmax_of_independent(facts)]
        if not sizes:
            return []
        text = (
            f"{len(sizes)} of {len(self.inputs)} inputs add up to 1 in every row, as a softmax "
            f"does, but their symbols ({sizes[0]} of the first) are independent: several can hold"
        )
        advice = "exclusive=True, the default, if each input is one choice between its symbols"
        return [Finding("independent input", tuple(range(self.d.batch)), text, advice)]

    def _is_fuzzy(self) -> bool:
        """Whether results need not add up to 1."""
        return isinstance(self.d.provenance, TensorProvenance) and not isinstance(
            self.d.provenance, DAMP
        )

    def bounds(self) -> tuple[Tensor, Tensor] | None:
        """Bounds on the target: where results are exclusive, all missing mass could be its own."""
        if not self.d.exclusive or self._is_fuzzy():
            return None
        low = torch.where(torch.from_numpy(self.present), self.logs.detach().cpu().exp(), 0.0)
        rest = torch.from_numpy(1.0 - self.mass).clamp(min=0.0).to(low.dtype)
        return low, (low + rest).clamp(max=1.0)


def _is_softmax_of_independent(facts: Facts) -> bool:
    if facts.columns < 2 or any(len(group) > 1 for group in facts.groups):
        return False
    probs = facts.log_probs.detach().exp()
    near = (probs.sum(0) - 1.0).abs() < 1e-4
    return bool(near.all()) and bool((probs.amax(0) < 1.0).any())  # not only what is known


def _looked_through(tensor: Tensor) -> tuple[list[Tensor], int, int]:
    """The leaf tensors of a graph, how many of its sums were clipped at 1, and how many it has."""
    cut = sums = 0
    seen: set[Any] = set()
    waiting, leaves = [tensor.grad_fn], []
    while waiting and len(seen) < _MOST_NODES:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        mine, all_of_them = cut_values(node)
        cut, sums = cut + mine, sums + all_of_them
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            leaves.append(leaf)
        waiting.extend(following for following, _ in node.next_functions)
    return leaves, cut, sums


def _members(d: Tagged, row: int) -> Sequence[Any]:
    domain = d.domain
    row_symbols = getattr(domain, "row", None)
    return domain.members if row_symbols is None else row_symbols(row)


def _overview(members: Sequence[Any]) -> str:
    """The number of symbols, and some of them; for numbers the smallest and the largest."""
    if not members:
        return "no symbols: every combination was filtered away"
    count = counted(len(members), "symbol")
    if all(type(symbol) in (int, float) for symbol in members):
        return f"{count} from {shorten(min(members), 20)} to {shorten(max(members), 20)}"
    some = ", ".join(shorten(symbol, 20) for symbol in members[:_SHOWN])
    return f"{count} ({some}{', ...' * (len(members) > _SHOWN)})"


def _some(rows: Sequence[int], batch: int) -> str:
    return "" if batch == 1 else f"{len(rows)} of {batch} rows: "


def _a(symbol: Any) -> str:
    name = type(symbol).__name__
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"
