"""`agenttalk`: finds the command, loads only its module, and turns every error into a message and an exit code.

Exit codes: 0 success · 1 a check or the work failed · 2 bad input · 3 waiting for a person or a gate ·
70 an internal error of AgentTalk · 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

from agenttalk import __version__
from agenttalk.contracts.errors import AgentTalkError, Code, ContractError, InputError
from agenttalk.doors.cli.core import agent_permissions, option_values
from agenttalk.doors.cli.core.language import choose_locale
from agenttalk.doors.cli.core.output import CommandOutput, CommonOptions

COMMANDS: dict[str, tuple[str, str]] = {
    "command": ("agenttalk.doors.cli.plans.command", "Make, check and wrap commands."),
    "plan": ("agenttalk.doors.cli.plans.plan", "Check plan files, and change plans that run."),
    "promise": ("agenttalk.doors.cli.proof.promise", "Make promises, and check whether they are fulfilled."),
    "schema": ("agenttalk.doors.cli.operation.schema", "Show or export the JSON Schemas of all documents."),
    "prove": (
        "agenttalk.doors.cli.changes.prove:prove_app",
        "Prove a change that another program made.",
    ),
    "run": ("agenttalk.doors.cli.plans.run:run_app", "Run a plan to its end."),
    "until": (
        "agenttalk.doors.cli.changes.until:until_app",
        "Run an agent on this repository until a check is proven.",
    ),
    "do": ("agenttalk.doors.cli.changes.until:do_app", "Have a coding agent reach a goal, proven by a check."),
    "explain": ("agenttalk.doors.cli.plans.explain:explain_app", "Explain why a task is in its state."),
    "pause": ("agenttalk.doors.cli.plans.control:pause_app", "Pause a plan: start no new tasks."),
    "resume": ("agenttalk.doors.cli.plans.control:resume_app", "Resume a paused plan."),
    "cancel": ("agenttalk.doors.cli.plans.control:cancel_app", "Cancel a plan."),
    "retry": ("agenttalk.doors.cli.plans.control:retry_app", "Try a failed task again."),
    "abort": ("agenttalk.doors.cli.proof.gates:abort_app", "Stop one task."),
    "override": ("agenttalk.doors.cli.proof.gates:override_app", "Override a checkpoint and start the task."),
    "rework": ("agenttalk.doors.cli.proof.rework", "Decide what happens to a task that has used up its rework rounds."),
    "verify": ("agenttalk.doors.cli.proof.verify:verify_app", "Check whether what a plan proved still holds."),
    "release": (
        "agenttalk.doors.cli.proof.release:release_app",
        "Show the decision about the release of a plan, or decide again.",
    ),
    "diff": ("agenttalk.doors.cli.plans.code:diff_app", "Show what a plan or a task changed in its repository."),
    "merge": ("agenttalk.doors.cli.plans.code:merge_app", "Merge the work of a plan into your own branch."),
    "serve": ("agenttalk.doors.cli.operation.serve", "Run the engine of a root, with its HTTP API and pages."),
    "route": ("agenttalk.doors.cli.operation.parts:route_app", "Deliver messages from outboxes to inboxes."),
    "heartbeat": ("agenttalk.doors.cli.operation.parts:heartbeat_app", "Carry out the commands in an agent's inbox."),
    "monitor": ("agenttalk.doors.cli.operation.parts:monitor_app", "Publish the status of plans and agents."),
    "status": ("agenttalk.doors.cli.operation.upkeep:status_app", "Show plans, tasks and messages."),
    "honesty": ("agenttalk.doors.cli.proof.honesty:honesty_app", "Show how many claims of agents held."),
    "inbox": ("agenttalk.doors.cli.people.inbox:inbox_app", "List the questions that wait for a person."),
    "answer": ("agenttalk.doors.cli.people.inbox:answer_app", "Answer a question."),
    "approve": (
        "agenttalk.doors.cli.people.inbox:approve_app",
        "Approve a question after reviewing what it refers to.",
    ),
    "deadletter": ("agenttalk.doors.cli.operation.dead_letters", "List, show and replay messages that were refused."),
    "fsck": ("agenttalk.doors.cli.operation.upkeep:fsck_app", "Check that every message is in exactly one state."),
    "gc": ("agenttalk.doors.cli.operation.upkeep:gc_app", "Remove files of ended plans that are no longer needed."),
    "republish": ("agenttalk.doors.cli.operation.upkeep:republish_app", "Write system_runtime/ again from the store."),
    "budget": ("agenttalk.doors.cli.operation.budget", "Show and change the spending limit of a day."),
    "schedule": ("agenttalk.doors.cli.operation.schedule", "Run plans on schedule."),
    "backup": ("agenttalk.doors.cli.operation.backup:backup_app", "Write a root into one archive."),
    "restore": ("agenttalk.doors.cli.operation.backup:restore_app", "Create a root from a backup."),
    "agent": ("agenttalk.doors.cli.agents.agents", "List the supported coding agents, and try one."),
    "config": ("agenttalk.doors.cli.operation.config", "Show settings and where they were set; reload them."),
    "doctor": (
        "agenttalk.doors.cli.operation.doctor",
        "Check what works on this machine, and how to fix the rest.",
    ),
    "toolchain": ("agenttalk.doors.cli.toolchain.toolchain", "Show the tasks that forge events created."),
    "webhook": ("agenttalk.doors.cli.toolchain.webhook", "Send the engine a signed sample event, as a forge would."),
    "mail": ("agenttalk.doors.cli.people.mail", "Write, list, read and answer letters."),
    "report": ("agenttalk.doors.cli.agents.remarks:report_app", "Report on the work on a task."),
    "output": ("agenttalk.doors.cli.agents.remarks:output_app", "Hand in a text output of a task."),
    "dispute": ("agenttalk.doors.cli.agents.remarks:dispute_app", "Dispute a check of a task; a person decides."),
    "audit": ("agenttalk.doors.cli.proof.audit", "Check, anchor, export and replay the ledger."),
    "init": ("agenttalk.doors.cli.operation.init", "Set up a repository for coding agents."),
    "mcp": ("agenttalk.doors.cli.agents.mcp", "Serve MCP on standard input and output."),
    "login": ("agenttalk.doors.cli.people.login", "Make a link that opens the web pages of a running engine."),
    "token": ("agenttalk.doors.cli.agents.token", "Make, list and revoke tokens of agents and people."),
    "worker": ("agenttalk.doors.cli.operation.worker", "Run agents on this machine for an engine elsewhere."),
    "skill": ("agenttalk.doors.cli.agents.skill", "Install Agent Skills for coding agents."),
    "bench": ("agenttalk.doors.cli.operation.bench", "Measure how many steps this machine carries out per second."),
    "demo": ("agenttalk.demo.command", "Take a short tour that checks itself."),
}
"""Name → module (and the app in it, if its name is not `app`), and the summary for the list of commands."""

GROUPS: dict[str, str] = {
    "Start here": "until do demo init doctor config bench",
    "Plans": "run plan status explain pause resume cancel retry abort override rework schedule budget",
    "Proof": "prove promise verify honesty audit",
    "Code and releases": "diff merge release",
    "People": "inbox answer approve login mail",
    "Forges": "toolchain webhook",
    "The engine and its parts": "serve worker route heartbeat monitor",
    "Agents": "agent token mcp skill report output dispute",
    "Commands and documents": "command schema",
    "Upkeep": "deadletter fsck gc republish backup restore",
}
"""The commands by purpose, in the order of the help text."""

EXIT_BAD_INPUT = 2
EXIT_FAILED = 1
EXIT_FAULT = 70
EXIT_INTERRUPTED = 130


class LazyGroup(TyperGroup):
    """Lists commands from the table, and imports only the one that is called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {name: TyperCommand(name, help=text) for name, (_, text) in COMMANDS.items()}

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - as it is called
        """Write all commands, by group."""
        for title, names in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:10}", COMMANDS[name][1]) for name in names.split()])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Load the command that is called, in place of its entry in the list."""
        name, _, rest = super().resolve_command(ctx, args)
        module, _, attribute = COMMANDS[str(name)][0].partition(":")
        command = drop_slow_parts(typer.main.get_command(getattr(import_module(module), attribute or "app")))
        agent_permissions.guard_against_agents(command, str(name))
        return name, command, rest


