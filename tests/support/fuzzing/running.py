"""Runs the text of a program: with Dolphin, and by the definitions."""

from __future__ import annotations

import array
import copy
import functools
import math
import pickle
import sys
import types
from typing import Any

import numpy as np
import torch

import dolphin as dl
from fuzzing.generate import Program
from fuzzing.reference import Reference, Torch
from fuzzing.rows import Value
from fuzzing.semirings import RefusedError, Semiring, UnsettledError, semiring_of


def direction(leaf: int, row: int, column: int) -> float:
    """Where second derivatives are taken along."""
    return math.sin(1.0 + 2.0 * leaf + 5.0 * row + 11.0 * column)


def _modules(**others: Any) -> dict[str, Any]:
    names = {"array": array, "functools": functools, "np": np, "inf": math.inf, "nan": math.nan}
    return {"__name__": "fuzzed", **names, **others}


def by_definition(
    program: Program, k: int | None, *, precise: bool = False
) -> tuple[dict[str, Any], Semiring]:
    """All variables by the definitions; `precise`: in numbers of many digits."""
    semiring = semiring_of(program.provenance, k)
    # A copy has the same facts, but it is a distribution of its own to choose from.
    same = types.SimpleNamespace(loads=_copied, dumps=lambda d: d, deepcopy=_copied)
    stand_in = Torch(direction if program.double else None, precise=precise)
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
    return Value(value.reference, value.each, exclusive=value.exclusive, given=value.given)


def by_dolphin(program: Program, k: int | None) -> dict[str, Any]:
    """All variables of the program, run as it stands."""
    module = types.ModuleType("fuzzed")  # where pickle finds its classes
    sys.modules["fuzzed"], names = module, module.__dict__
    names.update(_modules(dl=dl, torch=torch, pickle=pickle, copy=copy))
    indented = "\n".join("    " + line for line in program.body().splitlines())
    exec(compile(f"{program.context(k)}\n{indented}", "<program>", "exec"), names)
    return names
