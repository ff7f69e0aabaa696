"""Runs an agent on a repository until a check is proven: prepares it, says what was decided, runs it, tells its end."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shlex
import shutil
import stat
import subprocess
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from agenttalk.contracts.errors import AgentTalkError, Code, ContractError, MachineError, UsageError
from agenttalk.doors.cli.changes import check_selection
from agenttalk.doors.cli.changes.change_outcome import ChangeOutcome
from agenttalk.doors.cli.changes.prepared_change import ChangeCheck, ChangeOptions, PreparedChange
from agenttalk.doors.cli.core.output import CommandOutput, pad, sanitize, sanitize_line
from agenttalk.rules.changes import change_plan
from agenttalk.rules.changes.change_plan import ChangeLimits, ChangeOrder
from agenttalk.rules.text import cli_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenttalk.adapters.workspaces.user_folder import UserRepository
    from agenttalk.contracts.agent import Tier
    from agenttalk.doors.cli.changes.pull_request_target import PullRequestTarget
    from agenttalk.doors.cli.plans.watched_plan import WatchedPlan
    from agenttalk.rules.agents.agent_commands import AgentCommand
    from agenttalk.rules.planfile.compiler import CompiledPlan

_ENDED: Final = "ended.json"
"""The file of a root that says how its run ended."""
_TRIES: Final = 1000
_START: Final = (
    'top=$PWD; cd -- "$0" && mark=$(mktemp) || exit 126; "$@"; code=$?; '
    '[ $code -eq 0 ] || { [ $code -lt 126 ] && [ -n "$(find "$top" -newer "$mark" -print -quit)" ]; } && code=0; '
    'rm -f "$mark"; exit $code'
)
"""Starts any other program. Its exit code is a claim about its own work, and only the check decides. A program that
failed and changed nothing has no work: its failure is the reason that people get to see."""
_SHOWN: Final = 3


class ChangeRun:
    """One call of `until` or `do`."""

    def __init__(self, out: CommandOutput, options: ChangeOptions) -> None:
        self._out = out
        self._options = options
        self._began = time.monotonic()

    def run(self, command: Sequence[str], check: str) -> int:
        """Run an agent until a check is proven. Returns the exit code."""
        from agenttalk.adapters.workspaces.user_folder import find_repository

        repository = find_repository(Path.cwd())
        agent = _read_agent(command, repository)
        check = _require_text(check)
        if self._options.race:
            if not agent.is_known or not agent.prompt:
                errors = cli_words.ERRORS
                raise UsageError(Code.OPTION_INVALID, errors["race_prompt"](), hint=errors["race_prompt_hint"]())
            return self._race(repository, agent, ChangeCheck(check), Path.cwd())
        return self.change(repository, agent, ChangeCheck(check, check_selection.make_check(repository, check)))

    def run_goal(self, goal: str, agent: str | None, check: str | None, *, ask_me: bool) -> int:
        """Run a coding agent until the goal is proven by a check, which is found unless it is named."""
        from agenttalk.adapters.workspaces.user_folder import find_repository

        if not goal.strip():
            errors = cli_words.ERRORS
            raise UsageError(Code.OPTION_INVALID, errors["empty_goal"](), hint=errors["empty_goal_hint"]())
        repository = find_repository(Path.cwd())
        chosen = ChangeCheck(f"Is this done? {goal.strip()}") if ask_me else _choose_check(repository, check)
        if not self._options.race:
            return self.change(repository, _choose_agent(agent, goal.strip()), chosen)
        if chosen.candidate is None or agent is not None:
            errors = cli_words.ERRORS
            raise UsageError(Code.OPTION_INVALID, errors["race_check"](), hint=errors["leave_out_one"]())
        first = _choose_agent(self._options.race[0], goal.strip())
        return self._race(repository, first, chosen, repository.top / chosen.candidate.cwd)

    def _race(self, repository: UserRepository, agent: AgentCommand, check: ChangeCheck, folder: Path) -> int:
        """Let several agents work on the same, each in a run of its own, started in `folder`."""
        from agenttalk.adapters.workspaces.user_folder import find_repository
        from agenttalk.doors.cli.changes.agent_race import AgentRace

        _require_usable(self._options)
        self._require_outcome(repository)
        if folder == repository.top / repository.inside:
            self._require_folder(repository)
        names = self._options.race
        commands = {name: agent if name == agent.agent else _choose_agent(name, agent.prompt) for name in names}
        repository = find_repository(folder)
        check = replace(check, candidate=check_selection.make_check(repository, check.text))
        prepared = {name: self._prepare(repository, command, check) for name, command in commands.items()}
        self._tell_decided(*prepared.values())
        return AgentRace(self._out, self._options, check.text, folder).run(prepared, self._options.take)

    def change(self, repository: UserRepository, agent: AgentCommand, check: ChangeCheck) -> int:
        """Run an agent until the check that was chosen is proven. Returns the exit code."""
        _require_usable(self._options)
        if not agent.is_known or (check.candidate is not None and check.candidate.cwd == repository.inside):
            self._require_folder(repository)
        target = self._require_outcome(repository)
        prepared = replace(self._prepare(repository, agent, check), target=target)
        self._tell_decided(prepared)
        try:
            standing = self._run(prepared)
        except BaseException:
            _withdraw_branch(prepared)
            raise
        return self._conclude(prepared, standing)

    def _require_folder(self, repository: UserRepository) -> None:
        """Raise UsageError when the clone will not have the folder where the user is."""
        inside = repository.inside
        if not inside or self._options.prepare or any(path.startswith(f"{inside}/") for path in repository.paths):
            return
        links = check_selection.choose_links(repository, self._options.links)
        if not any(inside == link or inside.startswith(f"{link}/") for link in links):
            message = f"the clone will not have the folder {inside!r}: git knows no file in it"
            raise UsageError(Code.OPTION_INVALID, message, hint="go to the top of the repository, or to another folder")

    def _require_outcome(self, repository: UserRepository) -> PullRequestTarget | None:
        """Find where the pull request will be opened. Raises UsageError when the result would have no place."""
        if repository.untakeable:
            message = f"your uncommitted work cannot be taken along: {repository.untakeable}"
            raise UsageError(Code.FILE_UNSAFE, message, hint="commit it, or finish the merge")
        if self._options.merge:
            _require_mergeable(repository)
        if not self._options.pull_request:
            return None
        from agenttalk.doors.cli.changes import pull_request_target
        from agenttalk.wiring.state_folder import find_state_folder

        state = find_state_folder(repository.top)
        return pull_request_target.find_target(repository, self._options.root, state)

    def _prepare(self, repository: UserRepository, agent: AgentCommand, chosen: ChangeCheck) -> PreparedChange:
        from agenttalk.wiring.state_folder import find_state_folder

        options = self._options
        links = check_selection.choose_links(repository, options.links)
        home = find_state_folder(repository.top) / "runs" / _name_of(repository)
        state = f"{repository.head} {_hash_uncommitted(repository)}"
        for attempt in range(1, _TRIES):
            order = ChangeOrder(
                repository=str(repository.top),
                identity=f"{os.path.realpath(repository.common)} {state}",
                name=_first_line(agent.prompt) or chosen.text,
                goal=agent.prompt.strip() or f"Make this check pass: {chosen.text}",
                agent_id=_agent_id(agent),
                agent=_profile_of(agent, repository, options.env),
                check=_make_check(repository, chosen, links),
                question=chosen.text,
                protected=options.protect,
                scope=options.scope,
                tests_allowed=options.allow_tests,
                suspicion=options.suspicion,
                already_green=options.already_green,
                links=links,
                prepare=options.prepare,
                limits=options.limits,
                attempt=attempt,
            )
            plan = change_plan.make_plan(order)
            root = home / plan["plan_id"]
            if not _is_over(root, repository, f"agenttalk/{plan['plan_id']}"):
                compiled = _compile(plan, root)
                return PreparedChange(repository, agent, chosen, options, links, root, compiled)
        raise UsageError(Code.NAME_TAKEN, f"this was tried {_TRIES - 1} times", hint=f"remove {home}")

    def _run(self, prepared: PreparedChange) -> WatchedPlan:
        from agenttalk.doors.cli.plans import run as runs
        from agenttalk.doors.cli.plans import warnings

        sandbox = prepared.options.sandbox
        if not self._out.as_json:
            warnings.warn_of_logins(self._out, prepared.compiled, prepared.root, sandbox)
        return runs.follow_compiled(
            self._out, prepared.compiled, prepared.root, quiet=True, until_asked=True, sandbox=sandbox
        )

    def _tell_decided(self, prepared: PreparedChange, *others: PreparedChange) -> None:
        """Print what was decided, before the agent starts. `others` differ in their agents only."""
        if self._out.as_json:
            return
        repository, options = prepared.repository, prepared.options
        out = self._out
        self._line("check", _describe_check(out, prepared.check))
        self._line("agent", ", ".join(_describe_agent(out, run.agent) for run in (prepared, *others)))
        self._line("from", _describe_base(out, repository))
        if (candidate := prepared.check.candidate) is not None:
            kept = change_plan.list_protected(candidate, options.protect, tests_allowed=options.allow_tests)
            self._line("protected", _shorten(out, kept) or out.text("change_run.nothing"))
        if options.scope:
            self._line("scope", _shorten(out, options.scope))
        if prepared.links:
            self._line("read-only", _shorten(out, prepared.links))
        if options.prepare:
            self._line("prepare", sanitize_line(options.prepare))
        self._line("sandbox", _describe_sandbox(out, options.sandbox))
        self._line("limits", _describe_limits(out, options.limits))
        for paths, template in (
            (repository.submodules, "change_run.submodules"),
            (repository.pointers, "change_run.lfs"),
        ):
            if paths:
                out.say(f"[yellow]![/] {out.text(template, paths=_shorten(out, paths))}", err=True)

    def _line(self, name: str, text: str) -> None:
        self._out.say(f"[dim]{pad(self._out.text(f'change_run.{name}'), 10)}[/] {text}", err=True)

    def _conclude(self, prepared: PreparedChange, standing: WatchedPlan) -> int:
        """Tell how the run ended, and return the exit code."""
        report = ChangeOutcome(self._out, prepared, standing, time.monotonic() - self._began)
        if report.result in {"proven", "not proven", "green", "unable"}:
            _note_end(prepared.root, report.result)
        if report.result not in {"proven", "waiting"}:
            _withdraw_branch(prepared)
        return report.tell()


def _require_text(check: str) -> str:
    """Return the check without spaces around it. Raises UsageError when it is empty, or no shell can read it."""
    check = check.strip()
    if not check:
        errors = cli_words.ERRORS
        raise UsageError(Code.OPTION_INVALID, errors["empty_check"](), hint=errors["no_check_hint"]())
    read = subprocess.run(  # noqa: S603 - `-n` only reads it
        ["/bin/sh", "-n", "-c", check], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if read.returncode:
        why = sanitize_line(read.stderr.decode(errors="replace"))[:160]
        errors = cli_words.ERRORS
        raise UsageError(Code.OPTION_INVALID, errors["shell_refuses"](why=why), hint=errors["shell_hint"]())
    return check


def _read_agent(command: Sequence[str], repository: UserRepository) -> AgentCommand:
    """Read the command of the agent. Raises UsageError when it cannot be started."""
    from agenttalk.rules.agents import agent_commands, cli_table

    if not command:
        errors = cli_words.ERRORS
        raise UsageError(Code.OPTION_INVALID, errors["no_command"](), hint=errors["no_command_hint"]())
    try:
        agent = agent_commands.read_command(command)
    except ValueError as error:
        raise UsageError(Code.OPTION_INVALID, str(error)) from error
    here = repository.top / repository.inside
    missing = not (here / agent.program).exists() if "/" in agent.program else shutil.which(agent.program) is None
    if missing:
        install = cli_table.TABLE[agent.agent].install if agent.is_known else ""
        errors = cli_words.ERRORS
        hint = errors["install"](how=install) if install else errors["no_program_hint"]()
        raise UsageError(Code.NAME_UNKNOWN, errors["no_program"](program=agent.program), hint=hint)
    return agent


def _choose_check(repository: UserRepository, named: str | None) -> ChangeCheck:
    """Choose what proves a goal. Raises UsageError when nothing does."""
    if named is not None:
        named = _require_text(named)
        return ChangeCheck(named, check_selection.make_check(repository, named))
    candidates = check_selection.find_checks(repository)
    if not candidates:
        hint = cli_words.ERRORS["no_check_found_hint"]()
        raise UsageError(Code.OPTION_INVALID, cli_words.ERRORS["no_check_found"](folder=repository.top), hint=hint)
    first = candidates[0]
    return ChangeCheck(first.run, first, first.why, len(candidates) - 1)


def _choose_agent(named: str | None, goal: str) -> AgentCommand:
    """Choose the coding agent that was named, or the first that is installed. Raises UsageError when there is none."""
    from agenttalk.rules.agents import agent_commands, cli_table

    known, errors = list(agent_commands.FLAGS), cli_words.ERRORS
    if named is not None and named not in known:
        hint = errors["agent_unknown_hint"](names=", ".join(known))
        raise UsageError(Code.NAME_UNKNOWN, errors["agent_unknown"](name=named[:40]), hint=hint)
    wanted = known if named is None else [named]
    programs = {name: cli_table.TABLE[name].program for name in wanted}
    found = next((name for name in wanted if shutil.which(programs[name])), None)
    if found is None:
        what = errors["agent_missing"](name=named) if named else errors["no_agent"](names=", ".join(known))
        raise UsageError(Code.NAME_UNKNOWN, what, hint=errors["install"](how=cli_table.TABLE[wanted[0]].install))
    return agent_commands.AgentCommand(programs[found], found, goal)


def _make_check(repository: UserRepository, chosen: ChangeCheck, links: tuple[str, ...]) -> Any:
    """Make the check of the plan, led to programs that are only in linked folders; None where a person is asked."""
    if chosen.candidate is None:
        return None
    return check_selection.lead_to_programs(repository, chosen.candidate, links)


def _require_mergeable(repository: UserRepository) -> None:
    """Raise UsageError when a result could not be merged."""
    errors = cli_words.ERRORS
    if not repository.branch:
        raise UsageError(Code.OPTION_INVALID, errors["merge_branch"](), hint=errors["merge_branch_hint"]())
    if repository.uncommitted:
        files = ", ".join(repository.uncommitted[:_SHOWN]) + (" …" if len(repository.uncommitted) > _SHOWN else "")
        raise UsageError(Code.OPTION_INVALID, errors["merge_clean"](names=files), hint=errors["merge_clean_hint"]())


def _first_line(text: str) -> str:
    return next((line.strip()[:120] for line in text.splitlines() if line.strip()), "")


def _agent_id(agent: AgentCommand) -> str:
    name = agent.agent or change_plan.make_slug(Path(agent.program).stem)
    return name or "agent"


def _profile_of(agent: AgentCommand, repository: UserRepository, env: tuple[str, ...]) -> dict[str, Any]:
    """Describe an agent. Its program runs in the folder of the clone that is the one where the user is."""
    profile = agent.to_profile()
    if not agent.is_known:
        program = agent.program if "/" in agent.program else shutil.which(agent.program) or agent.program
        argv = [_from_clone(part, repository) for part in (program, *agent.args)]
        profile["argv"] = ["/bin/sh", "-c", _START, repository.inside or ".", *argv]
    return profile | ({"env": list(env)} if env else {})


def _from_clone(argument: str, repository: UserRepository) -> str:
    """Name a file that is not in the repository by its full path, so that it is found from the clone."""
    place = Path(os.path.normpath(repository.top / repository.inside / argument))
    outside = argument.startswith("../") and not place.is_relative_to(repository.top)
    return str(place) if outside and place.exists() else argument


def _name_of(repository: UserRepository) -> str:
    mark = hashlib.sha256(os.fsencode(os.path.realpath(repository.common))).hexdigest()[:8]
    return f"{change_plan.make_slug(repository.name) or 'repository'}-{mark}"


def _hash_uncommitted(repository: UserRepository) -> str:
    """Hash the files that differ from the commit, by name, mode and content."""
    digest = hashlib.sha256()
    for path in repository.uncommitted:
        where = repository.top / path
        digest.update(os.fsencode(path) + b"\0")
        with suppress(OSError):
            status = where.lstat()
            digest.update(f"{stat.S_IFMT(status.st_mode)} {status.st_mode & stat.S_IXUSR}\0".encode())
            if stat.S_ISLNK(status.st_mode):
                digest.update(os.fsencode(where.readlink()))
            elif stat.S_ISREG(status.st_mode):
                with where.open("rb") as file:
                    digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _is_over(root: Path, repository: UserRepository, branch: str) -> bool:
    """Return whether a run ended so that another one begins: nothing was proven, or its branch was deleted."""
    try:
        ended = json.loads((root / _ENDED).read_bytes())["result"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return ended != "proven" or not _has_branch(repository, branch)


def _has_branch(repository: UserRepository, branch: str) -> bool:
    from agenttalk.adapters.workspaces.user_folder import read_work

    return read_work(repository.top, branch) is not None


def _note_end(root: Path, result: str) -> None:
    path = root / _ENDED
    new = path.with_suffix(".new")
    new.write_text(json.dumps({"result": result}) + "\n")
    new.replace(path)


def _withdraw_branch(prepared: PreparedChange) -> None:
    """Delete the branch of a run that proved nothing. The run makes it again when it goes on."""
    import asyncio

    from agenttalk.adapters.proving import FOLDER
    from agenttalk.adapters.workspaces.paths import WorkspaceSettings
    from agenttalk.adapters.workspaces.workspace import PlanWorkspace

    async def withdraw() -> None:
        home = prepared.root / FOLDER / prepared.plan_id
        space = await PlanWorkspace.open(WorkspaceSettings(prepared.repository.top, prepared.plan_id, home))
        try:
            await space.withdraw()
        finally:
            await space.release()

    with suppress(AgentTalkError, OSError):  # a branch that stays changes nothing about the end of the run
        asyncio.run(withdraw())


def _compile(plan: dict[str, Any], root: Path) -> CompiledPlan:
    """Compile the plan, and make its root. Raises ContractError when an option is not valid."""
    from agenttalk.wiring.plan_files import compile_plan_data

    try:
        for folder in (root.parent.parent, root.parent, root, root / "agents", root / "system_runtime"):
            folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise MachineError(Code.FILE_UNWRITABLE, f"cannot make the folder {root}: {error.strerror}") from error
    compiled = compile_plan_data(plan, root)
    if compiled.problems:
        raise ContractError(compiled.problems[0].code, "an option cannot be used", compiled.problems)
    return compiled


def _shorten(out: CommandOutput, paths: Sequence[str]) -> str:
    shown = ", ".join(sanitize_line(path) for path in paths[:_SHOWN])
    return out.text("cli.and_more", names=shown, count=len(paths) - _SHOWN) if len(paths) > _SHOWN else shown


def _describe_check(out: CommandOutput, check: ChangeCheck) -> str:
    if check.candidate is None:
        return out.text("change_run.you")
    shown, why = sanitize_line(check.text), sanitize_line(out.translate(check.why))
    if check.candidate.cwd:
        shown = out.text("change_run.check_in", check=shown, folder=sanitize(check.candidate.cwd))
    if not why:
        return shown
    if check.others:
        found = out.text("change_run.found_others", why=why, others=out.count(check.others, "other"))
    else:
        found = out.text("change_run.found", why=why)
    return f"{shown} [dim]{found}[/]"


def _describe_agent(out: CommandOutput, agent: AgentCommand) -> str:
    if not agent.is_known:
        return f"{sanitize_line(shlex.join(agent.argv))[:100]} [dim]{out.text('change_run.feedback')}[/]"
    name = str(agent.agent)
    if agent.model:
        name = out.text("change_run.model", agent=name, model=sanitize_line(agent.model))
    if not agent.dropped:
        return name
    return f"{name} [dim]{out.text('change_run.dropped', flags=sanitize_line(' '.join(agent.dropped)))}[/]"


def _describe_sandbox(out: CommandOutput, tier: Tier | None) -> str:
    import asyncio

    from agenttalk.adapters.drivers.sandboxes import Sandboxes
    from agenttalk.ports.agents import Confinement

    try:
        chosen = asyncio.run(Sandboxes().choose(Confinement(tier or "best")))
    except ValueError as error:
        raise UsageError(Code.OPTION_INVALID, f"--sandbox {tier}: {error}") from error
    return f"[yellow]{out.text('change_run.no_sandbox')}[/]" if chosen == "plain" else chosen


def _require_usable(options: ChangeOptions) -> None:
    """Raise UsageError for a value that cannot be used, before anything is prepared."""
    from agenttalk.rules.core import scope

    for name, value in (("--usd", options.limits.cost_usd), ("--minutes", options.limits.minutes)):
        if value is not None and not 0 < value < math.inf:
            message = cli_words.ERRORS["no_work_allowed"](option=name, value=value)
            raise UsageError(Code.OPTION_INVALID, message, hint=cli_words.ERRORS["no_work_allowed_hint"](option=name))
    for name, globs in (("--protect", options.protect), ("--scope", options.scope)):
        for glob in globs:
            try:
                scope.read_globs([glob])
            except AgentTalkError as error:
                raise UsageError(error.code, f"{name}: {error.message}", hint=error.hint) from error
    if options.take != "first" and not options.race:
        message = cli_words.ERRORS["take_race"](take=options.take)
        raise UsageError(Code.OPTION_INVALID, message, hint=cli_words.ERRORS["take_race_hint"]())
    _require_variables(options.env)


def _require_variables(names: Sequence[str]) -> None:
    """Raise UsageError for a variable that cannot be handed over."""
    for name in names:
        if "=" in name or name.upper().startswith("AGENTTALK"):
            message = cli_words.ERRORS["not_given"](name=name[:60])
            raise UsageError(Code.OPTION_INVALID, message, hint=cli_words.ERRORS["not_given_hint"]())
        if name not in os.environ:
            message = cli_words.ERRORS["unset"](name=name[:60])
            raise UsageError(Code.OPTION_INVALID, message, hint=cli_words.ERRORS["unset_hint"](name=name))


def _describe_base(out: CommandOutput, repository: UserRepository) -> str:
    branch = sanitize(repository.branch) if repository.branch else out.text("change_run.no_branch")
    commit, changed = repository.head[:12], len(repository.uncommitted)
    if changed:
        files = out.count(changed, "uncommitted file")
        return out.text("change_run.base_uncommitted", commit=commit, branch=branch, files=files)
    return out.text("change_run.base", commit=commit, branch=branch)


def _describe_limits(out: CommandOutput, limits: ChangeLimits) -> str:
    parts = [out.count(limits.rounds, "round")]
    parts += [out.text("time.limit", minutes=limits.minutes)] if limits.minutes is not None else []
    parts += [f"${limits.cost_usd:g}"] if limits.cost_usd is not None else []
    return out.join(parts)
