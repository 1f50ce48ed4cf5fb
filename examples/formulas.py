"""Learn to read drawn formulas, digits and operators, from their values.

A formula is a row of pictures of any length; its label is its value. The program reads ONE formula
from left to right, and `dl.batched` runs it on formulas of different lengths at once.

    python examples/formulas.py --picture formulas.png
"""

import argparse
import operator

import torch
from torch import Tensor, nn

import dolphin as dl
from dolphin_tasks.strokes import NAMES, draw_symbols


def go_on(state: tuple[int, int], sign: str, digit: int) -> tuple[int, int]:
    """The state is (sum so far, product that may still continue)."""
    if sign == "×":
        return state[0], state[1] * digit
    return sum(state), digit if sign == "+" else -digit


digits = nn.Sequential(nn.Flatten(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))
operators = nn.Sequential(nn.Flatten(), nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, 3))
read_digit, read_operator = dl.network(digits, range(10)), dl.network(operators, NAMES[10:13])


@dl.batched
def value(pictures: Tensor) -> dl.Distribution[int]:
    """The value of ONE formula; `pictures` is (length, 16, 16)."""
    state: dl.Distribution = read_digit(pictures[0]).map(lambda digit: (0, digit))
    for sign, digit in zip(pictures[1::2], pictures[2::2], strict=True):
        state = dl.apply(state, read_operator(sign), read_digit(digit), go_on)
    return state.map(sum)


def draw(count: int, seed: int) -> tuple[list[Tensor], list[int]]:
    """Pictures of formulas of 1, 3 or 5 symbols, and their values."""
    generator, kinds, values = torch.Generator().manual_seed(seed), [], []
    for length in (1 + 2 * torch.randint(0, 3, (count,), generator=generator)).tolist():
        kinds.append(torch.randint(0, 10, (length,), generator=generator))
        kinds[-1][1::2] = 10 + kinds[-1][1::2] % 3
        state = (0, int(kinds[-1][0]))
        for kind, digit in kinds[-1][1:].view(-1, 2).tolist():
            state = go_on(state, NAMES[kind], digit)
        values.append(sum(state))
    pictures = draw_symbols(torch.cat(kinds), 16, seed).float() / 255
    return list(pictures.split([len(row) for row in kinds])), values


def main() -> None:
    """Train, test, draw."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--picture")
    args = parser.parse_args()
    optimizer = torch.optim.Adam([*digits.parameters(), *operators.parameters()], lr=2e-3)
    for step in range(args.steps):
        optimizer.zero_grad()
        pictures, values = draw(32, seed=step)
        dl.nll_loss(value(pictures), values).backward()
        optimizer.step()
    pictures, values = draw(200, seed=10**6)
    answers = value(pictures).argmax()
    print(sum(map(operator.eq, answers, values)), "of 200 test formulas correct")
    if args.picture:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6, 4), layout="constrained")
        for row, axis in enumerate(figure.subplots(4, 2).flat):
            axis.imshow(torch.cat(list(pictures[row]), 1).tolist(), cmap="gray_r")
            axis.set(xticks=[], yticks=[], xlabel=f"= {answers[row]}")
        figure.savefig(args.picture)


if __name__ == "__main__":
    main()
