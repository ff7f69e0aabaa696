"""`agenttalk plan check`, in a process of its own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import preloaded
from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.dag import TaskDag
from agenttalk.contracts.plan import PlanManifest
from agenttalk.doors.cli.main import call

GOOD = """
plan_id: bakery
name: Bread [bold]every[/] morning
agents:
  baker: {driver: script, argv: [python3, baker.py]}
  taster: {driver: folder}
tasks:
  - id: bread
    agent: baker
    prompt: Bake.
    inputs: [{name: order, file: order.txt, external: true}, {name: hint, type: artifact, required: false}]
    outputs: [{name: bread.md}, {name: crumbs, deliver_to: [taster], optional: true}]
    promise:
      objective: Bread
      acceptance:
        - {id: warm, description: It is warm, evidenceRequired: [touch, seal]}
        - {id: good, description: It is good}
      checks: [{id: touch, kind: run, run: "true"}, {id: look, kind: human, question: Is it good?}]
  - id: taste
    agent: taster
    prompt: Taste.
    inputs: [{name: bread, from: bread.md}]
    score_required: true
    gates: {branches: [{when: score < 50, activate: [again]}]}
    outputs: [{name: verdict.md, deliverable: true}, {name: praise.md, deliverable: true, when: score > 90}]
  - {id: smell, agent: taster, needs: [bread], prompt: Smell.}
  - {id: again, agent: baker, needs: [taste], prompt: Say why.}
