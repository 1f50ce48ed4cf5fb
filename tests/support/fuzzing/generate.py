"""Random programs as text."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from fuzzing import texts

PROVENANCES = {
    "damp": 6, "exact": 6, "dtkp-am": 6, "dtkp-wmc": 5, "noisy-or": 2, "viterbi": 2, "min-max": 2,
    "lukasiewicz": 1, "hamacher": 1, "nilpotent": 1, "yager": 1, "schweizer-sklar": 1, "frank": 1,
    "stable-product": 1, "boolean": 1, "counting": 1,
}  # fmt: skip
IMPORTS = """\
import array, copy, functools, pickle
from math import inf, nan
import numpy as np
import torch
import dolphin as dl
"""


@dataclass(frozen=True)
class Statement:
    """Some lines of a program, and what they are an example of."""

    text: str
    feature: str

    @property
    def names(self) -> set[str]:
        """Variables and definitions that occur in it."""
        return set(re.findall(r"\b[A-Za-z_]\w*", self.text))

    @property
    def made(self) -> str | None:
        """The variable that it is there for."""
        found = re.findall(r"^([dx]\d+) = ", self.text, re.MULTILINE)
        return found[-1] if found else None


@dataclass(frozen=True)
class Program:
    """A program, and what is to be asked of its result."""

    seed: int
    provenance: str
    k: int | None  # proofs kept; None: as many as there are
    statements: tuple[Statement, ...]
    inputs: tuple[str, ...]  # the variables that a trace would take
    result: str
    chunk: int | None = None  # numbers that the tag stage may hold at once
    double: bool = False  # whether second derivatives are compared
    single: bool = False  # whether some input has single precision
    reads: tuple[str, ...] = ()

    @property
    def features(self) -> set[str]:
        return {statement.feature for statement in self.statements} | set(self.reads)

    def body(self) -> str:
        """The program itself; `dl`, `torch` and the modules of `IMPORTS` are given."""
        return "\n".join(statement.text for statement in self.statements)

    def context(self, k: int | None) -> str:
        """The `with` statement around it."""
        keep = f", k={k}" if self.provenance.startswith("dtkp") else ""
        keep += ", epsilon=0.0" if self.provenance == "stable-product" else ""
        managers = [f'dl.using("{self.provenance}"{keep})']
        if self.chunk is not None:
            managers.append(f"dl.settings(chunk_elements={self.chunk})")
        return "with " + ", ".join(managers) + ":"

    def script(self, k: int | None) -> str:
        """A script of its own."""
        indented = "\n".join("    " + line for line in self.body().splitlines())
        shown = f"print({self.result}.symbols, {self.result}.probs())"
        return f"{IMPORTS}\n{self.context(k)}\n{indented}\n    {shown}\n"


@dataclass(frozen=True)
class Info:
    """What is known of a variable before the program runs."""

    batch: int
    width: int
    kind: str = "int"  # which functions its symbols can be given to: int, any, pair, card


@dataclass
class Writer:
    """A program in the making."""

    rng: random.Random
    rows: int
    numbers: str  # dyadic (ties, zeros, ones), generic (no two alike), soft (softmax), extreme
    dtype: str
    largest: int  # combinations that an operation may make
    grad: bool
    numeric: bool = True  # whether tags are numbers
    repeats: bool = True  # whether a derivation may be added again
    asks: bool = True  # whether the definitions say what questions give
    counts: bool = True  # whether probabilities are those of all worlds: conditions are exact
    statements: list[Statement] = field(default_factory=list)
    known: dict[str, Info] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    defined: set[str] = field(default_factory=set)
    leaves: int = 0

    # -- writing -----------------------------------------------------------------------------------

    def write(self, feature: str, text: str) -> None:
        self.statements.append(Statement(text, feature))

    def let(self, feature: str, expression: str, info: Info, before: str = "") -> str:
        """A new variable."""
        name = f"d{len(self.known)}"
        self.write(feature, f"{before}{name} = {expression}")
        self.known[name] = info
        return name

    def some(self, *kinds: str, batch: int | None = None) -> str | None:
        """A variable whose symbols are of such a kind, rather a late one."""
        names = [
            name
            for name, info in self.known.items()
            if info.kind in kinds and (batch is None or info.batch in (1, batch))
        ]
        if not names:
            return None
        return names[-1] if self.rng.random() < 0.4 else self.rng.choice(names)

    def several(self, number: int, *kinds: str) -> list[str]:
        """Variables that can meet in one operation, with few enough combinations."""
        first = self.some(*kinds)
        if first is None:
            return []
        chosen, batch = [first], self.known[first].batch
        while len(chosen) < number:
            other = self.some(*kinds, batch=None if batch == 1 else batch)
            if other is None or self.product([*chosen, other]) > self.largest:
                break
            chosen.append(other)
            batch = max(batch, self.known[other].batch)
        self.rng.shuffle(chosen)
        return chosen

    def product(self, names: list[str]) -> int:
        return math.prod(max(1, self.known[name].width) for name in names)

    def batch(self, names: list[str]) -> int:
        return max(self.known[name].batch for name in names)

    def fits(self, names: list[str]) -> bool:
        """Whether these can meet in one operation."""
        return len({self.known[name].batch for name in names} - {1}) <= 1

    def pick(self, options: list[str]) -> str:
        return self.rng.choice(options)

    def options(self, names: list[str]) -> str:
        """Further arguments of an operation."""
        text = ""
        if self.rng.random() < 0.2:
            text += f", where={[self.rng.random() < 0.5 for _ in range(self.batch(names))]}"
        if self.rng.random() < 0.1:
            text += ", cache=False"
        return text

    def result(self, names: list[str], text: str, kind: str = "int") -> Info:
        width = min(self.product(names), 5)
        if "where=" in text:
            width = max(width, self.known[names[0]].width)
            kind = kind if kind == self.known[names[0]].kind else "any"
        return Info(self.batch(names), width, kind)

    # -- inputs ------------------------------------------------------------------------------------

    def leaf(
        self,
        rows: int,
        columns: int,
        groups: list[list[int]],
        kind: str,
        values: list[list[float]] | None = None,
    ) -> str:
        name = f"x{self.leaves}"
        self.leaves += 1
        if values is None:
            values = [self.numbers_of(columns, groups, kind) for _ in range(rows)]
        shown = ", ".join("[" + ", ".join(map(repr, row)) + "]" for row in values)
        dtype = self.dtype
        if dtype == "mixed":
            dtype = self.pick(["float32", "float64"])
        grad = ", requires_grad=True" if self.grad and self.rng.random() < 0.95 else ""
        self.write("leaf", f"{name} = torch.tensor([{shown}], dtype=torch.{dtype}{grad})")
        return name

    def numbers_of(self, columns: int, groups: list[list[int]], kind: str) -> list[float]:
        rng, values = self.rng, [0.0] * columns
        if kind == "logits":
            scale = 30.0 if self.numbers == "extreme" else 1.5
            values = [round(rng.gauss(0.0, scale), 3) for _ in range(columns)]
            for group in groups:
                for column in group[1:] if len(group) > 1 else group:
                    if rng.random() < 0.15:
                        values[column] = -math.inf
            return values
        for group in groups:
            for column, value in zip(group, self.shares(len(group)), strict=True):
                values[column] = value
            if len(group) == 1 and rng.random() < 0.03:  # rounding may carry it there
                values[group[0]] = rng.choice([1.0 + 1e-6, -1e-7 if kind == "probs" else 1.0])
        if kind == "log_probs":
            return [math.log(value) if value > 0.0 else -math.inf for value in values]
        return values

    def shares(self, number: int) -> list[float]:
        """Probabilities that add up to at most 1."""
        rng = self.rng
        if self.numbers == "dyadic":
            left, parts = 16, []
            for _ in range(number):
                part = left if rng.random() < 0.2 else rng.randint(0, left)
                parts.append(part / 16)
                left -= part
            rng.shuffle(parts)
            return parts
        weights = [rng.uniform(0.05, 1.0) for _ in range(number)]
        if self.numbers == "extreme":
            weights = [10.0 ** rng.uniform(-12, 0) for _ in range(number)]
        whole = sum(weights) * (1.0 if rng.random() < 0.5 else rng.uniform(1.05, 1.6))
        if number == 1:
            whole = 1.0 if rng.random() < 0.1 else max(whole, 1.1)
        shares = [math.floor(weight / whole * 1e13) / 1e13 for weight in weights]
        return shares if self.numbers != "generic" else [round(s - 5e-7, 6) for s in shares]

    def structure(self, columns: int) -> tuple[str, list[list[int]]]:
        """What `exclusive` is, as text and as groups."""
        chance = self.rng.random()
        if chance < 0.5 or columns == 0:
            return "True", [list(range(columns))]
        if chance < 0.8 or columns < 3:
            return "False", [[column] for column in range(columns)]
        mixed = self.rng.sample(range(columns), columns)
        cut = self.rng.randint(1, columns - 1)
        named = [mixed[:cut], mixed[cut:]]
        return str(named), named

    def symbols(self, number: int) -> list[int]:
        return self.rng.sample(range(5), number)

    def input(self) -> None:
        rng = self.rng
        rows = 1 if rng.random() < 0.3 else self.rows
        way = rng.choice(
            ["probs", "probs", "logits", "log_probs", "torch", "rows", "rows", "pairs"]
        )
        if way == "rows":
            return self.ragged_input(rows)
        columns = rng.randint(1, 4)
        if way == "pairs":
            return self.pairs(rows)
        exclusive, groups = self.structure(columns)
        if exclusive == "False":
            columns = min(columns, 3)
            groups = groups[:columns]
        kind = "logits" if way == "torch" else way
        if way == "torch":
            columns = max(2, columns)
            exclusive, groups = rng.choice(
                [("True", [list(range(columns))]), ("False", [[c] for c in range(columns)])]
            )
        x = self.leaf(rows, columns, groups, kind)
        symbols = self.symbols(columns)
        option = "" if exclusive == "True" else f", exclusive={exclusive}"
        make = {"probs": "", "logits": ".from_logits", "log_probs": ".from_log_probs"}.get(way, "")
        if way == "torch":
            family = "Categorical" if exclusive == "True" else "Bernoulli"
            x, option = f"torch.distributions.{family}(logits={x})", ""
        expression = f"dl.Distribution{make}({x}, {symbols}{option})"
        cards = way == "probs" and rng.random() < 0.08
        if cards:
            self.define("card", texts.CARD)
            shown = ", ".join(f"Card({symbol})" for symbol in symbols)
            expression = f"dl.Distribution({x}, [{shown}]{option})"
        info = Info(rows, columns, "card" if cards else "int")
        self.inputs.append(self.let(f"input {way}", expression, info))
        return None

    def pairs(self, rows: int) -> None:
        """Edges of a graph, for recursion."""
        edges = self.rng.sample([(0, 1), (1, 2), (2, 0), (0, 2), (1, 0)], 3)
        if self.rng.random() < 0.5:  # a way of three steps beside a short one, without new ends
            edges = [(0, 1), (1, 2), (2, 3), (0, 2), (1, 3), (0, 3)]
        x = self.leaf(rows, len(edges), [[c] for c in range(len(edges))], "probs")
        expression = f"dl.Distribution({x}, {edges}, exclusive=False)"
        self.inputs.append(self.let("input pairs", expression, Info(rows, len(edges), "pair")))

    def ragged_input(self, rows: int) -> None:
        rng = self.rng
        lengths = [rng.choice([0, 1, 2, 3, 3]) for _ in range(rows)]
        if rng.random() < 0.4:
            lengths = [3] * rows
        columns = max(1, *lengths)
        logits = rng.random() < 0.3
        exclusive, groups = self.structure(columns)
        per_row = rng.random() < 0.4
        own = [self.structure(length) for length in lengths]
        if not per_row and exclusive not in ("True", "False"):
            lengths = [columns] * rows
        kind = "logits" if logits else "probs"
        name = f"x{self.leaves}"
        self.leaves += 1
        values = []
        for row, length in enumerate(lengths):
            mine = own[row][1] if per_row else [[c for c in g if c < length] for g in groups]
            mine = [group for group in mine if group]
            values.append(self.numbers_of(length, mine, kind) + [0.0] * (columns - length))
        grad = ", requires_grad=True" if self.grad else ""
        dtype = "float64" if self.dtype == "mixed" else self.dtype
        shown = ", ".join("[" + ", ".join(map(repr, row)) + "]" for row in values)
        self.write("leaf", f"{name} = torch.tensor([{shown}], dtype=torch.{dtype}{grad})")
        pairs = [
            f"({self.symbols(length)}, {name}[{row}, :{length}])"
            for row, length in enumerate(lengths)
        ]
        option = f", exclusive={exclusive}" if exclusive != "True" else ""
        if per_row:
            option = ", exclusive=[" + ", ".join(text for text, _ in own) + "]"
        option += ", logits=True" if logits else ""
        expression = f"dl.Distribution.from_rows([{', '.join(pairs)}]{option})"
        self.let("input rows", expression, Info(rows, columns))

    def define(self, key: str, text: str) -> None:
        if key not in self.defined:
            self.defined.add(key)
            self.write("definition", text)


Kind = Callable[[Writer], None]
KINDS: dict[str, tuple[int, int, Kind]] = {}
FOCUSED = 4  # one in this many programs consists mostly of what is rare elsewhere


def kind(weight: int, focused: int | None = None) -> Callable[[Kind], Kind]:
    """Register a kind of statement; it writes nothing where it doesn't fit.

    `focused`: its weight in programs of what is rare, if that is another one.
    """

    def register(write: Kind) -> Kind:
        KINDS[write.__name__] = weight, weight if focused is None else focused, write
        return write

    return register


def generate(seed: int) -> Program:
    """The program of a seed."""
    from fuzzing import endings, language_operations, operations  # noqa: F401  (register the kinds)

    rng = random.Random(seed)
    provenance = rng.choices(list(PROVENANCES), list(PROVENANCES.values()))[0]
    proofs = provenance.startswith("dtkp")
    k = rng.choice([1, 2, 3, 5, 8]) if proofs and rng.random() < 0.35 else None
    numbers = rng.choice(["dyadic", "dyadic", "generic", "soft", "extreme"])
    double = rng.random() < 0.2
    if k is not None or provenance == "nilpotent" or double:
        numbers = "generic"
    dtype = "float64" if double else rng.choices(["float64", "float32", "mixed"], [6, 3, 1])[0]
    if provenance == "nilpotent":
        dtype = "float64"
    largest = 40 if proofs and k is None else 90
    every = k is None and proofs
    asks = every or provenance in ("exact", "damp", "noisy-or", "viterbi", "min-max", "boolean")
    counts = provenance == "exact" or (every and provenance == "dtkp-wmc")
    rows, grad = rng.choice([1, 2, 2, 3]), rng.random() < 0.9
    numeric = not proofs and provenance != "exact"
    repeats = provenance in ("exact", "viterbi", "min-max", "boolean")
    writer = Writer(rng, rows, numbers, dtype, largest, grad, numeric, repeats, asks, counts)
    for _ in range(rng.choice([1, 1, 2, 2, 3, 4])):
        writer.input()
    focused = seed % FOCUSED == FOCUSED - 1
    weights = [rare if focused else usual for usual, rare, _ in KINDS.values()]
    for name in rng.choices(list(KINDS), weights, k=rng.randint(1, 6)):
        KINDS[name][2](writer)
    endings.end(writer, seed, provenance)
    reads = rng.sample(
        ["log_probs", "prob_of", "argmax", "top", "nll", "bce", "rows", "trace", "expected",
         "entropy", "posterior", "most_likely", "apart", "func", "threads",
         "again"], 2
    )  # fmt: skip
    if seed % 2 and any(statement.feature == "fixpoint" for statement in writer.statements):
        reads[0] = "trace"  # the end of a traced fixpoint depends on numbers
    result = list(writer.known)[-1]
    program = Program(
        seed, provenance, k, tuple(writer.statements), tuple(writer.inputs), result,
        rng.choice([1, 2, 7, 50]) if rng.random() < 0.15 else None,
        double, dtype != "float64", tuple(reads),
    )  # fmt: skip
    return needed(program)


def needed(program: Program) -> Program:
    """Without the statements that the result doesn't depend on."""
    wanted, kept = {program.result}, []
    for statement in reversed(program.statements):
        made = statement.made
        defined = set(re.findall(r"^(?:class|def) (\w+)|^(\w+)\b", statement.text, re.MULTILINE))
        changes = {name for pair in defined for name in pair if name}
        if made in wanted if made is not None else changes & wanted:
            kept.append(statement)
            wanted |= statement.names
    inputs = tuple(name for name in program.inputs if name in wanted)
    return replace(program, statements=tuple(reversed(kept)), inputs=inputs)
