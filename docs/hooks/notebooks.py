"""The notebooks of the site: executed at every build, and shown with what they print.

A cell is plain Python, so no kernel is needed: cells run one after the other in one namespace, and
the value of a last expression is shown as a notebook would show it. `tests/test_notebooks.py` runs
the same code.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
ORDER = ("first_steps", "choosing_a_provenance", "debugging_a_program")


@dataclass(frozen=True)
class Cell:
    """A cell that was run: what it is, what it printed, and what its last expression gave."""

    kind: str
    source: str
    printed: str = ""
    value: Any = None


def run(path: Path) -> Iterator[Cell]:
    """The cells of a notebook, executed in order."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
        source = "".join(cell["source"])
        if cell["cell_type"] != "code":
            yield Cell("markdown", source)
            continue
        body = ast.parse(source, f"{path.name}[{number}]").body
        last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(_compiled(ast.Module(body, []), path, number), namespace)  # noqa: S102
            value = None
            if isinstance(last, ast.Expr):
                code = _compiled(ast.Expression(last.value), path, number, "eval")
                value = eval(code, namespace)  # noqa: S307
        yield Cell("code", source, printed.getvalue(), value)


def _compiled(tree: Any, path: Path, cell: int, mode: str = "exec") -> Any:
    return compile(tree, f"{path.name}[{cell}]", mode)


def page(path: Path, cells: Iterable[Cell]) -> str:
    """A notebook as a page, with what its cells showed."""
    parts = []
    for cell in cells:
        if cell.kind == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        if cell.printed:
            parts.append(f"```text\n{cell.printed.rstrip()}\n```")
        if hasattr(cell.value, "_repr_html_"):
            shown = cell.value._repr_html_().replace("\n", " ")
            parts.append(f'<div class="notebook-output">{shown}</div>')
        elif cell.value is not None:
            parts.append(f"```text\n{cell.value!r}\n```")
    title, _, rest = "\n\n".join(parts).partition("\n")
    link = f'<a href="../{path.name}" download>Download this notebook</a> to open and run it.'
    return f"{title}\n\n{link}\n{rest}\n"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each notebook, and the notebook itself."""
    for name in ORDER:
        path = NOTEBOOKS / f"{name}.ipynb"
        files.append(File.generated(config, f"notebooks/{name}.md", content=page(path, run(path))))
        text = path.read_text(encoding="utf-8")
        files.append(File.generated(config, f"notebooks/{path.name}", content=text))
    return files