"""


def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return preloaded.run("plan", "check", *arguments, stdin=stdin)


def answer(*arguments: str, stdin: str = "") -> tuple[int, Any]:
    done = run(*arguments, "--json", stdin=stdin)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def plan(folder: Path, text: str = GOOD, name: str = "plan.yaml") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_plan_is_explained_in_order(tmp_path: Path) -> None:
    done = run(plan(tmp_path))
    assert done.returncode == 0
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert lines[0] == "bakery Bread [bold]every[/] morning (4 tasks, 2 agents, 3 waves)"
    for line in (
        "bread by baker",
        "takes order ← order.txt by_file_name from outside",
        "takes hint ← artifact by_message_type optional",
        "makes bread.md → taster",
        "makes crumbs → taster (optional)",
        "done: It is warm (touch: run, seal: handed in)",
        "done: It is good (a person decides)",
        "wave 2 2 in parallel",
        "taste by taster after bread",
        "makes praise.md (deliverable, when score > 90)",
        "done: verdict.md stored as declared and a score (derived)",
        "done: a result that is not empty (derived)",
        "again by baker after taste only if taste activates it",
    ):
        assert line in lines, line
    assert lines[-1].endswith("bakery can be submitted, and 3 remarks")
    assert "'taster' receives 'bread.md' from task 'bread'" in done.stderr


def test_every_problem_is_told_and_the_exit_code_is_2(tmp_path: Path) -> None:
    broken = GOOD.replace("needs: [taste]", "needs: [tast]").replace("agent: taster", "agent: tastr", 1)
    done = run(plan(tmp_path, broken))
    assert done.returncode == 2
    assert "did you mean 'taste'?" in done.stderr
    assert "did you mean 'taster'?" in done.stderr
    assert "tasks[3].needs[0]" in done.stderr
    line = 1 + next(at for at, each in enumerate(broken.splitlines()) if "[tast]" in each)
    assert f"does not exist (line {line}, " in done.stderr
    assert "refused: " in done.stderr
    code, body = answer(plan(tmp_path, broken))
    assert (code, body["ok"]) == (2, False)
    assert {each["code"] for each in body["problems"]} == {"DAG_TASK_UNKNOWN", "DAG_AGENT_UNKNOWN"}


def test_a_file_that_cannot_be_read_as_a_plan_is_refused_in_the_same_way(tmp_path: Path) -> None:
    done = run(plan(tmp_path, GOOD.replace("prompt: Bake.", "promt: Bake.")))
    assert done.returncode == 2
    assert "tasks[0].promt" in done.stderr
    assert done.stdout == ""
    code, body = answer(plan(tmp_path, "plan_id: [\n"))
    assert (code, [each["code"] for each in body["problems"]]) == (2, ["YAML_SYNTAX"])
    assert body["task_dag"] is None
    assert run(str(tmp_path / "none.yaml")).returncode == 2


def test_the_documents_are_written_and_can_be_read_again(tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, body = answer(plan(tmp_path), "--out", str(out))
    assert code == 0
    dag = TaskDag.from_bytes((out / "task_dag.json").read_bytes())
    assert dag.as_json() == body["task_dag"]
    assert dag.nodes[1].depends_on == ("bread",)
    assert PlanManifest.from_bytes((out / "plan_manifest.json").read_bytes()).plan_id == "bakery"
    profile = AgentProfile.from_bytes((out / "agents/baker/agent_profile.json").read_bytes())
    assert profile.argv == ("python3", "baker.py")
    assert len(body["files"]) == 4
    assert body["waves"] == [["bread"], ["taste", "smell"], ["again"]]
    assert str(out / "task_dag.json") in run(plan(tmp_path), "--out", str(out)).stdout


def test_nothing_is_written_for_a_plan_that_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(plan(tmp_path, GOOD.replace("needs: [taste]", "needs: [x]")), "--out", str(out)).returncode == 2
    assert not out.exists()


def test_json_and_standard_input_are_read(tmp_path: Path) -> None:
    task = {"id": "t", "agent": "a", "prompt": "x"}
    text = json.dumps({"plan_id": "p", "agents": {"a": {"driver": "folder"}}, "tasks": [task]})
    assert answer("-", stdin=text)[0] == 0
    assert answer(plan(tmp_path, text, "plan.json"))[0] == 0
    assert answer("-", stdin=GOOD)[0] == 0
    assert "standard input" in run("-", stdin=GOOD).stdout
    assert answer(plan(tmp_path, GOOD, "plan.json"))[1]["problems"][0]["code"] == "JSON_SYNTAX"


def test_agents_of_a_root_are_known_and_its_settings_win(tmp_path: Path) -> None:
    for name in ("smith", "baker"):
        (tmp_path / "agents" / name).mkdir(parents=True)
    smith = {"agent_id": "smith", "driver": "folder", "prompt": "You forge."}
    (tmp_path / "agents/smith/agent_profile.json").write_text(json.dumps(smith), encoding="utf-8")
    (tmp_path / "agenttalk.toml").write_text('[agents.baker]\nprompt = "You bake well."\n', encoding="utf-8")
    text = GOOD.replace("id: smell, agent: taster", "id: smell, agent: smith")
    assert answer(plan(tmp_path, text))[0] == 2
    code, body = answer(plan(tmp_path, text), "--root", str(tmp_path))
    assert code == 0
    assert body["agent_profiles"]["smith"]["prompt"] == "You forge."
    assert body["agent_profiles"]["baker"]["prompt"] == "You bake well."
    assert body["agent_profiles"]["baker"]["argv"] == ["python3", "baker.py"]


def test_text_of_the_file_cannot_act_on_the_terminal(tmp_path: Path) -> None:
    text = GOOD.replace("Bread [bold]every[/] morning", '"red \\e[31m \\x07"').replace(
        "name: crumbs", 'name: "c\\e]0;x"'
    )
    done = run(plan(tmp_path, text))
    assert done.returncode == 0
    assert "\x1b" not in done.stdout + done.stderr
    assert "\\x1b[31m \\x07" in done.stdout


def test_a_long_plan_is_shown_in_part(tmp_path: Path) -> None:
    tasks = [{"id": f"t{at}", "agent": "a", "prompt": "x", "needs": ["lost"]} for at in range(300)]
    text = json.dumps({"plan_id": "p", "agents": {"a": {"driver": "folder"}}, "tasks": tasks})
    done = run(plan(tmp_path, text, "long.json"))
    assert "… and 100 tasks more" in done.stdout
    assert "… and 100 more" in done.stderr
    assert len(answer(plan(tmp_path, text, "long.json"))[1]["problems"]) == 300


@pytest.mark.mends("B8")
@pytest.mark.parametrize("needs", [["left", "right"], []], ids=["needed", "waited for"])
def test_what_is_taken_of_two_outputs_of_one_name_is_said_and_written_down(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], needs: list[str]
) -> None:
    program = {"driver": "script", "argv": ["sh", "-c", "echo x > $AGENTTALK_OUTPUTS/spec.md; echo ok"]}
    makers = [{"id": each, "agent": "a", "prompt": "x", "outputs": [{"name": "spec.md"}]} for each in ("left", "right")]
    inputs: list[dict[str, Any]] = [{"name": "spec", "from": "spec.md"}]
    use: dict[str, Any] = {"id": "use", "agent": "a", "prompt": "x", "needs": needs, "inputs": inputs}
    document: dict[str, Any] = {"plan_id": "shop", "agents": {"a": program}, "tasks": [*makers, use]}
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(document))
    assert call(["plan", "check", str(path)]) == 0
    said = "the input 'spec' takes the latest of what 'left', 'right' make (latest_by_delivered_at)"
    printed = capsys.readouterr()
    assert said in " ".join((printed.out + printed.err).split())
    assert call(["run", str(path), "--root", str(tmp_path / "root")]) == 0
    dag = json.loads((tmp_path / "root/system_runtime/plans/shop/task_dag.json").read_bytes())
    [node] = [each for each in dag["nodes"] if each["task_id"] == "use"]
    assert node["inputs"][0]["pick_policy"] == "latest_by_delivered_at"
    capsys.readouterr()
    assert call(["explain", "shop/use", "--root", str(tmp_path / "root")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "input spec: one of the outputs of left, right, chosen by latest_by_delivered_at" in shown
    inputs[0]["pick"] = "first_seen"
    path.write_text(json.dumps(document))
    assert call(["plan", "check", str(path)]) == 0
    assert "takes the latest" not in capsys.readouterr().err
