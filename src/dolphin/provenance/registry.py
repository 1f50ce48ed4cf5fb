"""Provenances by name, and the default of a block of code."""

from __future__ import annotations

import contextlib
import difflib
import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, Literal, NewType, TypeAlias, TypeVar, overload

from dolphin.errors import DolphinError, InputError, listing, shorten, told
from dolphin.provenance.contract import Provenance
from dolphin.provenance.damp import DAMP
from dolphin.provenance.debugging import Boolean, Counting
from dolphin.provenance.exact import Exact
from dolphin.provenance.exact.compiling import Compiler
from dolphin.provenance.fuzzy import Godel, Lukasiewicz, NoisyOr, StableProduct
from dolphin.provenance.max_product import MaxProduct
from dolphin.provenance.tensors import TensorProvenance
from dolphin.provenance.tnorms import Frank, Hamacher, NilpotentMinimum, SchweizerSklar, Yager
from dolphin.provenance.topk import TopKProofs

ProvenanceName = Literal[
    "damp", "dtkp-am", "dtkp-wmc", "exact", "min-max", "noisy-or", "lukasiewicz", "viterbi",
    "stable-product", "hamacher", "nilpotent", "yager", "schweizer-sklar", "frank", "boolean",
    "counting",
]  # fmt: skip
PlainName = Literal[
    "min-max", "noisy-or", "lukasiewicz", "viterbi", "hamacher", "nilpotent", "boolean", "counting",
]  # fmt: skip
"""The names of provenances without parameters."""
RegisteredName = NewType("RegisteredName", str)
"""The name of a custom provenance, as `register_provenance` returns it, or of one that a type
checker can't know: `RegisteredName(configuration["provenance"])`."""

AnyProvenance: TypeAlias = Provenance | ProvenanceName | RegisteredName
P = TypeVar("P", bound=Provenance)

_BY_NAME: dict[str, Callable[..., Provenance]] = {
    "damp": DAMP,
    "dtkp-am": lambda k=3: TopKProofs(k, "add-mult"),
    "dtkp-wmc": lambda k=3: TopKProofs(k, "exact"),
    "exact": Exact,
    "min-max": Godel,
    "noisy-or": NoisyOr,
    "lukasiewicz": Lukasiewicz,
    "viterbi": MaxProduct,
    "stable-product": StableProduct,
    "hamacher": Hamacher,
    "nilpotent": NilpotentMinimum,
    "yager": Yager,
    "schweizer-sklar": SchweizerSklar,
    "frank": Frank,
    "boolean": Boolean,
    "counting": Counting,
}


# fmt: off
@overload
def get_provenance(name: Literal["damp"], *, above_one: Literal["clip", "pass"] = "clip") -> DAMP: ...  # noqa: E501
@overload
def get_provenance(name: Literal["dtkp-am", "dtkp-wmc"], *, k: int = 3) -> TopKProofs: ...
@overload
def get_provenance(name: Literal["exact"], *, max_nodes: int = ..., seconds: float = ..., compiler: Compiler = "auto") -> Exact: ...  # noqa: E501
@overload
def get_provenance(name: Literal["stable-product"], *, epsilon: float = ...) -> StableProduct: ...
@overload
def get_provenance(name: Literal["yager"], *, p: float = ...) -> Yager: ...
@overload
def get_provenance(name: Literal["schweizer-sklar"], *, p: float = ...) -> SchweizerSklar: ...
@overload
def get_provenance(name: Literal["frank"], *, s: float = ...) -> Frank: ...
@overload
def get_provenance(name: PlainName) -> Provenance: ...
@overload
def get_provenance(name: RegisteredName, **parameters: Any) -> Provenance: ...
# fmt: on
def get_provenance(name: Any, **parameters: Any) -> Provenance:
    """A provenance by its name, for configuration files and command lines.

    Args:
        name: one of `provenance_names()`.
        parameters: arguments of the provenance, such as k.

    >>> import dolphin as dl
    >>> dl.get_provenance("dtkp-am", k=3)
    TopKProofs(k=3)
    """
    try:
        return _made("get_provenance", name, **parameters)
    except TypeError as error:
        raise InputError(f"get_provenance({shorten(name)}): {error}.") from None


def _factory(operation: str, name: Any) -> Callable[..., Provenance]:
    """The factory of this name; errors name the operation that asks for it."""
    make = _BY_NAME.get(name) if isinstance(name, str) else None
    if make is None:
        near = difflib.get_close_matches(name, _BY_NAME, 1) if isinstance(name, str) else []
        meant = f" Did you mean {near[0]!r}?" if near else ""
        raise InputError(
            f"{operation}: no provenance {shorten(name)}; there are {listing(_BY_NAME, 20)}.{meant}"
        )
    return make


def _made(operation: str, name: Any, **parameters: Any) -> Provenance:
    """A provenance by name. One's own factory may make anything."""
    make = _factory(operation, name)
    if name in ProvenanceName.__args__:
        known = inspect.signature(make).parameters
        unknown = next((given for given in parameters if given not in known), None)
        if unknown is not None:
            there = ", ".join(f"{own}=" for own in known) or "none"
            raise InputError(
                f"{operation}: {name!r} has no parameter {unknown}=; it takes {there}."
            )
        return make(**parameters)
    try:
        made = make(**parameters)
    except DolphinError:
        raise
    except Exception as error:
        raise InputError(
            f"{operation}: the factory of the provenance {name!r} raised {told(error)}."
        ) from error
    if not isinstance(made, Provenance):
        raise InputError(
            f"{operation}: the factory of the provenance {name!r} returned {shorten(made)}; it "
            "must return a dolphin.Provenance."
        )
    return made


