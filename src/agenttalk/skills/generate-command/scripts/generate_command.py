#!/usr/bin/env python3
"""Make an AgentTalk command: hands its arguments to `agenttalk command generate --json`.

The answer goes to standard output as JSON; the exit code is 0 for a command and 2 for a refusal.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys


def launcher() -> "list[str] | None":
    """Find the command line that calls agenttalk here; None if it is not installed."""
    named = os.environ.get("AGENTTALK_BIN") or shutil.which("agenttalk")
    if named:
        return [named]
    if importlib.util.find_spec("agenttalk"):
        return [sys.executable, "-m", "agenttalk"]
    return None


def main() -> int:
    """Run it; the exit code is agenttalk's."""
    program = launcher()
    if program is None:
        error = {
            "code": "NAME_UNKNOWN",
            "message": "the agenttalk command line is not installed",
            "hint": "put agenttalk on PATH, or set AGENTTALK_BIN to the program",
        }
        json.dump({"ok": False, "error": error}, sys.stdout)
        return 2
    return subprocess.run([*program, "command", "generate", "--json", *sys.argv[1:]], check=False).returncode  # noqa: S603


if __name__ == "__main__":
    sys.exit(main())
