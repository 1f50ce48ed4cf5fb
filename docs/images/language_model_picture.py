"""Draws docs/images/language_model.png: a trie of options, and a distribution over answers.

python docs/images/language_model_picture.py
"""

from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure

from dolphin.lm import OTHER, LanguageModel
from dolphin_tasks.words.program import carry_out

HERE = Path(__file__).parent
INK, FRAME, BLUE, GREY = "#1b1f24", "#d0d7de", "#0969da", "#6c757d"
PROMPT = (
    "Ben has 5 pens and finds 3.\nCalculation: 5+3\n"
    "Eve has 9 cups and breaks 1.\nCalculation: 9-1\n"
    "Ann has 7 pears and eats 2.\nCalculation: "
)
OPTIONS = ["7+2", "7-2", "7*2", "72", "2+7", "2-7"]
END = "↵"

Path_ = tuple[int, ...]


def conditional(lm: LanguageModel, path: Path_) -> torch.Tensor:
    """Probabilities of the token after the prompt and a path."""
    tokens = [*lm.tokenizer(PROMPT)["input_ids"], *path]
    return lm.model(torch.tensor([tokens])).logits[0, -1].softmax(0)


def draw_trie(axes: Any, lm: LanguageModel) -> None:
    """Nodes from left to right; the probability of each token given those before it."""
    (end,) = lm.tokenizer("\n")["input_ids"]
    ended = [(*lm.tokenizer(option)["input_ids"], end) for option in OPTIONS]
    nodes = sorted({path[: n + 1] for path in ended for n in range(len(path))} | {()}, key=len)
    leaves = {path: -float(row) for row, path in enumerate(ended)}

    def height(path: Path_) -> float:
        below = [y for leaf, y in leaves.items() if leaf[: len(path)] == path]
        return sum(below) / len(below)

    for path in nodes:
        x, y = 1.5 * len(path), height(path)
        text = END if path[-1:] == (end,) else lm.tokenizer.decode(path[-1:]) if path else "prompt"
        axes.text(
            x, y, text, ha="center", va="center", fontsize=11, color=INK,
            bbox={"boxstyle": "round,pad=0.3", "fc": "white", "ec": FRAME},
        )  # fmt: skip
        if path:
            probability = float(conditional(lm, path[:-1])[path[-1]])
            above = height(path[:-1])
            axes.plot([x - 1.5, x], [above, y], color=BLUE, lw=0.4 + 4 * probability, zorder=0)
            axes.text(x - 0.62, (above + 2 * y) / 3 + 0.12, f"{probability:.2g}", fontsize=9,
                      color=GREY, ha="center")  # fmt: skip
    for (option, path), total in zip(
        zip(OPTIONS, ended, strict=True),
        lm.options(PROMPT, OPTIONS).probs()[0].tolist(),
        strict=True,
    ):
        axes.text(6.7, leaves[path], f"{option}   {total:.3f}", va="center", fontsize=10, color=INK)
    axes.set(xlim=(-0.7, 8.2), ylim=(-len(OPTIONS) + 0.4, 0.6))
    axes.set_title("options: each token is computed once", fontsize=11, color=INK, loc="left")
    axes.axis("off")


def draw_answers(axes: Any, lm: LanguageModel) -> None:
    """What the model says by itself, carried out: strings with one result are one bar."""

    def parse(text: str) -> Any:
        return carry_out(text) if len(text) == 3 and text[1] in "+-*/" else OTHER

    row = lm.answers(PROMPT, parse, k=16, max_new_tokens=3).top(7)[0]
    names = [str(symbol) for symbol, _ in row]
    colours = [GREY if symbol is OTHER else BLUE for symbol, _ in row]
    axes.barh(names[::-1], [p for _, p in row][::-1], color=colours[::-1], height=0.6)
    for place, (_, p) in enumerate(reversed(row)):
        axes.text(p + 0.01, place, f"{p:.3f}", va="center", fontsize=9, color=INK)
    axes.set_title("answers, by what they come to", fontsize=11, color=INK, loc="left")
    axes.set(xlim=(0, max(p for _, p in row) * 1.25), xticks=[])
    axes.spines[["top", "right", "bottom"]].set_visible(False)


@torch.no_grad()
def main() -> None:
    """Draw both halves."""
    found = LanguageModel.from_package()
    lm = LanguageModel(found.model, found.tokenizer, end="\n")
    figure = Figure(figsize=(9.0, 4.2), dpi=150, facecolor="white")
    left, right = figure.subplots(1, 2, width_ratios=(2.2, 1))
    draw_trie(left, lm)
    draw_answers(right, lm)
    figure.tight_layout()
    figure.savefig(HERE / "language_model.png")


if __name__ == "__main__":
    main()
