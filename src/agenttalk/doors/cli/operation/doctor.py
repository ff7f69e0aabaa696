"""`agenttalk doctor`: checks what works on this machine, and how to fix the rest."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlsplit

import typer

from agenttalk.contracts.errors import AgentTalkError, Code, UsageError
from agenttalk.doors.cli.core.output import CommandOutput, CommonOptions, JsonOption, RootOption, sanitize
from agenttalk.doors.cli.core.root_discovery import find_root

if TYPE_CHECKING:
    from agenttalk.contracts.agent import Tier
    from agenttalk.ports.agents import TurnEnd
    from agenttalk.rules.agents.cli_table import CodingAgent

app = typer.Typer(add_completion=False)
OLDEST_PYTHON: Final = (3, 11)
OLDEST_SQLITE: Final = (3, 51, 3)
_SECONDS: Final = 10.0
_SLOW: Final = 60.0
"""Time limit of a coding agent for printing its version, in seconds. Some are slow on a busy machine."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The result of a probe."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""
    """What to do if it does not work."""
    needed: bool = True
    """Whether AgentTalk, as configured, requires it."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The root and settings that probes read."""

    root: Path | None = None
    settings: Any = None
    """The settings of the root, if there is one and they can be read."""
    problem: str = ""
    """Why the settings cannot be read."""

    def wants_sandbox(self, *tiers: str) -> bool:
        """Return whether the settings run an agent in one of these sandboxes."""
        agents: Mapping[str, Any] = self.settings.agents if self.settings else {}
        return any(agent.sandbox in tiers for agent in agents.values())


