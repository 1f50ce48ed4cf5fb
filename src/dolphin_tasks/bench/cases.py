"""The programs of the benchmark by name, with their settings and targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import dolphin as dl
from dolphin.provenance import ProvenanceName, RegisteredName
from dolphin_tasks.bench.actions import Captions
from dolphin_tasks.bench.addition import Addition
from dolphin_tasks.bench.boards import Sudoku
from dolphin_tasks.bench.formulas import Formula
from dolphin_tasks.bench.kinship import Clutrr, Kinship
from dolphin_tasks.bench.knowledge import Count, TwoHops
from dolphin_tasks.bench.one_sample import HiddenMarkov, OneFormula, SumProgram, Trees
from dolphin_tasks.bench.paths import Chain, GridPaths
from dolphin_tasks.bench.program import Program
from dolphin_tasks.bench.sums import Product, Sum


@dataclass(frozen=True)
class Case:
    """One line of the benchmark's table."""

    name: str
    program: Program
    provenance: ProvenanceName = "damp"
    k: int | None = None
    batch: int = 64
    target: float | None = None
    """The target: the largest ratio of symbolic to neural time."""

    def algebra(self) -> dl.Provenance:
        if self.k is None:
            return dl.get_provenance(self.provenance)
        return dl.get_provenance(RegisteredName(self.provenance), k=self.k)


CASES = (
    Case("sum-5", Sum(5), target=0.01),
    Case("sum-10", Sum(10), target=0.01),
    Case("sum-15", Sum(15), target=0.01),
    Case("sum-15", Sum(15), "dtkp-am", 3, target=0.08),
    Case("sum-1024", Sum(1024), batch=16, target=0.1),
    Case("product-16", Product(16), target=0.3),
    Case("product-20", Product(20)),
    Case("add-15", Addition(15), target=0.1),
    Case("hwf-7", Formula(7), "dtkp-am", 3, target=0.03),
    Case("hwf-15", Formula(15), "dtkp-am", 3, target=0.04),
    Case("hwf-19", Formula(19), "dtkp-am", 3, target=0.05),
    Case("path-6x6", GridPaths(6), target=0.4),
    Case("path-6x6", GridPaths(6), "dtkp-am", 1, target=1.0),
    Case("closure-chain-64", Chain(64)),
    Case("closure-chain-64", Chain(64), "dtkp-am", 1),
    Case("kinship-4", Kinship(4, shortest=4)),
    Case("kinship-4", Kinship(4, shortest=4), "dtkp-am", 3),
    Case("kinship-10", Kinship(10, shortest=10)),
    Case("kinship-10", Kinship(10, shortest=10), "dtkp-am", 3),
    Case("clutrr-like", Clutrr(4), "noisy-or", batch=16, target=0.2),
    Case("mugen-like", Captions(16), batch=3, target=0.2),
    Case("sudoku-4x4", Sudoku()),
    Case("sudoku-4x4", Sudoku(), "exact"),
    Case("kg-50k", TwoHops(50_000), batch=32),
    Case("kg-50k", TwoHops(50_000), "dtkp-am", 3, batch=32),
    Case("count-50", Count(50)),
    Case("tree-64", Trees()),
    Case("tree-64", Trees(), "dtkp-am", 3),
    Case("hwf-7-batched", OneFormula(7), "dtkp-am", 3),
    Case("sum-15-program", SumProgram(15)),
    Case("hmm-50", HiddenMarkov(50)),
)
NAMES = tuple(dict.fromkeys(case.name for case in CASES))


def choose(
    names: Sequence[str] = (),
    *,
    provenance: str | None = None,
    k: int | None = None,
    batch: int | None = None,
) -> list[Case]:
    """The cases of these programs, all by default, with settings other than their own if given.

    A case with changed settings has no target.

    >>> [(case.provenance, case.k) for case in choose(["sum-15"])]
    [('damp', None), ('dtkp-am', 3)]
    >>> [(case.provenance, case.k, case.target) for case in choose(["sum-15"], provenance="damp")]
    [('damp', None, 0.01)]
    """
    chosen: list[Case] = []
    for name in names or NAMES:
        own = [case for case in CASES if case.name == name]
        if not own:
            raise ValueError(f"unknown program {name!r}; the programs are {', '.join(NAMES)}")
        if provenance is not None:
            own = [case for case in own if case.provenance == provenance] or [
                replace(own[0], provenance=provenance, k=None, target=None)
            ]
        for case in own:
            changed = case
            if k is not None and case.k != k and case.provenance.startswith("dtkp"):
                changed = replace(changed, k=k, target=None)
            if batch is not None and case.batch != batch:
                changed = replace(changed, batch=batch, target=None)
            chosen.append(changed)
    return list(dict.fromkeys(chosen))
