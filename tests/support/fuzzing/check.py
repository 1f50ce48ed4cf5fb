"""Runs a program with Dolphin and by the definitions, and compares all that can be read of it."""

from __future__ import annotations

import array
import copy
import functools
import itertools
import math
import pickle
import sys
import types
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
import torch

import dolphin as dl
from fuzzing import again, tracing
from fuzzing.answers import expectation, uncertainty
from fuzzing.generate import Program
from fuzzing.jets import DIGITS, STEP, Jet, total
from fuzzing.reference import Reference, Torch
from fuzzing.rows import Row, Value, key_of
from fuzzing.semirings import (
    WITHOUT_GRADIENT,
    RefusedError,
    Semiring,
    TopK,
    UnsettledError,
    semiring_of,
)

ABSENT = "a symbol that no program has"
TINY_DIVISOR = 1e-12


class WrongAnswerError(Exception):
    """Dolphin gives something else; `kind` says of what sort that is."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind


@dataclass(frozen=True)
class Outcome:
    """What became of a program that was compared without a mismatch."""

    what: str  # compared, refused, unsettled or too large
    k: int | None
    notes: tuple[str, ...] = ()


def _direction(leaf: int, row: int, column: int) -> float:
    return math.sin(1.0 + 2.0 * leaf + 5.0 * row + 11.0 * column)


def _modules(**others: Any) -> dict[str, Any]:
    names = {"array": array, "functools": functools, "np": np, "inf": math.inf, "nan": math.nan}
    return {"__name__": "fuzzed", **names, **others}


BRANCHES = {"where", "program", "program keep", "batched", "weights learned", "detach"}
"""Statements that may leave an operand out altogether."""


def by_definition(
    program: Program, k: int | None, *, precise: bool = False
) -> tuple[dict[str, Any], Semiring]:
    """All variables by the definitions; `precise`: in numbers of many digits."""
    semiring = semiring_of(program.provenance, k)
    # A copy has the same facts, but it is a distribution of its own to choose from.
    same = types.SimpleNamespace(loads=_copied, dumps=lambda d: d, deepcopy=_copied)
    stand_in = Torch(_direction if program.double else None, precise=precise)
    names = _modules(dl=Reference(semiring), torch=stand_in, pickle=same, copy=same)
    try:
        exec(compile(program.body(), "<reference>", "exec"), names)
    except (RefusedError, UnsettledError):
        raise
    except RecursionError:
        raise UnsettledError("too deep") from None
    except Exception as error:
        raise RefusedError(repr(error)) from error
    return names, semiring


def _copied(value: Value) -> Value:
    return Value(value.reference, value.each, exclusive=value.exclusive)


def by_dolphin(program: Program, k: int | None) -> dict[str, Any]:
    """All variables of the program, run as it stands."""
    module = types.ModuleType("fuzzed")  # where pickle finds its classes
    sys.modules["fuzzed"], names = module, module.__dict__
    names.update(_modules(dl=dl, torch=torch, pickle=pickle, copy=copy))
    indented = "\n".join("    " + line for line in program.body().splitlines())
    exec(compile(f"{program.context(k)}\n{indented}", "<program>", "exec"), names)
    return names


def check(program: Program) -> Outcome:
    """Raises `WrongAnswerError` where Dolphin doesn't do what the definitions say."""
    k = program.k
    try:
        known, semiring = by_definition(program, k)
        expected = known[program.result]
        if "prob_of" in program.reads:
            others_of(expected, _targets(program, expected))  # so that k is enough for these, too
    except UnsettledError:
        return Outcome("unsettled", k)
    except RefusedError as refusal:
        return _check_refusal(program, k or 3, refusal)
    if isinstance(semiring, TopK) and k is None:
        most = 16 if semiring.exact else 60
        if semiring.widest > most:
            return Outcome("unsettled", k)
        # More than is needed changes nothing; far more is counted in another way.
        spare = 8 if program.seed % 5 == 4 else program.seed % 3
        k = min(most, semiring.widest + spare)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            try:
                notes = _compared(program, known, k)
            except WrongAnswerError:
                with mpmath.workdps(DIGITS):
                    precise, _ = by_definition(program, program.k, precise=True)
                    if not _differ(expected, precise[program.result]):
                        raise
                    notes = ["expected in many digits", *_compared(program, precise, k)]
        except WrongAnswerError:
            raise
        except UnsettledError:
            return Outcome("unsettled", k)
        except dl.SizeError:  # said clearly; the tally shows how many these are
            return Outcome("too large", k)
        except Exception as error:
            if isinstance(error, dl.InputError) and expected.reference.may_refuse(str(error)):
                return Outcome("refused", k)
            kind = type(error).__name__
            raise WrongAnswerError(f"error {kind}", str(error)) from error
    return Outcome("compared", k, tuple(notes))


