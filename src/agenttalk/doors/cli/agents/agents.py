"""`agenttalk agent`: lists the supported coding agents, and tries one in a single turn."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from agenttalk.contracts.errors import Code, UsageError
from agenttalk.doors.cli.core.output import CommandOutput, CommonOptions, JsonOption, RootOption, sanitize
from agenttalk.doors.cli.core.root_discovery import find_root

if TYPE_CHECKING:
    from agenttalk.adapters.drivers.script import ScriptDriver
    from agenttalk.contracts.agent import AcpUse, AgentProfile
    from agenttalk.ports.agents import ProgramTurn, TurnEnd
    from agenttalk.rules.agents.cli_table import CodingAgent
    from agenttalk.rules.agents.events import AgentEvent, RunSummary
    from agenttalk.rules.core.redaction import Secrets

app = typer.Typer(no_args_is_help=True, help="List the supported coding agents, and try one.", add_completion=False)
_MARKS: Final = {
    "session": "[dim]·[/]",
    "text": "[blue]»[/]",
    "tool": "[cyan]→[/]",
    "usage": "[dim]·[/]",
    "asked": "[yellow]?[/]",
    "denied": "[bold red]✗[/]",
    "warning": "[yellow]![/]",
    "error": "[bold red]✗[/]",
    "end": "[green]✓[/]",
}
_NOT_SO: Final = 1


@app.command("list")
def list_agents(ctx: typer.Context, root: RootOption = None, as_json: JsonOption = False) -> int:
    """List the supported coding agents, and whether they are installed here."""
    from agenttalk.rules.agents import acp_table, cli_table

    out = CommandOutput.from_options(CommonOptions.merge(ctx, root, as_json))
    tables: dict[str, Mapping[str, CodingAgent]] = {"cli": cli_table.TABLE, "acp": acp_table.TABLE}
    found = [
        {"agent": name, "driver": driver, "program": shutil.which(entry.program), "install": entry.install}
        for driver, table in tables.items()
        for name, entry in table.items()
        if entry.program
    ]
    if out.as_json:
        out.write_json(found)
        return 0
    for each in found:
        path = each["program"]
        mark, place = ("[green]✓[/]", path) if path else ("[yellow]![/]", f"not installed: {each['install']}")
        out.say(f"{mark} [bold]{sanitize(each['agent'] or ''):<9}[/] [dim]{each['driver']}[/] {sanitize(place or '')}")
    return 0


@app.command("try")
def try_agent(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="An agent of the settings, or a supported coding agent.")],
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="Prompt for the agent.")],
    driver: Annotated[str, typer.Option("--driver", help="Driver of a supported coding agent: cli or acp.")] = "cli",
    model: Annotated[str | None, typer.Option("--model", help="Model to use.")] = None,
    folder: Annotated[
        Path | None, typer.Option("--dir", help="Folder to work in. Default: a new one, removed afterwards.")
    ] = None,
    timeout: Annotated[float, typer.Option("--timeout", min=1, help="Time limit in seconds.")] = 600.0,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Run one turn of an agent, and show its events, its usage and how it ends. Nothing is kept."""
    import asyncio

    given = CommonOptions.merge(ctx, root, as_json)
    out = CommandOutput.from_options(given)
    profile = _profile(name, given.root or find_root(Path.cwd()), driver)
    for key, use in (("cli", profile.cli), ("acp", profile.acp), ("llm", profile.llm)):
        if model and use is not None:
            profile = profile.model_copy(update={key: use.model_copy(update={"model": model})})
    if folder is not None and not folder.is_dir():
        raise UsageError(Code.FILE_UNREADABLE, f"there is no folder {folder}")
    with _place(folder) as (cwd, base):
        tried = asyncio.run(_try_profile(profile, prompt, cwd, base, timeout, lambda event: _show(out, event)))
        left = sorted(str(path.relative_to(cwd)) for path in cwd.rglob("*") if path.is_file()) if folder is None else []
    fault = tried.fault
    if out.as_json:
        out.write_json(tried.to_json() | {"ok": fault is None, "fault": fault, "files": left})
    else:
        _conclude(out, tried, left)
    return 0 if fault is None else _NOT_SO


