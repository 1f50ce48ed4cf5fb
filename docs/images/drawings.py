"""Draws draw_sum.svg and draw_tree.svg: what `dl.draw` shows of two small programs."""

from pathlib import Path

import torch

import dolphin as dl

HERE = Path(__file__).parent


def add(x: int, y: int) -> int:
    """A user's function."""
    return x + y


def larger(x: int, y: int) -> bool:
    """Another one."""
    return x > y


def total(first: dl.Distribution, second: dl.Distribution, third: dl.Distribution) -> None:
    """The sum of three digits."""
    dl.apply(dl.apply(first, second, add), third, add)


def compare(a: dl.Distribution, b: dl.Distribution, c: dl.Distribution, d: dl.Distribution) -> None:
    """Whether the first two digits come to more than the others."""
    dl.apply(dl.apply(a, b, add), dl.apply(c, d, add), larger)


digits = dl.Distribution.each_from_logits(torch.zeros(1, 4, 10), range(10))
dl.draw(total, *digits[:3]).save(HERE / "draw_sum.svg")
dl.draw(compare, *digits).save(HERE / "draw_tree.svg")
