"""The notebooks run from start to end, and show what they say they show."""

import functools
import json
from pathlib import Path

import pytest

import dolphin as dl
from hooks import load_hook

pytest.importorskip("mkdocs")
hook = load_hook("notebooks")
FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(path.stem for path in FOLDER.glob("*.ipynb"))


@functools.cache
def executed(name: str) -> list:
    """The cells of a notebook, run once for all tests."""
    return list(hook.run(FOLDER / f"{name}.ipynb"))


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_runs_and_becomes_a_page(name):
    shown = [cell.value for cell in executed(name) if cell.value is not None]
    pictures = sum(hasattr(value, "_repr_html_") for value in shown)
    assert pictures
    page = hook.page(FOLDER / f"{name}.ipynb", executed(name))
    assert page.startswith("# ")
    assert page.count('<div class="notebook-output">') == pictures


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_is_kept_without_outputs(name):
    """Outputs would rot; the site makes them anew."""
    notebook = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert code
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)


def test_all_notebooks_are_on_the_site():
    assert set(NOTEBOOKS) == set(hook.ORDER)


def test_every_mistake_is_found():
    """The notebook breaks a program in four ways; the diagnosis names each of them."""
    values = [cell.value for cell in executed("debugging_a_program")]
    found = [value for value in values if isinstance(value, dl.Diagnosis)]
    kinds = [[finding.kind for finding in diagnosis.findings] for diagnosis in found]
    assert "wrong type" in kinds[0]
    assert "out of reach" in kinds[1]
    assert "clipped sums" in kinds[2] or "dead gradients" in kinds[2]
    assert kinds[3] == []  # mended
    assert "contradiction" in kinds[4]


def test_the_network_learns():
    cells = executed("first_steps")
    printed = next(cell.printed for cell in cells if "digits right" in cell.printed)
    first, last = printed.splitlines()[0], printed.splitlines()[-1]
    assert float(first.split()[-1].rstrip("%")) < 40
    assert float(last.split()[-1].rstrip("%")) > 90
