"""Programs for one sample, run for a batch of them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import numpy as np
import torch
from torch import Tensor, nn

from dolphin.distribution import Distribution, distribution_of
from dolphin.errors import DolphinError, FunctionError, InputError, MismatchError, shorten, told
from dolphin.execution.batching.crew import Crew, SampleFailed
from dolphin.execution.batching.in_step import by_place
from dolphin.execution.batching.nodes import Form, Node, Nodes, Recipe
from dolphin.execution.batching.pending import recorded_input, rows_given
from dolphin.execution.eager import eager
from dolphin.execution.tagged import Tagged, tagged_of
from dolphin.inputs.arguments import flag
from dolphin.inputs.checks import Exclusive, precision, read_symbols
from dolphin.inputs.entering import settle_given
from dolphin.inputs.shared import read
from dolphin.programs.merging import merged
from dolphin.provenance.contract import TagInfo
from dolphin.provenance.differentiation import transformed
from dolphin.provenance.registry import AnyProvenance, resolve
from dolphin.symbolic.identity.functions import name_of
from dolphin.symbolic.identity.thread_locals import thread_local_in
from dolphin.symbolic.surroundings import surroundings
from dolphin.symbolic.symbols import Symbols

R = TypeVar("R")
S = TypeVar("S", bound=Hashable)
Plain = TypeVar("Plain", bound=int | float | complex | str | bytes | None)
Samples = Sequence[Any] | Tensor | np.ndarray | Distribution[Any]
"""One entry per sample."""


class Batched(Generic[R]):
    """A program for one sample that is called with many; made by `batched`."""

    def __init__(self, program: Callable[..., R]) -> None:
        if isinstance(program, Distribution) or not callable(program):
            raise InputError(f"batched: expected a function, got {shorten(program)}.")
        self.program = program
        try:
            self._signature = inspect.signature(program)
        except ValueError:  # a built-in one may have none
            raise InputError(
                f"batched: {shorten(program)} has no signature that Python can inspect. Wrap it in "
                "a function with one parameter per argument."
            ) from None
        functools.update_wrapper(self, program, updated=())

    def __repr__(self) -> str:
        return f"batched({name_of(self.program)})"

    def __get__(self, instance: Any, owner: type | None = None) -> Batched[R]:
        """As a method: the program of one object."""
        if instance is None:
            return self
        return Batched(self.program.__get__(instance, owner))  # type: ignore[attr-defined]

    @overload
    def __call__(self: Batched[Plain], *samples: Samples, **options: Any) -> list[Plain]: ...
    @overload
    def __call__(self, *samples: Samples, **options: Any) -> R: ...
    @eager
    def __call__(self, *samples: Any, **options: Any) -> Any:
        name = getattr(self.program, "__qualname__", type(self.program).__name__)
        calls = _calls(name, self._signature, samples, options)
        try:
            # Another batched program's batch is joined; a transform doesn't see what threads do.
            if surroundings().sample is not None or transformed():
                results = [_run_one(name, self.program, n, call) for n, call in enumerate(calls)]
            else:
                self._refuse_thread_locals(name)
                results = Crew(self.program, calls).run()
            return merged(name, results)
        except SampleFailed as failed:
            raise _explained(name, failed.number, failed.__cause__) from failed.__cause__

    def _refuse_thread_locals(self, name: str) -> None:
        read = thread_local_in(self.program)
        if read:
            raise FunctionError(
                f"{name}: the program reads `{read}`, a threading.local, and samples of a batched "
                "program run in threads of their own: it would not be the caller's value. Use a "
                "contextvars.ContextVar, or pass the value on."
            )


def batched(program: Callable[..., R]) -> Batched[R]:
    """Turn a program for one sample into a program for a batch of samples.

    It is called with one argument per parameter, each a sequence with one entry per sample: a list,
    a tensor or array (along its first dimension), or a `Distribution` (row by row). Keyword-only
    parameters are the same for all samples, and so is everything that the program closes over;
    parameters that are left out have their defaults.

    The program may use any Python: loops, recursion, `if` on a result's numbers, early returns.
    The same operation on different samples runs once for all of them, and calls of a
    `dolphin.network` as one batch. Samples are run one after the other and must not depend on each
    other; random numbers may be drawn in a different order than in a loop.

    Results are batched: distributions are stacked into one of B rows, tensors along a new first
    dimension, tuples, lists, dictionaries and dataclasses of these item by item; values that
    contain neither a distribution nor a tensor are returned as a list of B values. The results,
    and gradients, are those of a loop and `Distribution.stack`.

    Args:
        program: what is decorated: a function of one sample's arguments, or a method.

    >>> import torch, dolphin as dl
    >>> @dl.batched
    ... def total(numbers):
    ...     digits = [dl.Distribution(row, [0, 1]) for row in numbers]
    ...     return dl.reduce(lambda x, y: x + y, digits)
    >>> coin = torch.tensor([0.5, 0.5])
    >>> result = total([[coin], [coin, coin, coin]])
    >>> result.row(0), result.row(1)
    ([(0, 0.5), (1, 0.5)], [(0, 0.125), (1, 0.375), (2, 0.375), (3, 0.125)])
    """
    return Batched(program)


def _calls(
    name: str, signature: inspect.Signature, samples: Sequence[Any], options: Mapping[str, Any]
) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """The arguments of each sample's call."""
    try:
        bound = signature.bind(*samples, **options)
    except TypeError as error:
        raise InputError(
            f"{name}: {error}. Give one sequence per parameter, with one entry per sample; "
            "keyword-only parameters are the same for all samples."
        ) from None
    entries: dict[str, Sequence[Any]] = {}
    for parameter, values in bound.arguments.items():
        kind = signature.parameters[parameter].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            for place, value in enumerate(values):
                entries[f"{parameter}[{place}]"] = _entries(name, f"*{parameter}[{place}]", value)
        elif kind not in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD):
            entries[parameter] = _entries(name, parameter, values)
    if not entries:
        raise InputError(f"{name}: a batched program needs an argument with one entry per sample.")
    _check_lengths(name, entries)
    count = len(next(iter(entries.values())))
    return [_call_of(signature, bound, entries, number) for number in range(count)]


