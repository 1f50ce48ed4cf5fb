"""The tag stage of a program as a module that can be compiled and exported."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from dolphin.distribution import Distribution, distribution_of
from dolphin.errors import InputError, shorten
from dolphin.execution.indices import Contraction, Convolution, Index
from dolphin.execution.tagged import Tagged, agreed, tagged_of
from dolphin.execution.tracing import Loop, Noted, Notes, Step, run_steps
from dolphin.inputs.arguments import flag
from dolphin.inputs.checks import Exclusive, Kind, check_distinct, read_groups, read_symbols
from dolphin.inputs.shared import facts_of
from dolphin.provenance.contract import Evaluator, Provenance
from dolphin.provenance.facts import Facts, Groups, all_alone
from dolphin.provenance.numerics import IMPOSSIBLE
from dolphin.provenance.registry import AnyProvenance, resolve
from dolphin.provenance.topk.encoding import code_of
from dolphin.reading import LOG_OF_ZERO


class Traced(nn.Module):
    """The tag stage of a program; made by `trace`. `symbols` names the columns of its result."""

    def __init__(
        self,
        provenance: Provenance,
        inputs: Sequence[tuple[tuple[Any, ...], Groups, bool]],
        steps: Sequence[Step],
        symbols: tuple[Any, ...],
        *,
        logits: bool,
        rows: int = 1,
        evaluate: Evaluator | None = None,
    ) -> None:
        super().__init__()
        self.provenance = provenance
        self.inputs = tuple(inputs)  # symbols, groups, and whether they are one choice
        self.steps = tuple(steps)
        self.symbols = symbols
        self.rows = rows  # where the program fixes their number, otherwise 1
        self.kind: Kind = "logits" if logits else "probs"
        self.evaluate = evaluate  # for algebras that compile the whole program
        self._prepare(torch.device("cpu"))

    def extra_repr(self) -> str:
        return f"symbols={shorten(self.symbols)}, provenance={self.provenance!r}"

    if TYPE_CHECKING:

        def __call__(self, *numbers: Tensor) -> Tensor: ...

    def _prepare(self, device: torch.device) -> None:
        """Create all index tensors on `device` now, before anything is compiled."""
        _prepare(self.steps, device)
        for _, groups, _ in self.inputs:
            code_of(groups, False).on(device)
        if self.evaluate is not None:
            getattr(self.evaluate, "prepare", lambda device: None)(device)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Traced:
        self._prepare(fn(torch.empty(0)).device)
        return super()._apply(fn, recurse)

    def forward(self, *numbers: Tensor) -> Tensor:
        """Log-probabilities (B, N) from the numbers (B, N_i) of all inputs."""
        return self._run(numbers, logs=True)

    def probs(self, *numbers: Tensor) -> Tensor:
        """Probabilities (B, N)."""
        return self._run(numbers, logs=False)

    def _run(self, numbers: Sequence[Tensor], *, logs: bool) -> Tensor:
        facts = [
            facts_of("Traced", rows, groups, _no_label, self.kind, softmax)
            for rows, (_, groups, softmax) in zip(self._checked(numbers), self.inputs, strict=True)
        ]
        if self.evaluate is None:
            tags = [self.provenance.from_facts(each) for each in facts]
            run_steps(self.provenance, self.steps, tags)
            values = (self.provenance.log_probs if logs else self.provenance.probs)(tags[-1])
        else:
            values = self.evaluate(facts, logs)
        if logs:
            values = torch.where(values < IMPOSSIBLE, LOG_OF_ZERO, values)
        batch = max(self.rows, *(each.rows for each in facts))
        return values.t().expand(batch, -1)

    def _checked(self, numbers: Sequence[Tensor]) -> list[Tensor]:
        if len(numbers) != len(self.inputs):
            raise InputError(
                f"Traced: {len(numbers)} tensors for {len(self.inputs)} inputs of the program."
            )
        checked = []
        for number, (given, (symbols, _, _)) in enumerate(zip(numbers, self.inputs, strict=True)):
            if not isinstance(given, Tensor) or not given.is_floating_point():
                raise InputError(
                    f"Traced: input {number} must be a tensor of {self.kind}, got {shorten(given)}."
                )
            rows = given.unsqueeze(0) if given.dim() == 1 else given
            if rows.dim() != 2 or rows.shape[1] != len(symbols) or rows.shape[0] == 0:
                raise InputError(
                    f"Traced: input {number} must have shape (batch, {len(symbols)}), one column "
                    f"per symbol and at least one row, got {tuple(rows.shape)}."
                )
            checked.append(rows)
        self._check_batch([rows.shape[0] for rows in checked])
        # The recorded steps can't change the precision in between.
        double = any(rows.dtype == torch.float64 for rows in checked)
        return [rows.double() if double else rows.float() for rows in checked]

    def _check_batch(self, sizes: Sequence[int]) -> None:
        batch = max(self.rows, *sizes)
        if all(rows in (1, batch) for rows in (self.rows, *sizes)):
            return
        shown = ", ".join(map(str, sizes))
        if self.rows > 1:
            raise InputError(
                f"Traced: the program is fixed to {self.rows} rows (batch={self.rows}), but "
                f"its inputs have {shown}. Leave `batch` out: a certain symbol fits any number "
                "of rows."
            )
        raise InputError(f"Traced: the batch sizes of the inputs don't match: {shown}.")


def _prepare(steps: Sequence[Step], device: torch.device) -> None:
    for _, arguments in steps:
        for argument in arguments:
            if isinstance(argument, Loop):
                argument.aligned.prepare(device)
                _prepare(argument.body, device)
            elif isinstance(argument, (Contraction, Convolution)):
                argument.spelled_out().prepare(device)
            elif isinstance(argument, Index):
                argument.prepare(device)


def _no_label(column: int, row: int) -> Any:
    return column


def trace(
    program: Callable[..., Distribution[Any]],
    *symbols: Iterable[Any],
    exclusive: Exclusive | Sequence[Exclusive] = True,
    provenance: AnyProvenance | None = None,
    logits: bool = False,
) -> Traced:
    """The tag stage of `program`, a function from distributions to a distribution, as a module.

    The result is a module from probabilities (B, N_i) to log-probabilities (B, N), which checks its
    inputs as `Distribution` does, with the program's gradients. It can be compiled with
    `torch.compile(..., fullgraph=True)`. Programs that sample, or whose rows have different
    symbols, can't be traced: their symbols depend on numbers. A `fixpoint` repeats until the tags
    of all rows have settled, as in the program itself; compiled code can't check that, and does as
    many rounds as may be needed, where that number is known.

    Args:
        program: called once, with one distribution for each of `symbols`.
        symbols: the symbols of each input.
        exclusive: as in `Distribution`, for all inputs, or a list with one entry per input.
        provenance: the algebra or its name; the default of the enclosing block if None.
        logits: whether the module takes unnormalised scores, as `Distribution.from_logits` does.

    >>> import torch, dolphin as dl
    >>> total = dl.trace(lambda x, y: x + y, range(3), range(3))
    >>> total.symbols
    (0, 1, 2, 3, 4)
    >>> total.probs(torch.tensor([[0.2, 0.3, 0.5]]), torch.tensor([[0.0, 1.0, 0.0]]))
    tensor([[0.0000, 0.2000, 0.3000, 0.5000, 0.0000]])
    """
    if not callable(program):
        raise InputError(f"trace: the program must be a function, got {shorten(program)}.")
    if not symbols:
        raise InputError("trace: got no inputs. Write trace(program, symbols1, symbols2, ...).")
    _check_arguments(program, len(symbols))
    algebra = resolve("trace", provenance)
    members = [read_symbols("trace", each) for each in symbols]
    for domain in members:
        check_distinct("trace", domain)
    inputs = [
        (domain.members, read_groups("trace", own, len(domain)), own is True)
        for domain, own in zip(members, _each_exclusive(exclusive, len(members)), strict=True)
    ]
    flag("trace", "logits", logits)
    stand_ins = [
        Facts(log_probs=torch.zeros(len(each), 1), groups=groups, label=_no_label)
        for each, groups, _ in inputs
    ]
    notes = Notes(algebra, stand_ins)
    given = [
        Tagged(
            domain,
            Noted(number),
            notes,
            1,
            exclusive=len(groups) == 1,
            groups=groups,
            normalised=logits and not all_alone(groups, len(domain)),
        )
        for number, (domain, (_, groups, _)) in enumerate(zip(members, inputs, strict=True))
    ]
    result = program(*map(distribution_of, given))
    if not isinstance(result, Distribution):
        raise InputError(f"trace: the program must return a Distribution, got {shorten(result)}.")
    (_, d) = agreed([given[0], tagged_of(result)])  # a certain result may be of any provenance
    if d.provenance is not notes:
        raise InputError(
            "trace: the result doesn't depend on the inputs that trace gives to the program. Make "
            "it from the program's arguments."
        )
    tags = d.tags_like(Noted(0))
    if tags != Noted(notes.known - 1):  # the result is not that of the last step
        tags = notes.concat([tags])
    evaluate = None
    if notes.shadows:
        evaluate = algebra.evaluator(notes.shadows[tags.number], stand_ins)
    return Traced(
        algebra,
        inputs,
        notes.steps,
        d.domain.members,
        logits=logits,
        rows=d.batch,
        evaluate=evaluate,
    )


def _check_arguments(program: Callable[..., Any], count: int) -> None:
    """Refuse a program that can't be called with this many distributions."""
    try:
        signature = inspect.signature(program)
    except (TypeError, ValueError):  # the call will tell
        return
    try:
        signature.bind(*([None] * count))
    except TypeError as error:
        name = getattr(program, "__qualname__", type(program).__name__)
        raise InputError(
            f"trace: the program {name}{signature} can't be called with {count} "
            f"distribution{'s' * (count != 1)} ({error}). Give one list of symbols for each of its "
            "arguments: trace(program, symbols1, symbols2, ...)."
        ) from None


def _each_exclusive(exclusive: Any, inputs: int) -> list[Exclusive]:
    """`exclusive` for each input."""
    if isinstance(exclusive, bool):
        return [exclusive] * inputs
    own = isinstance(exclusive, (list, tuple)) and any(
        isinstance(each, bool) or any(isinstance(group, (list, tuple)) for group in each)
        for each in exclusive
        if isinstance(each, (bool, list, tuple))
    )
    if not own:
        return [exclusive] * inputs
    if len(exclusive) != inputs:
        raise InputError(
            f"trace: {len(exclusive)} values of exclusive for {inputs} inputs; give one per input."
        )
    return list(exclusive)
