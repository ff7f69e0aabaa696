"""Help costs little: no command loads what does its work before it is asked to do it."""

from __future__ import annotations

import json
import subprocess
import sys

from agenttalk.doors.cli.main import COMMANDS, GROUPS

OURS = ("api", "contracts", "engine", "mailbox", "parts", "rules", "settings", "store", "wiring")
HEAVY = (*(f"agenttalk.{name}" for name in OURS), "apsw", "asyncio", "psycopg", "starlette", "uvicorn")
SHOWS = """
import json, os, sys
from contextlib import redirect_stdout
from agenttalk.doors.cli.main import COMMANDS, call
loaded = {}
with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
    for name in ["", *COMMANDS]:
        before = set(sys.modules)
        assert call([*name.split(), "--help"]) == 0
        loaded[name] = sorted(set(sys.modules) - before)
print(json.dumps(loaded))
"""


def test_no_help_loads_what_does_the_work() -> None:
    done = subprocess.run([sys.executable, "-c", SHOWS], capture_output=True, text=True, timeout=600, check=True)
    loaded = json.loads(done.stdout)
    assert set(loaded) == {"", *COMMANDS}
    heavy = {name: [each for each in modules if each.startswith(HEAVY)] for name, modules in loaded.items()}
    assert {name: modules for name, modules in heavy.items() if modules} == {}


def test_every_command_stands_in_one_group() -> None:
    grouped = [name for names in GROUPS.values() for name in names.split()]
    assert sorted(grouped) == sorted(COMMANDS)
