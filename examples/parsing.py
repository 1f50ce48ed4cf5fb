"""Parse noisy words: word classes are learnt from which strings of words are sentences.

Words are observed as noisy vectors. The parser is the textbook's CYK chart: a span has a category
if two adjacent shorter spans form it by some rule. The label says whether a string of words, of any
length, is a sentence; words and trees have no labels.

    python examples/parsing.py --picture parsing.png
"""

import argparse
import operator
import random

import torch
from torch import Tensor, nn

import dolphin as dl

WORDS = ("D", "A", "N", "V")  # determiner, adjective, noun, verb
RULES = {
    ("A", "N"): "N", ("D", "N"): "NP", ("V", "NP"): "VP", ("NP", "VP"): "S", ("NP", "V"): "S",
}  # fmt: skip
LOOKS = torch.randn(4, 12, generator=torch.Generator().manual_seed(0))
hear = dl.network(nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 4)), WORDS)


@dl.batched
def is_sentence(vectors: Tensor) -> dl.Distribution[bool]:
    """Whether ONE string of words (n, 12) is a sentence."""
    n = len(vectors)
    chart: dict[tuple[int, int], dl.Distribution[str]]
    chart = {(i, i + 1): hear(vector) for i, vector in enumerate(vectors)}
    for width in range(2, n + 1):
        for i in range(n - width + 1):
            parts = [(chart[i, m], chart[m, i + width]) for m in range(i + 1, i + width)]
            made = [
                dl.apply_if(a, b, lambda *xy: RULES[xy], lambda *xy: xy in RULES) for a, b in parts
            ]
            chart[i, i + width] = dl.union(*made)
    return dl.exists(chart[0, n], lambda category: category == "S")


def strings(count: int, seed: int) -> tuple[list[Tensor], list[bool]]:
    """Vectors of sentences, half of them with shuffled words; and whether each is a sentence."""
    rng, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    vectors, labels = [], []
    for _ in range(count):
        phrases = [["D", *["A"] * rng.randrange(2), "N"] for _ in range(rng.randrange(1, 3))]
        words = [*phrases[0], "V", *(phrases[1] if len(phrases) > 1 else [])]
        spoken = words if rng.random() < 0.5 else rng.sample(words, len(words))
        labels.append(spoken == words)
        kinds = torch.tensor([WORDS.index(word) for word in spoken])
        vectors.append(LOOKS[kinds] + 0.3 * torch.randn(len(words), 12, generator=generator))
    return vectors, labels


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--picture")
args = parser.parse_args()
optimizer = torch.optim.Adam(hear.parameters(), lr=3e-3)
for step in range(args.steps):
    vectors, labels = strings(32, seed=step)
    optimizer.zero_grad()
    dl.nll_loss(is_sentence(vectors), labels).backward()
    optimizer.step()
vectors, labels = strings(200, seed=10**6)
answers = is_sentence(vectors).argmax()
print(f"{sum(map(operator.eq, answers, labels)) / 2:.1f}% of strings classified correctly")
if args.picture:
    from matplotlib.figure import Figure

    seen = hear.net(LOOKS).softmax(1)
    axis = (figure := Figure(figsize=(4, 3), layout="constrained")).subplots()
    axis.imshow(seen.tolist(), vmin=0, vmax=1, cmap="Blues")
    axis.set(xticks=range(4), xticklabels=WORDS, yticks=range(4), yticklabels=WORDS)
    axis.set(xlabel="predicted word class", ylabel="true word class")
    figure.savefig(args.picture)
