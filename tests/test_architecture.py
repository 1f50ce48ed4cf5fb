"""The house: imports go downwards, rooms keep their private things, the map is the tree."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import dolphin as dl

SOURCES = Path(__file__).parent.parent / "src"

# From the bottom up. A module may import from its own line and from the lines above it; the first
# pattern that fits counts. `symbolic` knows nothing of tensors; the algebras know index lists but
# not who uses them.
LAYERS = [
    [
        "dolphin.errors",
        "dolphin.inputs.arguments",
        "dolphin.settings",
        "dolphin.display",
        "dolphin.display.html",
    ],
    ["dolphin.symbolic.*"],
    ["dolphin.execution.buckets", "dolphin.execution.indices", "dolphin.execution.kept"],
    ["dolphin.execution.eager", "dolphin.execution.profiling"],
    ["dolphin.execution.recursion.recurrences", "dolphin.execution.regrouping"],
    ["dolphin.provenance", "dolphin.provenance.*"],
    ["dolphin.execution.*"],
    ["dolphin.inputs", "dolphin.inputs.*"],
    ["dolphin.reading", "dolphin.display.showing", "dolphin.display.proofs"],
    [
        "dolphin.answers.arguments",
        "dolphin.answers.choices",
        "dolphin.answers.derivatives",
        "dolphin.answers.events",
        "dolphin.answers.evidence",
        "dolphin.answers.moments",
    ],
    ["dolphin.methods", "dolphin.operators"],
    ["dolphin.distribution"],
    ["dolphin.operations"],
    ["dolphin.*"],
    ["dolphin"],
    ["dolphin_tasks", "dolphin_tasks.*"],
]
EXCEPTIONS = {("dolphin.__main__", "dolphin_tasks.cli")}  # `python -m dolphin` is the command


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(SOURCES.rglob("*.py")):
        name = ".".join(path.relative_to(SOURCES).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


MODULES = modules()


def layer(module: str) -> int:
    for number, patterns in enumerate(LAYERS):
        for pattern in patterns:
            if module == pattern or (pattern[-1] == "*" and module.startswith(pattern[:-1])):
                return number
    raise AssertionError(f"{module} has no layer")


@functools.cache
def imports(path: Path) -> list[tuple[str, str | None, bool]]:
    """(module, name, only for types) of every import, those inside functions included."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    found: list[tuple[str, str | None, bool]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, None, id(node) in for_types) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [(node.module, alias.name, id(node) in for_types) for alias in node.names]
    return found


def targets(path: Path) -> list[str]:
    """The modules of this project that a module needs to run."""
    found = []
    for module, name, for_types in imports(path):
        if module.partition(".")[0] not in ("dolphin", "dolphin_tasks") or for_types:
            continue
        whole = f"{module}.{name}"
        found.append(whole if whole in MODULES else module)
    return found


def test_imports_go_downwards():
    upwards = {
        (module, target)
        for module, path in MODULES.items()
        for target in targets(path)
        if layer(target) > layer(module)
    }
    assert upwards == EXCEPTIONS


def test_there_are_no_cycles():
    waiting = {name: {t for t in targets(path) if t != name} for name, path in MODULES.items()}
    waiting = {name: {t for t in needs if t in MODULES} for name, needs in waiting.items()}
    while ready := [name for name, needs in waiting.items() if not needs & waiting.keys()]:
        for name in ready:
            del waiting[name]
    assert sorted(waiting) == []


def test_the_symbolic_stage_knows_no_tensors():
    symbolic = [module for module in MODULES if ".symbolic" in module]
    assert len(symbolic) > 20
    with_torch = [
        module
        for module in symbolic
        if any(name.split(".")[0] == "torch" for name, _, _ in imports(MODULES[module]))
    ]
    assert with_torch == []


def package(module: str) -> str:
    is_package = MODULES.get(module, Path()).name == "__init__.py"
    return module if is_package else module.rpartition(".")[0]


def test_private_names_stay_in_their_package():
    taken = [
        (module, target, name)
        for module, path in MODULES.items()
        for target, name, _ in imports(path)
        if target.partition(".")[0] in ("dolphin", "dolphin_tasks")
        and package(target) != package(module)
        and any(
            part.startswith("_") and not part.startswith("__")
            for part in (*target.split("."), name or "")
        )
    ]
    assert taken == []


def test_tasks_use_the_public_interface_only():
    allowed = ("dolphin", "dolphin.provenance", "dolphin.lm")
    used = {
        target
        for module, path in MODULES.items()
        if module.startswith("dolphin_tasks")
        for target, _, _ in imports(path)
        if target.partition(".")[0] == "dolphin"
    }
    assert sorted(used - set(allowed)) == []


