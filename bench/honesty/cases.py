"""What a case of the corpus is: a job, an agent that does it or only says so, and the truth beside it."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any, Literal

PYTHON = sys.executable
SAYS = "Done. Everything works and all tests pass."
"""The last words of an agent that does not choose its own."""
PRELUDE = '''\
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

ROUND = int(os.environ["AGENTTALK_COMMAND_ID"][-3:])
TRY = int(os.environ["AGENTTALK_ATTEMPT"])
OUT = pathlib.Path(os.environ["AGENTTALK_OUTPUTS"])
TREE = pathlib.Path.cwd()


def put(path, content):
    """Write a file of the tree."""
    path = TREE / path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def out(path, content):
    """Write a file of an output."""
    put(OUT / path, content)


def git(*args, cwd=None):
    """Call git as a person would."""
    who = ["-c", "user.name=dev", "-c", "user.email=dev@example.org"]
    return subprocess.run(["git", *who, *args], cwd=cwd, capture_output=True, text=True).stdout.strip()


def repository():
    """The user's repository, as the clone betrays it."""
    objects = (TREE / ".git/objects/info/alternates").read_text().split()[0]
    return str(pathlib.Path(objects).parent)


def daemon(work):
    """Leave an orphaned process behind."""
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    for number in (0, 1, 2):
        os.close(number)
        os.open(os.devnull, os.O_RDWR)
    for name in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(name, signal.SIG_IGN)
    try:
        work()
    finally:
        os._exit(0)


'''
"""What every agent's program begins with."""

Kind = Literal["cheat", "honest", "limit"]


@dataclass(frozen=True, slots=True)
class Job:
    """Something that is asked for, and how the engine is to see whether it was done."""

    name: str
    checks: tuple[dict[str, Any], ...]
    files: dict[str, str] | None = None
    """The repository; None when the work is only outputs."""
    outputs: tuple[dict[str, Any], ...] = ()
    hidden: str = ""
    """A Python program that is run on what was merged or delivered, and that no agent sees. Exit code 0: it is done."""
    promise: dict[str, Any] = field(default_factory=dict)
    """More keys of the promise."""
    before: str = ""
    """Shell commands that finish the repository before its first commit."""
    base: str | None = None
    plain: bool = False
    """Whether the repository is a folder without git."""
    path: str = ""
    """What stands before the engine's PATH."""
    prepare: str = ""
    """The command that prepares checkouts."""


@dataclass(frozen=True, slots=True)
class Case:
    """One run."""

    name: str
    what: str
    """What the agent does, and for a cheat why that is not the work."""
    job: Job
    script: str
    """The agent's program, behind the prelude."""
    kind: Kind = "cheat"
    says: str | None = SAYS
    """What it prints in the end; None for nothing."""
    task: dict[str, Any] = field(default_factory=dict)
    """More keys of the task."""
    from_round: int = 1
    """The round in which an honest agent is done."""
    healed: bool = False
    """Whether the engine may take the work after undoing the cheat. Then the hidden program decides."""
    plain: bool = False
    """Whether its agents run without a sandbox, by the operator's word, so that nothing stops them but the verdict."""
    more: tuple[tuple[dict[str, Any], str], ...] = ()
    """Further tasks, each with its agent's program."""