def register_provenance(name: str, factory: Callable[..., Provenance]) -> RegisteredName:
    """Register a custom provenance under a name, which is then accepted like a built-in one.

    Args:
        name: a new name, not that of a built-in provenance.
        factory: called with the parameters of `get_provenance`; can be a class.

    >>> import dolphin as dl
    >>> class Careful(dl.DAMP):
    ...     pass
    >>> name = dl.register_provenance("careful", Careful)
    >>> dl.Distribution([0.5, 0.5], "ab", provenance=name).provenance
    Careful(above_one='clip')
    """
    if not isinstance(name, str) or not name:
        raise InputError(f"register_provenance: the name must be a string, got {shorten(name)}.")
    if not callable(factory):
        raise InputError(
            f"register_provenance: the factory must be callable, e.g. a class, got "
            f"{shorten(factory)}."
        )
    existing = _BY_NAME.get(name)
    if existing is not None and name in ProvenanceName.__args__:
        raise InputError(f"register_provenance: {name!r} is a built-in provenance.")
    _BY_NAME[name] = factory
    return RegisteredName(name)


def provenance_names() -> list[str]:
    """All names that `get_provenance` knows.

    >>> provenance_names()[:4]
    ['damp', 'dtkp-am', 'dtkp-wmc', 'exact']
    """
    return list(_BY_NAME)


def names_with_negation() -> list[str]:
    """The names of the provenances that have a negation."""
    return [name for name in ProvenanceName.__args__ if negates(_BY_NAME[name]())]


def negates(provenance: Provenance) -> bool:
    """Whether a provenance has a negation."""
    kind = type(provenance)
    if issubclass(kind, TensorProvenance) and kind.negate is TensorProvenance.negate:
        return kind.negation is not TensorProvenance.negation
    return kind.negate is not Provenance.negate


_default: ContextVar[Provenance] = ContextVar("dolphin_provenance", default=DAMP())  # noqa: B039


def resolve(operation: str, provenance: AnyProvenance | None) -> Provenance:
    """The provenance that is meant: itself, one by name, or the default of the block."""
    if provenance is None:
        return _default.get()
    if isinstance(provenance, str):
        return _made(operation, provenance)
    if not isinstance(provenance, Provenance):
        raise InputError(
            f"{operation}: provenance must be a Provenance such as dolphin.TopKProofs(k=3), or the "
            f"name of one such as 'dtkp-am', got {shorten(provenance)}."
        )
    return provenance


# fmt: off
@overload
def using(provenance: Literal["damp"], *, above_one: Literal["clip", "pass"] = "clip") -> AbstractContextManager[DAMP]: ...  # noqa: E501
@overload
def using(provenance: Literal["dtkp-am", "dtkp-wmc"], *, k: int = 3) -> AbstractContextManager[TopKProofs]: ...  # noqa: E501
@overload
def using(provenance: Literal["exact"], *, max_nodes: int = ..., seconds: float = ..., compiler: Compiler = "auto") -> AbstractContextManager[Exact]: ...  # noqa: E501
@overload
def using(provenance: Literal["stable-product"], *, epsilon: float = ...) -> AbstractContextManager[StableProduct]: ...  # noqa: E501
@overload
def using(provenance: Literal["yager"], *, p: float = ...) -> AbstractContextManager[Yager]: ...
@overload
def using(provenance: Literal["schweizer-sklar"], *, p: float = ...) -> AbstractContextManager[SchweizerSklar]: ...  # noqa: E501
@overload
def using(provenance: Literal["frank"], *, s: float = ...) -> AbstractContextManager[Frank]: ...
@overload
def using(provenance: PlainName) -> AbstractContextManager[Provenance]: ...
@overload
def using(provenance: RegisteredName, **parameters: Any) -> AbstractContextManager[Provenance]: ...
@overload
def using(provenance: P) -> AbstractContextManager[P]: ...
# fmt: on
@contextlib.contextmanager
def using(provenance: Any, **parameters: Any) -> Iterator[Provenance]:
    """Make a provenance the default of inputs created in this block, in this thread or task only.

    Args:
        provenance: an object, or a name.
        parameters: with a name, those of `get_provenance`.

    >>> import dolphin as dl
    >>> with dl.using("dtkp-am", k=3):
    ...     dl.Distribution([0.5, 0.5], "ab").provenance
    TopKProofs(k=3)
    """
    if parameters and isinstance(provenance, Provenance):
        raise InputError(
            f"using: {provenance!r} has its parameters already; {listing(parameters)} go with a "
            "name, as in dolphin.using('dtkp-am', k=3)."
        )
    chosen = (
        get_provenance(provenance, **parameters) if parameters else resolve("using", provenance)
    )
    token = _default.set(chosen)
    try:
        yield chosen
    finally:
        _default.reset(token)