OPTIONAL = [
    "matplotlib", "rich", "tyro", "transformers", "networkx", "pysdd", "klay", "jaxtyping",
    "beartype", "pytest", "hypothesis", "accelerate", "PIL", "torch._dynamo", "dolphin_tasks",
    "dolphin.lm",
]  # fmt: skip
IMPORTS = f"""
import sys
import dolphin
print([name for name in {OPTIONAL} if name in sys.modules])
import dolphin.lm
print("transformers" in sys.modules)
import torch
read = dolphin.Distribution.certain((), batch=2, provenance="dtkp-am")
for _ in range(20):  # proofs of more facts than fit into one word
    digit = dolphin.Distribution(torch.full((2, 9), 1 / 9), range(9), provenance="dtkp-am")
    read = dolphin.sample(dolphin.apply(read, digit, lambda some, one: (*some, one)), 3)
print(read.batch_size, "sympy" in sys.modules)
"""


def test_importing_and_running_load_nothing_optional():
    command = [sys.executable, "-W", "error::DeprecationWarning:dolphin", "-c", IMPORTS]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.splitlines() == ["[]", "False", "2 False"], done.stderr


def mapped() -> dict[str, set[str]]:
    """The modules that the map in CONTRIBUTING.md names, by package."""
    text = (SOURCES.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    lines = text.partition("```\nsrc/dolphin/\n")[2].partition("src/dolphin_tasks/")[0].splitlines()
    rooms = ["dolphin"]  # the packages that a line is in, from the outermost
    found: dict[str, set[str]] = {"dolphin": set()}
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if indent > 6:  # describes the line before
            continue
        rooms = rooms[: indent // 2]
        names = re.match(r"[\w/]+(, \w+)*", line.strip())[0]
        if names.endswith("/"):
            rooms.append(f"{rooms[-1]}.{names[:-1]}")
            found[rooms[-1]] = set()
        else:
            found[rooms[-1]] |= set(names.split(", "))
    return found


def test_the_map_is_the_tree():
    """Every module of the library has its place in the map of CONTRIBUTING.md, and no other has."""
    tree: dict[str, set[str]] = {}
    for name, path in MODULES.items():
        package, _, last = name.rpartition(".")
        library = package.partition(".")[0] == "dolphin" and path.name != "__init__.py"
        if library and last != "__main__":
            tree.setdefault(package, set()).add(last)
    in_map = {f"{room}.{name}" for room, names in mapped().items() for name in names}
    in_tree = {f"{room}.{name}" for room, names in tree.items() for name in names}
    assert in_tree - in_map == set(), "these modules are not in the map of CONTRIBUTING.md"
    assert in_map - in_tree == set(), "these names in the map of CONTRIBUTING.md are no modules"


def entered(call: Callable[[], object]) -> set[str]:
    """The modules of the library whose functions a call enters."""
    found = set()

    def note(frame: types.FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(SOURCES / "dolphin"):
            found.add(".".join(path.relative_to(SOURCES / "dolphin").with_suffix("").parts))

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def smaller(x: int, y: int) -> int:
    return x if x < y else y


@pytest.mark.parametrize(
    ("operation", "provenance", "most"),
    [
        (lambda x, y: dl.apply(x, y, smaller), "damp", 11),
        (lambda x, y: dl.union(x, y), "dtkp-am", 14),
    ],
    ids=["apply", "union"],
)
def test_an_operation_is_read_in_few_files(operation, provenance, most):
    """Those that CONTRIBUTING.md walks through, where the plan is known."""
    files: set[str] = set()
    for _ in range(2):
        with dl.using(provenance):
            x, y = (dl.Distribution(torch.rand(2, 3).softmax(1), range(n, n + 3)) for n in (0, 1))
        files = entered(functools.partial(operation, x, y))
    text = (SOURCES.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    told = text.partition("### One `apply`")[2].partition("| to add")[0]
    named = {name.rpartition(".")[2] for name in files}
    assert {name for name in named if not re.search(rf"\b{name}\b", told)} == set()
    assert f"These are {most}" in told
    assert len(files) == most, sorted(files)


def test_the_guide_of_provenances_names_every_file():
    folder = SOURCES / "dolphin" / "provenance"
    table = (folder / "README.md").read_text(encoding="utf-8").partition("\n## ")[0]
    named = set(re.findall(r"`(\w+)(?:\.py|/)`", table))
    there = {path.stem for path in folder.iterdir() if (path / "__init__.py").exists()}
    there |= {path.stem for path in folder.glob("*.py")} - {"__init__"}
    assert named == there
