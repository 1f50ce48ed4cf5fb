"""What the tag stage does to a device: it reads no value, and few operations are launched."""

from __future__ import annotations

import operator

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import dolphin as dl
from dolphin.execution import eager

# The most operations that are dispatched, forward and backward, for the program below: two
# operations of `apply`, a `map`, a `union` and reading it. Figures of the day, and a tenth more.
CEILINGS = {
    "damp": (65, 77), "dtkp-am": (298, 51), "dtkp-wmc": (331, 56), "exact": (118, 120),
    "viterbi": (40, 85), "noisy-or": (96, 76), "min-max": (60, 96), "lukasiewicz": (105, 149),
    "stable-product": (168, 222), "hamacher": (255, 470), "nilpotent": (171, 377),
    "yager": (208, 518), "schweizer-sklar": (421, 670), "frank": (205, 377),
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


@pytest.mark.parametrize(
    "name", ["damp", "dtkp-am", "dtkp-wmc", "exact", "viterbi", "noisy-or", "min-max", "hamacher"]
)
def test_one_compiled_module_serves_all_batches(name, dynamo):
    """One graph for a single row, as the compiler has it, and one for all other numbers of rows.

    By default the compiler makes one more, for the first number of rows. That is tried with one
    provenance, and a single row with three: each graph takes half a second.
    """
    dynamic = None if name == "damp" else True
    single = [1] if name in ("damp", "dtkp-am", "exact") else []
    traced = dl.trace(
        lambda a, b: dl.apply(a, b, operator.add), range(3), range(3), provenance=name
    )
    counter = dynamo.testing.CompileCounterWithBackend("eager")
    compiled = torch.compile(traced, fullgraph=True, dynamic=dynamic, backend=counter)
    for rows in (4, 7, 64, 3, 1000, 2, 13, *single):
        given = [torch.rand(rows, 3).softmax(1) for _ in "ab"]
        torch.testing.assert_close(
            compiled(*given).exp(), traced(*given).exp(), rtol=1e-6, atol=1e-6
        )
    assert counter.frame_count <= (1 if dynamic else 2) + len(single)


@pytest.mark.parametrize("name", ["damp", "noisy-or"])
def test_compiled_code_selects_all_symbols(name):
    """What is known of index lists only when they are used is found out before compiling."""

    def differ(a, b):
        return dl.exists(dl.apply_if(a, b, operator.add, operator.ne))

    traced = dl.trace(differ, range(4), range(4), provenance=name)
    compiled = torch.compile(traced, fullgraph=True, dynamic=True, backend="eager")
    given = [torch.rand(5, 4).softmax(1) for _ in "ab"]
    torch.testing.assert_close(compiled(*given), traced(*given))


class Kept(torch.nn.Module):
    """Each row goes on with its three likeliest digits."""

    def __init__(self) -> None:
        super().__init__()
        self.read = torch.nn.Linear(6, 10)

    def forward(self, images, counts):
        given = (dl.Distribution(p, range(10)) for p in self.read(images).softmax(-1).unbind(1))
        first, second = (dl.sample(d, 3) for d in given)
        return dl.apply(first, second, lambda a, b: (a + b) % 5).probs(range(5))


class Ragged(torch.nn.Module):
    """Each row has as many digits as it likes."""

    def __init__(self) -> None:
        super().__init__()
        self.read = torch.nn.Linear(6, 4)

    def forward(self, images, counts):
        return self.somewhere(self.read(images.flatten(0, 1)).softmax(-1), counts)

    @staticmethod
    @torch.compiler.disable
    def somewhere(probs, numbers):
        counts = numbers.tolist()
        symbols = [[(place, digit) for place in range(n) for digit in range(4)] for n in counts]
        rows = list(zip(symbols, (p.reshape(-1) for p in probs.split(counts)), strict=True))
        groups = [[list(range(4 * place, 4 * place + 4)) for place in range(n)] for n in counts]
        d = dl.Distribution.from_rows(rows, exclusive=groups)
        return d.map(lambda where: where[1]).probs(range(4))


def test_no_operation_is_looked_into(dynamo):
    """A compiled program has a frame after each operation, and none of the engine."""

    def program(probs):
        a, b = (dl.Distribution(part, range(3)) for part in (probs, probs.flip(-1)))
        both = dl.union(a + b, dl.apply(a, lambda x: 2 * x), (a < b).map(int))
        settled = dl.fixpoint(lambda d: dl.union(d, d.map(lambda x: min(9, x + 1))), a)
        choice = dl.estimate(lambda x, y: x * y, a, b, samples=4)
        loss = dl.nll_loss(dl.reduce(max, [a, b]), [1, 2]) + a.normalized().expected().sum()
        return loss + both.entropy().sum() + settled.probs().sum() + 0 * choice.sum()

    dynamo.utils.counters.clear()
    probs = torch.tensor([[0.2, 0.3, 0.5], [0.6, 0.1, 0.3]])
    found = torch.compile(program, backend="eager")(probs)
    torch.testing.assert_close(found, program(probs))
    assert dynamo.utils.counters["frames"]["total"] <= 30  # over 100 for one of the engine


@pytest.mark.parametrize("kind", [Kept, Ragged])
def test_a_model_whose_rows_differ_is_not_compiled_again(kind, dynamo):
    """The network is compiled, for any number of rows; the operations are not looked into."""
    torch.manual_seed(0)
    counter = dynamo.testing.CompileCounterWithBackend("eager")
    model = kind()
    compiled = torch.compile(model, backend=counter)
    with dynamo.config.patch(fail_on_recompile_limit_hit=True):
        for step in range(100):
            images = torch.rand(1 + step * 5 % 9, 2, 6)
            whole = len(images) * 2 - 1
            counts = [1] * (step % (whole + 1)) + [2 * len(images) - step % (whole + 1)]
            given = images, torch.tensor(counts)  # the compiler knows a list by its length
            found = compiled(*given)
            if step % 10 == 0:
                torch.testing.assert_close(found, model(*given))
    assert counter.frame_count <= 4  # one and several, of rows and of counts


def test_without_a_mark_on_code_operations_are_wrapped(dynamo):
    """As in versions of torch that don't have the mark: a graph break, and nothing looked into."""
    looked_into = []

    def inside(x):
        looked_into.append(torch.compiler.is_compiling())
        return 2 * x

    operation = eager._disabled(inside)
    compiled = torch.compile(lambda x: operation(x + 1) - 1, backend="eager")
    torch.testing.assert_close(compiled(torch.ones(2)), torch.tensor([3.0, 3.0]))
    assert looked_into == [False]