def _profile(name: str, root: Path | None, driver: str) -> AgentProfile:
    from agenttalk.contracts.agent import AgentProfile
    from agenttalk.contracts.core.problems import find_nearest
    from agenttalk.rules.agents import acp_table, cli_table
    from agenttalk.wiring import settings

    tables: dict[str, Mapping[str, CodingAgent]] = {"cli": cli_table.TABLE, "acp": acp_table.TABLE}
    if driver not in tables:
        raise UsageError(
            Code.OPTION_INVALID, f"{driver[:40]!r} is not a driver of coding agents", hint="use cli or acp"
        )
    table = tables[driver]
    known = settings.load(root.absolute()) if root is not None else settings.Settings()
    if name in known.agents:
        profile = AgentProfile.from_json(known.profile_of(name, {"schema_version": "1.0", "agent_id": name}))
        if profile.local is not None and root is not None:
            file = str(root.absolute() / profile.local.model_file)
            profile = profile.model_copy(update={"local": profile.local.model_copy(update={"model_file": file})})
        if profile.driver in {"acp", "cli", "script", "llm", "local"}:
            return known.isolation_words.apply_to(profile)
        can = "acp, cli, script, llm and local can be tried"
        raise UsageError(Code.FIELD_VALUE, f"{name} has the driver {profile.driver!r}; {can}")
    if name in table:
        document = {"schema_version": "1.0", "agent_id": name, "driver": driver, driver: name}
        return known.isolation_words.apply_to(AgentProfile.from_json({**document, "locale": known.locale}))
    near = find_nearest(name, (*known.agents, *table))
    hint = f"did you mean {near!r}?" if near else f"there are: {', '.join((*known.agents, *table))}"
    raise UsageError(Code.NAME_UNKNOWN, f"there is no agent {name[:80]!r}", hint=hint)


