"""Why a symbol holds: proofs down to facts, and how they are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any, NamedTuple

from dolphin.display import html
from dolphin.display.showing import members_of, rounded, row_number
from dolphin.errors import InputError, listing, shorten
from dolphin.execution.tagged import Tagged
from dolphin.symbolic.symbols import Symbols

Key = tuple[Any, bool]  # which fact, and whether it holds
KeyedProof = tuple[float, dict[Key, "Fact"]]  # a proof, with its facts by key


class Fact(NamedTuple):
    """One symbol of an input, as part of a proof."""

    symbol: Any
    probability: float
    holds: bool = True
    source: str = ""
    """The input that it belongs to, in explanations of a drawing (`dolphin.draw`)."""

    def text(self) -> str:
        """The symbol, with "not" where it doesn't hold."""
        return f"{'' if self.holds else 'not '}{shorten(self.symbol, 60)}"


class Proof(NamedTuple):
    """Facts that together are enough to derive a symbol."""

    probability: float
    facts: tuple[Fact, ...]


class Derivation(NamedTuple):
    """How a symbol follows: the operation that derived it, and what from."""

    symbol: Any
    operation: str
    """The operation and its function, "apply add". "certain": nothing had to be derived. "input
    NAME": what the program was given, itself a result of facts."""
    parts: tuple[Derivation | Fact, ...]


class Proofs(list[Proof]):
    """The proofs of a symbol, likeliest first. `print` shows a tree; a notebook draws it.

    Args:
        proofs: the proofs, likeliest first.
        symbol: what they prove.
        derivations: how the symbol follows from each of them, operation by operation. Without
            them, the tree shows only the facts.

    >>> import dolphin as dl
    >>> facts = (dl.Fact("a", 0.8), dl.Fact("b", 0.5, False))
    >>> print(dl.Proofs([dl.Proof(0.4, facts)], "ab"))
    'ab' because
    └─ 0.4
       ├─ 'a'  0.8
       └─ not 'b'  0.5
    """

    def __init__(
        self,
        proofs: Iterable[Proof],
        symbol: Any,
        derivations: Sequence[Derivation | Fact] = (),
    ) -> None:
        super().__init__(proofs)
        self.symbol = symbol
        self.derivations = tuple(derivations)

    def __reduce__(self) -> Any:
        return type(self), (list(self), self.symbol, self.derivations)

    def __str__(self) -> str:
        lines = [f"{shorten(self.symbol, 60)} {'because' if self else 'has no proof'}"]
        roots = [(_root_text(proof, how), parts) for proof, how, parts in self._trees()]
        return "\n".join([*lines, *_branches(roots, "")])

    def to_html(self, thumbnail: Callable[[Fact], str | None] | None = None) -> str:
        """The tree as HTML.

        Args:
            thumbnail: the address of a small picture of what a fact was read from (a file, or a
                `data:` URL), or None if it has none.
        """

        def drawn(part: Derivation | Fact) -> html.Tree:
            if isinstance(part, Derivation):
                text = f"<code>{escape(shorten(part.symbol, 60))}</code> {_by(part.operation)}"
                return text, [drawn(each) for each in part.parts]
            source = thumbnail(part) if thumbnail is not None else None
            picture = f'<img src="{escape(source)}" height="28" alt=""> ' if source else ""
            number = f"{html.bar(part.probability)} {part.probability:.4g}"
            name = f' <span style="opacity:0.7">{escape(part.source)}</span>' if part.source else ""
            return f"{picture}<code>{escape(part.text())}</code> {number}{name}", []

        branches = []
        for number, (proof, how, parts) in enumerate(self._trees(), 1):
            by = f" {_by(how)}" if how else ""
            text = f"proof {number}: {html.bar(proof.probability)} {proof.probability:.4g}{by}"
            branches.append((text, [drawn(part) for part in parts] or [("always", [])]))
        verdict = "because" if self else "has no proof"
        return html.tree((f"<code>{escape(shorten(self.symbol, 60))}</code> {verdict}", branches))

    def _trees(self) -> Iterable[tuple[Proof, str, Sequence[Derivation | Fact]]]:
        """Each proof, the last operation of its derivation, and what is below it."""
        for number, proof in enumerate(self):
            whole = self.derivations[number] if self.derivations else None
            if isinstance(whole, Derivation):
                yield proof, whole.operation, whole.parts
            else:
                yield proof, "", proof.facts

    def _repr_html_(self) -> str:
        return self.to_html()


def _by(operation: str) -> str:
    return f'<span style="opacity:0.7">{escape(_how(operation))}</span>'


def _how(operation: str) -> str:
    given = operation == "certain" or operation.startswith("input")
    return operation if given else f"by {operation}"


def _root_text(proof: Proof, operation: str) -> str:
    return f"{proof.probability:.4g}{f'  {_how(operation)}' if operation else ''}"


def _branches(
    nodes: Sequence[tuple[str, Sequence[Derivation | Fact]]], margin: str, top: bool = True
) -> list[str]:
    """The lines of a tree; a proof without facts always holds."""
    lines = []
    for number, (text, parts) in enumerate(nodes):
        last = number == len(nodes) - 1
        lines.append(f"{margin}{'└─' if last else '├─'} {text}")
        inner = margin + ("   " if last else "│  ")
        below = [_node_text(part) for part in parts]
        lines += _branches(below or ([("always", ())] if top else []), inner, False)
    return lines


def _node_text(part: Derivation | Fact) -> tuple[str, Sequence[Derivation | Fact]]:
    if isinstance(part, Derivation):
        return f"{shorten(part.symbol, 60)}  {_how(part.operation)}", part.parts
    source = f"  {part.source}" if part.source else ""
    return f"{part.text()}  {part.probability:.4g}{source}", ()


def proofs_of(d: Tagged, symbol: Any, row: int) -> list[KeyedProof]:
    """The proofs of a symbol of a row, likeliest first."""
    row = row_number("explain", row, d.batch)
    members = Symbols.of(members_of(d, row))
    place = members.index_of(symbol)
    if place < 0:
        raise InputError(
            f"explain: {shorten(symbol)} is not among the symbols of row {row}: {listing(members)}."
        )
    if not d.shared:
        place += row * d.width
    proofs = d.provenance.proofs(d.tags_like(), place, row)
    return [
        (
            rounded(p),
            {
                (key[0] if key else number, holds): Fact(label, rounded(probability), holds)
                for number, (label, holds, probability, *key) in enumerate(facts)
            },
        )
        for p, facts in proofs
    ]
