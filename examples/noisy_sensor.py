"""Learn how noisy a sensor is from decisions, with a program that branches.

A thermometer and a smoke detector guard a room. The smoke detector is only consulted if the room is
hot, and sometimes reports the opposite of the truth. How often it does is learnt from nothing but
the frequency of alarms in rooms with and without a fire.

    python examples/noisy_sensor.py --picture sensor.png
"""

import argparse

import torch
from torch import Tensor

import dolphin as dl

TRUE = {"misses": 0.2, "false": 0.05}


@dl.program
def alarm(
    hot: dl.Distribution[bool], smoke: dl.Distribution[bool], misses: Tensor, false: Tensor
) -> bool:
    """Whether the alarm rings: plain control flow over symbols."""
    if not dl.choose(hot):
        return False
    if dl.choose(smoke):
        return dl.choose(dl.weighted({True: 1 - misses, False: misses}))
    return dl.choose(dl.weighted({True: false, False: 1 - false}))


def main() -> None:
    """Learn both rates."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--picture")
    args = parser.parse_args()
    generator = torch.Generator().manual_seed(0)
    heat, smoke = torch.rand(2, 2000, generator=generator)
    rate = smoke * (1 - TRUE["misses"]) + (1 - smoke) * TRUE["false"]
    rang = torch.rand(2000, generator=generator) < heat * rate

    def two_way(p: torch.Tensor) -> dl.Distribution[bool]:
        return dl.Distribution(torch.stack([p, 1 - p], 1), [True, False])

    scores = torch.zeros(2, requires_grad=True)
    optimizer = torch.optim.Adam([scores], lr=0.1)
    history = []
    for _ in range(args.steps):
        misses, false = scores.sigmoid()
        result = alarm(two_way(heat), two_way(smoke), misses, false)
        loss = dl.nll_loss(result, rang.tolist())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(scores.sigmoid().tolist())
    for name, found in zip(TRUE, scores.sigmoid().tolist(), strict=True):
        print(f"{name:6} learnt {found:.3f}, true {TRUE[name]:.3f}")
    if args.picture:
        from matplotlib.figure import Figure

        axis = (figure := Figure(figsize=(5, 2.8), layout="constrained")).subplots()
        for place, (name, rate) in enumerate(TRUE.items()):
            axis.plot([rates[place] for rates in history], label=name, color=f"C{place}")
            axis.axhline(rate, linestyle=":", color=f"C{place}")
        axis.set(xlabel="step", ylabel="rate (dotted: true)")
        axis.legend(title="errors of the sensor")
        figure.savefig(args.picture)


if __name__ == "__main__":
    main()
