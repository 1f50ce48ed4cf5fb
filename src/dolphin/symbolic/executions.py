"""Executions of a program that makes choices: a tree of its choices, explored by running it.

A program is run again and again, each time with a different script of choices, until all of them
are explored. What it asks for after which choices is a tree of `Node`s, which depends on symbols
alone: it is remembered, and a program runs only for choices that are new.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from dolphin.errors import DolphinError, FunctionError, SizeError, SymbolError, shorten, told
from dolphin.settings import current_settings
from dolphin.symbolic.chance import Chance, Sources, Weighted
from dolphin.symbolic.endless import EndlessError, Watched, arrive, watched
from dolphin.symbolic.surroundings import calls_of_functions, surrounded
from dolphin.symbolic.tables import SymbolTable

MOST_EXECUTIONS = 1_000_000  # of one program; Python needs some seconds for this many
_MOST_QUESTIONS = 200_000  # of one execution, including those that were answered before


class Node:
    """What a program does after some choices: ask for another one, or return.

    `asked` is the number of a distribution, `chance` a draw; `children` are the next nodes, by the
    number of a symbol or the place of an outcome. None of the three and no result: not visited yet.
    """

    __slots__ = ("asked", "chance", "children", "result")

    def __init__(self) -> None:
        self.asked: int | None = None
        self.chance: Chance | Weighted[Any] | None = None
        self.children: dict[int, Node] = {}
        self.result: int | None = None

    @property
    def known(self) -> bool:
        return self.result is not None or self.asked is not None or self.chance is not None

    def child(self, choice: int) -> Node:
        node = self.children.get(choice)
        if node is None:
            node = self.children[choice] = Node()
        return node


class Stop(BaseException):  # not an error: `except Exception` must not catch it
    """Ends an execution that can't or need not continue."""


class Asked(Protocol):
    """A distribution that a program can choose from."""

    def candidates(self, alive: np.ndarray | None) -> list[int]:
        """Numbers of the symbols that some of these rows have, in order."""
        ...

    def rows_with(self, number: int) -> np.ndarray | None:
        """Which rows have a symbol; None for all."""
        ...


class Explorer(Protocol):
    """Knows the distributions of a program."""

    table: SymbolTable
    sources: Sources
    max_choices: int
    name: str

    def number_of(self, distribution: Any, expected: int | None) -> int:
        """The number of a distribution, assigned now if it is new.

        `expected` is what was asked for here in an earlier run: a distribution that every run
        builds again counts as the one that was built then.
        """
        ...

    def asked(self, number: int) -> Asked:
        """The distribution with this number."""
        ...

    inner: dict[Hashable, Any]
    """Results of operations inside the program, by their place in an execution."""

    shared: dict[Hashable, Any]
    """States that are the same wherever they occur, including programs inside the program."""


