"""Learn object classes from whether a person is inside a car: one yes or no per image.

A detector proposes boxes, a different number per image, each with a feature vector. The label says
whether some person is inside some car; no box is labelled. The program is written for ONE image.

    python examples/detection.py --picture detection.png
"""

import argparse
import itertools
import operator
from typing import Any

import torch
from torch import Tensor, nn

import dolphin as dl

CLASSES = ("person", "car", "tree")
LOOKS = torch.randn(3, 12, generator=torch.Generator().manual_seed(0))
classify = dl.network(nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 3)), CLASSES)


def inside(inner: Tensor, outer: Tensor) -> bool:
    """Whether a box (x0, y0, x1, y1) lies within another one."""
    return bool((inner[:2] >= outer[:2]).all() and (inner[2:] <= outer[2:]).all())


@dl.batched
def person_in_car(boxes: Tensor, features: Tensor) -> dl.Distribution[bool]:
    """ONE image: some person is inside some car. Boxes are known, classes are not."""
    found = list(zip(boxes, map(classify, features), strict=True))
    answer = dl.Distribution.certain(False)
    for (box, what), (other, around) in itertools.permutations(found, 2):
        if inside(box, other):
            answer |= dl.apply(what, around, lambda x, y: (x, y) == ("person", "car"))
    return answer


def images(count: int, seed: int) -> tuple[Any, ...]:
    """Boxes, features, true classes and labels of some images of 2 to 5 boxes."""
    generator, made = torch.Generator().manual_seed(seed), []
    for size in torch.randint(2, 6, (count,), generator=generator).tolist():
        corner, extent = torch.rand(2, size, 2, generator=generator)
        extent[::2] *= 0.2  # every second box is small
        boxes = torch.cat([0.5 * corner, 0.5 * corner + 0.1 + 0.5 * extent], 1)
        kinds = torch.randint(0, 3, (size,), generator=generator)
        people, cars = boxes[kinds == 0], boxes[kinds == 1]
        label = any(inside(person, car) for person in people for car in cars)
        features = LOOKS[kinds] + 0.3 * torch.randn(size, 12, generator=generator)
        made.append((boxes, features, kinds, label))
    return tuple(zip(*made, strict=True))


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--picture")
args = parser.parse_args()
optimizer = torch.optim.Adam(classify.parameters(), lr=3e-3)
for step in range(args.steps):
    boxes, features, _, labels = images(32, seed=step)
    optimizer.zero_grad()
    dl.nll_loss(person_in_car(boxes, features), labels).backward()
    optimizer.step()
boxes, features, kinds, labels = images(200, seed=10**6)
answers = person_in_car(boxes, features).argmax()
print(f"{sum(map(operator.eq, answers, labels)) / 2:.1f}% of images answered correctly")
read = torch.cat([classify.net(vectors).argmax(1) for vectors in features])
print(f"{(read == torch.cat(kinds)).float().mean():.1%} of boxes classified correctly")
if args.picture:
    from matplotlib.figure import Figure

    axes = (figure := Figure(figsize=(9, 2.6), layout="constrained")).subplots(1, 4)
    for row, axis in zip([22, 133, 81, 7], axes, strict=True):  # with few boxes that overlap
        for (x, y, u, v), vector in zip(boxes[row].tolist(), features[row], strict=True):
            (line,) = axis.plot([x, u, u, x, x], [y, y, v, v, y])
            axis.text(x, v, classify(vector).argmax()[0], color=line.get_color(), va="bottom")
        axis.set(title=f"person in a car: {answers[row]}", xticks=[], yticks=[], ylim=(0, 1.2))
    figure.savefig(args.picture)
