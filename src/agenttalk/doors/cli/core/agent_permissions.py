"""Restricts the commands that the process of an agent may call. All commands outside this table are for people.

An agent works, asks and reads. It decides nothing, neither about its own work nor about that of others, in any root.
So a new command is for people until it is added here.
"""

from __future__ import annotations

import os
from typing import Any, Final

FOR_AGENTS: Final = frozenset(
    {
        # What an agent makes, and what it reports about its own task with its own token
        *("command generate", "command validate", "command envelope"),
        *("promise new", "promise validate", "promise check"),
        *("report", "output", "dispute", "mail send", "mail reply", "mcp"),
        # Commands that only read
        *("plan check", "plan assemble", "schema", "explain", "diff", "status", "honesty", "inbox", "doctor"),
        *("mail list", "mail read", "deadletter list", "deadletter show", "budget show", "schedule list"),
        *("agent list", "config show", "skill list", "toolchain tasks", "toolchain task", "toolchain warnings"),
        *("toolchain outgoing", "audit verify", "audit find"),
        "prove",  # as a hook of a coding agent, which lets an agent of ours stop; otherwise it asks for a person itself
    }
)
"""Commands that a process of an attempt may call, with their subcommands."""


def guard_against_agents(command: Any, path: str) -> None:
    """Have a command, and each of its subcommands, refuse agents unless it is for them."""
    subcommands = getattr(command, "commands", None)
    for name, subcommand in (subcommands or {}).items():
        guard_against_agents(subcommand, f"{path} {name}")
    if subcommands or path in FOR_AGENTS:
        return
    act = command.callback

    def refuse_agents(*args: Any, **options: Any) -> Any:
        require_person(path)
        return act(*args, **options)

    command.callback = refuse_agents


def is_agent() -> bool:
    """Return whether this process is an agent's."""
    from agenttalk.adapters.drivers import ancestry

    return bool(ancestry.attempt_of(os.getpid(), os.environ))


def require_person(path: str) -> None:
    """Raise UsageError when this process is an agent's."""
    from agenttalk.adapters.drivers import ancestry

    evidence = ancestry.attempt_of(os.getpid(), os.environ)
    if not evidence:
        return
    from agenttalk.contracts.errors import Code, UsageError

    raise UsageError(
        Code.PERSON_NEEDED,
        f"only people may run 'agenttalk {path}', and this process belongs to an agent: {evidence}",
        hint="ask a person to run it: by a question in your result, by 'ask_human', or by a letter",
    )
