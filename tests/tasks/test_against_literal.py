"""`benchmarks/against_literal.py` runs the tasks' own programs, and results agree."""

import importlib.util
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "against_literal.py"


def load():
    spec = importlib.util.spec_from_file_location("against_literal", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_formulas_agree_with_the_definitions():
    line = load().compare("hwf-3", batch=2, steps=1)
    assert line["largest_difference"] < 1e-12
    assert line["largest_gradient_difference"] < 1e-12
