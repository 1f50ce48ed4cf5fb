"""Programs with choices in plain Python: every execution, one after the other.

`every_execution(run)` calls `run(pick)` once for each way in which its picks can go.
`pick(key, options)` gives one of `options`, pairs of a value and its weight; the same key gives the
same value again within one execution. The answer is a dictionary from what was returned to the sum
over executions of the product of the weights picked, in whatever arithmetic the weights have: with
tensors autograd differentiates it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

Options = Sequence[tuple[Any, Any]]
Pick = Callable[[Hashable, Options], Any]


class NothingError(Exception):
    """The execution has no result: a pick without options."""


class _Execution:
    """One execution: the picks of a script, then the first option of every further pick."""

    def __init__(self, script: list[int]) -> None:
        self.script = script
        self.others: list[list[int]] = []  # scripts of executions that go another way
        self.weight: Any = 1.0
        self._step = 0
        self._made: dict[Hashable, Any] = {}

    def pick(self, key: Hashable, options: Options) -> Any:
        if key in self._made:
            return self._made[key]
        if not options:
            raise NothingError
        if self._step == len(self.script):
            self.others += [[*self.script, other] for other in range(1, len(options))]
            self.script.append(0)
        value, own = options[self.script[self._step]]
        self._step += 1
        self.weight = self.weight * own
        self._made[key] = value
        return value


def every_execution(run: Callable[[Pick], Any]) -> dict[Any, Any]:
    answer: dict[Any, Any] = {}
    waiting: list[list[int]] = [[]]
    while waiting:
        execution = _Execution(waiting.pop())
        try:
            result = run(execution.pick)
            answer[result] = answer.get(result, 0.0) + execution.weight
        except NothingError:
            pass
        waiting += execution.others
    return answer
