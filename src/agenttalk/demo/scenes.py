"""The scenes of the demo: each runs the real code, shows the result, and checks it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agenttalk.adapters.mailbox import fsio, root_reader
from agenttalk.contracts.core import wire
from agenttalk.contracts.dag import TaskDag
from agenttalk.contracts.errors import Code, Problem
from agenttalk.contracts.generation import GenerateResult
from agenttalk.demo import forge_scene, message_scenes, proof_scene, team_scene, until_scene
from agenttalk.doors.cli.core.output import CommandOutput, shorten_json
from agenttalk.rules.commands import generation, validation
from agenttalk.rules.plans import dag_checks

PLAN = "plan_shop"
DAG: dict[str, Any] = {
    "schema_version": "1.1",
    "plan_id": PLAN,
    "nodes": [
        {
            "task_id": "requirements",
            "assigned_agent_id": "pm",
            "outputs": [{"name": "requirements.md", "deliver_to": ["backend"]}],
        },
        {
            "task_id": "implement",
            "assigned_agent_id": "backend",
            "depends_on": ["requirements"],
            "inputs": [{"name": "spec", "selector": {"type": "by_output_name", "value": "requirements.md"}}],
            "outputs": [{"name": "change.patch", "deliverable": True}],
        },
    ],
}
BROKEN_DAG: dict[str, Any] = {
    "schema_version": "1.1",
    "plan_id": PLAN,
    "nodes": [
        {"task_id": "design", "assigned_agent_id": "pm", "depends_on": ["review"]},
        {"task_id": "build", "assigned_agent_id": "backend", "depends_on": ["design"]},
        {"task_id": "review", "assigned_agent_id": "tester", "depends_on": ["biuld", "build"]},
    ],
}


@dataclass(frozen=True, slots=True)
class Scene:
    """A scene of the demo."""

    title: str
    play: Callable[[CommandOutput, Path], bool]


def play_all(out: CommandOutput) -> list[dict[str, Any]]:
    """Play every scene, and return whether each one succeeded."""
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="agenttalk-demo-") as folder:
        _lay_tree(Path(folder))
        for number, scene in enumerate(SCENES, 1):
            _line(out, f"[bold]{number}. {scene.title}[/]")
            good = scene.play(out, Path(folder))
            _line(out, "[green]✓ succeeded[/]\n" if good else "[bold red]✗ failed[/]\n")
            results.append({"scene": scene.title, "ok": good})
    return results


def _complete(out: CommandOutput, root: Path) -> bool:
    """Complete a command from two fields: the others are looked up or have defaults."""
    answer = _generate(out, {"plan_id": PLAN, "task_id": "requirements", "prompt": "Write the requirements."}, root)
    if answer.command is None:
        return False
    _line(out, "[dim]" + shorten_json(answer.command.as_json(), 400) + "[/]")
    return answer.command.dag_ref is not None and validation.validate(answer.command.as_json()).ok


def _repaired(out: CommandOutput, root: Path) -> bool:
    answer = _generate(
        out,
        {
            "plan_id": PLAN,
            "task_id": "implement",
            "command_id": "cmd_implement",
            "prompt": "Implement the price function.",
            "required_inputs": "requirements.md",
            "wait_for_inputs": "yes",
            "score_required": "true",
            "timeout": "900",
            "retry_times": -2,
        },
        root,
    )
    return answer.ok and {"command_id", "timeout", "retry_times", "score_criteria"} <= {r.field for r in answer.repairs}


def _refused(out: CommandOutput, root: Path) -> bool:
    answer = _generate(
        out,
        {
            "plan_id": PLAN,
            "task_id": "implment",
            "command_id": "cmd_requirements_001",
            "prompt": " ",
            "required_inputs": ["../../etc/passwd"],
            "send_to": "backend",
        },
        root,
    )
    expected = {
        Code.TASK_NOT_IN_DAG,
        Code.COMMAND_TASK_MISMATCH,
        Code.COMMAND_FIELD_VALUE,
        Code.PATH_OUTSIDE_FOLDER,
        Code.COMMAND_ROUTES_ITSELF,
    }
    return not answer.ok and {error.code for error in answer.errors} == expected


def _tampered(out: CommandOutput, root: Path) -> bool:
    """Change a command on its way, and send another that was made for a DAG that is no longer in force."""
    known = root_reader.read_known(root, PLAN, "implement")
    fields = {"plan_id": PLAN, "task_id": "implement", "prompt": "Implement the price function."}
    good = generation.generate(fields, known, with_hash=True).command
    if good is None:
        return False
    changed = {**good.as_json(), "prompt": "Implement nothing."}
    stale = {**good.as_json(), "dag_ref": {"sha256": "0" * 64}, "payload_hash": None}
    found = [validation.validate(document, known) for document in (changed, stale)]
    _problems(out, [error for answer in found for error in answer.errors])
    codes = [error.code for answer in found for error in answer.errors]
    return codes == [Code.COMMAND_PAYLOAD_HASH_MISMATCH, Code.COMMAND_DAG_MISMATCH]


def _broken_dag(out: CommandOutput, root: Path) -> bool:  # noqa: ARG001 - all scenes are played alike
    report = dag_checks.check(TaskDag.from_json(BROKEN_DAG), agents={"pm", "backend"})
    _problems(out, report.problems)
    return {p.code for p in report.problems} == {Code.DAG_CYCLE, Code.DAG_TASK_UNKNOWN, Code.DAG_AGENT_UNKNOWN}


SCENES = (
    Scene(
        "One line to a proven change: an agent that only says so is refused, one that works is not",
        lambda out, root: until_scene.play_until(out, root / "until"),
    ),
    Scene("A command from three fields: the rest is looked up or has a default", _complete),
    Scene("A sloppy command is repaired, and every repair is reported", _repaired),
    Scene("A wrong command is refused, with everything that is wrong at once", _refused),
    Scene("A command changed on its way, and one for an old DAG, are refused", _tampered),
    Scene("A plan that cannot work is refused before it starts", _broken_dag),
    Scene("Messages travel: a command, a program that works, its output on to the next", message_scenes.play_delivery),
    Scene("kill -9 in the middle: nothing is lost, nothing is done twice", message_scenes.play_kill),
    Scene("A forged, a torn and a repeated message: none gets through, none is lost", message_scenes.play_refusal),
    Scene(
        "A team runs a plan: an input that only a person has, two tasks side by side, a score that decides",
        lambda out, root: team_scene.play_team(out, root / "team"),
    ),
    Scene(
        "Done is proven: a builder sends back a specification, the tests refute a claim, and then both pass",
        lambda out, root: proof_scene.play_proof(out, root / "proof"),
    ),
    Scene(
        "Agents at a forge: an issue becomes a merged pull request, and every task is done by what is read there",
        lambda out, root: forge_scene.play_forge(out, root / "forge"),
    ),
)


def _lay_tree(root: Path) -> None:
    """Write a root as other programs would: agents, a DAG and the pointer to it."""
    for agent in ("lead", "pm", "backend"):
        (root / "agents" / agent).mkdir(parents=True)
    data = wire.write(DAG)
    folder = root_reader.plan_folder(root, PLAN)
    fsio.write_file(folder / "task_dag.json", data)
    pointer = {"plan_id": PLAN, "dag_kind": "business", "task_dag_sha256": wire.sha256(data), "task_dag_revision": 1}
    fsio.write_file(folder / "active_dag_ref.json", wire.write(pointer))


def _generate(out: CommandOutput, params: dict[str, Any], root: Path) -> GenerateResult:
    if not out.as_json:
        out.say("  ".join(f"[blue]{key}[/]={shorten_json(value)}" for key, value in params.items()))
    answer = generation.generate(params, root_reader.read_known(root, params["plan_id"], params["task_id"]))
    if not out.as_json:
        out.show_repairs(answer.repairs if answer.ok else (), err=False)
    _problems(out, answer.errors)
    return answer


def _problems(out: CommandOutput, problems: Iterable[Problem]) -> None:
    if not out.as_json:
        out.show_problems(problems, err=False)


def _line(out: CommandOutput, text: str) -> None:
    if not out.as_json:
        out.say(text)
