"""The gallery of the site, made from `examples/` at every build: no copy that could rot.

`examples/README.md` is the one list. Each example becomes a page of its picture, its docstring and
its source; the picture is what the example drew with `--picture`, and `alt.toml` beside
the pictures says what they show.
"""

from __future__ import annotations

import ast
import html
import re
import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

EXAMPLES = Path(__file__).parents[2] / "examples"
PICTURES = Path(__file__).parents[1] / "images" / "gallery"
_COMMANDS = re.compile(r"(?:^    .+\n?)+", re.MULTILINE)
_ENTRY = re.compile(r"- \[(?P<title>[^]]+)\]\((?P<name>\w+)\.py\): (?P<line>.+)")


@dataclass(frozen=True)
class Example:
    """One line of the list."""

    group: str
    title: str
    name: str
    line: str

    @property
    def source(self) -> str:
        """The file itself."""
        return (EXAMPLES / f"{self.name}.py").read_text(encoding="utf-8")

    @property
    def seen(self) -> str:
        """What the picture shows."""
        return tomllib.loads((PICTURES / "alt.toml").read_text(encoding="utf-8"))[self.name]

    @property
    def about(self) -> str:
        """The docstring of the file, without its first line, commands as blocks of code."""
        docstring = ast.get_docstring(ast.parse(self.source)) or ""
        return _COMMANDS.sub(fenced, docstring.partition("\n")[2].strip())


def fenced(commands: re.Match[str]) -> str:
    """Indented commands as a block with colours and a copy button."""
    return f"```sh\n{textwrap.dedent(commands[0]).strip()}\n```\n"


def listed() -> Iterator[Example]:
    """The examples in the order of the list."""
    group = ""
    for line in (EXAMPLES / "README.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            group = line.removeprefix("## ")
        elif found := _ENTRY.fullmatch(line):
            yield Example(group, found["title"], found["name"], found["line"])


def page(example: Example) -> str:
    """The page of an example."""
    picture = f"![{example.seen}](../images/gallery/{example.name}.png)"
    return (
        f"# {example.title}\n\n{example.line}\n\n{picture}\n\n{example.about}\n\n"
        f'```python title="examples/{example.name}.py"\n{example.source}```\n'
    )


def overview(examples: list[Example]) -> str:
    """All examples as cards with pictures, group by group."""
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8").partition("\n## ")[0]
    group = ""
    for example in examples:
        if example.group != group:
            text += f"{'</div>' if group else ''}\n\n## {example.group}\n\n"
            text += '<div class="gallery">\n'
            group = example.group
        text += (
            f'<a href="{example.name}/"><img src="../images/gallery/{example.name}.png" '
            f'alt="{html.escape(example.seen)}" loading="lazy"><b>{html.escape(example.title)}</b>'
            f"<span>{html.escape(example.line)}</span></a>\n"
        )
    return text + "</div>\n"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of the gallery into the navigation, where it says `gallery`."""
    examples = list(listed())
    config.watch.append(str(EXAMPLES))
    entry: dict[str, Any] = {"Gallery": ["gallery/index.md"]}
    for example in examples:
        entry["Gallery"].append({example.title: f"gallery/{example.name}.md"})
    assert config.nav is not None
    config.nav = [entry if item == "gallery" else item for item in config.nav]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    examples = list(listed())
    texts = {"gallery/index.md": overview(examples)}
    texts |= {f"gallery/{example.name}.md": page(example) for example in examples}
    for name, text in texts.items():
        files.append(File.generated(config, name, content=text))
    return files
