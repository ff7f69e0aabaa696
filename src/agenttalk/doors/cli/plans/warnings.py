"""Checks a plan before it starts, for faults that would otherwise show as failed tasks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from agenttalk.contracts.errors import AgentTalkError, Code, Problem, UsageError
from agenttalk.doors.cli.core.output import CommandOutput, sanitize
from agenttalk.rules.planfile.compiler import CompiledPlan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agenttalk.contracts.agent import Tier
    from agenttalk.rules.agents.cli_table import CodingAgent


def require_repository(compiled: CompiledPlan) -> None:
    """Raise UsageError when the repository of a plan does not exist."""
    workspace = compiled.manifest.workspace
    if workspace is not None and not Path(workspace.repo).is_dir():
        from agenttalk.rules.text.cli_words import ERRORS

        message = ERRORS["no_repository_there"](path=workspace.repo)
        raise UsageError(Code.FILE_UNREADABLE, message, hint=ERRORS["no_repository_there_hint"]())


def find_repository_warnings(compiled: CompiledPlan, repo: Path | None = None) -> list[Problem]:
    """Return remarks about a plan's repository before it starts; none if the repository cannot be read."""
    from agenttalk.adapters.workspaces.user_folder import survey_folder
    from agenttalk.rules.planfile import plan_remarks

    workspace = compiled.manifest.workspace
    if workspace is None:
        return []
    try:
        found = survey_folder(repo or Path(workspace.repo), workspace.base)
    except AgentTalkError:  # the start of the plan reports it
        return []
    missed = () if workspace.uncommitted == "take" else found.uncommitted
    return plan_remarks.find_remarks(compiled.dag.nodes, found.paths, missed)


def tell_of_repository(out: CommandOutput, compiled: CompiledPlan) -> None:
    """Print what a plan would not see of its repository, and what its checks leave open."""
    for remark in () if out.as_json else find_repository_warnings(compiled):
        out.say(f"[yellow]![/] {sanitize(remark.field)}: {sanitize(out.translate(remark.message))}", err=True)
        out.say(f"  [dim]{sanitize(out.translate(remark.hint))}[/]", err=True)


def warn_of_sandboxes(out: CommandOutput, compiled: CompiledPlan, root: Path, sandbox: Tier | None = None) -> None:
    """Warn of sandbox settings in a plan that the operator's settings override."""
    if out.as_json:
        return
    from agenttalk.rules.core import isolation
    from agenttalk.wiring import settings

    words = settings.load(root).with_sandbox(sandbox).isolation_words
    for remark in isolation.find_unheeded(compiled.profiles, words):
        message, hint = sanitize(out.translate(remark.message)), sanitize(out.translate(remark.hint or ""))
        out.say(f"[yellow]![/] {sanitize(remark.field)}: {message}; {hint}", err=True)


def warn_of_logins(out: CommandOutput, compiled: CompiledPlan, root: Path, sandbox: Tier | None = None) -> None:
    """Warn of coding agents that are not installed, or that have neither a key nor a login in a sandbox."""
    import shutil

    from agenttalk.rules.agents import acp_table, cli_table
    from agenttalk.wiring import settings

    words = settings.load(root).with_sandbox(sandbox).isolation_words
    for name, profile in () if out.as_json else compiled.profiles.items():
        use = profile.acp if profile.driver == "acp" else profile.cli if profile.driver == "cli" else None
        table: Mapping[str, CodingAgent] = acp_table.TABLE if profile.driver == "acp" else cli_table.TABLE
        if use is None or use.agent not in table:
            continue
        if use.program is None and "PATH" not in profile.env and shutil.which(table[use.agent].program) is None:
            missing = out.text("error.no_program", program=table[use.agent].program)
            how = out.text("error.install", how=table[use.agent].install)
            out.say(f"[yellow]![/] agents.{sanitize(name)}: {out.join((missing, how), ';')}", err=True)
            continue
        if words.apply_to(profile).tier == "plain":
            continue
        login = cli_table.choose_login(table[use.agent], {*profile.env, *os.environ}).login
        if login is not None and not (Path.home() / login.path).is_file():
            message = out.text("run.no_login", remedy=sanitize(login.remedy))
            out.say(f"[yellow]![/] agents.{sanitize(name)}: {message}", err=True)


def refuse_sandbox() -> NoReturn:
    """Raise UsageError for --sandbox beside an engine, which uses its own settings."""
    message = "an engine runs in this root already, and its settings set the sandbox"
    hint = "set sandbox in agenttalk.toml and run 'agenttalk config reload', or leave out --sandbox"
    raise UsageError(Code.OPTION_INVALID, message, hint=hint)


def warn_of_programs(out: CommandOutput, compiled: CompiledPlan, root: Path) -> None:
    """Warn of scripts that are neither beside the plan file nor in the agent's folder."""
    for name, profile in compiled.profiles.items():
        for argument in profile.argv[1:] if profile.driver == "script" else ():
            script = argument.endswith((".py", ".sh")) and not argument.startswith(("/", "-"))
            if script and not (root / "agents" / name / argument).is_file() and not out.as_json:
                message = out.text("run.script_missing", script=sanitize(argument), agent=sanitize(name))
                out.say(f"[yellow]![/] agents.{sanitize(name)}: {message}", err=True)
