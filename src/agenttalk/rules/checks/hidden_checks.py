"""What an agent gets to know of checks that are hidden from it: that they are there, and whether they passed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agenttalk.contracts.command import Command
from agenttalk.contracts.promise import AnyCheck, CasesCheck, CompletionPromise, RunCheck, TestsCheck

_KNOWN: Final = frozenset({"id", "kind", "passed", "trust", "seconds", "weak"})
"""What of a result an agent may see."""


def is_hidden(check: AnyCheck) -> bool:
    """Whether a check is hidden from the agent."""
    return isinstance(check, RunCheck | TestsCheck | CasesCheck) and check.hidden is not False


def list_files(check: AnyCheck) -> tuple[str, ...]:
    """List the files beside the plan file from which a check is made."""
    cases = (check.cases_file,) if isinstance(check, CasesCheck) and check.cases_file is not None else ()
    return (*(check.files or ()), *cases)


def list_hidden(promise: CompletionPromise | None) -> frozenset[str]:
    """List the ids of the hidden checks of a promise."""
    return frozenset(check.id for check in promise.checks if is_hidden(check)) if promise is not None else frozenset()


def list_hidden_paths(promise: CompletionPromise | None) -> tuple[str, ...]:
    """List the files that no sandbox of the agent may show."""
    hidden = (
        [check for check in promise.checks if isinstance(check, RunCheck | TestsCheck | CasesCheck)] if promise else []
    )
    return tuple(dict.fromkeys(path for check in hidden for path in check.hidden_paths or ()))


def hide_checks(promise: CompletionPromise) -> CompletionPromise:
    """Return a promise without its hidden checks. Its criteria still name their evidence."""
    if not list_hidden(promise):
        return promise
    shown = tuple(check for check in promise.checks if not is_hidden(check))
    return promise.model_copy(update={"checks": shown})


def hide_command(command: Command) -> Command:
    """Return a command as its agent gets it."""
    if not list_hidden(command.promise) or command.promise is None:
        return command
    return command.model_copy(update={"promise": hide_checks(command.promise)})


def hide_results(told: Any, hidden: frozenset[str]) -> Any:
    """Remove what hidden checks found from a description of a task, but that they passed or failed."""
    if not hidden:
        return told
    match told:
        case Mapping() if told.get("id") in hidden:
            return {name: value for name, value in told.items() if name in _KNOWN}
        case Mapping() if isinstance(told.get("wants"), list) and not hidden.isdisjoint(told["wants"]):
            return {**told, "detail": ""}
        case Mapping():
            return {name: hide_results(value, hidden) for name, value in told.items()}
        case list() | tuple():
            return [hide_results(each, hidden) for each in told]
    return told
