"""`agenttalk init`: sets up a repository for coding agents."""

from __future__ import annotations

import json
import secrets
import stat
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple

import typer

from agenttalk.contracts.errors import AgentTalkError, Code, MachineError, MissingError, UsageError
from agenttalk.doors.cli.agents import skill
from agenttalk.doors.cli.core import root_access
from agenttalk.doors.cli.core.output import CommandOutput, CommonOptions, JsonOption, RootOption, sanitize
from agenttalk.doors.cli.core.root_discovery import INIT

if TYPE_CHECKING:
    from agenttalk.adapters.mailbox.fsio import SafeFolder
    from agenttalk.rules.core.config_merge import ConfigMergeResult

app = typer.Typer(add_completion=False)
TOOLS: Final = ("claude", "codex", "gemini", "opencode", "qwen")
LARGEST: Final = 4 * 1024 * 1024
PARAGRAPHS: Final = {"en": "agents.md", "zh": "agents.zh.md"}
"""Templates of the paragraph for coding agents in AGENTS.md."""


class FileAddition(NamedTuple):
    """An addition of ours to a file."""

    path: str
    join: Callable[[str | None], ConfigMergeResult]
    """Merges the addition into the text of the file; None stands for a missing file."""
    snippet: str
    """What to add by hand, if it cannot be merged."""


@app.command("init")
def init(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Option("--dir", help="Repository to set up.")] = Path(),
    tools: Annotated[
        list[str] | None, typer.Option("--for", metavar="TOOL", help=f"{', '.join(TOOLS)}. Default: all.")
    ] = None,
    locale: Annotated[
        Literal["en", "zh"] | None,
        typer.Option(
            help="Language of the texts for agents. Default: that of the settings.", envvar="AGENTTALK__LOCALE"
        ),
    ] = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Set up a repository: a root, tokens, skills, MCP settings of coding agents, and a paragraph in AGENTS.md.

    Existing content stays as it is, so running this again changes nothing. An addition that would change existing text
    is shown, for you to make by hand.
    """
    from agenttalk.adapters.mailbox.fsio import SHARED, SafeFolder

    given = CommonOptions.merge(ctx, root, as_json)
    out = CommandOutput(as_json=given.as_json)
    chosen = _chosen(tools)
    if not folder.is_dir():
        raise UsageError(Code.FILE_UNREADABLE, f"{folder} is not a folder", hint="check --dir")
    place = given.root if given.root is not None else Path(INIT)
    where = (folder / place).absolute()
    told = [*_root(where, chosen, locale)]
    paragraph = _paragraph(locale or _language(where))
    with SafeFolder.open(folder) as repository:
        told += [_add_to_file(repository, each, SHARED) for each in _pieces(chosen, str(place), paragraph)]
        told += [*_skills(repository)]
    if out.as_json:
        out.write_json({"ok": True, "root": str(where), "files": told})
    else:
        _tell(out, told, where)
    return 0


def _chosen(tools: list[str] | None) -> list[str]:
    from agenttalk.contracts.core.problems import find_nearest

    for name in tools or ():
        if name not in TOOLS:
            near = find_nearest(name, TOOLS)
            hint = f"did you mean {near!r}?" if near else f"there are: {', '.join(TOOLS)}"
            raise UsageError(Code.NAME_UNKNOWN, f"unknown coding agent {name!r}", hint=hint)
    return [tool for tool in TOOLS if tool in (tools or TOOLS)]


def _root(where: Path, tools: list[str], locale: str | None) -> Iterator[dict[str, str]]:
    """Create the root, and a token for each agent without one. Existing settings are not changed."""
    from agenttalk.adapters.mailbox.fsio import PRIVATE, SafeFolder
    from agenttalk.adapters.store import operator_folder
    from agenttalk.contracts.core.root_layout import PROFILE

    try:
        for name in ("agents", "system_runtime"):
            (where / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise MachineError(Code.FILE_UNWRITABLE, f"cannot create {where}: {error.strerror}") from error
    with SafeFolder.open(where) as folder:
        own = [(f"agents/{name}/{PROFILE}", _profile(name)) for name in tools]
        for path, text in ((".gitignore", "*\n"), ("agenttalk.toml", _settings(tools, locale)), *own):
            yield {**_add_to_file(folder, FileAddition(path, _new(text), text), PRIVATE), "file": str(where / path)}
    for agent in tools:
        kept = operator_folder.agent_token_of(where, agent)
        valid = kept is not None and _admitted(where, agent, kept)  # the root may have been created again since
        if not valid:
            token = f"rem_{secrets.token_urlsafe(32)}"
            _admitted(where, agent, token)
            operator_folder.keep_agent_token(where, agent, token)
        yield {"file": f"token of {agent}", "what": "there" if valid else "made"}


def _admitted(where: Path, agent: str, token: str) -> bool:
    """Register the token of an agent. Returns False when it was revoked."""
    try:
        root_access.ask_root(
            where,
            "/api/tokens",
            lambda local: local.operation.admit_agent(token, agent),
            {"agent_id": agent, "token": token},
        )
    except AgentTalkError as error:
        if error.code != Code.STORE_CONFLICT:
            raise
        return False
    return True


def _language(where: Path) -> Literal["en", "zh"]:
    """Return the language in the root's settings."""
    from agenttalk.wiring import settings

    return settings.load(where).locale


