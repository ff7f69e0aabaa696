"""Turns of models on this machine. The library is played by a module of its name; the processes are real."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from kits.plankit import Engine, plan, play, states, task
from kits.standingkit import PlanStanding

SCORED = {"score_required": True, "score_criteria": "How good it is"}
LIBRARY = """import pathlib
class Bag:
    def __getattr__(self, name):
        made = Bag()
        setattr(self, name, made)
        return made
CommonParams = Bag
class Server:
    def __init__(self, params):
        model = pathlib.Path(params.model.path).read_text()
        if not model.startswith("GGUF"):
            raise RuntimeError("Failed to init server")
        known = {}
        exec("import json, os, pathlib, signal, time\\n" + model.partition("\\n")[2], known)
        self.said = known["said"]
        assert params.api_keys and params.n_ctx == 4096
        self.asked = 0
    def handle_chat_completions(self, request):
        self.asked += 1
        form = request["response_format"]["json_schema"]["schema"]
        text, end = self.said(request["messages"], form), "stop"
        if text.endswith("..."):
            text, end = text[:-3], "length"
        used = {"prompt_tokens": 10 * self.asked, "completion_tokens": 5}
        message = {"role": "assistant", "content": text}
        return {"choices": [{"message": message, "finish_reason": end}], "usage": used}
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a module lies that is taken for the library, and files that are taken for models."""
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / "xllamacpp.py").write_text(LIBRARY)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setattr("kits.plankit.PATIENCE", 300.0)
    return folder


def local(
    library: Path, behaviour: str = "return '{}'", name: str = "small", *, memory_mib: int = 4096, **use: Any
) -> dict[str, Any]:
    """An agent that is a model which behaves like this: its file says how."""
    file = library / f"{name}.gguf"
    body = "".join(f"    {line}\n" for line in behaviour.splitlines())
    file.write_text(f"GGUF\ndef said(messages, form):\n{body}")
    known = {"model_file": str(file), "retries": 0, **use}
    return {"driver": "local", "local": known, "env": ["PYTHONPATH"], "limits": {"memory_mib": memory_mib}}


def ended(library: Path, agent: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """What became of the one task of a plan."""
    compiled = plan(task("t", "m", **{"max_reexecute_times": 0, **keys}), agents={"m": agent})

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(compiled)
        return await engine.ended()

    found: PlanStanding = play(library.parent / "root", use)
    return dict(found.tasks[0])


MENDS = """sure = "not 400" in messages[-1]["content"] and form["required"] == ["result", "score", "score_explanation"]
return json.dumps({"result": "ok", "score": 40 if sure else 400, "score_explanation": "so"})"""


def test_a_score_out_of_range_goes_back_with_the_reason_in_one_turn(library: Path) -> None:
    found = ended(library, local(library, MENDS, retries=1), **SCORED)
    assert (found["state"], found["score"], found["usage"]["tokens"]) == ("COMPLETED", 40, 40)


WRONG = {
    "words": ("return 'Well, I think'", "ANSWER_INVALID: the answer is not JSON"),
    "cut": ('return \'{"result": "wel...\'', "ANSWER_INVALID: the answer was cut off at 512 tokens"),
    "blank": ("return ' '", "AGENT_SILENT: the answer is empty"),
    "crash": ("os.kill(os.getpid(), signal.SIGSEGV)", "ended by SIGSEGV"),
    "greedy": ("bytearray(1 << 34)", "COMMAND_FAILED: the model failed: MemoryError"),
    "broken": ("raise ValueError('no grammar')", "COMMAND_FAILED: the model failed: ValueError: no grammar"),
    "gone": ("os._exit(0)", "COMMAND_FAILED: its program ended without an answer"),
    "out-of-range": (
        "return json.dumps({'result': 'ok', 'score': -1})",
        "SCORE_INVALID: a score is a number from 0 to",
    ),
}


@pytest.mark.rest
def test_whatever_goes_wrong_in_it_is_told_and_the_engine_lives(library: Path) -> None:
    agents = {name: local(library, behaviour, name, memory_mib=2048) for name, (behaviour, _) in WRONG.items()}
    agents |= {name: local(library, name=name) for name in ("missing", "none")}
    (library / "missing.gguf").unlink()
    (library / "none.gguf").write_bytes(b"PK")
    wanted = {name: reason for name, (_, reason) in WRONG.items()} | {
        "missing": "MODEL_UNUSABLE: there is no file",
        "none": "none.gguf' cannot be loaded",
    }
    tasks = [task(name, name, max_reexecute_times=0, **(SCORED if name == "out-of-range" else {})) for name in wanted]

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(plan(*tasks, task("fine", "a"), agents=agents))
        return await engine.ended()

    found: PlanStanding = play(library.parent / "root", use)
    assert states(found) == dict.fromkeys(wanted, "FAILED") | {"fine": "COMPLETED"}
    reasons = {each["task_id"]: each["reason"] or "" for each in found.tasks}
    assert {name: reasons[name] for name in wanted if wanted[name] not in reasons[name]} == {}


def test_a_model_that_hangs_is_ended_at_its_time_limit(library: Path) -> None:
    found = ended(library, local(library, "time.sleep(3600)"), timeout=1)
    assert (found["state"], "ended after 1 seconds" in found["reason"]) == ("FAILED", True), found


def test_a_model_that_hangs_dies_with_its_plan(library: Path) -> None:
    mark = library / "pid"
    agent = local(library, f"pathlib.Path({str(mark)!r}).write_text(str(os.getpid()))\ntime.sleep(3600)")

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(plan(task("t", "m"), agents={"m": agent}))
        async with asyncio.timeout(300):
            while not mark.exists() or not mark.read_text():  # noqa: ASYNC110 - another process writes it
                await asyncio.sleep(0.01)
        await engine.dispatcher.operator.cancel("p", by="ada")
        return await engine.until(lambda now: now.state == "ENDED")

    found: PlanStanding = play(library.parent / "root", use)
    assert states(found) == {"t": "FAILED"}
    assert not Path(f"/proc/{mark.read_text()}").exists()


def test_a_library_that_is_not_there_is_named_with_what_to_do(library: Path) -> None:
    (library / "xllamacpp.py").write_text("raise ImportError")
    found = ended(library, local(library))
    assert (found["state"], "pip install 'agenttalk[local]'" in found["reason"]) == ("FAILED", True), found["reason"]


SHOWN = """said = messages[0]["content"]
lines = sum(line == "0123456789" for line in said.splitlines())
text = f"{lines} lines, {said.count('it stands at the end')} at the end"
return json.dumps({"result": "ok", "outputs": [{"name": "count.txt", "text": text}]})"""


def test_inputs_that_are_long_are_shown_in_full_and_outputs_come_out_of_the_answer(library: Path) -> None:
    counted: list[str] = []

    async def make(turn: Any) -> str:
        turn.outputs["long.txt"] = "0123456789\n" * 9000
        return "ok"

    async def see(turn: Any) -> str:
        counted.append(turn.text("count.txt"))
        return "ok"

    compiled = plan(
        task("make", "a", outputs=[{"name": "long.txt"}]),
        task("t", "m", inputs=[{"name": "long.txt", "from": "long.txt"}], outputs=[{"name": "count.txt"}]),
        task("see", "b", inputs=[{"name": "count.txt", "from": "count.txt"}]),
        agents={"m": local(library, SHOWN)},
    )

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(compiled)
        return await engine.ended()

    found: PlanStanding = play(library.parent / "root", use, a=make, b=see)
    assert set(states(found).values()) == {"COMPLETED"}
    assert counted == ["9000 lines, 1 at the end"]


def test_an_input_that_is_no_text_is_not_left_out_in_silence(library: Path) -> None:
    async def make(turn: Any) -> str:
        turn.outputs["image.png"] = b"\x89PNG\xff\xfe"
        return "ok"

    compiled = plan(
        task("make", "a", outputs=[{"name": "image.png"}]),
        task("t", "m", inputs=[{"name": "image.png", "from": "image.png"}]),
        agents={"m": local(library)},
    )

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(compiled)
        return await engine.ended()

    found: PlanStanding = play(library.parent / "root", use, a=make)
    [done] = [each for each in found.tasks if each["task_id"] == "t"]
    assert "the input 'image.png' (image.png) cannot be shown to a model: it is not text" in (done["reason"] or "")


JUDGES = """if "decision" in form["properties"]:
    return json.dumps({"score": 30, "decision": "REJECT", "reason": "It is short.", "issues": []})
return json.dumps({"result": "ok"})"""


@pytest.mark.parametrize(("behaviour", "refused"), [(JUDGES, True), ("raise ValueError('no')", False)])
def test_it_judges_what_it_is_given_and_its_own_failure_is_no_judgement(
    library: Path, behaviour: str, refused: bool
) -> None:
    compiled = plan(
        task("make", "a", outputs=[{"name": "text"}], max_reexecute_times=0),
        task("t", "m", inputs=[{"name": "text", "from": "text"}], validate={"text": {"quality_threshold": 70}}),
        agents={"m": local(library, behaviour)},
    )

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(compiled)
        return await engine.ended()

    found: PlanStanding = play(library.parent / "root", use, proving=True)
    reasons = json.dumps([each["reason"] for each in found.tasks])
    assert ("It is short." in reasons) is refused, reasons
    assert ("the model failed: ValueError: no" in reasons) is not refused, reasons
