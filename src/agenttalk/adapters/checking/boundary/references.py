"""What the tests and the work refer to on the other side, by number.

This module runs in the interpreter of the project that is checked. It imports the standard library alone.
"""

from __future__ import annotations

import functools
import sys
import types
import weakref
from contextlib import suppress
from typing import Any, Final

from .comparison import PLAIN
from .lent_objects import LentObjects, is_standard
from .mirrors import Mirror, RemoteMember, RemoteMethod
from .proxies import RemoteFunction, RemoteModule, RemoteObject, forward
from .session import session
from .wire import WireError, decode, encode

_MOST_BASES: Final = 50
_IDS: Final = 20
_FUNCTION_PARTS: Final = 4
"""What describes a function: its name, its text, its module, and whether it binds to an object."""
_SAFE_TYPES: Final = frozenset(
    {
        *("object", "int", "str", "float", "bool", "bytes", "bytearray", "complex", "list", "tuple", "dict", "set"),
        *("frozenset", "range", "slice", "type", "map", "filter", "zip", "enumerate", "reversed", "memoryview"),
    }
)
_SAFE_MODULES: Final = frozenset(
    {"collections", "datetime", "decimal", "fractions", "uuid", "pathlib", "enum", "abc", "typing", "collections.abc"}
)


class JudgeReferences:
    """What the tests and the work refer to on the other side, by number."""

    def __init__(self, *test_roots: str) -> None:
        """`test_roots` is where the files of the tests lie."""
        self.lent = LentObjects(self, test_roots)
        self._first = 0
        """The number of the first request of the current test."""
        self._logged: set[int] = set()
        self._mirrors: dict[int, type] = {}
        self._coroutines: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._proxies: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()

        self._held: dict[int, Any] = {}
        """Proxies to which there is no weak reference: of classes that derive from a tuple, a number or bytes."""

    def log(self, number: int) -> None:
        """Keep what a request has made for later tests."""
        self._logged.add(number)

    def forget_before(self, number: int) -> None:
        """Forget what requests before this one have made, but for those that are logged."""
        self._first = number
        self._held = {each: made for each, made in self._held.items() if each >> _IDS in self._logged}

    def make_error(self, kind: Any, number: int, args: tuple[Any, ...], text: str) -> BaseException:
        """Make the exception that stands for one of the work."""
        known = self._proxies.get(number)
        error: BaseException = kind.__new__(kind, *args) if known is None else known
        error.args = args
        error.__dict__.update(_remote_=number, _text_=text)
        with suppress(TypeError):
            self._proxies[number] = error
        return error

    @staticmethod
    def is_mirror(kind: type) -> bool:
        """Whether a class stands for one of the work."""
        return issubclass(type(kind), Mirror)

    def describe_error(self, error: BaseException) -> list[Any]:
        """Describe an exception that passes through the work."""
        remote = error.__dict__.get("_remote_") if type(type(error)) is Mirror else None
        if remote is not None:
            return ["ax", remote, "H", None]
        number = self.lent.lend(error)
        kind = next(each for each in type(error).__mro__ if each.__module__ == "builtins" or is_standard(each))
        own = type(error).__module__ != "builtins" and not is_standard(type(error))
        try:
            described = self.refer(type(error)) if own else ["N", kind.__module__, kind.__qualname__]
            args = encode(tuple(error.args), self)
        except WireError:
            described, args = ["N", kind.__module__, kind.__qualname__], ["t", str(error)]
        return ["ax", number, described, args]

    def refer(self, value: Any) -> list[Any]:
        """Return the reference of an object that the test hands to the work."""
        remote = self.number_of(value)
        if remote is not None:
            return ["H", remote]
        return self.lent.describe_class(value) if isinstance(value, type) else self.lent.describe(value)

    def number_of(self, value: Any) -> int | None:
        """Return the number by which the worker knows a proxy; None for an object of ours."""
        if isinstance(value, RemoteModule):
            number = value.__dict__["_remote_"]
        elif type(type(value)) is Mirror or isinstance(value, Mirror):
            number = (
                type.__getattribute__(value, "_remote_class_")
                if isinstance(value, type)
                else object.__getattribute__(value, "__dict__").get("_remote_")
            )
            if number is None:
                return None
        elif type(value) is RemoteFunction:
            number = object.__getattribute__(value, "_remote_")
        elif type(value) is types.CoroutineType and value in self._coroutines:
            number = self._coroutines[value]
        else:
            return None
        asked = number >> _IDS
        if asked < self._first and asked not in self._logged:
            raise WireError("an object of another test")
        return int(number)

    def resolve(self, data: list[Any]) -> Any:
        """Return what a reference of the worker is about."""
        match data:
            case ["J", number]:
                return self.lent.find(number)
            case ["N", module, name]:
                return _find_standard(module, name)
            case ["K", int(number), *_] if number >= 0:
                return self._mirror(data)
            case ["M", int(number), str(name)]:
                found = self._proxies.get(number) or sys.modules.get(name)
                return found if isinstance(found, RemoteModule) else self._keep(number, RemoteModule(name, number))
            case ["F", int(number), *described] if len(described) == _FUNCTION_PARTS:
                return self._proxies.get(number) or self._keep(number, RemoteFunction(number, described))
            case ["C", int(number), str(name)]:
                return self._make_coroutine(number, name)
            case ["X", int(number), kind, args, str(text)]:
                return self._make_raised(number, kind, args, text)
            case ["H", int(number), kind]:
                known = self._proxies.get(number)
                return known if known is not None else self._make_object(number, self.find_class(kind))
            case ["W", int(number), kind, content]:
                known = self._proxies.get(number, self._held.get(number))
                return known if known is not None else self._make_value(number, self.find_class(kind), content)
        raise WireError("a malformed reference")

    def _make_raised(self, number: int, described: Any, args: Any, text: str) -> BaseException:
        """Make an exception of a class of the work that was handed over as an object."""
        kind, given = self.find_class(described), decode(args, self)
        if not isinstance(kind, Mirror) or not issubclass(kind, BaseException) or type(given) is not tuple:
            raise WireError("a malformed exception")
        return self.make_error(kind, number, given, text)

    def _make_coroutine(self, number: int, name: str) -> Any:
        """Make the coroutine that stands for one of the work: the worker runs that to its end when this is awaited."""
        known = next((each for each, of in self._coroutines.items() if of == number), None)
        if known is not None:
            return known

        async def finish(target: Any) -> Any:
            return session.request("await", target)

        target = object.__new__(RemoteObject)
        target.__dict__["_remote_"] = number
        made: Any = finish(target)
        made.__name__ = made.__qualname__ = name
        self._coroutines[made] = number
        return made

    def _make_object(self, number: int, kind: Any) -> Any:
        return self._bind(number, kind.__new__(kind) if issubclass(kind, BaseException) else object.__new__(kind))

    def _make_value(self, number: int, kind: Any, content: Any) -> Any:
        """Make an object of a class that derives from a built-in type, whose content came with it."""
        raw = decode(content, self)
        base = next((each for each in kind.__mro__ if each in PLAIN), None)
        if base is None or type(raw) is not base:
            raise WireError("the content of another type")
        return self._bind(number, base.__new__(kind, raw))

    def _bind(self, number: int, made: Any) -> Any:
        object.__getattribute__(made, "__dict__")["_remote_"] = number
        return self._keep(number, made)

    def _keep(self, number: int, made: Any) -> Any:
        if number < 0:
            raise WireError("a malformed reference")
        try:
            self._proxies[number] = made
        except TypeError:
            self._held[number] = made
        return made

    def find_class(self, data: Any) -> Any:
        """Return the class of a reference."""
        if type(data) is list and data[:1] == ["K"]:
            return self._mirror(data)
        found = decode(data, self)
        if not isinstance(found, type):
            raise WireError("not a class")
        return found

    def find_mirror(self, number: int) -> type | None:
        """Return the class that stands for a class of the work, by its number."""
        return self._mirrors.get(number)

    def _mirror(self, data: list[Any]) -> Any:
        """Make the class that stands for a class of the work; once."""
        match data:
            case [_, int(number), *_] if number in self._mirrors:
                return self._mirrors[number]
            case [_, int(number), str(module), str(name), [*bases], [*own], [*other], [*special], [*traits]]:
                if any(type(each) is not str for each in (*own, *other, *special, *traits)) or len(bases) > _MOST_BASES:
                    raise WireError("a malformed class")
            case _:
                raise WireError("a malformed class")
        parents, plain = self._list_bases(bases, traits)
        members: dict[str, Any] = {"__module__": module, "__qualname__": name, "_remote_class_": number}
        members |= {"_traits_": frozenset(traits), "_special_": frozenset(special)}
        for method in own:
            if method == "__init__" or (method.isidentifier() and not method.startswith("__")):
                members[method] = RemoteMethod(method, number)
        members.update({member: RemoteMember(member, number) for member in other if not member.startswith("__")})
        members.update({method: forward(method, number) for method in special if _may_forward(method, plain=plain)})
        try:
            mirror = Mirror.__new__(Mirror, name.rpartition(".")[2], tuple(dict.fromkeys(parents)), members)
        except TypeError as error:
            raise WireError(f"a class that cannot be mirrored: {error}") from error
        self._mirrors[number] = mirror
        return mirror

    def _list_bases(self, bases: list[Any], traits: list[str]) -> tuple[list[Any], bool]:
        """List the classes from which a mirror derives, and whether a built-in type decides by its content."""
        parents = [self.find_class(each) for each in bases]
        parents = [each for each in parents if _may_be_base(each)]
        if "error" in traits and not any(issubclass(each, BaseException) for each in parents):
            parents.append(Exception)
        plain = [base for base in PLAIN if base.__name__ in traits]
        if plain and not any(issubclass(each, tuple(PLAIN)) for each in parents) and "error" not in traits:
            parents.append(plain[0])
        if not any(isinstance(each, Mirror) for each in parents):
            parents.insert(0, RemoteObject)
        return parents, bool(plain)


