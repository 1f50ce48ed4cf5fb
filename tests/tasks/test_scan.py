"""Pictures that users give: strokes of any pen become the ink that a network knows."""

from __future__ import annotations

import networkx as nx
import pytest
import torch

from dolphin_tasks.scan import cut, fit, level, load_ink, read_pictures, thin
from dolphin_tasks.strokes import draw_symbols
from dolphin_tasks.training.familiar import Familiar


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


# -- scanned rows ----------------------------------------------------------------------------------


def scanned(labels, *, margin=0, shade=0.0, noise=0.0, dust=0, seed=0):
    """A row of symbols as a scanner might see it: ink in [0, 1]."""
    generator = torch.Generator().manual_seed(seed)
    parts = [torch.nn.functional.pad(p.float() / 255, (3, 3, 0, 0)) for p in drawn(labels, 40)]
    ink = torch.nn.functional.pad(torch.cat(parts, 1), (margin,) * 4)
    for _ in range(dust):
        row, column = (int(torch.randint(side - 1, (), generator=generator)) for side in ink.shape)
        ink[row, column : column + 2] = 0.8
    paper = torch.linspace(0, shade, ink.shape[1]) + noise * torch.randn(
        ink.shape, generator=generator
    )
    return (ink + paper).clamp(0, 1)


def drawn(labels, size):
    return draw_symbols(torch.tensor(labels), size, seed=3)


@pytest.mark.parametrize(
    "page",
    [
        {},
        {"margin": 100},  # a short line on a large page
        {"margin": 15, "shade": 0.4},
        {"margin": 15, "noise": 0.06},
        {"margin": 30, "dust": 12},
        {"margin": 60, "shade": 0.3, "noise": 0.04, "dust": 6},
    ],
)
def test_scanned_rows_are_cut_by_their_ink(page):
    labels = [3, 10, 7, 13, 4, 12, 2]  # 13 is a division sign: two dots and a bar
    assert len(cut(level(scanned(labels, **page)))) == len(labels)


def test_neighbours_that_reach_over_each_other_stay_apart():
    """A stroke under the arm of another: no column is empty between them."""
    ink = torch.zeros(60, 60)
    ink[5:8, 5:45] = ink[5:55, 5:8] = 1  # an arm over the whole width
    ink[20:55, 30:33] = 1
    first, second = cut(ink)
    assert first.shape[0] > 1.3 * second.shape[0]
    assert (second > 0.5).float().mean() > 0.9  # nothing of the arm is in it


def five(gap: int) -> torch.Tensor:
    """A 5 whose bar broke off, this far away from its body and mostly to the right of it."""
    ink = torch.zeros(64, 80)
    ink[4:30, 10:13] = ink[27:30, 10:30] = ink[27:60, 28:31] = ink[57:60, 8:30] = 1
    ink[2:5, 13 + gap : 40 + gap] = 1
    return ink


def test_strokes_that_broke_off_belong_to_their_symbol():
    (symbol,) = cut(five(gap=4))
    assert symbol.shape[1] > 30
    assert len(cut(five(gap=24))) == 2  # that far away it is something else
    minus = torch.zeros(64, 80)
    minus[4:60, 10:13] = minus[30:33, 17:45] = 1
    assert len(cut(minus)) == 2


@pytest.mark.parametrize("shade", [0, 255])
def test_ink_of_any_colour_on_transparent_paper(tmp_path, shade):
    image = pytest.importorskip("PIL.Image")
    strength = torch.nn.functional.pad(drawn([3], 40)[0], (5,) * 4)
    layers = torch.full((*strength.shape, 4), shade, dtype=torch.uint8)
    layers[..., 3] = strength
    image.fromarray(layers.numpy(), "RGBA").save(tmp_path / "ink.png")
    torch.testing.assert_close(
        load_ink(tmp_path / "ink.png"), strength / strength.max(), atol=0.01, rtol=0
    )


def test_symbols_are_centred_by_their_mass_on_request():
    ink = torch.zeros(20, 20)
    ink[:, 6] = ink[14] = 1  # its mass is low and to the left
    placed = fit(ink, 28, 20, by_mass=True)
    weights = torch.arange(28) + 0.5
    for axis in (0, 1):
        mass = placed.sum(1 - axis)
        assert abs(float((mass * weights).sum() / mass.sum()) - 14) <= 0.5
    assert placed.sum() == pytest.approx(float(fit(ink, 28, 20).sum()))


def test_strange_pictures_are_told():
    """Digits are familiar to who has seen digits; operators and blots are not."""
    seen = Familiar.of(drawn([place % 10 for place in range(600)], 28).float() / 255)
    fresh = draw_symbols(torch.arange(100) % 10, 28, seed=8).float() / 255
    assert sum(seen.strange(fresh)) <= 3
    blots = torch.rand(20, 28, 28, generator=torch.Generator().manual_seed(0))
    assert all(seen.strange(blots))
    assert all(seen.strange(1 - fresh))  # light ink on dark paper
