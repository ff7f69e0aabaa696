"""Classes are small, and get what they need in their constructors."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from project.sourcekit import modules, nodes

MOST: Final = 20
"""Methods that a class may have, with those of its bases."""
LARGER: Final = {
    "GitObjects": 27,  # one method for each command of git
    "GiteaState": 45, "GiteaPulls": 42, "GiteaIssues": 25, "BareRepository": 22,  # a forge for tests
    "DecisionDraft": 22,  # one method for each kind of task
}  # fmt: skip
"""Classes that have more, and how many. They may only become smaller."""
COMPOSED: Final = ("agenttalk.wiring", "agenttalk.doors.api", "agenttalk.doors.mcp", "agenttalk.doors.pages",
                   "agenttalk.engine.operation", "agenttalk.engine.views")  # fmt: skip
"""Packages in which nothing is assigned to an object from outside."""
ASSIGNED: Final = {
    "self.router.redirect_slashes",  # Starlette takes it in no constructor
    "door.should_exit",  # this is how uvicorn is stopped
    "record.msg", "record.args", "record.exc_text", "record.exc_info",  # secrets are taken out of records of logs
    "deps.kinds[MAIL].replies",  # the kinds of tasks are made before the engine that answers letters
    "self.deps.operator.words",  # settings that are reloaded apply to what runs
    "self.counts.failures", "self.counts.dropped", "self.counts.sent",  # counters of the exporter itself
    "reading.seen", "reading.stored", "reading.spans", "seen.lost",  # records of a loop about its own progress
    "sheet.joined_checks",  # the definition of a plan is completed from other rows
}  # fmt: skip


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
    assert {name: size for name, size in sizes.items() if size > LARGER.get(name, MOST)} == {}


def assigned(name: str) -> Iterator[str]:
    """Attributes of other objects that a module assigns."""
    for node in nodes(name):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            own = isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}
            yield from () if own else (ast.unparse(node),)


def test_collaborators_come_in_constructors_and_are_not_assigned_later() -> None:
    composed = [name for name in modules() if name.startswith(COMPOSED)]
    assert {(name, each) for name in composed for each in assigned(name) if each not in ASSIGNED} == set()
