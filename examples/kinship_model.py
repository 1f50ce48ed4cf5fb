"""A language model reads family stories passage by passage, and a program composes them.

The model predicts how two people of one passage are related; a kinship table says what a relative
of a relative is. Uses the stories of CLUTRR if they are available, otherwise generated ones.

    python examples/kinship_model.py --stories 24 --picture kinship.png
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch

import dolphin as dl
from dolphin_tasks.clutrr import data, kinship, passages
from dolphin_tasks.pictures import draw_bars
from dolphin_tasks.words.model import any_language_model

SHOWN = "Ben met his father Carl. Carl is Ben's father.\nMia met her aunt Zoe. Zoe is Mia's aunt.\n"
"""Worked examples of the answer format, which a small model needs."""


def chain(story: data.Story) -> list[str]:
    """A question about each link between the two people of the query."""
    links, reached = dict[int, list[str]]({data.ASKER: []}), [data.ASKER]
    for person in reached:  # grows while it is read: breadth first
        for mention in story.mentions:
            if mention.pair[0] == person and mention.pair[1] not in links:
                a, b = (story.people[number] for number in mention.pair)
                text = story.passages[mention.passage].told()
                links[mention.pair[1]] = [*links[person], f"{SHOWN}{text} {b} is {a}'s"]
                reached.append(mention.pair[1])
    return links.get(data.ASKED, [])


@dl.batched
def relation(links: Sequence[dl.Distribution[str]]) -> dl.Distribution[str]:
    """The relation that the chain of ONE story composes to."""
    result = links[0]
    for link in links[1:]:
        result = dl.apply(result, link, lambda a, b: kinship.COMPOSITIONS.get((a, b), "unknown"))
    return result


def main() -> None:
    """Read every passage, compose, and count right answers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tiny", action="store_true", help="random weights")
    parser.add_argument("--stories", type=int, default=24)
    parser.add_argument("--picture", default=None)
    args = parser.parse_args()
    lm, test = any_language_model(args.tiny), data.load(3).test
    some = test.batch(torch.linspace(0, len(test) - 1, args.stories).long()).stories
    stories = [story for story in some if chain(story)]  # the two people are connected

    def ask(questions: list[str]) -> list[dl.Distribution[str]]:
        read = lm.options(
            questions, [f" {choice}." for choice in kinship.RELATIONS], normalise=True
        )
        return read.map(lambda text: text.strip(" .")).rows()

    with torch.no_grad():
        links = [ask(chain(story)) for story in stories]
        composed = relation(links)
        told = [(passages.NAME.sub(r"\1", s.told.text), *s.told.query) for s in stories]
        alone = [ask([f"{SHOWN}{text} {b} is {a}'s"])[0].argmax()[0] for text, a, b in told]
    for name, found in (("by itself", alone), ("composed by the program", composed.argmax())):
        right = sum(a == story.told.answer for a, story in zip(found, stories, strict=True))
        print(f"{name}: {right} of {len(stories)} right")
    if args.picture:
        row = max(range(len(links)), key=lambda row: len(links[row]) == 2)  # the first with two
        panels = {f"link {n + 1}": link.top(4)[0] for n, link in enumerate(links[row])}
        draw_bars({**panels, "composed": composed.top(4)[row]}, Path(args.picture))


if __name__ == "__main__":
    main()
