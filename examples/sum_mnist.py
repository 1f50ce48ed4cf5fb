"""Learn to read handwritten digits from nothing but their sums.

Each training sample is a row of N MNIST images and the sum of their digits. No image is ever
labelled. The network predicts the digits, an ordinary Python addition turns the predictions into a
distribution over sums, and the loss is the negative log-likelihood of the right sum.

    python examples/sum_mnist.py --n 5 --epochs 5
"""

import argparse
import operator
import sys
from pathlib import Path

import torch
from rich.progress import track
from torch import Tensor, nn

import dolphin as dl
from dolphin_tasks.mnist import digit_network, load_mnist
from dolphin_tasks.pictures import draw_sums


def deal(images: Tensor, labels: Tensor, n: int, limit: int | None) -> tuple[Tensor, Tensor]:
    """Shuffled images in rows of `n`, and their digits; no image is used twice."""
    count = min(len(labels) // n, limit or len(labels))
    order = torch.randperm(len(labels))[: count * n]
    return (images[order].float() / 255).view(count, n, 1, 28, 28), labels[order].view(count, n)


def read(network: nn.Module, images: Tensor) -> list[dl.Distribution[int]]:
    """Perception: for each of the N places, a distribution over the ten digits."""
    logits = network(images.flatten(0, 1)).unflatten(0, images.shape[:2])
    return dl.Distribution.each_from_logits(logits, range(10))


def train(network: nn.Module, images: Tensor, sums: Tensor, epochs: int, batch: int) -> None:
    """Raise the likelihood of the right sums."""
    steps = epochs * -(-len(sums) // batch)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, total_steps=steps)
    for epoch in range(1, epochs + 1):
        losses, rows = [], torch.randperm(len(sums)).split(batch)
        for index in track(rows, f"epoch {epoch}/{epochs}", disable=not sys.stdout.isatty()):
            total = dl.reduce(operator.add, read(network, images[index]))  # the program
            loss = dl.nll_loss(total, sums[index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        print(f"epoch {epoch}/{epochs}  loss {sum(losses) / len(losses):.3f}", flush=True)


def main() -> None:
    """Train, test, draw."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int, default=5, help="images per row (default: 5)")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--rows", type=int, help="use at most this many rows, to try things out")
    parser.add_argument("--picture", type=Path, default=Path("runs/sum_mnist.png"))
    args = parser.parse_args()
    torch.manual_seed(0)
    mnist = load_mnist()  # finds or fetches it
    print(f"MNIST from {mnist.source}")
    images, digits = deal(mnist.train_images, mnist.train_labels, args.n, args.rows)
    print(f"{len(images):,} rows of images, each with its sum")
    train(network := digit_network(), images, digits.sum(1), args.epochs, batch=64)
    images, digits = deal(mnist.test_images, mnist.test_labels, args.n, args.rows)
    with torch.no_grad():
        seen = read(network.eval(), images)
    read_as = torch.tensor([place.argmax() for place in seen]).T
    sums = torch.tensor(dl.reduce(operator.add, seen).argmax())
    print(f"test: {(sums == digits.sum(1)).float().mean():.2%} of {len(sums):,} sums right")
    print(f"test: {(read_as == digits).float().mean():.2%} of digits right, without any label")
    draw_sums(images, read_as, sums, digits, args.picture)


if __name__ == "__main__":
    main()
