"""What Python code reaches for, read from its syntax: under which name it does so, and over how many lines, is all one.

Names are followed through imports, plain assignments, `getattr` and texts that are put together from constants. What
is computed otherwise is not followed.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
import warnings
from collections.abc import Iterator
from typing import Final, NamedTuple

_DEPTH: Final = 12
"""How many steps a name is followed."""
_LONGEST: Final = 200
"""Characters of a text that is put together."""
_FRAMES: Final = frozenset(
    {
        *("sys._getframe", "sys._getframemodulename", "inspect.currentframe", "inspect.stack", "inspect.trace"),
        *("inspect.getouterframes", "inspect.getinnerframes", "traceback.walk_stack"),
    }
)
_INSIDES: Final = frozenset(
    {"sys._current_frames", "gc.get_objects", "gc.get_referrers", "gc.get_referents", "ctypes.pythonapi"}
)
_FRAME_PARTS: Final = frozenset({"f_locals"})
_IMPORTS: Final = frozenset({"__import__", "builtins.__import__", "importlib.import_module"})
_ENDS: Final = frozenset(
    {"os._exit", "os.abort", "posix._exit", "nt._exit", "os.kill", "os.killpg", "signal.raise_signal"}
)
_LEAVES: Final = frozenset({"sys.exit", "exit", "quit", "builtins.exit", "builtins.quit"})
_LATER: Final = frozenset({"atexit.register", "atexit._clear", "weakref.finalize", "threading._register_atexit"})
_MODULE_TABLES: Final = frozenset({"sys.modules", "sys.meta_path", "sys.path_hooks", "sys.path_importer_cache"})
_CHANGES: Final = frozenset(
    {"update", "setdefault", "pop", "clear", "insert", "append", "extend", "remove", "__setitem__"}
)
_TRACES: Final = frozenset(
    {"sys.settrace", "sys.setprofile", "threading.settrace", "threading.setprofile", "sys.addaudithook"}
)
_RUNNERS: Final = frozenset(
    {"_pytest", "pluggy", "unittest.case", "unittest.mock", "unittest.result", "unittest.runner", "unittest.suite"}
)
_OPEN: Final = {
    "sys": frozenset(
        {
            *("stdout", "stderr", "stdin", "argv", "path", "excepthook", "displayhook", "dont_write_bytecode"),
            *(
                "unraisablehook",
                "tracebacklimit",
                "ps1",
                "ps2",
                "last_type",
                "last_value",
                "last_traceback",
                "last_exc",
            ),
        }
    ),
    "warnings": frozenset({"showwarning", "formatwarning", "filters"}),
    "socket": frozenset({"timeout"}),
    "threading": frozenset({"excepthook"}),
    "os": frozenset({"environ", "environb"}),
    "readline": frozenset(),
}
"""Attributes of the standard library that are meant to be set."""
_STANDARD: Final = (frozenset(sys.stdlib_module_names) - {"typing"}) | {
    "pytest",
    "_pytest",
    "builtins",
    "__builtins__",
    "TestCase",
}
_COMPARES: Final = frozenset(
    {"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__contains__", "__instancecheck__"}
)
_RUNS: Final = frozenset({"exec", "eval", "compile", "builtins.exec", "builtins.eval", "builtins.compile"})
_DECODES: Final = frozenset(
    {
        *("base64", "binascii", "zlib", "bz2", "lzma", "gzip", "codecs.decode", "marshal.loads", "bytes.fromhex"),
        *("bytearray.fromhex", "chr", "builtins.chr", "bytes", "bytearray"),
    }
)
_RUNNER_SIGNS: Final = ("PYTEST_CURRENT_TEST", "PYTEST_VERSION", "PYTEST_XDIST_WORKER")
_PROCESSES: Final = re.compile(
    r"\A/proc/(?:1|self/(?:cmdline|mounts?|mountinfo|environ|stat|status))(?:/|\Z)|\Abwrap\Z"
)
"""Files that tell in which process, and between which mounts, a program runs."""
_READERS: Final = frozenset(
    {"open", "read_text", "read_bytes", "glob", "rglob", "iglob", "listdir", "scandir", "walk", "Path", "joinpath"}
)
_JOINS: Final = frozenset({"os.path.join", "posixpath.join", "pathlib.Path"})
_TEMPORARY: Final = frozenset({"tempfile.gettempdir", "tempfile.tempdir"})
_TEST_PATH: Final = re.compile(r"(?:.*/)?(?:tests?/.*|test_[^/]*|[^/]*_test)\.py\Z|(?:.*/)?te?s?t?\*+/.*\.py\Z")
_RUNNER_NAMES: Final = frozenset({"pytest", "_pytest", "unittest", "py.test", "nose", "pluggy"})
_PLACES: Final = frozenset({"CI", "GITHUB_ACTIONS", "GITLAB_CI", "TOX_ENV_NAME", "BUILD_ID"})
_WHO: Final = frozenset(
    {"getpass.getuser", "os.getlogin", "socket.gethostname", "platform.node", "os.getppid", "uuid.getnode"}
)
_OURS: Final = "agenttalk"
_CLOCKS: Final = frozenset(
    {
        *("time.time", "time.time_ns", "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.date.today"),
        *("datetime.datetime.today", "time.localtime", "time.gmtime", "datetime.now", "date.today"),
    }
)
_NETWORK: Final = frozenset(
    {
        *("urllib.request.urlopen", "urllib.request.urlretrieve", "socket.create_connection", "socket.socket"),
        *("http.client.HTTPConnection", "http.client.HTTPSConnection", "requests.get", "requests.post", "httpx.get"),
        "httpx.post",
    }
)
_NO_NAME: Final = ""
_KNOWN: Final = frozenset(dir(builtins)) | {"builtins", "__builtins__", "os", "sys", "inspect", "gc", "TestCase"}
"""Names that mean the same without an import that is seen."""
_LABELS: Final = frozenset({"__doc__", "__name__", "__qualname__", "__module__", "__wrapped__", "__signature__"})
"""What only tells people something about a function."""


class Reach(NamedTuple):
    """A place where code reaches for something, by the id of the rule that tells of it."""

    rule: str
    first: int
    """Its first line, and where it ends: a statement over several lines is suspicious when one of them is new."""
    last: int


def find_reaches(source: str) -> tuple[Reach, ...] | None:
    """Find what code reaches for. None if it cannot be read as Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return tuple(dict.fromkeys(_Reader(tree).read()))


