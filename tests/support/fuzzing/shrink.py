"""The smallest program that fails in the same way."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from fuzzing.check import WrongAnswerError, check
from fuzzing.generate import Program, Statement, needed


def failure(program: Program) -> WrongAnswerError | None:
    """What is wrong with a program."""
    try:
        check(program)
    except WrongAnswerError as mismatch:
        return mismatch
    return None


def shrink(
    program: Program, found: WrongAnswerError, tries: int = 120
) -> tuple[Program, WrongAnswerError]:
    """A smaller program with the same kind of failure, and the failure itself.

    The program itself where its failure comes and goes, as one of threads may.
    """
    smaller = _failure_of_any(program) is not None
    while smaller and tries > 0:
        smaller = False
        for candidate in _smaller(program):
            tries -= 1
            again = _failure_of_any(candidate)
            if again is not None and again.kind == found.kind:
                program, found, smaller = candidate, again, True
                break
            if tries <= 0:
                break
    return program, found


def _failure_of_any(program: Program) -> WrongAnswerError | None:
    try:
        return failure(program)
    except Exception:  # a candidate that makes no sense, for either side
        return None


def _smaller(program: Program) -> Iterator[Program]:
    """Programs with one thing less."""
    made = [s.made for s in program.statements if s.made is not None and s.made[0] == "d"]
    for name in made[:-1]:
        yield needed(replace(program, result=name))
    for read in program.reads:
        yield replace(program, reads=tuple(other for other in program.reads if other != read))
    if program.chunk is not None:
        yield replace(program, chunk=None)
    if program.double:
        yield replace(program, double=False)
    for number, statement in enumerate(program.statements):
        for text in _simpler(statement, made):
            changed = [*program.statements]
            changed[number] = Statement(text, statement.feature)
            yield needed(replace(program, statements=tuple(changed)))


def _simpler(statement: Statement, made: list[str]) -> Iterator[str]:
    text, name = statement.text, statement.made
    if name is None:
        return
    used = re.findall(r"\bd\d+\b", text.split(" = ", 1)[-1])
    if used and used != [name]:
        for other in dict.fromkeys(used):
            if other != name:
                yield f"{name} = {other}"
        first = used[0]
        for other in dict.fromkeys(used[1:]):
            if other not in (first, name):
                yield re.sub(rf"\b{other}\b", first, text)
    for option in (r", where=\[[^\]]*\]", ", cache=False", r", exclusive=False"):
        shorter = re.sub(option, "", text)
        if shorter != text:
            yield shorter
    rounded = re.sub(r"\d\.\d{3,}", lambda number: f"{float(number[0]):.2g}", text)
    if statement.feature == "leaf" and rounded != text:
        yield rounded
