"""How far agents and validators could be believed, with each of their models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agenttalk.adapters.drivers.python_calls import Result, Turn
from agenttalk.doors.cli.main import call
from agenttalk.engine.proof import honesty
from agenttalk.engine.views import overview
from agenttalk.rules.proof.rework import WorkAcceptance
from kits.plankit import Engine, plan, play, states, task

OUT = [{"name": "text.md", "deliverable": True}]
TAKES = [{"name": "text", "from": "text.md"}]
JUDGED = {"text": {"quality_threshold": 70}}


class Team:
    """A writer whose model changes with each version, a reader who accepts and one who refuses."""

    def __init__(self) -> None:
        self.versions = 0

    async def write(self, turn: Turn) -> Result:
        self.versions += 1
        turn.outputs["text.md"] = f"version {self.versions}"
        return Result("written", usage={"model": f"w{self.versions}", "cost_usd": 0.25})

    async def accept(self, turn: Turn) -> Any:
        if turn.judges is not None:
            return {"score": 90, "decision": "ACCEPT", "reason": "fine"}
        return Result("read", usage={"model": "easy"})

    async def refuse(self, turn: Turn) -> Any:
        if turn.judges is not None:
            return {"score": 10, "decision": "REJECT", "reason": "no", "issues": [f"wrong {self.versions}"]}
        return Result("read", usage={"model": "hard"})


def test_each_model_of_an_agent_and_of_a_validator_is_counted(tmp_path: Path, capsys: Any) -> None:
    team = Team()
    compiled = plan(
        task("write", "w", outputs=OUT, max_reexecute_times=1),
        task("use", "easy", needs=["write"], inputs=TAKES, validate=JUDGED),
        task("last", "hard", needs=["write", "use"], inputs=TAKES, validate=JUDGED),
    )

    async def use(engine: Engine) -> dict[str, Any]:
        await engine.submit(compiled)
        await engine.until(lambda now: states(now)["write"] == "FAILED")
        await engine.dispatcher.operator.rework("p", "write", WorkAcceptance(), by="ada")
        await engine.until(lambda now: states(now)["last"] == "COMPLETED")
        [agent] = [each for each in await overview.describe_agents(engine.deps) if each["agent_id"] == "w"]
        assert [(each["model"], each["turns"]) for each in agent["by_model"]] == [("w1", 1), ("w2", 1)]
        return dict(await honesty.build_report(engine.deps))

    told = play(tmp_path, use, proving=True, w=team.write, easy=team.accept, hard=team.refuse)
    agents = {each["agent_id"]: each for each in told["agents"]}
    by_model = [(each["model"], each["overturned"], each["cost_usd"]) for each in agents["w"]["by_model"]]
    assert by_model == [("w1", 1, 0.25), ("w2", 1, 0.25)]
    validators = {each["agent_id"]: each for each in told["validators"]}
    [easy] = validators["easy"]["by_model"]
    assert (easy["model"], easy["judged"], easy["misled"], easy["reliability"]) == ("easy", 2, 2, 0.0)
    assert sum(each["overruled"] for each in validators["hard"]["by_model"]) == validators["hard"]["overruled"] == 1
    assert {each["model"]: each["judged"] for each in told["models"]}["easy"] == 2
    assert call(["honesty", "--root", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "    w1: 1 claim of done: " in said
    assert "    easy: 2 judged, 2 wrongly accepted, 0 overruled, 0% held" in said


def test_agents_that_tell_no_model_look_as_before(tmp_path: Path) -> None:
    async def use(engine: Engine) -> dict[str, Any]:
        await engine.submit(plan(task("one")))
        await engine.ended()
        return dict(await honesty.build_report(engine.deps))

    [agent] = play(tmp_path, use)["agents"]
    assert (agent["models"], agent["by_model"]) == ([], [])
