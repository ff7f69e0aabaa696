"""Signs of life for an agent elsewhere, told by the server that it keeps open beside its work.

An agent that is inside a long call of another tool cannot tell that it lives. The server on its standard input and
output lives exactly as long as the agent does, so it tells it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from agenttalk.doors.mcp.engine_client import AsyncEngineClient, ToolRefusal
from agenttalk.doors.mcp.tool_call import ToolCall

_OFTEN: Final = 2.0
"""How many signs are given in the time in which one is due."""
_MOST: Final = 3600.0
"""Seconds between two signs at the most."""


class ClaimHeartbeats:
    """The tasks that an agent has claimed by this server and not handed in yet."""

    def __init__(self, ask: AsyncEngineClient) -> None:
        self._ask = ask
        self._beating: dict[tuple[str, int], asyncio.Task[None]] = {}

    def follow_call(self, tool: str, given: Mapping[str, Any], answer: Any) -> None:
        """Begin when a task was claimed, and end when its result was handed in."""
        if tool == "claim" and isinstance(answer, dict) and answer.get("taken"):
            taken = answer["taken"]
            name = (str(taken["task"]), int(taken["epoch"]))
            if name not in self._beating:
                pause = min(max(0.05, float(taken["heartbeat_seconds"]) / _OFTEN), _MOST)
                self._beating[name] = asyncio.create_task(self._beat(name, taken.get("board"), pause))
        elif tool == "submit_result":
            ended = self._beating.pop((str(given.get("task")), int(given.get("epoch") or 0)), None)
            if ended is not None:
                ended.cancel()

    async def stop(self) -> None:
        """Stop the heartbeats, because the agent is gone."""
        for task in self._beating.values():
            task.cancel()
        for task in self._beating.values():
            with suppress(asyncio.CancelledError):
                await task

    async def _beat(self, name: tuple[str, int], board: str | None, pause: float) -> None:
        """Tell again and again that the agent lives, until the engine does not want to hear it any more."""
        given = {"task": name[0], "epoch": name[1], "board": board}
        call = ToolCall(self._ask, {"role": "remote"}, given)
        while True:
            await asyncio.sleep(pause)
            try:
                told = await self._ask.post(call.task_path("/progress"), {})
            except ToolRefusal as refusal:
                if refusal.code == "ENGINE_UNREACHABLE":
                    continue  # it may come back
                return
            if told.get("stopped"):
                return
