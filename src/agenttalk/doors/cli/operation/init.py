"""`agenttalk init`: sets up a repository for coding agents, and undoes that."""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from agenttalk.contracts.errors import AgentTalkError, Code, MachineError, UsageError
from agenttalk.doors.cli.agents import skill
from agenttalk.doors.cli.core import root_access
from agenttalk.doors.cli.core.output import CommandOutput, CommonOptions, JsonOption, RootOption, sanitize
from agenttalk.doors.cli.core.root_discovery import INIT, MARKS, PLAN

if TYPE_CHECKING:
    from agenttalk.doors.cli.operation.init_additions import AdditionResult, FileAddition, SetupRequest
    from agenttalk.doors.cli.operation.init_record import InitRecord
    from agenttalk.doors.cli.operation.init_removal import Removal

app = typer.Typer(add_completion=False)
TOOLS: Final = tuple(skill.TITLES)
_ALL: Final = f"{', '.join(TOOLS)}"


@app.command("init")
def init(
    ctx: typer.Context,
    folder: Annotated[
        Path | None, typer.Option("--dir", help="Folder to set up. Default: the top of this repository.")
    ] = None,
    tools: Annotated[
        list[str] | None,
        typer.Option("--for", metavar="TOOL", help=f"Set this one up, too, though it is not installed: {_ALL}."),
    ] = None,
    without: Annotated[
        list[str] | None, typer.Option("--without", metavar="TOOL", help="Leave this one out, though it is installed.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask on a terminal.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List what would be written; write nothing.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove what init added, but for what you changed.")] = False,
    locale: Annotated[
        Literal["en", "zh"] | None,
        typer.Option(
            help="Language of the texts for agents. Default: that of the settings.", envvar="AGENTTALK__LOCALE"
        ),
    ] = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Set up a repository: a root, a plan, and what the installed coding agents need to take part.

    On a terminal it lists first what it would write, and asks. Existing content stays as it is, so running this again
    changes nothing. An addition that would change existing text is shown, for you to make by hand.
    """
    given = CommonOptions.merge(ctx, root, as_json)
    out = CommandOutput.from_options(given)
    place = folder if folder is not None else _find_top(Path.cwd())
    if not place.is_dir():
        from agenttalk.rules.text import cli_words

        raise UsageError(
            Code.FILE_UNREADABLE, cli_words.ERRORS["not_folder"](path=place), hint=cli_words.ERRORS["not_folder_hint"]()
        )
    named = given.root if given.root is not None else Path(INIT)
    where = (place / named).absolute()
    _require_folder(where, named=given.root is not None)
    if remove:
        done, wanted = _remove(out, place, where, yes=yes, dry_run=dry_run)
        return _tell_removed(out, done, where, wanted=wanted)
    wish = _make_wish(place, named, where, _check_names(tools), _check_names(without), locale)
    planned = _plan(wish, where)
    asks = _asks(out, yes=yes) and any(each.record for each in planned)
    if asks or (dry_run and not out.as_json):
        _list_planned(out, planned, wish, where)
    if dry_run or (asks and not typer.confirm(out.text("setup.write"), default=True)):
        return _tell_nothing(out, planned, where)
    made = _set_up(wish, where)
    if out.as_json:
        out.write_json({"ok": True, "root": str(where), "files": made})
    else:
        _tell(out, made, wish, where, listed=asks)
    return 0


def _require_folder(where: Path, *, named: bool) -> None:
    """Raise MachineError when a file or a link lies where the root belongs."""
    from agenttalk.rules.text import cli_words

    if where.is_symlink() and not named:
        raise MachineError(
            Code.FILE_UNSAFE, cli_words.ERRORS["linked_root"](path=where), hint=cli_words.ERRORS["linked_root_hint"]()
        )
    if where.exists() and not where.is_dir():
        raise MachineError(Code.FILE_UNWRITABLE, cli_words.ERRORS["root_in_way"](path=where))


def _find_top(here: Path) -> Path:
    """Return the top of the work tree that a folder is in, or the folder."""
    return next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)


def _check_names(names: list[str] | None) -> tuple[str, ...]:
    from agenttalk.contracts.core.problems import find_nearest
    from agenttalk.rules.text import cli_words

    for name in names or ():
        if name not in TOOLS:
            near = find_nearest(name, TOOLS)
            hint = cli_words.ERRORS["near"](name=near) if near else cli_words.ERRORS["options"](names=_ALL)
            raise UsageError(Code.NAME_UNKNOWN, cli_words.ERRORS["agent_unknown_here"](name=name), hint=hint)
    return tuple(names or ())


def _make_wish(
    place: Path,
    named: Path,
    where: Path,
    more: tuple[str, ...],
    without: tuple[str, ...],
    locale: Literal["en", "zh"] | None,
) -> SetupRequest:
    """Find out for which coding agents to set up, and which one the plan starts."""
    from agenttalk.doors.cli.operation.init_additions import SetupRequest
    from agenttalk.rules.agents.cli_table import TABLE
    from agenttalk.rules.text import cli_words

    if both := set(more) & set(without):
        raise UsageError(
            Code.OPTION_INVALID,
            cli_words.ERRORS["named_twice"](name=min(both)),
            hint=cli_words.ERRORS["named_twice_hint"](),
        )
    installed = [name for name, entry in TABLE.items() if entry.program and shutil.which(entry.program)]
    tools = tuple(name for name in TOOLS if name in more or (name in installed and name not in without))
    ordered = [*(name for name in (*TOOLS, *TABLE) if name in installed and name not in without), *tools, *TOOLS]
    language = locale or _read_language(where)
    return SetupRequest(place, named, tools, ordered[0], ordered[0] in installed, language, locale is not None)


def _read_language(where: Path) -> Literal["en", "zh"]:
    """Return the language in the root's settings."""
    from agenttalk.wiring import settings

    return settings.load(where).locale


def _plan(wish: SetupRequest, where: Path) -> list[AdditionResult]:
    """Find out what is to be added to which files."""
    from contextlib import ExitStack

    from agenttalk.adapters.mailbox.fsio import SafeFolder
    from agenttalk.doors.cli.operation.init_additions import list_additions, plan_addition

    with ExitStack() as stack:
        repository = stack.enter_context(SafeFolder.open(wish.folder))
        root = stack.enter_context(SafeFolder.open(where)) if where.is_dir() else None
        places = {"repository": repository, "root": root}
        return [plan_addition(places[each.place], each) for each in list_additions(wish)]


def _asks(out: CommandOutput, *, yes: bool) -> bool:
    """Whether a person sits at a terminal and wants to be asked."""
    return not yes and not out.as_json and sys.stdin.isatty() and sys.stdout.isatty()


def _describe_tools(out: CommandOutput, wish: SetupRequest) -> str:
    names = f"[bold]{', '.join(wish.tools)}[/]"
    found = out.text("setup.tools", names=names) if wish.tools else out.text("setup.no_tools")
    others = [name for name in TOOLS if name not in wish.tools]
    return f"{found} [dim]{out.text('setup.other_tools', names=', '.join(others))}[/]" if others else found


def _set_up(wish: SetupRequest, where: Path) -> list[dict[str, str]]:
    """Create the root, write the files, and make a token for each agent without one."""
    from agenttalk.adapters.mailbox.fsio import SafeFolder
    from agenttalk.doors.cli.operation import init_record
    from agenttalk.doors.cli.operation.init_additions import apply_addition

    with init_record.lock_setup():
        before = init_record.read_record(wish.folder, where)
        made_root = before.made_root if before is not None and where.is_dir() else _is_unused(where)
        if before is not None:
            init_record.remove_drafts(before)
        planned = _plan(wish, where)
        start = before or init_record.InitRecord(
            repository=str(wish.folder.absolute()), root=str(where), made_root=made_root
        )
        record = start.model_copy(update={"made_root": made_root})
        record = record.with_additions(each.record for each in planned if each.record is not None)
        init_record.write_record(wish.folder, where, record)
        try:
            for folder in (where, *(where / name for name in MARKS[:2])):
                _make_folder(folder)
        except MachineError:
            if before is None and not where.is_dir():  # nothing was done
                init_record.forget_record(wish.folder, where)
            raise
        with SafeFolder.open(wish.folder) as repository, SafeFolder.open(where) as root:
            done = [apply_addition(root if each.addition.place == "root" else repository, each) for each in planned]
        tokens = [_make_token(wish, where, agent) for agent in wish.tools]
    return [*_describe(done, where, "root"), *tokens, *_describe(done, where, "repository")]


def _is_unused(where: Path) -> bool:
    """Whether the folder is missing or empty."""
    try:
        return not any(where.iterdir())
    except FileNotFoundError:
        return True
    except OSError as error:
        raise _creation_error(where, error) from error


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _creation_error(folder, error) from error


def _creation_error(folder: Path, error: OSError) -> MachineError:
    from agenttalk.rules.text import cli_words

    return MachineError(Code.FILE_UNWRITABLE, cli_words.ERRORS["cannot_create"](path=folder, why=error.strerror))


def _make_token(wish: SetupRequest, where: Path, agent: str) -> dict[str, str]:
    """Make a token for an agent that has none. It is kept and recorded before the root accepts it."""
    from agenttalk.adapters.store import operator_folder
    from agenttalk.doors.cli.operation import init_record
    from agenttalk.rules.core.tokens import token_id
    from agenttalk.rules.text import cli_words

    kept = operator_folder.agent_token_of(where, agent)
    if kept is not None and _admit(where, agent, kept):  # the root may have been created again since
        return {"file": cli_words.TOKEN_OF(agent=agent), "what": "there"}
    token = f"rem_{secrets.token_urlsafe(32)}"
    record = init_record.read_record(wish.folder, where)
    if record is not None:
        init_record.write_record(wish.folder, where, record.with_token(agent, token_id(token)))
    operator_folder.keep_agent_token(where, agent, token)
    _admit(where, agent, token)
    return {"file": cli_words.TOKEN_OF(agent=agent), "what": "made"}


def _admit(where: Path, agent: str, token: str) -> bool:
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


def _describe(planned: list[AdditionResult], where: Path, place: str) -> Iterator[dict[str, str]]:
    """Describe what was done to each file, and to each skill as a whole."""
    skills: dict[str, list[AdditionResult]] = {}
    for each in planned:
        if each.addition.place != place:
            continue
        if "/skills/" in each.addition.path:
            base, _, rest = each.addition.path.partition("/skills/")
            skills.setdefault(f"{base}/skills/{rest.partition('/')[0]}", []).append(each)
            continue
        path = str(where / each.addition.path) if place == "root" else each.addition.path
        yield _describe_file(path, each.what, each.why, each.addition)
    for path, files in skills.items():
        whats = {each.what for each in files}
        what = "made" if whats == {"made"} else next((one for one in ("made", "left") if one in whats), "there")
        what = "added" if what == "made" and len(whats) > 1 else what
        why = next((each.why for each in files if each.why), "")
        yield _describe_file(path, what, why, files[0].addition)


def _describe_file(path: str, what: str, why: str, addition: FileAddition) -> dict[str, str]:
    told = {"file": path, "what": what, "about": addition.about}
    told |= {"why": why} if why else {}
    return told | ({"snippet": addition.snippet} if what == "left" and addition.snippet else {})


_MARKS: Final = {
    "made": "[green]✓[/]",
    "added": "[green]✓[/]",
    "there": "[dim]·[/]",
    "left": "[yellow]![/]",
    "removed": "[green]✓[/]",
    "taken out": "[green]✓[/]",
    "gone": "[dim]·[/]",
    "changed": "[yellow]![/]",
}
_WORDS: Final = {"made": "setup.made", "added": "setup.added", "there": "setup.there", "left": "setup.left"}
_WISH_MARKS: Final = {"made": "+", "added": "~", "there": "[dim]·[/]", "left": "[yellow]![/]"}
_WISHES: Final = {"made": "setup.to_make", "added": "setup.to_add", "there": "setup.there", "left": "setup.to_leave"}
_REMOVED: Final = {
    "removed": "setup.removed",
    "taken out": "setup.taken_out",
    "gone": "setup.gone",
    "changed": "setup.kept",
    "left": "setup.not_removed",
}


def _list_planned(out: CommandOutput, planned: list[AdditionResult], wish: SetupRequest, where: Path) -> None:
    """List what would be written, the tokens included."""
    from agenttalk.adapters.store import operator_folder
    from agenttalk.rules.text import cli_words

    out.say(_describe_tools(out, wish))
    for each in (*_describe(planned, where, "root"), *_describe(planned, where, "repository")):
        _tell_file(out, each, _WISHES, _WISH_MARKS)
    for agent in wish.tools:
        if operator_folder.agent_token_of(where, agent) is None:
            told = {"file": cli_words.TOKEN_OF(agent=agent), "what": "made", "about": out.text("setup.new_token")}
            _tell_file(out, told, _WISHES, _WISH_MARKS)


def _tell_nothing(out: CommandOutput, planned: list[AdditionResult], where: Path) -> int:
    """Say that nothing was written; to programs, what would be."""
    if out.as_json:
        told = [*_describe(planned, where, "root"), *_describe(planned, where, "repository")]
        out.write_json({"ok": True, "root": str(where), "written": False, "files": told})
    else:
        out.say(out.text("setup.nothing_written"))
    return 0


def _tell_file(
    out: CommandOutput, told: dict[str, str], words: dict[str, str], marks: dict[str, str] | None = None
) -> None:
    mark = (marks or _MARKS)[told["what"]]
    about = f"  [dim]{sanitize(out.translate(told['about']))}[/]" if told.get("about") else ""
    why = f": {sanitize(out.translate(told['why']))}" if told.get("why") else about
    out.say(f"{mark} {sanitize(out.translate(told['file']))}  [dim]{out.text(words[told['what']])}[/]{why}")


def _tell(out: CommandOutput, done: list[dict[str, str]], wish: SetupRequest, where: Path, *, listed: bool) -> None:
    """Say what was done; if it was listed before, only what could not be done."""
    for each in done:
        if listed and each["what"] != "left":
            continue
        _tell_file(out, each, _WORDS)
        if each.get("snippet"):
            out.say(f"  [dim]{out.text('setup.by_hand')}[/]")
            for line in each["snippet"].strip().splitlines():
                out.say(f"  {sanitize(line)}")
    if listed:
        count = sum(each["what"] in {"made", "added"} for each in done)
        out.say(f"[green]✓[/] {out.text('setup.written', count=count)}")
    else:
        out.say(_describe_tools(out, wish))
    if any(each["file"] == PLAN and each["what"] in {"made", "there"} for each in done):
        out.say(out.text("setup.next_plan", file=sanitize(wish.folder / PLAN)))
    out.say(out.text("setup.next_serve", folder=sanitize(shlex.quote(str(where)))))


# Undoing it


def _remove(out: CommandOutput, place: Path, where: Path, *, yes: bool, dry_run: bool) -> tuple[list[Removal], bool]:
    """Remove what init added. On a terminal, list that first and ask."""
    from agenttalk.doors.cli.operation import init_record
    from agenttalk.doors.cli.operation.init_removal import remove_additions

    record = init_record.read_record(place, where)
    if record is None:
        return [], True
    asks = _asks(out, yes=yes)
    if dry_run or asks:
        _list_record(out, record)
    if dry_run or (asks and not typer.confirm(out.text("setup.remove"), default=True)):
        return [], False
    return remove_additions(place, where), True


def _list_record(out: CommandOutput, record: InitRecord) -> None:
    if out.as_json:
        return
    from agenttalk.rules.text import cli_words

    for each in record.files:
        path = each.path if each.place == "repository" else os.path.join(record.root, each.path)  # noqa: PTH118 - shown
        origin = out.text("setup.made_by_init" if each.made else "setup.extended_by_init")
        out.say(f"  {sanitize(path)}  [dim]{origin}[/]")
    for agent in record.agents:
        out.say(f"  {sanitize(out.translate(cli_words.TOKEN_OF(agent=agent)))}")


def _shorten_skill(removal: Removal) -> str:
    """Return the folder of a skill in place of its file, where that was removed."""
    base, between, rest = removal.file.partition("/skills/")
    return f"{base}{between}{rest.partition('/')[0]}" if between and removal.what == "removed" else removal.file


def _tell_removed(out: CommandOutput, done: list[Removal], where: Path, *, wanted: bool) -> int:
    unfinished = any(each.is_unfinished for each in done)
    if out.as_json:
        told = [{name: value for name, value in each._asdict().items() if value} for each in done]
        out.write_json({"ok": not unfinished, "root": str(where), "files": told})
        return int(unfinished)
    told_before: dict[str, str] = {}
    for each in done:
        each = each._replace(file=_shorten_skill(each))  # noqa: PLW2901 - the same, as it is shown
        if each.what != "gone" and told_before != each._asdict():
            _tell_file(out, told_before := each._asdict(), _REMOVED)
    if not wanted:
        out.say(out.text("setup.nothing_removed"))
    elif not done:
        out.say(out.text("setup.nothing_to_remove"))
    return int(unfinished)
