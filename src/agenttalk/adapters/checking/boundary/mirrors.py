"""Classes that stand for classes of the work, and what they have as members.

This module runs in the interpreter of the project that is checked. It imports the standard library alone.
"""

from __future__ import annotations

import builtins
import inspect
from typing import Any, Final

from .session import session

_GUESSES: Final = frozenset({"startswith", "endswith", "issubset", "issuperset", "isdisjoint"})
"""Methods of built-in types that answer yes or no about a value of the test. Other classes have no say there."""
_CHECKED: Final[dict[str, type | tuple[type, ...]]] = {
    "__bool__": bool,
    "__contains__": bool,
    "__len__": int,
    "__length_hint__": int,
    "__index__": int,
    "__int__": int,
    "__float__": float,
    "__complex__": complex,
    "__str__": str,
    "__repr__": str,
    "__format__": str,
    "__bytes__": bytes,
}


class Mirror(type):
    """Classes that stand for classes of the work, and what they have as members."""

    _remote_class_: Any
    _traits_: frozenset[str]
    _special_: frozenset[str]

    def __new__(mcs, name: str, bases: tuple[type, ...], members: dict[str, Any], **kwargs: Any) -> Any:
        """Make a mirror, or what a test derives from one."""
        if "_remote_class_" in members or bases == ():
            return super().__new__(mcs, name, bases, members)
        return mcs._subclass(name, bases, members, kwargs)

    @staticmethod
    def _subclass(name: str, bases: tuple[type, ...], members: dict[str, Any], kwargs: dict[str, Any]) -> Any:
        """Make a class that a test derives from a class of the work: the worker has it, its methods are ours."""
        kept = {"__module__", "__qualname__", "__classcell__", "__firstlineno__", "__static_attributes__"}
        handed: dict[str, Any] = {}
        kinds: dict[str, str] = {}
        for key, value in members.items():
            if key in kept:
                continue
            if isinstance(value, property):
                handed[key], kinds[key] = (value.fget, value.fset, value.fdel), "property"
            elif isinstance(value, classmethod | staticmethod):
                handed[key], kinds[key] = value.__func__, type(value).__name__
            else:
                handed[key] = value
        made = session.request("class", name, bases, handed, kinds, kwargs)
        for key, value in members.items():
            if key in kept - {"__classcell__"} or inspect.isfunction(value):
                setter: Any = type.__setattr__
                setter(made, key, value)
        cell = members.get("__classcell__")
        if cell is not None:
            cell.cell_contents = made
        return made

    def __init__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any], **_: Any) -> None:
        type.__init__(cls, name, bases, members)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make an object in the worker."""
        session.know(cls)
        return session.request("call", cls, args, kwargs)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_remote_") or name in {"__abstractmethods__", "__isabstractmethod__", "__bases__"}:
            raise AttributeError(name)
        session.know(cls)
        return session.request("get", cls, name)

    def __getattribute__(cls, name: str) -> Any:
        """Return what the mirror itself has; methods of the work are asked for."""
        found = type.__getattribute__(cls, name)
        if type(found) is RemoteMethod or name == "__doc__":
            session.know(cls)
            return session.request("get", cls, name)
        return found

    def __setattr__(cls, name: str, value: Any) -> None:
        if name in {"__abstractmethods__", "__classcell__"} or name.startswith("_remote_"):
            type.__setattr__(cls, name, value)
        else:
            session.request("set", cls, name, value)

    def __delattr__(cls, name: str) -> None:
        session.request("del", cls, name)

    def __iter__(cls) -> Any:
        return session.request("call", builtins.iter, (cls,), {})

    def __len__(cls) -> int:
        return check_exact("__len__", session.request("call", builtins.len, (cls,), {}))  # type: ignore[no-any-return]

    def __bool__(cls) -> bool:
        return True

    def __contains__(cls, value: Any) -> bool:
        return any(value is each or value == each for each in cls)

    def __getitem__(cls, key: Any) -> Any:
        import operator

        return session.request("call", operator.getitem, (cls, key), {})

    def __dir__(cls) -> list[str]:
        return list(session.request("names", cls))

    def __instancecheck__(cls, instance: Any) -> bool:
        return type.__instancecheck__(cls, instance)


class RemoteMethod:
    """A method of a class of the work."""

    def __init__(self, name: str, number: int) -> None:
        self._name = name
        self._number = number

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        if owner is not None and owner._remote_class_ == self._number:
            return RemoteBound(instance, self._name)
        return session.request("member", session.references.find_mirror(self._number), self._name, instance, owner)


class RemoteMember:
    """A property, a class method or a static method of a class of the work."""

    def __init__(self, name: str, number: int) -> None:
        self._name = name
        self._number = number

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            session.know(owner)
        if owner is None or owner._remote_class_ == self._number:
            return session.request("get", owner if instance is None else instance, self._name)
        return session.request("member", session.references.find_mirror(self._number), self._name, instance, owner)


class RemoteBound:
    """A method of an object of the work, called at once."""

    __slots__ = ("__self__", "_name")

    def __init__(self, instance: Any, name: str) -> None:
        self.__self__ = instance
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method."""
        if self._name in _GUESSES and args:
            session.breaks(f"{type(self.__self__).__name__} decides itself what {self._name} says about a value")
        return session.request("method", self.__self__, self._name, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(session.request("get", self.__self__, self._name), name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemoteBound) and self.__self__ is other.__self__ and self._name == other._name

    def __hash__(self) -> int:
        return hash((id(self.__self__), self._name))


def check_exact(name: str, value: Any) -> Any:
    """Return a value if it has exactly the type that the special method must have."""
    wanted = _CHECKED.get(name)
    if wanted is not None and type(value) is not wanted and not (name == "__bool__" and type(value) is bool):
        session.breaks(f"{name} returned {type(value).__name__}")
    return value
