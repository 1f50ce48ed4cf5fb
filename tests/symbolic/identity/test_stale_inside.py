# ruff: noqa: E501 (programs in strings)
"""Settings of the processor and of torch, private caches of libraries: each in one of the layouts."""

from __future__ import annotations

import copy
import copyreg
import os
import re

import pytest

import dolphin as dl
from tricks import LAYOUTS, Trick

TRICKS = {
    "smallest numbers": (
        "import torch\ntiny=5e-324\ndef f(s): return (s,tiny*1.0>0)",
        "torch.set_flush_denormal(True)",
        "torch.set_flush_denormal(False)"),
    "smallest numbers of torch": (
        "import torch\ndef f(s): return (s,float(torch.tensor([1e-40])*1)>0)",
        "torch.set_flush_denormal(True)",
        "torch.set_flush_denormal(False)"),
    "warnings of torch": (
        "import torch\ndef f(s): return (s,torch.is_warn_always_enabled())",
        "torch.set_warn_always(True)",
        "torch.set_warn_always(False)"),
    "anomalies": (
        "import torch\ndef f(s): return (s,torch.is_anomaly_enabled())",
        "torch.autograd.set_detect_anomaly(True,check_nan=False)",
        "torch.autograd.set_detect_anomaly(False)"),
    "cache of number types": (
        "import numpy as np\ndef f(s): return float(np.finfo(np.float32).eps)*s",
        "c=np.finfo._finfo_cache;old=dict(c)\nfor k in old:\n  if c[k] is np.finfo(np.float32): c[k]=np.finfo(np.float64)",
        "c.update(old)"),
    "object in a cache": (
        "import numpy as np\ndef f(s): return float(np.finfo(np.float32).eps)*s",
        "o=np.finfo(np.float32);old=o.eps\no.__dict__['eps']=5.0",
        "o.__dict__['eps']=old"),
    "cache of patterns": (
        "import re\ndef f(s): return (s,bool(re.match('qqa','qqb')))",
        "old=dict(re._cache)\nfor k in old:\n  if k[1]=='qqa': re._cache[k]=re.compile('qqb')",
        "re.purge()"),
    "cache of formats": (
        "import datetime,_strptime\ndef f(s): return datetime.datetime.strptime('02','%d').day*10+s",
        "_strptime._regex_cache['%d']=_strptime._TimeRE_cache.compile('%m')",
        "_strptime._regex_cache.clear()"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("name", TRICKS)
def test_the_second_answer_is_right(name):
    Trick(*TRICKS[name]).check(LAYOUTS[list(TRICKS).index(name) % len(LAYOUTS)])


def test_what_caches_of_libraries_hold_more_changes_nothing():
    """A function that fills one runs once."""
    calls = []
    for _ in range(3):
        with dl.profile() as seen:
            dl.Distribution([0.5, 0.5], ["q1", "q2"]).map(lambda s: bool(re.match(s + "x+", s)))
        re.match(f"another{len(calls)}", "")
        calls.append(seen.total.function_calls)
    assert calls == [2, 0, 0]


def test_copying_is_remembered_beside_packages_that_register_how_their_objects_are_copied():
    class Known:
        pass

    # what else this process has imported may register functions that can read anything
    others = dict(copyreg.dispatch_table)
    copyreg.dispatch_table.clear()
    copyreg.pickle(Known, reduce_known)
    try:
        Known.__module__ = reduce_known.__module__ = "pytest"
        calls = []
        for _ in range(2):
            with dl.profile() as seen:
                dl.Distribution([0.5, 0.5], [0, 1]).map(lambda s: copy.deepcopy((s, (s, [s])))[0])
            calls.append(seen.total.function_calls)
    finally:
        copyreg.dispatch_table.clear()
        copyreg.dispatch_table.update(others)
        reduce_known.__module__ = __name__
    assert calls == [2, 0]


def reduce_known(known):
    return (dict, ({0: os.environ.get("HOME")},))
