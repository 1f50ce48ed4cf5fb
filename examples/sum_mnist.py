"""Learn to read handwritten digits from nothing but their sums.

Each training sample is a row of N MNIST images and the sum of their digits. No image is ever
labelled. The network guesses the digits, an ordinary Python addition turns the guesses into a
distribution over sums, and the loss is the likelihood of the right sum.

    python examples/sum_mnist.py --help
"""

import argparse
import functools
import operator
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor, nn

import dolphin as dl
from dolphin_tasks.mnist import digit_network, load_mnist
from dolphin_tasks.pictures import draw_sums

console = Console(highlight=False)


@dataclass(frozen=True)
class Rows:
    """Rows of N images (rows, N, 1, 28, 28), their digits (rows, N) and sums (rows,)."""

    images: Tensor
    digits: Tensor
    sums: Tensor


def make_rows(images: Tensor, labels: Tensor, n: int, limit: int | None) -> Rows:
    """Deal shuffled images into rows of `n`; no image is used twice."""
    count = min(len(labels) // n, limit or len(labels))
    order = torch.randperm(len(labels))[: count * n]
    digits = labels[order].view(count, n)
    return Rows((images[order].float() / 255).view(count, n, 1, 28, 28), digits, digits.sum(1))


def read(network: nn.Module, images: Tensor) -> list[dl.Distribution]:
    """Perception: for each of the N places, a distribution over the ten digits."""
    batch, n = images.shape[:2]
    logits = network(images.flatten(0, 1)).view(batch, n, 10)
    return [dl.Distribution.from_logits(logits[:, i], range(10)) for i in range(n)]


def add(digits: list[dl.Distribution]) -> dl.Distribution:
    """The program: digits in, sums out."""
    return functools.reduce(operator.add, digits)


def train(network: nn.Module, rows: Rows, epochs: int, batch: int) -> None:
    """Raise the likelihood of the right sums."""
    n = rows.digits.shape[1]
    steps = -(-len(rows.sums) // batch)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, total_steps=epochs * steps)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    network.train()
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=epochs * steps)
        for epoch in range(1, epochs + 1):
            loss_sum, right, seen, state = 0.0, 0, 0, ""
            for index in torch.randperm(len(rows.sums)).split(batch):
                sums = rows.sums[index]
                total = add(read(network, rows.images[index]))
                log_probs = dl.get_logits(total, symbols=range(9 * n + 1))
                loss = F.nll_loss(log_probs, sums)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
                loss_sum += loss.item() * len(index)
                right += int((log_probs.argmax(1) == sums).sum())
                seen += len(index)
                state = f"epoch {epoch}/{epochs}  loss {loss_sum / seen:.3f}  "
                state += f"sums right {right / seen:6.1%}"
                progress.update(task, advance=1, description=state)
            if not console.is_terminal:
                console.print(state)


@torch.no_grad()
def predict(network: nn.Module, rows: Rows) -> tuple[Tensor, Tensor]:
    """The likeliest digits (rows, N) and sums (rows,)."""
    network.eval()
    digits, sums = [], []
    for images in rows.images.split(500):
        seen = read(network, images)
        digits.append(torch.tensor([place.argmax() for place in seen]).T)
        sums.append(torch.tensor(add(seen).argmax()))
    return torch.cat(digits), torch.cat(sums)


def main() -> int:
    """Train, test, draw."""
    parser = argparse.ArgumentParser(description="Learn to read MNIST digits from their sums.")
    parser.add_argument("--n", type=int, default=5, help="images a row (default: 5)")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rows", type=int, help="use at most this many rows, to try things out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", help="a folder with the MNIST files (default: find or fetch)")
    parser.add_argument("--picture", type=Path, default=Path("runs/sum_mnist.png"))
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    mnist = load_mnist(args.data)
    console.print(f"MNIST from {mnist.source}", soft_wrap=True)
    rows = make_rows(mnist.train_images, mnist.train_labels, args.n, args.rows)
    test = make_rows(mnist.test_images, mnist.test_labels, args.n, args.rows)
    console.print(f"{len(rows.sums):,} rows of {args.n} images, each with its sum and nothing else")

    network = digit_network()
    network.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue] (faster)
    start = time.perf_counter()
    train(network, rows, args.epochs, args.batch)
    console.print(f"trained in {time.perf_counter() - start:.0f} s")

    digits, sums = predict(network, test)
    console.print(f"test: {(sums == test.sums).float().mean():.2%} of {len(sums):,} sums right")
    share = (digits == test.digits).float().mean()
    console.print(f"test: {share:.2%} of {digits.numel():,} digits right, which it was never told")
    draw_sums(test.images, digits, sums, test.digits, args.picture)
    console.print(f"picture: {args.picture}", soft_wrap=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        console.print("\nstopped")
        sys.exit(130)
