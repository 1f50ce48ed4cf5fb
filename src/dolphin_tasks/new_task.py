"""`dolphin new-task NAME`: a custom task that works from the start."""

from __future__ import annotations

import importlib.util
import keyword
import sys
from importlib import resources
from pathlib import Path

from dolphin_tasks.fetch import atomic_write
from dolphin_tasks.training.config import OptionError

USAGE = """\
usage: dolphin new-task NAME [--out FOLDER]

Write NAME.py, a task that can be trained at once, and test_NAME.py, with tests
that it should pass. Then change it step by step: data, network, program.
"""


def new_task(arguments: list[str]) -> int:
    """`dolphin new-task NAME`."""
    given = list(arguments)
    if given and given[0] in ("-h", "--help"):
        sys.stdout.write(USAGE)
        return 0
    folder = Path()
    if "--out" in given:
        at = given.index("--out")
        if at + 1 == len(given):
            raise OptionError("new-task: --out needs a folder.")
        folder = Path(given[at + 1])
        del given[at : at + 2]
    if len(given) != 1:
        raise OptionError("new-task needs one name: dolphin new-task lamps")
    for path in write_task(given[0], folder):
        sys.stdout.write(f"written: {path}\n")
    name, cls = given[0], class_name(given[0])
    sys.stdout.write(f"train it with: dolphin train --task {name}:{cls} --epochs 5\n")
    sys.stdout.write(f"check it with: python -m pytest test_{name}.py  (pip install pytest)\n")
    return 0


def class_name(name: str) -> str:
    """The class of a task.

    >>> class_name("noisy_lamps")
    'NoisyLamps'
    """
    return "".join(part.capitalize() for part in name.split("_"))


def write_task(name: str, folder: Path) -> list[Path]:
    """Write both files into a folder; nothing is ever overwritten."""
    if not name.isidentifier() or keyword.iskeyword(name) or name != name.lower():
        raise OptionError(
            f"new-task: {name!r} can't be the name of a module: use lower-case letters, digits "
            f"and _{_instead(name)}."
        )
    texts = {f"{name}.py": _text("lamps.py"), f"test_{name}.py": _text("lamps_checks.py")}
    paths = [folder / file for file in texts]
    taken = [str(path) for path in paths if path.exists()]
    if taken:
        raise OptionError(f"new-task: {taken[0]} already exists.")
    if name in sys.stdlib_module_names or importlib.util.find_spec(name) is not None:
        raise OptionError(
            f"new-task: {name} is a module that is installed, which {paths[0]} would hide; choose "
            "another name."
        )
    for path, text in zip(paths, texts.values(), strict=True):
        renamed = text.replace("dolphin_tasks.skeleton.lamps", name)
        renamed = renamed.replace("lamps:Lamps", f"{name}:{class_name(name)}")
        for before, after in (("class ", "("), ("import ", ","), ("= ", "(")):
            renamed = renamed.replace(f"{before}Lamps{after}", f"{before}{class_name(name)}{after}")
        with atomic_write(path) as stream:
            stream.write(renamed.encode())
    return paths


def _instead(name: str) -> str:
    """A name like this one that is allowed.

    >>> _instead("Blood-type"), _instead("2")
    (', such as blood_type', '')
    """
    near = name.strip().lower().replace("-", "_").replace(" ", "_")
    return f", such as {near}" if near.isidentifier() and not keyword.iskeyword(near) else ""


def _text(name: str) -> str:
    return (resources.files("dolphin_tasks.skeleton") / name).read_text(encoding="utf-8")
