"""Finds remarks on a plan that depend on the files of its repository: files not committed, and gaps in its checks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from agenttalk.contracts.dag import Node
from agenttalk.contracts.errors import Code, Problem
from agenttalk.contracts.promise import AnyCheck, CompletionPromise, RunCheck, TestsCheck
from agenttalk.rules.checks import protection, test_runners
from agenttalk.rules.checks.protection import FileTree
from agenttalk.rules.core import scope
from agenttalk.rules.text import plan_words
from agenttalk.rules.text.message import join_names

_SHOWN: Final = 10
"""Uncommitted files that a remark names, at most."""


def find_remarks(nodes: Sequence[Node], paths: Collection[str], uncommitted: Collection[str]) -> list[Problem]:
    """Find what people should know before a plan begins with these files. No remark refuses the plan."""
    tree = FileTree.from_paths(paths)
    remarks = list(_uncommitted(uncommitted))
    for number, node in enumerate(nodes):
        if node.promise is not None and node.workspace == "repo":
            remarks += _of_promise(f"tasks[{number}].promise", node.promise, tree)
    return remarks


def _uncommitted(paths: Collection[str]) -> Iterator[Problem]:
    if paths:
        shown = sorted(scope.display_path(path) for path in paths)
        more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
        message = plan_words.PROBLEMS["uncommitted"](paths=f"{', '.join(shown[:_SHOWN])}{more}")
        hint = plan_words.HINTS["commit"]()
        yield Problem(Code.UNCOMMITTED, "workspace", message, hint)


def _of_promise(where: str, promise: CompletionPromise, tree: FileTree) -> Iterator[Problem]:
    held = protection.derive_protection(promise, tree)
    for number, check in enumerate(promise.checks):
        yield from _of_check(f"{where}.checks[{number}]", check, held, tree)
    if held.opened:
        message = plan_words.PROBLEMS["changes_checks"](paths=join_names(held.opened))
        yield Problem(Code.PLAN_DOUBTFUL, f"{where}.allowedScope", message, plan_words.HINTS["protect_it"]())


def _of_check(where: str, check: AnyCheck, held: protection.Protection, tree: FileTree) -> Iterator[Problem]:
    if not isinstance(check, RunCheck | TestsCheck):
        return
    opened = {field: (message, hint) for field, message, hint in _openings(check)}
    for field, (message, hint) in opened.items():
        yield Problem(Code.PLAN_DOUBTFUL, f"{where}.{field}", message, hint)
    tests = isinstance(check, TestsCheck) or test_runners.runs_tests(check.run)
    if tests and not check.protected and "protected" not in opened and not protection.list_check_files(check, tree):
        message = plan_words.PROBLEMS["nothing_protected"](check=check.id)
        yield Problem(Code.PLAN_DOUBTFUL, where, message, plan_words.HINTS["name_tests"]())
    named = [
        path for path in protection.list_check_files(check, tree) & held.standing if not test_runners.is_test(path)
    ]
    if named:
        message = plan_words.PROBLEMS["program_protected"](paths=join_names(named), check=check.id)
        hint = plan_words.HINTS["allow_program"]()
        yield Problem(Code.PLAN_DOUBTFUL, where, message, hint)


def list_open_points(promise: CompletionPromise) -> list[str]:
    """List the gaps in a promise's checks that the plan itself asks for."""
    return [message for check in promise.checks for _, message, _ in _openings(check)]


def _openings(check: AnyCheck) -> Iterator[tuple[str, str, str]]:
    """Yield each gap that a field of a check opens: the field, the gap and a hint."""
    if not isinstance(check, RunCheck | TestsCheck):
        return
    if check.protected is not None and not check.protected:
        message = plan_words.PROBLEMS["protects_nothing"](check=check.id)
        yield "protected", message, plan_words.HINTS["protect_files"]()
    if not check.protect_config:
        message = plan_words.PROBLEMS["configuration_open"](check=check.id)
        yield "protect_config", message, plan_words.HINTS["protect_settings"]()
