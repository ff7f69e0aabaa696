"""What `agenttalk init` adds to a repository and its root: which files, what stands in them, and what they are for."""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Callable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from agenttalk.contracts.errors import AgentTalkError, MissingError
from agenttalk.doors.cli.agents import skill
from agenttalk.doors.cli.core.root_discovery import PLAN
from agenttalk.doors.cli.operation import init_plan
from agenttalk.doors.cli.operation.init_record import AdditionRecord, Place
from agenttalk.rules.text import cli_words

if TYPE_CHECKING:
    from agenttalk.adapters.mailbox.fsio import SafeFolder
    from agenttalk.rules.core.config_merge import ConfigMergeResult

LARGEST: Final = 4 * 1024 * 1024
PARAGRAPHS: Final = {"en": "agents.md", "zh": "agents.zh.md"}
"""Templates of the paragraph for coding agents in AGENTS.md."""
_SERVER: Final = ("mcpServers", "agenttalk")
Merge = Callable[[str | None], "ConfigMergeResult"]


class FileAddition(NamedTuple):
    """An addition of ours to a file."""

    place: Place
    path: str
    about: str
    """What it is for, in one line."""
    join: Merge
    """Merges the addition into the text of the file; None stands for a missing file."""
    snippet: str
    """What to add by hand, if it cannot be merged."""
    keys: tuple[str, ...] = ()
    """The path of the entry, if it is one of JSON."""
    value: Any = None
    first: dict[str, Any] | None = None
    whole: bool = False
    """Whether the file is ours alone: then one that is there is left as it is."""
    mode: int = 0o666


class AdditionResult(NamedTuple):
    """An addition, and what it would do to the file as it is now."""

    addition: FileAddition
    what: Literal["made", "added", "there", "left"]
    why: str = ""
    """Why nothing can be added."""
    text: str = ""
    """The file with the addition."""
    record: AdditionRecord | None = None
    """What is remembered of it; None if nothing is added."""


class SetupRequest(NamedTuple):
    """What a repository is to be set up for."""

    folder: Path
    root: Path
    """The root, as settings of coding agents name it."""
    tools: tuple[str, ...]
    plan_agent: str
    """The coding agent of the plan."""
    is_installed: bool
    """Whether that agent is installed here."""
    locale: Literal["en", "zh"]
    own_locale: bool
    """Whether the language was named."""


def list_additions(wish: SetupRequest) -> Iterator[FileAddition]:
    """List the additions to the root and to the repository."""
    yield from _list_root_files(wish)
    plan = init_plan.make_plan(wish.folder, wish.plan_agent, installed=wish.is_installed, locale=wish.locale)
    if isinstance(plan, str):
        about = cli_words.PURPOSES["plan"]()
        yield FileAddition("repository", PLAN, about, _refuse(plan), "", whole=True)
    else:
        yield _whole(PLAN, plan.text, plan.about)
    if wish.tools:
        yield from _list_agent_files(wish)
        yield from _list_skill_files(wish.tools)


def _list_root_files(wish: SetupRequest) -> Iterator[FileAddition]:
    locale = wish.locale if wish.own_locale else None
    own = (
        (".gitignore", "*\n", cli_words.PURPOSES["ignore"]()),
        (
            "agenttalk.toml",
            _settings(wish.tools, locale),
            cli_words.PURPOSES["settings"](),
        ),
    )
    for path, text, about in own:
        yield _whole(path, text, about)._replace(place="root", mode=0o600)
    for name in wish.tools:
        path = f"agents/{name}/agent_profile.json"
        about = cli_words.PURPOSES["profile"](tool=skill.TITLES[name])
        yield _whole(path, _profile(name), about)._replace(place="root", mode=0o600)


def _list_agent_files(wish: SetupRequest) -> Iterator[FileAddition]:
    """List the additions to files that coding agents read."""
    from agenttalk.rules.core import config_merge

    paragraph = (files("agenttalk") / "templates" / PARAGRAPHS[wish.locale]).read_text(encoding="utf-8")
    about = cli_words.PURPOSES["guide"]()
    yield FileAddition(
        "repository", "AGENTS.md", about, lambda text: config_merge.merge_into_text(text, paragraph), paragraph
    )
    for name in wish.tools:
        args = ["mcp", "--root", str(wish.root), "--agent", name]
        about = cli_words.PURPOSES["server"](tool=skill.TITLES[name])
        server: dict[str, Any] = {"command": "agenttalk", "args": args}
        match name:
            case "claude":
                yield _entry(".mcp.json", _SERVER, {"type": "stdio", **server}, about)
                yield _whole("CLAUDE.md", "@AGENTS.md\n", cli_words.PURPOSES["claude"]())
            case "codex":
                block = f'[mcp_servers.agenttalk]\ncommand = "agenttalk"\nargs = {json.dumps(args)}\n'
                keys = ("mcp_servers", "agenttalk")
                yield FileAddition("repository", ".codex/config.toml", about, _table(keys, block), block)
            case "opencode":
                local = {"type": "local", "command": ["agenttalk", *args], "enabled": True}
                first = {"$schema": "https://opencode.ai/config.json"}
                yield _entry("opencode.json", ("mcp", "agenttalk"), local, about, first)
            case _:
                yield _entry(f".{name}/settings.json", _SERVER, server, about)