def drop_slow_parts(command: Any) -> Any:
    """Return the command without what takes longer than the command itself.

    Its help is plain text, which needs no rich, and plainly valid values need no validation by pydantic.
    """
    command.rich_markup_mode = None
    option_values.accept_plain_values(command)
    for subcommand in getattr(command, "commands", {}).values():
        drop_slow_parts(subcommand)
    return command


app = typer.Typer(
    cls=LazyGroup,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    epilog="Exit codes: 0 success, 1 failed, 2 bad input, 3 waiting for a person, 70 internal error, 130 interrupted.",
)


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it so
    if wanted:
        typer.echo(f"agenttalk {__version__}")
        raise typer.Exit


@app.callback()
def main(
    ctx: typer.Context,
    root: Annotated[
        Path | None,
        typer.Option("--root", help="The root: the folder with agents/ and system_runtime/.", envvar="AGENTTALK_ROOT"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON on standard output.")] = False,
    language: Annotated[
        Literal["en", "zh"] | None,
        typer.Option(
            "--language",
            help="Language of messages. Default: that of LANGUAGE, LC_ALL, LC_MESSAGES or LANG, if it is one of these.",
            envvar="AGENTTALK_LANGUAGE",
        ),
    ] = None,
    version: Annotated[  # noqa: ARG001 - handled by its callback
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """The work engine for teams of AI agents in which done is proven, not claimed."""
    errors: CommandOutput = ctx.obj  # of `call`, which prints errors in the same language
    locale = language or choose_locale(os.environ)
    errors.use_locale(locale)
    ctx.obj = CommonOptions(root, as_json, locale)


def call(arguments: list[str]) -> int:
    """Run the command line and return its exit code. Nothing is raised."""
    out = CommandOutput(as_json="--json" in arguments, locale=choose_locale(os.environ))
    _tolerate_plain_terminals()
    try:
        code = drop_slow_parts(typer.main.get_command(app)).main(
            arguments, prog_name="agenttalk", standalone_mode=False, obj=out
        )
    except TyperException as error:
        return _usage(out, error)
    except AgentTalkError as error:
        out.error(error.code, error.message, error.hint)
        if isinstance(error, ContractError) and not out.as_json:
            shown = len(error.problems) == 1 and error.problems[0].message in error.message
            out.show_problems(() if shown else error.problems)
        return EXIT_BAD_INPUT if isinstance(error, InputError) else EXIT_FAILED
    except (KeyboardInterrupt, typer.Abort):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output is gone, e.g. `head`. Python would fail again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _unwritable(error)
    except Exception as error:  # nothing above handles it
        if os.environ.get("AGENTTALK_DEBUG"):
            raise
        out.error(
            Code.UNHANDLED_EXCEPTION,
            f"{type(error).__name__}: {error}",
            "this is a bug in AgentTalk; please report it with the traceback that AGENTTALK_DEBUG=1 prints",
        )
        return EXIT_FAULT
    return code if isinstance(code, int) else 0


def _tolerate_plain_terminals() -> None:
    """Replace characters that the terminal cannot show, rather than fail."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _flushed(code: int) -> int:
    """Flush standard output, and return the exit code. Output that cannot be written is a failure."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        return _unwritable(error)
    return code


def _unwritable(error: OSError) -> int:
    """Report that our own output cannot be written: every other access to files translates its errors itself."""
    sys.stderr.write(f"agenttalk: cannot write the output: {error.strerror}\n")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return EXIT_FAILED


def _usage(out: CommandOutput, error: TyperException) -> int:
    message = error.format_message()
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(message, err=True)  # the message is the help text
        return EXIT_BAD_INPUT
    path = context.command_path if context else "agenttalk"
    out.error(Code.OPTION_INVALID, message, f"see '{path} --help'")
    return EXIT_BAD_INPUT


def run() -> None:
    """Run the console script."""
    sys.exit(_flushed(call(sys.argv[1:])))
