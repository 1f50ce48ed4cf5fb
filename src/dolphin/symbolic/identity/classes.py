"""Keys for classes: a library's by identity, a user's by all that their methods read."""

from __future__ import annotations

import abc
import dataclasses
import enum
import functools
import types
from collections.abc import Hashable
from typing import Any

from dolphin.symbolic.identity.bytecode import Use, uses_of
from dolphin.symbolic.identity.libraries import (
    is_library_function,
    of_library,
    reads_settings,
    stateless,
)
from dolphin.symbolic.identity.marks import Code, Same
from dolphin.symbolic.identity.values import CONVERTERS, TUPLE_FIELD, WRAPPERS, Values

# Parts of a class that don't decide what its methods return.
ABOUT_CLASSES = frozenset(
    [
        "__dict__",
        "__weakref__",
        "__annotations__",
        "__annotate__",
        "__annotate_func__",
        "__annotations_cache__",
        "__dataclass_fields__",
        "__dataclass_params__",
        "__slots__",
        "__orig_bases__",
        "__parameters__",
        "__abstractmethods__",
        "_abc_impl",
        "__firstlineno__",
        "__static_attributes__",
        "__type_params__",
        "__classdictcell__",
    ]
)
_MADE_BY_DATACLASS = frozenset(
    [
        "__init__",
        "__repr__",
        "__eq__",
        "__hash__",
        "__lt__",
        "__le__",
        "__gt__",
        "__ge__",
        "__setattr__",
        "__delattr__",
        "__replace__",
        "__getstate__",
        "__setstate__",
    ]
)
_TEXTS = frozenset({"__doc__", "__module__"})
_OF_MEMBERS = frozenset({"_value_", "_name_", "__objclass__", "_sort_order_"})


class Classes(Values):
    """One walk over values, classes among them."""

    def _class(self, cls: type, use: Use) -> Hashable:
        """A class that is used as a whole: its objects can do whatever its methods do."""
        if cls.__hash__ is object.__hash__:
            self._by_address.add((use.chain or (use.name,))[-1])
            self._made |= {cls.__name__} if _passes_itself_on(cls) else set()
        if _shows_address(cls):
            self._shown.add((use.chain or (use.name,))[-1])
        self._shows |= cls is str
        if of_library(cls.__module__):
            self._collects |= cls in (set, frozenset)
            self._samplers |= cls.__module__.startswith(("torch.distributions", "statistics"))
            self._encodes |= cls in CONVERTERS and use.text() != cls.__name__  # under another name
            if not stateless(cls.__module__) or reads_settings(cls):
                name = f"{cls.__module__}.{cls.__name__}"
                return self._unknown(f"uses `{name}`, which can read what changes")
            return (Same(cls), registrations(cls), *map(self._around, cls.__mro__))
        mark = (id(cls), 0)
        if mark in self._seen:
            return Same(cls)
        self._seen.add(mark)
        parts: list[Hashable] = [Same(cls), registrations(cls)]
        meta: Any = type(cls)
        for base in (*cls.__mro__, *meta.__mro__):
            if of_library(base.__module__):
                around = self._around(base)
                if around is not None:
                    parts.append((Same(base), around))
            else:
                parts += [base.__name__, base.__qualname__, *self._body(base, use)]
        return tuple(parts)

    def _body(self, cls: Any, use: Use) -> list[Hashable]:
        is_enum = issubclass(cls, enum.Enum)
        made = _MADE_BY_DATACLASS if "__dataclass_params__" in vars(cls) else frozenset()
        parts: list[Hashable] = []
        written: list[types.FunctionType] = []  # by `dataclass`
        for name, member in list(vars(cls).items()):
            if name in _TEXTS and isinstance(member, str):
                parts.append(member)
                continue
            generated = _generated(member) if name in made else None
            if generated is not None:
                written.append(generated)
                continue
            if name in ABOUT_CLASSES:
                continue
            if is_enum and _made_by_enum(name, member, cls):
                continue
            if isinstance(member, (types.MemberDescriptorType, types.GetSetDescriptorType)):
                continue
            if isinstance(member, TUPLE_FIELD) or member is None:
                continue
            parts.append((name, self._member(member, use)))
        if written:
            parts.append(Code(written))
        if is_enum:
            for name, member in vars(cls)["_member_map_"].items():
                own = {k: v for k, v in vars(member).items() if k not in _OF_MEMBERS}
                about = (member._name_, member._value_, own)  # the name decides its hash, too
                parts.append((name, *(self.value(each, use) for each in about)))
            parts.append(tuple(vars(cls)["_member_names_"]))  # in the order of iteration
            by_value = vars(cls).get("_value2member_map_", {})
            parts += [(self.value(value, use), Same(member)) for value, member in by_value.items()]
        fields = dataclasses.fields(cls) if made else ()
        parts += [
            (field.name, self.value(default, use))
            for field in fields
            for default in (field.default, field.default_factory)
            if default is not dataclasses.MISSING
        ]
        return parts

    def _member(self, member: Any, use: Use) -> Hashable:
        if isinstance(member, (staticmethod, classmethod)):
            member = member.__func__
        elif type(member) is functools.cached_property:
            member = member.func
        elif type(member) is property:
            return (self.value(member.fget, use), self.value(member.fset, use))
        return self.value(member, use)


def _shows_address(cls: type) -> bool:
    """Whether the text of an object contains its address, as by default; libraries show none."""
    default = cls.__repr__ is object.__repr__ and cls.__str__ is object.__str__
    return default and (cls is object or not of_library(cls.__module__))


def _passes_itself_on(cls: type) -> bool:
    """Whether a method of a user's class uses `self` as a whole."""
    if of_library(cls.__module__):
        return False
    methods = (each for each in vars(cls).values() if isinstance(each, types.FunctionType))
    uses = (use for method in methods for use in uses_of(method.__code__).chains)
    return any(use.root == "first" and not (use.chain or use.stored) for use in uses)


def registrations(cls: type) -> Hashable:
    """What changes as classes are registered as subclasses of an abstract one."""
    return abc.get_cache_token() if isinstance(cls, abc.ABCMeta) else None


def _made_by_enum(name: str, member: Any, cls: Any) -> bool:
    """Whether `enum` put this into an enum class: its members, and how it finds them."""
    if name in cls._member_map_ or name == "__new__":
        return True
    if isinstance(member, (staticmethod, classmethod)):
        member = member.__func__
    if isinstance(member, types.FunctionType):
        return is_library_function(member)
    sunder = name.startswith("_") and name.endswith("_") and not name.startswith("__")
    return sunder or isinstance(member, WRAPPERS)


def _generated(member: Any) -> types.FunctionType | None:
    """A method as `dataclass` wrote it; None for what a user wrote."""
    function = getattr(member, "__wrapped__", member)
    if not isinstance(function, types.FunctionType):
        return None
    return function if function.__code__.co_qualname.startswith("__create_fn__.") else None
