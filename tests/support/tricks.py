"""Tricks against the cache: a function, a change of what it reads, and how to undo it.

Each is a source text that defines `f` (and `symbols`, if 0 and 1 won't do), and two more that are
run in the same scope.
"""

from __future__ import annotations

from typing import Any

import dolphin as dl

LAYOUTS = ("shared", "rows", "program", "batched")


class Trick:
    def __init__(self, source: str, change: str, undo: str = "") -> None:
        self.scope: dict[str, Any] = {"__name__": "program_of_a_user"}
        self.change, self.undo = change, undo
        self._run(source)

    def _run(self, source: str) -> None:
        exec(compile(source, "<trick>", "exec", dont_inherit=True), self.scope)

    def check(self, layout: str) -> None:
        """Dolphin says what Python says, before and after the change."""
        assert self.answers(layout) == self.answers(layout) == self.truth()
        before = self.truth()
        self._run(self.change)
        try:
            after = self.truth()
            assert before != after, "the change doesn't matter"
            assert self.answers(layout) == after, "stale"
            assert self.answers(layout) == after, "stale"
        finally:
            self._run(self.undo)

    @property
    def symbols(self) -> list[Any]:
        return self.scope.get("symbols", [0, 1])

    def truth(self) -> list[Any]:
        return list(dict.fromkeys(map(self.scope["f"], self.symbols)))

    def answers(self, layout: str) -> list[Any]:
        f = self.scope["f"]
        if layout == "rows":
            return list(dl.Distribution.from_rows([(self.symbols, [0.5, 0.5])]).map(f).symbols)
        d = dl.Distribution([0.5, 0.5], self.symbols)
        if layout == "shared":
            return list(d.map(f).symbols)

        if layout == "batched":
            return list(dl.batched(lambda d: d.map(f))(d).symbols)

        @dl.program
        def chosen(d):
            return f(dl.choose(d))

        return list(chosen(d).symbols)
