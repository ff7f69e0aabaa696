"""The worker: it runs the work, and answers what the judge asks about it over the wire.

`WorkerTemplate` is a process in which no code of the work ever runs: it keeps compiled code, and forks a `Worker` for
each test. What a worker leaves, processes and temporary files, is removed before the next one. The judge judges all
that a worker says: nothing here has to resist the work, except the template.

This module runs in the interpreter of the project that is checked. It imports the standard library alone.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import importlib
import importlib.machinery
import importlib.util
import inspect
import io
import logging
import os
import shutil
import signal
import socket
import sys
import threading
import time
import traceback
import types
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from .event_loops import NestedLoop
from .wire import Wire, WireError, decode, encode

SPECIAL: Final = frozenset(
    f"__{name}__"
    for name in (
        *("call", "abs", "add", "and", "bool", "bytes", "ceil", "complex", "contains", "delitem", "divmod"),
        *("enter", "exit", "float", "floor", "floordiv", "format", "ge", "getitem", "gt", "index", "int"),
        *("invert", "iter", "le", "len", "length_hint", "lshift", "lt", "matmul", "mod", "mul", "neg", "next"),
        *("or", "pos", "pow", "radd", "rand", "rdivmod", "repr", "reversed", "rfloordiv", "rlshift"),
        *("rmatmul", "rmod", "rmul", "ror", "round", "rpow", "rrshift", "rshift", "rsub", "rtruediv", "rxor"),
        *("setitem", "str", "sub", "truediv", "trunc", "xor", "iadd", "isub", "imul", "iand", "ior", "ixor"),
        *("itruediv", "ifloordiv", "imod", "ipow", "ilshift", "irshift", "imatmul", "get", "set", "delete"),
        *("set_name", "missing", "fspath", "aenter", "aexit", "aiter", "anext"),
    )
)
"""Special methods that cross. Comparison for equality, hashes, attributes and construction are decided elsewhere."""
_PLAIN_BASES: Final = (str, int, float, complex, bytes, tuple)
_CONTENT_BASES: Final = (list, dict, set, frozenset, bytearray, collections.deque)
_RECORD: Final = frozenset(vars(logging.makeLogRecord({})))
"""What every record of a log has."""
_ATOMS: Final = frozenset({str, int, float, bool, type(None)})
_TRACE: Final = 4000
_OUTPUT: Final = 16 * 1024 * 1024
_IDS: Final = 20


class JudgeError(Exception):
    """Stands for an exception of the judge that is passed through the work."""


class _Stream(io.TextIOBase):
    """The standard output or error of the work: what is written goes to the judge with the next message."""

    def __init__(self, effects: list[list[Any]], tag: str) -> None:
        self._effects = effects
        self._tag = tag
        self._written = 0
        self.buffer = _ByteStream(self)

    encoding = "utf-8"
    errors = "strict"

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self._written += len(text)
        if self._written < _OUTPUT and text:
            self._effects.append([self._tag, str.__str__(text)])
        return len(text)

    def flush(self) -> None:
        pass


class _ByteStream(io.RawIOBase):
    """The same for bytes."""

    def __init__(self, stream: _Stream) -> None:
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._stream.write(bytes(data).decode("utf-8", "replace"))
        return len(data)


class StandIn:
    """Stands in the worker for an object of the judge; its class is made for the class of that object."""

    _worker_: Any
    _judge_: int

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._worker_.ask("get", self._judge_, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._worker_.ask("set", self._judge_, name, value)

    def __repr__(self) -> str:
        return str(self._worker_.ask("special", self._judge_, "__repr__", ()))

    def __eq__(self, other: object) -> Any:
        return self._worker_.ask("special", self._judge_, "__eq__", (other,))

    def __hash__(self) -> int:
        return int(self._worker_.ask("special", self._judge_, "__hash__", ()))


class _StandInClass(type):
    """The class of classes that stand for classes of the judge."""

    _worker_: Any
    _class_: int

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return cls._worker_.ask("call", cls._class_, args, kwargs)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return cls._worker_.ask("get", cls._class_, name)


class _StandInIterator:
    """Pulls from an iterator of the judge."""

    def __init__(self, worker: Worker, number: int) -> None:
        self._worker_ = worker
        self._judge_ = number

    def __iter__(self) -> _StandInIterator:
        return self

    def __next__(self) -> Any:
        return self._worker_.ask("next", self._judge_)

    def __getattr__(self, name: str) -> Any:
        if name in {"send", "throw", "close"}:
            return functools.partial(self._worker_.ask, "method", self._judge_, name)
        raise AttributeError(name)


class WorkerPlace:
    """Where the work runs: as the test has it in the judge's process."""

    def __init__(self) -> None:
        self._clock: tuple[str, float] | None = None
        self._freezer: Any = None

    def take(
        self, environment: dict[str, str], folder: str, clock: tuple[str, float] | None, levels: dict[str, int]
    ) -> None:
        """Go where the judge is."""
        os.environ.clear()
        os.environ.update(environment)
        with suppress(OSError):
            os.chdir(folder)
        time.tzset()
        for name, level in levels.items():
            logging.getLogger(None if name == "root" else name).setLevel(level)
        if clock != self._clock:
            self._clock = clock
            self._freeze()

    def _freeze(self) -> None:
        """Stop the clock where the test has stopped its own."""
        if self._freezer is not None:
            self._freezer.stop()
            self._freezer = None
        if self._clock is not None:
            import freezegun  # type: ignore[import-not-found]

            self._freezer = freezegun.freeze_time(self._clock[0], tz_offset=self._clock[1] / 3600)
            self._freezer.start()


