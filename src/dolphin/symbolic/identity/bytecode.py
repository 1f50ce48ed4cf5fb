"""What a function reads from outside, found in its bytecode.

A `Use` is a name and the attributes that are read off it: `self.rules.depth`. Such chains stand
next to each other in bytecode, so no control flow has to be followed: a name that is not directly
followed by an attribute is used as a whole, whatever happens to it afterwards. What this module
doesn't recognise (a new opcode) therefore counts as a use of the whole object, which is the safe
side. Nested functions, comprehensions and class bodies are part of the enclosing code.
"""

from __future__ import annotations

import dis
import functools
import types
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

from dolphin.symbolic.bounded import registered

Root = Literal["global", "cell", "first", "module"]


class Use(NamedTuple):
    """One chain in the code: where it starts, the attributes read, and how it ends."""

    root: Root  # a global, a closed-over variable, the first parameter, or an import
    name: str
    chain: tuple[str, ...]
    stored: bool = False  # an attribute of it is assigned or deleted
    arguments: int | None = None  # of the call that follows: 0 (or a single None), 1, or unknown

    def text(self, length: int | None = None) -> str:
        """The chain as source code, e.g. `self.rules`."""
        return ".".join((self.name, *self.chain[:length]))


class Uses(NamedTuple):
    """Everything that a code object, with all code inside it, reads from outside."""

    chains: tuple[Use, ...]
    assigned: tuple[str, ...]  # globals and closed-over variables that it assigns
    rebinds_first: bool  # its first parameter gets another value
    attributes: frozenset[str]  # names of attributes read off anything
    loose: frozenset[str]  # those read off results of calls and local variables, not off chains
    relative_import: bool
    compares: bool  # by `is`, other than with None, True, False and ...
    passes_super: bool  # `super()` is used as a whole
    implicit: tuple[str, ...]  # built-in functions that statements call: `import`, `class`


_NOISE = frozenset(
    {"CACHE", "EXTENDED_ARG", "NOP", "PUSH_NULL", "PRECALL", "NOT_TAKEN", "RESUME", "MAKE_CELL"}
)
_GLOBAL = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_CELL = frozenset({"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"})
_IMPLICIT = {"import": "__import__", "class": "__build_class__"}
_ATTRIBUTE = frozenset({"LOAD_ATTR", "LOAD_METHOD"})

Scope = dict[str, tuple[Root, str, tuple[str, ...]]]  # what names of the code stand for


@registered("code of user functions")
@functools.lru_cache(maxsize=4096)
def uses_of(code: types.CodeType) -> Uses:
    """What `code` reads.

    >>> def outer(limit):
    ...     return lambda x: x + limit.low
    >>> [use.text() for use in uses_of(outer(1).__code__).chains]
    ['x', 'limit.low']
    """
    scope: Scope = {name: ("cell", name, ()) for name in code.co_freevars}
    if code.co_argcount:
        scope[code.co_varnames[0]] = ("first", code.co_varnames[0], ())
    reader = _CodeReader()
    reader.read(code, scope)
    return Uses(
        tuple(dict.fromkeys(reader.chains)),
        tuple(dict.fromkeys(reader.assigned)),
        reader.rebinds_first,
        frozenset(reader.attributes),
        frozenset(reader.loose),
        reader.relative_import,
        reader.compares,
        reader.passes_super,
        tuple(sorted(reader.implicit)),
    )