class Execution:
    """One run of a program: a script of choices first, then always the first option."""

    def __init__(
        self,
        explorer: Explorer,
        root: Node,
        script: Sequence[int],
        alive: np.ndarray | None,
        *,
        one_step: bool = False,
    ) -> None:
        self.explorer = explorer
        self.node = root
        self.script = script
        self.alive = alive  # the rows that have all symbols chosen so far
        self.one_step = one_step  # stop where the script ends
        self.made: list[Any] = []  # the choices, as symbols
        self.stopped = False
        self.watched: Watched | None = None
        self._step = 0
        self._questions = 0
        self._answers: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}  # of distributions, by identity
        self._alive: list[Any] = []  # kept alive, so that no id is reused
        self._counts: dict[Hashable, int] = {}
        self._states: dict[Hashable, int] = {}

    def choose(self, distribution: Any) -> Any:
        """A symbol of a distribution: the same one every time."""
        number = self._numbers.get(id(distribution))
        if number is None:
            number = self.explorer.number_of(distribution, self.node.asked)
            self._numbers[id(distribution)] = number
            self._alive.append(distribution)
        self._questions += 1
        if self._questions > _MOST_QUESTIONS:
            raise self._endless(f"has asked for {_MOST_QUESTIONS:,} symbols")
        if number in self._answers:
            return self._answers[number]
        self._meet(number, None)
        asked = self.explorer.asked(number)
        choice = self._next(lambda: asked.candidates(self.alive))
        rows = asked.rows_with(choice)
        if rows is not None:
            self.alive = rows if self.alive is None else self.alive & rows
        symbol = self._answers[number] = self.explorer.table.symbols[choice]
        self.made.append(symbol)
        return symbol

    def draw(self, chance: Weighted[Any]) -> Any:
        """One of some outcomes: another draw every time."""
        if self.one_step:  # executions pruned by numbers are not remembered
            written: Chance | Weighted[Any] = chance
        else:
            written = self.explorer.sources.written_down(chance, self.explorer.table)
        self._meet(None, written)
        place = self._next(lambda: list(range(len(chance.outcomes))))
        symbol = chance.outcomes[place]
        self.made.append(symbol)
        return symbol

    def _meet(self, asked: int | None, chance: Chance | Weighted[Any] | None) -> None:
        """Record what the program asks for here; it must be what it asked for last time."""
        if self.stopped:
            raise Stop
        node = self.node
        if not node.known:
            node.asked, node.chance = asked, chance
            return
        same = node.result is None and node.asked == asked
        if same and asked is None:
            same = _outcomes(node.chance) == _outcomes(chance)
        if not same:
            raise self.undecided()

    def undecided(self) -> FunctionError:
        return FunctionError(
            f"{self.explorer.name}: the program did something different when it was run again"
            f"{self.after()}. It may depend on its arguments and choices only: not on a clock, "
            "random numbers, the order of a set of strings or anything that earlier runs left. "
            "For chance write dolphin.choose(dolphin.weighted({...}))."
        )

    def _next(self, candidates: Callable[[], list[int]]) -> int:
        if self._step < len(self.script):
            choice = self.script[self._step]
        else:
            possible = [] if self.one_step else candidates()
            if not possible:
                self.stopped = True
                raise Stop
            choice = possible[0]
        self._step += 1
        if self.watched is not None:
            self.watched.restart()
        if self._step > self.explorer.max_choices:
            raise self._endless(f"has made {self.explorer.max_choices:,} choices")
        self.node = self.node.child(choice)
        self._counts.clear()
        return choice

    def _endless(self, what: str) -> SizeError:
        return SizeError(
            f"{self.explorer.name}: one execution of the program {what} without returning"
            f"{self.after()}. Bound the loop, or allow more with @dolphin.program(max_choices=...)."
        )

    def after(self) -> str:
        """The choices that led here, for messages."""
        if not self.made:
            return ""
        shown = ", ".join(shorten(symbol, 40) for symbol in self.made[:8])
        return f" after choosing {shown}{', ...' * (len(self.made) > 8)}"

    def once(self, kind: Hashable, make: Callable[[], Any]) -> Any:
        """The result of an operation inside the program, computed once for all runs."""
        count = self._counts[kind] = self._counts.get(kind, 0) + 1
        key = (id(self.node), kind, count)
        inner = self.explorer.inner
        if key not in inner:
            with surrounded(execution=None):
                inner[key] = make()
        return inner[key]

    def state(
        self,
        key: Hashable | None,
        make: Callable[[], tuple[Any, Shared]],
        copied: Callable[[Any], Any],
    ) -> Any:
        """The result of a program inside the program: equal states are merged.

        Calls with equal arguments have the same result, whatever was chosen before, unless
        something is drawn: then every call of an execution is a new draw.
        """
        if key is None:
            return self.once("program", make)[0]
        inner, shared = self.explorer.inner, self.explorer.shared
        count = self._states[key] = self._states.get(key, 0) + 1
        if (key, count) in inner:
            return inner[(key, count)]
        if key in shared:
            result, sharing = shared[key]
        else:
            with surrounded(execution=None):
                result, sharing = make()
            if sharing != "own":
                shared[key] = result, sharing
        with surrounded(execution=None):
            inner[(key, count)] = copied(result) if sharing == "copy" else result
        return inner[(key, count)]


Shared = Literal["same", "copy", "own"]
"""What calls with equal arguments share: the result itself, its numbers, or nothing."""


def _outcomes(chance: Chance | Weighted[Any] | None) -> Any:
    return None if chance is None else chance.outcomes


