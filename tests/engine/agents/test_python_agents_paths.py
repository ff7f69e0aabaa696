"""Functions as agents: what they call their files cannot lead out of an output."""

from __future__ import annotations

from pathlib import Path

import pytest

from agenttalk.adapters.drivers.python_calls import Turn
from kits.plankit import Engine, plan, play, states, task


@pytest.mark.parametrize("path", ["../up.txt", "/abs.txt", "line\nbreak.txt", "a/../../b.txt", "", "x" * 300])
def test_a_file_outside_its_output_fails_the_turn_and_not_the_engine(tmp_path: Path, path: str) -> None:
    async def odd(turn: Turn) -> str:
        turn.outputs["made"] = {path: "x"}
        return "ok"

    async def use(engine: Engine) -> None:
        made = [{"name": "made", "deliverable": True}]
        await engine.submit(plan(task("one", outputs=made, retry_times=0), task("two", "b")))
        found = await engine.ended()
        assert states(found) == {"one": "FAILED", "two": "COMPLETED"}
        assert "not a path inside it" in (found.tasks[0]["reason"] or "")

    play(tmp_path, use, a=odd)
