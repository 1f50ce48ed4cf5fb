"""What the tag stage does to a device: it reads no value, and few operations are launched."""

from __future__ import annotations

import operator

import pytest
import torch
import torch._dynamo.testing
from torch.utils._python_dispatch import TorchDispatchMode

import dolphin as dl

# The most operations that are dispatched, forward and backward, for the program below: two
# operations of `apply`, a `map`, a `union` and reading it. Figures of the day, and a tenth more.
CEILINGS = {
    "damp": (65, 77), "dtkp-am": (298, 51), "dtkp-wmc": (331, 56), "exact": (118, 120),
    "viterbi": (40, 85), "noisy-or": (96, 76), "min-max": (60, 96), "lukasiewicz": (85, 135),
    "stable-product": (97, 110), "hamacher": (255, 424), "nilpotent": (171, 377),
    "yager": (208, 518), "schweizer-sklar": (414, 608), "frank": (205, 377),
    "boolean": (55, 0), "counting": (61, 0),
}  # fmt: skip
READS = {"_local_scalar_dense", "nonzero", "equal", "masked_select", "_unique2", "unique_dim"}


class Dispatched(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", CEILINGS)
def test_shared_programs_read_no_value_and_launch_few_operations(name):
    """Meta tensors have no values, so results have static shapes, and nothing can be read."""

    def run(device: str) -> tuple[list[str], list[str]]:
        xs = [torch.rand(4, 3).softmax(1).to(device).requires_grad_() for _ in "abc"]
        a, b, c = (dl.Distribution(x, range(3), provenance=name) for x in xs)
        with Dispatched() as forward:
            total = dl.apply(dl.apply(a, b, operator.add), c, lambda s, t: (s + t) % 4)
            logs = dl.union(total, a.map(lambda s: s)).log_probs()
        with Dispatched() as backward:
            if logs.requires_grad:
                logs.sum().backward()
        assert logs.device.type == device and logs.shape == (4, 4)
        return forward.names, backward.names

    run("meta")  # plans are made, and index lists copied, once
    names = run("meta")
    assert not READS & {each for part in names for each in part}
    for part, most in zip(names, CEILINGS[name], strict=True):
        assert len(part) <= most


def test_one_compiled_module_serves_all_batches():
    """One graph for a single row, as the compiler has it, and one for all other numbers of rows."""
    traced = dl.trace(lambda a, b: dl.apply(a, b, operator.add), range(3), range(3))
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounterWithBackend("eager")
    compiled = torch.compile(traced, fullgraph=True, backend=counter)
    for rows in (4, 7, 64, 3, 1000, 2, 33, 5, 128, 11, 13, 1):
        given = [torch.rand(rows, 3).softmax(1) for _ in "ab"]
        torch.testing.assert_close(compiled(*given), traced(*given), rtol=1e-6, atol=1e-6)
    assert counter.frame_count <= 3  # the first size, any size, one row
