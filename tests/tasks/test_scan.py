"""Pictures that users give: strokes of any pen become the ink that a network knows."""

from __future__ import annotations

import networkx as nx
import pytest
import torch

from dolphin_tasks.scan import fit, read_pictures, thin
from dolphin_tasks.strokes import draw_symbols


def pieces(ink: torch.Tensor) -> int:
    """How many separate strokes there are, pixels touching at corners included."""
    pixels = {tuple(p) for p in ink.nonzero().tolist()}
    graph = nx.Graph()
    graph.add_nodes_from(pixels)
    for y, x in pixels:
        around = [(y + dy, x + dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)]
        graph.add_edges_from(((y, x), p) for p in around if p in pixels)
    return nx.number_connected_components(graph)


@pytest.mark.parametrize("width", [1, 2, 3, 5, 8])
def test_a_cross_of_any_pen_is_a_cross_of_the_finest(width):
    ink = torch.zeros(45, 45)
    ink[4:41, 22 : 22 + width] = 1
    ink[22 : 22 + width, 4:41] = 1
    found = thin(ink)
    assert pieces(found) == 1
    assert not torch.nn.functional.avg_pool2d(found[None, None], 2, 1).eq(1).any()  # no 2x2 blob
    assert found.any(0).sum() >= 37 - width and found.any(1).sum() >= 37 - width  # not shortened


def test_holes_and_separate_strokes_stay():
    ink = torch.zeros(45, 45)
    ink[5:40, 5:40] = 1
    ink[12:33, 12:33] = 0
    ink[20:24, 20:24] = 1  # a dot inside
    found = thin(ink)
    assert pieces(found) == 2
    assert pieces(1 - found) >= 2  # inside and outside are still apart


def test_fine_ink_is_left_alone():
    ink = torch.zeros(9, 9)
    ink[4, 1:8] = 1
    assert torch.equal(thin(ink), ink)
    assert thin(torch.zeros(5, 5)).sum() == 0


def test_pictures_are_thinned_on_request(tmp_path):
    image = pytest.importorskip("PIL.Image")
    drawn = 255 - draw_symbols(torch.tensor([3, 10]), 90, seed=0)
    for number, symbol in enumerate(drawn):
        image.fromarray(symbol.numpy()).save(tmp_path / f"{number}.png")
    paths = [tmp_path / "0.png", tmp_path / "1.png"]
    thick, fine = (read_pictures(paths, 45, 45, fine_pen=pen) for pen in (False, True))
    assert thick.shape == fine.shape == (2, 1, 45, 45)
    assert (fine.sum((1, 2, 3)) < 0.7 * (thick > 0.4).sum((1, 2, 3))).all()
    torch.testing.assert_close(fine[1, 0], thin(thick[1, 0]))
    assert fit(drawn[0].float(), 45, 45).shape == (45, 45)
