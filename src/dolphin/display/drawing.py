"""`draw`: what a program does to its distributions, as a graph."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dolphin.display.deriving import Record, explained
from dolphin.display.graph import Box, to_svg
from dolphin.display.proofs import Proofs
from dolphin.errors import InputError, shorten
from dolphin.execution.profiling import Profile, profiling_with
from dolphin.execution.tagged import Holder, Tagged, tagged_of
from dolphin.symbolic.identity.functions import name_of
from dolphin.symbolic.tasks import Task

_MOST = 200  # operations in a drawing that is still readable


@dataclass(frozen=True)
class Step:
    """One operation of a program, or one of its inputs."""

    operation: str
    """"input", "apply", "union", ..."""
    name: str
    """The user's function, or the name of an input."""
    sources: tuple[int, ...]
    """The numbers of the steps whose results it reads."""
    symbols: int | None
    """How many symbols the result has (the most of any row); None for a tensor."""
    combinations: int
    """The number of combinations of symbols that were computed."""
    shown: str
    """The first symbols of the result."""

    def lines(self, sizes: Sequence[str]) -> tuple[str, ...]:
        """The lines in its box: the operation, its sizes, its combinations, its symbols."""
        lines = [f"{self.operation} {self.name}".strip()]
        if sizes and self.symbols is not None:
            lines.append(f"{' × '.join(sizes)} → {self.symbols} symbols")
        elif self.symbols is not None:
            lines.append(f"{self.symbols} symbols")
        if self.combinations:
            lines.append(f"{self.combinations:,} combinations")
        return (*lines, self.shown) if self.shown else tuple(lines)


