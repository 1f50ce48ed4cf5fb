"""Programs without their symbolic stage: what is left is index lists and arithmetic.

`trace` runs a program once on symbols alone, writes down what it does to tags, and gives back a
module that does just that to new probabilities. It has no user functions, no caches and no
Python objects as symbols, so it can be compiled as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from dolphin import inputs
from dolphin.context import default_provenance
from dolphin.distribution import Distribution
from dolphin.errors import InputError, UnsupportedError, shorten
from dolphin.execution.indices import Contraction, Index
from dolphin.provenance.contract import Provenance
from dolphin.provenance.facts import Facts
from dolphin.provenance.numerics import IMPOSSIBLE, prob_of_log, safe_log
from dolphin.provenance.topk.encoding import code_of
from dolphin.symbolic.symbols import Symbols


@dataclass(frozen=True)
class _Noted:
    """Tags that don't exist yet: the result of step `number`."""

    number: int


class _Notes(Provenance):
    """Writes down what is done to tags instead of doing it."""

    name = "notes"

    def __init__(self, algebra: Provenance, known: int) -> None:
        self.algebra = algebra
        self.known = known  # tags that exist so far
        self.steps: list[tuple[str, tuple[Any, ...]]] = []

    def parameters(self) -> dict[str, Any]:
        return {"of": id(self)}

    def _note(self, method: str, *arguments: Any) -> _Noted:
        self.steps.append((method, arguments))
        self.known += 1
        return _Noted(self.known - 1)

    def from_facts(self, facts: Facts) -> _Noted:
        raise UnsupportedError(
            "trace: the program makes an input of its own. Pass all inputs to it as arguments."
        )

    def one(self, n: int, like: Any) -> _Noted:
        return self._note("one", n, like)

    def contract(self, operands: Sequence[Any], plan: Contraction) -> _Noted:
        return self._note("contract", tuple(operands), plan)

    def negate(self, tags: Any) -> _Noted:
        return self._note("negate", tags)

    def select(self, tags: Any, index: Index) -> _Noted:
        return self._note("select", tags, index)

    def concat(self, parts: Sequence[Any]) -> _Noted:
        return self._note("concat", tuple(parts))

    def log_probs(self, tags: Any) -> Tensor:
        raise UnsupportedError(
            "trace: the program reads numbers (get_probs, sample, argmax, ...). A traced program "
            "ends with a distribution, and what it does may not depend on numbers."
        )

    def saturated(self, old: Any, new: Any) -> bool:
        return True

    def where(self, mask: Tensor, yes: Any, no: Any) -> _Noted:
        raise UnsupportedError(
            "trace: where= depends on rows, which a traced program doesn't have."
        )

    def flatten(self, tags: Any, rows: int) -> _Noted:
        raise UnsupportedError(
            "trace: the program gives rows symbols of their own, so its plan depends on numbers."
        )

    def stack(self, parts: Sequence[Any], batches: Sequence[int], *, flat: bool) -> _Noted:
        raise UnsupportedError("trace: stack depends on rows, which a traced program doesn't have.")

    def describe(self, tags: Any) -> tuple[torch.device, int]:
        return torch.device("cpu"), 1


class Traced(nn.Module):
    """The tag stage of a program; made by `trace`. `symbols` names the columns of its result."""

    def __init__(
        self,
        provenance: Provenance,
        groups: tuple[tuple[tuple[int, ...], ...], ...],
        steps: Sequence[tuple[str, tuple[Any, ...]]],
        symbols: tuple[Any, ...],
    ) -> None:
        super().__init__()
        self.provenance = provenance
        self.groups = groups
        self.steps = tuple(steps)
        self.symbols = symbols
        self._prepare(torch.device("cpu"))

    def _prepare(self, device: torch.device) -> None:
        """Make all index tensors on `device` now, before anything is compiled."""
        for _, arguments in self.steps:
            for argument in arguments:
                index = argument
                if isinstance(argument, Contraction):
                    argument.on(device)
                    index = argument.position
                if isinstance(index, Index):
                    index.on(device)
        for groups in self.groups:
            code_of(groups, False).on(device)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Traced:
        self._prepare(fn(torch.empty(0)).device)
        return super()._apply(fn, recurse)

    def forward(self, *probs: Tensor) -> Tensor:
        """Log-probabilities (B, N) from the probabilities (B, N_i) of all inputs."""
        tags: list[Any] = []
        for columns, groups in zip(probs, self.groups, strict=True):
            facts = Facts(
                log_probs=safe_log(columns.t().contiguous()), groups=groups, label=_no_label
            )
            tags.append(self.provenance.from_facts(facts))
        for method, arguments in self.steps:
            tags.append(getattr(self.provenance, method)(*(_known(a, tags) for a in arguments)))
        logs = self.provenance.log_probs(tags[-1])
        return torch.where(logs < IMPOSSIBLE, -1e4, logs).t()

    def probs(self, *probs: Tensor) -> Tensor:
        """Probabilities (B, N)."""
        return prob_of_log(self(*probs))


def _no_label(column: int, row: int) -> Any:
    return column


def _known(argument: Any, tags: Sequence[Any]) -> Any:
    if isinstance(argument, _Noted):
        return tags[argument.number]
    if isinstance(argument, tuple):
        return [_known(a, tags) for a in argument]
    return argument


def trace(
    program: Callable[..., Distribution],
    *symbols: Iterable[Any],
    exclusive: bool | Sequence[bool] = True,
    provenance: Provenance | None = None,
) -> Traced:
    """The tag stage of `program`, a function from distributions to a distribution.

    Args:
        program: called once, with one distribution for each of `symbols`.
        symbols: the symbols of each input.
        exclusive: as in `Distribution`, for all inputs or for each.
        provenance: the algebra; the default of the enclosing block if None.

    The result is a module from probabilities (B, N_i) to log-probabilities (B, N). It can be
    compiled with `torch.compile(..., fullgraph=True)`. Programs that sample, or give rows symbols
    of their own, can't be traced: what they do depends on numbers.

    >>> import torch, dolphin as dl
    >>> total = dl.trace(lambda x, y: x + y, range(3), range(3))
    >>> total.symbols
    (0, 1, 2, 3, 4)
    >>> total.probs(torch.tensor([[0.2, 0.3, 0.5]]), torch.tensor([[0.0, 1.0, 0.0]]))
    tensor([[0.0000, 0.2000, 0.3000, 0.5000, 0.0000]])
    """
    algebra = default_provenance() if provenance is None else provenance
    notes = _Notes(algebra, len(symbols))
    each = [exclusive] * len(symbols) if isinstance(exclusive, bool) else list(exclusive)
    if len(each) != len(symbols):
        raise InputError(f"trace: {len(each)} values of exclusive for {len(symbols)} inputs.")
    given, groups = [], []
    for number, (members, alone) in enumerate(zip(symbols, each, strict=True)):
        domain = Symbols.of(members)
        groups.append(inputs.read_groups("trace", alone, len(domain)))
        given.append(Distribution._make(domain, _Noted(number), notes, 1))
    result = program(*given)
    if not isinstance(result, Distribution):
        raise InputError(f"trace: the program must return a Distribution, got {shorten(result)}.")
    tags = result._tags_like() if result._tags is None else result._tags
    if tags != _Noted(notes.known - 1):  # the result is not what the last step made
        notes.concat([tags])
    return Traced(algebra, tuple(groups), notes.steps, result.symbols)
