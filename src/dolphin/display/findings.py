"""What `diagnose` finds, as text and in notebooks."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from torch import Tensor

from dolphin.display import html
from dolphin.execution.profiling import Entry

_WIDTH = 80  # columns of printed text


@dataclass(frozen=True)
class Finding:
    """One reason why rows don't learn: which rows, what was observed, what to try."""

    kind: str
    rows: tuple[int, ...]
    text: str
    advice: str


@dataclass(frozen=True)
class Diagnosis:
    """The findings of `diagnose`. `print` it, or read its fields."""

    batch: int
    findings: tuple[Finding, ...]
    unreachable: tuple[int, ...]
    """Rows whose target is not among the symbols, or has no derivation."""
    dead: tuple[int, ...]
    """Rows that reach their target, but get no gradient from it."""
    bounds: tuple[Tensor, Tensor] | None
    """(B,) lower and upper bounds on the target's true probability, where they are known."""
    operations: tuple[Entry, ...]
    """Operations of the `dolphin.profile()` block around the call, if there is one."""
    bytes_per_combination: int
    fixed: tuple[int, int] = (0, 0)
    """How many of how many inputs require no gradient, for algebras that know their inputs."""

    def __str__(self) -> str:
        lines = [self._title()]
        for finding in self.findings:
            lines.append(_wrapped(f"- {finding.kind}: {finding.text}", "  "))
            lines.append(_wrapped(f"  try: {finding.advice}", " " * 7))
        return "\n".join([*lines, *(_wrapped(f"- {note}", "  ") for note in self._notes())])

    def _repr_html_(self) -> str:
        lines = [(finding.kind, finding.text, finding.advice) for finding in self.findings]
        head = ("finding", "what was seen", "what to try")
        shown = html.table(head, lines, texts=3, wrap=True) if lines else ""
        return html.heading(self._title()) + shown + html.notes(self._notes())

    def _title(self) -> str:
        return f"{counted(self.batch, 'row')}, {counted(len(self.findings), 'finding')}"

    def _notes(self) -> list[str]:
        """Bounds and costs, where they are known."""
        notes = []
        if self.bounds is not None and self.bounds[1].any():
            low, high = (f"{bound.mean().item():.3g}" for bound in self.bounds)
            shown = low if low == high else f"between {low} and {high}"
            notes.append(f"the target's probability, on average: {shown}")
        if 0 < self.fixed[0] < self.fixed[1]:
            notes.append(
                f"{self.fixed[0]} of {self.fixed[1]} inputs require no gradient (a frozen network, "
                "a detached tensor): they are taken as given"
            )
        for entry in self.operations:
            size = entry.combinations * self.batch * self.bytes_per_combination / 1e6
            notes.append(
                f"{entry.operation} {entry.function}: {entry.combinations:,} combinations in "
                f"{entry.calls} calls, about {size:.3g} MB"
            )
        return notes


def _wrapped(text: str, indent: str) -> str:
    """The text in lines that fit a terminal."""
    return textwrap.fill(
        text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def counted(number: int, noun: str) -> str:
    """A number and its noun: "1 row", "3 rows"."""
    return f"{number} {noun}{'s' * (number != 1)}"
