"""Decides where the judge's modules come from: its own files are real, modules of the work are proxies.

The judge sees no file of the tree but protected ones. What is not found among those, and what the worker's template
finds in the tree, is imported in the worker. Names of the standard library and of test runners are never the work's.

This module runs in the interpreter of the project that is checked. It imports the standard library alone.
"""

from __future__ import annotations

import importlib.machinery
import os
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from .proxies import RemoteModule
from .references import JudgeReferences
from .session import BoundaryError, session

DOOR: Final = "door"
ENDED: Final = "ended"
"""The file in which the engine says why the worker has ended."""
PYTHON: Final = "python"
_PATIENCE: Final = 60.0
_PAUSE: Final = 0.1
_OURS: Final = __name__.partition(".")[0]
_NOT_STANDARD: Final = frozenset({"test", "this", "antigravity", "idlelib", "turtledemo", "lib2to3"})
_RUNNERS: Final = frozenset(
    {
        *("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "coverage", "pytest_cov", "xdist", "execnet"),
        *("exceptiongroup", "tomli", "pygments", "colorama", "attr", "attrs", "typing_extensions", "hypothesis"),
        *("sortedcontainers", "setuptools", "pkg_resources", "_distutils_hack", "sitecustomize", "usercustomize"),
        *("freezegun", "mock", "pytest_mock", "parameterized", "dateutil", "six", "nose", "nose2", "numpy"),
    }
)
"""Modules of test runners and of their plugins: where they are installed outside the tree, they come from there."""


PLACEHOLDER: Final = b"# This package is the work's.\n"
"""What stands in the judge's tree for the `__init__.py` of a package of the work that has tests in it."""


def _holds_place(path: str) -> bool:
    """Whether a file only shows that there is a package of the work."""
    file = Path(path)
    return file.name == "__init__.py" and file.is_file() and file.read_bytes() == PLACEHOLDER


def _list_search_path() -> list[str]:
    return [each or str(Path.cwd()) for each in sys.path]


class RemoteLoader:
    """Imports a module in the worker."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Any:
        """Import the module, and return its proxy."""
        with session.kept():
            module, path, file = session.request("import", spec.name, _list_search_path())
        if not isinstance(module, RemoteModule):
            raise ImportError(f"{spec.name} is not a module of the work", name=spec.name)  # noqa: TRY004
        if path is not None:
            spec.submodule_search_locations = path
            module.__dict__["__path__"] = path
        if file is not None:
            module.__dict__["__file__"] = file
        return module

    def exec_module(self, module: Any) -> None:
        """Do nothing: the worker has run it."""


class RemoteFinder:
    """Finds modules, before any other finder does."""

    def __init__(self, place: str, root: str) -> None:
        self._place = Path(place)
        self._root = root
        self._found: dict[str, bool] = {}
        self._refusal = ""
        """Why there is no worker."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, _target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find a module of the work, or of the protected files; None for any other."""
        top, _, rest = fullname.partition(".")
        if top == _OURS or (top in sys.stdlib_module_names and top not in _NOT_STANDARD):
            return None
        if rest:
            parent = sys.modules.get(fullname.rpartition(".")[0])
            if not isinstance(parent, RemoteModule):
                return None
            spec = importlib.machinery.PathFinder.find_spec(fullname, path)
            if spec is not None and spec.origin and not _holds_place(spec.origin):
                return spec
            return self._make(fullname) if session.request("find", fullname) else spec
        local = importlib.machinery.PathFinder.find_spec(top)
        if local is not None and local.origin and not _holds_place(local.origin):
            if self._is_tree(local.origin):
                return local
            if top in _RUNNERS:
                return None
        if top not in self._found:
            self._connect()
            self._found[top] = session.tell("locate", top, _list_search_path()) is True
        return self._make(top) if self._found[top] else None

    def _make(self, name: str) -> importlib.machinery.ModuleSpec:
        return importlib.machinery.ModuleSpec(name, RemoteLoader())  # type: ignore[arg-type]

    def _is_tree(self, path: str) -> bool:
        return path.startswith(self._root + "/") and "site-packages" not in path and "dist-packages" not in path

    def _connect(self) -> None:
        """Meet the template, the first time that something of the work is needed."""
        if session.control is not None:
            return
        if self._refusal:
            raise BoundaryError(self._refusal)
        door = self._place / DOOR
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(str(door))
            listener.listen(1)
            listener.settimeout(_PAUSE)
            (self._place / f"{PYTHON}.new").write_text(sys.executable, encoding="utf-8")
            (self._place / f"{PYTHON}.new").rename(self._place / PYTHON)
            connection = self._await_worker(listener)
        door.unlink()
        connection.settimeout(None)
        session.meet(connection)
        session.tell("path", _list_search_path(), os.environ.get("TMPDIR", ""))

    def _await_worker(self, listener: socket.socket) -> socket.socket:
        """Wait until the worker comes. Raises BoundaryError if it has ended, or comes too late."""
        until = time.monotonic() + _PATIENCE
        why = "it does not answer"
        while time.monotonic() < until:
            with suppress(TimeoutError):
                return listener.accept()[0]
            with suppress(FileNotFoundError):
                why = (self._place / ENDED).read_text(encoding="utf-8")
                break
        self._refusal = f"the worker cannot start: {why}"
        raise BoundaryError(self._refusal)


def install(place: str, root: str) -> None:
    """Install the finder, and the hooks of test runners."""
    from . import runner_hooks

    session.refer_by(JudgeReferences(root + "/"))
    words = getattr(sys, "orig_argv", sys.argv)
    if "-m" in words:
        sys.path.insert(0, str(Path.cwd()))
    sys.meta_path.insert(0, RemoteFinder(place, root))
    runner_hooks.watch(Path(place))
