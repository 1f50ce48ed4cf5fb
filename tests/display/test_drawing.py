"""Drawings: every operation is a box, every operand a line, and the numbers are right."""

from xml.etree import ElementTree

import pytest
import torch

import dolphin as dl

SVG = "{http://www.w3.org/2000/svg}"


def digit(n: int = 3) -> dl.Distribution[int]:
    return dl.Distribution(torch.full((2, n), 1 / n), range(n))


def add(x: int, y: int) -> int:
    return x + y


def test_steps_sources_and_sizes():
    def program(left, right):
        total = dl.apply(left, right, add)
        return dl.filter(dl.apply(total, left, add), bool)

    drawing = dl.draw(program, digit(3), digit(4))
    summary = [(s.operation, s.name, s.sources, s.symbols, s.combinations) for s in drawing.steps]
    assert summary == [
        ("input", "left", (), 3, 0),
        ("input", "right", (), 4, 0),
        ("apply", "add", (0, 1), 6, 12),
        ("apply", "add", (2, 0), 8, 18),
        ("filter", "bool", (3,), 7, 7),
    ]


def test_the_picture_has_a_box_per_step_and_a_line_per_operand():
    drawing = dl.draw(lambda x, y: dl.union(dl.apply(x, y, add), x), digit(), digit())
    root = ElementTree.fromstring(drawing.svg)
    assert len(root.findall(f"{SVG}rect")) == len(drawing.steps) == 4
    assert len(root.findall(f"{SVG}path")) == 4
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert "3 × 3 → 5 symbols" in texts
    assert "9 combinations" in texts


def test_boxes_do_not_overlap():
    def program(*digits):
        level = list(digits)
        while len(level) > 1:
            level = [dl.apply(a, b, add) for a, b in zip(level[::2], level[1::2], strict=True)]
        return level[0]

    root = ElementTree.fromstring(dl.draw(program, *(digit() for _ in range(8))).svg)
    boxes = [
        tuple(float(box.get(side, "")) for side in ("x", "y", "width", "height"))
        for box in root.findall(f"{SVG}rect")
    ]
    for i, (x, y, w, h) in enumerate(boxes):
        for u, v, a, b in boxes[i + 1 :]:
            assert x + w <= u or u + a <= x or y + h <= v or v + b <= y


@pytest.mark.parametrize("provenance", ["damp", "exact"])
def test_a_fold_is_one_box(provenance):
    digits = dl.Distribution.each_from_logits(torch.zeros(2, 5, 3), range(3), provenance=provenance)
    drawing = dl.draw(lambda: dl.reduce(add, digits))
    fold = drawing.steps[-1]
    assert (fold.operation, fold.name, fold.symbols) == ("reduce", "add", 11)
    assert fold.sources == (0, 1, 2, 3, 4)
    assert fold.combinations > 11
    assert len(drawing.steps) == 6


def test_programs_that_sample_branch_and_repeat():
    edges = dl.Distribution([0.9, 0.8], [(0, 1), (1, 2)], exclusive=False)

    def paths(edges):
        def longer(found):
            ends = (lambda p: p[1], lambda e: e[0])
            joined = dl.apply_if(found, edges, lambda p, e: (p[0], e[1]), on=ends)
            return dl.union(edges, joined)

        return dl.sample(dl.fixpoint(longer, edges), 2)

    drawing = dl.draw(paths, edges)
    names = [step.operation for step in drawing.steps]
    assert names[0] == "input"
    assert names.count("input") == 1  # everything else comes from it
    assert names[-1] == "sample"
    assert "apply_if" in names
    assert "union" in names


def test_inputs_made_inside_and_tensors_outside():
    network = torch.nn.Linear(4, 3)

    def loss(images, targets):
        return dl.nll_loss(
            dl.Distribution.from_logits(network(images), range(3)).map(bool), targets
        )

    drawing = dl.draw(loss, torch.rand(2, 4), [True, False])
    assert [step.operation for step in drawing.steps] == ["input", "apply", "nll_loss"]
    assert drawing.steps[-1].symbols is None


def test_a_program_with_choices_is_one_box():
    @dl.program
    def both(a, b):
        return dl.choose(a) + dl.choose(b)

    drawing = dl.draw(both, digit(), digit())
    assert [step.operation for step in drawing.steps] == ["input", "input", "program"]
    assert drawing.steps[-1].sources == (0, 1)


def test_where_rewraps_and_is_still_connected():
    rain = dl.Distribution([0.2, 0.8], [True, False])
    drawing = dl.draw(lambda c, a: dl.where(c, a, 1).map(str), rain, digit())
    reached = {len(drawing.steps) - 1}
    for number in reversed(range(len(drawing.steps))):
        if number in reached:
            reached |= set(drawing.steps[number].sources)
    assert {0, 1} <= reached


def test_symbols_are_escaped_and_files_are_written(tmp_path):
    drawing = dl.draw(lambda d: d.map(str.upper), dl.Distribution([0.5, 0.5], ["<x>", "&"]))
    drawing.save(tmp_path / "program.svg")
    text = (tmp_path / "program.svg").read_text(encoding="utf-8")
    assert ElementTree.fromstring(text).tag == f"{SVG}svg"
    assert "background:white" in text
    assert drawing._repr_html_() == drawing.svg
    assert repr(drawing) == "<Drawing of 2 steps>"


def test_text_form():
    assert str(dl.draw(lambda x: x.map(bool), digit())).splitlines()[0] == "  0  input x: 3 symbols"


@pytest.mark.parametrize(
    ("program", "message"),
    [(3, "must be a function"), (lambda: None, "did nothing with distributions")],
)
def test_refusals(program, message):
    with pytest.raises(dl.DolphinError, match=message):
        dl.draw(program)


def test_too_many_operations_are_refused():
    def long(d):
        for _ in range(300):
            d = d.map(bool)
        return d

    with pytest.raises(dl.DolphinError, match="more than 200 operations"):
        dl.draw(long, digit())