def _may_be_base(kind: type) -> bool:
    if isinstance(kind, Mirror):
        return True
    return kind in PLAIN or (issubclass(kind, Exception) and is_standard(kind)) or kind is SystemExit


def _may_forward(name: str, *, plain: bool) -> bool:
    """Whether a special method is forwarded: not where a built-in type decides by its content."""
    if plain:
        return name in {"__enter__", "__exit__", "__call__", "__format__", "__str__", "__repr__"}
    return name not in {"__get__", "__set__", "__delete__", "__set_name__"}


def _find_standard(module: Any, name: Any) -> Any:
    """Return a class of the standard library that the worker may name: plain types and exceptions."""
    if type(module) is not str or type(name) is not str:
        raise WireError("a malformed name")
    found: Any = sys.modules.get(module)
    if module.partition(".")[0] not in sys.stdlib_module_names or not name.isidentifier() or found is None:
        raise WireError(f"the name {module}.{name}"[:120])
    found = found.__dict__.get(name)
    if not isinstance(found, type):
        raise WireError(f"the name {module}.{name}"[:120])
    safe = (module == "builtins" and name in _SAFE_TYPES) or module in _SAFE_MODULES
    if safe or issubclass(found, BaseException):
        return found
    return _make_named(module, name)


@functools.lru_cache(maxsize=256)
def _make_named(module: str, name: str) -> Any:
    """Make the class that stands for another class of the standard library."""
    members: dict[str, Any] = {"__module__": module, "_remote_class_": None, "_traits_": frozenset()}
    return Mirror.__new__(Mirror, name, (RemoteObject,), members | {"_special_": frozenset()})