class _CodeReader:
    def __init__(self) -> None:
        self.chains: list[Use] = []
        self.assigned: list[str] = []
        self.attributes: set[str] = set()
        self.loose: set[str] = set()
        self._chained = 0  # the steps before this one are part of chains already read
        self.rebinds_first = False
        self.relative_import = False
        self.compares = False
        self.passes_super = False
        self.implicit: set[str] = set()

    def read(self, code: types.CodeType, scope: Scope) -> None:
        steps = list(_steps(code))
        stored = Counter(step.name for step in steps if step.kind == "store local")
        scope = scope | self._imports(steps, stored)
        self._chained = 0
        for place, step in enumerate(steps):
            if step.kind == "attribute":
                self.attributes.add(step.name)
                self.loose |= {step.name} if place >= self._chained else set()
            elif step.kind == "global":
                self._global(steps, place, step.name)
            elif step.kind == "is":
                self.compares = True
            elif step.kind in _IMPLICIT:
                self.implicit.add(_IMPLICIT[step.kind])
            elif step.kind == "local" and step.name in scope:
                self._local(steps, place, scope[step.name])
            elif step.kind == "store global":
                self.assigned.append(step.name)
            elif step.kind == "store local" and step.name in scope:
                root = scope[step.name][0]
                self.rebinds_first |= root == "first"
                self.assigned += [step.name] if root == "cell" else []
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                inner = {name: scope[name] for name in constant.co_freevars if name in scope}
                self.read(constant, inner)

    def _global(self, steps: Sequence[_Step], place: int, name: str) -> None:
        self._use(steps, place, ("global", name, ()))
        after = [later.kind for later in steps[place + 1 : place + 3]]
        called = name == "super" and after[:1] == ["bare call"]
        self.passes_super |= called and after[1:] != ["attribute"]

    def _local(
        self, steps: Sequence[_Step], place: int, known: tuple[Root, str, tuple[str, ...]]
    ) -> None:
        after = [step.kind for step in steps[place + 1 : place + 3]]
        by_super = after[:1] == ["super"] or (after[1:] == ["super"] and known[1] == "__class__")
        if not by_super:  # super() takes `__class__` and `self`, but reads neither
            self._use(steps, place, known)

    def _use(
        self, steps: Sequence[_Step], place: int, known: tuple[Root, str, tuple[str, ...]]
    ) -> None:
        root, name, chain = known
        place += 1
        names = list(chain)
        while place < len(steps) and steps[place].kind == "attribute":
            names.append(steps[place].name)
            place += 1
        self._chained = place
        after = [step.kind for step in steps[place : place + 2]]
        stored = after[:1] == ["store attribute"]
        self.chains.append(Use(root, name, tuple(names), stored, _arguments(after)))

    def _imports(self, steps: Sequence[_Step], stored: Counter[str]) -> Scope:
        """Names that an import inside the function gives to modules and their contents."""
        scope: Scope = {}
        for place, step in enumerate(steps):
            if step.kind != "import":
                continue
            names = step.names
            if step.level:
                self.relative_import = True
                continue
            module = step.name if names else step.name.partition(".")[0]
            chain: tuple[str, ...] = ()
            for later in steps[place + 1 :]:
                if later.kind == "import from":
                    # `import a.b as c` goes from a to b; `from a import b, c` starts at a again.
                    chain = (later.name,) if names else (*chain, later.name)
                elif later.kind == "store local":
                    if stored[later.name] == 1:
                        scope[later.name] = ("module", module, chain)
                    else:
                        self.chains.append(Use("module", module, chain))
                    if not names:
                        break
                elif later.kind != "shuffle":
                    break
        return scope


def _arguments(after: Sequence[str]) -> int | None:
    """How many arguments the steps after a value call it with, where that is plain to see."""
    if after[:1] == ["bare call"] or after == ["none", "call of one"]:
        return 0
    return 1 if after[1:] == ["call of one"] and after[0] in ("other", "local", "global") else None


class _Step(NamedTuple):
    """An instruction, in the same form for all versions of Python."""

    kind: str
    name: str = ""
    level: int = 0
    names: bool = False


def _steps(code: types.CodeType) -> Iterator[_Step]:
    before: list[Any] = [None, None]
    singleton = False  # whether the last value is None, True, False or ...
    for instruction in dis.get_instructions(code):
        if instruction.opname in _NOISE:
            continue
        if instruction.opname != "IS_OP" or not singleton:
            yield from _step(instruction, before)
        before = [before[-1], instruction.argval]
        singleton = instruction.opname == "LOAD_CONST" and any(
            instruction.argval is each for each in (None, True, False, ...)
        )


def _step(  # noqa: C901 (a table of opcodes)
    instruction: dis.Instruction, before: Sequence[Any]
) -> Iterator[_Step]:
    name, value = instruction.opname, instruction.argval
    if name in _GLOBAL:
        yield _Step("global", value)
    elif name in _CELL or name.startswith("LOAD_FAST"):
        for one in value if isinstance(value, tuple) else (value,):
            yield _Step("local", one)
    elif name in _ATTRIBUTE:
        yield _Step("attribute", value)
    elif name in ("STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST"):
        yield _Step("store local", value[0])
        yield _Step("local" if name.endswith("LOAD_FAST") else "store local", value[1])
    elif name in ("STORE_FAST", "STORE_DEREF", "DELETE_FAST", "DELETE_DEREF"):
        yield _Step("store local", value)
    elif name in ("STORE_GLOBAL", "DELETE_GLOBAL"):
        yield _Step("store global", value)
    elif name in ("STORE_ATTR", "DELETE_ATTR"):
        yield _Step("store attribute", value)
    elif name == "IMPORT_NAME":
        yield _Step("import", value, level=before[0] or 0, names=bool(before[1]))
    elif name == "IMPORT_FROM":
        yield _Step("import from", value)
    elif name == "LOAD_SUPER_ATTR":
        yield _Step("super", value if isinstance(value, str) else "")
    elif name == "CALL" and instruction.arg == 0:
        yield _Step("bare call")
    elif name == "CALL" and instruction.arg == 1:
        yield _Step("call of one")
    elif name == "LOAD_CONST" and value is None:
        yield _Step("none")
    elif name == "IS_OP":
        yield _Step("is")
    elif name == "LOAD_BUILD_CLASS":
        yield _Step("class")
    elif name in ("SWAP", "POP_TOP"):
        yield _Step("shuffle")
    else:
        yield _Step("other")
