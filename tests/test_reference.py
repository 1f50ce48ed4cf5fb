"""The reference page names everything that is public."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import dolphin as dl

PAGE = (Path(__file__).parent.parent / "docs" / "reference.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", dl.__all__)
def test_every_public_name_is_on_the_page(name):
    entries = {line.strip().removeprefix("- ") for line in PAGE.splitlines()}
    wholes = {line.removeprefix("::: ").strip() for line in PAGE.splitlines() if line[:3] == ":::"}
    there = name in entries or any(whole.endswith(f".{name}") for whole in wholes)
    assert there, f"{name} is public: add it to docs/reference.md"


def test_arguments_are_described_one_by_one():
    """The site takes "x, y: ..." for the name of one parameter, and its build refuses it."""
    together = re.compile(r"^ {4,8}\w+, [\w, ]+: ", re.MULTILINE)
    texts = {name: getattr(dl, name).__doc__ or "" for name in dl.__all__}
    arguments = {
        name: text.partition("Args:\n")[2].partition("\n\n")[0] for name, text in texts.items()
    }
    assert [name for name, text in arguments.items() if together.search(text)] == []