class _Reader:
    """Reads one module."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._imported: dict[str, str] = {}
        """Name → the module or member that it was imported from."""
        self._assigned: dict[str, ast.expr] = {}
        """Name → what it was assigned first."""
        self._imports_all = False
        """Whether it takes all names of another module, so that any name can be one of a module."""
        for node in ast.walk(tree):
            self._learn(node)

    def _learn(self, node: ast.AST) -> None:
        match node:
            case ast.Import():
                for each in node.names:
                    top = each.name.partition(".")[0]
                    self._imported[each.asname or top] = each.name if each.asname else top
            case ast.ImportFrom(names=[ast.alias(name="*")]):
                self._imports_all = True
            case ast.ImportFrom(module=str(module), level=0):
                self._imported |= {each.asname or each.name: f"{module}.{each.name}" for each in node.names}
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.NamedExpr(target=ast.Name(id=name), value=value)
            ):
                self._assigned.setdefault(name, value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                self._assigned.setdefault(name, value)

    def read(self) -> Iterator[Reach]:
        """Find everything, in the order of the tree."""
        for statement in self._tree.body:
            yield from self._leaves(statement)
        for node in ast.walk(self._tree):
            for rule in self._judge(node):
                yield Reach(rule, node.lineno, node.end_lineno or node.lineno)  # type: ignore[attr-defined]

    def _judge(self, node: ast.AST) -> Iterator[str]:
        match node:
            case ast.Import() | ast.ImportFrom():
                yield from self._imports(node)
            case ast.Attribute():
                yield from _reads(self._path(node), node.attr)
            case ast.Call():
                yield from self._calls(node, self._path(node.func))
            case ast.Assign():
                for target in node.targets:
                    yield from self._sets(target, node.value)
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
                yield from self._sets(target, None)
            case ast.Delete():
                for target in node.targets:
                    yield from self._sets(target, None)
            case _:
                yield from self._judge_rest(node)

    def _judge_rest(self, node: ast.AST) -> Iterator[str]:
        match node:
            case ast.Compare():
                yield from self._compares(node)
            case ast.BinOp(left=left, op=ast.Div(), right=right) if self._names_temporary([*_unwrap(left), right]):
                yield "state-kept"
            case ast.FunctionDef(name=name) if name in _COMPARES and _is_constant(node):
                yield "always-equal"
            case ast.Constant(value=str(text)) if len(text) < _LONGEST and any(sign in text for sign in _RUNNER_SIGNS):
                yield "test-detected"
            case ast.Constant(value=str(text)) if _PROCESSES.match(text):
                yield "process-probed"
            case ast.Dict():
                pairs = zip(node.keys, node.values, strict=True)
                if any(self._text(key) in _COMPARES and _is_constant(value) for key, value in pairs):
                    yield "always-equal"

    def _imports(self, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
        names = [each.name for each in node.names]
        if isinstance(node, ast.ImportFrom):
            names = [] if node.level else [f"{node.module}.{name}" for name in names]
        if any(_is_in(name, _RUNNERS) for name in names):
            yield "runner-imported"
        if any(name in _FRAMES for name in names):
            yield "frame-read"
        if any(name in _ENDS - {"os.kill", "os.killpg"} for name in names):
            yield "early-exit"

    def _calls(self, node: ast.Call, path: str) -> Iterator[str]:
        if not isinstance(node.func, ast.Attribute):
            yield from _reads(path, "")
        if path in {"os.kill", "signal.raise_signal"} and node.args and self._is_self(node, path):
            yield "early-exit"
        if path in _LATER:
            yield "exit-hooked"
        if path.removeprefix("builtins.") in {"setattr", "delattr"} and len(node.args) >= 2:
            owner, name = self._path(node.args[0]), self._text(node.args[1])
            yield from _patched(f"{owner}.{name or '?'}" if owner else "")
            if name in _COMPARES and len(node.args) > 2 and _is_constant(node.args[2]):
                yield "always-equal"
        if path in _IMPORTS and node.args and _is_in(self._text(node.args[0]), _RUNNERS):
            yield "runner-imported"
        if path == "next" and node.args and self._is_list_of_answers(node.args[0]):
            yield "state-kept"
        if path in _JOINS and self._names_temporary(node.args):
            yield "state-kept"
        name = node.func.attr if isinstance(node.func, ast.Attribute) else path.rpartition(".")[2]
        if name in _READERS and any(_TEST_PATH.match(self._text(each)) for each in node.args):
            yield "tests-read"
        yield from self._tables(node, path)
        yield from self._runs(node, path)
        yield from self._probes(node, path)

    def _tables(self, node: ast.Call, path: str) -> Iterator[str]:
        """Find calls that change the tables of modules, or what is in one."""
        owner, _, method = path.rpartition(".")
        if owner in _MODULE_TABLES and method in _CHANGES and not _is_own_module(node.args[0] if node.args else None):
            yield "modules-replaced"
        if method in {"update", "__setitem__"} and owner.endswith(".__dict__"):
            yield from _patched(f"{owner.removesuffix('.__dict__')}.?")
        if path == "sys.modules.get" and node.args and self._text(node.args[0]) in _RUNNER_NAMES:
            yield "test-detected"

    def _runs(self, node: ast.Call, path: str) -> Iterator[str]:
        """Find texts and bytes that are run."""
        if path == "marshal.loads":
            yield "code-decoded"
        if (path in _RUNS or path == "types.FunctionType") and node.args:
            if any(self._decodes(each) for each in node.args):
                yield "code-decoded"
            elif not path.endswith("compile") and not isinstance(node.args[0], ast.Constant):
                yield "code-executed"

    def _probes(self, node: ast.Call, path: str) -> Iterator[str]:
        named = self._text(node.args[0]) if node.args else ""
        if path in {"os.getenv", "os.environ.get"} and named:
            yield from _read_variable(named)
        if path.startswith(("os.path.", "pathlib.")) and named and (named.endswith(".git") or _OURS in named):
            yield "place-probed"
        if path in _WHO:
            yield "place-probed"
        if path in _NETWORK:
            yield "network-used"

    def _sets(self, target: ast.expr, value: ast.expr | None) -> Iterator[str]:
        match target:
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    yield from self._sets(part, None)
            case ast.Attribute():
                yield from _patched(self._path(target))
            case ast.Subscript(value=held, slice=key):
                owner = self._path(held)
                if owner in _MODULE_TABLES and not _is_own_module(key):
                    yield "modules-replaced"
                if owner in {"__builtins__", "builtins"} or owner.endswith(".__dict__"):
                    yield from _patched(f"{owner.removesuffix('.__dict__')}.{self._text(key) or '?'}")
            case ast.Name(id=name) if name in _COMPARES and value is not None and _is_constant(value):
                yield "always-equal"

    def _compares(self, node: ast.Compare) -> Iterator[str]:
        sides = [node.left, *node.comparators]
        paths = [self._path(each.func) if isinstance(each, ast.Call) else self._path(each) for each in sides]
        texts = [self._text(each) for each in sides]
        if "sys.modules" in paths and any(text in _RUNNER_NAMES for text in texts):
            yield "test-detected"
        if any(path.startswith("sys.argv") for path in paths) and any("pytest" in text for text in texts):
            yield "test-detected"
        if "os.environ" in paths:
            for text in texts:
                yield from _read_variable(text)
        if any(path in _CLOCKS for path in paths) and any(isinstance(each, ast.Constant) for each in sides):
            yield "clock-compared"

    def _leaves(self, node: ast.stmt) -> Iterator[Reach]:
        """Find what ends the program with success where a module is only loaded."""
        match node:
            case ast.Expr(value=ast.Call() as call) if self._path(call.func) in _LEAVES and _is_success(call.args):
                yield Reach("early-exit", node.lineno, node.end_lineno or node.lineno)
            case ast.Raise(exc=ast.Call(func=ast.Name(id="SystemExit")) as call) if _is_success(call.args):
                yield Reach("early-exit", node.lineno, node.end_lineno or node.lineno)
            case ast.Raise(exc=ast.Name(id="SystemExit")):
                yield Reach("early-exit", node.lineno, node.end_lineno or node.lineno)
            case ast.If() if not _asks_for_main(node.test):
                for each in (*node.body, *node.orelse):
                    yield from self._leaves(each)
            case ast.Try():
                for each in (*node.body, *node.orelse, *node.finalbody):
                    yield from self._leaves(each)

    def _path(self, node: ast.AST | None, depth: int = _DEPTH) -> str:
        """Return the dotted name of what an expression means; empty if it is not known."""
        if depth <= 0:
            return _NO_NAME
        match node:
            case ast.Name(id=name) if name in self._imported:
                return self._imported[name]
            case ast.Name(id=name) if name in self._assigned:
                value = self._assigned[name]
                return self._path(value, depth - 1) if isinstance(value, _FOLLOWED) else name
            case ast.Name(id=name):
                return name if name in _KNOWN or self._imports_all else _NO_NAME
            case ast.Attribute(value=value, attr=attr):
                owner = self._path(value, depth - 1)
                return f"{owner}.{attr}" if owner else _NO_NAME
            case ast.Call(func=func, args=args):
                return self._called(self._path(func, depth - 1), args, depth)
            case ast.Subscript(value=value, slice=key):
                owner, name = self._path(value, depth - 1), self._text(key, depth - 1)
                if owner == "sys.modules" and name:
                    return name
                if owner.endswith(".__dict__") and name:
                    return f"{owner.removesuffix('.__dict__')}.{name}"
                return f"{owner}[]" if owner == "sys.argv" else _NO_NAME
        return _NO_NAME

    def _called(self, path: str, args: list[ast.expr], depth: int) -> str:
        if path.removeprefix("builtins.") == "getattr" and len(args) >= 2:
            owner, name = self._path(args[0], depth - 1), self._text(args[1], depth - 1)
            return f"{owner}.{name}" if owner and name else _NO_NAME
        if path.removeprefix("builtins.") == "vars" and len(args) == 1:
            owner = self._path(args[0], depth - 1)
            return f"{owner}.__dict__" if owner else _NO_NAME
        if path in {*_IMPORTS, "sys.modules.get"} and args:
            return self._text(args[0], depth - 1)
        return _NO_NAME

    def _text(self, node: ast.AST | None, depth: int = _DEPTH) -> str:
        """Return a text that is put together from constants; empty if it is not known."""
        if depth <= 0:
            return ""
        match node:
            case ast.Constant(value=str(text)):
                return text[:_LONGEST]
            case ast.Constant(value=bytes(data)):
                return data[:_LONGEST].decode("latin-1")
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                one, other = self._text(left, depth - 1), self._text(right, depth - 1)
                return (one + other)[:_LONGEST] if one and other else ""
            case ast.JoinedStr(values=parts):
                texts = [
                    self._text(part.value if isinstance(part, ast.FormattedValue) else part, depth - 1)
                    for part in parts
                ]
                return "".join(texts)[:_LONGEST] if all(texts) else ""
            case ast.Call(
                func=ast.Attribute(value=ast.Constant(value=str(mark)), attr="join"),
                args=[ast.List() | ast.Tuple() as given],
            ):
                texts = [self._text(part, depth - 1) for part in given.elts]
                return mark.join(texts)[:_LONGEST] if texts and all(texts) else ""
            case ast.Call(func=ast.Attribute(value=value, attr="decode" | "lower" | "strip"), args=[]):
                return self._text(value, depth - 1)
            case ast.Subscript(
                value=value,
                slice=ast.Slice(lower=None, upper=None, step=ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1))),
            ):
                return self._text(value, depth - 1)[::-1]
            case ast.Name(id=name) if name in self._assigned:
                return self._text(self._assigned[name], depth - 1)
        return ""

    def _decodes(self, node: ast.AST) -> bool:
        """Whether an expression makes its value of something unreadable. Each name is followed once."""
        seen: set[str] = set()
        left = [node]
        while left:
            for each in ast.walk(left.pop()):
                if isinstance(each, ast.Call):
                    path = self._path(each.func)
                    if _is_in(path, _DECODES) or path.endswith(".fromhex"):
                        return True
                    if isinstance(each.func, ast.Attribute) and each.func.attr == "translate":
                        return True
                elif isinstance(each, ast.Name) and each.id in self._assigned and each.id not in seen:
                    seen.add(each.id)
                    left.append(self._assigned[each.id])
        return False

    def _is_list_of_answers(self, node: ast.expr) -> bool:
        """Whether a name stands for an iterator over constants, which gives the next one at each call."""
        made = self._assigned.get(node.id) if isinstance(node, ast.Name) else None
        match made:
            case ast.Call(func=func, args=[ast.List() | ast.Tuple()]):
                return self._path(func) == "iter"
        return False

    def _names_temporary(self, parts: list[ast.expr]) -> bool:
        """Whether a path is made of the folder for temporary files and a name that is always the same."""
        paths = [self._path(each.func) if isinstance(each, ast.Call) else self._path(each) for each in parts]
        return any(path in _TEMPORARY for path in paths) and any(map(self._text, parts))

    def _is_self(self, node: ast.Call, path: str) -> bool:
        return path != "os.kill" or (
            isinstance(node.args[0], ast.Call) and self._path(node.args[0].func) == "os.getpid"
        )


_FOLLOWED: Final = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)


def _read_variable(name: str) -> Iterator[str]:
    """Tell of a variable of the environment that shows where the code runs."""
    if name.startswith("PYTEST_") or _OURS in name.lower():
        yield "test-detected"
    elif name in _PLACES:
        yield "place-probed"


def _is_own_module(key: ast.AST | None) -> bool:
    """Whether a key of `sys.modules` is the module itself, or a name made of it."""
    return key is not None and any(isinstance(each, ast.Name) and each.id == "__name__" for each in ast.walk(key))


def _reads(path: str, attr: str) -> Iterator[str]:
    """Tell of a name that is enough to know what is meant."""
    if path in _INSIDES or attr in _FRAME_PARTS:
        yield "frame-searched"
    elif path in _FRAMES:
        yield "frame-read"
    if path in {"os._exit", "os.abort"}:
        yield "early-exit"
    if path in _TRACES:
        yield "runner-touched"


def _patched(path: str) -> Iterator[str]:
    """Tell of a member of another's module that is set."""
    top, _, rest = path.partition(".")
    member = rest.partition(".")[0]
    if not rest or rest.rpartition(".")[2] in _LABELS or top not in _STANDARD or member in _OPEN.get(top, ()):
        return
    if top in {"builtins", "__builtins__", "pytest", "_pytest", "unittest", "TestCase"}:
        yield "runner-touched"
    else:
        yield "library-patched"


