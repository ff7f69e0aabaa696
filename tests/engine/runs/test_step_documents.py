"""What a step writes is in the one canonical form, whatever names and texts it holds, and says what it always said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.adapters.drivers.python_calls import Result, Turn
from agenttalk.contracts.command import ResolvedInput
from agenttalk.contracts.core import canonical, wire
from agenttalk.contracts.dag import Node
from agenttalk.contracts.errors import JsonError
from agenttalk.contracts.plan import Policies
from agenttalk.engine.core import records
from agenttalk.engine.core.records import JournalMessage
from agenttalk.engine.plans import commands
from agenttalk.engine.plans.definition import PlanDefinition
from agenttalk.ports.statements.core import FACTS_OF
from agenttalk.ports.statements.plans import ENGINE_COMMANDS, VERSIONS_FROM
from kits.plankit import Engine, fine, plan, play, task

STRANGE = 'an "output" \\ of ünusual näme\n\u2028'
OUTPUT = 'an "output" of ünusual näme'
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SHEET = PlanDefinition("p", f"sha256:{'0' * 64}", 3, Policies(), {})


async def strange(turn: Turn) -> Any:
    for name in turn.command.produces or ():
        turn.outputs[name.output_name] = b"content"
    return {"said": STRANGE, "more": [1, 2.5, None, True]}


async def scored(turn: Turn) -> Any:
    await fine(turn)
    return Result(STRANGE, score=77.5, score_explanation=STRANGE)


async def long(turn: Turn) -> str:
    await fine(turn)
    return "ü" * 20_000


def test_every_document_of_a_plan_is_canonical(tmp_path: Path) -> None:
    compiled = plan(
        task("a", "plain", outputs=[{"name": OUTPUT, "deliver_to": ["long"]}], prompt=STRANGE),
        task(
            "b",
            "strange",
            outputs=[{"name": f"{OUTPUT} too", "deliverable": True}, {"name": "two", "deliver_to": ["plain"]}],
        ),
        task("c", "scored", needs=["a"], score_required=True, outputs=[{"name": "c.md", "deliverable": True}]),
        task("d", "long", inputs=[{"name": "in", "from": "two"}]),
    )

    async def use(engine: Engine) -> tuple[str | None, list[bytes], list[bytes]]:
        await engine.submit(compiled)
        found = await engine.ended()
        board = await engine.deps.stores.board("default")
        facts = await board.read(FACTS_OF, subject="deliveries/p", after=0, limit=1000)
        messages = await board.read(ENGINE_COMMANDS, after=0, limit=1000)
        made = [row for name in "abcd" for row in await board.read(VERSIONS_FROM, plan_id="p", task_id=name)]
        envelopes = [*(bytes(row[3]) for row in messages), *(bytes(row[5]) for row in made)]
        return found.result, [bytes(row[3]) for row in facts], envelopes

    result, facts, envelopes = play(tmp_path, use, plain=fine, strange=strange, scored=scored, long=long)
    assert result == "done"
    assert len(envelopes) == 8
    for each in [*facts, *envelopes]:
        assert wire.write(wire.read(each)) == each
    ended = {body["ack"]["task_id"]: body for body in map(json.loads, facts) if "ack" in body}
    assert ended["b"]["result"] == {"said": STRANGE, "more": [1, 2.5, None, True]}
    assert ended["c"]["score"] == 77.5
    assert ended["d"]["result_sha256"] == wire.sha256(wire.write("ü" * 20_000))


@given(TEXTS, st.booleans(), st.booleans(), st.lists(TEXTS, max_size=2))
def test_a_line_of_a_delivery_is_what_the_journal_says(
    output: str, has_output: bool, to_all: bool, paths: list[str]
) -> None:
    files: Any = tuple({"path": each, "sha256": "sha256:0", "size_bytes": 5} for each in paths)
    letter = JournalMessage("p", "msg_1", "sha256:1", "dev", "t", "cmd_t_001", output if has_output else None, files)
    to = None if to_all else "pm"
    line = records.make_delivered_line(
        letter, at="2026-01-01T00:00:00Z", delivery_id="dlv_1", to=to, files=[wire.to_text(f) for f in files]
    )
    said = records.make_journal_line(letter, "DELIVERED", at="2026-01-01T00:00:00Z", delivery_id="dlv_1", to=to)
    assert line.encode() == wire.write(said)


@given(
    TEXTS.filter(str.strip),
    st.lists(TEXTS.filter(str.strip), max_size=2, unique=True),
    st.booleans(),
    st.sampled_from([{}, {"score_required": True}, {"on_complete": {"message_template": "done"}}, {"retry_times": 3}]),
)
def test_a_command_is_written_as_its_model_is(
    prompt: str, outputs: list[str], required: bool, more: dict[str, Any]
) -> None:
    node = Node.read(
        {
            "task_id": "t",
            "assigned_agent_id": "dev",
            "prompt": prompt,
            "outputs": [{"name": each} for each in outputs],
            **more,
        }
    )
    inputs = (ResolvedInput.from_values(input_name="in", required=required, paths=("a/out/b.md",)),)
    text, command = commands.compose(SHEET, node, inputs, 1)
    assert text == canonical.to_text(command)
    assert text.encode() == wire.write(command.as_json())


def test_half_a_character_is_no_document() -> None:
    with pytest.raises(JsonError):
        wire.encode('"\ud800"')
    with pytest.raises(JsonError):
        wire.to_text(float("nan"))


@given(
    st.dictionaries(TEXTS, st.recursive(st.integers() | TEXTS | st.none(), lambda inner: st.lists(inner, max_size=3)))
)
def test_an_object_of_texts_is_the_object(values: dict[str, Any]) -> None:
    assert wire.object_of({name: wire.to_text(value) for name, value in values.items()}) == wire.to_text(values)