def _list_skill_files(tools: Sequence[str]) -> Iterator[FileAddition]:
    """List the files of skills, in the folders that these coding agents read."""
    shared, own = skill.FOLDERS
    bases = [shared] * any(tool != "claude" for tool in tools) + [own] * ("claude" in tools)
    for base in bases:
        for name in sorted(skill.SCHEMAS):
            for path, data in skill.read_skill_files(name):
                mode = 0o777 if data.startswith(b"#!") else 0o666
                about = cli_words.PURPOSES["skill"](name=name)
                yield _whole(f"{base}/{name}/{path}", data.decode(), about, skill_name=name)._replace(mode=mode)


def _profile(name: str) -> str:
    """Return the profile of an agent that claims its work over MCP. Plans and settings can override it."""
    from agenttalk.contracts.agent import AgentProfile

    profile = AgentProfile.from_json({"schema_version": "1.0", "agent_id": name, "driver": "remote"})
    return json.dumps(profile.as_json(), indent=2) + "\n"


def _settings(tools: Sequence[str], locale: str | None) -> str:
    lines = ["# Settings of AgentTalk for this root. 'agenttalk serve --root' reads them."]
    lines += [f'locale = "{locale}"'] if locale else []
    if tools:
        claims = "Each claims its work over MCP, unless a plan gives it another driver."
        lines += [f"# Its agents are {', '.join(tools)}. {claims}"]
    return "\n".join([*lines, "# Settings under [agents.NAME] win over plans."]) + "\n"


def _entry(
    path: str, keys: tuple[str, ...], value: Any, about: str, first: dict[str, Any] | None = None
) -> FileAddition:
    from agenttalk.rules.core import config_merge

    snippet = config_merge.merge_into_json(None, keys, value).text or ""
    return FileAddition(
        "repository",
        path,
        about,
        lambda text: config_merge.merge_into_json(text, keys, value, first=first),
        snippet,
        keys=keys,
        value=value,
        first=first,
    )


def _table(keys: tuple[str, ...], block: str) -> Merge:
    from agenttalk.rules.core import config_merge

    return lambda text: config_merge.merge_into_toml(text, keys, block)


def _whole(path: str, text: str, about: str, *, skill_name: str = "") -> FileAddition:
    """Return an addition that makes a missing file, and leaves an existing one as it is."""
    from agenttalk.rules.core.config_merge import ALREADY_THERE, ConfigMergeResult

    def join(before: str | None) -> ConfigMergeResult:
        if before is None:
            return ConfigMergeResult(text)
        if skill_name and before != text:
            return ConfigMergeResult(why=cli_words.OBSTACLES["other_skill"](name=skill_name))
        return ALREADY_THERE

    return FileAddition("repository", path, about, join, "" if skill_name else text, whole=True)


def _refuse(why: str) -> Merge:
    from agenttalk.rules.core.config_merge import ALREADY_THERE, ConfigMergeResult

    return lambda before: ConfigMergeResult(why=why) if before is None else ALREADY_THERE


def plan_addition(folder: SafeFolder | None, addition: FileAddition) -> AdditionResult:
    """Find out what an addition would do to a file in a folder, which may be missing itself."""
    before: str | None = None
    try:
        before = folder.read(addition.path, LARGEST).decode() if folder is not None else None
    except MissingError:
        pass
    except AgentTalkError as error:
        return AdditionResult(addition, "left", error.message)
    except UnicodeDecodeError:
        return AdditionResult(addition, "left", cli_words.OBSTACLES["not_text"]())
    joined = addition.join(before)
    if joined.why:
        return AdditionResult(addition, "left", joined.why)
    if joined.text is None:
        return AdditionResult(addition, "there")
    what: Literal["made", "added"] = "made" if before is None else "added"
    return AdditionResult(addition, what, "", joined.text, _record(folder, addition, before, joined.text))


def _record(folder: SafeFolder | None, addition: FileAddition, before: str | None, after: str) -> AdditionRecord:
    parents = [str(each) for each in Path(addition.path).parents if str(each) != "."]
    return AdditionRecord(
        place=addition.place,
        path=addition.path,
        sha256=hashlib.sha256(after.encode()).hexdigest(),
        made=before is None,
        folders=tuple(each for each in parents if folder is None or not folder.exists(each)),
        piece="" if addition.keys or addition.whole else after[len(before or "") :],
        keys=addition.keys,
        value=addition.value,
        held=_count_held(before, addition.keys),
        first=addition.first if before is None else None,
        blank=before if before is not None and not before.strip() else "",
    )


def _count_held(before: str | None, keys: Sequence[str]) -> int:
    """Count how many of the keys a JSON document has already, from the first on."""
    if not keys or before is None or not before.strip():
        return 0
    holder: Any = json.loads(before)
    for count, key in enumerate(keys):
        if not isinstance(holder, dict) or key not in holder:
            return count
        holder = holder[key]
    return len(keys)


def apply_addition(folder: SafeFolder, planned: AdditionResult) -> AdditionResult:
    """Write the file of a planned addition. Its rights stay as they are; a new one gets those of the addition."""
    if planned.what not in {"made", "added"}:
        return planned
    path = planned.addition.path
    try:
        rights = None if planned.what == "made" else stat.S_IMODE((folder.path / path).stat().st_mode)
        folder.write(path, planned.text.encode(), mode=planned.addition.mode, parents=True)
        if rights is not None:
            (folder.path / path).chmod(rights)  # the file was replaced, and keeps the user's permissions
    except AgentTalkError as error:
        return AdditionResult(planned.addition, "left", error.message)
    return planned
