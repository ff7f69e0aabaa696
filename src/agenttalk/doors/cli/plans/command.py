"""`agenttalk command`: make, check and wrap commands.

Rules and contracts are imported where they are used, so that --help stays quick.
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from agenttalk.contracts.errors import AgentTalkError, Code, UsageError
from agenttalk.doors.cli.core import root_access
from agenttalk.doors.cli.core.output import CommandOutput, CommonOptions, JsonOption, RootOption, sanitize

if TYPE_CHECKING:
    from agenttalk.contracts.envelope import Envelope
    from agenttalk.contracts.generation import GenerateResult, ValidateResult
    from agenttalk.rules.commands.validation import Known

app = typer.Typer(no_args_is_help=True, help="Make, check and wrap commands.", add_completion=False)

BAD = 2


@app.command("generate")
def generate(
    ctx: typer.Context,
    pairs: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Fields of the command.")] = None,
    params: Annotated[
        str | None,
        typer.Option("--params", metavar="FILE", help="File with a JSON object of fields; - reads standard input."),
    ] = None,
    locale: Annotated[
        Literal["en", "zh"], typer.Option(help="Language of default texts.", envvar="AGENTTALK__LOCALE")
    ] = "en",
    with_hash: Annotated[bool, typer.Option("--hash", help="Add payload_hash.")] = False,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Make a complete, valid command. Report every repair, or every error.

    Fields come from --params and from KEY=VALUE pairs; the pairs win. With --root, the active DAG of the plan, its
    tasks and the next number are read from the root.
    """
    from agenttalk.rules.commands import generation

    settings = CommonOptions.merge(ctx, root, as_json)
    out = CommandOutput.from_options(settings)
    given = _parameters(params, pairs or [])
    known = _known(settings, given)
    answer = generation.generate(given, known, locale=locale, with_hash=with_hash)
    _log(out, settings, "generated", given, answer.as_json())
    if out.as_json:
        out.write_json(answer.as_json())
    else:
        _tell_generated(out, answer)
    return 0 if answer.ok else BAD


