"""The pages of the gallery are made from the examples themselves."""

import re
from pathlib import Path

import pytest

from hooks import load_hook

pytest.importorskip("mkdocs")
hook = load_hook("gallery")
ROOT = Path(__file__).parent.parent
LISTED = list(hook.listed())


def test_every_example_is_listed_once():
    names = [example.name for example in LISTED]
    assert len(set(names)) == len(names) >= 15
    assert set(names) == {path.stem for path in (ROOT / "examples").glob("*.py")}
    assert all(example.group and example.title for example in LISTED)


@pytest.mark.parametrize("example", LISTED, ids=lambda example: example.name)
def test_a_page_shows_picture_words_and_the_whole_file(example):
    page = hook.page(example)
    assert page.startswith(f"# {example.title}\n")
    assert f"](../images/gallery/{example.name}.png)" in page
    assert (ROOT / "examples" / f"{example.name}.py").read_text(encoding="utf-8") in page
    assert re.search(rf"(python|torchrun .+) examples/{example.name}\.py", page)  # how to run it


def test_the_overview_leads_to_all_of_them():
    cards = re.findall(
        r'<a href="(\w+)/"><img src="../images/gallery/(\w+).png"', hook.overview(LISTED)
    )
    assert [name for name, _ in cards] == [example.name for example in LISTED]
    assert all(name == picture for name, picture in cards)


def test_units_stay_with_their_numbers():
    changed = load_hook("typography").on_page_content
    code = "<pre><code>7 % 2\n8 % 3</code></pre>"
    assert changed(f"<td>95.3 %</td>{code}4 ms or 5 things") == (
        f"<td>95.3\u00a0%</td>{code}4\u00a0ms or 5 things"
    )


def test_code_has_a_class_by_its_length():
    changed = load_hook("typography").on_page_content
    assert changed("<code>5 % 3</code>") == '<code class="short">5 % 3</code>'
    assert changed(f"<code>{'&gt;' * 40}</code>") == f"<code>{'&gt;' * 40}</code>"
    assert changed(f"<code>{'x' * 61}</code>").startswith('<code class="long">')
    assert "<span>--xs</span> 1 <span>--y</span>" in changed(f"<code>{'x' * 61} --xs 1 --y</code>")
    assert changed("<pre><code>5 % 3</code></pre>") == "<pre><code>5 % 3</code></pre>"