@app.command("doctor")
def doctor(
    ctx: typer.Context,
    only: Annotated[list[str] | None, typer.Argument(metavar="[PROBE]...", help="Run only these probes.")] = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Check what works on this machine, and how to fix the rest. With a root, also check what its settings need."""
    given = CommonOptions.merge(ctx, root, as_json)
    out = CommandOutput.from_options(given)
    found = list(run_probes(_machine(given.root or find_root(Path.cwd())), only or ()))
    ok = all(each.ok for each in found if each.needed)
    if out.as_json:
        out.write_json({"ok": ok, "probes": [asdict(each) for each in found]})
    else:
        _tell(out, found)
    return 0 if ok else 1


def run_probes(machine: Machine, only: tuple[str, ...] | list[str] = ()) -> Iterator[ProbeResult]:
    """Run the probes, and yield their results. Raises UsageError for a probe that does not exist."""
    from agenttalk.contracts.core.problems import find_nearest

    for name in only:
        if name not in PROBES:
            near = find_nearest(name, PROBES)
            hint = f"did you mean {near!r}?" if near else f"there are: {', '.join(PROBES)}"
            raise UsageError(Code.NAME_UNKNOWN, f"there is no probe {name[:80]!r}", hint=hint)
    for name, probe in PROBES.items():
        if not only or name in only:
            try:
                yield from probe(machine)
            except Exception as error:  # noqa: BLE001 - a probe that breaks must not hide the others
                yield ProbeResult(name, False, f"the probe failed: {type(error).__name__}: {error}")


def _machine(root: Path | None) -> Machine:
    from agenttalk.wiring import settings

    if root is None:
        return Machine()
    try:
        return Machine(root.absolute(), settings.load(root.absolute()))
    except AgentTalkError as error:
        return Machine(root.absolute(), problem=error.message)


def _tell(out: CommandOutput, found: list[ProbeResult]) -> None:
    wide = max((len(each.name) for each in found), default=0)
    for each in found:
        mark = "[green]✓[/]" if each.ok else "[bold red]✗[/]" if each.needed else "[yellow]![/]"
        out.say(f"{mark} [bold]{each.name:<{wide}}[/]  {sanitize(each.detail)}")
        if not each.ok and each.remedy:
            out.say(f"  {'':<{wide}}  [cyan]→[/] {sanitize(each.remedy)}")


def _python(_: Machine) -> Iterator[ProbeResult]:
    wanted = ".".join(map(str, OLDEST_PYTHON))
    ok = sys.version_info >= OLDEST_PYTHON
    yield ProbeResult("python", ok, sys.version.split()[0], f"install Python {wanted} or newer")


def _sqlite(_: Machine) -> Iterator[ProbeResult]:
    import apsw

    found = apsw.sqlite_lib_version()
    ok = tuple(map(int, found.split("."))) >= OLDEST_SQLITE
    yield ProbeResult("sqlite", ok, found, "run pip install --upgrade apsw, which includes a current version")


def _git(_: Machine) -> Iterator[ProbeResult]:
    from agenttalk.adapters.workspaces.paths import OLDEST_GIT

    wanted = ".".join(map(str, OLDEST_GIT))
    remedy = f"install git {wanted} or newer; plans that work on a repository need it"
    program = shutil.which("git")
    if program is None:
        yield ProbeResult("git", False, "not installed", remedy, needed=False)
        return
    version = _first_line(program, "--version")
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    yield ProbeResult("git", numbers >= OLDEST_GIT, version.removeprefix("git version "), remedy, needed=False)


def _bubblewrap(machine: Machine) -> Iterator[ProbeResult]:
    from agenttalk.adapters import sandbox
    from agenttalk.adapters.drivers.sandboxes import REMEDIES

    program = sandbox.find_bubblewrap()
    why = sandbox.describe_problem(program)
    version = _first_line(str(program), "--version").removeprefix("bubblewrap ") if program else ""
    detail = why or f"{version}, works: checks and agents can be sandboxed"
    remedy = REMEDIES["bubblewrap"]
    if program and why:
        remedy = "allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, or an AppArmor profile for bwrap)"
    yield ProbeResult("bubblewrap", not why, detail, remedy, needed=machine.wants_sandbox("bubblewrap"))


def _landlock(machine: Machine) -> Iterator[ProbeResult]:
    from agenttalk.adapters.drivers import landlock
    from agenttalk.adapters.drivers.sandboxes import REMEDIES

    why = landlock.describe_problem()
    offline = landlock.describe_problem(network=False)
    detail = why or f"version {landlock.read_version()}" + (f"; {offline}" if offline else ", without the network too")
    yield ProbeResult("landlock", not why, detail, REMEDIES["landlock"], needed=machine.wants_sandbox("landlock"))


def _inotify(_: Machine) -> Iterator[ProbeResult]:
    from agenttalk.adapters.mailbox.watch import describe_problem

    why = describe_problem()
    remedy = "raise fs.inotify.max_user_instances; until then folders are polled every few seconds"
    yield ProbeResult("inotify", not why, why or "folders are watched", remedy, needed=False)


def _settings(machine: Machine) -> Iterator[ProbeResult]:
    if machine.problem:
        yield ProbeResult("settings", False, machine.problem, "correct agenttalk.toml, or the variables AGENTTALK__…")
    elif machine.root is not None:
        yield ProbeResult("settings", True, f"{machine.root}: {len(machine.settings.agents)} agents configured")


def _store(machine: Machine) -> Iterator[ProbeResult]:
    if machine.settings is None or not machine.settings.store_url:
        return
    remedy = "start the server, and check store.url or AGENTTALK__STORE__URL"
    try:
        import psycopg
    except ImportError:
        yield ProbeResult("postgresql", False, "psycopg is not installed", "pip install 'agenttalk[postgres]'")
        return
    try:
        with psycopg.connect(machine.settings.store_url, connect_timeout=int(_SECONDS)) as connection:
            version = connection.info.server_version
    except psycopg.Error as error:
        yield ProbeResult("postgresql", False, f"it does not answer: {str(error).splitlines()[0]}", remedy)
    else:
        yield ProbeResult("postgresql", True, f"version {version // 10000} answers")


def _telemetry(machine: Machine) -> Iterator[ProbeResult]:
    """Check that a collector listens at the address for spans. Nothing is sent."""
    telemetry = machine.settings.telemetry if machine.settings is not None else None
    if telemetry is None or telemetry.endpoint is None:
        return
    where = urlsplit(telemetry.traces_url)
    remedy = "start the collector, or check telemetry.endpoint; until then spans wait in the ledger"
    try:
        port = where.port or (443 if where.scheme == "https" else 80)
        with socket.create_connection((where.hostname or "", port), timeout=_SECONDS):
            yield ProbeResult("telemetry", True, f"{where.hostname}:{port} listens")
    except (OSError, ValueError) as error:
        yield ProbeResult(
            "telemetry", False, f"no collector listens at {telemetry.endpoint}: {error}", remedy, needed=False
        )


def _drivers(machine: Machine) -> Iterator[ProbeResult]:
    linux = sys.platform == "linux" and Path("/proc/self/stat").exists()
    remedy = "use Linux with /proc: AgentTalk needs it to control the processes of programs"
    yield ProbeResult("driver script", linux, "any program" if linux else "not usable", remedy, needed=False)
    for name, what in (
        ("folder", "works through its folders"),
        ("human", "a person"),
        ("python", "functions, when embedded"),
    ):
        yield ProbeResult(f"driver {name}", True, what)
    yield from _coding_agents(machine)
    yield _mcp_server(machine)
    yield from _models(machine)
    agents: Mapping[str, Any] = machine.settings.agents if machine.settings else {}
    for agent_id, agent in agents.items():
        program = (agent.argv or ("",))[0]
        if agent.driver == "script" and program and "/" not in program and shutil.which(program) is None:
            yield ProbeResult(f"agent {agent_id}", False, f"its program {program!r} was not found", "install it")


def _mcp_server(machine: Machine) -> ProbeResult:
    """Check whether coding agents can use our MCP server. It works in every sandbox."""
    agents: Mapping[str, Any] = machine.settings.agents if machine.settings else {}
    ok = find_spec("mcp") is not None
    detail = "coding agents can use it (mcp: true), in every sandbox" if ok else "the package mcp is not installed"
    needed = any(agent.mcp for agent in agents.values())
    return ProbeResult("mcp server", ok, detail, "pip install 'agenttalk[mcp]'", needed=needed)


def _coding_agents(machine: Machine) -> Iterator[ProbeResult]:
    """Check every supported coding agent. All are started at once, because some are slow."""
    from concurrent.futures import ThreadPoolExecutor

    from agenttalk.rules.agents import acp_table, cli_table

    agents: Mapping[str, Any] = machine.settings.agents if machine.settings else {}
    uses = [(key, getattr(agent, key)) for agent in agents.values() for key in ("cli", "acp")]
    used = {f"{key} {use.agent}" for key, use in uses if use and not use.program}
    yield _protocol(needed=any(key == "acp" and use for key, use in uses))
    tables: dict[str, Mapping[str, CodingAgent]] = {"cli": cli_table.TABLE, "acp": acp_table.TABLE}
    entries = {f"{key} {name}": each for key, table in tables.items() for name, each in table.items() if each.program}
    with ThreadPoolExecutor(len(entries)) as pool:
        programs = {each.program: each for each in entries.values()}
        tier: Tier = (machine.settings.isolation_words.everyone.sandbox if machine.settings else None) or "best"
        found = {name: pool.submit(_coding_agent, each, tier) for name, each in programs.items()}
    for name, entry in entries.items():
        finding = found[entry.program].result()
        remedy = finding.remedy and finding.remedy.replace(programs[entry.program].install, entry.install)
        yield replace(finding, name=f"driver {name}", remedy=remedy, needed=name in used)


def _protocol(*, needed: bool) -> ProbeResult:
    """Check whether the package for ACP is installed."""
    from importlib import metadata

    from agenttalk.adapters.drivers.dialogues import REMEDY

    try:
        version = metadata.version("agent-client-protocol")
    except metadata.PackageNotFoundError:
        return ProbeResult("driver acp", False, "agent-client-protocol is not installed", REMEDY, needed=needed)
    return ProbeResult("driver acp", True, f"agent-client-protocol {version}", REMEDY, needed=needed)


def _coding_agent(entry: CodingAgent, tier: Tier) -> ProbeResult:
    """Check whether a coding agent starts in its sandbox, and has a key or login there."""
    if shutil.which(entry.program) is None:
        return ProbeResult("", False, "not installed", entry.install)
    done = _started(entry, tier)
    if done.how == "not_started":
        return ProbeResult("", False, f"cannot be started: {done.error[:300]}", entry.install)
    first = next(iter((done.stdout.strip() or done.stderr.strip()).decode(errors="replace").splitlines()), "")
    if done.exit_code != 0:
        remedy = f"{entry.install}; some need Node 22 or newer (node --version)"
        why = done.error or f"exit code {done.exit_code}"
        where = "" if done.sandbox == "plain" else f" in the sandbox {done.sandbox}"
        return ProbeResult("", False, f"does not start{where}: {why}, {first[:120]}", remedy)
    access, remedy = _check_access(entry, done.sandbox)
    return ProbeResult("", not remedy, f"{first[:80]}; {access}", remedy)


def _started(entry: CodingAgent, tier: Tier) -> TurnEnd:
    """Run a coding agent for its version, in the way its turns run."""
    import asyncio

    from agenttalk.adapters.drivers.processes import LocalProcesses
    from agenttalk.adapters.drivers.script import ScriptDriver
    from agenttalk.ports.agents import Confinement, ProgramTurn

    with tempfile.TemporaryDirectory(prefix="agenttalk-doctor-") as folder:
        turn = ProgramTurn(
            f"lease_doctor_{os.getpid()}",
            (entry.program, *entry.version),
            Path(folder),
            "",
            _SLOW,
            dict(entry.variables),
            confinement=Confinement(tier, writable=(Path(folder),)),
        )
        return asyncio.run(ScriptDriver(LocalProcesses()).run(turn))


def _check_access(entry: CodingAgent, tier: str) -> tuple[str, str]:
    """Return the key or login of a coding agent, and the remedy if there is none."""
    keys = [name for name in entry.handed if name in os.environ]
    if keys:
        return f"with {', '.join(keys)}", ""
    if entry.login is None:
        return f"no key is set: {entry.handed[0]}", ""
    if (Path.home() / entry.login.path).is_file():
        return f"with the login in ~/{entry.login.path}" + (
            "" if tier == "plain" else ", which is copied into its sandbox"
        ), ""
    if tier == "plain":
        return "no key is set, and no login was found", ""
    return "no key is set, and there is no login, so it cannot work", entry.login.remedy


def _models(machine: Machine) -> Iterator[ProbeResult]:
    """Check the packages for models, and what agents that are models lack."""
    from importlib.metadata import PackageNotFoundError, version

    agents: Mapping[str, Any] = machine.settings.agents if machine.settings else {}
    for driver, package in (("llm", "pydantic-ai-slim"), ("local", "xllamacpp")):
        used = any(agent.driver == driver for agent in agents.values())
        remedy = f"pip install 'agenttalk[{driver}]'"
        try:
            yield ProbeResult(f"driver {driver}", True, f"{package} {version(package)}")
        except PackageNotFoundError:
            yield ProbeResult(f"driver {driver}", False, f"{package} is not installed", remedy, needed=used)
    for agent_id, agent in agents.items():
        missing, remedy = _missing_for(machine, agent)
        if missing:
            yield ProbeResult(f"agent {agent_id}", False, missing, remedy)


def _missing_for(machine: Machine, agent: Any) -> tuple[str, str]:
    """Return what an agent that is a model lacks here, and the remedy."""
    from agenttalk.rules.agents import model_services

    if agent.driver == "llm" and agent.llm:
        name = model_services.key_of(agent.llm)
        if name and not os.environ.get(name, "").strip():
            return f"the variable {name} with its key is not set here", "set it where the engine runs"
    if agent.driver == "local" and agent.local and machine.root:
        path = machine.root / agent.local.model_file
        if not path.is_file():
            return f"there is no file {path}", "put the model there, or correct local.model_file"
    return "", ""


def _forges(machine: Machine) -> Iterator[ProbeResult]:
    """Check whether each forge accepts the engine's token, and what its account may do."""
    if machine.root is None or not machine.settings or not machine.settings.sources:
        return
    import asyncio

    from agenttalk.doors.cli.toolchain.forge_health import check_sources

    for name, ok, detail, remedy in asyncio.run(check_sources(machine.root, machine.settings)):
        yield ProbeResult(f"forge {name}", ok, detail, remedy)


def _first_line(program: str, *arguments: str) -> str:
    """Return the first line that a program prints."""
    try:
        done = subprocess.run(  # noqa: S603 - a program that was found
            (program, *arguments), capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"cannot be started: {error}"
    return next(iter(done.stdout.splitlines()), "")


PROBES: Final[Mapping[str, Callable[[Machine], Iterator[ProbeResult]]]] = MappingProxyType(
    {
        "python": _python,
        "sqlite": _sqlite,
        "git": _git,
        "bubblewrap": _bubblewrap,
        "landlock": _landlock,
        "inotify": _inotify,
        "settings": _settings,
        "postgresql": _store,
        "telemetry": _telemetry,
        "drivers": _drivers,
        "forges": _forges,
    }
)
"""Name → probe. A probe may yield several results, or none."""
