"""The symbolic part: how likely a clip shows the actions of a caption, in order.

Each pair of frames shows one of eight actions. An action that lasts is one action, so a clip shows
a *sequence* without repetitions, and a caption names one. The score of a clip and a caption is the
probability that the two sequences are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

import dolphin as dl

ACTIONS = ("crouch", "stand", "walk", "climb", "jump", "collect", "die", "kill")

Deeds = tuple[str, ...]
"""What happens in a clip: actions in order, no two equal ones side by side."""

NEARLY_ONE = 1.0 - 1e-6


def go_on(done: Deeds, action: str) -> Deeds:
    """What has been done after one more action.

    >>> go_on(("walk",), "walk"), go_on(("walk",), "jump")
    (('walk',), ('walk', 'jump'))
    """
    return done if done and done[-1] == action else (*done, action)


def collapse(actions: Iterable[str]) -> Deeds:
    """Actions pair by pair, or phrase by phrase, as a sequence without repetitions.

    >>> collapse(["walk", "walk", "jump", "walk"])
    ('walk', 'jump', 'walk')
    """
    done: Deeds = ()
    for action in actions:
        done = go_on(done, action)
    return done


def watch(pairs: Sequence[dl.Distribution], captions: Iterable[Deeds]) -> dl.Distribution:
    """The sequences that each clip may show, as far as they are prefixes of captions.

    Nothing else can still become equal to a caption, so pruning changes no score. It keeps the
    number of sequences below the number of words in the captions, however many pairs there are.
    What differs from batch to batch, the set of prefixes, is a symbol: the functions stay the same,
    and no closure has to be inspected to know that.
    """
    beginnings = frozenset(c[:length] for c in captions for length in range(len(c) + 1))
    batch = pairs[0].batch_size
    known = dl.Distribution.certain(beginnings, batch=batch)
    done = dl.Distribution.certain((), batch=batch)
    for pair in pairs:
        done = dl.apply_if(
            done,
            pair,
            known,
            lambda done, action, known: go_on(done, action),
            lambda done, action, known: go_on(done, action) in known,
        )
    return done


def watch_one(pairs: Tensor, captions: Iterable[Deeds]) -> dl.Distribution:
    """`watch` for one clip, from logits (pairs, actions): clips may have different lengths.

    Batched by `dolphin.batched(watch_one)`, each clip with its own captions.
    """
    beginnings = frozenset(c[:length] for c in captions for length in range(len(c) + 1))
    known = dl.Distribution.certain(beginnings)
    done = dl.Distribution.certain(())
    for pair in pairs:
        done = dl.apply_if(
            done,
            dl.Distribution.from_logits(pair, ACTIONS),
            known,
            lambda done, action, known: go_on(done, action),
            lambda done, action, known: go_on(done, action) in known,
        )
    return done


def read_actions(logits: Tensor) -> list[dl.Distribution]:
    """One distribution per frame pair, from logits (clips, pairs, actions)."""
    return dl.Distribution.each_from_logits(logits, ACTIONS)


def scores(logits: Tensor, captions: Sequence[Deeds]) -> Tensor:
    """(clips, captions), the log-probability that a clip shows exactly what a caption says."""
    return dl.get_logits(watch(read_actions(logits), captions), symbols=captions)


def group_scores(logits: Tensor, captions: Sequence[Sequence[Deeds]]) -> Tensor:
    """(groups, clips, captions), each clip against the captions of its own group.

    Captions of all groups are watched for at once: the plan is then the same for all rows, which
    costs less than a plan for each group.
    """
    groups, clips = logits.shape[:2]
    every = [deeds for group in captions for deeds in group]
    result = scores(logits.flatten(0, 1), every).view(groups, clips, groups, -1)
    return result.diagonal(dim1=0, dim2=2).permute(2, 0, 1)


def matching_losses(scores: Tensor) -> Tensor:
    """(groups,) binary cross-entropy of each group's square of scores against the identity.

    Clip i belongs to caption i. In log space, because a sequence of 16 actions starts with a
    probability of about 1e-12. A wrong caption that is all but certain is left to the likelihood of
    the right one, which is then very small and has a steep gradient.
    """
    own = torch.eye(scores.shape[1], dtype=torch.bool, device=scores.device)
    refused = torch.log1p(-scores.exp().clamp(max=NEARLY_ONE))
    return -torch.where(own, scores, refused).mean((1, 2))


def alignment(logits: Tensor, caption: Deeds) -> list[tuple[str, float]] | None:
    """The likeliest way in which one clip (pairs, actions) shows the caption, pair by pair.

    It is the likeliest proof of the caption. None if there is none: too few pairs.
    """
    with dl.using(dl.TopKProofs(k=1)):
        numbered = [
            dl.Distribution.from_logits(pair[None], [(place, action) for action in ACTIONS])
            for place, pair in enumerate(logits)
        ]
    shown = watch([dl.apply(pair, lambda fact: fact[1]) for pair in numbered], [caption])
    if caption not in shown.symbols:
        return None
    facts = sorted(shown.explain(caption)[0].facts)
    return [(fact.symbol[1], fact.probability) for fact in facts]
