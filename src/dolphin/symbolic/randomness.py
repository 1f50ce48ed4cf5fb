"""Random number generators and clocks, which a user function must not read.

A user function runs once per combination of symbols, for all rows and all steps. A random number
drawn in it would stay the same forever, which can't be what is meant.
"""

from __future__ import annotations

import random
import sys
import types
from typing import Any

from dolphin.symbolic.bounded import register

# Each draws, or reads the clock, whatever its arguments.
_ALWAYS = {
    "random": (
        "random", "uniform", "triangular", "randint", "choice", "randrange", "sample", "shuffle",
        "choices", "normalvariate", "lognormvariate", "expovariate", "vonmisesvariate",
        "gammavariate", "gauss", "betavariate", "binomialvariate", "paretovariate",
        "weibullvariate", "getrandbits", "randbytes", "SystemRandom",
    ),
    "secrets": (
        "choice", "randbelow", "randbits", "token_bytes", "token_hex", "token_urlsafe",
        "SystemRandom",
    ),
    "time": (
        "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns",
        "process_time", "process_time_ns", "thread_time", "thread_time_ns", "clock_gettime",
        "clock_gettime_ns",
    ),
    "uuid": ("uuid1", "uuid4", "uuid6", "uuid7"),
    "os": ("urandom", "getrandom", "times"),
    "numpy.random": (
        "rand", "randn", "randint", "random", "random_sample", "ranf", "sample", "choice",
        "shuffle", "permutation", "bytes", "normal", "uniform", "standard_normal", "binomial",
        "poisson", "exponential", "beta", "gamma", "dirichlet", "multinomial",
        "multivariate_normal", "random_integers",
    ),
    "torch": (
        "rand", "rand_like", "randn", "randn_like", "randint", "randint_like", "randperm",
        "normal", "bernoulli", "multinomial", "poisson",
    ),
}  # fmt: skip
# Each does so only where it is called without arguments: no seed, no time to convert.
_WITHOUT_ARGUMENTS = {
    "random": ("Random",),
    "time": ("localtime", "gmtime", "ctime"),
    "numpy.random": ("default_rng", "RandomState"),
}
_CLOCKS = frozenset({"now", "utcnow", "today"})  # of datetime and date
_GENERATORS = (
    ("numpy.random", "Generator"),
    ("numpy.random", "RandomState"),
    ("numpy.random", "BitGenerator"),
    ("torch", "Generator"),
)


class ChanceError(Exception):
    """A function reads a random number generator or a clock, which the argument names."""


class _Known:
    """The functions above that are loaded, by identity, with their names."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._loaded: frozenset[str] = frozenset()
        self._always: dict[int, tuple[Any, str]] = {}
        self._bare: dict[int, tuple[Any, str]] = {}

    def __len__(self) -> int:
        return len(self._always) + len(self._bare)

    def name(self, value: Any, called_bare: bool) -> str | None:
        loaded = frozenset(module for module in _ALWAYS if module in sys.modules)
        if loaded != self._loaded:
            self._always = _by_identity(_ALWAYS)
            self._bare = _by_identity(_WITHOUT_ARGUMENTS)
            self._loaded = loaded
        entry = self._always.get(id(value)) or (called_bare and self._bare.get(id(value)))
        return entry[1] if entry else None


def _by_identity(names: dict[str, tuple[str, ...]]) -> dict[int, tuple[Any, str]]:
    entries: dict[int, tuple[Any, str]] = {}
    for module, members in names.items():
        scope = vars(sys.modules[module]) if module in sys.modules else {}
        for member in members:
            value = scope.get(member)
            # What a user has put in its place is a user function.
            own = not isinstance(value, types.FunctionType) or value.__globals__ is scope
            if value is not None and own:
                entries[id(value)] = (value, f"{module}.{member}")
    return entries


_known = _Known()
register("sources of chance", _known.__len__, _known.clear)


def refuse_chance(value: Any, name: str | None = None, called_bare: bool = False) -> None:
    """Raise `ChanceError` if `value`, or its attribute `name`, is random or a clock."""
    if isinstance(value, type):
        if name in _CLOCKS and value.__module__ == "datetime":
            raise ChanceError(f"{value.__module__}.{value.__name__}.{name}")
    elif isinstance(value, random.Random):
        raise ChanceError(f"a {type(value).__name__}")
    elif type(value).__module__.partition(".")[0] in ("numpy", "torch"):
        for module, member in _GENERATORS:
            generator = getattr(sys.modules.get(module), member, None)
            if isinstance(generator, type) and isinstance(value, generator):
                raise ChanceError(f"a {module}.{member}")
    source = _known.name(value, called_bare)
    if source is not None:
        raise ChanceError(source)
    owner = getattr(value, "__self__", None) if isinstance(value, _BOUND) else None
    if owner is not None and not isinstance(owner, types.ModuleType):
        refuse_chance(owner, value.__name__)


_BOUND = (types.BuiltinMethodType, types.MethodType)
