"""The reference page names everything that is public."""

from __future__ import annotations

from pathlib import Path

import pytest

import dolphin as dl

PAGE = (Path(__file__).parent.parent / "docs" / "reference.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", dl.__all__)
def test_every_public_name_is_on_the_page(name):
    entries = {line.strip().removeprefix("- ") for line in PAGE.splitlines()}
    wholes = {line.removeprefix("::: ").strip() for line in PAGE.splitlines() if line[:3] == ":::"}
    assert name in entries or any(whole.endswith(f".{name}") for whole in wholes)
