"""What a notebook shows: well-formed, escaped, with the right numbers."""

import re
from xml.etree import ElementTree

import pytest
import torch

import dolphin as dl


def parsed(html: str) -> ElementTree.Element:
    """The HTML as a tree; fails where a tag isn't closed or a symbol isn't escaped."""
    closed = html.replace('alt="">', 'alt=""/>')
    return ElementTree.fromstring(f"<div>{closed}</div>")


def text_of(html: str) -> str:
    return " ".join(" ".join(parsed(html).itertext()).split())


def test_a_distribution_shows_the_likeliest_symbols_of_the_first_rows():
    probs = torch.tensor([[0.1, 0.7, 0.2], [0.5, 0.2, 0.3], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    html = dl.Distribution(probs, ["<a>", "b", "c"])._repr_html_()
    text = text_of(html)
    assert text.startswith("4 rows, 3 symbols, DAMP")
    assert "row 0 'b' 0.7 'c' 0.2 '<a>' 0.1 row 1 '<a>' 0.5" in text
    assert "row 2" in text
    assert "row 3" not in text
    assert "1 more row" in text
    widths = [float(width) for width in re.findall(r"width:([\d.]+)em;min", html)]
    assert widths[:3] == pytest.approx([5.6, 1.6, 0.8])


def test_only_a_few_symbols_are_shown():
    text = text_of(dl.Distribution(torch.full((1, 50), 0.02), range(50))._repr_html_())
    assert "50 symbols" in text
    assert text.count("0.02") == 5


def test_rows_with_symbols_of_their_own_and_rows_without_any():
    d = dl.Distribution.from_rows([(["x"], [0.25]), ([], [])], exclusive=False)
    text = text_of(d._repr_html_())
    assert "row 0 'x' 0.25 row 1 no symbols" in text


@pytest.mark.parametrize("name", ["damp", "dtkp-am", "exact", "min-max", "boolean"])
def test_every_kind_of_provenance_can_be_shown(name):
    d = dl.Distribution([0.25, 0.75], "ab", provenance=name)
    assert "'b'" in text_of(dl.apply(d, d, lambda x, y: max(x, y))._repr_html_())


def test_showing_changes_nothing():
    logits = torch.zeros(2, 3, requires_grad=True)
    d = dl.Distribution.from_logits(logits, "abc")
    total = dl.apply(d, d, lambda x, y: x + y)
    total._repr_html_()
    dl.nll_loss(total, ["ab", "ca"]).backward()
    assert logits.grad is not None


def proofs() -> dl.Proofs:
    rain = dl.Distribution([0.3, 0.7], ["rain", "<sun>"], provenance=dl.TopKProofs(k=3))
    mood = dl.Distribution([0.6, 0.4], ["lazy", "lively"], provenance=dl.TopKProofs(k=3))
    stays = dl.apply(rain, mood, lambda w, m: w == "rain" or m == "lazy")
    return stays.explain(True)


def test_proofs_are_a_tree_down_to_facts():
    shown = str(proofs())
    assert shown.splitlines()[0] == "True because"
    assert shown.count("'rain'  0.3") == 2
    assert shown.count("└─") + shown.count("├─") == 3 + 6  # three proofs of two facts each
    assert "'<sun>'  0.7" in shown


def test_proofs_in_a_notebook():
    text = text_of(proofs()._repr_html_())
    assert text.startswith("True because proof 1: 0.42 '<sun>' 0.7 'lazy' 0.6 proof 2: 0.18")


def test_facts_have_thumbnails_where_they_are_given():
    html = proofs().to_html(lambda fact: "sun.png" if fact.symbol == "<sun>" else None)
    assert html.count('<img src="sun.png"') == 1
    assert parsed(html) is not None


def test_proofs_are_still_a_list():
    found = proofs()
    assert found == list(found)
    assert found[0].probability == pytest.approx(0.42)
    assert isinstance(found[0].facts[0], dl.Fact)


def test_a_symbol_without_a_proof():
    d = dl.Distribution([[0.0, 1.0]], "ab", provenance=dl.TopKProofs(k=3))
    same = dl.apply(d, d, lambda x, y: x != y)
    assert str(same.explain(True)) == "True has no proof"
    assert text_of(same.explain(True)._repr_html_()) == "True has no proof"


def test_a_profile_is_a_table():
    d = dl.Distribution([0.5, 0.5], [1, 2])
    with dl.profile() as seen:
        dl.apply(d, d, int.__add__)
    rows = [" ".join(row.itertext()).split() for row in parsed(seen._repr_html_()).iter("tr")]
    assert rows[0][:3] == ["operation", "function", "calls"]
    assert rows[1][:4] == ["apply", "int.__add__", "1", "4"]
    assert rows[-1][0] == "total"


def test_a_diagnosis_says_what_to_try():
    digit = dl.Distribution.from_logits(torch.randn(1, 2, requires_grad=True), [1, 2])
    found = dl.diagnose(digit + digit, ["3"])
    text = text_of(found._repr_html_())
    assert text.startswith("1 row, 1 finding finding what was seen what to try wrong type")
    assert "convert the targets" in text
    assert "wrong type" in str(found)
