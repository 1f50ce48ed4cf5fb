"""Random number generators and clocks, which a user function must not read.

A user function runs once per combination of symbols, for all rows and all steps. A random number
drawn in it would stay the same forever, which can't be what is meant.
"""

from __future__ import annotations

import datetime
import random
import sys
import types
from collections.abc import Set
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
        "multivariate_normal", "random_integers", "chisquare", "f", "geometric", "gumbel",
        "hypergeometric", "laplace", "logistic", "lognormal", "logseries", "negative_binomial",
        "noncentral_chisquare", "noncentral_f", "pareto", "power", "rayleigh", "standard_cauchy",
        "standard_exponential", "standard_gamma", "standard_t", "triangular", "vonmises", "wald",
        "weibull", "zipf",
    ),
    "torch": (
        "rand", "rand_like", "randn", "randn_like", "randint", "randint_like", "randperm",
        "normal", "bernoulli", "multinomial", "poisson", "dropout", "alpha_dropout",
    ),
    "torch.nn.functional": (
        "dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout",
        "feature_alpha_dropout", "gumbel_softmax",
    ),
    "torch.nn.init": (
        "uniform_", "normal_", "trunc_normal_", "xavier_uniform_", "xavier_normal_",
        "kaiming_uniform_", "kaiming_normal_", "orthogonal_", "sparse_",
    ),
}  # fmt: skip
# Each does so only where it is called without arguments: no seed, no time to convert.
_WITHOUT_ARGUMENTS = {
    "random": ("Random",),
    "time": ("localtime", "gmtime", "ctime", "asctime"),
    "numpy.random": (
        "default_rng", "RandomState", "SeedSequence", "PCG64", "PCG64DXSM", "MT19937", "Philox",
        "SFC64",
    ),
}  # fmt: skip
# Only where a format is its single argument.
_WITH_A_FORMAT = {"time": ("strftime",)}
# Methods of tensors, and of the distributions of torch and statistics.
_OF_TENSORS = frozenset(
    {"bernoulli", "bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_",
     "multinomial", "normal_", "random_", "uniform_"}
)  # fmt: skip
_OF_SAMPLERS = frozenset({"sample", "sample_n", "samples", "rsample"})
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
        self._formats: dict[int, tuple[Any, str]] = {}

    def __len__(self) -> int:
        return len(self._always) + len(self._bare) + len(self._formats)

    def name(self, value: Any, arguments: int | None) -> str | None:
        loaded = frozenset(module for module in _ALWAYS if module in sys.modules)
        if loaded != self._loaded:
            self._always = _by_identity(_ALWAYS)
            self._bare = _by_identity(_WITHOUT_ARGUMENTS)
            self._formats = _by_identity(_WITH_A_FORMAT)
            self._loaded = loaded
        entry = self._always.get(id(value))
        if entry is None and arguments is not None:
            entry = (self._formats if arguments else self._bare).get(id(value))
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


def refuse_chance(value: Any, name: str | None = None, arguments: int | None = None) -> None:
    """Raise `ChanceError` if `value`, or its attribute `name`, is random or a clock.

    `arguments`: how many it is called with, as far as that is known.
    """
    if isinstance(value, type):
        if name in _CLOCKS and issubclass(value, datetime.date):
            raise ChanceError(f"{value.__module__}.{value.__name__}.{name}")
    elif isinstance(value, random.Random):
        raise ChanceError(f"a {type(value).__name__}")
    elif type(value).__module__.partition(".")[0] in ("numpy", "torch"):
        for module, member in _GENERATORS:
            generator = getattr(sys.modules.get(module), member, None)
            if isinstance(generator, type) and isinstance(value, generator):
                raise ChanceError(f"a {module}.{member}")
        if name in _OF_SAMPLERS and type(value).__module__.startswith("torch.distributions"):
            raise ChanceError(f"{type(value).__name__}.{name}")
    source = _known.name(value, arguments)
    if source is not None:
        raise ChanceError(source)
    owner = getattr(value, "__self__", None) if isinstance(value, _BOUND) else None
    if owner is not None and not isinstance(owner, types.ModuleType):
        refuse_chance(owner, value.__name__)


def refuse_methods(names: Set[str], of_tensors: bool, of_samplers: bool) -> None:
    """Raise `ChanceError` if methods of these names are random, for such objects."""
    drawing = (_OF_TENSORS if of_tensors else set()) | (_OF_SAMPLERS if of_samplers else set())
    if names & drawing:
        raise ChanceError(f"the method `{min(names & drawing)}`, which draws")


_BOUND = (types.BuiltinMethodType, types.MethodType)