def _unwrap(node: ast.expr) -> list[ast.expr]:
    """Return an expression, or what a call of one argument, such as `Path(...)`, is given."""
    return node.args if isinstance(node, ast.Call) and len(node.args) == 1 else [node]


def _is_in(path: str, names: frozenset[str]) -> bool:
    """Whether a dotted name is one of these, or a part of one."""
    return path in names or any(path.startswith(f"{name}.") for name in names)


def _asks_for_main(node: ast.expr) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "__name__" for each in ast.walk(node))


def _is_success(args: list[ast.expr]) -> bool:
    return not args or (isinstance(args[0], ast.Constant) and args[0].value in {0, None})


def _is_constant(node: ast.AST) -> bool:
    """Whether a comparison returns an answer that is not compared with anything, and that means yes."""
    match node:
        case ast.Lambda(body=body):
            return _says_yes(body)
        case ast.FunctionDef():
            returned = [each for each in ast.walk(node) if isinstance(each, ast.Return)]
            said = [each.value for each in returned if each.value is not None]
            return bool(said) and len(said) == len(returned) and all(_says_yes(each) for each in said)
    return False


def _says_yes(node: ast.expr) -> bool:
    """Whether an answer is a constant that means yes, or is computed of constants alone."""
    if isinstance(node, ast.Constant):
        return node.value not in {None, 0} and node.value is not ...
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return not names and isinstance(node, ast.UnaryOp | ast.BoolOp | ast.Compare | ast.Call)
