"""Compares the numbers of a result, and their derivatives, with those by the definitions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch

import dolphin as dl
from fuzzing.generate import Program
from fuzzing.jets import STEP, Jet, total
from fuzzing.rows import key_of
from fuzzing.running import direction
from fuzzing.semirings import WITHOUT_GRADIENT

ABSENT = "a symbol that no program has"
TINY_DIVISOR = 1e-12


class WrongAnswerError(Exception):
    """Dolphin gives something else; `kind` says of what sort that is."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind


def _floats(numbers: Any) -> Any:
    if isinstance(numbers, list):
        return [_floats(number) for number in numbers]
    return numbers if isinstance(numbers, torch.Tensor) else float(numbers)


class Comparison:
    """One result, by Dolphin and by the definitions."""

    def __init__(
        self, program: Program, known: dict[str, Any], names: dict[str, Any], k: int | None
    ) -> None:
        self.program, self.known, self.names, self.k = program, known, names, k
        self.expected = expected = known[program.result]
        self.ordered = "program keep" not in program.features
        self.result: dl.Distribution = names[program.result]
        self.tensors = {
            int(name[1:]): value
            for name, value in names.items()
            if name[0] == "x" and name[1:].isdigit() and isinstance(value, torch.Tensor)
        }
        order = sorted(self.tensors)  # the reference numbers tensors as they come
        self.leaves = [self.tensors[number] for number in order]
        self.batch = expected.batch_size
        self.symbols = expected.symbols
        self.values = [
            [expected.probability(row, symbol) for symbol in self.symbols]
            for row in range(self.batch)
        ]
        single = program.single or self.result.dtype == torch.float32
        self.tolerance = 3e-5 if single else 1e-8
        self.notes: list[str] = []
        differentiable = program.provenance not in WITHOUT_GRADIENT
        self.learned = [leaf for leaf in self.leaves if leaf.requires_grad]
        self.learns = differentiable and bool(self.learned)

    def compare(self, reads: Sequence[str] | None = None) -> None:
        """All that the program wants to be read; or the numbers and these."""
        reads = self.program.reads if reads is None else reads
        if self.result.batch_size != self.batch:
            raise WrongAnswerError("rows", f"{self.result.batch_size} rows, not {self.batch}")
        found, wanted = list(self.result.symbols), self.symbols
        if not self._same(map(key_of, found), map(key_of, wanted)):
            raise WrongAnswerError("symbols", f"{found}, not {wanted}")
        self._dtype()
        self._probs()
        for name in reads:
            if name not in ("again", "apart"):
                getattr(self, f"_{name}")()
        if self.program.double and self.learns:
            self._second_derivatives()
        if "apart" in reads:  # comes last: it spoils the inputs
            self._apart()

    def _same(self, found: Iterable[Any], wanted: Iterable[Any]) -> bool:
        one, other = list(found), list(wanted)
        if self.ordered:
            return one == other
        return len(one) == len(other) and set(one) == set(other)

    def _apart(self) -> None:
        """Nothing shares memory with what a user can write to."""
        for read in (self.result.probs, self.result.log_probs):
            read(symbols=[*self.symbols, ABSENT]).detach().fill_(0.5)
            if self.symbols:
                read().detach().fill_(0.5)
        for leaf in self.leaves:
            leaf.detach().fill_(0.25)
        wanted = [[*(p.real for p in row), 0.0] for row in self.values]
        self.close("values after writing", self.result.probs([*self.symbols, ABSENT]), wanted)

    def _dtype(self) -> None:
        if self.program.provenance == "counting" or not any(
            part.grad for row in self.values for part in row
        ):
            return
        if "scribble" in self.program.features:  # which may name a tensor without using it
            return
        dtypes = {leaf.dtype for leaf in self.leaves}
        wanted = torch.float64 if torch.float64 in dtypes else torch.float32
        found = self.result.probs(symbols=[ABSENT]).dtype
        if found != wanted and len(dtypes) == 1:
            raise WrongAnswerError("dtype", f"{found}, not {wanted}")

    # -- numbers -----------------------------------------------------------------------------------

    def close(self, kind: str, found: Any, wanted: Any, slack: float = 1.0) -> None:
        found = torch.as_tensor(found, dtype=torch.float64).detach()
        wanted = torch.as_tensor(_floats(wanted), dtype=torch.float64)
        if not torch.isfinite(found).all():
            raise WrongAnswerError(f"{kind} not finite", f"{found.tolist()}, not {wanted.tolist()}")
        bound = self.tolerance * slack
        if found.shape != wanted.shape or not torch.allclose(found, wanted, rtol=bound, atol=bound):
            raise WrongAnswerError(kind, f"{found.tolist()}, not {wanted.tolist()}")

    def _probs(self) -> None:
        found = self.result.probs(symbols=[*self.symbols, ABSENT])
        wanted = [[*(p.real for p in row), 0.0] for row in self.values]
        self.close("values", found, wanted)
        if self.symbols and self.ordered:
            self.close("values", self.result.probs(), [row[:-1] for row in wanted])
        if self.learns:
            parts = [[*row, Jet(0.0)] for row in self.values]
            self._gradients("gradients", found, parts)

    def _weighted(self, found: torch.Tensor, parts: list[list[Jet]]) -> tuple[torch.Tensor, Jet]:
        """A sum with irregular weights, which stands for all entries at once; 0 at corners."""
        weights = [
            [math.sin(1.0 + 3.0 * r + 7.0 * c) * part.smooth for c, part in enumerate(row)]
            for r, row in enumerate(parts)
        ]
        jets = (
            part * weight
            for row, own in zip(parts, weights, strict=True)
            for part, weight in zip(row, own, strict=True)
            if weight
        )
        return (torch.tensor(weights, dtype=found.dtype) * found).sum(), total(jets)

    def _gradients(self, kind: str, found: torch.Tensor, parts: list[list[Jet]]) -> None:
        summed, wanted = self._weighted(found, parts)
        if not summed.requires_grad:
            if any(abs(part) > self.tolerance for part in wanted.grad.values()):
                raise WrongAnswerError(kind, "the result doesn't depend on its inputs")
            return
        gradients = torch.autograd.grad(summed, self.learned, allow_unused=True, retain_graph=True)
        self._compare_gradients(kind, gradients, {k: g.real for k, g in wanted.grad.items()})

    def _compare_gradients(
        self, kind: str, gradients: Any, wanted: dict[Any, float], order: int = 1
    ) -> None:
        # A quotient's gradient is a difference of numbers as large as one over the divisor: what
        # is left of them, here and in the expectation, is rounding if the divisor is very small.
        # Second derivatives are differences of numbers as large as one over its square.
        divisor = float(self.expected.reference.divisor)
        if divisor < TINY_DIVISOR:
            self.notes.append("gradients of tiny quotients not compared")
            return
        divisor = divisor**order
        bound = (
            30.0 / divisor if self.tolerance > 1e-6 else max(30.0, 1e-14 / divisor / self.tolerance)
        )
        for gradient, leaf in zip(gradients, self.learned, strict=True):
            number = next(at for at, other in enumerate(self.leaves) if other is leaf)
            found = torch.zeros_like(leaf) if gradient is None else gradient
            target = torch.zeros(leaf.shape, dtype=torch.float64)
            for (owner, row, column), part in wanted.items():
                if owner == number:
                    target[row, column] = float(part)
            self.close(kind, found, target, slack=bound * max(1.0, float(target.abs().max())))

    def _second_derivatives(self) -> None:
        found = self.result.probs(symbols=[*self.symbols, ABSENT])
        summed, wanted = self._weighted(found, [[*row, Jet(0.0)] for row in self.values])
        if not summed.requires_grad:
            return
        second = {key: part.imag / STEP for key, part in wanted.grad.items()}
        try:
            first = torch.autograd.grad(summed, self.learned, allow_unused=True, create_graph=True)
            along = torch.zeros((), dtype=torch.float64)
            for leaf, gradient in zip(self.learned, first, strict=True):
                if gradient is None:
                    continue
                number = next(at for at, other in enumerate(self.leaves) if other is leaf)
                directions = [
                    [direction(number, r, c) for c in range(gradient.shape[1])]
                    for r in range(gradient.shape[0])
                ]
                along = along + (gradient * torch.tensor(directions, dtype=torch.float64)).sum()
            if not along.requires_grad:
                if any(abs(part) > self.tolerance for part in second.values()):
                    raise WrongAnswerError("second derivatives", "gradients are constants")
                return
            gradients = torch.autograd.grad(along, self.learned, allow_unused=True)
        except dl.UnsupportedError:
            self.notes.append("double backward refused")
            return
        self._compare_gradients("second derivatives", gradients, second, order=2)
