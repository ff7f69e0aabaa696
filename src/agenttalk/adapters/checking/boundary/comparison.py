"""Compares objects of the work: by what they hand over without knowing with what they are compared.

The work's own `__eq__` is never asked.

This module runs in the interpreter of the project that is checked. It imports the standard library alone.
"""

from __future__ import annotations

import collections
from typing import Any, Final

from .mirrors import Mirror
from .session import session

_DEEPEST: Final = 50
PLAIN: Final = (str, int, float, complex, bytes, tuple)
"""Built-in types that a class of the work may derive from, and whose content then decides."""
_FORMS: Final = {
    str: "str",
    bytes: "bytes",
    int: "int",
    float: "float",
    complex: "complex",
    list: "list",
    tuple: "list",
    dict: "dict",
    collections.OrderedDict: "dict",
    collections.Counter: "dict",
    collections.defaultdict: "dict",
    set: "set",
    frozenset: "set",
    collections.deque: "list",
}
_CONTENT: Final = {"list": list, "dict": dict, "set": set, "frozenset": frozenset, "bytearray": bytearray}


def compare(one: Any, other: Any, depth: int) -> Any:
    """Compare an object of the work with another value, as the judge sees it."""
    if one is other:
        return True
    if depth > _DEEPEST:
        return session.breaks("objects of the work are nested too deeply")
    kind = type(one)
    if isinstance(type(other), Mirror):
        return _compare_objects(one, other)
    form = _FORMS.get(type(other))
    if form is None or "eq" not in kind._traits_:
        return False if type(other).__module__ == "builtins" or form else NotImplemented
    if not _has_form(kind, other, form):
        return False
    value = session.request("form", one, form)
    if form == "list":
        return type(value) is list and value == list(other)
    if form == "set":
        return type(value) in {set, frozenset} and value == other
    return type(value).__name__ == form and value == other


def _compare_objects(one: Any, other: Any) -> Any:
    """Compare two objects of the work: by what they declare, or by their content if they are plain values."""
    kind, second = type(one), type(other)
    base = next((each for each in PLAIN if issubclass(kind, each) and issubclass(second, each)), None)
    if base is not None and kind is not second:
        return base.__eq__(one, other)  # the content of both came over the wire as a plain value
    if kind is not second and not (_content_of(kind) and _content_of(kind) == _content_of(second)):
        return False
    return "eq" in kind._traits_ and _parts(one) == _parts(other)


def _has_form(kind: Any, other: Any, form: str) -> bool:
    """Whether an object of a class can equal a value of a built-in type at all."""
    content = _content_of(kind)
    if content and content != (type(other).__name__ if type(other) in {list, set} else form):
        return content in {"set", "frozenset"} and form == "set"
    if content or form in {"str", "bytes"}:
        return True
    if form in {"int", "float", "complex"}:
        return f"__{'index' if form == 'int' else form}__" in kind._special_
    if form == "list":
        return "seq" in kind._traits_ or "__getitem__" in kind._special_
    return ("map" if form == "dict" else "set") in kind._traits_


def _content_of(kind: Any) -> str:
    return next((name for name in _CONTENT if name in kind._traits_), "")


def _parts(value: Any) -> Any:
    """Return what decides whether objects of a class are equal: their content, or their declared fields."""
    kind = type(value)
    if _content_of(kind):
        return session.request("form", value, _content_of(kind)), session.request("fields", value)
    for trait, form in (("map", "dict"), ("set", "set"), ("seq", "list")):
        if trait in kind._traits_:
            return session.request("form", value, form)
    fields = session.request("fields", value)
    if type(fields) is not dict:
        session.breaks("malformed fields")
    return fields or object()


def freeze(value: Any, depth: int) -> Any:
    """Return something that can be hashed, the same for equal values."""
    if depth > _DEEPEST:
        return 0
    if isinstance(type(value), Mirror):
        return freeze(_parts(value), depth + 1) if "eq" in type(value)._traits_ else id(value)
    if isinstance(value, dict):
        return frozenset((freeze(key, depth + 1), freeze(each, depth + 1)) for key, each in value.items())
    if isinstance(value, list | tuple):
        return tuple(freeze(each, depth + 1) for each in value)
    if isinstance(value, set):
        return frozenset(freeze(each, depth + 1) for each in value)
    try:
        hash(value)
    except TypeError:
        return type(value).__name__
    return value
