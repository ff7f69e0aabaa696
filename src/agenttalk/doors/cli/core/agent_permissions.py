"""Which commands an agent's own process may call. Whatever is not in the table is for people.

An agent does its work, asks and looks; it decides nothing: neither about its own work nor about another's, whatever
root it names. So a command that is added is for people until somebody writes here that it is not.
"""

from __future__ import annotations

import os
from typing import Any, Final

FOR_AGENTS: Final = frozenset(
    {
        # What it makes, and what it says of its own task with its own token
        *("command generate", "command validate", "command envelope"),
        *("promise new", "promise validate", "promise check"),
        *("report", "output", "dispute", "mail send", "mail reply", "mcp"),
        # What changes nothing
        *("plan check", "plan assemble", "schema", "explain", "diff", "status", "honesty", "inbox", "doctor"),
        *("mail list", "mail read", "deadletter list", "deadletter show", "budget show", "schedule list"),
        *("agent list", "config show", "skill list", "toolchain tasks", "toolchain task", "toolchain warnings"),
        *("toolchain outgoing", "audit verify", "audit find"),
    }
)
"""Commands that a process of an attempt may call, with their subcommands."""


def guard_against_agents(command: Any, path: str) -> None:
    """Have every command below refuse agents, unless it is for them."""
    below = getattr(command, "commands", None)
    for name, each in (below or {}).items():
        guard_against_agents(each, f"{path} {name}")
    if below or path in FOR_AGENTS:
        return
    act = command.callback

    def refuse_agents(*args: Any, **options: Any) -> Any:
        require_person(path)
        return act(*args, **options)

    command.callback = refuse_agents


def require_person(path: str) -> None:
    """Raise UsageError when this process is an agent's."""
    from agenttalk.adapters.drivers import ancestry

    found = ancestry.attempt_of(os.getpid(), os.environ)
    if not found:
        return
    from agenttalk.contracts.errors import Code, UsageError

    raise UsageError(
        Code.PERSON_NEEDED,
        f"'agenttalk {path}' is for people, and this is an agent's process: {found}",
        hint="ask a person to do it: by a question in your result, 'ask_human', or a letter",
    )
