"""Dolphin against the definitions, evaluated literally by `tests/support/literal.py`.

Both get the same inputs.

The literal evaluator keeps a number for every fact in every proof of every symbol, runs the user's
function for every combination at every step, and keeps what any row has sampled in all rows. The
programs are those of the tasks, word for word: only what the name `dl` stands for in their modules
is exchanged. A step is forward and backward. Probabilities and gradients are compared.

    python benchmarks/against_literal.py --json benchmarks/results/against_literal.json
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor

import dolphin as dl
from dolphin_tasks.bench.formulas import Formula
from dolphin_tasks.bench.paths import GridPaths, directed_edges
from dolphin_tasks.hwf import program as formulas
from dolphin_tasks.pathfinder import program as paths

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))
from literal import Dense, Literal  # pyright: ignore[reportMissingImports]

WARM_UP = 3
WANTED = {"hwf-7": 50, "hwf-15": 100, "path-6x6": 20}


class LiteralDolphin(Literal):
    """The literal evaluator with the part of Dolphin's interface that the programs use."""

    def sample(self, d: Dense, k: int, per_row: bool = True) -> Dense:
        """Tags of symbols that a row did not sample are 0 in that row, as in Dolphin."""
        return super().sample(d, k, per_row=per_row)

    def apply(self, *arguments: Any, where: Any = None) -> Dense:
        """In all rows."""
        assert where is None or where.all()
        return super().apply(*arguments)

    def apply_if(self, *arguments: Any, on: Any = None) -> Dense:
        """Both a join key and a further condition."""
        if on is None or len(arguments) == 3:
            return super().apply_if(*arguments, on=on)
        one, other, function, condition = arguments
        first, second = on
        return super().apply_if(
            one, other, function, lambda x, y: first(x) == second(y) and condition(x, y)
        )

    def fixpoint(self, step: Callable[[Dense], Dense], start: Dense, rounds: None = None) -> Dense:
        """Until nothing changes."""
        return super().fixpoint(step, start)

    def _combine(self, distributions: Sequence[Dense], f: Callable, condition: Callable) -> Dense:
        """As in Dolphin, two `nan` are one symbol also inside tuples."""
        return super()._combine(distributions, lambda *symbols: _one_nan(f(*symbols)), condition)


def _one_nan(symbol: Any) -> Any:
    if isinstance(symbol, tuple):
        return tuple(map(_one_nan, symbol))
    return math.nan if symbol != symbol else symbol


Program = Callable[[Any, Sequence[Any]], Any]  # operations, inputs -> result


def formula(operations: Any, places: Sequence[Any]) -> Any:
    """`hwf-*` up to the distribution of values."""
    first = places[0]
    rows = len(first.tags) if isinstance(first, Dense) else first.batch_size
    with mock.patch.object(formulas, "dl", operations):
        return formulas.calculate(places, torch.full((rows,), len(places)))


def grid(operations: Any, inputs: Sequence[Any]) -> Any:
    """`path-6x6`: whether some end is connected to another one."""
    ends, edges = inputs
    with mock.patch.object(paths, "dl", operations):
        return paths.joined(ends, edges)


def in_dolphin(program: Program, inputs: Sequence[tuple[Tensor, Any, bool]], k: int) -> Any:
    """The result of `program` and the symbols that it has."""
    with dl.using(dl.TopKProofs(k=k)):
        given = [dl.Distribution(p, symbols, exclusive=e) for p, symbols, e in inputs]
        return program(dl, given)


def literally(
    program: Program, inputs: Sequence[tuple[Tensor, Any, bool]], k: int
) -> tuple[Tensor, list[Any]]:
    """Probabilities of all results, and the results."""
    operations = LiteralDolphin(k)
    given = [operations.distribution(p, list(symbols), e) for p, symbols, e in inputs]
    result = program(operations, given)
    return operations.get_probs(result), result.symbols


def inputs_of(name: str, batch: int, generator: torch.Generator) -> list[tuple[Tensor, Any, bool]]:
    """Probabilities as leaves that require grad, symbols, and whether they exclude each other."""
    if name == "path-6x6":
        scores, _ = GridPaths(6).draw(batch, "early", generator)
        ends, edges = scores.double().sigmoid().split([36, 120], dim=1)
        parts = [(ends, range(36), False), (edges, directed_edges(6), False)]
    else:
        program = Formula(int(name.partition("-")[2]))
        scores, _ = program.draw(batch, "early", generator)
        digits, operators = scores.double().split([10, 4], dim=-1)
        parts = [
            (operators[:, place].softmax(-1), formulas.OPERATORS, True)
            if place % 2
            else (digits[:, place].softmax(-1), formulas.DIGITS, True)
            for place in range(program.length)
        ]
    return [(p.detach().clone().requires_grad_(), symbols, e) for p, symbols, e in parts]


def compare(name: str, batch: int, steps: int) -> dict[str, Any]:
    """Times of both on the same inputs, and how far their results are apart."""
    program, k = (grid, 1) if name == "path-6x6" else (formula, 3)
    generator = torch.Generator().manual_seed(0)
    batches = [inputs_of(name, batch, generator) for _ in range(WARM_UP + steps)]
    times = []
    for inputs in batches:
        start = time.perf_counter()
        result = in_dolphin(program, inputs, k)
        _backward(dl.get_probs(result))
        times.append(time.perf_counter() - start)
    dolphin_s = statistics.median(times[WARM_UP:])
    inputs = batches[-1]
    result = in_dolphin(program, inputs, k)
    found = [(p, p.grad) for p, _, _ in inputs]
    for p, _, _ in inputs:
        p.grad = None
    start = time.perf_counter()
    expected, symbols = literally(program, inputs, k)
    _backward(expected)
    literal_s = time.perf_counter() - start
    got = dl.get_probs(result, symbols=symbols)
    gradients = [_apart(old, p.grad) for p, old in found if p.grad is not None and old is not None]
    return {
        "name": name,
        "batch": batch,
        "k": k,
        "dolphin_s": dolphin_s,
        "literal_s": literal_s,
        "speedup": literal_s / dolphin_s,
        "largest_difference": _apart(got, expected),
        "largest_gradient_difference": max(gradients),
    }


def _apart(found: Tensor, expected: Tensor) -> float:
    """The largest difference, beside the largest number: probabilities here are tiny."""
    return float((found - expected).detach().abs().max() / expected.detach().abs().max())


def _backward(probs: Tensor) -> None:
    """A loss that looks at every result."""
    probs.pow(2).sum().backward()


def main() -> None:
    """A line for each program."""
    parser = argparse.ArgumentParser(description="Speed against the literal definitions.")
    parser.add_argument("names", nargs="*", default=list(WANTED), metavar="PROGRAM")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    print(f"{'program':<10} {'k':>2} {'B':>4} {'dolphin ms':>11} {'literal ms':>11} {'faster':>9} "
          f"{'wanted':>7} {'difference':>11} {'gradients':>10}")  # fmt: skip
    found = []
    for name in args.names:
        line = compare(name, args.batch, args.steps)
        found.append(line)
        print(
            f"{name:<10} {line['k']:>2} {line['batch']:>4} {1e3 * line['dolphin_s']:>11.1f} "
            f"{1e3 * line['literal_s']:>11.1f} {line['speedup']:>8.0f}x {WANTED.get(name, 0):>6}x "
            f"{line['largest_difference']:>11.1e} {line['largest_gradient_difference']:>10.1e}",
            flush=True,
        )
    if args.json is not None:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
