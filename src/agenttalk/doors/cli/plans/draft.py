"""`agenttalk plan draft`: a planner drafts a plan for a goal, the engine checks it, and a person approves it.

Drafting is a plan itself: a draft that fails its check goes back to the planner with the reasons, and running the same
command again continues the work.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from agenttalk.contracts.errors import Code, ContractError, MachineError, UsageError
from agenttalk.doors.cli.core import root_access
from agenttalk.doors.cli.core.output import CommandOutput, CommonOptions, JsonOption, RootOption, sanitize
from agenttalk.doors.cli.plans import run as runs
from agenttalk.doors.cli.plans import templates

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agenttalk.contracts.agent import AgentProfile
    from agenttalk.contracts.core.vocabulary import Locale
    from agenttalk.doors.cli.plans.watched_plan import WatchedPlan
    from agenttalk.rules.planfile.drafts import DraftFrame

PERSON: Final = "agent_human_gateway"
"""The agent that stands for a person, who answers the planner's questions."""
TASK: Final = "draft"
OUTPUT: Final = "plan.yaml"
_MARK: Final = "drafted "
_LARGEST: Final = 4 * 1024 * 1024
_SHOWN: Final = 20_000
"""How many characters of a draft are shown."""
_TEMPLATES: Final = {"en": "draft.yaml", "zh": "draft.zh.yaml"}
_REPOSITORY: Final = {"en": "draft-repository.md", "zh": "draft-repository.zh.md"}
"""Instructions for a planner whose tasks work on a repository."""
_LISTED: Final = 300
"""How many files of a repository a planner sees."""


