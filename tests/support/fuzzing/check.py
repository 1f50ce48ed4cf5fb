"""Runs a program with Dolphin and by the definitions, and compares all that can be read of it."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import dataclass
from typing import Any

import mpmath

import dolphin as dl
from fuzzing.comparing import WrongAnswerError
from fuzzing.generate import Program
from fuzzing.jets import DIGITS, STEP
from fuzzing.readings import Readings, others_of, targets_of
from fuzzing.rows import Value
from fuzzing.running import by_definition, by_dolphin
from fuzzing.semirings import RefusedError, TopK, UnsettledError


@dataclass(frozen=True)
class Outcome:
    """What became of a program that was compared without a mismatch."""

    what: str  # compared, refused, unsettled or too large
    k: int | None
    notes: tuple[str, ...] = ()


def check(program: Program) -> Outcome:
    """Raises `WrongAnswerError` where Dolphin doesn't do what the definitions say."""
    k = program.k
    try:
        known, semiring = by_definition(program, k)
        expected = known[program.result]
        if "prob_of" in program.reads:
            others_of(expected, targets_of(program, expected))  # so that k is enough for these, too
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
    comparison = Readings(program, known, by_dolphin(program, k), k)
    comparison.compare()
    for _ in range(2 if program.features & {"fixpoint", "again"} else 0):
        # What was learnt of it is used now: plans, and whole recursions.
        Readings(program, known, by_dolphin(program, k), k).compare(reads=())
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
                if abs(a - b) > 1e-8 * (1.0 + abs(b)) or (a == 0.0) != (b == 0.0):
                    return True
    return False


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
