"""The judge's side of the wire: what the tests see of the work.

Modules, functions, classes and objects of the work are proxies here. A result is a plain value of an exact built-in
type, or a handle. Whether two things are equal is decided here, from values that the worker handed over without knowing
with what they are compared; the work's own `__eq__` is never asked. What does not fit the rules is a *breach*: the test
in which it occurs has failed, even if the test catches the exception.

This module runs in the interpreter of the project that is checked. It imports the standard library alone.
"""

from __future__ import annotations

import builtins
import collections
import functools
import inspect
import io
import os
import socket
import sys
import threading
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from .wire import Wire, WireError, decode, encode, pack, unpack
from .worker import SPECIAL

PULLS: Final = 1_000_000
"""Values that a test takes from one iterator of the work, at most."""
_SILENCE: Final = 120.0
_RUNNERS_OWN: Final = "PYTEST_"
"""How variables begin by which work would recognise that it is tested."""
_DEEPEST: Final = 50
_IDS: Final = 20
_GUESSES: Final = frozenset({"startswith", "endswith", "issubset", "issuperset", "isdisjoint"})
"""Methods of built-in types that answer yes or no about a value of the test. Other classes have no say there."""
_COMPARING: Final = frozenset(
    f"__{name}__"
    for name in (
        *("add", "and", "divmod", "floordiv", "ge", "gt", "le", "lt", "matmul", "mod", "mul", "or", "pow"),
        *("radd", "rand", "rdivmod", "rfloordiv", "rlshift", "rmatmul", "rmod", "rmul", "ror", "rpow"),
        *("rrshift", "rshift", "rsub", "rtruediv", "rxor", "sub", "truediv", "xor", "contains"),
    )
)
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
_SAFE_TYPES: Final = frozenset(
    {
        *("object", "int", "str", "float", "bool", "bytes", "bytearray", "complex", "list", "tuple", "dict", "set"),
        *("frozenset", "range", "slice", "type", "map", "filter", "zip", "enumerate", "reversed", "memoryview"),
    }
)
_SAFE_MODULES: Final = frozenset(
    {"collections", "datetime", "decimal", "fractions", "uuid", "pathlib", "enum", "abc", "typing", "collections.abc"}
)
_LENT_MODULES: Final = frozenset(
    {
        *("io", "_io", "collections", "itertools", "functools", "random", "re", "array", "decimal", "contextlib"),
        *("unittest.mock", "zoneinfo", "datetime", "fractions", "operator", "_operator", "string", "abc", "enum"),
        *("queue", "numbers", "weakref", "textwrap", "tempfile", "logging", "argparse", "configparser", "types"),
    }
)
"""Modules of the standard library whose objects the work may use by reference."""
_NOT_LENT: Final = (
    types.ModuleType,
    types.FrameType,
    types.CodeType,
    types.TracebackType,
    types.CellType,
    types.MappingProxyType,
)


class BoundaryError(Exception):
    """What the test does, or what the work answered, does not cross between the processes."""