def _compared(program: Program, known: dict[str, Any], k: int | None) -> list[str]:
    comparison = Comparison(program, known, by_dolphin(program, k), k)
    comparison.compare()
    for _ in range(2 if program.features & {"fixpoint", "again"} else 0):
        # What was learnt of it is used now: plans, and whole recursions.
        Comparison(program, known, by_dolphin(program, k), k).compare(reads=())
    return comparison.notes


def _differ(expected: Value, precise: Value) -> bool:
    """Whether it is rounding in the expectation that Dolphin differs from.

    Only then a program is compared again: running it once more could hide what is wrong.
    """
    for row, symbol in itertools.product(range(expected.batch_size), expected.symbols):
        one, other = expected.probability(row, symbol), precise.probability(row, symbol)
        pairs = [(one.value, other.value)]
        pairs += [(one.grad.get(key, 0.0), part) for key, part in other.grad.items()]
        for rough, exact in pairs:
            for a, b in ((rough.real, exact.real), (rough.imag / STEP, exact.imag / STEP)):
                if abs(a - b) > 1e-8 * (1.0 + abs(b)):
                    return True
    return False


def _targets(program: Program, expected: Value) -> list[Any]:
    """One symbol per row; now and then one that isn't there."""
    options = [*expected.symbols, 99]
    return [options[(program.seed + 3 * r) % len(options)] for r in range(expected.batch_size)]


def others_of(expected: Value, targets: list[Any]) -> list[float]:
    """How likely it is in each row that a symbol other than the target holds."""
    semiring, probs = expected.reference.semiring, []
    for number, target in enumerate(targets):
        tags = [tag for s, tag in expected.row_of(number) if key_of(s) != key_of(target)]
        probs.append(semiring.probability(semiring.plus(tags)).real if tags else 0.0)
    return probs


def _check_refusal(program: Program, k: int, refusal: RefusedError) -> Outcome:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            by_dolphin(program, k)
    except dl.DolphinError:
        return Outcome("refused", k)
    except Exception as error:
        raise WrongAnswerError(f"raw error {type(error).__name__}", str(error)) from error
    raise WrongAnswerError("accepted", f"what must be refused: {refusal}")


def _choices(value: Value, row: int) -> list[tuple[Any, Any]]:
    """Every choice of an input's symbols in a row, and the tag of its being made."""
    semiring, entries = value.reference.semiring, list(value.row_of(row))
    options = []
    for holds in itertools.product((False, True), repeat=len(entries)):
        if value.exclusive and sum(holds) > 1:
            continue
        held = tuple(symbol for (symbol, _), h in zip(entries, holds, strict=True) if h)
        tags = [t if h else semiring.negate(t) for (_, t), h in zip(entries, holds, strict=True)]
        name = (held[0] if held else None) if value.exclusive else held
        options.append((name, semiring.times(tags)))
    return options


