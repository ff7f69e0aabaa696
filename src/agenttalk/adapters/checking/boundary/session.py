"""The judge's connection to the worker.

What the tests ask of the work goes over it. A result is a plain value of an exact built-in type, or a handle. What does
not fit the rules is a *breach*: the test in which it occurs has failed, even if the test catches the exception.

This module runs in the interpreter of the project that is checked. It imports the standard library alone.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol

from .event_loops import NestedLoop
from .lent_objects import LentObjects
from .wire import ReferenceTable, Wire, WireError, decode, encode, pack, unpack
from .worker import SPECIAL

Place = tuple[dict[bytes, bytes], str, tuple[str, float] | None, dict[str, int]]
"""The environment of a test, its folder, its frozen clock (the time, and how far from UTC), and levels of loggers."""

_SILENCE: Final = 120.0
_RUNNERS_OWN: Final = "PYTEST_"
"""How variables begin by which work would recognise that it is tested."""


class BoundaryError(Exception):
    """What the test does, or what the work answered, does not cross between the processes."""


class References(ReferenceTable, Protocol):
    """What the session needs of the objects that both sides refer to."""

    lent: LentObjects
    """What the tests have handed over."""

    def log(self, number: int) -> None:
        """Keep what a request has made for later tests."""

    def forget_before(self, number: int) -> None:
        """Forget what requests before this one have made, but for those that are logged."""

    def find_mirror(self, number: int) -> type | None:
        """Return the class that stands for a class of the work, by its number."""

    def number_of(self, value: Any) -> int | None:
        """Return the number by which the worker knows a proxy; None for an object of ours."""

    def is_mirror(self, kind: type) -> bool:
        """Whether a class stands for one of the work."""

    def make_error(self, kind: Any, number: int, args: tuple[Any, ...], text: str) -> BaseException:
        """Make the exception that stands for one of the work."""

    def describe_error(self, error: BaseException) -> list[Any]:
        """Describe an exception that passes through the work."""


class JudgeSession:
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
        self.references: References
        self._place: Place | None = None
        self.levels: dict[str, int] = {}
        """The levels that the tests have given to loggers, by their names."""
        self._warmed = False
        self._known: set[type] = set()
        """Classes of the work that the current test uses."""
        self._known_always: set[type] = set()
        self._swallowed: BaseException | None = None

    # Connection

    def refer_by(self, references: References) -> None:
        """Take what keeps the objects that both sides refer to."""
        self.references = references

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
        match self._receive(wire, 0):
            case [_, "r", [_, *replies], _] if all(type(reply) is list and len(reply) > 1 for reply in replies):
                shapes = [_shape_of(reply) for reply in replies]
            case _:
                shapes = []
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
        if self._place != _read_place(self.levels):
            wire.send(self._make_place())
            match self._receive(wire, 0):
                case [_, "r", *_]:
                    return
            raise WireError("the worker does not know its place")

    def _make_place(self) -> list[Any]:
        self._place = _read_place(self.levels)
        _, folder, frozen, levels = self._place
        clock = ["t", *frozen] if frozen is not None else None
        told = (pair for pair in os.environ.items() if not pair[0].startswith(_RUNNERS_OWN))
        environment = ["d", *(each for pair in told for each in pair)]
        return [0, "place", environment, folder, clock, ["d", *(each for pair in levels.items() for each in pair)]]

    def _receive(self, wire: Wire, number: int) -> list[Any]:
        """Wait for the reply to a request: its number, its kind, what it holds, and effects.

        Answers questions meanwhile.
        """
        while True:
            match wire.receive():
                case [0, "c", name, [target, *given], effects]:
                    self._respond(wire, name, target, given, effects)
                case [int(said), str(), _, *_] as reply if said == number:
                    return reply
                case _:
                    raise WireError("a malformed answer, or one out of turn")

    def _take(self, reply: list[Any], arguments: tuple[Any, ...]) -> Any:
        swallowed, self._swallowed = self._swallowed, None
        match reply:
            case [_, "r", value, effects]:
                _apply(self.references, effects, arguments)
                if swallowed is not None:
                    self.breaks("the work has caught a failed assertion of the test")
                match value:
                    case ["A", int(place)]:
                        return _find_given(arguments, place)
                return decode(value, self.references)
            case [_, "x", *described, effects]:
                _apply(self.references, effects, arguments)
                error = self._read_error(described)
                if swallowed is not None and error is not swallowed:
                    self.breaks("the work has caught a failed assertion of the test")
                raise error
            case [_, "w", str(why), effects]:
                _apply(self.references, effects, arguments)
                raise WireError(why[:200])
        raise WireError("a malformed answer")

    def _read_error(self, described: list[Any]) -> BaseException:
        match described:
            case ["J", lent]:
                found = self.references.lent.find(lent)
                if isinstance(found, BaseException):
                    return found
                raise WireError("not an exception")
            case ["H", int(number), named, given, str(text), str(trace)]:
                kind = decode(named, self.references)
            case _:
                raise WireError("an exception that cannot be described")
        if not isinstance(kind, type) or not issubclass(kind, BaseException):
            raise WireError("not an exception")
        if not issubclass(kind, Exception) and not issubclass(kind, SystemExit):
            self.breaks(f"the work raised {kind.__name__}")
        if kind.__name__ == "SkipTest" or kind.__module__.partition(".")[0] in {"unittest", "pytest", "_pytest"}:
            self.breaks(f"the work raised {kind.__name__}: {text[:200]}")
        args = decode(given, self.references)
        args = args if type(args) is tuple else (args,)
        if self.references.is_mirror(kind):
            return self.references.make_error(kind, number, args, text)
        try:
            error: BaseException = kind(*args)
        except Exception:  # noqa: BLE001 - a class that wants other arguments
            error = kind.__new__(kind)
            error.args = args
        error.__dict__["boundary_trace"] = trace
        return error

    # Callbacks

    def _respond(self, wire: Wire, name: Any, target: Any, given: list[Any], effects: Any) -> None:
        """Do what the work asks of an object that the test handed over."""
        _apply(self.references, effects, ())
        try:
            value = _act(self.references.lent.find(target), name, [decode(each, self.references) for each in given])
            answer = ["a", encode(value, self.references)]
        except (BoundaryError, WireError) as error:
            self.breach = self.breach or str(error)
            answer = self.references.describe_error(error)
        except BaseException as error:  # noqa: BLE001 - it passes through the work, back to the test
            if not isinstance(error, Exception) or isinstance(error, AssertionError):
                self._swallowed = error
            answer = self.references.describe_error(error)
        wire.send(answer)


def _apply(references: References, effects: Any, arguments: tuple[Any, ...]) -> None:
    """Apply what the work did meanwhile: output, warnings, changed arguments."""
    if type(effects) is not list:
        raise WireError("malformed effects")
    for effect in effects:
        match effect:
            case ["o", str(text)]:
                sys.stdout.write(text)
            case ["e", str(text)]:
                sys.stderr.write(text)
            case ["w", kind, text, _, _]:
                category = decode(kind, references)
                if isinstance(category, type) and issubclass(category, Warning):
                    warnings.warn(str(text), category, stacklevel=4)
            case ["g", str(logger), int(level), str(text), trace, place, extra]:
                _log(logger, level, text, trace, place, decode(extra, references))
            case ["m", int(place), now]:
                _change(_find_given(arguments, place), decode(now, references))
            case _:
                raise WireError("malformed effects")


def _log(logger: str, level: int, text: str, trace: Any, place: Any, extra: Any) -> None:
    """Log here what the work has logged, so that the handlers of the test get it."""
    import logging

    match place, extra:
        case [str(path), int(line), str(function)], dict():
            made = {"name": logger, "levelno": level, "levelname": logging.getLevelName(level), "msg": text}
            made |= {"exc_text": trace} if type(trace) is str else {}
            made |= {"pathname": path, "filename": os.path.basename(path), "lineno": line, "funcName": function}  # noqa: PTH119
            logging.getLogger(logger).handle(logging.makeLogRecord({**extra, **made}))
        case _:
            raise WireError("a malformed record")


def _change(value: Any, now: Any) -> None:
    """Change an argument as the work has changed it."""
    if type(value) is not type(now):
        raise WireError("a change of a type")
    if type(value) in {list, bytearray}:
        value[:] = now
    elif type(value) in {dict, set}:
        value.clear()
        value.update(now)


def _find_given(arguments: tuple[Any, ...], place: int) -> Any:
    """Return one of the positional arguments of a request."""
    given = next((each for each in reversed(arguments) if type(each) is tuple), ())
    if not 0 <= place < len(given):
        raise WireError("an argument that was not handed over")
    return given[place]


def _read_place(levels: dict[str, int]) -> Place:
    """Read the environment, the folder and the frozen clock of the test, quickly."""
    frozen = sys.modules.get("freezegun.api")
    clock = None
    if frozen is not None and frozen.freeze_factories:
        offset = frozen.tz_offsets[-1].total_seconds() if frozen.tz_offsets else 0.0
        clock = (frozen.freeze_factories[-1]().isoformat(), offset)
    return dict(os.environ._data), os.getcwd(), clock, dict(levels)  # type: ignore[attr-defined]  # noqa: SLF001, PTH109


_REFERENCES: Final = frozenset({"H", "K", "M", "F", "W", "X", "C"})


def _shape_of(reply: list[Any]) -> Any:
    """Return the references of an answer, which are the same whenever the work is asked the same."""
    _, how, *held = reply
    found: list[Any] = [how]

    def walk(data: Any) -> None:
        match data:
            case [str(tag), int(number), *_] if tag in _REFERENCES:
                found.append((tag, number))
        if type(data) is list:
            for each in data:
                walk(each)

    try:
        walk(held[:-1])
    except RecursionError:
        return None
    return tuple(found)


def _act(target: Any, name: Any, given: list[Any]) -> Any:
    """Use an object of the test as the work asks. Its inner parts are out of reach."""
    match name, given:
        case "next", []:
            return next(target)
        case "await", []:
            loop = NestedLoop()
            try:
                return loop.finish(target)
            finally:
                loop.close()
        case "call", [args, kwargs]:
            return target(*args, **kwargs)
        case "special", [str(method), args] if method in SPECIAL or method in {"__eq__", "__hash__", "__repr__"}:
            return getattr(type(target), method)(target, *args)
        case _, [str(method), *_] if method.startswith("_"):
            raise AttributeError(method)
        case "get", [str(method)]:
            return getattr(target, method)
        case "method", [str(method), *args]:
            return getattr(target, method)(*args)
        case "set", [str(method), value] if session.references.lent.is_of_tests(type(target)):
            return setattr(target, method, value)
    raise WireError("a question that is not answered")


session: Final = JudgeSession()
"""The connection of this process. The processes of the judge have nothing else of this module's."""
