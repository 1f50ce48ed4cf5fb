"""Random programs with chance: Dolphin's `exact` against ProbLog, which shares no code with it.

Each program is written twice, as Dolphin code and as ProbLog clauses, and run with the same
numbers: two rows as a batch, the same two rows through `dolphin.batched`, and ProbLog once per row.
Every symbol of every distribution on the way is compared.

    pip install problog
    python benchmarks/against_problog.py --programs 300 --json benchmarks/results/problog.json
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import dolphin as dl

ROWS, SYMBOLS = 2, (0, 1, 2)
TOLERANCE = 1e-9
Numbers = dict[str, Tensor]
Made = dict[str, dl.Distribution]


class Written:
    """A program in both languages. `clauses(row)` has the numbers of one row in it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.numbers: Numbers = {}  # (ROWS, symbols) of every input
        self.steps: list[tuple[str, Callable[[Made, Numbers], dl.Distribution]]] = []
        self.clauses: list[str | Callable[[int], str]] = []
        self.kinds: Counter[str] = Counter()
        self.wide: set[str] = set()  # distributions of which several symbols may hold
        self._input()
        for _ in range(self.random.randint(2, 5)):
            statement = self.random.choice(STATEMENTS)
            self.kinds[statement.__name__.strip("_")] += 1
            statement(self)

    def add(self, wide: bool, make: Callable[[str], Callable[[Made, Numbers], Any]]) -> None:
        name = f"v{len(self.steps)}"
        if wide:
            self.wide.add(name)
        self.steps.append((name, make(name)))

    def any(self) -> str:
        return self.random.choice(self.steps)[0]

    def run(self, numbers: Numbers) -> Made:
        made: Made = {}
        for name, step in self.steps:
            made[name] = step(made, numbers)
        return made

    def text(self, row: int) -> str:
        lines = [clause if isinstance(clause, str) else clause(row) for clause in self.clauses]
        return "\n".join([*lines, *(f"query({name}(_))." for name, _ in self.steps)])

    # -- statements --------------------------------------------------------------------------------

    def _weights(self) -> dict[int, float]:
        """Outcomes that exclude each other, adding up to 1 or less."""
        chosen = self.random.sample(SYMBOLS, self.random.randint(1, 3))
        parts = [self.random.randint(1, 5) for _ in chosen]
        whole = sum(parts) + self.random.choice((0, 0, 2))
        return {symbol: part / whole for symbol, part in zip(chosen, parts, strict=True)}

    def _outcome(self) -> Any:
        """What a function returns: a symbol, or one of several at random."""
        return self.random.choice(SYMBOLS) if self.random.random() < 0.5 else self._weights()

    def _input(self) -> None:
        alone = self.random.random() < 0.3
        numbers = torch.rand(ROWS, len(SYMBOLS), dtype=torch.float64, generator=self._generator())
        if not alone:
            numbers /= numbers.sum(1, keepdim=True) * self.random.choice((1, 1, 1.25))

        def make(name: str) -> Callable[[Made, Numbers], Any]:
            self.numbers[name] = numbers
            between = "." if alone else ";"
            self.clauses.append(
                lambda row: (
                    f"{between} ".join(
                        f"{p:.17g}::{name}({s})" for s, p in enumerate(numbers[row].tolist())
                    )
                    + "."
                )
            )
            return lambda made, given: dl.Distribution(given[name], SYMBOLS, exclusive=not alone)

        self.add(alone, make)

    def _generator(self) -> torch.Generator:
        return torch.Generator().manual_seed(self.random.randrange(2**31))

    def _apply(self) -> None:
        one, other = self.any(), self.any()
        pairs = itertools.product(SYMBOLS, SYMBOLS)
        table = {pair: self._outcome() for pair in pairs if self.random.random() < 0.8}
        trained = self.random.random() < 0.5

        def make(name: str) -> Callable[[Made, Numbers], Any]:
            for (x, y), outcome in table.items():
                self.clauses.append(_rule(name, outcome, f"{one}({x}), {other}({y})"))
            return lambda made, _: dl.apply_if(
                made[one],
                made[other],
                lambda x, y: _said(table[x, y], trained),
                lambda x, y: (x, y) in table,
            )

        self.add(bool({one, other} & self.wide), make)

    def _program(self) -> None:
        """A tree: at each node a distribution is chosen from, or an outcome drawn, or it ends."""
        names = [name for name, _ in self.steps]
        paths: list[tuple[list[str], int]] = []

        def grow(depth: int, before: list[str], known: dict[str, int], mark: str) -> Any:
            kind = self.random.random()
            if depth == 3 or (depth and kind < 0.25):
                paths.append((before, result := self.random.choice(SYMBOLS)))
                return result
            if kind < 0.5:
                weights, draw = self._weights(), f"draw_{mark}"
                self.clauses.append(_rule(draw, weights, ""))
                after = {s: (f"{draw}({s})", known) for s in weights}
                asked: Any = weights
            else:
                asked = self.random.choice(names)  # perhaps one that was chosen from before
                symbols = [known[asked]] if asked in known else SYMBOLS
                after = {s: (f"{asked}({s})", {**known, asked: s}) for s in symbols}
            grown = {
                s: grow(depth + 1, [*before, atom], then, f"{mark}{s}")
                for s, (atom, then) in after.items()
            }
            return asked, grown

        tree = grow(0, [], {}, f"{len(self.steps)}_")

        def follow(at: Any, made: Made) -> int:
            while not isinstance(at, int):
                asked, grown = at
                chosen = dl.choose(made[asked] if isinstance(asked, str) else dl.weighted(asked))
                at = grown[chosen]
            return at

        def make(name: str) -> Callable[[Made, Numbers], Any]:
            for path, result in paths:
                self.clauses.append(_rule(name, result, ", ".join(path)))
            program = dl.program(follow)
            return lambda made, _: program(tree, {name: made[name] for name in names})

        self.add(True, make)

    def _spread(self) -> None:
        """What can be reached, where each symbol leads to one at random."""
        start, leads = self.any(), {symbol: self._weights() for symbol in SYMBOLS}

        def make(name: str) -> Callable[[Made, Numbers], Any]:
            self.clauses.append(f"{name}(X) :- {start}(X).")
            for symbol, weights in leads.items():
                self.clauses.append(_rule(f"{name}_from{symbol}", weights, ""))
                self.clauses.append(f"{name}(X) :- {name}({symbol}), {name}_from{symbol}(X).")

            def step(d: Any) -> Any:
                return dl.union(d, d.map(lambda x: dl.weighted(leads[x])))

            return lambda made, _: dl.fixpoint(step, made[start])

        self.add(True, make)

    def _union(self) -> None:
        parts = [self.any(), self.any()]

        def make(name: str) -> Callable[[Made, Numbers], Any]:
            self.clauses.extend(f"{name}(X) :- {part}(X)." for part in parts)
            return lambda made, _: dl.union(*(made[part] for part in parts))

        self.add(True, make)

    def _negate(self) -> None:
        other = self.any()

        def make(name: str) -> Callable[[Made, Numbers], Any]:
            self.clauses.extend(f"{name}({s}) :- \\+ {other}({s})." for s in SYMBOLS)
            return lambda made, _: dl.negate(made[other], among=SYMBOLS)

        self.add(True, make)

    def _count(self) -> None:
        other = self.any()

        def make(name: str) -> Callable[[Made, Numbers], Any]:
            for holds in itertools.product((False, True), repeat=len(SYMBOLS)):
                body = (f"{'' if h else chr(92) + '+ '}{other}({s})" for s, h in enumerate(holds))
                self.clauses.append(_rule(name, min(sum(holds), 2), ", ".join(body)))
            return lambda made, _: dl.count(made[other]).map(lambda n: min(n, 2))

        self.add(False, make)

    def _where(self) -> None:
        cond, yes, no = self.any(), self.any(), self.any()

        def make(name: str) -> Callable[[Made, Numbers], Any]:
            self.clauses.append(f"{name}_true :- {cond}(_).")
            self.clauses.append(f"{name}(X) :- {name}_true, {yes}(X).")
            self.clauses.append(f"{name}(X) :- \\+ {name}_true, {no}(X).")
            return lambda made, _: dl.where(dl.exists(made[cond]), made[yes], made[no])

        self.add(True, make)


