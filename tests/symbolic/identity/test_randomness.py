"""Random numbers and clocks in a user function are refused; what only looks like them is not."""

from __future__ import annotations

import datetime
import functools
import os
import random
import secrets
import statistics
import time
import uuid
from random import random as draw
from time import perf_counter

import numpy as np
import pytest
import torch

import dolphin as dl

rng = random.Random(0)
generator = np.random.default_rng(0)


def helper(s):
    return s + draw()


def imported_inside(s):
    import random

    return random.random() + s


def imported_from_inside(s):
    from time import time

    return time() + s


class Moment(datetime.datetime):
    pass


normal = torch.distributions.Normal(0.0, 1.0)
now = datetime.datetime.now
clocks = [time.time]


class Thing:
    own = np.random.default_rng(0)

    def method(self, s):
        return s + random.random()


thing = Thing()
REFUSED = {
    "random": lambda s: s + random.random(),
    "choice": lambda s: random.choice([s, 1]),
    "from random": lambda s: s + draw(),
    "helper": lambda s: helper(s),
    "passed on": lambda s: max([s], key=lambda x: draw()),
    "itself": lambda s: random.randint(0, s + 1),
    "object": lambda s: rng.random(),
    "bound method": lambda s, f=rng.random: f(),
    "fresh generator": lambda s: random.Random().random(),
    "system random": lambda s: random.SystemRandom().random(),
    "numpy": lambda s: float(np.random.rand()),  # noqa: NPY002
    "numpy generator": lambda s: float(generator.random()),
    "numpy fresh": lambda s: float(np.random.default_rng().random()),
    "torch": lambda s: torch.rand(()).item(),
    "torch randint": lambda s: torch.randint(5, ()).item(),
    "secrets": lambda s: secrets.randbelow(s + 1),
    "uuid": lambda s: str(uuid.uuid4()),
    "urandom": lambda s: os.urandom(1),
    "time": lambda s: time.time(),
    "perf_counter": lambda s: perf_counter(),
    "now": lambda s: datetime.datetime.now().hour,
    "today": lambda s: datetime.date.today().day,
    "localtime": lambda s: time.localtime().tm_hour,
    "import": imported_inside,
    "import from": imported_from_inside,
    "method": Thing().method,
    "closure": (lambda own: lambda s: own.random())(random.Random(1)),
    "attribute": lambda s: thing.own.normal(),
    "numpy, rarely used": lambda s: float(np.random.laplace()),  # noqa: NPY002
    "numpy bits": lambda s: int(np.random.PCG64().random_raw()),
    "numpy seeds": lambda s: np.random.SeedSequence(None).entropy,
    "no seed": lambda s: random.Random(None).random(),
    "tensor in place": lambda s: float(torch.empty(1).uniform_()),
    "tensor method": lambda s: float(torch.tensor([0.5]).bernoulli()),
    "dropout": lambda s: float(torch.nn.functional.dropout(torch.ones(1))),
    "initialised": lambda s: float(torch.nn.init.normal_(torch.empty(1))),
    "distribution": lambda s: float(normal.sample()),
    "fresh distribution": lambda s: float(torch.distributions.Normal(0.0, 1.0).rsample()),
    "statistics": lambda s: statistics.NormalDist(0, 1).samples(1)[0],
    "now of a subclass": lambda s: Moment.now().hour,
    "now by another name": lambda s: now().hour,
    "clock in a list": lambda s: clocks[0](),
    "clock behind partial": lambda s: functools.partial(time.time)(),
    "clock by default": lambda s, clock=time.monotonic: clock(),
    "strftime": lambda s: time.strftime("%S"),
    "asctime": lambda s: time.asctime(),
    "localtime of nothing": lambda s: time.localtime(None).tm_sec,
}


@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize("name", REFUSED)
def test_refused(name, cache):
    d = dl.Distribution([0.5, 0.5], [0, 1])
    with pytest.raises(dl.FunctionError, match="weighted"):
        dl.apply(d, REFUSED[name], cache=cache)


def test_refused_in_conditions_and_keys():
    d = dl.Distribution([0.5, 0.5], [0, 1])
    for operation in (
        lambda: dl.filter(d, lambda s: random.random() < 0.5),
        lambda: dl.apply_if(d, d, max, lambda a, b: draw() < a),
        lambda: dl.apply_if(d, d, max, on=(lambda a: draw(), lambda b: b)),
        lambda: dl.exists(d, lambda s: draw() < s),
    ):
        with pytest.raises(dl.FunctionError, match=r"random\.random"):
            operation()


class Own:
    random = 3

    def time(self):
        return 4

    def sample(self):
        return 5


own = Own()


def annotated(s, generator: random.Random | None = None):
    time = s + 1
    return time  # noqa: RET504


def local_name(s):
    random = [s, 1]
    return max(random)


ALLOWED = {
    "annotation": annotated,
    "local": local_name,
    "attribute": lambda s: s + own.random,
    "method": lambda s: s + own.time(),
    "parse": lambda s: time.strptime(f"200{s}", "%Y").tm_year,
    "gmtime": lambda s: time.gmtime(s).tm_year,
    "date": lambda s: datetime.date(2000, 1, s + 1),
    "delta": lambda s: datetime.timedelta(days=s),
    "seeded": lambda s: random.Random(s).random(),
    "seeded numpy": lambda s: float(np.random.default_rng(s).random()),
    "uuid of a name": lambda s: str(uuid.UUID(int=s)),
    "pure": dl.pure(lambda s: s + int(0 * draw())),
    "strftime of a time": lambda s: time.strftime("%Y", time.gmtime(s)),
    "moment of a subclass": lambda s: Moment(2000, 1, s + 1).day,
    "seeded bits": lambda s: int(np.random.PCG64(s).random_raw()),
    "tensor": lambda s: float(torch.tensor([s, 1.0]).clamp_(0, 1).sum()),
    "own sample": lambda s: s + own.sample(),
    "density": lambda s: round(statistics.NormalDist(0, 1).pdf(s), 3),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_allowed(name):
    dl.cache_clear()
    d = dl.Distribution([0.5, 0.5], [0, 1])
    for expected in (2, 0):
        with dl.profile() as seen:
            d.map(ALLOWED[name])
        assert seen.total.function_calls == expected, dl.cache_info().not_remembered
