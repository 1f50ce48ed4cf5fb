"""Every Python block of README.md and docs/ runs, and prints what the text block after it says."""

import contextlib
import doctest
import io
import re
from pathlib import Path

import pytest

from snippets import snippets

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MADE = ("gallery", "notebooks")  # pages that the build of the site makes
README = PAGES[0].read_text(encoding="utf-8")
OUTPUT = doctest.OutputChecker()
LOOSELY = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_snippets_run_and_print_what_they_say(path):
    namespace: dict[str, object] = {"__name__": path.stem}
    for line, code, expected in snippets(path.read_text(encoding="utf-8")):
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                exec(compile("\n" * line + code, path.name, "exec"), namespace)
        except Exception as error:
            pytest.fail(f"{path.name}, block at line {line}: {type(error).__name__}: {error}")
        if expected is not None:
            got = printed.getvalue()
            assert OUTPUT.check_output(expected, got, LOOSELY), f"{path.name}, line {line}:\n{got}"


def test_readme_shows_code_and_output():
    found = snippets(README)
    assert len(found) >= 5
    assert sum(expected is not None for _, _, expected in found) >= 4


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    page = path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page):
        place = (path.parent / target).resolve()
        if place.parent.name in MADE and place.suffix == ".md":
            sources = {"gallery": "examples", "notebooks": "notebooks"}[place.parent.name]
            names = {file.stem for file in (ROOT / sources).iterdir()} | {"index"}
            assert place.stem in names, target
        else:
            assert place.exists(), target


def test_first_screen_has_program_picture_and_commands():
    first = README.split("\n## ")[0]
    assert "make demo" in first
    assert "make test" in first
    assert ".png" in first
    assert "dl.apply" in first