def _paragraph(locale: Literal["en", "zh"]) -> str:
    return (files("agenttalk") / "templates" / PARAGRAPHS[locale]).read_text(encoding="utf-8")


def _profile(name: str) -> str:
    """Return the profile of an agent that claims its work over MCP. Plans and settings can override it."""
    from agenttalk.contracts.agent import AgentProfile

    profile = AgentProfile.from_json({"schema_version": "1.0", "agent_id": name, "driver": "remote"})
    return json.dumps(profile.as_json(), indent=2) + "\n"


def _settings(tools: list[str], locale: str | None) -> str:
    lines = ["# Settings of AgentTalk for this root. 'agenttalk serve --root' reads them."]
    lines += [f'locale = "{locale}"'] if locale else []
    lines += [
        f"# Its agents are {', '.join(tools)}. Each claims its work over MCP, unless a plan gives it another driver."
    ]
    lines += ["# Settings under [agents.NAME] win over plans."]
    return "\n".join(lines) + "\n"


def _pieces(tools: list[str], root: str, paragraph: str) -> Iterator[FileAddition]:
    """Yield the additions to files that coding agents read."""
    from agenttalk.rules.core import config_merge

    def server(name: str) -> dict[str, Any]:
        return {"command": "agenttalk", "args": ["mcp", "--root", root, "--agent", name]}

    yield FileAddition("AGENTS.md", lambda text: config_merge.merge_into_text(text, paragraph), paragraph)
    for name in tools:
        own = server(name)
        match name:
            case "claude":
                yield _json_piece(".mcp.json", ("mcpServers", "agenttalk"), {"type": "stdio", **own})
                yield FileAddition("CLAUDE.md", _new("@AGENTS.md\n"), "@AGENTS.md\n")
            case "codex":
                block = f'[mcp_servers.agenttalk]\ncommand = "agenttalk"\nargs = {json.dumps(own["args"])}\n'
                yield FileAddition(".codex/config.toml", _table(("mcp_servers", "agenttalk"), block), block)
            case "opencode":
                local = {"type": "local", "command": [own["command"], *own["args"]], "enabled": True}
                yield _json_piece(
                    "opencode.json", ("mcp", "agenttalk"), local, {"$schema": "https://opencode.ai/config.json"}
                )
            case _:
                yield _json_piece(f".{name}/settings.json", ("mcpServers", "agenttalk"), own)