class _References:
    """What the tests and the work refer to on the other side, by number."""

    def __init__(self) -> None:
        self._first = 0
        """The number of the first request of the current test."""
        self._logged: set[int] = set()
        self.mirrors: dict[int, type] = {}
        self._proxies: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._lent: list[Any] = []
        self._lent_numbers: dict[int, int] = {}
        self.test_roots: tuple[str, ...] = ()

    def log(self, number: int) -> None:
        """Keep what a request has made for later tests."""
        self._logged.add(number)

    def forget_before(self, number: int) -> None:
        """Forget what requests before this one have made, but for those that are logged."""
        self._first = number

    def make_error(self, kind: Any, number: int, args: tuple[Any, ...], text: str) -> BaseException:
        """Make the exception that stands for one of the work."""
        error: BaseException = self._proxies.get(number) or kind.__new__(kind, *args)
        error.args = args
        error.__dict__.update(_remote_=number, _text_=text)
        with suppress(TypeError):
            self._proxies[number] = error
        return error

    def find_lent(self, number: Any) -> Any:
        """Return an object that was handed over."""
        if type(number) is not int or not 0 <= number < len(self._lent):
            raise WireError("an object that was not handed over")
        return self._lent[number]

    def describe_error(self, error: BaseException) -> list[Any]:
        """Describe an exception that passes through the work."""
        remote = error.__dict__.get("_remote_") if type(type(error)) is Mirror else None
        if remote is not None:
            return ["ax", remote, "H", None]
        number = self._lend(error)
        kind = next(each for each in type(error).__mro__ if each.__module__ == "builtins" or _is_standard(each))
        own = type(error).__module__ != "builtins" and not _is_standard(type(error))
        try:
            described = self.refer(type(error)) if own else ["N", kind.__module__, kind.__qualname__]
            args = encode(tuple(error.args), self)
        except WireError:
            described, args = ["N", kind.__module__, kind.__qualname__], ["t", str(error)]
        return ["ax", number, described, args]

    def _lend(self, value: Any) -> int:
        number = self._lent_numbers.get(id(value))
        if number is None:
            number = len(self._lent)
            self._lent.append(value)
            self._lent_numbers[id(value)] = number
        return number

    def refer(self, value: Any) -> list[Any]:
        """Return the reference of an object that the test hands to the work."""
        kind = type(value)
        remote = self.number_of(value)
        if remote is not None:
            return ["H", remote]
        if isinstance(value, type):
            return self._refer_class(value)
        named = _name_of(value)
        if named is not None:
            return named
        if isinstance(value, _NOT_LENT):
            raise WireError(f"an object of {kind.__name__} does not cross")
        if isinstance(value, types.FunctionType | types.MethodType | types.BuiltinMethodType | functools.partial):
            return ["JF", self._lend(value), *self._describe_function(value)]
        if isinstance(value, types.MethodWrapperType):
            return ["JF", self._lend(value), "method", None, None]
        if isinstance(value, io.IOBase):
            return ["JO", self._lend(value), self._class(kind)]
        if isinstance(value, Iterator) and not callable(value):
            return ["JI", self._lend(value)]
        if not self._may_lend(kind):
            raise WireError(f"an object of {kind.__module__}.{kind.__qualname__} does not cross")
        return ["JO", self._lend(value), self._class(kind)]

    def _may_lend(self, kind: type) -> bool:
        if kind.__module__ in _LENT_MODULES or kind.__module__ == "builtins":
            return True
        return self.is_of_tests(kind)

    def is_of_tests(self, kind: type) -> bool:
        """Whether a class is defined in the files of the tests."""
        import unittest

        module = sys.modules.get(kind.__module__)
        path = getattr(module, "__file__", None) or ""
        inside = any(path.startswith(root) for root in self.test_roots) and "site-packages" not in path
        return inside and not issubclass(kind, unittest.TestCase)

    def _describe_function(self, value: Any) -> list[Any]:
        name = getattr(value, "__name__", "function")
        doc = getattr(value, "__doc__", None)
        try:
            parameters: Any = []
            for each in inspect.signature(value).parameters.values():
                default: list[Any] = []
                if each.default is not each.empty:
                    try:
                        default = [encode(each.default, self)]
                    except WireError:
                        default = [None]
                parameters.append([each.name, int(each.kind), *default])
        except (ValueError, TypeError):
            parameters = None
        return [str(name), doc if type(doc) is str else None, parameters]

    def _refer_class(self, kind: type) -> list[Any]:
        if type(kind) is Mirror or issubclass(type(kind), Mirror):
            return ["H", self.number_of(kind)]
        if _is_standard(kind) and kind.__module__ != "unittest.mock" and not issubclass(kind, io.IOBase):
            return ["N", kind.__module__, kind.__qualname__]
        return self._class(kind)

    def _class(self, kind: type) -> list[Any]:
        number = self._lend(kind)
        errors = [
            ["N", each.__module__, each.__qualname__]
            for each in kind.__bases__
            if issubclass(each, BaseException) and _is_standard(each)
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
        return ["JK", number, kind.__name__, errors, special]

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
        else:
            return None
        asked = number >> _IDS
        if asked < self._first and asked not in self._logged:
            raise WireError("an object of another test")
        return int(number)

    def resolve(self, data: list[Any]) -> Any:
        """Return what a reference of the worker is about."""
        tag = data[0]
        if tag == "J" and len(data) == 2:
            return self.find_lent(data[1])
        if tag == "N" and len(data) == 3:
            return _find_standard(data[1], data[2])
        if len(data) < 2 or type(data[1]) is not int or data[1] < 0:
            raise WireError("a malformed reference")
        if tag == "K":
            return self.mirror(data)
        if tag == "M" and len(data) == 3 and type(data[2]) is str:
            found = self._proxies.get(data[1]) or sys.modules.get(data[2])
            if isinstance(found, RemoteModule):
                return found
            return self._keep(data[1], RemoteModule(data[2], data[1]))
        if tag == "F" and len(data) == 6:
            return self._proxies.get(data[1]) or self._keep(data[1], RemoteFunction(data[1], data[2:]))
        return self._resolve_object(data)

    def _resolve_error(self, number: int, kind_data: Any, args_data: Any, text: Any) -> BaseException:
        if type(text) is not str:
            raise WireError("an unknown reference")
        kind, args = decode_class(self, kind_data), decode(args_data, self)
        if not isinstance(kind, Mirror) or not issubclass(kind, BaseException) or type(args) is not tuple:
            raise WireError("a malformed exception")
        return self.make_error(kind, number, args, text)

    def _resolve_object(self, data: list[Any]) -> Any:
        if data[0] == "X" and len(data) == 5:
            return self._resolve_error(*data[1:])
        if data[0] not in {"H", "W"} or len(data) != (3 if data[0] == "H" else 4):
            raise WireError("an unknown reference")
        known = self._proxies.get(data[1])
        if known is not None:
            return known
        kind = decode_class(self, data[2])
        if data[0] == "W":
            raw = decode(data[3], self)
            base = next((each for each in kind.__mro__ if each in _MIRRORED), None)
            if base is None or type(raw) is not base:
                raise WireError("the content of another type")
            made = base.__new__(kind, raw)
        elif issubclass(kind, BaseException):
            made = kind.__new__(kind)
        else:
            made = object.__new__(kind)
        object.__getattribute__(made, "__dict__")["_remote_"] = data[1]
        return self._keep(data[1], made)

    def _keep(self, number: int, made: Any) -> Any:
        with suppress(TypeError):
            self._proxies[number] = made
        return made

    def mirror(self, data: list[Any]) -> Any:
        """Make the class that stands for a class of the work; once."""
        known = self.mirrors.get(data[1])
        if known is not None:
            return known
        if len(data) != 9 or any(type(each) is not list for each in data[4:]):
            raise WireError("a malformed class")
        _, number, module, name, bases, own, other, special, traits = data
        if (
            any(type(each) is not str for each in (module, name, *own, *other, *special, *traits))
            or len(bases) > _DEEPEST
        ):
            raise WireError("a malformed class")
        parents, plain = self._list_bases(bases, traits)
        members: dict[str, Any] = {"__module__": module, "__qualname__": name, "_remote_class_": number}
        members |= {"_traits_": frozenset(traits), "_special_": frozenset(special)}
        for method in own:
            if method == "__init__" or (method.isidentifier() and not method.startswith("__")):
                members[method] = RemoteMethod(method, number)
        members.update({member: RemoteMember(member, number) for member in other if not member.startswith("__")})
        members.update({method: _forward(method) for method in special if _may_forward(method, plain=plain)})
        try:
            mirror = Mirror.__new__(Mirror, name.rpartition(".")[2], tuple(dict.fromkeys(parents)), members)
        except TypeError as error:
            raise WireError(f"a class that cannot be mirrored: {error}") from error
        self.mirrors[number] = mirror
        return mirror

    def _list_bases(self, bases: list[Any], traits: list[str]) -> tuple[list[Any], bool]:
        """List the classes from which a mirror derives, and whether a built-in type decides by its content."""
        parents = [decode_class(self, each) for each in bases]
        parents = [each for each in parents if _may_be_base(each)]
        if "error" in traits and not any(issubclass(each, BaseException) for each in parents):
            parents.append(Exception)
        plain = [base for base in _MIRRORED if base.__name__ in traits]
        if plain and not any(issubclass(each, tuple(_MIRRORED)) for each in parents) and "error" not in traits:
            parents.append(plain[0])
        if not any(isinstance(each, Mirror) for each in parents):
            parents.insert(0, RemoteObject)
        return parents, bool(plain)


class _Session:
    """The connection to the worker. There is one in a process of the judge."""

    def __init__(self) -> None:
        self.breach = ""
        """Why the current test has failed even if it passes; empty if nothing happened."""
        self.control: Wire | None = None
        self._control_socket: socket.socket | None = None
        self._wire: Wire | None = None
        self._lock = threading.RLock()
        self._number = 0
        self._log: list[tuple[bytes, Any]] = []
        self.logging = 1
        """Whether requests are kept and repeated for each test: while tests are collected, and in wider fixtures."""
        self.references = _References()
        self._place: tuple[dict[bytes, bytes], str, tuple[str, float] | None] | None = None
        self._warmed = False
        self._known: set[type] = set()
        """Classes of the work that the current test uses."""
        self._known_always: set[type] = set()
        self._swallowed: BaseException | None = None

    # Connection

    def meet(self, connection: socket.socket) -> None:
        """Take the connection to the template."""
        self._control_socket = connection
        self.control = Wire(connection)

    def tell(self, *words: Any) -> Any:
        """Ask the template."""
        if self.control is None:
            raise BoundaryError("there is no worker")
        self.control.send(list(words))
        return self.control.receive()[1]

    def _open(self) -> Wire:
        if self._wire is not None:
            return self._wire
        if self.control is None or self._control_socket is None:
            raise BoundaryError("there is no worker")
        self.tell("fork")
        ours, theirs = socket.socketpair()
        socket.send_fds(self._control_socket, [b"f"], [theirs.fileno()])
        theirs.close()
        ours.settimeout(_SILENCE)
        self._wire = Wire(ours)
        self._place = None
        if self._log:
            self._repeat(self._wire)
        return self._wire

    def _repeat(self, wire: Wire) -> None:
        """Have a new worker do again what is kept."""
        wire.send([0, "repeat", [self._make_place(), *(unpack(frame) for frame, _ in self._log)]])
        replies = self._receive(wire, 0)[2]
        shapes = [_shape_of(reply) for reply in replies[1:]] if type(replies) is list else []
        if shapes != [shape for _, shape in self._log]:
            self.breaks("the work did not answer as it did before")

    def close_worker(self) -> None:
        """End the worker, with all that it knows."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None
            self.references.forget_before(self._number + 1)

    def begin_test(self) -> None:
        """Begin a test: with a new worker, and without a breach."""
        if not self._warmed and self._wire is not None and self.control is not None:
            self._warmed = True
            with suppress(BoundaryError, WireError):
                modules, files = self.request("loaded")
                self.tell("warm", modules, files)
        self.logging = 0
        self.close_worker()
        self.breach = ""
        self._known.clear()

    def end_test(self) -> str:
        """End a test. Returns why it has failed, if it has."""
        self.close_worker()
        return self.breach

    def know(self, kind: type) -> None:
        """Note that the test itself uses a class of the work."""
        (self._known_always if self.logging else self._known).add(kind)

    def knows(self, kind: type) -> bool:
        """Whether the test itself uses a class, or one from which it derives."""
        return not (self._known | self._known_always).isdisjoint(kind.__mro__)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep the requests made meanwhile, because later tests use what they made."""
        self.logging += 1
        try:
            yield
        finally:
            self.logging -= 1

    def breaks(self, why: str) -> Any:
        """Note a breach, and raise it."""
        self.breach = self.breach or why
        raise BoundaryError(why)

    # Requests

    def request(self, name: str, *arguments: Any) -> Any:
        """Ask the worker, and return its answer or raise the work's exception."""
        with self._lock:
            try:
                wire = self._open()
                self._send_place(wire)
                self._number += 1
                number = self._number
                message = [number, name, *(encode(each, self.references) for each in arguments)]
                frame = None
                if self.logging:
                    frame = pack(message)[4:]
                    self.references.log(number)
                wire.send(message)
                reply = self._receive(wire, number)
                if frame is not None:
                    self._log.append((frame, _shape_of(reply)))
                return self._take(reply, arguments)
            except (WireError, RecursionError) as error:
                return self.breaks(str(error))

    def _send_place(self, wire: Wire) -> None:
        """Tell the worker the environment and the folder of the test, if they have changed."""
        if self._place != _read_place():
            wire.send(self._make_place())
            if self._receive(wire, 0)[:2] != [0, "r"]:
                raise WireError("the worker does not know its place")

    def _make_place(self) -> list[Any]:
        self._place = _read_place()
        frozen = self._place[2]
        clock = ["t", *frozen] if frozen is not None else None
        told = (pair for pair in os.environ.items() if not pair[0].startswith(_RUNNERS_OWN))
        return [0, "place", ["d", *(each for pair in told for each in pair)], self._place[1], clock]

    def _receive(self, wire: Wire, number: int) -> list[Any]:
        while True:
            reply = wire.receive()
            if len(reply) < 3 or type(reply[0]) is not int or type(reply[1]) is not str:
                raise WireError("a malformed answer")
            if reply[0] == 0 and reply[1] == "c":
                self._respond(wire, reply)
            elif reply[0] != number:
                raise WireError("an answer out of turn")
            else:
                return reply

    def _take(self, reply: list[Any], arguments: tuple[Any, ...]) -> Any:
        swallowed, self._swallowed = self._swallowed, None
        self._apply(reply[-1], arguments)
        if reply[1] == "r" and len(reply) == 4:
            if swallowed is not None:
                self.breaks("the work has caught a failed assertion of the test")
            data = reply[2]
            if type(data) is list and len(data) == 2 and data[0] == "A":
                return _given(arguments)[data[1]]
            return decode(data, self.references)
        if reply[1] == "x":
            error = self._read_error(reply[2:-1])
            if swallowed is not None and error is not swallowed:
                self.breaks("the work has caught a failed assertion of the test")
            raise error
        raise WireError(str(reply[2])[:200] if reply[1] == "w" else "a malformed answer")

    def _apply(self, effects: Any, arguments: tuple[Any, ...]) -> None:
        """Apply what the work did meanwhile: output, warnings, changed arguments."""
        if type(effects) is not list:
            raise WireError("malformed effects")
        for effect in effects:
            tag = effect[0] if type(effect) is list and len(effect) > 1 else None
            if tag in {"o", "e"} and type(effect[1]) is str:
                (sys.stdout if tag == "o" else sys.stderr).write(effect[1])
            elif tag == "w" and len(effect) == 5:
                category = decode(effect[1], self.references)
                if isinstance(category, type) and issubclass(category, Warning):
                    with_message = str(effect[2])
                    warnings.warn(with_message, category, stacklevel=4)
            elif tag == "m" and len(effect) == 3 and type(effect[1]) is int:
                _change(arguments, effect[1], decode(effect[2], self.references))
            else:
                raise WireError("malformed effects")

    def _read_error(self, data: list[Any]) -> BaseException:
        if len(data) == 2 and data[0] == "J":
            found = self.references.find_lent(data[1])
            if isinstance(found, BaseException):
                return found
            raise WireError("not an exception")
        if len(data) != 6:
            raise WireError("an exception that cannot be described")
        tag, number, kind_data, args_data, text, trace = data
        if tag != "H" or type(text) is not str or type(trace) is not str:
            raise WireError("an exception that cannot be described")
        kind = decode(kind_data, self.references)
        if not isinstance(kind, type) or not issubclass(kind, BaseException):
            raise WireError("not an exception")
        if not issubclass(kind, Exception) and kind is not SystemExit and not issubclass(kind, SystemExit):
            self.breaks(f"the work raised {kind.__name__}")
        if kind.__name__ == "SkipTest" or kind.__module__.partition(".")[0] in {"unittest", "pytest", "_pytest"}:
            self.breaks(f"the work raised {kind.__name__}: {text[:200]}")
        args = decode(args_data, self.references)
        args = args if type(args) is tuple else (args,)
        if type(kind) is Mirror or issubclass(type(kind), Mirror):
            return self.references.make_error(kind, number, args, text)
        try:
            error: BaseException = kind(*args)
        except Exception:  # noqa: BLE001 - a class that wants other arguments
            error = kind.__new__(kind)
            error.args = args
        error.__dict__["boundary_trace"] = trace
        return error

    # Callbacks

    def _respond(self, wire: Wire, message: list[Any]) -> None:
        """Do what the work asks of an object that the test handed over."""
        if len(message) != 5 or type(message[3]) is not list or not message[3]:
            raise WireError("a malformed question")
        _, _, name, arguments, effects = message
        self._apply(effects, ())
        try:
            target = self.references.find_lent(arguments[0])
            given = [decode(each, self.references) for each in arguments[1:]]
            value = _act(target, name, given)
            answer = ["a", encode(value, self.references)]
        except (BoundaryError, WireError) as error:
            self.breach = self.breach or str(error)
            answer = self.references.describe_error(error)
        except BaseException as error:  # noqa: BLE001 - it passes through the work, back to the test
            if not isinstance(error, Exception) or isinstance(error, AssertionError):
                self._swallowed = error
            answer = self.references.describe_error(error)
        wire.send(answer)


def _change(arguments: tuple[Any, ...], place: int, now: Any) -> None:
    """Change an argument as the work has changed it."""
    given = _given(arguments)
    if not 0 <= place < len(given):
        raise WireError("a change of what was not handed over")
    value = given[place]
    if type(value) is not type(now):
        raise WireError("a change of a type")
    if type(value) in {list, bytearray}:
        value[:] = now
    elif type(value) in {dict, set}:
        value.clear()
        value.update(now)


def _given(arguments: tuple[Any, ...]) -> Any:
    """Return the positional arguments of a request."""
    return next((each for each in reversed(arguments) if type(each) is tuple), ())


def _read_place() -> tuple[dict[bytes, bytes], str, tuple[str, float] | None]:
    """Read the environment, the folder and the frozen clock of the test, quickly."""
    frozen = sys.modules.get("freezegun.api")
    clock = None
    if frozen is not None and frozen.freeze_factories:
        offset = frozen.tz_offsets[-1].total_seconds() if frozen.tz_offsets else 0.0
        clock = (frozen.freeze_factories[-1]().isoformat(), offset)
    return dict(os.environ._data), os.getcwd(), clock  # type: ignore[attr-defined]  # noqa: SLF001, PTH109


def decode_class(references: _References, data: Any) -> Any:
    """Return the class of a reference."""
    if type(data) is list and len(data) > 1 and data[0] == "K" and type(data[1]) is int:
        return references.mirror(data)
    found = decode(data, references)
    if not isinstance(found, type):
        raise WireError("not a class")
    return found


_MIRRORED: Final = (str, int, float, complex, bytes, tuple)


def _may_be_base(kind: type) -> bool:
    if isinstance(kind, Mirror):
        return True
    return kind in _MIRRORED or (issubclass(kind, Exception) and _is_standard(kind)) or kind is SystemExit


def _may_forward(name: str, *, plain: bool) -> bool:
    """Whether a special method is forwarded: not where a built-in type decides by its content."""
    if plain:
        return name in {"__enter__", "__exit__", "__call__", "__format__", "__str__", "__repr__"}
    return name not in {"__get__", "__set__", "__delete__", "__set_name__"}


def _is_standard(value: Any) -> bool:
    """Whether a class or a function is one of the standard library, under the name that it gives."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if type(module) is not str or type(name) is not str or module.partition(".")[0] not in sys.stdlib_module_names:
        return False
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is value


def _name_of(value: Any) -> list[Any] | None:
    """Return the reference of what both sides have: a module or a function of the standard library."""
    if isinstance(value, types.ModuleType):
        return ["N", value.__name__, ""] if value.__name__.partition(".")[0] in sys.stdlib_module_names else None
    if isinstance(value, types.BuiltinFunctionType | types.FunctionType) and _is_standard(value):
        bound = getattr(value, "__self__", None)
        if bound is None or isinstance(bound, types.ModuleType):
            return ["N", value.__module__, value.__qualname__]
    if isinstance(value, types.MethodDescriptorType | types.WrapperDescriptorType):
        return ["N", value.__objclass__.__module__, value.__qualname__]
    if isinstance(value, types.BuiltinMethodType) and isinstance(value.__self__, type):
        return ["N", value.__self__.__module__, value.__qualname__]
    return None


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


_REFERENCES: Final = frozenset({"H", "K", "M", "F", "W", "X"})


def _shape_of(reply: list[Any]) -> Any:
    """Return the references of an answer, which are the same whenever the work is asked the same."""
    found: list[Any] = [reply[1]]

    def walk(data: Any) -> None:
        if type(data) is list and data:
            if type(data[0]) is str and data[0] in _REFERENCES and len(data) > 1 and type(data[1]) is int:
                found.append((data[0], data[1]))
            for each in data:
                walk(each)

    try:
        walk(reply[2:-1])
    except RecursionError:
        return None
    return tuple(found)


def _act(target: Any, name: str, given: list[Any]) -> Any:
    """Use an object of the test as the work asks. Its inner parts are out of reach."""
    if name == "next":
        return next(target)
    if name == "call":
        return target(*given[0], **given[1])
    method = given[0]
    if type(method) is not str:
        raise WireError("a malformed question")
    if name == "special" and (method in SPECIAL or method in {"__eq__", "__hash__", "__repr__"}):
        return getattr(type(target), method)(target, *given[1])
    if method.startswith("_"):
        raise AttributeError(method)
    if name == "get":
        return getattr(target, method)
    if name == "method":
        return getattr(target, method)(*given[1:])
    if name == "set" and session.references.is_of_tests(type(target)):
        return setattr(target, method, given[1])
    raise WireError("a question that is not answered")


# What tests see


class Mirror(type):
    """The class of classes that stand for classes of the work."""

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
        return _exact("__len__", session.request("call", builtins.len, (cls,), {}))  # type: ignore[no-any-return]

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


def _exact(name: str, value: Any) -> Any:
    """Return a value if it has exactly the type that the special method must have."""
    wanted = _CHECKED.get(name)
    if wanted is not None and type(value) is not wanted and not (name == "__bool__" and type(value) is bool):
        session.breaks(f"{name} returned {type(value).__name__}")
    return value


def _is_plain_operand(value: Any) -> bool:
    return session.references.number_of(value) is None


def _forward(name: str) -> Callable[..., Any]:
    """Make the special method of a mirror that asks the worker."""

    def forwarded(self: Any, *args: Any) -> Any:
        if name in _COMPARING and any(map(_is_plain_operand, args)) and not session.knows(type(self)):
            if name == "__contains__":
                return any(args[0] is each or args[0] == each for each in self)
            session.breaks(f"{type(self).__name__} decides itself what {name} says about a value of the test")
        value = session.request("special", self, name, tuple(args))
        return _exact(name, value)

    if name == "__exit__":
        return _leave
    if name == "__next__":
        return _pull
    if name == "__call__":
        return lambda self, *args, **kwargs: session.request("call", self, args, kwargs)
    forwarded.__name__ = name
    return forwarded


def _leave(self: Any, kind: Any, error: Any, _trace: Any) -> bool:
    """Leave a context of the work: it cannot swallow a failed assertion of the test."""
    if kind is not None and (not issubclass(kind, Exception) or issubclass(kind, AssertionError | BoundaryError)):
        with suppress(Exception):
            session.request("special", self, "__exit__", (None, None, None))
        return False
    return bool(session.request("special", self, "__exit__", (kind, error, None)))


def _pull(self: Any) -> Any:
    held = object.__getattribute__(self, "__dict__")
    held["_pulls_"] = held.get("_pulls_", 0) + 1
    if held["_pulls_"] > PULLS:
        session.breaks("an iterator of the work does not end")
    return session.request("special", self, "__next__", ())


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
        return session.request("member", session.references.mirrors.get(self._number), self._name, instance, owner)


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
        return session.request("member", session.references.mirrors.get(self._number), self._name, instance, owner)


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
        return _same(self, other, 0)

    def __ne__(self, other: object) -> Any:
        same = _same(self, other, 0)
        return NotImplemented if same is NotImplemented else not same

    def __hash__(self) -> int:
        kind = type(self)
        if "hash" not in kind._traits_:
            raise TypeError(f"unhashable type: {kind.__name__!r}")
        if "eq" not in kind._traits_:
            return id(self)
        return hash(_frozen(self, 0))

    def __str__(self) -> str:
        if isinstance(self, BaseException):
            return str(object.__getattribute__(self, "__dict__").get("_text_", ""))
        return str(_exact("__str__", session.request("call", str, (self,), {})))

    def __repr__(self) -> str:
        return str(_exact("__repr__", session.request("call", repr, (self,), {})))

    def __format__(self, pattern: str) -> str:
        return str(_exact("__format__", session.request("call", format, (self, pattern), {})))

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


def _same(one: Any, other: Any, depth: int) -> Any:
    """Compare an object of the work with another value, as the judge sees it."""
    if one is other:
        return True
    if depth > _DEEPEST:
        return session.breaks("objects of the work are nested too deeply")
    kind = type(one)
    if isinstance(type(other), Mirror):
        return _same_objects(one, other)
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


def _same_objects(one: Any, other: Any) -> Any:
    """Compare two objects of the work: by what they declare, or by their content if they are plain values."""
    kind, second = type(one), type(other)
    base = next((each for each in _MIRRORED if issubclass(kind, each) and issubclass(second, each)), None)
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


def _frozen(value: Any, depth: int) -> Any:
    """Return something that can be hashed, the same for equal values."""
    if depth > _DEEPEST:
        return 0
    if isinstance(type(value), Mirror):
        return _frozen(_parts(value), depth + 1) if "eq" in type(value)._traits_ else id(value)
    if isinstance(value, dict):
        return frozenset((_frozen(key, depth + 1), _frozen(each, depth + 1)) for key, each in value.items())
    if isinstance(value, list | tuple):
        return tuple(_frozen(each, depth + 1) for each in value)
    if isinstance(value, set):
        return frozenset(_frozen(each, depth + 1) for each in value)
    try:
        hash(value)
    except TypeError:
        return type(value).__name__
    return value


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


session: Final = _Session()
"""The connection of this process. The processes of the judge have nothing else of this module's."""
