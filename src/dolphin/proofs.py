"""Why a symbol holds: proofs down to facts, and how they are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape
from typing import Any, NamedTuple

from dolphin.display import html
from dolphin.errors import shorten


class Fact(NamedTuple):
    """One symbol of an input, as part of a proof."""

    symbol: Any
    probability: float
    holds: bool = True

    def text(self) -> str:
        """The symbol, with "not" where it doesn't hold."""
        return f"{'' if self.holds else 'not '}{shorten(self.symbol, 60)}"


class Proof(NamedTuple):
    """Facts that together are enough to derive a symbol."""

    probability: float
    facts: tuple[Fact, ...]


class Proofs(list[Proof]):
    """The proofs of a symbol, likeliest first. `print` shows a tree; a notebook draws it.

    Args:
        proofs: what the list holds.
        symbol: what they prove.

    >>> print(Proofs([Proof(0.4, (Fact("a", 0.8), Fact("b", 0.5, False)))], "ab"))
    'ab' because
    └─ 0.4
       ├─ 'a'  0.8
       └─ not 'b'  0.5
    """

    def __init__(self, proofs: Iterable[Proof], symbol: Any) -> None:
        super().__init__(proofs)
        self.symbol = symbol

    def __reduce__(self) -> Any:
        return type(self), (list(self), self.symbol)

    def __str__(self) -> str:
        lines = [f"{shorten(self.symbol, 60)} {'because' if self else 'has no proof'}"]
        for number, proof in enumerate(self):
            last = number == len(self) - 1
            lines.append(f"{'└─' if last else '├─'} {proof.probability:.4g}")
            margin = "   " if last else "│  "
            facts = [f"{fact.text()}  {fact.probability:.4g}" for fact in proof.facts]
            for place, fact in enumerate(facts or ["always"]):
                branch = "└─" if place >= len(facts) - 1 else "├─"
                lines.append(f"{margin}{branch} {fact}")
        return "\n".join(lines)

    def to_html(self, thumbnail: Callable[[Fact], str | None] | None = None) -> str:
        """The tree as HTML.

        Args:
            thumbnail: the address of a small picture of what a fact was read from (a file, or a
                `data:` URL), or None if it has none.
        """

        def leaf(fact: Fact) -> str:
            source = thumbnail(fact) if thumbnail is not None else None
            picture = f'<img src="{escape(source)}" height="28" alt=""> ' if source else ""
            text = escape(fact.text())
            return (
                f"{picture}<code>{text}</code> {html.bar(fact.probability)} {fact.probability:.4g}"
            )

        branches = [
            (
                f"proof {number}: {html.bar(proof.probability)} {proof.probability:.4g}",
                [leaf(fact) for fact in proof.facts] or ["always"],
            )
            for number, proof in enumerate(self, 1)
        ]
        verdict = "because" if self else "has no proof"
        return html.tree(f"<code>{escape(shorten(self.symbol, 60))}</code> {verdict}", branches)

    def _repr_html_(self) -> str:
        return self.to_html()