def _alike(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return all(
        (set(a) == set(b)) if isinstance(a, tuple) and isinstance(b, tuple) else a == b
        for a, b in zip(one, other, strict=True)
    )


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
        # What a sample makes of certain symbols and plain weights has the default precision.
        plain = "batched" in program.features and "dl.weighted" in program.body()
        single = program.single or plain or self.result.dtype == torch.float32
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

    def _compare_gradients(self, kind: str, gradients: Any, wanted: dict[Any, float]) -> None:
        # A quotient's gradient is a difference of numbers as large as one over the divisor: what
        # is left of them, here and in the expectation, is rounding if the divisor is very small.
        divisor = float(self.expected.reference.divisor)
        if divisor < TINY_DIVISOR:
            self.notes.append("gradients of tiny quotients not compared")
            return
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
                    [_direction(number, r, c) for c in range(gradient.shape[1])]
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
        self._compare_gradients("second derivatives", gradients, second)

    # -- other ways to read ------------------------------------------------------------------------

    def _log_probs(self) -> None:
        found = self.result.log_probs(symbols=[*self.symbols, ABSENT])
        for row, parts in enumerate(self.values):
            for column, part in enumerate(parts):
                if part.real > (1e-3 if self.program.single else 1e-6):
                    self.close("log_probs", found[row, column], math.log(part.real))
                elif float(found[row, column]) > -6.0:
                    raise WrongAnswerError(
                        "log_probs", f"{float(found[row, column])} of {part.real}"
                    )
            self.close("log_probs", found[row, -1], -1e4)
        if self.learns:
            smooth = [
                [part.log() if part.real > 1e-3 else Jet(0.0, {}, smooth=False) for part in row]
                + [Jet(0.0)]
                for row in self.values
            ]
            self._gradients("gradients of log_probs", found, smooth)

    def _targets(self) -> list[Any]:
        return _targets(self.program, self.expected)

    def _prob_of(self) -> None:
        targets = self._targets()
        wanted = [self.expected.probability(r, t).real for r, t in enumerate(targets)]
        self.close("prob_of", self.result.prob_of(targets), wanted)
        matched = self.result.prob_of(targets, match=lambda s, t: key_of(s) != key_of(t))
        self.close("prob_of matches", matched, others_of(self.expected, targets))

    def _argmax(self) -> None:
        found = self.result.argmax(default=ABSENT)
        for row, symbol in enumerate(found):
            own = self._row(row)
            if not own:
                if symbol != ABSENT:
                    raise WrongAnswerError("argmax", f"{symbol!r} of an empty row")
                continue
            if key_of(symbol) not in own:
                raise WrongAnswerError("argmax", f"{symbol!r} is not in row {row}")
            if own[key_of(symbol)] < max(own.values()) - self.tolerance:
                raise WrongAnswerError("argmax", f"{symbol!r} of {own}")

    def _row(self, row: int) -> dict[Any, float]:
        own: Row = self.expected.row_of(row)
        return {key_of(s): self.expected.probability(row, s).real for s in own.symbols}

    def _top(self) -> None:
        for row, pairs in enumerate(self.result.top(2)):
            own = self._row(row)
            wanted = sorted(own.values(), reverse=True)[:2]
            self.close("top", [p for _, p in pairs], wanted, slack=1e3)
            self.close("top", [own[key_of(s)] for s, _ in pairs], wanted, slack=1e3)

    def _rows(self) -> None:
        for row in range(self.batch):
            own, pairs = self._row(row), self.result.row(row)
            if not self._same((key_of(s) for s, _ in pairs), own):
                raise WrongAnswerError(
                    "symbols of a row", f"{[s for s, _ in pairs]}, not {list(own)}"
                )
            self.close("row", [p for _, p in pairs], [own[key_of(s)] for s, _ in pairs], slack=1e3)

    def _expected(self) -> None:
        numbers = (bool, int, float)
        if not all(isinstance(s, numbers) and s == s for s in self.symbols):
            return
        found = dl.expected(self.result)
        parts = [expectation(self.expected, row) for row in range(self.batch)]
        self.close("expected", found, [part.real for part in parts], slack=30.0)
        if self.learns:
            self._gradients("gradients of expected", found[:, None], [[part] for part in parts])

    def _entropy(self) -> None:
        if self.program.provenance == "counting":
            return
        found = dl.entropy(self.result)
        parts = [uncertainty(self.expected, row) for row in range(self.batch)]
        for row, part in enumerate(parts):
            if part is not None:
                self.close("entropy", found[row], part.real, slack=30.0)

    def _posterior(self) -> None:
        """Of every input, given the row's target; where a target can't be, nothing is likely."""
        inputs = self.program.inputs
        if not inputs or self.program.provenance != "exact":
            return
        if any(self.known[name].batch_size not in (1, self.batch) for name in inputs):
            return
        targets, semiring = self._targets(), self.expected.reference.semiring
        found = dl.posterior([self.names[name] for name in inputs], self.result, targets)
        tags = [self.expected.row_of(r).tag(t, semiring.zero) for r, t in enumerate(targets)]
        whole = [semiring.probability(tag) for tag in tags]
        for name, table in zip(inputs, found, strict=True):
            value = self.known[name]
            for row, symbol in itertools.product(range(self.batch), value.symbols):
                if 0.0 < whole[row].real < 1e-3:
                    continue
                own = value.row_of(row).tag(symbol, semiring.zero)
                both = semiring.probability(semiring.times([own, tags[row]])).real
                part = table[row, self.names[name].symbols.index(symbol)]
                self.close("posterior", part, both / whole[row].real if both else 0.0, slack=1e2)

    def _most_likely(self) -> None:
        """No other choice of the inputs' symbols under which the result is the target is likelier.

        Where the program has inputs that are not asked for, there is more to choose.
        """
        inputs = self.program.inputs
        made = {s.feature for s in self.program.statements}
        other = made & {"input rows", "batched", "weights", "weights learned", "normalized",
                        "condition", "program", "misuse"}  # fmt: skip
        if not inputs or self.program.provenance != "exact" or other:
            return
        values = [self.known[name] for name in inputs]
        if any(value.batch_size not in (1, self.batch) for value in values):
            return
        targets, semiring = self._targets(), self.expected.reference.semiring
        found = dl.most_likely([self.names[name] for name in inputs], self.result, targets)
        for row, (target, choice) in enumerate(zip(targets, found, strict=True)):
            tag = self.expected.row_of(row).tag(target, semiring.zero)
            options = [_choices(value, row) for value in values]
            if math.prod(map(len, options)) > 300:
                continue
            best, own = 0.0, 0.0
            for worlds in itertools.product(*options):
                chosen = tuple(name for name, _ in worlds)
                both = semiring.probability(semiring.times([tag, *(w for _, w in worlds)])).real
                best = max(best, both)
                own = both if choice is not None and _alike(chosen, choice) else own
            if best > 1e-6 and own < best * (1.0 - 1e-4):
                raise WrongAnswerError("most_likely", f"{choice} has {own}, another one {best}")

    def _nll(self) -> None:
        if self.program.provenance == "counting":  # counts are no probabilities
            return
        targets = self._targets()
        parts = [self.expected.probability(r, t) for r, t in enumerate(targets)]
        losses = dl.nll_loss(self.result, targets, reduction="none")
        self._losses("nll_loss", losses, parts, [Jet(0.0)] * self.batch)

    def _bce(self) -> None:
        if self.program.provenance == "counting":
            return
        targets = self._targets()
        parts = [self.expected.probability(r, t) for r, t in enumerate(targets)]
        rest = []
        for row, target in enumerate(targets):
            others = [s for s in self.expected.row_of(row).symbols if key_of(s) != key_of(target)]
            wrong = [1.0 - self.expected.probability(row, s) for s in others]
            sure = any(number.real < 1e-3 for number in wrong)
            rest.append(Jet(math.nan) if sure else total(-number.log() for number in wrong))
        losses = dl.bce_loss(self.result, targets, reduction="none")
        self._losses("bce_loss", losses, parts, rest)

    def _losses(self, kind: str, losses: torch.Tensor, parts: list[Jet], rest: list[Jet]) -> None:
        """-log p of each target, and what else a row costs; nan where rounding decides."""
        wanted = []
        for row, (part, more) in enumerate(zip(parts, rest, strict=True)):
            absent = key_of(self._targets()[row]) not in self.expected.row_of(row).entries
            cost = Jet(1e4) if absent else Jet(math.nan)
            if part.real > 1e-3:
                cost = -part.log()
            elif float(losses[row]) < 6.0:
                raise WrongAnswerError(
                    kind, f"{float(losses[row])} for a probability of {part.real}"
                )
            cost = cost + more
            wanted.append(cost.cornered(cost.real != cost.real))
        if not torch.isfinite(losses).all():
            raise WrongAnswerError(f"{kind} not finite", str(losses.tolist()))
        known = [row for row, cost in enumerate(wanted) if cost.real == cost.real]
        self.close(kind, losses[known], [wanted[row].real for row in known])
        if self.learns:
            self._gradients(f"gradients of {kind}", losses[:, None], [[cost] for cost in wanted])
            every = len(self.learned) == len(self.leaves)
            if every and not losses.requires_grad and not self.program.features & BRANCHES:
                raise WrongAnswerError(kind, "has no graph, so that .backward() fails")

    def _func(self) -> None:
        """Gradients of the program as a function."""
        function = again.as_function(self.program, self.names, self.k)
        if function is None or not self.learns or not self.symbols:
            return
        run, leaves = function
        parts = [[*row, Jet(0.0)] for row in self.values]
        tensors = [self.names[name].detach() for name in leaves]
        places = [at for at, name in enumerate(leaves) if self.names[name].requires_grad]

        def weighted(*given: torch.Tensor) -> torch.Tensor:
            return self._weighted(run(*given).probs([*self.symbols, ABSENT]), parts)[0]

        gradients = torch.func.grad(weighted, tuple(places))(*tensors)
        self.notes.append("torch.func")
        wanted = self._weighted(torch.zeros(len(parts), len(parts[0])), parts)[1]
        given = (self.names[leaves[at]] for at in places)
        found = {id(leaf): grad for leaf, grad in zip(given, gradients, strict=True)}
        self._compare_gradients(
            "gradients of torch.func",
            [found[id(leaf)] for leaf in self.learned],
            {key: part.real for key, part in wanted.grad.items()},
        )

    def _threads(self) -> None:
        """The same in two threads that begin at the same time."""
        body = self.program.body()
        if self.program.seed % 8 or "def shift" in body:  # which changes a module
            return
        if "class Card" in body and "pickle" in body:  # a module has one class of a name
            return

        def run() -> torch.Tensor:
            dl.cache_clear()
            names = by_dolphin(self.program, self.k)
            return names[self.program.result].probs([*self.symbols, ABSENT]).detach()

        wanted = [[*(p.real for p in row), 0.0] for row in self.values]
        for found in again.in_threads(run, 2):
            if isinstance(found, Exception):
                raise WrongAnswerError("error in a thread", repr(found)) from found
            self.close("values in threads", found, wanted)

    def _trace(self) -> None:
        program = tracing.traced(self.program, self.names, self.k)
        if program is None:
            return
        module, numbers = program
        if not self._same(map(key_of, module.symbols), map(key_of, self.symbols)):
            raise WrongAnswerError("trace symbols", f"{module.symbols}, not {self.symbols}")
        self.notes.append("traced")
        self._misused_trace(module, numbers)
        if not self.symbols:
            return
        places = {key_of(symbol): at for at, symbol in enumerate(module.symbols)}
        found = module.probs(*numbers)[:, [places[key_of(symbol)] for symbol in self.symbols]]
        eager = torch.tensor([[p.real for p in row] for row in self.values], dtype=torch.float64)
        self.close("trace values", found, eager.expand(found.shape[0], -1))
        if self.learns and found.shape[0] == self.batch:
            self._gradients("trace gradients", found, self.values)

    def _misused_trace(self, module: dl.Traced, numbers: list[torch.Tensor]) -> None:
        wide = [torch.zeros(1, tensor.shape[1] + 1) for tensor in numbers]
        try:
            module(*wide)
        except dl.DolphinError:
            return
        raise WrongAnswerError("trace accepted", "tensors with a column too many")
