"""What the tests hand to the work: objects of theirs, described so that the worker can make stand-ins for them.

This module runs in the interpreter of the project that is checked. It imports the standard library alone.
"""

from __future__ import annotations

import functools
import inspect
import io
import sys
import types
from collections.abc import Iterator
from typing import Any, Final

from .wire import ReferenceTable, WireError, encode
from .worker import SPECIAL

_LENT_MODULES: Final = frozenset(
    {
        *("io", "_io", "collections", "itertools", "functools", "random", "re", "array", "decimal", "contextlib"),
        *("unittest.mock", "zoneinfo", "datetime", "fractions", "operator", "_operator", "string", "abc", "enum"),
        *("queue", "numbers", "weakref", "textwrap", "tempfile", "logging", "argparse", "configparser", "types"),
    }
)
"""Modules of the standard library whose objects the work may use by reference."""
_STREAMS: Final = ("TextIOBase", "BufferedIOBase", "RawIOBase")
_NOT_LENT: Final = (
    types.ModuleType,
    types.FrameType,
    types.CodeType,
    types.TracebackType,
    types.CellType,
    types.MappingProxyType,
)


class LentObjects:
    """The objects that the tests have handed over, by number."""

    def __init__(self, table: ReferenceTable, roots: tuple[str, ...]) -> None:
        """`table` refers to what functions have as defaults; `roots` is where the files of the tests lie."""
        self._table = table
        self._roots = roots
        self._objects: list[Any] = []
        self._numbers: dict[int, int] = {}

    def find(self, number: Any) -> Any:
        """Return an object that was handed over."""
        if type(number) is not int or not 0 <= number < len(self._objects):
            raise WireError("an object that was not handed over")
        return self._objects[number]

    def lend(self, value: Any) -> int:
        """Hand an object over. Returns its number."""
        number = self._numbers.get(id(value))
        if number is None:
            number = len(self._objects)
            self._objects.append(value)
            self._numbers[id(value)] = number
        return number

    def describe(self, value: Any) -> list[Any]:
        """Return the reference of an object. Raises WireError for what must not cross."""
        kind = type(value)
        named = find_name(value)
        if named is not None:
            return named
        if isinstance(value, _NOT_LENT):
            raise WireError(f"an object of {kind.__name__} does not cross")
        if isinstance(value, types.FunctionType | types.MethodType | types.BuiltinMethodType | functools.partial):
            return ["JF", self.lend(value), *self._describe_function(value)]
        if type(value) is types.CoroutineType:
            return ["JC", self.lend(value)]
        if isinstance(value, types.MethodWrapperType):
            return ["JF", self.lend(value), "method", None, None]
        if isinstance(value, io.IOBase):
            return ["JO", self.lend(value), self._describe_own_class(kind)]
        if isinstance(value, Iterator) and not callable(value):
            return ["JI", self.lend(value)]
        if kind.__module__ not in _LENT_MODULES and kind.__module__ != "builtins" and not self.is_of_tests(kind):
            raise WireError(f"an object of {kind.__module__}.{kind.__qualname__} does not cross")
        return ["JO", self.lend(value), self._describe_own_class(kind)]

    def describe_class(self, kind: type) -> list[Any]:
        """Return the reference of a class that does not come from the work."""
        if is_standard(kind) and kind.__module__ != "unittest.mock" and not issubclass(kind, io.IOBase):
            return ["N", kind.__module__, kind.__qualname__]
        return self._describe_own_class(kind)

    def is_of_tests(self, kind: type) -> bool:
        """Whether a class is defined in the files of the tests."""
        cases = sys.modules.get("unittest.case")
        module = sys.modules.get(kind.__module__)
        path = getattr(module, "__file__", None) or ""
        inside = any(path.startswith(root) for root in self._roots) and "site-packages" not in path
        return inside and (cases is None or not issubclass(kind, cases.TestCase))

    def _describe_function(self, value: Any) -> list[Any]:
        name = getattr(value, "__name__", "function")
        doc = getattr(value, "__doc__", None)
        try:
            parameters: Any = []
            for each in inspect.signature(value).parameters.values():
                default: list[Any] = []
                if each.default is not each.empty:
                    try:
                        default = [encode(each.default, self._table)]
                    except WireError:
                        default = [None]
                parameters.append([each.name, int(each.kind), *default])
        except (ValueError, TypeError):
            parameters = None
        return [str(name), doc if type(doc) is str else None, parameters, inspect.iscoroutinefunction(value)]

    def _describe_own_class(self, kind: type) -> list[Any]:
        number = self.lend(kind)
        errors = [
            ["N", each.__module__, each.__qualname__]
            for each in kind.__bases__
            if issubclass(each, BaseException) and is_standard(each)
        ]
        special = sorted(
            {
                name
                for each in kind.__mro__
                if each is not object
                for name in vars(each)
                if name in SPECIAL or name in {"__eq__", "__hash__"}
            }
            - {name for name in SPECIAL if getattr(kind, name, 0) is None}
        )
        if issubclass(kind, BaseException) and not errors:
            errors = [["N", "builtins", "Exception"]]
        streams = [["N", "io", each] for each in _STREAMS if issubclass(kind, getattr(io, each))]
        return ["JK", number, kind.__name__, errors or streams[:1], special]


def is_standard(value: Any) -> bool:
    """Whether a class or a function is one of the standard library, under the name that it gives."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if type(module) is not str or type(name) is not str or module.partition(".")[0] not in sys.stdlib_module_names:
        return False
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is value


def find_name(value: Any) -> list[Any] | None:
    """Return the reference of what both sides have: a module or a function of the standard library."""
    if isinstance(value, types.ModuleType):
        return ["N", value.__name__, ""] if value.__name__.partition(".")[0] in sys.stdlib_module_names else None
    if isinstance(value, types.BuiltinFunctionType | types.FunctionType) and is_standard(value):
        bound = getattr(value, "__self__", None)
        if bound is None or isinstance(bound, types.ModuleType):
            return ["N", value.__module__, value.__qualname__]
    if isinstance(value, types.MethodDescriptorType | types.WrapperDescriptorType):
        return ["N", value.__objclass__.__module__, value.__qualname__]
    if isinstance(value, types.BuiltinMethodType) and isinstance(value.__self__, type):
        return ["N", value.__self__.__module__, value.__qualname__]
    return None
