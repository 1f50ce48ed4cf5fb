"""Symbols with tags: what operations work on, and what a `Distribution` holds."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dolphin.errors import InputError, MismatchError, shorten
from dolphin.execution.deferred import Deferred
from dolphin.execution.indices import Index
from dolphin.provenance.contract import Provenance, TagInfo, Tags
from dolphin.provenance.facts import Facts, Groups
from dolphin.symbolic.calling import ABSENT
from dolphin.symbolic.plans import Domain, RowAddress, RowSymbols
from dolphin.symbolic.surroundings import PLAIN, numbers_are_read, surroundings
from dolphin.symbolic.symbols import Symbols

Function = Callable[..., Any]


class Tagged:
    """Symbols, their tags for a batch of rows, and the algebra of the tags.

    `made` is None if every symbol has the tag **1**, and a `Deferred` until the tags are read.
    `exclusive` says that at most one symbol of a row holds, `constant` that the tags depend on no
    input, so that their precision and device are undecided. `groups` are those of an input: the
    places of symbols that exclude each other, or, where rows differ, the number of the group of
    each place (B, width); None for results. `normalised` says that one symbol
    of each of them (of all symbols of a result) holds for certain: probabilities are those of a
    softmax, or sums of products of them.
    """

    __slots__ = (
        "__weakref__",
        "_described",
        "batch",
        "constant",
        "domain",
        "exclusive",
        "groups",
        "made",
        "normalised",
        "provenance",
    )

    def __init__(
        self,
        domain: Domain,
        made: Tags | Deferred | None,
        provenance: Provenance,
        batch: int,
        *,
        exclusive: bool = False,
        constant: bool = False,
        groups: Groups | np.ndarray | None = None,
        normalised: bool = False,
        described: TagInfo | None = None,
    ) -> None:
        self.domain = domain
        self.made = made
        self._described = described  # of `made`, once that is asked for
        self.provenance = provenance
        self.batch = batch
        self.exclusive = exclusive
        self.constant = constant or made is None
        self.groups = groups
        self.normalised = normalised

    def __reduce__(self) -> Any:  # deferred tags are computed: their context can't be pickled
        state = (self.domain, self.tags, self.provenance, self.batch)
        names = ("exclusive", "constant", "groups", "normalised")
        return _restored, (*state, {name: getattr(self, name) for name in names})

    def replaced(
        self, domain: Domain, made: Tags | Deferred | None, batch: int | None = None
    ) -> Tagged:
        """Some of these symbols or rows, with the same properties."""
        return Tagged(
            domain,
            made,
            self.provenance,
            self.batch if batch is None else batch,
            exclusive=self.exclusive,
            constant=self.constant,
        )

    def with_tags(self, made: Tags | Deferred | None, described: TagInfo | None = None) -> Tagged:
        """The same symbols in all respects, with these tags."""
        return Tagged(
            self.domain,
            made,
            self.provenance,
            self.batch,
            exclusive=self.exclusive,
            constant=self.constant,
            groups=self.groups,
            normalised=self.normalised,
            described=described,
        )

    def copied(self) -> Tagged:
        """The same symbols and tags as a separate distribution, to choose from once more."""
        return self.with_tags(self.made)

    @property
    def shared(self) -> bool:
        """Whether all rows have the same symbols."""
        return not isinstance(self.domain, RowSymbols)

    @property
    def certain(self) -> bool:
        """Whether every symbol has the tag **1**."""
        return self.made is None

    @property
    def width(self) -> int:
        """Symbols of all rows together, or places for symbols of each row."""
        return self.domain.width

    @property
    def tags(self) -> Tags | None:
        """The tags, computed now if that was deferred; None if every symbol is certain."""
        if surroundings() is not PLAIN:
            numbers_are_read()
        made = self.made
        if isinstance(made, Deferred):
            made = self.made = made.compute()
        return made

    def log_probs_at(self, places: np.ndarray) -> Tensor | None:
        """Log-probabilities of one symbol per row; None unless that is faster than all tags."""
        return self.made.read(places) if isinstance(self.made, Deferred) else None

    def info(self) -> TagInfo:
        """Device, rows and precision of the tags, without computing them."""
        described, made = self._described, self.made
        if described is not None and not self.constant:
            return described
        if made is None:
            return TagInfo(torch.device("cpu"), 1, torch.get_default_dtype())
        if isinstance(made, Deferred):
            described = self.provenance.describe(made.like)
        elif described is None:
            described = self._described = self.provenance.describe(made)
        return described._replace(dtype=torch.get_default_dtype()) if self.constant else described

    def tags_like(self, like: Tags | None = None) -> Tags:
        """The tags; certain ones are created now, on the device and in the precision of `like`."""
        tags = self.tags
        if tags is not None:
            if not self.constant or like is None:
                return tags
            device, _, dtype = self.provenance.describe(like)
            return self._as(tags, device, dtype)
        if like is None:
            like = self.provenance.from_facts(
                Facts(
                    log_probs=torch.zeros(1, 1, dtype=torch.float64), groups=((0,),), label=_unnamed
                )
            )
        ones = self.provenance.one(self.width, like)
        if isinstance(self.domain, Symbols):
            return ones
        flat = self.provenance.flatten(ones, self.batch)
        return present_only(flat, self)

    def _as(self, tags: Tags, device: torch.device, dtype: torch.dtype) -> Tags:
        """Tags that depend on no input, on a device and in a precision."""
        if self.provenance.describe(tags)[::2] == (device, dtype):
            return tags

        def move(numbers: Tensor) -> Tensor:
            return numbers.to(device, dtype if numbers.is_floating_point() else numbers.dtype)

        return self.provenance.moved(tags, move)

    def tags_to_read(self) -> Tags:
        """The tags as users see them: where no input decides, in the default precision."""
        device, _, dtype = self.info()
        tags = self.tags_like()
        return self._as(tags, device, dtype) if self.constant else tags

    def flat_tags(self, like: Tags | None = None) -> tuple[Tags, RowAddress]:
        """Tags with rows flattened, and how to find the tag of a symbol of a row among them."""
        tags = self.tags_like(like)
        if not self.shared:
            return tags, RowAddress(self.width, per_row=self.batch > 1)
        rows = self.provenance.describe(tags).rows
        return self.provenance.flatten(tags, rows), RowAddress(self.width, per_row=rows > 1)

    def in_rows(self, numbers: Tensor) -> Tensor:
        """(n, r) of a provenance as (B, symbols or width)."""
        if self.shared:
            return numbers.t().expand(self.batch, -1)
        return numbers.view(self.batch, -1)

    def take_rows(self, rows: np.ndarray) -> Tagged:
        """Some rows, in that order."""
        domain: Domain = self.domain
        width = None
        if isinstance(domain, RowSymbols):
            domain, width = RowSymbols(domain.table, domain.numbers[rows]), domain.width
        tags = self.tags
        if tags is not None:
            tags = self.provenance.take_rows(tags, rows, width)
        taken = self.replaced(domain, tags, len(rows))
        groups = self.groups
        taken.groups = groups[rows] if isinstance(groups, np.ndarray) else groups
        taken.normalised = self.normalised
        return taken


class Holder:
    """Base class of distributions: holds symbols with tags."""

    __slots__ = ("__weakref__", "_tagged")

    _tagged: Tagged

    @classmethod
    def _of(cls, tagged: Tagged) -> Any:
        new = object.__new__(cls)
        new._tagged = tagged
        return new


def tagged_of(holder: Holder) -> Tagged:
    """The symbols and tags that operations work on."""
    return holder._tagged


def _restored(
    domain: Domain, tags: Any, provenance: Provenance, batch: int, about: dict[str, Any]
) -> Tagged:
    return Tagged(domain, tags, provenance, batch, **about)


def _unnamed(column: int, row: int) -> Any:
    return column


# -- operands ------------------------------------------------------------------------------------

_USAGE = {
    "apply": "apply(d1, ..., dK, f)",
    "apply_if": "apply_if(d1, ..., dK, f, cond), or apply_if(d1, d2, f, on=(key1, key2))",
    "filter": "filter(d, predicate)",
    "union": "union(d1, d2, ...)",
    "stack": "Distribution.stack([d1, d2, ...])",
    "reduce": "reduce(f, [d1, d2, ...])",
    "fixpoint": "fixpoint(step, start)",
}
_WITH_FUNCTIONS = ("apply", "apply_if", "filter")


def operand(operation: str, distribution: Any) -> Tagged:
    """The one distribution that an operation takes."""
    if isinstance(distribution, Holder):
        return tagged_of(distribution)
    return operands(operation, (distribution,))[0]


def operands(operation: str, arguments: Sequence[Any]) -> list[Tagged]:
    """All arguments of an operation that takes distributions only."""
    return split(operation, arguments, 0)[0]


def split(
    operation: str, arguments: Sequence[Any], functions: int
) -> tuple[list[Tagged], Sequence[Function]]:
    """Leading distributions, then exactly this many functions."""
    count = len(arguments) - functions
    given, rest = arguments[:count], arguments[count:]
    if count < 1:
        raise InputError(f"{operation}: got no distribution. Write {usage(operation)}.")
    for place, value in enumerate(given):
        if not isinstance(value, Holder):
            hint = f"Write {usage(operation)}."
            if isinstance(value, (list, tuple)) and any(isinstance(d, Holder) for d in value):
                hint += " Unpack a list of distributions with *."
            raise InputError(
                f"{operation}: argument {place + 1} must be a Distribution, got "
                f"{type(value).__name__} {shorten(value, 40)}. {hint}"
            )
    for place, function in enumerate(rest):
        if isinstance(function, Holder) or not callable(function):
            raise InputError(
                f"{operation}: expected a function after {count} distribution"
                f"{'s' * (count != 1)}, got {type(function).__name__} {shorten(function, 40)}. "
                f"Write {usage(operation)}."
            )
        if operation in _WITH_FUNCTIONS:
            check_arity(operation, ("function", "condition")[place], function, count)
    return [tagged_of(value) for value in given], rest


def usage(operation: str) -> str:
    """How an operation is called."""
    return _USAGE.get(operation, f"{operation}(d, ...)")


def _takes(function: Function, count: int) -> bool:
    """Whether plain positional parameters fit: the usual case, without building a signature."""
    code = function.__code__
    bound = isinstance(function, types.MethodType)
    most = code.co_argcount - bound
    fewest = most - len(function.__defaults__ or ())
    fits = count <= most or bool(code.co_flags & inspect.CO_VARARGS)
    return fewest <= count and fits and code.co_kwonlyargcount == 0


def check_arity(operation: str, role: str, function: Function, count: int, given: str = "") -> None:
    """Refuse a function that can't take `count` arguments before any symbol is touched."""
    if getattr(function, "__code__", None) is None:
        return  # built-in functions and classes often have no signature: the call will tell
    if _takes(function, count):
        return
    try:
        inspect.signature(function).bind(*([None] * count))
    except TypeError as error:
        name = getattr(function, "__qualname__", "the function")
        given = given or f"one symbol from each of {count} distribution{'s' * (count != 1)}"
        raise InputError(
            f"{operation}: the {role} {name}{inspect.signature(function)} does not take {count} "
            f"argument{'s' * (count != 1)} ({error}). {operation} calls it with {given}."
        ) from None
    except ValueError:
        return