def run(execution: Execution, function: Callable[[], Any]) -> None:
    """Run a program by a script; its choices and its result are added to the tree."""
    table, name = execution.explorer.table, execution.explorer.name
    seconds = current_settings().max_seconds
    try:
        with (
            watched(seconds) as execution.watched,
            surrounded(execution=execution),
            calls_of_functions(1),
        ):
            try:
                result = function()
            finally:
                arrive()  # before the blocks around are left
    except Stop:
        return
    except EndlessError:
        raise SizeError(
            f"{name}: the program has run for {seconds} seconds without making a choice"
            f"{execution.after()}, and may never end. Bound the loop, or allow more with "
            "dolphin.settings(max_seconds=...)."
        ) from None
    except Exception as error:
        if isinstance(error, DolphinError) and str(error).startswith(f"{name}: "):
            raise
        raise FunctionError(
            f"{name}: the program raised {told(error)}{execution.after()}."
        ) from error
    node = execution.node
    if execution.stopped:
        raise FunctionError(
            f"{name}: the program catches everything that is raised inside dolphin.choose, so it "
            "can't be stopped. Catch Exception instead of BaseException."
        )
    number = _number(execution, table, result)
    if node.known and node.result != number:
        raise execution.undecided()
    node.result = number


def _number(execution: Execution, table: SymbolTable, result: Any) -> int:
    """The number of a program's result."""
    name = execution.explorer.name
    if hasattr(result, "batch_size") and hasattr(result, "symbols"):
        raise FunctionError(
            f"{name}: the program returned a distribution{execution.after()}; it must return a "
            "symbol. Write `return dolphin.choose(d)`."
        )
    if isinstance(result, Weighted):
        raise FunctionError(
            f"{name}: the program returned a dolphin.weighted{execution.after()}; it must return a "
            "symbol. Write `return dolphin.choose(dolphin.weighted({...}))`."
        )
    if inspect.isgenerator(result) or inspect.iscoroutine(result):
        raise FunctionError(f"{name}: the program is a {type(result).__name__}, not a function.")
    try:
        return table.number(result)
    except SymbolError as error:
        raise SymbolError(
            f"{name}: what the program returned{execution.after()} can't be a symbol: {error}"
        ) from None


class Leaf(NamedTuple):
    """A complete execution."""

    result: int
    choices: dict[int, int]  # of each distribution asked: the number of the symbol
    draws: tuple[tuple[Node, int], ...]  # in order, with the outcome's place
    path: tuple[Any, ...]  # all choices, as symbols
    steps: tuple[int, ...]  # of each draw: how many choices were made before it
    alive: np.ndarray | None


def leaves(explorer: Explorer, root: Node, function: Callable[[], Any]) -> list[Leaf]:
    """All executions of a program, those of the first choices first. Runs it for new choices."""
    executions: list[Leaf] = []
    start: Any = (root, (), {}, (), (), (), None)
    waiting = [start]
    limit = min(current_settings().max_combinations, MOST_EXECUTIONS)
    while waiting:
        node, script, choices, draws, path, steps, alive = waiting.pop()
        if not node.known:
            run(Execution(explorer, root, script, None), function)
            explorer.table.remembered += 1
            explorer.sources.take_note()
            if not node.known:  # nothing to choose from
                continue
        if node.result is not None:
            executions.append(Leaf(node.result, choices, draws, path, steps, alive))
            if len(executions) + len(waiting) > limit:
                raise _too_many(explorer.name, limit)
        elif node.asked is not None:
            asked = explorer.asked(node.asked)
            for number in reversed(asked.candidates(alive)):
                rows = asked.rows_with(number)
                left = alive if rows is None else rows if alive is None else alive & rows
                symbol = explorer.table.symbols[number]
                more = {**choices, node.asked: number}
                at = (*script, number)
                after = (*path, symbol)
                waiting.append((node.child(number), at, more, draws, after, steps, left))
        else:
            outcomes = [explorer.table.symbols[n] for n in node.chance.outcomes]
            for place in reversed(range(len(outcomes))):
                drawn = (*draws, (node, place))
                after = (*path, outcomes[place])
                at = (*script, place)
                before = (*steps, len(path))
                waiting.append((node.child(place), at, choices, drawn, after, before, alive))
    return executions


def _too_many(name: str, limit: int) -> SizeError:
    return SizeError(
        f"{name}: the program has more than {limit:,} executions, one for each combination of its "
        "choices. Merge equal states by turning parts of it into separate programs and choosing "
        "from their results, keep each row's likeliest with @dolphin.program(keep=k), or raise the "
        f"limit with dolphin.settings(max_combinations=...), up to {MOST_EXECUTIONS:,}."
    )