def _call_of(
    signature: inspect.Signature,
    bound: inspect.BoundArguments,
    entries: Mapping[str, Sequence[Any]],
    number: int,
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    own = inspect.BoundArguments(signature, type(bound.arguments)(bound.arguments))
    for parameter, values in bound.arguments.items():
        if signature.parameters[parameter].kind is inspect.Parameter.VAR_POSITIONAL:
            places = range(len(values))
            own.arguments[parameter] = tuple(entries[f"{parameter}[{p}]"][number] for p in places)
        elif parameter in entries:
            own.arguments[parameter] = entries[parameter][number]
    return own.args, own.kwargs


def _entries(name: str, parameter: str, values: Any) -> Any:
    """One entry per sample."""
    if isinstance(values, Distribution):
        return [distribution_of(row) for row in _rows_of(tagged_of(values))]
    if isinstance(values, Tensor) and values.dim() > 0:
        return values.unbind(0)
    numbered = hasattr(values, "__getitem__") and hasattr(values, "__len__")
    if isinstance(values, np.ndarray) and values.ndim == 0:
        numbered = False
    if numbered and not isinstance(values, (str, bytes, Mapping, Tensor)):
        return values
    raise InputError(
        f"{name}: the argument {parameter} must be a sequence with one entry per sample, got "
        f"{shorten(values)}. What is the same for all samples is a keyword-only parameter (after "
        "a *), or a name that the program closes over."
    )


def _rows_of(d: Tagged) -> list[Tagged]:
    """One distribution per row; nothing is copied before it is used."""
    if d.batch == 1 or d.certain or surroundings().sample is not None or transformed():
        return [d] if d.batch == 1 else [d.take_rows(np.array([row])) for row in range(d.batch)]
    domain = d.domain if isinstance(d.domain, Symbols) else None
    return list(rows_given(d, Form(domain, d.provenance, d.info(), d.exclusive)))


def _check_lengths(name: str, entries: Mapping[str, Sequence[Any]]) -> None:
    lengths = {parameter: len(values) for parameter, values in entries.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{length} of {parameter}" for parameter, length in lengths.items())
        raise MismatchError(
            f"{name}: every argument has one entry per sample, but there are {shown}."
        )
    if 0 in lengths.values():
        raise InputError(f"{name}: got no samples; a batch has at least one.")


def _run_one(name: str, program: Callable[..., Any], number: int, call: Any) -> Any:
    args, kwargs = call
    try:
        return program(*args, **kwargs)
    except Exception as error:
        raise _explained(name, number, error) from error


def _explained(name: str, number: int, error: BaseException | None) -> BaseException:
    """The error of a sample, with its number; of the same class if it is a `DolphinError`."""
    if not isinstance(error, Exception):  # KeyboardInterrupt, SystemExit: as they are
        return error or FunctionError(f"{name}: sample {number} failed.")
    kind = type(error) if isinstance(error, DolphinError) else FunctionError
    shown = str(error) if isinstance(error, DolphinError) else f"{type(error).__name__}: {error}"
    return kind(f"{name}: sample {number}: {shown}")


class Network(nn.Module, Generic[S]):
    """A network that takes one sample's input; made by `network`."""

    def __init__(
        self,
        net: Callable[..., Any],
        symbols: Any,
        *,
        exclusive: Exclusive = True,
        provenance: AnyProvenance | None = None,
        logits: bool = True,
    ) -> None:
        super().__init__()
        if isinstance(net, Distribution) or not callable(net):
            raise InputError(f"network: expected a network, got {shorten(net)}.")
        self.net = net
        self.symbols = read_symbols("network", symbols)
        self.exclusive: Exclusive = exclusive
        self.provenance: AnyProvenance | None = provenance
        self.logits = flag("network", "logits", logits)

    def extra_repr(self) -> str:
        return f"symbols={shorten(self.symbols.members)}"

    if TYPE_CHECKING:  # a module's own doesn't say what it returns

        def __call__(self, *inputs: Any) -> Distribution[S]: ...

    @eager
    def forward(self, *inputs: Any) -> Distribution[S]:
        """The network's distribution for one input, which has no batch dimension."""
        if not inputs:
            raise InputError("network: got no input; call it with the input of one sample.")
        sample, algebra = surroundings().sample, resolve("network", self.provenance)
        if sample is None:
            make: Any = Distribution.from_logits if self.logits else Distribution
            scores = self._scores([inputs])
            return make(scores, self.symbols, exclusive=self.exclusive, provenance=algebra)
        agenda = sample.agenda
        key = ("network", id(self), id(algebra), tuple(map(_form, inputs)), id(agenda.mode()))
        recipe = agenda.recipes.get(key)
        if recipe is None:
            recipe = agenda.recipes[key] = self._recipe(agenda, inputs, algebra)
        held = tuple([(x, x._version if _tracked(x) else None) for x in inputs])
        return distribution_of(recorded_input(sample, recipe, held))

    def _recipe(self, agenda: Nodes, inputs: tuple[Any, ...], algebra: Any) -> Recipe:
        """How calls with inputs like these are recorded."""
        operation = "Distribution.from_logits" if self.logits else "Distribution"
        kind = "logits" if self.logits else "probs"

        def run(nodes: Sequence[Node]) -> None:
            places = by_place(nodes, algebra)
            every = [held for place in places for node in place for held in node.arguments()]
            scores = self._scores([tuple(_as_given(*pair) for pair in held) for held in every])
            given = read(operation, scores, self.symbols, self.exclusive, kind)
            settle_given(places, given, algebra)

        key = (id(self), algebra, tuple(map(_form, inputs)))
        exclusive = self.exclusive is True or len(self.symbols) == 1
        form = agenda.form(self.symbols, algebra, self._info(), exclusive)
        return agenda.recipe(agenda.kind("network", key, run), None, None, form)

    def _info(self) -> TagInfo:
        """The device and precision of results, as far as they can be predicted."""
        for parameter in self.parameters():
            if parameter.is_floating_point():
                return TagInfo(parameter.device, 1, precision(parameter))
        return TagInfo(torch.get_default_device(), 1, torch.get_default_dtype())

    def _scores(self, calls: Sequence[tuple[Any, ...]]) -> Tensor:
        """The network's outputs for many inputs, as one batch."""
        together = [*map(_together, zip(*calls, strict=True))]
        try:
            out = self.net(*together)
        except (DolphinError, torch.OutOfMemoryError):
            raise
        except Exception as error:
            given = ", ".join(
                f"{tuple(x.shape)} ({x.dtype}, {x.device})" if isinstance(x, Tensor) else shorten(x)
                for x in together
            )
            raise FunctionError(
                f"network: the network raised {told(error)}, called with a batch of {len(calls)}: "
                f"{given}."
            ) from error
        if not isinstance(out, Tensor) or out.shape != (len(calls), len(self.symbols)):
            got = f"shape {tuple(out.shape)}" if isinstance(out, Tensor) else shorten(out)
            raise InputError(
                f"network: for {len(calls)} inputs and {len(self.symbols)} symbols the network "
                f"must return a tensor of shape ({len(calls)}, {len(self.symbols)}), got {got}. "
                "It gets a batch; each input is passed without a batch dimension."
            )
        return out


def _together(column: tuple[Any, ...]) -> Any:
    """One argument of all calls as a batch."""
    return torch.stack(column) if all(isinstance(x, Tensor) for x in column) else list(column)


def _form(value: Any) -> Any:
    """What inputs must have in common to form one batch."""
    return (value.shape, value.dtype, value.device) if isinstance(value, Tensor) else None


def _tracked(value: Any) -> bool:
    return isinstance(value, Tensor) and not value.is_inference()


def _as_given(value: Any, version: int | None) -> Any:
    if version is not None and value._version != version:
        raise InputError(
            "network: an input was modified in place after the call. Inside dolphin.batched the "
            "network runs later; pass a copy, x.clone()."
        )
    return value


def network(
    net: Callable[..., Tensor],
    symbols: Sequence[S],
    *,
    exclusive: Exclusive = True,
    provenance: AnyProvenance | None = None,
    logits: bool = True,
) -> Network[S]:
    """A network as a function from one sample's input to a distribution of one row.

    Inside `dolphin.batched` calls are collected and run as one batch: those of all samples, and all
    calls of one sample that don't depend on each other's results. Inputs of different shapes run in
    separate batches. Outside, a call is a batch of one. The result is a module that contains `net`,
    so it can be a submodule of another module. Gradients reach the parameters of `net`.

    Args:
        net: takes a batch (n, ...) of inputs, or a list of them if they are not tensors, and
            returns scores (n, symbols).
        symbols: as for `Distribution`.
        exclusive: as for `Distribution`.
        provenance: as for `Distribution`.
        logits: whether the scores are unnormalised; otherwise they are probabilities.

    >>> import torch, dolphin as dl
    >>> read = dl.network(torch.nn.Linear(4, 3), "abc")
    >>> read(torch.zeros(4)).symbols
    ('a', 'b', 'c')
    """
    return Network(net, symbols, exclusive=exclusive, provenance=provenance, logits=logits)
