"""Rows with symbols of their own: a compiled tag stage against the one that runs.

Such programs can't be traced, because their index lists differ from batch to batch. But what they
do to tags is always the same: gather, ⊗, segment ⊕. Here that is one function of tags and index
lists, compiled for any shapes, and it is given the contractions of a hundred batches of formulas of
different lengths (`damp`, 7 formulas kept per row, 1 to 64 rows). The results say how often it is
compiled, and how long forward and backward take compared with what `damp` runs.

    python benchmarks/compiled_rows.py        # two minutes; writes benchmarks/results/
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch._dynamo.eval_frame import _debug_get_cache_entry_list

import dolphin as dl
from dolphin.execution.indices import Contraction
from dolphin_tasks.hwf.program import calculate, readings

RESULTS = Path(__file__).with_name("results") / "compiled_rows.json"
BATCHES = 100
LONGEST = 7
Given = tuple[Sequence[Tensor], Contraction]


class Recording(dl.DAMP):
    """`damp`, with a list of what it contracts."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Given] = []

    def contract(self, operands: Sequence[Tensor], plan: Contraction) -> Tensor:
        if len(operands) == 2:
            self.seen.append(([each.detach().clone() for each in operands], plan))
        return super().contract(operands, plan)


def contractions() -> Iterator[list[Given]]:
    """Those of one batch after the other."""
    generator = torch.Generator().manual_seed(0)
    for batch in range(BATCHES):
        rows = 1 + batch * 37 % 64
        lengths = 1 + 2 * torch.randint(0, (LONGEST + 1) // 2, (rows,), generator=generator)
        algebra = Recording()
        with dl.using(algebra), torch.no_grad():
            symbols = readings(torch.randn(rows, LONGEST, 14, generator=generator))
            calculate(symbols, lengths).probs()
        yield algebra.seen


def stage(a: Tensor, b: Tensor, i: Tensor, j: Tensor, group_of: Tensor, groups: int) -> Tensor:
    """⊕ over each group of a[i] ⊗ b[j], in logarithms, at most 0."""
    both = a.index_select(0, i) + b.index_select(0, j)
    at = group_of[:, None].expand_as(both)
    low = both.new_full((groups, both.shape[1]), -1e4)
    most = low.scatter_reduce(0, at, both.detach(), "amax")
    total = torch.zeros_like(most).scatter_add(0, at, (both - most.gather(0, at)).exp())
    return (total.clamp(min=1e-38).log() + most).clamp(max=0.0)


def step(run: Callable[..., Tensor], operands: Sequence[Tensor], *lists: object) -> Tensor:
    """Forward and backward."""
    leaves = [each.clone().requires_grad_() for each in operands]
    out = run(*leaves, *lists)
    out.sum().backward()
    return out.detach()


def main() -> None:
    """Measure, print and write."""
    torch.set_num_threads(1)
    algebra = dl.DAMP()
    compiled = torch.compile(stage, fullgraph=True, dynamic=True)
    times: dict[str, list[float]] = {"damp": [], "written": [], "compiled": []}
    compiling = apart = 0.0
    count = 0
    for seen in contractions():
        spent = dict.fromkeys(times, 0.0)
        for operands, plan in seen:
            lists = [torch.from_numpy(each) for each in (*plan.indices, plan.group_of)]
            ways = {
                "damp": lambda a, b, *_, plan=plan: algebra.contract([a, b], plan),
                "written": stage,
                "compiled": compiled,
            }
            results = []
            for name, run in ways.items():
                started = time.process_time()
                step(run, operands, *lists, plan.groups)
                again = time.process_time()
                results.append(step(run, operands, *lists, plan.groups))
                spent[name] += time.process_time() - again
                if name == "compiled":
                    compiling += max(0.0, 2 * again - started - time.process_time())
            right, *others = results
            apart = max(apart, *((each.exp() - right.exp()).abs().max().item() for each in others))
            count += 1
        for name, own in times.items():
            own.append(1000.0 * spent[name])
    found = {
        "batches": BATCHES,
        "contractions": count,
        "graphs": len(_debug_get_cache_entry_list(stage.__code__)),
        "compiling_cpu_s": compiling,
        "apart": apart,
        "ms_per_batch": {name: statistics.median(own) for name, own in times.items()},
        "torch": torch.__version__,
        "load": os.getloadavg()[0],
    }
    print(json.dumps(found, indent=1))
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
