"""Draws docs/images/gradients.png: what each provenance gives, and passes back, on small programs.

python docs/images/gradients_picture.py
"""

from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor

import dolphin as dl

HERE = Path(__file__).parent
INK, FRAME = "#1b1f24", "#d0d7de"
SHOWN = {
    "exact": ("exact", "#0a58ca", "-", 3.0),
    "damp": ("damp (add-mult)", "#d1495b", "-", 1.6),
    "dtkp-am": ("dtkp-am, k = 3", "#d1495b", ":", 2.0),
    "noisy-or": ("noisy-or", "#2a9d8f", "-", 1.6),
    "viterbi": ("viterbi", "#8d6a9f", "-", 1.6),
    "min-max": ("min-max (Gödel)", "#e09f3e", "-", 1.6),
    "lukasiewicz": ("lukasiewicz", "#6c757d", "--", 1.6),
    "hamacher": ("hamacher", "#2a9d8f", ":", 1.8),
}


def facts(probs: Tensor, name: str) -> list[dl.Distribution]:
    """One independent fact "x" for each column of (B, n)."""
    provenance = dl.get_provenance(name)
    return [dl.Distribution(p[:, None], ["x"], provenance=provenance) for p in probs.unbind(1)]


def conjunction(parts: list[dl.Distribution]) -> dl.Distribution:
    """All parts hold."""
    result = parts[0]
    for part in parts[1:]:
        result = dl.apply(result, part, lambda a, b: "x")
    return result


def at_least_two(a: dl.Distribution, b: dl.Distribution, c: dl.Distribution) -> dl.Distribution:
    """a∧b ∨ b∧c ∨ a∧c: every fact is used twice."""
    return dl.union(conjunction([a, b]), conjunction([b, c]), conjunction([a, c]))


def curves(name: str) -> tuple[Tensor, Tensor, Tensor]:
    """Of "at least two of three": P(a), the result, and its derivative."""
    x = torch.linspace(0.0, 1.0, 201, dtype=torch.float64).requires_grad_()
    probs = torch.stack([x, torch.full_like(x, 0.6), torch.full_like(x, 0.4)], 1)
    value = dl.get_probs(at_least_two(*facts(probs, name)))[:, 0]
    (slope,) = torch.autograd.grad(value.sum(), x)
    return x.detach(), value.detach(), slope


def slopes(name: str, p: float, sizes: range, disjunction: bool) -> list[float]:
    """The derivative for one of n facts of probability p, in a conjunction or a disjunction."""
    found = []
    for n in sizes:
        probs = torch.full((1, n), p, dtype=torch.float64)
        probs[0, 0] -= 1e-3  # one fact decides where there would be a tie
        if disjunction:
            probs[0, 0] += 2e-3
        probs.requires_grad_()
        parts = facts(probs, name)
        result = dl.union(*parts) if disjunction else conjunction(parts)
        (grad,) = torch.autograd.grad(dl.get_probs(result).sum(), probs)
        found.append(grad[0, 0].item())
    return found


def main() -> None:
    """Four panels, one line a provenance."""
    figure = Figure(figsize=(11, 7.2), dpi=150, facecolor="white")
    panels = figure.subplots(2, 2).flatten()
    sizes = range(1, 13)
    for name, (label, color, style, width) in SHOWN.items():
        look = {"label": label, "color": color, "linestyle": style, "linewidth": width}
        x, value, slope = curves(name)
        panels[0].plot(x, value, **look)
        panels[1].plot(x, slope, **look)
        for panel, p, disjunction in ((panels[2], 0.8, False), (panels[3], 0.2, True)):
            found = slopes(name, p, sizes, disjunction)
            panel.plot(list(sizes), [max(g, 1e-4) for g in found], **look)
    titles = [
        "P(at least two of a, b, c),  P(b) = 0.6, P(c) = 0.4",
        "its derivative with respect to P(a)",
        "a conjunction of n facts of 0.8: derivative for the weakest",
        "a disjunction of n facts of 0.2: derivative for the strongest",
    ]
    for panel, title in zip(panels, titles, strict=True):
        panel.set_title(title, fontsize=11, color=INK, loc="left")
        panel.spines[["top", "right"]].set_visible(False)
        panel.spines[["left", "bottom"]].set_color(FRAME)
        panel.tick_params(colors=INK, labelsize=9)
        panel.grid(color=FRAME, linewidth=0.5)
    for panel in panels[:2]:
        panel.set_xlabel("P(a)", color=INK)
    for panel in panels[2:]:
        panel.set(xlabel="n", yscale="log", ylim=(0.8e-4, 2.5))
        panel.set_yticks([1e-4, 1e-3, 1e-2, 1e-1, 1], ["0", "0.001", "0.01", "0.1", "1"])
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncol=4, frameon=False, fontsize=10)
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    figure.savefig(HERE / "gradients.png")


if __name__ == "__main__":
    main()