def _json_piece(path: str, keys: tuple[str, ...], value: Any, first: dict[str, Any] | None = None) -> FileAddition:
    from agenttalk.rules.core import config_merge

    snippet = config_merge.merge_into_json(None, keys, value).text or ""
    return FileAddition(path, lambda text: config_merge.merge_into_json(text, keys, value, first=first), snippet)


def _table(keys: tuple[str, ...], block: str) -> Callable[[str | None], ConfigMergeResult]:
    from agenttalk.rules.core import config_merge

    return lambda text: config_merge.merge_into_toml(text, keys, block)


def _new(text: str) -> Callable[[str | None], ConfigMergeResult]:
    """Return a merge that creates a missing file, and leaves an existing one as it is."""
    from agenttalk.rules.core.config_merge import ALREADY_THERE, ConfigMergeResult

    return lambda before: ConfigMergeResult(text) if before is None else ALREADY_THERE


def _add_to_file(folder: SafeFolder, piece: FileAddition, mode: int) -> dict[str, str]:
    """Add to a file without changing its existing text. A new file gets the permissions `mode`."""
    try:
        before: str | None = folder.read(piece.path, LARGEST).decode()
    except MissingError:
        before = None
    except (AgentTalkError, UnicodeDecodeError) as error:
        why = error.message if isinstance(error, AgentTalkError) else "it is not UTF-8"
        return {"file": piece.path, "what": "left", "why": why, "snippet": piece.snippet}
    joined = piece.join(before)
    if joined.why:
        return {"file": piece.path, "what": "left", "why": joined.why, "snippet": piece.snippet}
    if joined.text is None:
        return {"file": piece.path, "what": "there"}
    try:
        rights = None if before is None else stat.S_IMODE((folder.path / piece.path).stat().st_mode)
        folder.write(piece.path, joined.text.encode(), mode=mode, parents=True)
        if rights is not None:
            (folder.path / piece.path).chmod(rights)  # the file was replaced, and keeps the user's permissions
    except AgentTalkError as error:
        return {"file": piece.path, "what": "left", "why": error.message, "snippet": piece.snippet}
    return {"file": piece.path, "what": "made" if before is None else "added"}


def _skills(folder: SafeFolder) -> Iterator[dict[str, str]]:
    """Write missing skills. A file that was changed is left as it is."""
    for base in skill.FOLDERS:
        for name in sorted(skill.SCHEMAS):
            told = {_skill_file(folder, f"{base}/{name}/{path}", data) for path, data in skill.read_skill_files(name)}
            what = "made" if told == {"made"} else "added" if "made" in told else "left" if "left" in told else "there"
            said = {"file": f"{base}/{name}", "what": what}
            renew = f"it differs from ours; 'agenttalk skill install {name}' replaces it"
            yield {**said, "why": renew} if "left" in told else said


def _skill_file(folder: SafeFolder, path: str, data: bytes) -> str:
    from agenttalk.adapters.mailbox.fsio import SHARED

    try:
        return "there" if folder.read(path, LARGEST) == data else "left"
    except MissingError:
        folder.write(path, data, mode=0o777 if data.startswith(b"#!") else SHARED, parents=True)
        return "made"
    except AgentTalkError:
        return "left"


_MARKS: Final = {"made": "[green]✓[/]", "added": "[green]✓[/]", "there": "[dim]·[/]", "left": "[yellow]![/]"}
_WORDS: Final = {"made": "made", "added": "extended", "there": "already there", "left": "not changed"}


def _tell(out: CommandOutput, told: list[dict[str, str]], where: Path) -> None:
    for each in told:
        why = f": {sanitize(each['why'])}" if each.get("why") else ""
        out.say(f"{_MARKS[each['what']]} {sanitize(each['file'])}  [dim]{_WORDS[each['what']]}[/]{why}")
        if each.get("snippet"):
            out.say("  [dim]add this by hand:[/]")
            for line in each["snippet"].strip().splitlines():
                out.say(f"  {sanitize(line)}")
    out.say(f"Next: agenttalk serve --root {sanitize(where)}")
