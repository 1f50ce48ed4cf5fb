"""Python blocks of Markdown pages, and what they should print."""

import re

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def snippets(page: str) -> list[tuple[int, str, str | None]]:
    """(line, code, expected output) of each python block; a text block right after it is output."""
    blocks = list(BLOCK.finditer(page))
    found = []
    for block, following in zip(blocks, [*blocks[1:], None], strict=False):
        if block[1] != "python":
            continue
        expected = None
        if (
            following
            and following[1] == "text"
            and not page[block.end() : following.start()].strip()
        ):
            expected = following[2]
        found.append((page.count("\n", 0, block.start(2)), block[2], expected))
    return found