class Worker:
    """Answers the judge for one test."""

    def __init__(self, wire: Wire, root: str) -> None:
        self._wire = wire
        self._root = root
        self._objects: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}
        self._described: set[int] = set()
        self._stand_ins: dict[int, Any] = {}
        self._judged: dict[int, int] = {}
        self._next = 0
        self._lock = threading.RLock()
        self._effects: list[list[Any]] = []
        self._answers: dict[str, Callable[..., Any]] = {
            "import": _import_module,
            "find": _find_module,
            "get": getattr,
            "set": setattr,
            "del": delattr,
            "call": _call,
            "method": _call_method,
            "special": _call_special,
            "fields": _read_fields,
            "form": _give_form,
            "class": _make_class,
            "names": _list_names,
            "signature": _describe_signature,
            "place": WorkerPlace().take,
            "loaded": functools.partial(_list_loaded, self._root),
            "await": NestedLoop().finish,
            "member": lambda kind, name, instance, owner: vars(kind)[name].__get__(instance, owner),
        }

    # Serving

    def serve(self) -> None:
        """Answer until the judge closes the wire."""
        sys.stdout, sys.stderr = _Stream(self._effects, "o"), _Stream(self._effects, "e")
        warnings.showwarning = self._show_warning  # type: ignore[assignment]
        warnings.simplefilter("always")
        logging.Logger.callHandlers = _make_caller(self._note_record)  # type: ignore[method-assign, assignment]
        while True:
            try:
                message = self._wire.receive()
            except WireError:
                return
            if message[1] == "repeat":
                self._wire.send([0, "r", [self._make_reply(each) for each in message[2]], []])
            else:
                self._answer(message)

    def _answer(self, message: list[Any]) -> None:
        try:
            self._wire.send(self._make_reply(message))
        except (WireError, RecursionError) as error:
            self._wire.send([message[0], "w", str(error), []])

    def _make_reply(self, message: list[Any]) -> list[Any]:
        number, name, *rest = message
        before = self._next
        self._next = number << _IDS
        try:
            arguments = [decode(each, self) for each in rest]
            value = self._answers[name](*arguments)
            given: Sequence[Any] = ()
            if name in {"call", "method"}:
                given = arguments[-2]
                self._note_changes(rest[-2], given)
            reply = [number, "r", _find_given(value, given) or encode(value, self)]
        except BaseException as error:  # noqa: BLE001 - all that the work raises goes to the judge
            reply = [number, "x", *self._describe_error(error)]
        effects = self._effects[:]
        self._effects.clear()
        self._next = before
        return [*reply, effects]

    def ask(self, name: str, *arguments: Any) -> Any:
        """Ask the judge about one of its objects, and answer what it asks meanwhile."""
        with self._lock:
            effects = self._effects[:]
            self._effects.clear()
            self._wire.send([0, "c", name, [encode(each, self) for each in arguments], effects])
            while True:
                message = self._wire.receive()
                if message[0] == "a":
                    return decode(message[1], self)
                if message[0] == "ax":
                    raise self._read_error(message)
                self._answer(message)

    def _note_changes(self, sent: Sequence[Any], arguments: Sequence[Any]) -> None:
        """Tell the judge which of its lists, dicts and sets the work has changed."""
        for place, value in enumerate(arguments):
            if type(value) in {list, dict, set, bytearray}:
                with suppress(WireError):
                    now = encode(value, self)
                    if now != sent[place + 1]:
                        self._effects.append(["m", place, now])

    def _show_warning(self, message: Any, category: Any, filename: str, lineno: int, *_: Any) -> None:
        with suppress(WireError):
            self._effects.append(["w", encode(category, self), str(message), str(filename), int(lineno)])

    def _note_record(self, record: logging.LogRecord) -> None:
        """Have the judge log what the work has logged."""
        trace = "".join(traceback.format_exception(*record.exc_info)) if record.exc_info else None
        place = [str(record.pathname), int(record.lineno), str(record.funcName)]
        extra = {name: value for name, value in vars(record).items() if name not in _RECORD and type(value) in _ATOMS}
        with suppress(Exception):
            said = [str(record.name), int(record.levelno), str(record.getMessage()), trace and trace.rstrip("\n")]
            self._effects.append(["g", *said, place, encode(extra, self)])

    # References

    def refer(self, value: object) -> list[Any]:
        """Return the reference of an object of the work, or of one of the judge's that comes back."""
        judged = self._judged.get(id(value))
        if judged is not None:
            return ["J", judged]
        if isinstance(value, StandIn | _StandInIterator):
            return ["J", object.__getattribute__(value, "_judge_")]
        if isinstance(value, type):
            named = _name_of(value)
            return named if named is not None else self._refer_class(value)
        number = self._number(value)
        if isinstance(value, types.ModuleType | types.CoroutineType):
            return ["M" if isinstance(value, types.ModuleType) else "C", number, str(value.__name__)]
        if isinstance(value, types.FunctionType | types.BuiltinFunctionType | types.MethodType | functools.partial):
            return ["F", number, *_describe_function(value)]
        kind = self._refer_class(type(value))
        if isinstance(value, BaseException) and _name_of(type(value)) is None:
            try:
                args = encode(tuple(value.args), self)
            except WireError:
                args = ["t", str(value)]
            return ["X", number, kind, args, str(value)]
        for base in _PLAIN_BASES:
            if isinstance(value, base) and type(value).__module__ != "builtins":
                return ["W", number, kind, encode(_raw(base, value), self)]
        return ["H", number, kind]

    def _number(self, value: object) -> int:
        number = self._numbers.get(id(value))
        if number is None:
            number = self._next
            self._next += 1
            self._objects[number] = value
            self._numbers[id(value)] = number
        return number

    def _refer_class(self, kind: type) -> list[Any]:
        number = self._number(kind)
        if number in self._described:
            return ["K", number]
        self._described.add(number)
        bases = [self.refer(base) for base in kind.__bases__ if base is not object]
        own = [name for name, value in vars(kind).items() if isinstance(value, types.FunctionType)]
        other = [name for name, value in vars(kind).items() if isinstance(value, property | classmethod | staticmethod)]
        special = sorted(
            {name for each in kind.__mro__ if each is not object for name in vars(each) if name in SPECIAL}
            - {name for name in SPECIAL if getattr(kind, name, 0) is None}
        )
        traits = [
            name
            for name, holds in (
                ("eq", vars(object)["__eq__"] is not getattr(kind, "__eq__", None)),
                ("hash", kind.__hash__ is not None),
                ("error", issubclass(kind, BaseException)),
                ("map", _is_kind(kind, collections.abc.Mapping)),
                ("set", _is_kind(kind, collections.abc.Set)),
                ("seq", _is_kind(kind, collections.abc.Sequence) or issubclass(kind, collections.deque)),
                ("await", hasattr(kind, "__await__")),
                *((base.__name__, issubclass(kind, base)) for base in (*_PLAIN_BASES, *_CONTENT_BASES)),
            )
            if holds
        ]
        return ["K", number, str(kind.__module__), str(kind.__qualname__), bases, own, other, special, traits]

    def resolve(self, data: list[Any]) -> object:
        """Return the object that a reference of the judge is about."""
        tag = data[0]
        if tag == "H":
            return self._objects[data[1]]
        if tag == "N":
            found: Any = importlib.import_module(data[1])
            for part in data[2].split(".") if data[2] else ():
                found = getattr(found, part)
            return found
        number = data[1]
        known = self._stand_ins.get(number)
        if known is not None:
            return known
        makers: dict[str, Callable[..., Any]] = {
            "JF": self._make_function,
            "JC": self._make_coroutine,
            "JI": lambda number: _StandInIterator(self, number),
            "JK": self._make_stand_in_class,
            "JO": self._make_stand_in,
        }
        if tag not in makers:
            raise WireError(f"an unknown reference {tag!r}")
        made = makers[tag](number, *data[2:])
        self._stand_ins[number] = made
        if tag in {"JF", "JK", "JC"}:
            self._judged[id(made)] = number
        return made

    def _make_stand_in(self, number: int, described: list[Any]) -> Any:
        kind: Any = self.resolve(described)
        made = object.__new__(kind)
        object.__setattr__(made, "_judge_", number)
        return made

    async def _make_coroutine(self, number: int) -> Any:
        return self.ask("await", number)

    def _make_function(self, number: int, name: str, doc: Any, parameters: Any, *awaited: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            return self.ask("call", number, args, kwargs)

        async def call_and_wait(*args: Any, **kwargs: Any) -> Any:
            return await call(*args, **kwargs)

        stand_in: Any = call_and_wait if any(awaited) else call
        stand_in.__name__ = stand_in.__qualname__ = name
        stand_in.__doc__ = doc
        if parameters is not None:
            described = [
                inspect.Parameter(each[0], each[1], **({"default": decode(each[2], self)} if len(each) > 2 else {}))
                for each in parameters
            ]
            stand_in.__signature__ = inspect.Signature(described)
        return stand_in

    def _make_stand_in_class(self, number: int, name: str, bases: Any, special: Any) -> Any:
        parents = tuple(decode(each, self) for each in bases)
        if any(issubclass(each, BaseException) for each in parents):
            return type(name, parents, {"_class_": number})
        forwarded: dict[str, Any] = {"_worker_": self, "_class_": number, "__module__": "tests"}
        for method in special:
            forwarded[method] = self._forward(method)
        if "__eq__" in special and "__hash__" not in special:
            forwarded["__hash__"] = None
        made = _StandInClass(name, (StandIn,), forwarded)
        for stream in parents:
            stream.register(made)
        return made

    def _forward(self, name: str) -> Any:
        def forwarded(stand_in: Any, *args: Any) -> Any:
            return self.ask("special", object.__getattribute__(stand_in, "_judge_"), name, args)

        return forwarded

    # Errors

    def _describe_error(self, error: BaseException) -> list[Any]:
        try:
            judged = getattr(error, "_judge_", None)
            if type(judged) is int:
                return ["J", judged]
            kind = self.refer(type(error))
            number = self._number(error)
            try:
                args = encode(tuple(error.args), self)
            except WireError:
                args = ["t", str(error)]
            trace = "".join(traceback.format_exception(error))[-_TRACE:]
            return ["H", number, kind, args, str(error), trace]
        except BaseException as other:  # noqa: BLE001 - an error that cannot be described is one, too
            return ["?", type(other).__name__]

    def _read_error(self, message: list[Any]) -> BaseException:
        _, number, kind, args = message
        if kind == "H":
            found = self._objects[number]
            return found if isinstance(found, BaseException) else JudgeError("no exception")
        made = decode(kind, self)
        try:
            error: BaseException = made(*decode(args, self))
        except Exception:  # noqa: BLE001 - a class that wants other arguments
            error = JudgeError(str(args))
        error._judge_ = number  # type: ignore[attr-defined]
        return error


def _make_caller(note: Callable[[logging.LogRecord], None]) -> Callable[[logging.Logger, logging.LogRecord], None]:
    """Make what hands a record to the handlers of a logger, and to the judge if it gets to the topmost logger."""

    def call_handlers(logger: logging.Logger, record: logging.LogRecord) -> None:
        at: logging.Logger | None = logger
        while at is not None:
            for handler in at.handlers:
                if record.levelno >= handler.level:
                    handler.handle(record)
            if not at.propagate:
                return
            at = at.parent
        note(record)

    return call_handlers


def _list_loaded(root: str) -> tuple[list[str], list[str]]:
    """Return what the work has loaded: modules from elsewhere, and files of the tree."""
    abroad, files = [], []
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and path.startswith(root + "/") and "site-packages" not in path:
            files.append(path)
        elif isinstance(name, str):
            abroad.append(name)
    return abroad, files


def _import_module(name: str, search_path: list[str]) -> Any:
    """Import a module. Runners put folders on the path of the judge while they collect the tests."""
    sys.path[:0] = [place for place in search_path if place not in sys.path]
    importlib.import_module(name)
    module = sys.modules[name]
    path = getattr(module, "__path__", None)
    return (module, [str(each) for each in path] if path is not None else None, getattr(module, "__file__", None))


def _find_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _call(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return target(*args, **kwargs)


def _call_method(target: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return getattr(target, name)(*args, **kwargs)


def _call_special(target: Any, name: str, args: tuple[Any, ...], *kind: type) -> Any:
    """Call a special method: that of a class, or of the object's own."""
    if name not in SPECIAL:
        raise TypeError(name)
    return getattr(kind[0] if kind else type(target), name)(target, *args)


def _list_names(target: Any) -> list[str]:
    return [str(name) for name in dir(target)]


def _read_fields(target: Any) -> dict[str, Any]:
    """Return the declared fields of an object, without asking its own comparison."""
    kind = type(target)
    if dataclasses.is_dataclass(kind):
        named = [each.name for each in dataclasses.fields(kind) if each.compare]
    elif hasattr(kind, "__attrs_attrs__"):
        named = [each.name for each in kind.__attrs_attrs__ if each.eq]
    else:
        slots = [vars(each).get("__slots__", ()) for each in kind.__mro__]
        named = [name for each in slots for name in ((each,) if isinstance(each, str) else each)]
        named = [name for name in named if name not in {"__dict__", "__weakref__"}]
        named += list(getattr(target, "__dict__", ()))
    found = {}
    for name in named:
        mangled = f"_{kind.__name__.lstrip('_')}{name}" if name.startswith("__") and not name.endswith("_") else name
        with suppress(AttributeError):
            found[str(name)] = object.__getattribute__(target, mangled)
    return found


def _give_form(target: Any, name: str) -> Any:
    """Return an object as a value of a built-in type. It does not learn with what that is compared."""
    for base in _CONTENT_BASES:
        if isinstance(target, base):
            return _raw(base, target)
    if name == "dict":
        return {key: target[key] for key in target}
    makers: dict[str, Callable[[Any], Any]] = {
        "list": list,
        "set": set,
        "str": str,
        "bytes": bytes,
        "float": float,
        "int": lambda value: value.__index__(),
        "complex": complex,
    }
    return makers[name](target)


def _make_class(
    name: str, bases: tuple[Any, ...], members: dict[str, Any], kinds: dict[str, str], kwargs: dict[str, Any]
) -> Any:
    makers: dict[str, Callable[[Any], Any]] = {
        "property": lambda parts: property(*parts),
        "classmethod": classmethod,
        "staticmethod": staticmethod,
    }
    members = {key: makers[kinds[key]](value) if key in kinds else value for key, value in members.items()}
    return types.new_class(name, bases, kwargs, lambda namespace: namespace.update(members))


def _raw(base: Any, value: Any) -> Any:
    """Return the content of an instance of a built-in type's subclass, by the methods of that type."""
    if base is str:
        return str.__str__(value)
    if base is int:
        return int.__int__(value)
    if base is float:
        return float.__float__(value)
    if base is complex:
        return complex(complex.__pos__(value))
    if base is bytes:
        return bytes.__getitem__(value, slice(None))
    if base is tuple:
        return tuple(tuple.__iter__(value))
    if base is dict:
        return {key: dict.__getitem__(value, key) for key in dict.__iter__(value)}
    return (list if base is collections.deque else base)(base.__iter__(value))


def _find_given(value: Any, given: Sequence[Any]) -> list[Any] | None:
    """Return the reference of an argument that is returned."""
    if type(value) in {list, dict, set, bytearray, tuple} and value:
        return next((["A", place] for place, each in enumerate(given) if each is value), None)
    return None


def _is_kind(kind: type, abstract: Any) -> bool:
    try:
        return issubclass(kind, abstract)
    except Exception:  # noqa: BLE001 - a class of the work may object
        return False


def _name_of(kind: type) -> list[Any] | None:
    """Return the reference of a class of the standard library."""
    module = kind.__module__
    if type(module) is str and module.partition(".")[0] in sys.stdlib_module_names and module != "__main__":
        found: Any = sys.modules.get(module)
        for part in kind.__qualname__.split("."):
            found = getattr(found, part, None)
        if found is kind:
            return ["N", module, kind.__qualname__]
    return None


def _describe_function(value: Any) -> list[Any]:
    name = getattr(value, "__name__", "")
    doc = getattr(value, "__doc__", None)
    module = getattr(value, "__module__", None)
    return [
        name if type(name) is str else "",
        doc if type(doc) is str else None,
        module if type(module) is str else "",
        isinstance(value, types.FunctionType),
    ]


def _describe_signature(target: Any) -> list[list[Any]]:
    signature = inspect.signature(target)
    return [
        [each.name, int(each.kind), *([repr(each.default)] if each.default is not each.empty else [])]
        for each in signature.parameters.values()
    ]


# The template


class _KnownLoader(importlib.machinery.SourceFileLoader):
    """Loads modules of the tree from code that was compiled before."""

    known: dict[str, types.CodeType] = {}  # noqa: RUF012 - filled by the template before any worker begins

    def get_code(self, fullname: str) -> types.CodeType | None:
        path = self.get_filename(fullname)
        return self.known.get(path) or super().get_code(fullname)


class WorkerTemplate:
    """Forks workers. No code of the work runs in it."""

    def __init__(self, control: socket.socket, root: str, *, own_processes: bool) -> None:
        """`own_processes` is true where it has a process namespace of its own: then it ends all others there."""
        self._control = control
        self._wire = Wire(control)
        self._root = root
        self._own = own_processes
        self._child = 0
        self._path: list[str] = []
        self._installed = [each for each in sys.path if self._is_tree(each)]
        """Folders of the tree that an editable installation names. The judge's Python drops them, as it sees none."""
        self._temporary = os.environ.get("TMPDIR", "")
        self._kept: frozenset[str] = frozenset()

    def serve(self) -> None:
        """Answer the judge until it is gone."""
        answers: dict[str, Callable[..., Any]] = {
            "path": self._set_path,
            "locate": self._locate,
            "warm": self._warm,
            "end": self._end,
        }
        try:
            while True:
                name, *arguments = self._wire.receive()
                if name == "fork":
                    self._fork()
                else:
                    self._wire.send(["ok", answers[name](*arguments)])
        except WireError:
            self._end()

    def _set_path(self, path: list[str], kept: str) -> None:
        self._path = [*path, *(each for each in self._installed if each not in path)]
        sys.path[:] = [each for each in path if not self._is_tree(each)]
        self._kept = frozenset({Path(kept).name, "home"})
        importlib.invalidate_caches()

    def _is_tree(self, path: str) -> bool:
        inside = path == self._root or path.startswith(self._root + "/")
        return inside and "site-packages" not in path and "dist-packages" not in path

    def _locate(self, name: str, path: list[str]) -> bool:
        """Whether a top-level module of this name would come from the tree. Runs nothing."""
        finders: list[Any] = [each for each in sys.meta_path if not isinstance(each, type)]
        specs = (each.find_spec(name, None, None) for each in finders if hasattr(each, "find_spec"))
        spec = next((each for each in specs if each is not None), None)
        spec = importlib.machinery.PathFinder.find_spec(name, [*path, *self._installed]) or spec
        if spec is None:
            return False
        places = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
        return any(isinstance(each, str) and self._is_tree(each) for each in places)

    def _warm(self, modules: list[str], files: list[str]) -> None:
        for name in modules:
            if name not in sys.modules and name.partition(".")[0] not in {"__main__", "__mp_main__"}:
                with suppress(BaseException):
                    importlib.import_module(name)
        for path in files:
            if path.endswith(".py") and self._is_tree(path):
                with suppress(OSError, SyntaxError, ValueError, RecursionError):
                    code = Path(path).read_bytes()
                    _KnownLoader.known[path] = compile(code, path, "exec", dont_inherit=True)

    def _end(self) -> None:
        """End everything that the last worker left."""
        if self._own:
            with suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
        elif self._child:
            with suppress(ProcessLookupError):
                os.killpg(self._child, signal.SIGKILL)
        with suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)
        self._child = 0
        if self._own and self._temporary:
            with suppress(OSError):
                for entry in os.scandir(self._temporary):
                    if entry.name not in self._kept:
                        _remove(entry)

    def _fork(self) -> None:
        self._end()
        self._wire.send(["ok", None])
        _, descriptors, _, _ = socket.recv_fds(self._control, 1, 1)
        connection = socket.socket(fileno=descriptors[0])
        self._child = os.fork()
        if self._child:
            connection.close()
            return
        try:
            os.setsid()
            self._control.close()
            sys.path[:] = self._path
            details = ((importlib.machinery.ExtensionFileLoader, importlib.machinery.EXTENSION_SUFFIXES),)
            hook = importlib.machinery.FileFinder.path_hook(
                *details, (_KnownLoader, importlib.machinery.SOURCE_SUFFIXES)
            )
            sys.path_hooks.insert(0, hook)
            sys.path_importer_cache.clear()
            worker = types.ModuleType("__main__")
            sys.modules["__main__"] = worker
            Worker(Wire(connection), self._root).serve()
        finally:
            os._exit(0)


def _remove(entry: os.DirEntry[str]) -> None:
    if entry.is_dir(follow_symlinks=False):
        shutil.rmtree(entry.path, ignore_errors=True)
    else:
        with suppress(OSError):
            Path(entry).unlink()


def main(door: str, root: str, own: str) -> None:
    """Run the template: meet the judge at its door, and serve it until it is gone."""
    sys.dont_write_bytecode = True
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(door)
    WorkerTemplate(connection, root, own_processes=own == "own").serve()
