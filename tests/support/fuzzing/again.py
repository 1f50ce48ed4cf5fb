"""The same program run in other ways: as a function of its tensors, and in several threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch

import dolphin as dl
from fuzzing.generate import Program

FUNCTIONAL = {"damp", "exact", "noisy-or", "viterbi"}
"""The provenances whose programs `torch.func` can differentiate."""


def as_function(
    program: Program, names: dict[str, Any], k: int | None
) -> tuple[Callable[..., dl.Distribution[Any]], list[str]] | None:
    """The program as a function of its tensors, and their names; None if it changes them."""
    if program.provenance not in FUNCTIONAL or program.features & {"scribble", "misuse", "copy"}:
        return None
    body = "\n".join("    " + s.text.replace("\n", "\n    ") for s in _but_leaves(program))
    code = compile(f"{program.context(k)}\n{body or '    pass'}", "<function>", "exec")
    leaves = [s.made for s in program.statements if s.feature == "leaf" and s.made]

    def run(*tensors: torch.Tensor) -> dl.Distribution[Any]:
        own = {**names, **dict(zip(leaves, tensors, strict=True))}
        exec(code, own)
        return own[program.result]

    return run, leaves


def _but_leaves(program: Program) -> list[Any]:
    return [statement for statement in program.statements if statement.feature != "leaf"]


def in_threads(run: Callable[[], Any], threads: int) -> list[Any]:
    """What this many threads get that begin at the same time."""
    found: list[Any] = [None] * threads
    barrier = threading.Barrier(threads)

    def work(number: int) -> None:
        barrier.wait()
        try:
            found[number] = run()
        except Exception as error:
            found[number] = error

    started = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return found
