"""`agenttalk serve` as a process of its own, and programs that play agents."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import preloaded
from kits.treekit import Tree

PATIENCE = 300.0
REPORTS = """
import json, os, pathlib, socket, sys, http.client

class Over(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(os.environ["AGENTTALK_SOCKET"])

def say(body):
    connection = Over("agenttalk")
    path = "/api/projects/default/tasks/%(AGENTTALK_PLAN_ID)s:%(AGENTTALK_TASK_ID)s/comments" % os.environ
    headers = {"Authorization": "Bearer " + os.environ["AGENTTALK_TOKEN"]}
    connection.request("POST", path, json.dumps({"author": "dev", "comment_type": "general", "body": body}), headers)
    answer = connection.getresponse()
    answer.read()
    return answer.status
"""
"""The beginning of a program that reports over the socket."""


@dataclass
class Serving:
    """A running engine."""

    process: subprocess.Popen[str]
    told: dict[str, Any]
    quick: bool = False

    def ended(self, number: signal.Signals) -> int:
        """Send a signal, and the exit code."""
        self.process.send_signal(preloaded.KILL if self.quick and number == signal.SIGKILL else number)
        return self.process.wait(PATIENCE)


@contextmanager
def engine(root: Path, *arguments: str, quick: bool = False) -> Iterator[Serving]:
    """An engine that listens. It is killed in the end, if it still lives; `quick` starts one that is preloaded."""
    process = started(root, *arguments, quick=quick)
    try:
        assert process.stdout is not None
        told = read_object(process)
        yield Serving(process, told, quick)
    finally:
        process.send_signal(preloaded.KILL if quick else signal.SIGKILL)
        process.communicate(timeout=PATIENCE)


def started(root: Path, *arguments: str, quick: bool = False) -> subprocess.Popen[str]:
    options = ["serve", "--root", str(root), "--port", "0", "--json", *arguments]
    return subprocess.Popen(
        [*([preloaded.program()] if quick else [sys.executable, "-m", "agenttalk"]), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean(),
    )


def read_object(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The JSON object that a process prints first."""
    assert process.stdout is not None
    text = ""
    while not text.endswith("}\n"):
        line = process.stdout.readline()
        assert line, process.stderr.read() if process.stderr else ""
        text += line
    found: dict[str, Any] = json.loads(text)
    return found


def agenttalk(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Another command beside the engine."""
    return subprocess.run(
        [preloaded.program(), *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env=clean(),
    )


def clean() -> dict[str, str]:
    """The environment, and of our own variables only the settings that a test made."""
    return {key: value for key, value in os.environ.items() if not key.startswith("AGENTTALK_") or "__" in key}


def until(seen: Callable[[], Any], what: str) -> Any:
    """Wait for what another process does; what was seen."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = seen()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"it did not come to pass: {what}")


def programmed(tree: Tree, agent_id: str, text: str, **profile: Any) -> None:
    """Give an agent a program."""
    folder = tree.agent(agent_id, driver="script", argv=[sys.executable, "work.py"], **profile)
    (folder / "work.py").write_text(textwrap.dedent(text), encoding="utf-8")
