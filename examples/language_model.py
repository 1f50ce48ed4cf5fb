"""A language model reads a receipt, and a program adds it up.

The model is asked for each price; the answers are distributions, and so is their sum. The total on
the receipt then teaches the model: no price is ever labelled.

    python examples/language_model.py --picture receipt.png
"""

import argparse
from pathlib import Path

import torch

import dolphin as dl
from dolphin.lm import OTHER, LanguageModel
from dolphin_tasks.pictures import draw_bars
from dolphin_tasks.words.model import any_language_model

SHOWN = "Paid: 5 coins for rice, 1 coin for salt, 6 coins for fish.\nsalt 1\nfish 6\nrice 5\n\n"
RECEIPT = "Paid: 4 coins for tea, 3 coins for bread, 2 coins for milk."
ITEMS = ("tea", "bread", "milk")
PRICES = [f" {price}" for price in range(10)]


def question(item: str) -> str:
    """A prompt for the model to continue with a price."""
    return f"{SHOWN}{RECEIPT}\n{item}"


def main() -> None:
    """Ask, add up, and learn from the total."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tiny", action="store_true", help="random weights, nothing to download")
    parser.add_argument("--steps", type=int, default=5, help="training steps")
    parser.add_argument("--picture", default=None)
    arguments = parser.parse_args()
    found = any_language_model(arguments.tiny)
    lm = LanguageModel(found.model, found.tokenizer, end="\n")  # a price ends with its line

    # 1. The exact probability of each answer of a list, by a trie over one prefix cache.
    with torch.no_grad():
        listed = lm.options([question(item) for item in ITEMS], PRICES, normalise=True)
    for item, likeliest in zip(ITEMS, listed.top(3), strict=True):
        print(f"{item:>6}: " + ", ".join(f"{price.strip()} ({p:.2f})" for price, p in likeliest))

    # 2. Free answers: parsed, equal ones merged, the rest in OTHER.
    with torch.no_grad():
        free = lm.answers(question("tea"), parse=int, k=8, max_new_tokens=3)
    print("  free: " + ", ".join(f"{answer} ({p:.2f})" for answer, p in free.top(3)[0]))
    assert OTHER in free.symbols

    # 3. A program over the answers, and its result as the only label.
    trained = [p for n, p in lm.model.named_parameters() if n.endswith("q_proj.weight")]
    lm.model.requires_grad_(False)
    for parameter in trained[-8:]:
        parameter.requires_grad_(True)
    optimizer = torch.optim.Adam(trained[-8:], lr=3e-3)
    panels = {}
    for step in range(arguments.steps + 1):
        tea, bread, milk = (
            lm.options(question(item), PRICES, normalise=True).map(int) for item in ITEMS
        )
        total = tea + bread + milk
        print(f"step {step}: P(total is 9) = {total.prob_of([9]).item():.4f}")
        panels[f"total, step {step}"] = total.top(5)[0]
        if step < arguments.steps:
            optimizer.zero_grad()
            dl.nll_loss(total, [9]).backward()
            optimizer.step()
    if arguments.picture:
        draw_bars(panels, Path(arguments.picture))


if __name__ == "__main__":
    main()
