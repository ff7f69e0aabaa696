"""Classes are small, and get what they need in their constructors."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final, TypeGuard

from project.sourcekit import modules, nodes, tree

MOST: Final = 20
"""Methods that a class may have, with those of its bases."""
COMPOSED: Final = ("agenttalk.wiring", "agenttalk.doors.api", "agenttalk.doors.mcp", "agenttalk.doors.pages",
                   "agenttalk.engine", "agenttalk.adapters")  # fmt: skip
"""Packages in which a module assigns only fields of its own classes."""
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
}  # fmt: skip
"""State that several modules of a package change together."""
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
    bases = [base.id if isinstance(base, ast.Name) else getattr(base, "attr", "") for base in known[name].bases]
    return own.union(*(methods(base, known) for base in bases))


def test_no_class_has_more_methods_than_one_can_look_through() -> None:
    known = classes()
    sizes = {name: len(methods(name, known)) for name in known}
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
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and not is_own(node):
            yield from () if node.attr in own else (ast.unparse(node),)


def test_collaborators_come_in_constructors_and_are_not_assigned_later() -> None:
    composed = [name for name in modules() if name.startswith(COMPOSED)]
    known = ASSIGNED | STATE
    assert {(name, target) for name in composed for target in assigned(name) if target not in known} == set()


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
    assert {f"{name}: {target}" for name in modules() for target in changed(name)} - CONSTANT == set()
    assert {f"{name}: {function}" for name in modules() for function in unbounded(name)} == set()