@dataclass(frozen=True)
class Drawing:
    """The graph of a program. A notebook shows it; `print` it for text, or `save` it as SVG."""

    steps: tuple[Step, ...]
    _records: dict[int, Record] = field(default_factory=dict, repr=False, compare=False)
    _last: int | None = field(default=None, repr=False, compare=False)  # what the program returned

    def explain(self, symbol: Any, row: int = 0) -> Proofs:
        """The proofs of a symbol that the program returned, and how it follows from each.

        Like `Distribution.explain`, with a derivation below each proof, operation by operation,
        down to facts with the names of their inputs. Operations that pass symbols on (`union`,
        `filter`, `sample`) have no separate line. A question, a negation or a `dolphin.program` is
        one line above the facts that it needs; so is a derivation of more than 200 lines. User
        functions are called again for the symbols of the tree.

        >>> import dolphin as dl
        >>> with dl.using("dtkp-am", k=1):
        ...     x, y = (dl.Distribution([0.25, 0.75], [1, 2]) for _ in "xy")
        >>> def largest(x, y):
        ...     return dl.apply(dl.apply(x, y, max), str)
        >>> print(dl.draw(largest, x, y).explain("2"))
        '2' because
        └─ 0.5625  by apply str
           └─ 2  by apply max
              ├─ 2  0.75  x
              └─ 2  0.75  y
        """
        if self._last is None:
            raise InputError(
                "explain: the program didn't return a distribution that one of its operations "
                "made. Draw a function that returns the distribution to be explained."
            )
        return explained(self._records, self._last, symbol, row)

    @property
    def svg(self) -> str:
        """The picture; warm colours mark boxes with many combinations."""
        most = max((step.combinations for step in self.steps), default=0)
        boxes = [
            Box(
                step.lines(self._sizes(step)),
                step.sources,
                math.log1p(step.combinations) / math.log1p(most) if step.combinations else 0.0,
            )
            for step in self.steps
        ]
        return to_svg(boxes, f"a program of {len(self.steps)} steps")

    def save(self, path: str | Path) -> None:
        """Write the picture as an SVG file, on white."""
        text = self.svg.replace('style="', 'style="background:white;color:black;', 1)
        Path(path).write_text(text, encoding="utf-8")

    def _sizes(self, step: Step) -> list[str]:
        sizes = [self.steps[source].symbols for source in step.sources]
        return [str(size) for size in sizes if size is not None]

    def _repr_html_(self) -> str:
        return self.svg

    def __str__(self) -> str:
        lines = []
        for number, step in enumerate(self.steps):
            sources = ", ".join(map(str, step.sources))
            what = f"{step.operation} {step.name}".strip() + (f" of {sources}" if sources else "")
            size = "" if step.symbols is None else f"{step.symbols} symbols"
            combined = f"{step.combinations:,} combinations" if step.combinations else ""
            facts = ", ".join(filter(None, (size, combined)))
            lines.append(f"{number:3}  {what}: {facts}" if facts else f"{number:3}  {what}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Drawing of {len(self.steps)} steps>"


class _Recorder(Profile):
    """A profile that keeps the results of operations, step by step."""

    def __init__(self, names: Iterable[tuple[str, Any]]) -> None:
        super().__init__()
        self.steps: list[Step] = []
        self.records: dict[int, Record] = {}
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []  # kept alive, so that no id is reused
        self._counted = 0
        for name, value in names:
            held = list(_held(value))
            for place, d in enumerate(held):
                self.number(d, f"{name}[{place}]" if name and len(held) > 1 else name)

    def made(
        self,
        operation: str,
        function: Callable[..., Any] | None,
        operands: Sequence[Any],
        result: Any,
        task: Task | None = None,
    ) -> None:
        if self._current is not None or self.parts:  # a part of a larger operation
            return
        if len(self.steps) >= _MOST:
            raise InputError(
                f"draw: the program has more than {_MOST} operations, too many for a drawing. Draw "
                "a part of it, or use smaller inputs."
            )
        sources = tuple(self.number(d) for d in _held(operands))
        combinations, self._counted = (
            self.total.combinations - self._counted,
            self.total.combinations,
        )
        results = list(_held(result))
        shown, symbols = "", None
        if results:
            shown, symbols = _shown(results[0]), results[0].width
        name = name_of(function)
        self.steps.append(Step(operation, name, sources, symbols, combinations, shown))
        for d in results:
            self._remember(d, Record(operation, name, sources, d, function, task))

    def number(self, d: Tagged, name: str = "") -> int:
        """The step whose result a distribution is; an input if there is none."""
        step = self._numbers.get(id(d))
        if step is None and d.made is not None:
            step = self._numbers.get(id(d.made))
        if step is None:
            self.steps.append(Step("input", name, (), d.width, 0, _shown(d)))
            step = len(self.steps) - 1
            self._remember(d, Record("input", name, (), d))
        return step

    def _remember(self, d: Tagged, record: Record) -> None:
        step = len(self.steps) - 1
        self.records[step] = record
        self._kept += [d, d.made]
        self._numbers[id(d)] = step
        if d.made is not None:  # some operations wrap the same tags again
            self._numbers[id(d.made)] = step


def _held(value: Any) -> Iterator[Tagged]:
    """The distributions in an argument."""
    if isinstance(value, Tagged):
        yield value
    elif isinstance(value, Holder):
        yield tagged_of(value)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _held(part)
    elif isinstance(value, dict):
        for part in value.values():
            yield from _held(part)


def _shown(d: Tagged) -> str:
    members = d.domain.members
    shown = [shorten(symbol, 14) for symbol in members[:3]]
    return ", ".join([*shown, "..."] if len(members) > 3 else shown)


def draw(program: Callable[..., Any], *arguments: Any, **options: Any) -> Drawing:
    """The computation graph of a program: its operations, their sizes, and where it is expensive.

    The program is run once, with the arguments given, and every operation on distributions becomes
    a box. A box in a warm colour has many combinations of symbols: that is where a program is
    expensive, and where `on=`, `filter` or `sample` would help. The rounds of a `fixpoint` are
    drawn one after the other; to draw a program inside `dolphin.batched`, call it for one sample,
    without the decorator.

    Args:
        program: any function of distributions, tensors or anything else.
        arguments: what it is called with.
        options: the same, by name.

    >>> import dolphin as dl
    >>> d = dl.Distribution([0.2, 0.3, 0.5], [1, 2, 3])
    >>> def product(x, y):
    ...     return dl.apply(x, y, int.__mul__)
    >>> print(dl.draw(product, d, dl.Distribution([0.5, 0.5], [2, 4])))
      0  input x: 3 symbols
      1  input y: 2 symbols
      2  apply int.__mul__ of 0, 1: 5 symbols, 6 combinations
    """
    if not callable(program):
        raise InputError(f"draw: the program must be a function, got {shorten(program)}.")
    recorder = _Recorder(_named(program, arguments, options))
    with profiling_with(recorder):
        result = program(*arguments, **options)
    if not recorder.steps:
        raise InputError("draw: the program did nothing with distributions.")
    last = recorder.number(tagged_of(result)) if isinstance(result, Holder) else None
    return Drawing(tuple(recorder.steps), recorder.records, last)


def _named(
    program: Any, arguments: Sequence[Any], options: dict[str, Any]
) -> list[tuple[str, Any]]:
    """The arguments with the names of their parameters, where these are known."""
    try:
        bound = inspect.signature(program).bind(*arguments, **options)
    except (TypeError, ValueError):  # the call itself will say what is wrong
        return [("", argument) for argument in arguments]
    return list(bound.arguments.items())
