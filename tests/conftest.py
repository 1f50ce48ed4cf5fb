"""What every test gets: fixed seeds, empty caches, and a modest, reproducible hypothesis."""

from __future__ import annotations

import gc
import os
from functools import partial

# Some virtual machines announce AMX and then trap on it; bfloat16 products would kill Python.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

import pytest
import torch
from hypothesis import HealthCheck, settings

from dolphin.symbolic.bounded import all_caches

gc.disable()  # until the tests are found: all that is made on the way stays

_common = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("ci", max_examples=5, derandomize=True, database=None, **_common)
settings.register_profile("explore", max_examples=500, **_common)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

DEVICES = ["cpu"]
if torch.cuda.is_available():
    DEVICES.append("cuda")
if torch.backends.mps.is_available():
    DEVICES.append("mps")


# Where there is no other device, torch would write down a traceback for each kind, at every call.
seed = partial(torch.manual_seed if len(DEVICES) > 1 else torch.default_generator.manual_seed, 0)


def pytest_collection_finish():
    """What is there before the first test stays: the garbage collector need not look at it."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)  # with the usual one, it takes a fifteenth of the time
    gc.enable()


PURE = {"code of user functions", "effects of code"}
"""Caches of what depends on nothing but a code object, which can't change: they are kept."""


@pytest.fixture(autouse=True)
def fresh():
    """Every test starts from the same seed and knows no function that another test applied."""
    seed()
    for name, cache in all_caches().items():
        if name not in PURE:
            cache.clear()


@pytest.fixture
def float64():
    """Makes float64 the default dtype of the test."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield torch.float64
    torch.set_default_dtype(before)


@pytest.fixture
def dynamo():
    """The compiler, without what it knows from other tests; it takes two seconds to import."""
    import torch._dynamo.testing

    torch._dynamo.reset()
    return torch._dynamo


@pytest.fixture(params=DEVICES)
def device(request) -> torch.device:
    return torch.device(request.param)


@pytest.fixture
def alone(monkeypatch, tmp_path, request):
    """No shared data, and a cache of its own; tests that are marked `real` are left alone."""
    if "real" not in request.keywords:
        monkeypatch.delenv("DOLPHIN_DATA", raising=False)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def few_stories(monkeypatch):
    """CLUTRR without data tells a few stories only."""
    from dolphin_tasks.clutrr import stories

    monkeypatch.setattr(stories, "TRAIN_STORIES", 30)
    monkeypatch.setattr(stories, "TEST_STORIES", 3)


@pytest.fixture
def own_pictures(monkeypatch):
    """Runs draw what depends on their task: the learning curve is that of any other run."""
    from dolphin_tasks.training import plots

    monkeypatch.setattr(plots, "draw_learning_curve", lambda *given: None)


@pytest.fixture
def collected():
    """Call it to run the garbage collector; also run once after the test."""
    gc.collect()
    yield gc.collect
    gc.collect()
