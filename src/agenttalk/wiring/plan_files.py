"""Reads plan files, joins them with the root's settings of agents, and makes them independent of their place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from agenttalk.adapters.mailbox import fsio
from agenttalk.adapters.mailbox.plan_file_folder import with_check_files
from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.core.base import AgentId, PlanId, is_id
from agenttalk.contracts.core.root_layout import PROFILE
from agenttalk.contracts.core.wire import ENVELOPE_LIMIT
from agenttalk.contracts.errors import Code, Problem, UsageError
from agenttalk.contracts.plan import PlanManifest
from agenttalk.contracts.planfile import reader
from agenttalk.contracts.planfile.model import PlanFile
from agenttalk.contracts.planfile.yaml_text import YamlSource
from agenttalk.contracts.schedule import Schedule
from agenttalk.rules.core import isolation
from agenttalk.rules.planfile import check_files
from agenttalk.rules.planfile.compiler import CompiledPlan, compile_plan
from agenttalk.wiring import settings

_NO_FOLDER: Final = "-"
"""A name in a root that no folder has."""


def compile_plan_file(file: Path, root: Path | None = None, *, plan_id: str | None = None) -> CompiledPlan:
    """Compile a plan file. Programs beside it are named by their absolute path.

    The root's settings of agents win over the plan file. `plan_id` replaces its own.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        from agenttalk.rules.text.cli_words import ERRORS

        message = ERRORS["unreadable"](path=file, why=error.strerror)
        raise UsageError(Code.FILE_UNREADABLE, message, hint=ERRORS["unreadable_hint"]()) from error
    plan = reader.read_plan_file(data, yaml=file.suffix.lower() != ".json")
    if plan_id is not None:
        plan = plan.model_copy(update={"plan_id": PlanId(plan_id)})
    folder = file.absolute().parent
    return check_files.note_places(_compile_for_root(plan, root, folder), str(file.absolute()), str(folder))


def compile_plan_data(data: dict[str, Any], root: Path) -> CompiledPlan:
    """Compile a plan that a command made. No argument of its agents names a file beside it: there is none."""
    return _compile_for_root(reader.plan_of(YamlSource(data)), root, root / _NO_FOLDER)


def compile_schedule(root: Path, schedule: Schedule, plan_id: str) -> CompiledPlan:
    """Compile the plan that a schedule runs."""
    if schedule.plan is not None:
        return compile_plan_file(root / schedule.plan, root, plan_id=plan_id)
    task = {"id": "task", "agent": schedule.agent, "prompt": schedule.prompt}
    return _compile_for_root(reader.plan_of(YamlSource({"plan_id": plan_id, "tasks": [task]})), root, root)


def merge_profiles(root: Path | None, plan: PlanFile) -> dict[str, AgentProfile]:
    """Merge profiles key by key: agenttalk.toml over the plan file over agents/<id>/agent_profile.json."""
    if root is None:
        return {}
    configured = settings.load(root)
    folder = root / "agents"
    named = {path.parent.name for path in folder.glob(f"*/{PROFILE}")} if folder.is_dir() else set()
    found = {}
    for agent_id in sorted({*configured.agents, *(name for name in named if is_id(name))}):
        own = {}
        if agent_id in named:
            data = fsio.read_file(folder / agent_id / PROFILE, limit=ENVELOPE_LIMIT)
            own = AgentProfile.from_bytes(data).as_json()
        said = plan.agents[AgentId(agent_id)].as_json() if agent_id in plan.agents else {}
        said = isolation.raise_isolation(own, said)
        found[agent_id] = AgentProfile.from_json(configured.profile_of(agent_id, {**own, "agent_id": agent_id, **said}))
    return found


def _compile_for_root(plan: PlanFile, root: Path | None, beside: Path) -> CompiledPlan:
    compiled = compile_plan(plan, agents=merge_profiles(root, plan))
    compiled = add_unheeded_warnings(compiled, root)
    profiles = {
        name: profile.model_copy(update={"argv": tuple(_resolve_argument(beside, part) for part in profile.argv)})
        for name, profile in compiled.profiles.items()
    }
    warnings = (*find_overruled(plan, root), *compiled.warnings)
    placed = replace(compiled, profiles=profiles, manifest=_placed(compiled.manifest, beside), warnings=warnings)
    return with_check_files(placed, beside)


def find_overruled(plan: PlanFile, root: Path | None) -> Iterator[Problem]:
    """Warn where the root's settings of agents override the plan."""
    configured = settings.load(root).agents if root is not None else {}
    for agent_id, spec in plan.agents.items():
        own = configured.get(agent_id)
        said, wins = spec.as_json(), own.model_dump(mode="json", exclude_none=True) if own is not None else {}
        for key in said.keys() & wins.keys():
            if said[key] != wins[key]:
                where, hint = f"agents.{agent_id}.{key}", f"change it under [agents.{agent_id}] there"
                message = f"agenttalk.toml says {wins[key]!r}, which wins over {said[key]!r} of the plan"
                yield Problem(Code.PLAN_DOUBTFUL, where, message, hint)


def add_unheeded_warnings(compiled: CompiledPlan, root: Path | None) -> CompiledPlan:
    """Add warnings for wishes of the plan that the operator's settings override."""
    words = settings.load(root).isolation_words if root is not None else isolation.IsolationSettings()
    return replace(compiled, warnings=(*compiled.warnings, *isolation.find_unheeded(compiled.profiles, words)))


def _placed(manifest: PlanManifest, beside: Path) -> PlanManifest:
    """Make the path of the manifest's repository absolute; a relative one starts at the plan file's folder."""
    if manifest.workspace is None:
        return manifest
    workspace = manifest.workspace.model_copy(update={"repo": str(beside / manifest.workspace.repo)})
    return manifest.model_copy(update={"workspace": workspace})


def _resolve_argument(folder: Path, argument: str) -> str:
    """Make an argument that names a file beside the plan file an absolute path."""
    if argument.startswith(("/", "-")) or not (folder / argument).is_file():
        return argument
    return str(folder / argument)