@app.command("validate")
def validate(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A command or its envelope; - reads standard input.")],
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Check a command, or an envelope with one, without changing anything."""
    from agenttalk.contracts.envelope import read_envelope
    from agenttalk.doors.cli.core import sources
    from agenttalk.rules.commands import envelopes, validation

    settings = CommonOptions.merge(ctx, root, as_json)
    out = CommandOutput.from_options(settings)
    data = sources.read_bytes(file)
    document = sources.parse_json(data, file)
    if isinstance(document, dict) and ("message_id" in document or "type" in document):
        if document.get("type") != "command":
            return _tell_artifact(out, read_envelope(document), file)
        answer = envelopes.validate(document, _known(settings, envelopes.extract_command(document), data))
    else:
        answer = validation.validate(document, _known(settings, document, data))
    _log(out, settings, "validated", document, answer.as_json())
    _tell_validated(out, answer, file)
    return 0 if answer.ok else BAD


@app.command("send")
def send(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A valid command; - reads standard input.")],
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Send a command in the operator's name, to the agent that the DAG names."""
    from agenttalk.doors.cli.core import sources
    from agenttalk.rules.commands import validation

    out, folder = root_access.choose_root(ctx, root, as_json)
    settings = CommonOptions.merge(ctx, root, as_json)
    document = sources.read_json(file)
    answer = validation.validate(document, _known(settings, document))
    command = answer.command
    if command is None:
        _tell_validated(out, answer, file)
        return BAD

    sent = root_access.ask_root(
        folder,
        "/api/commands/send",
        lambda local: local.service.messages.send(command, None),
        {"command": command.as_json()},
    )
    if out.as_json:
        out.write_json({"ok": True, **sent})
    else:
        out.say(
            f"[green]✓[/] [bold]{sanitize(sent['command_id'])}[/] is {sent['fate']} as {sanitize(sent['message_id'])}"
        )
    return 0


@app.command("envelope")
def envelope(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A valid command; - reads standard input.")],
    producer: Annotated[str, typer.Option("--from", help="Sender: the agent that owns the outbox.")],
    message_id: Annotated[str | None, typer.Option(help="Id of the message. Default: a new one.")] = None,
    out_folder: Annotated[
        Path | None, typer.Option("--out", help="Write cmd_*.msg.json to this folder, e.g. an outbox.")
    ] = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Wrap a command into an envelope, as messages need it."""
    from agenttalk.adapters.mailbox import fsio
    from agenttalk.contracts.core.base import AgentId, MessageId, is_id
    from agenttalk.doors.cli.core import sources
    from agenttalk.rules.commands import envelopes, validation

    settings = CommonOptions.merge(ctx, root, as_json)
    out = CommandOutput.from_options(settings)
    document = sources.read_json(file)
    answer = validation.validate(document, _known(settings, document))
    if answer.command is None:
        _tell_validated(out, answer, file)
        return BAD
    name = message_id or f"msg_{secrets.token_hex(16)}"
    for option, value in (("--from", producer), ("--message-id", name)):
        if not is_id(value):
            raise UsageError(
                Code.ID_INVALID, f"{option} {value!r} is not an id", hint="use letters, digits, '_', '-' and '.'"
            )
    now = datetime.now(UTC)  # noqa: TID251 - a door reads the clock
    wrapped = envelopes.wrap(answer.command, producer=AgentId(producer), message_id=MessageId(name), now=now)
    if out_folder is None:
        out.write_json(wrapped.as_json())
        return 0
    path = out_folder / wrapped.file_name
    if path.exists():
        raise UsageError(
            Code.FILE_UNWRITABLE, f"{path} exists already", hint="it has not been sent yet; remove it first"
        )
    fsio.write_file(path, wrapped.to_bytes())
    if out.as_json:
        out.write_json({"ok": True, "file": str(path), "message_id": name})
    else:
        out.say(f"[green]✓[/] {sanitize(path)}")
    return 0


def _parameters(params: str | None, pairs: list[str]) -> dict[str, Any]:
    from agenttalk.doors.cli.core import sources

    given = sources.read_json(params) if params is not None else {}
    if not isinstance(given, dict):
        raise UsageError(
            Code.COMMAND_FIELD_TYPE, "--params must contain a JSON object", hint='write e.g. {"plan_id": "p"}'
        )
    if params is None and not pairs:
        raise UsageError(
            Code.OPTION_INVALID, "no fields given", hint="pass KEY=VALUE pairs or --params FILE; see --help"
        )
    return sources.merge_fields(given, sources.read_pairs(pairs))


def _known(settings: CommonOptions, document: object, besides: bytes | None = None) -> Known:
    from agenttalk.adapters.mailbox import root_reader
    from agenttalk.rules.commands import generation
    from agenttalk.rules.commands.validation import NOTHING

    if settings.root is None or not isinstance(document, dict):
        return NOTHING
    plan_id, task_id = generation.read_identity(document)
    return root_reader.read_known(settings.root, plan_id, task_id, besides=besides)


def _log(out: CommandOutput, settings: CommonOptions, what: str, document: object, outcome: dict[str, Any]) -> None:
    """Record in the ledger of a root that a command was made or checked for it. A failure to do so is a warning."""
    from agenttalk.engine.messages import sent_commands
    from agenttalk.rules.commands import generation

    if settings.root is None:
        return
    fields = document if isinstance(document, dict) else {}
    subject = "/".join(str(part)[:128] for part in generation.read_identity(fields) if part) or "unknown"

    body = {"what": what, "subject": subject, **sent_commands.summarize_outcome(outcome)}
    try:
        root_access.ask_root(
            settings.root.absolute(),
            "/api/commands/log",
            lambda local: local.messages.log_command(what, subject, outcome),
            body,
        )
    except AgentTalkError as error:
        out.say(f"[yellow]![/] not logged: {sanitize(error.message)}", err=True)


def _tell_generated(out: CommandOutput, answer: GenerateResult) -> None:
    """Print the command to standard output, so that it can be piped, and everything else to standard error."""
    out.show_problems(answer.warnings, warning=True)
    if answer.command is None:
        out.show_problems(answer.errors)
        out.say(f"[bold red]refused[/]: {_count(len(answer.errors), 'error')}", err=True)
        return
    out.show_repairs(answer.repairs)
    out.write_json(answer.command.as_json())
    out.say(f"[green]✓[/] [bold]{answer.command.command_id}[/] is complete and valid", err=True)


def _tell_artifact(out: CommandOutput, envelope: Envelope, file: str) -> int:
    if out.as_json:
        out.write_json({"ok": True, "command": None, "errors": [], "warnings": []})
    else:
        out.say(f"[green]✓[/] {sanitize(file)}: [bold]{envelope.message_id}[/] is a valid artifact envelope")
    return 0


def _tell_validated(out: CommandOutput, answer: ValidateResult, file: str) -> None:
    if out.as_json:
        out.write_json(answer.as_json())
        return
    out.show_problems(answer.warnings, warning=True)
    out.show_problems(answer.errors)
    name = "standard input" if file == "-" else sanitize(file)
    if answer.command is not None:
        out.say(f"[green]✓[/] {name}: [bold]{answer.command.command_id}[/] is valid")
    else:
        out.say(f"[bold red]refused[/]: {name} has {_count(len(answer.errors), 'error')}", err=True)


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" + ("" if number == 1 else "s")
