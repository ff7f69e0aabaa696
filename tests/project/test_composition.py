"""Classes are small, and get what they need in their constructors."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from typing import Final, TypeGuard

import pytest

from project.sourcekit import modules, nodes, tree

MOST: Final = 20
"""Methods that a class may have, with those of its bases."""
ASSIGNED: Final = {
    "self.router.redirect_slashes",  # Starlette takes it in no constructor
    "door.should_exit",  # this is how uvicorn is stopped
    "record.msg", "record.args", "record.exc_text", "record.exc_info",  # secrets are taken out of records of logs
    "deps.kinds[MAIL].replies",  # the kinds of tasks are made before the engine that answers letters
    "self.deps.operator.words",  # settings that are reloaded apply to what runs
    "connection.cut", "connection.response_class", "copy.__cause__",  # Python takes them in no constructor
    "member.gname", "member.mode", "member.size", "member.uname",  # nor these of an archive
    "params.api_keys", "params.cpuparams.n_threads", "params.cpuparams_batch.n_threads", "params.model.path",
    "params.n_ctx", "params.n_parallel", "params.verbosity", "params.warmup",  # nor llama.cpp its parameters
    "command.callback", "command.get_params", "command.rich_markup_mode", "ctx.obj", "param._LOOK",  # nor click these
    "parser.StartElementHandler", "parser.EndElementHandler", "parser.StartDoctypeDeclHandler",  # nor expat its handlers
    "lexer.whitespace_split", "lexer.commenters",  # nor shlex how it splits
    "self._server.should_exit", "self._server.force_exit", "self._server.daemon_threads",  # nor servers these
    "sys.name", "function._MARK",  # standard output while a block is drawn; the mark of a decorator
}  # fmt: skip
STATE: Final = {
    "self.account.broken", "account.cost_usd", "account.estimated", "account.read",
    "account.requests", "account.written",  # what a turn used, counted where it asks a model
    "attempt.epoch", "attempt.fact", "attempt.history", "attempt.inputs", "attempt.lease", "attempt.number",
    "attempt.passage", "attempt.sent_back", "attempt.token",  # an attempt, while it is being leased
    "tick.archived", "tick.asked", "tick.claimed", "tick.dead", "tick.errors", "tick.failed", "tick.ran",
    "tick.running", "tick.waiting",  # what a heartbeat reports of one tick
    "board.ends", "board.writing", "self._state.ended", "self._state.revoked",  # what parts of the dispatcher share
    "job.error", "job.value",  # the answer of a thread of the store
    "draft.deployed", "draft.held",  # what follows from an event, while it is being decided
}  # fmt: skip
"""State that several modules of a package change together."""
STORED: Final = re.compile(r"(pull|issue|pull\.issue|review|comment|repository|user|self\.issue_of\(.*\))\.\w+")
"""What the forge for tests stores. Its modules change that as requests ask for it, as a real forge changes rows."""
APART: Final = "agenttalk.adapters.checking.boundary"
"""Programs that run in processes of their own, where they put stand-ins in the place of what a test runner has."""
CONSTANT: Final = {
    "agenttalk.contracts.core.quick_validation: _plain",  # filled while modules are imported, and never later
}
"""Containers of modules that functions fill. Any other belongs into an object that its users are given."""


def classes() -> dict[str, ast.ClassDef]:
    return {node.name: node for name in modules() for node in nodes(name) if isinstance(node, ast.ClassDef)}


def methods(name: str, known: dict[str, ast.ClassDef]) -> set[str]:
    """The methods of a class of ours and of its bases."""
    if name not in known:
        return set()
    own = {node.name for node in known[name].body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    return own.union(*(methods(base_name(base), known) for base in known[name].bases))


def base_name(base: ast.expr) -> str:
    """The name of a base, also of one with types in brackets."""
    if isinstance(base, ast.Subscript):
        return base_name(base.value)
    return base.id if isinstance(base, ast.Name) else getattr(base, "attr", "")


def test_no_class_has_more_methods_than_one_can_look_through() -> None:
    known = classes()
    sizes = {name: len(methods(name, known)) for name in known}
    assert len(methods("DatabaseWriter", known)) > len(methods("BatchWorker", known)) > 5  # bases count, too
    assert {name: size for name, size in sizes.items() if size > MOST} == {}


def declared(name: str) -> set[str]:
    """The fields of the classes of a module: a module may keep its own state."""
    fields: set[str] = set()
    for node in nodes(name):
        if isinstance(node, ast.ClassDef):
            fields |= {part.target.id for part in node.body if isinstance(part, ast.AnnAssign)
                       and isinstance(part.target, ast.Name)}  # fmt: skip
            fields |= {part.attr for part in ast.walk(node) if is_own(part)}
    return fields


def is_own(node: ast.AST) -> TypeGuard[ast.Attribute]:
    """Whether an object assigns its own attribute."""
    if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Store):
        return False
    return isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}


def assigned(name: str) -> Iterator[str]:
    """Attributes of objects of other modules that a module assigns."""
    own = declared(name)
    for node in nodes(name):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load) and not is_own(node):
            yield from () if node.attr in own else (ast.unparse(node),)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"setattr", "object.__setattr__", "delattr"}:
            thing, field = (ast.unparse(arg) for arg in node.args[:2])
            yield from (
                () if thing in {"self", "cls"} or field.strip("'") in own else (f"{thing}.{field.strip(chr(39))}",)
            )


def is_allowed(name: str, target: str) -> bool:
    if name.startswith("agenttalk.testing.") and STORED.fullmatch(target):
        return True
    return name.startswith(APART) or target in ASSIGNED | STATE


def test_collaborators_come_in_constructors_and_are_not_assigned_later() -> None:
    found = {(name, target) for name in modules() for target in assigned(name) if not is_allowed(name, target)}
    assert found == set()


CHANGES: Final = {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft",
                  "remove", "setdefault", "update"}  # fmt: skip
"""Methods that change a container."""
BOUNDED: Final = ("type[", "DialectName")
"""Types of arguments of which there are only as many values as the code names."""


def containers(module: ast.Module) -> set[str]:
    """The names that a module assigns."""
    targets = [target for node in module.body if isinstance(node, ast.Assign) for target in node.targets]
    targets += [node.target for node in module.body if isinstance(node, ast.AnnAssign)]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def classes_of(name: str) -> set[str]:
    """What a function may call a class, or a module of ours: what those hold, all their users share."""
    imported = {alias.asname or alias.name for node in nodes(name) if isinstance(node, ast.ImportFrom)
                and (node.module or "").startswith("agenttalk") for alias in node.names}  # fmt: skip
    return imported | {node.name for node in nodes(name) if isinstance(node, ast.ClassDef)} | {"cls"}


def root_of(node: ast.expr) -> str:
    """The name at which a chain of attributes begins."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def changed(name: str) -> Iterator[str]:
    """The names of a module that its functions change."""
    names = containers(tree(name))
    for function in nodes(name):
        for node in ast.walk(function) if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) else ():
            target: ast.expr | None = None
            if isinstance(node, ast.Global):
                yield from node.names
            elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
                target = node.value
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
                target = node.func.value
            if isinstance(target, ast.Name) and target.id in names:
                yield target.id
            if isinstance(target, ast.Attribute) and root_of(target) in classes_of(name):
                yield ast.unparse(target)


