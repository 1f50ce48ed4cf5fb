"""From the answers of a search to a distribution over their symbols."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dolphin.errors import FunctionError, SymbolError, shorten
from dolphin.lm.search import Answer
from dolphin.lm.symbols import OTHER
from dolphin.symbolic.kinds import canonical

NOT_PARSED = (ValueError, LookupError, ArithmeticError, SyntaxError)
"""What `parse` may raise to say that a text is not an answer."""
_LEAST = 1e-9  # of the rest, so that its logarithm is finite whatever rounding does


@dataclass(frozen=True)
class Answered:
    """The answers of one row that parse, and their symbols."""

    answers: list[Answer]
    symbols: list[Any]
    """The different symbols, likeliest first."""
    places: list[int]
    """For each answer the place of its symbol."""

    def distribution(self, logs: Tensor) -> tuple[list[Any], Tensor]:
        """Symbols and log-probabilities, `OTHER` last, from log-probabilities of the answers."""
        sums = [
            logs[[n for n, own in enumerate(self.places) if own == place]].logsumexp(0)
            for place in range(len(self.symbols))
        ]
        together = torch.stack(sums) if sums else logs.new_empty(0)
        rest = (1.0 - together.exp().sum()).clamp(min=_LEAST).log()
        return [*self.symbols, OTHER], torch.cat([together, rest[None]])


def parsed(
    operation: str,
    answers: Sequence[Answer],
    text: Callable[[Sequence[int]], str],
    parse: Callable[[str], Any] | None,
) -> Answered:
    """The answers of one row with their symbols, equal symbols merged."""
    kept: list[Answer] = []
    places: list[int] = []
    symbols: dict[Any, int] = {}
    for answer in sorted(answers, key=lambda answer: -answer.log_prob):
        symbol = _symbol(operation, text(answer.tokens), parse)
        if symbol is OTHER:
            continue
        kept.append(answer)
        places.append(symbols.setdefault(symbol, len(symbols)))
    return Answered(kept, list(symbols), places)


def _symbol(operation: str, text: str, parse: Callable[[str], Any] | None) -> Any:
    if parse is None:
        return text
    try:
        symbol = canonical(parse(text))
        hash(symbol)
    except NOT_PARSED:
        return OTHER
    except SymbolError:
        raise
    except Exception as error:
        raise FunctionError(
            f"{operation}: parse failed on {shorten(text)}: {type(error).__name__}: {error}. Raise "
            "a ValueError, or return OTHER, for a text that is not an answer; return a hashable "
            "symbol otherwise."
        ) from error
    return symbol
