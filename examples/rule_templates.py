"""Learn which rule defines a relation: templates over a knowledge base, from queries alone.

A knowledge base of parents, children and spouses is queried for grandparents, siblings and in-laws.
Their definitions are not given: each is one of the templates "the b of an a", and is learnt.

    python examples/rule_templates.py --picture templates.png
"""

import argparse
import random

import torch

import dolphin as dl

KNOWN = ["parent", "child", "spouse"]
HIDDEN = {"grandparent": (0, 0), "grandchild": (1, 1), "sibling": (0, 1), "parent-in-law": (2, 0)}


def families(number: int, rng: random.Random) -> tuple[tuple[int, int, int], ...]:
    """(a person, a known relation, who that is): three generations that marry each other."""
    facts, people = [], 2 * number
    couples = [(n, n + 1) for n in range(0, people, 2)]
    for _ in range(3):
        born = []
        for couple in couples:
            facts += [(couple[0], 2, couple[1]), (couple[1], 2, couple[0])]
            for child in range(people, people := people + rng.randint(1, 3)):
                facts += [f for parent in couple for f in ((child, 0, parent), (parent, 1, child))]
                born.append(child)
        rng.shuffle(born)
        couples = list(zip(born[::2], born[1::2], strict=False))
    return tuple(facts)


def follow(chosen: dl.Distribution, facts: dl.Distribution) -> dl.Distribution:
    """From (person, relation, later relations) to what that relation leads to."""
    on = (lambda c: c[:2], lambda f: f[:2])
    return dl.apply_if(chosen, facts, lambda c, f: (f[2], *c[2:]), on=on)


def answers(asked: list, facts: dl.Distribution, table: torch.Tensor) -> dl.Distribution:
    """Who is meant by (relation, person), for a row each."""

    def template(question: tuple[int, int]) -> object:
        return dl.weighted({(question[1], *divmod(n, 3)): table[question[0], n] for n in range(9)})

    chosen = dl.Distribution.certain_rows(asked).map(template)
    return follow(follow(chosen, facts), facts).map(lambda c: c[0])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Learn which template a relation is.")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--picture")
    args, base = parser.parse_args(), families(20, random.Random(0))
    pairs = [(a, b) for a in base for b in base if a[2] == b[0] and a[0] != b[2]]
    rules = {two: place for place, two in enumerate(HIDDEN.values())}
    queries = [((rules[a[1], b[1]], a[0]), b[2]) for a, b in pairs if (a[1], b[1]) in rules]
    scores = torch.zeros(len(HIDDEN), 9, requires_grad=True)
    optimizer = torch.optim.Adam([scores], lr=0.3)
    with dl.using("noisy-or"):  # two parents are two reasons for one sibling
        facts = dl.Distribution(torch.full((len(base),), 0.9), base, exclusive=False)
        for step in range(args.steps):
            asked, meant = map(list, zip(*random.Random(step).sample(queries, 32), strict=True))
            optimizer.zero_grad()
            dl.nll_loss(answers(asked, facts, scores.softmax(-1)), meant).backward()
            optimizer.step()
    chances = scores.softmax(-1).tolist()
    for name, row in zip(HIDDEN, chances, strict=True):
        a, b = divmod(row.index(max(row)), 3)
        print(f"{name}: {KNOWN[b]} of a {KNOWN[a]} ({max(row):.0%})")
    if args.picture:
        from matplotlib.figure import Figure

        axis = (figure := Figure(figsize=(7, 2.8), layout="constrained")).subplots()
        axis.imshow(chances, cmap="Blues", vmin=0, vmax=1)
        axis.set_yticks(range(4), list(HIDDEN))
        axis.set_xticks(range(9), [f"{b} of\na {a}" for a in KNOWN for b in KNOWN], fontsize=7)
        figure.savefig(args.picture)
