#!/usr/bin/env python3
"""Check an AgentTalk artifact: its envelope by `agenttalk command validate --json`, and its files by size and hash.

The answer goes to standard output as JSON; the exit code is 0 when all is as it was sent, else 2.
"""

import argparse
import hashlib
import importlib.util
import json
import os
import pathlib
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


def problem(code: str, field: str, message: str, hint: str = "") -> "dict[str, str]":
    """Build one entry of the list of problems."""
    return {"code": code, "field": field, "message": message, "hint": hint}


def checked(envelope: pathlib.Path) -> "list[dict[str, str]]":
    """Return the problems that agenttalk finds in the envelope."""
    program = launcher()
    if program is None:
        hint = "put agenttalk on PATH, or set AGENTTALK_BIN to the program"
        return [problem("NAME_UNKNOWN", "", "the agenttalk command line is not installed", hint)]
    asked = [*program, "command", "validate", "--json", str(envelope)]
    done = subprocess.run(asked, check=False, capture_output=True, text=True)  # noqa: S603
    try:
        said = json.loads(done.stdout)
    except ValueError:
        return [problem("UNHANDLED_EXCEPTION", "", done.stderr.strip() or "agenttalk said nothing")]
    if done.returncode == 0:
        return []
    return said.get("errors") or [said.get("error") or problem("FIELD_VALUE", "", "it is not valid")]


def compared(envelope: pathlib.Path, folder: pathlib.Path) -> "list[dict[str, str]]":
    """Compare the files of a folder with the envelope; returns the differences as problems."""
    found = []
    files = json.loads(envelope.read_text(encoding="utf-8")).get("payload", {}).get("files", [])
    for file in files:
        path, inside = folder / file["path"], folder.resolve()
        if inside not in path.resolve().parents or not path.is_file():
            found.append(problem("MISSING_PAYLOAD", file["path"], "the file is not there"))
            continue
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest != file["sha256"].removeprefix("sha256:"):
            found.append(problem("PAYLOAD_HASH_MISMATCH", file["path"], f"it has the hash sha256:{digest}"))
    if not files:
        found.append(problem("MISSING_PAYLOAD", "payload.files", "the artifact has no files"))
    return found


def main() -> int:
    """Check it."""
    parser = argparse.ArgumentParser(description="Check an AgentTalk artifact.")
    parser.add_argument("envelope", type=pathlib.Path)
    parser.add_argument("--files", type=pathlib.Path, help="where its files lie, if not beside the envelope")
    given = parser.parse_args()
    errors = checked(given.envelope)
    if not errors:
        errors = compared(given.envelope, given.files or given.envelope.parent)
    json.dump({"ok": not errors, "errors": errors}, sys.stdout, ensure_ascii=False)
    return 2 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