@contextmanager
def _place(folder: Path | None) -> Iterator[tuple[Path, Path]]:
    """Yield the folder to work in, and another for the files of the attempt."""
    made = Path(tempfile.mkdtemp(prefix="agenttalk-try-")).resolve()
    try:
        for name in ("work", "attempt"):
            (made / name).mkdir()
        yield (made / "work" if folder is None else folder.absolute()), made / "attempt"
    finally:
        shutil.rmtree(made, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class TrialResult:
    """The result of a trial."""

    ended: TurnEnd
    account: RunSummary

    @property
    def fault(self) -> str | None:
        """Why the turn failed; None if it did not."""
        if self.ended.how != "finished" or self.ended.exit_code != 0:
            detail = self.account.error or self.ended.stderr.decode(errors="replace").strip()
            end = self.ended.error or f"exit code {self.ended.exit_code}"
            return f"{end}: {detail}" if detail else end
        return self.account.fault[1] if self.account.fault else None

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON."""
        ended, account = self.ended, self.account
        return {
            "how": ended.how,
            "exit_code": ended.exit_code,
            "seconds": round(ended.seconds, 3),
            "sandbox": ended.sandbox or "plain",
            "session": account.session,
            "model": account.model,
            "text": account.text,
            "tokens": account.used.tokens,
            "cost_usd": account.used.cost_usd,
            "tool_calls": account.tools,
            "denials": account.denials,
        }


async def _try_profile(
    profile: AgentProfile, prompt: str, cwd: Path, base: Path, seconds: float, show: Callable[[AgentEvent], None]
) -> TrialResult:

    from agenttalk.adapters.drivers.processes import LocalProcesses
    from agenttalk.adapters.drivers.script import ScriptDriver
    from agenttalk.ports.agents import Confinement, ProgramTurn
    from agenttalk.rules.agents.codecs import LONGEST, make_codec
    from agenttalk.rules.agents.events import RunSummary
    from agenttalk.rules.core import redaction

    driver = ScriptDriver(LocalProcesses())
    if profile.driver in {"llm", "local"}:
        return await _ask_model(driver, profile, prompt, cwd, base, seconds, show)
    agent = _entry(profile)
    handed = {name: os.environ[name] for name in (*profile.env, *agent.handed) if name in os.environ}
    secrets = redaction.collect_secrets(handed)
    asked = Confinement(
        profile.tier, required=profile.isolated_only, network=profile.network == "on", writable=(cwd, base)
    )
    confinement = replace(asked, tier=await driver.tier(asked))
    reader = agent.make_codec() if profile.driver == "cli" else make_codec("text")
    account = RunSummary(reader.says_end or profile.driver == "acp")
    turn = ProgramTurn(f"lease_try_{os.getpid()}", profile.argv, cwd, prompt, seconds, handed, confinement=confinement)
    if profile.driver != "script":
        turn = _prepare_turn(agent, profile, turn, base)

    def hear(events: Iterator[AgentEvent]) -> None:
        for event in events:
            redacted = _redact(event, secrets)
            account.add_event(redacted)
            show(redacted)

    turn = replace(turn, hear=lambda line: hear(reader.read_line(line)), longest=LONGEST, keep=4096)
    if profile.acp is not None and profile.driver == "acp":
        ended = await _run_acp_turn(
            driver, profile.acp, agent, replace(turn, prompt=secrets.redact(prompt)), base, hear
        )
    else:
        ended = await driver.run(turn)
    hear(reader.close())
    return TrialResult(replace(ended, stderr=secrets.redact_bytes(ended.stderr)), account)


async def _ask_model(
    driver: ScriptDriver,
    profile: AgentProfile,
    prompt: str,
    cwd: Path,
    base: Path,
    seconds: float,
    show: Callable[[AgentEvent], None],
) -> TrialResult:
    """Run a turn of an agent that is a model: one answer, in the format of every task."""
    from agenttalk.contracts.model_use import LlmUse
    from agenttalk.ports.agents import ProgramTurn
    from agenttalk.rules.agents import model_protocol, model_services
    from agenttalk.rules.agents.events import RunSummary
    from agenttalk.rules.agents.model_answers import AnswerSpec
    from agenttalk.rules.core import redaction

    use = profile.llm if profile.driver == "llm" else profile.local
    try:
        model_services.check_model_use(use, profile.driver)
    except ValueError as error:
        raise UsageError(Code.FIELD_VALUE, str(error)) from error
    named = model_services.key_of(use) if isinstance(use, LlmUse) else None
    key = os.environ.get(named, "").strip() if named else ""
    if named and not key:
        raise UsageError(Code.MODEL_UNUSABLE, f"the variable {named} with the key of the service is not set")
    secrets = redaction.Secrets({named: key} if named else {})
    handed = {name: os.environ[name] for name in profile.env if name in os.environ}
    places = {"AGENTTALK_OUTPUTS": str(base), "AGENTTALK_RESULT": str(base / "result.json")}
    env = {**handed, **places, **({model_protocol.KEY: key} if key else {})}
    fields = use.model_dump(mode="json", exclude_none=True) if use is not None else {}
    request = model_protocol.ModelRequest(
        profile.driver, fields, secrets.redact(prompt), AnswerSpec(), seconds, profile.locale
    )
    talk, account = model_protocol.ModelRun(), RunSummary(says_end=True)

    def hear(line: bytes) -> None:
        event = talk.add_line(line)
        if event is not None:
            redacted = _redact(event, secrets)
            account.add_event(redacted)
            show(redacted)

    program = (sys.executable, "-P", "-m", "agenttalk.adapters.answering")
    turn = ProgramTurn(f"lease_try_{os.getpid()}", program, cwd, request.write(), seconds, env, hear=hear)
    ended = await driver.run(replace(turn, longest=model_protocol.LONGEST, keep=4096))
    return TrialResult(replace(ended, stderr=secrets.redact_bytes(ended.stderr)), account)


async def _run_acp_turn(
    driver: ScriptDriver,
    use: AcpUse,
    agent: Any,
    turn: ProgramTurn,
    base: Path,
    hear: Callable[[Iterator[AgentEvent]], None],
) -> TurnEnd:
    """Run a turn over ACP. No person can answer here, so requests for permission are refused."""
    from agenttalk.engine.agents.acp import AcpConversation, conclude_turn
    from agenttalk.ports.dialogues import SessionParameters
    from agenttalk.rules.agents import acp_table
    from agenttalk.rules.agents.permissions import PermissionPolicy

    confined = turn.confinement is not None and turn.confinement.tier != "plain"
    opening = SessionParameters(str(turn.cwd), turn.prompt, mode=use.mode or "", auth=agent.auth, besides=(str(base),))
    try:
        dialogue = driver.open_dialogue(opening)
    except ValueError as error:
        raise UsageError(Code.FIELD_VALUE, str(error)) from error
    policy = PermissionPolicy.from_profile(
        use, (str(turn.cwd), str(turn.cwd.resolve())), (str(base),), confined=confined
    )
    speaking = AcpConversation(dialogue, policy, None, lambda events: hear(iter(events)), float(use.start_seconds))
    env = {**acp_table.build_variables(agent, use, confined=confined), **turn.env}
    ended = await driver.run(replace(turn, prompt="", env=env, hear=speaking.hear, talk=speaking))
    await speaking.end()
    return conclude_turn(ended, speaking, lambda events: hear(iter(events)))


def _entry(profile: AgentProfile) -> Any:
    from agenttalk.rules.agents import acp_table, cli_table

    if profile.driver == "script":
        return cli_table.TABLE["custom"]
    try:
        return acp_table.resolve_agent(profile.acp) if profile.driver == "acp" else cli_table.resolve_agent(profile.cli)
    except ValueError as error:
        raise UsageError(Code.FIELD_VALUE, str(error)) from error


def _prepare_turn(agent: Any, profile: AgentProfile, turn: ProgramTurn, base: Path) -> ProgramTurn:
    """Write the files that a coding agent needs, and return its turn."""
    from agenttalk.contracts.agent import CliUse
    from agenttalk.rules.agents import cli_table
    from agenttalk.rules.agents.cli_table import RunLocation

    confined = turn.confinement is not None and turn.confinement.tier != "plain"
    room = RunLocation(str(base), str(base / "home") if confined else "")
    use = (profile.acp if profile.driver == "acp" else profile.cli) or CliUse(agent="")
    try:
        start = cli_table.build_launch(agent, use, turn.prompt, room, confined=confined)
    except ValueError as error:
        raise UsageError(Code.FIELD_VALUE, str(error)) from error
    (base / "home").mkdir()
    for path, text in start.files.items():
        (base / path).parent.mkdir(parents=True, exist_ok=True)
        (base / path).write_text(text)
    env: Mapping[str, str] = {**start.variables, **turn.env, **start.own}
    return replace(turn, argv=start.argv, prompt=start.stdin, env=env)


def _redact(event: AgentEvent, secrets: Secrets) -> AgentEvent:
    return event._replace(text=secrets.redact(event.text), name=secrets.redact(event.name)) if secrets else event


def _show(out: CommandOutput, event: AgentEvent) -> None:
    if out.as_json:
        return
    text = f"{event.used.tokens:,} tokens" if event.kind == "usage" else event.line
    text += f", ${event.used.cost_usd:g}" if event.used.cost_usd else ""
    out.say(f"{_MARKS[event.kind]} [dim]{event.kind:<7}[/] {sanitize(text)}")


def _conclude(out: CommandOutput, tried: TrialResult, left: list[str]) -> None:
    trial = tried.to_json()
    used = [f"{trial['seconds']:g} s", f"sandbox {trial['sandbox']}"]
    used += [f"{trial['tokens']:,} tokens"] if trial["tokens"] else []
    used += [f"${trial['cost_usd']:g}"] if trial["cost_usd"] else []
    used += [out.count(trial["tool_calls"], "tool call")]
    if trial["text"]:
        out.say(sanitize(trial["text"]))
    if left:
        shown = ", ".join(left[:20]) + (" …" if len(left) > 20 else "")
        out.say(f"[dim]files:[/] {sanitize(shown)}")
    mark = "[green]✓[/] succeeded" if tried.fault is None else f"[bold red]✗[/] {sanitize(tried.fault)}"
    out.say(f"{mark} [dim]({sanitize(', '.join(used))})[/]")
