"""What the tests see of the work: proxies of its modules, functions, methods and objects.

This module runs in the interpreter of the project that is checked. It imports the standard library alone.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from .comparison import compare, freeze
from .mirrors import Mirror, check_exact
from .session import BoundaryError, session
from .wire import WireError

PULLS: Final = 1_000_000
"""Values that a test takes from one iterator of the work, at most."""
_COMPARING: Final = frozenset(
    f"__{name}__"
    for name in (
        *("add", "and", "divmod", "floordiv", "ge", "gt", "le", "lt", "matmul", "mod", "mul", "or", "pow"),
        *("radd", "rand", "rdivmod", "rfloordiv", "rlshift", "rmatmul", "rmod", "rmul", "ror", "rpow"),
        *("rrshift", "rshift", "rsub", "rtruediv", "rxor", "sub", "truediv", "xor", "contains"),
    )
)


def _is_plain_operand(value: Any) -> bool:
    return session.references.number_of(value) is None


def forward(name: str, number: int) -> Callable[..., Any]:
    """Make the special method of a mirror that asks the worker. `number` is that of the class of the work.

    What a test derives from that class may call it by `super()`: then the method of this very class is meant.
    """

    def forwarded(self: Any, *args: Any) -> Any:
        if name in _COMPARING and any(map(_is_plain_operand, args)) and not session.knows(type(self)):
            if name == "__contains__":
                return any(args[0] is each or args[0] == each for each in self)
            session.breaks(f"{type(self).__name__} decides itself what {name} says about a value of the test")
        above = () if type(self)._remote_class_ == number else (session.references.find_mirror(number),)
        value = session.request("special", self, name, tuple(args), *above)
        return check_exact(name, value)

    if name == "__exit__":
        return _leave
    if name == "__aexit__":
        return _leave_later
    if name in {"__next__", "__anext__"}:
        return lambda self: _pull(self, name)
    if name == "__call__":
        return lambda self, *args, **kwargs: session.request("call", self, args, kwargs)
    forwarded.__name__ = name
    return forwarded


def _ask_default(self: Any, name: str, function: Any) -> Any:
    """Ask for what a class of the work has from `object`; by that if a class of the tests calls it by `super()`."""
    if getattr(type(self), name) is getattr(RemoteObject, name):
        return session.request("call", function, (self,), {})
    return session.request("special", self, name, (), object)


def _leave(self: Any, kind: Any, error: Any, _trace: Any) -> bool:
    """Leave a context of the work: it cannot swallow a failed assertion of the test."""
    if kind is not None and (not issubclass(kind, Exception) or issubclass(kind, AssertionError | BoundaryError)):
        with suppress(Exception):
            session.request("special", self, "__exit__", (None, None, None))
        return False
    return bool(session.request("special", self, "__exit__", (kind, error, None)))


async def _leave_later(self: Any, kind: Any, error: Any, _trace: Any) -> bool:
    """Do the same where the context is left by waiting."""
    if kind is not None and (not issubclass(kind, Exception) or issubclass(kind, AssertionError | BoundaryError)):
        with suppress(Exception):
            await session.request("special", self, "__aexit__", (None, None, None))
        return False
    return bool(await session.request("special", self, "__aexit__", (kind, error, None)))


def _pull(self: Any, name: str) -> Any:
    held = object.__getattribute__(self, "__dict__")
    held["_pulls_"] = held.get("_pulls_", 0) + 1
    if held["_pulls_"] > PULLS:
        session.breaks("an iterator of the work does not end")
    return session.request("special", self, name, ())


class RemoteObject(metaclass=Mirror):
    """An object of the work."""

    _remote_class_ = None
    _traits_: frozenset[str] = frozenset()
    _special_: frozenset[str] = frozenset()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_remote_") or "_remote_" not in object.__getattribute__(self, "__dict__"):
            raise AttributeError(name)
        return session.request("get", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        held = object.__getattribute__(self, "__dict__")
        local = isinstance(self, BaseException) and name.startswith("__")
        if local or "_remote_" not in held:
            object.__setattr__(self, name, value)
        else:
            session.request("set", self, name, value)

    def __delattr__(self, name: str) -> None:
        session.request("del", self, name)

    def __dir__(self) -> list[str]:
        return list(session.request("names", self))

    def __eq__(self, other: object) -> Any:
        return compare(self, other, 0)

    def __ne__(self, other: object) -> Any:
        same = compare(self, other, 0)
        return NotImplemented if same is NotImplemented else not same

    def __hash__(self) -> int:
        kind = type(self)
        if "hash" not in kind._traits_:
            raise TypeError(f"unhashable type: {kind.__name__!r}")
        if "eq" not in kind._traits_:
            return id(self)
        return hash(freeze(self, 0))

    def __str__(self) -> str:
        if isinstance(self, BaseException):
            return str(object.__getattribute__(self, "__dict__").get("_text_", ""))
        return str(check_exact("__str__", _ask_default(self, "__str__", str)))

    def __repr__(self) -> str:
        return str(check_exact("__repr__", _ask_default(self, "__repr__", repr)))

    def __format__(self, pattern: str) -> str:
        return str(check_exact("__format__", session.request("call", format, (self, pattern), {})))

    def __await__(self) -> Any:
        if "await" not in type(self)._traits_:
            raise TypeError(f"object {type(self).__name__} can't be used in 'await' expression")
        return session.request("await", self)
        yield

    def __copy__(self) -> Any:
        import copy

        return session.request("call", copy.copy, (self,), {})

    def __deepcopy__(self, _memo: Any) -> Any:
        import copy

        return session.request("call", copy.deepcopy, (self,), {})

    def __reduce_ex__(self, _protocol: Any) -> Any:
        return session.breaks("objects of the work are not pickled")


class RemoteFunction:
    """A function of the work."""

    def __init__(self, number: int, described: list[Any]) -> None:
        name, doc, module, binds = described
        if type(name) is not str or type(module) is not str or not (doc is None or type(doc) is str):
            raise WireError("a malformed function")
        self.__dict__.update(_remote_=number, _binds_=binds is True)
        self.__dict__.update(__name__=name, __qualname__=name, __module__=module, __doc__=doc)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return session.request("call", self, args, kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None or not self._binds_ else types.MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        if name == "__signature__":
            return self._read_signature()
        if name in {"__code__", "__test__", "__wrapped__", "pytestmark", "place_as"}:
            raise AttributeError(name)
        return session.request("get", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        session.request("set", self, name, value)

    def _read_signature(self) -> inspect.Signature:
        try:
            described = session.request("signature", self)
        except (ValueError, TypeError) as error:
            raise AttributeError("__signature__") from error
        return inspect.Signature(
            [
                inspect.Parameter(each[0], each[1], **({"default": each[2]} if len(each) > 2 else {}))
                for each in described
            ]
        )

    def __repr__(self) -> str:
        return f"<function {self.__name__} of the work>"


class RemoteModule(types.ModuleType):
    """A module of the work."""

    def __init__(self, name: str, number: int) -> None:
        super().__init__(name)
        self.__dict__["_remote_"] = number

    def __getattr__(self, name: str) -> Any:
        if name in {"__path__", "__wrapped__", "__spec__", "__warningregistry__", "pytest_plugins", "pytestmark"}:
            raise AttributeError(name)
        if name == "__all__":
            names = session.request("names", self)
            if "__all__" in names:
                return session.request("get", self, name)
            return [each for each in names if not each.startswith("_")]
        return session.request("get", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in {"__spec__", "__loader__", "__path__", "__package__", "__file__", "__cached__", "_remote_"} or (
            isinstance(value, types.ModuleType)
        ):
            self.__dict__[name] = value
        else:
            session.request("set", self, name, value)

    def __delattr__(self, name: str) -> None:
        if name in self.__dict__:
            del self.__dict__[name]
        else:
            session.request("del", self, name)

    def __dir__(self) -> list[str]:
        return list(session.request("names", self))
