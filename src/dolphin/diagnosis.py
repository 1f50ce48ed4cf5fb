"""Why nothing is learnt: what a result and its targets show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dolphin.arguments import operand
from dolphin.distribution import Distribution
from dolphin.errors import shorten
from dolphin.execution.eager import eager
from dolphin.execution.profiling import Entry, active_profile
from dolphin.execution.tagged import Tagged
from dolphin.provenance.contract import TensorProvenance
from dolphin.provenance.damp import DAMP
from dolphin.provenance.numerics import flush, rounding
from dolphin.provenance.topk import TopKProofs
from dolphin.reading import Match, comparable, log_prob_of, matching, read_targets, target_places

_SHOWN = 3  # examples of each kind
_MOST_NODES = 100_000  # of an autograd graph that are looked at
_LITTLE_MASS = 0.5  # exclusive results that add up to less have lost the larger part


@dataclass(frozen=True)
class Finding:
    """One thing that keeps rows from learning: which rows, what it looks like, what to try."""

    kind: str
    rows: tuple[int, ...]
    text: str
    advice: str


@dataclass(frozen=True)
class Diagnosis:
    """What `diagnose` found. `print` it, or read its fields."""

    batch: int
    findings: tuple[Finding, ...]
    unreachable: tuple[int, ...]
    """Rows whose target no symbol is, or has no derivation."""
    dead: tuple[int, ...]
    """Rows that reach their target, and get no gradient from it."""
    bounds: tuple[Tensor, Tensor] | None
    """(B,) least and largest probability that the target can truly have, where that is known."""
    operations: tuple[Entry, ...]
    """Operations of the `dolphin.profile()` block around the call, if there is one."""
    bytes_per_combination: int

    def __str__(self) -> str:
        lines = [
            f"{self.batch} rows, {len(self.findings)} finding{'s' * (len(self.findings) != 1)}"
        ]
        for finding in self.findings:
            lines += [f"- {finding.kind}: {finding.text}", f"  try: {finding.advice}"]
        if self.bounds is not None and self.bounds[1].any():
            low, high = (bound.mean().item() for bound in self.bounds)
            lines.append(
                f"- the target's probability, on average: between {low:.3g} and {high:.3g}"
            )
        for entry in self.operations:
            size = entry.combinations * self.batch * self.bytes_per_combination / 1e6
            lines.append(
                f"- {entry.operation} {entry.function}: {entry.combinations:,} combinations in "
                f"{entry.calls} calls, about {size:.3g} MB"
            )
        return "\n".join(lines)


@eager
def diagnose(
    result: Distribution[Any], targets: Sequence[Any] | Tensor, match: Match | None = None
) -> Diagnosis:
    """Why a program doesn't learn from its targets, as a report that a person can act on.

    It looks for targets that rows can't reach (and for targets of a type that no symbol has), for
    rows without a gradient and where it was lost, for proofs and symbols that were dropped, and for
    inputs that should not be exclusive. Inside a `dolphin.profile()` block it lists combinations
    and memory of each operation, too. It runs one backward pass and changes no gradients.

    Args:
        targets, match: as for `nll_loss`.

    >>> import torch, dolphin as dl
    >>> digit = dl.Distribution.from_logits(torch.randn(1, 2, requires_grad=True), [1, 2])
    >>> print(dl.diagnose(digit + digit, ["3"]))
    1 rows, 1 finding
    - wrong type: '3' is a str, and no symbol is: 2, for example, is an int
      try: convert the targets to what the program returns
    """
    d = operand("diagnose", result)
    wanted = read_targets("diagnose", targets, d.batch)
    logs = log_prob_of(d, "diagnose", wanted, match)
    with torch.no_grad():
        probs = d.in_rows(d.provenance.probs(d.tags_like())).cpu().numpy()
    case = _Case(d, wanted, match, logs, probs)
    found = [*case.types(), *case.out_of_reach(), *case.without_gradient(), *case.dropped()]
    active = active_profile()
    return Diagnosis(
        d.batch,
        tuple(found),
        tuple(np.flatnonzero(~case.reached).tolist()),
        tuple(np.flatnonzero(case.dead).tolist()),
        case.bounds(),
        () if active is None else active.entries,
        d.info().dtype.itemsize * getattr(d.provenance, "k", 1),
    )


class _Case:
    """A result, its targets, and what is looked up once for all findings."""

    def __init__(
        self, d: Tagged, targets: list[Any], match: Match | None, logs: Tensor, probs: np.ndarray
    ) -> None:
        self.d, self.targets, self.match, self.logs = d, targets, match, logs
        self.mass, self.largest = probs.sum(1), probs.max(1, initial=0.0)
        self.present = self._present()
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
        leaves = _leaves(self.logs)
        grads = torch.autograd.grad(self.logs.sum(), leaves, retain_graph=True, allow_unused=True)
        alive = np.zeros(self.d.batch, dtype=bool)
        for leaf, grad in zip(leaves, grads, strict=True):
            if grad is None:
                continue
            if leaf.dim() and leaf.shape[0] == self.d.batch:
                alive |= (grad.flatten(1) != 0).any(1).cpu().numpy()
            elif (grad != 0).any():  # all rows share it: which of them it is from can't be told
                alive[:] = True
        return ~alive

    def _clipped(self) -> np.ndarray:
        """Rows in which a result has reached 1 in a sum that is cut there."""
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
            f"{_some(rows, self.d.batch)}{shorten(target)} is {_a(target)}, and no symbol is: "
            f"{shorten(symbol)}, for example, is {_a(symbol)}"
        )
        advice = "convert the targets to what the program returns"
        return [Finding("wrong type", tuple(rows), text, advice)]

    def out_of_reach(self) -> list[Finding]:
        typed = {row for finding in self.types() for row in finding.rows}
        rows = [row for row in np.flatnonzero(~self.reached).tolist() if row not in typed]
        absent = [row for row in rows if not self.present[row]]
        contradicted = [row for row in rows if self.present[row]]
        found = []
        if absent:
            text = (
                f"{len(absent)} of {self.d.batch} rows have no symbol that is their target; "
                f"{self._examples(absent)}"
            )
            advice = (
                "bce_loss, which also learns from wrong results; a larger k of dolphin.sample or "
                "later sampling; match= if results are only close to the target"
            )
            found.append(Finding("out of reach", tuple(absent), text, advice))
        if contradicted:
            text = (
                f"in {len(contradicted)} of {self.d.batch} rows the target is a result, but with "
                f"probability 0: every derivation takes two symbols that exclude each other, or a "
                f"fact of probability 0; {self._examples(contradicted)}"
            )
            advice = (
                "exclusive=False for inputs whose symbols can hold together; probabilities from "
                "logits instead of hard zeros"
            )
            found.append(Finding("contradiction", tuple(contradicted), text, advice))
        return found

    def _examples(self, rows: Sequence[int]) -> str:
        shown = []
        for row in rows[:_SHOWN]:
            members = _members(self.d, row)
            some = ", ".join(shorten(symbol, 20) for symbol in members[:_SHOWN])
            wanted = shorten(self.targets[row], 30)
            shown.append(f"row {row} wants {wanted} of {len(members)} symbols ({some}, ...)")
        return "; ".join(shown)

    def without_gradient(self) -> list[Finding]:
        if not self.logs.requires_grad and self.reached.any():
            text = "the result has no gradients: nothing was recorded, or its inputs are constants"
            advice = "run the program outside of torch.no_grad(), on the network's own outputs"
            return [Finding("no graph", tuple(range(self.d.batch)), text, advice)]
        found = []
        sums = self._clipped()
        if sums.any():
            rows = np.flatnonzero(sums)
            text = (
                f"in {len(rows)} of {self.d.batch} rows a sum passed 1 and was cut there, so that "
                f"its result has no gradient (the target in {int(self.dead[rows].sum())} of them); "
                f"the results of such a row add up to {self.mass[rows].mean():.3g} on average"
            )
            advice = (
                "'dtkp-am' or 'exact', which count facts once; DAMP(above_one='pass'); a rule that "
                "derives each result once (no cycles, no facts in both directions)"
            )
            found.append(Finding("clipped sums", tuple(rows.tolist()), text, advice))
        others = self.dead & ~sums
        if others.any():
            rows = np.flatnonzero(others)
            text = f"{len(rows)} of {self.d.batch} rows reach their target without any gradient"
            advice = (
                "other initial weights, where all symbols are exactly as likely; DAMP("
                "above_one='pass') or 'exact', where sums inside of the program pass 1; see the "
                "gradients of each provenance in docs/provenances.md"
            )
            found.append(Finding("dead gradients", tuple(rows.tolist()), text, advice))
        return found

    def dropped(self) -> list[Finding]:
        """Results that should add up to 1, and don't."""
        if not self.d.exclusive or self.d.constant:
            return []
        rows = np.flatnonzero(self.mass < _LITTLE_MASS)
        if not len(rows):
            return []
        mass = f"the results of a row add up to {self.mass[rows].mean():.2g} on average"
        if isinstance(self.d.provenance, TopKProofs):
            k = self.d.provenance.k
            text = f"{mass}: the {k} likeliest proofs of each are a small part of all"
            advice = f"a larger k than {k}, 'exact', or 'damp' where inputs are used once"
            return [Finding("too few proofs", tuple(rows.tolist()), text, advice)]
        text = (
            f"{mass}: the rest was sampled or filtered away, or belongs to pairs of symbols that "
            "no condition let through"
        )
        advice = (
            "exclusive=False for inputs whose symbols can hold together (edges of a graph, boxes "
            "of an image); a larger k of dolphin.sample"
        )
        return [Finding("lost mass", tuple(rows.tolist()), text, advice)]

    def bounds(self) -> tuple[Tensor, Tensor] | None:
        """Where results exclude each other, what is missing to 1 could all be the target's."""
        provenance = self.d.provenance
        fuzzy = isinstance(provenance, TensorProvenance) and not isinstance(provenance, DAMP)
        if not self.d.exclusive or fuzzy:
            return None
        low = torch.where(torch.from_numpy(self.present), self.logs.detach().cpu().exp(), 0.0)
        rest = torch.from_numpy(1.0 - self.mass).clamp(min=0.0).to(low.dtype)
        return low, (low + rest).clamp(max=1.0)


def _leaves(tensor: Tensor) -> list[Tensor]:
    """The tensors at the bottom of a graph."""
    seen: set[Any] = set()
    waiting, found = [tensor.grad_fn], []
    while waiting and len(seen) < _MOST_NODES:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            found.append(leaf)
        waiting.extend(following for following, _ in node.next_functions)
    return found


def _members(d: Tagged, row: int) -> Sequence[Any]:
    domain = d.domain
    row_symbols = getattr(domain, "row", None)
    return domain.members if row_symbols is None else row_symbols(row)


def _some(rows: Sequence[int], batch: int) -> str:
    return "" if batch == 1 else f"{len(rows)} of {batch} rows; "


def _a(symbol: Any) -> str:
    name = type(symbol).__name__
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"