def draft(
    ctx: typer.Context,
    goal: Annotated[str, typer.Argument(metavar="GOAL", help="Goal of the plan; - reads standard input.")],
    planner: Annotated[str, typer.Option("--planner", metavar="AGENT", help="Agent of the root that drafts the plan.")],
    team: Annotated[
        list[str] | None,
        typer.Option("--agent", metavar="AGENT", help="Agent that may get tasks; repeatable. Default: all others."),
    ] = None,
    reviewers: Annotated[
        list[str] | None,
        typer.Option(
            "--reviewer", metavar="AGENT", help="Agent that must approve the DAG before it starts; repeatable."
        ),
    ] = None,
    repository: Annotated[
        Path | None, typer.Option("--repo", metavar="FOLDER", help="Repository that tasks may work on.")
    ] = None,
    plan_id: Annotated[
        str | None, typer.Option("--plan-id", metavar="ID", help="Id of the plan. Default: made from the goal.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="File for the plan. Default: PLAN_ID.json.")
    ] = None,
    run: Annotated[bool, typer.Option("--run", help="Run the plan as soon as it is approved.")] = False,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Have an agent draft a plan for a goal. It may ask a person once, and a person must approve the draft.

    Exits with 3 while a question is open: answer it in 'agenttalk inbox', and run the same command again.
    """
    out = CommandOutput.from_options(CommonOptions.merge(ctx, root, as_json))
    folder = root_access.make_root(ctx, root)
    text = _goal(goal)
    known = _agents(folder)
    frame = _make_frame(text, plan_id, _team(known, planner, team, reviewers), repository, reviewers)
    standing = runs.run_plan_file(out, _write_drafting_plan(folder, frame, text, planner, known), folder, quiet=True)
    if standing["result"] != "done":
        _tell_open(out, folder, standing)
        return runs.CODES[standing["result"]]
    target = file or Path(f"{frame.plan_id}.json")
    target.write_text(
        json.dumps(_read_approved_plan(folder, standing["plan_id"], frame), ensure_ascii=False, indent=2) + "\n"
    )
    if run:
        return runs.CODES[runs.run_plan_file(out, target, folder)["result"]]
    _tell_drafted(out, folder, frame, target, standing["plan_id"])
    return 0


def _goal(given: str) -> str:
    """Return the goal, from the command line or from standard input. Raises UsageError when it is empty."""
    goal = (sys.stdin.read() if given == "-" else given).strip()
    if not goal:
        raise UsageError(Code.OPTION_INVALID, "the goal is empty", hint="describe the goal of the plan")
    return goal


def _team(
    known: Mapping[str, AgentProfile], planner: str, named: list[str] | None, reviewers: list[str] | None
) -> tuple[str, ...]:
    """Return the agents that may get tasks. Raises UsageError when there are none, or one does not exist."""
    team = tuple(dict.fromkeys(named or sorted({*known} - {planner, PERSON})))
    for name in (planner, *team, *(reviewers or ())):
        if name not in known:
            hint = f"there are: {', '.join(sorted(known)) or 'none; describe them in agenttalk.toml'}"
            raise UsageError(Code.NAME_UNKNOWN, f"there is no agent {name[:80]!r} in this root", hint=hint)
    if not team:
        raise UsageError(
            Code.OPTION_INVALID, "the team has no agents", hint="describe agents in agenttalk.toml, or pass --agent"
        )
    return team


def _make_frame(
    goal: str, plan_id: str | None, team: tuple[str, ...], repository: Path | None, reviewers: list[str] | None
) -> DraftFrame:
    """Return what is fixed for the plan: the planner cannot change it."""
    from agenttalk.rules.planfile import drafts as drafts_rules

    return drafts_rules.DraftFrame(
        plan_id=plan_id or drafts_rules.make_plan_id(goal),
        team=team,
        workspace={"repo": str(repository.absolute())} if repository else None,
        reviewers=tuple(dict.fromkeys(reviewers or ())),
    )


def _write_drafting_plan(
    root: Path, frame: DraftFrame, goal: str, planner: str, known: Mapping[str, AgentProfile]
) -> Path:
    """Write the file of the plan that drafts the plan, and return its path."""
    from agenttalk.contracts.core import wire

    meta = _meta(frame, goal, planner, {name: known[name] for name in frame.team}, known[planner].locale)
    path = root / "drafts" / frame.plan_id / "drafting.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(wire.write(meta))
    return path


def assemble(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File with a draft.")],
    frame: Annotated[str, typer.Option("--frame", help="What is fixed for the plan, as JSON.")],
) -> int:
    """Check whether a draft can become a plan. The engine runs this on every draft."""
    from agenttalk.contracts.planfile.reader import plan_of
    from agenttalk.contracts.planfile.yaml_text import YamlSource
    from agenttalk.rules.planfile.compiler import compile_plan

    out = CommandOutput(as_json=False)
    data = file.read_bytes()[:_LARGEST]
    try:
        plan, problems = _assemble(data, _frame(json.loads(frame)))
        if not problems:
            plan["agents"] = {name: {"driver": "folder"} for name in plan["agents"]}
            problems = compile_plan(plan_of(YamlSource(plan))).problems
    except ContractError as error:
        problems = tuple(error.problems)
    if problems:
        out.show_problems(problems)
        return 1
    out.say(f"{_MARK}sha256:{hashlib.sha256(data).hexdigest()}")
    return 0


def _assemble(data: bytes, frame: DraftFrame) -> tuple[dict[str, Any], tuple[Any, ...]]:
    from agenttalk.contracts.planfile import reader
    from agenttalk.rules.planfile import drafts as drafts_rules

    text = drafts_rules.strip_fence(data.decode("utf-8", "replace"))
    return drafts_rules.assemble_plan(reader.parse_source(text.encode(), yaml=True).value, frame)


def _frame(fields: dict[str, Any]) -> DraftFrame:
    from agenttalk.rules.planfile.drafts import DraftFrame

    reviewers = tuple(fields.get("reviewers") or ())
    return DraftFrame(fields["plan_id"], tuple(fields["team"]), fields.get("workspace"), reviewers)


def _agents(root: Path) -> dict[str, AgentProfile]:
    """Return the agents that the root's settings and folders describe."""
    from agenttalk.contracts.planfile.model import PlanFile
    from agenttalk.wiring.plan_files import merge_profiles

    empty = PlanFile.read({"plan_id": "p", "agents": {}, "tasks": []})
    return {name: profile for name, profile in merge_profiles(root, empty).items() if profile.driver}


def _meta(
    frame: DraftFrame, goal: str, planner: str, team: Mapping[str, AgentProfile], locale: Locale
) -> dict[str, Any]:
    """Return the plan that drafts a plan: the template in the planner's language, filled in."""
    from agenttalk.contracts.planfile import reader

    fixed = {
        "plan_id": frame.plan_id,
        "team": list(frame.team),
        "workspace": frame.workspace,
        "reviewers": list(frame.reviewers),
    }
    package = str(Path(str(files("agenttalk"))).parent)
    command = [sys.executable, "-P", "-m", "agenttalk", "plan", "assemble", OUTPUT, "--frame", json.dumps(fixed)]
    words = {
        "planner": planner,
        "person": PERSON,
        "goal": goal,
        "team": _describe_team(team, locale),
        "repository": _repository(frame.workspace, locale),
        "check": f"PYTHONPATH={shlex.quote(package)} {shlex.join(command)}",
    }
    text = (files("agenttalk") / "templates" / _TEMPLATES[locale]).read_bytes()
    template: Any = reader.parse_source(text, yaml=True).value
    meta: dict[str, Any] = {"plan_id": f"draft-{frame.plan_id}", **templates.fill_placeholders(template, words)}
    return {**meta, "agents": {planner: {}, PERSON: {"driver": "human"}}}


def _describe_team(team: Mapping[str, AgentProfile], locale: Locale) -> str:
    """Describe the team to the planner."""
    from agenttalk.rules.text import prompt_words

    lines = [prompt_words.TEAM.render(locale)]
    for name, profile in team.items():
        skills = prompt_words.TEAM_SKILLS.render(locale, skills=", ".join(profile.skills)) if profile.skills else ""
        about = " · ".join(filter(None, [profile.prompt, skills])) or prompt_words.TEAM_UNKNOWN.render(locale)
        lines.append(prompt_words.TEAM_AGENT.render(locale, name=name, driver=profile.driver, about=about))
    return "\n".join(lines)


def _repository(workspace: Mapping[str, Any] | None, locale: Locale) -> str:
    """Return the instructions for work on the repository, and the list of its files."""
    from agenttalk.rules.text import prompt_words

    if workspace is None:
        return ""
    instructions = (files("agenttalk") / "templates" / _REPOSITORY[locale]).read_text(encoding="utf-8").strip()
    names = _files(Path(workspace["repo"]))
    listed = [f"- {json.dumps(name, ensure_ascii=False)}" for name in names[:_LISTED]]
    listed += [f"- {prompt_words.TEAM_MORE.render(locale, count=len(names) - _LISTED)}"] if len(names) > _LISTED else []
    return "\n".join([instructions, "", prompt_words.TEAM_FILES.render(locale, count=len(names)), *listed])


def _files(repository: Path) -> list[str]:
    """Return the files in the last commit of a repository, or, without a commit, those in the folder."""
    git = shutil.which("git")
    if git is not None:
        arguments = [git, "-C", str(repository), "ls-tree", "-r", "-z", "--name-only", "HEAD"]
        done = subprocess.run(arguments, capture_output=True, check=False)  # noqa: S603 - only reads
        if done.returncode == 0:
            return [name for name in done.stdout.decode(errors="replace").split("\0") if name]
    return sorted(
        str(path.relative_to(repository))
        for path in repository.rglob("*")
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(repository).parts)
    )


def _read_approved_plan(root: Path, drafting_id: str, frame: DraftFrame) -> dict[str, Any]:
    """Return the approved plan. Raises MachineError unless the draft is the one that was checked, to the byte."""
    told = root_access.ask_root(
        root,
        f"/api/plans/{drafting_id}/tasks/{TASK}/explanation",
        lambda local: local.plans.explain_task(drafting_id, TASK),
    )
    seen = [check.get("output", "") for check in told["attempts"][-1]["checks"] if check["id"] == "sound"]
    data = (root / "system_runtime" / "artifacts" / drafting_id / TASK / OUTPUT / OUTPUT).read_bytes()
    digest = f"{_MARK}sha256:{hashlib.sha256(data).hexdigest()}"
    if not seen or seen[0].strip() != digest:
        raise MachineError(
            Code.FILE_UNSAFE,
            f"{OUTPUT} differs from the approved draft",
            hint="find out what changes files of the root",
        )
    plan, problems = _assemble(data, frame)
    if problems:
        raise MachineError(Code.FILE_UNSAFE, f"{OUTPUT} differs from the approved draft: {problems[0].message}")
    return plan


def _tell_open(out: CommandOutput, root: Path, standing: WatchedPlan) -> None:
    """Print the draft if a person must approve it, and where to answer."""
    if out.as_json:
        out.write_json({"ok": False, **standing})
        return
    task = next(task for task in standing["tasks"] if task["task_id"] == TASK)
    place = root / "agents" / task["agent_id"] / "workspace" / standing["plan_id"] / TASK / ".agenttalk"
    drafts = sorted(place.glob(f"*/outputs/{OUTPUT}"), key=lambda path: path.stat().st_mtime_ns)
    if task["phase"] and drafts:
        out.say(sanitize(drafts[-1].read_text(errors="replace")[:_SHOWN]))
    if standing["result"] == "failed":
        why = "; ".join(task["reason"] or "" for task in standing["tasks"] if task["board"] == "failed")
        out.say(f"[bold red]✗[/] no plan was drafted: {sanitize(why)}")
    out.say("[cyan]→[/] answer the question in 'agenttalk inbox'; then run the same command again", err=True)


def _tell_drafted(out: CommandOutput, root: Path, frame: DraftFrame, file: Path, drafted_by: str) -> None:
    """Print where the plan is, and how to run it."""
    if out.as_json:
        out.write_json({"ok": True, "plan_id": frame.plan_id, "file": str(file), "drafted_by": drafted_by})
        return
    out.say(f"[green]✓[/] [bold]{sanitize(frame.plan_id)}[/] is drafted and approved: {sanitize(str(file))}")
    out.say(f"Next: agenttalk run {sanitize(shlex.quote(str(file)))} --root {sanitize(shlex.quote(str(root)))}")