def alike(operands: Sequence[Tagged]) -> bool:
    """Whether all operands have tags of one kind that depend on inputs: the usual case.

    There `check` and `agreed` have nothing to object to or to change. To know it takes a third of
    the time of both.
    """
    first = operands[0]
    if first.constant:
        return False
    provenance, batch, info = first.provenance, first.batch, first.info()
    for d in operands[1:]:
        if d.constant or d.provenance is not provenance or d.batch != batch or d.info() != info:
            return False
    return True


def check(operation: str, operands: Sequence[Tagged], *, rows: bool = True) -> tuple[Any, int]:
    """The common provenance and batch size of operands; devices must match as well."""
    tagged = [d for d in operands if d.made is not None] or operands[:1]
    first = tagged[0]
    device = None if first.constant or len(tagged) == 1 else first.info().device
    for other in tagged[1:]:
        if other.provenance is not first.provenance and other.provenance != first.provenance:
            raise MismatchError(
                f"{operation}: operands have different provenances: {first.provenance!r} and "
                f"{other.provenance!r}. Create all inputs of a program with the same one, e.g. in "
                "one `with dolphin.using(...)` block."
            )
        if device is None or other.constant:
            continue
        where = other.info().device
        if device != where:
            raise MismatchError(
                f"{operation}: operands are on different devices: {device} and {where}. Move the "
                "networks' outputs to one device first."
            )
    batch = check_rows(operation, [d.batch for d in operands]) if rows else 0
    return first.provenance, batch


