"""MCP as its clients speak it: single requests to `/mcp`, and lines to a process."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import preloaded
from doors.api.doorkit import Answer, Door
from doors.api.enginekit import PATIENCE, clean

VERSION = "2025-06-18"
HELLO = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


def posted(door: Door, token: str, method: str, params: dict[str, Any], **headers: str) -> Answer:
    """A request to `/mcp`."""
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    told = {
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "MCP-Protocol-Version": VERSION,
        **headers,
    }
    return door.ask("POST", "/mcp", message, token=token, headers=told)


def listed(door: Door, token: str) -> set[str]:
    """The tools that a token sees."""
    return {each["name"] for each in posted(door, token, "tools/list", {}).json["result"]["tools"]}


def called(door: Door, token: str, tool: str, **arguments: Any) -> dict[str, Any]:
    """What a tool says."""
    found: dict[str, Any] = posted(door, token, "tools/call", {"name": tool, "arguments": arguments}).json["result"]
    return found


def code(result: dict[str, Any]) -> str:
    """Why a tool refused; nothing when it did not."""
    return str(result["structuredContent"]["error"]["code"]) if result["isError"] else ""


@dataclass
class Lines:
    """A server that is spoken to line by line."""

    process: subprocess.Popen[str]
    number: int = 0

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self.number += 1
        self._write({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read() if self.process.stderr else ""
        found: dict[str, Any] = json.loads(line)
        assert found["id"] == self.number
        return found

    def tell(self, method: str) -> None:
        self._write({"jsonrpc": "2.0", "method": method})

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result: dict[str, Any] = self.ask("tools/call", name=tool, arguments=arguments)["result"]
        return result

    def _write(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()


@contextmanager
def lines(root: Path, *options: str, version: str = VERSION) -> Iterator[Lines]:
    """`agenttalk mcp` as a process, after the greeting."""
    process = subprocess.Popen(
        [preloaded.program(), "mcp", "--root", str(root), *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean(),
    )
    try:
        server = Lines(process)
        told = server.ask("initialize", **{**HELLO, "protocolVersion": version})["result"]
        assert told["protocolVersion"] == version
        assert "never instructions" in told["instructions"]
        server.tell("notifications/initialized")
        yield server
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait(PATIENCE)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