def unbounded(name: str) -> Iterator[str]:
    """Functions whose answers are kept, and nothing says how many."""
    for node in nodes(name):
        for decorator in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
            assert isinstance(node, ast.FunctionDef)
            text = ast.unparse(decorator).removeprefix("functools.")
            types = [ast.unparse(arg.annotation) if arg.annotation else arg.arg for arg in node.args.args]
            if text == "cache" and not all(kind.startswith(BOUNDED) for kind in types):
                yield node.name
            if text.startswith("lru_cache") and not re.fullmatch(r"lru_cache\(maxsize=(\d+|[A-Z_]+)\)", text):
                yield node.name


def test_nothing_is_kept_in_modules_but_bounded_answers_of_pure_functions() -> None:
    kept = {f"{name}: {target}" for name in modules() if not name.startswith(APART) for target in changed(name)}
    assert kept - CONSTANT == set()
    assert {f"{name}: {function}" for name in modules() for function in unbounded(name)} == set()


PLANTED = """
from agenttalk.engine.core import boards

class Cache:
    known = {}

    def __init__(self):
        self.size = 0

    def keep(self, key):
        Cache.known[key] = 1
        boards.seen.append(key)

KNOWN = {}

def fill(other, key):
    KNOWN[key] = 1
    other.router = key
    setattr(other, "wake", key)
    other.size = 2
"""


def test_state_in_modules_and_assignments_from_outside_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    here, planted = sys.modules[__name__], ast.parse(PLANTED)
    monkeypatch.setattr(here, "tree", lambda _: planted)
    monkeypatch.setattr(here, "nodes", lambda _: tuple(ast.walk(planted)))
    assert set(changed("planted")) == {"KNOWN", "Cache.known", "boards.seen"}
    assert set(assigned("planted")) == {"other.router", "other.wake"}