def check_rows(operation: str, sizes: Sequence[int]) -> int:
    """The common batch size; operands with one row fit any other."""
    batch = max(sizes, default=1)
    if min(sizes, default=1) == batch:
        return batch
    if any(size not in (1, batch) for size in sizes):
        shown = ", ".join(map(str, sizes))
        raise MismatchError(
            f"{operation}: the batch sizes of the operands don't match: {shown}. They must be "
            "equal, or 1 for an operand that is the same in all rows."
        )
    return batch


def agreed(operands: Sequence[Tagged]) -> list[Tagged]:
    """The same operands, all as precise as the most precise input behind them.

    Certain ones fit any provenance: they take that of the others.
    """
    provenance = next((d.provenance for d in operands if d.made is not None), None)
    if provenance is not None:
        operands = [
            d
            if d.provenance is provenance or d.made is not None
            else Tagged(d.domain, None, provenance, d.batch, exclusive=d.exclusive)
            for d in operands
        ]
    dtypes = {d.info().dtype for d in operands if not d.constant}
    if len(dtypes) <= 1:
        return list(operands)
    widest = torch.float64 if torch.float64 in dtypes else torch.float32

    def widen(numbers: Tensor) -> Tensor:
        return numbers.to(widest) if numbers.is_floating_point() else numbers

    return [
        d
        if d.constant or d.info().dtype == widest
        else d.with_tags(d.provenance.moved(d.tags, widen))
        for d in operands
    ]


def like_of(operands: Sequence[Tagged]) -> Tags | None:
    """Tags that depend on an input, if some operand has them: others take their precision."""
    for d in operands:
        if not d.constant:
            return d.tags
    return next((d.tags for d in operands if d.tags is not None), None)


def present_only(tags: Tags, d: Tagged) -> Tags:
    """**0** in the places of a row that have no symbol."""
    if isinstance(d.domain, Symbols):
        return tags
    absent = d.domain.numbers.reshape(-1) == ABSENT
    if not absent.any():
        return tags
    return d.provenance.select(tags, Index(np.where(absent, -1, np.arange(len(absent)))))
