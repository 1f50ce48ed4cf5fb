"""The same program as a traced module, where its inputs allow that."""

from __future__ import annotations

import re
from typing import Any

import torch

import dolphin as dl
from fuzzing.generate import Program

_INPUT = re.compile(
    r"(d\d+) = dl\.Distribution(?P<logits>\.from_logits)?\((?P<x>x\d+), (?P<symbols>\[.*?\])"
    r"(?:, exclusive=(?P<exclusive>.*))?\)$"
)


def traced(
    program: Program, names: dict[str, Any], k: int | None
) -> tuple[dl.Traced, list[torch.Tensor]] | None:
    """The module and the tensors to give to it; None if the program can't be traced."""
    found = {}
    for statement in program.statements:
        match = _INPUT.match(statement.text)
        if match and match[1] in program.inputs:
            found[match[1]] = match
    if set(found) != set(program.inputs) or not found or "Card" in program.body():
        return None
    if any(s.feature in ("input rows", "misuse", "scribble") for s in program.statements):
        return None
    kinds = {match["logits"] for match in found.values()}
    if len(kinds) > 1:
        return None
    symbols = ", ".join(match["symbols"] for match in found.values())
    exclusive = ", ".join(match["exclusive"] or "True" for match in found.values())
    body = "\n".join(
        "        " + line
        for statement in program.statements
        if statement.feature != "leaf" and statement.made not in found
        for line in statement.text.splitlines()
    )
    text = (
        f"{program.context(k)}\n    def program({', '.join(found)}):\n{body}\n"
        f"        return {program.result}\n    module = dl.trace(program, {symbols}, "
        f"exclusive=[{exclusive}], logits={None not in kinds})\n"
    )
    own = {**names, "program": None}
    try:
        exec(compile(text, "<trace>", "exec"), own)
    except dl.DolphinError:  # what it does depends on rows or on numbers
        return None
    return own["module"], [names[match["x"]] for match in found.values()]