STATEMENTS = (
    Written._input, Written._apply, Written._apply, Written._program, Written._program,
    Written._spread, Written._union, Written._negate, Written._count, Written._where,
)  # fmt: skip


def _rule(name: str, outcome: Any, body: str) -> str:
    end = f" :- {body}." if body else "."
    if not isinstance(outcome, dict):
        return f"{name}({outcome}){end}"
    return "; ".join(f"{weight:.17g}::{name}({s})" for s, weight in outcome.items()) + end


def _said(outcome: Any, trained: bool) -> Any:
    if not isinstance(outcome, dict):
        return outcome
    if not trained:
        return dl.weighted(outcome)
    entries = torch.tensor(list(outcome.values()), dtype=torch.float64, requires_grad=True)
    return dl.weighted(dict(zip(outcome, entries, strict=True)))


def differences(seed: int, evaluate: Callable[[str], dict[str, float]]) -> tuple[Written, list]:
    """Where a program's answers are not those of ProbLog."""
    written = Written(seed)
    with dl.using("exact"):
        whole = written.run(written.numbers)
        names = list(written.numbers)

        def one(*rows: Tensor) -> Made:
            return written.run(dict(zip(names, rows, strict=True)))

        single = dl.batched(one)(*written.numbers.values())
    wrong = []
    for row in range(ROWS):
        wanted = evaluate(written.text(row))
        for (way, made), name in itertools.product((("batch", whole), ("batched", single)), whole):
            each = made[name].probs(SYMBOLS).expand(ROWS, -1)
            for symbol, found in zip(SYMBOLS, each[row].tolist(), strict=True):
                pair = found, wanted.get(f"{name}({symbol})", 0.0)
                if abs(pair[0] - pair[1]) > TOLERANCE:
                    wrong.append((way, row, f"{name}({symbol})", *pair))
    return written, wrong


def main() -> None:
    """Compare as many programs as asked for, and print what differs."""
    torch.set_default_dtype(torch.float64)  # of draws that depend on no input
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    try:
        from problog import get_evaluatable  # pyright: ignore[reportMissingImports]
        from problog.program import PrologString  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise SystemExit("ProbLog is not installed: pip install problog") from None

    def evaluate(text: str) -> dict[str, float]:
        results = get_evaluatable().create_from(PrologString(text)).evaluate()
        return {str(term): float(value) for term, value in results.items()}

    kinds: Counter[str] = Counter()
    failed = []
    for seed in range(args.seed, args.seed + args.programs):
        written, wrong = differences(seed, evaluate)
        kinds.update(written.kinds)
        if wrong:
            failed.append(seed)
            print(f"seed {seed}: {len(wrong)} differ, e.g. {wrong[0]}", flush=True)
    summary = {"programs": args.programs, "seed": args.seed, "differ": failed, "statements": kinds}
    print(f"{args.programs} programs, {len(failed)} differ; statements: {dict(kinds)}")
    if args.json:
        args.json.write_text(json.dumps(summary, indent=2) + "\n")


if __name__ == "__main__":
    main()
