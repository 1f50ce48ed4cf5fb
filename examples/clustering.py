"""Cluster points by statements about all of them, without any labels.

Every cluster has a point; nearby points share a cluster, and points far apart don't. Each statement
is about a batch of points or pairs and has a degree of truth (`dl.satisfaction`). The network is
trained to make all of them true.

    python examples/clustering.py --picture clusters.png
"""

import argparse

import torch

import dolphin as dl

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=300)
parser.add_argument("--picture", default=None)
args = parser.parse_args()
torch.manual_seed(1)

CLUSTERS = range(4)
centres = torch.tensor([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
truth = torch.arange(80) % 4
points = centres[truth] + 0.2 * torch.randn(80, 2)
network = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.ELU(), torch.nn.Linear(16, 4))
optimizer = torch.optim.Adam(network.parameters(), lr=0.02)


def axioms() -> torch.Tensor:
    """The degree of truth of each statement, for some pairs of points."""
    one, other = torch.randint(80, (2, 256))
    scores = network(points)
    each, left, right = (
        dl.Distribution.from_logits(scores[rows], CLUSTERS) for rows in (slice(None), one, other)
    )
    distance = (points[one] - points[other]).norm(dim=1)
    together = dl.apply(left, right, lambda a, b: a == b)
    apart = dl.apply(left, right, lambda a, b: a != b)
    no_cluster_is_empty = torch.stack(
        [dl.satisfaction(each.map(lambda c, k=k: c == k), "some", p=6) for k in CLUSTERS]
    )
    return torch.stack(
        [
            dl.satisfaction(no_cluster_is_empty),
            dl.satisfaction(together, where=distance < 0.4, p=4),
            dl.satisfaction(apart, where=distance > 1.2, p=4),
        ]
    )


for step in range(args.steps):
    loss = 1.0 - dl.satisfaction(axioms())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(f"step {step:3}  satisfaction {1 - loss.item():.3f}")

found = network(points).argmax(1)
pairs = torch.combinations(torch.arange(80))
same_found, same_truth = (x[pairs[:, 0]] == x[pairs[:, 1]] for x in (found, truth))
print(f"pairs classified correctly: {(same_found == same_truth).float().mean().item():.1%}")
if args.picture:
    from matplotlib.figure import Figure

    axis = (figure := Figure(figsize=(4, 3.4), layout="constrained")).subplots()
    axis.scatter(*points.T.tolist(), c=found.tolist(), cmap="tab10")
    axis.set(title="clusters found from three statements")
    figure.savefig(args.picture)
