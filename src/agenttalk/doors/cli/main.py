"""`agenttalk`: finds the command, loads only its module, and turns every error into words and an exit code.

Exit codes: 0 good · 1 it was checked and is not so, or something failed · 2 bad input ·
3 a person or a gate is awaited · 70 a fault of AgentTalk · 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

from agenttalk import __version__
from agenttalk.contracts.errors import AgentTalkError, Code, ContractError, InputError
from agenttalk.doors.cli.core import agent_permissions, option_values
from agenttalk.doors.cli.core.output import CommandOutput, CommonOptions

COMMANDS: dict[str, tuple[str, str]] = {
    "command": ("agenttalk.doors.cli.plans.command", "Make, check and wrap commands."),
    "plan": ("agenttalk.doors.cli.plans.plan", "Check plan files, and change plans that run."),
    "promise": ("agenttalk.doors.cli.proof.promise", "Make and check promises, and see whether they are fulfilled."),
    "schema": ("agenttalk.doors.cli.operation.schema", "Show or export the JSON Schemas of all documents."),
    "run": ("agenttalk.doors.cli.plans.run:run_app", "Run a plan to its end."),
    "explain": ("agenttalk.doors.cli.plans.explain:explain_app", "Say why a task is in its state."),
    "pause": ("agenttalk.doors.cli.plans.control:pause_app", "Pause a plan: begin nothing new."),
    "resume": ("agenttalk.doors.cli.plans.control:resume_app", "Let a paused plan go on."),
    "cancel": ("agenttalk.doors.cli.plans.control:cancel_app", "Cancel a plan."),
    "retry": ("agenttalk.doors.cli.plans.control:retry_app", "Try a failed task again."),
    "abort": ("agenttalk.doors.cli.proof.gates:abort_app", "Stop one task."),
    "override": ("agenttalk.doors.cli.proof.gates:override_app", "Let a task begin that a checkpoint holds up."),
    "rework": ("agenttalk.doors.cli.proof.rework", "Decide about a task that has no round of rework left."),
    "verify": ("agenttalk.doors.cli.proof.verify:verify_app", "Check whether what a plan proved still holds."),
    "release": (
        "agenttalk.doors.cli.proof.release:release_app",
        "Show the decision about a plan's release, or decide again.",
    ),
    "diff": ("agenttalk.doors.cli.plans.code:diff_app", "Show what a plan or a task changed in its repository."),
    "merge": ("agenttalk.doors.cli.plans.code:merge_app", "Bring what a plan has done into your own branch."),
    "serve": ("agenttalk.doors.cli.operation.serve", "Run the engine of a root, with its HTTP API and pages."),
    "route": ("agenttalk.doors.cli.operation.parts:route_app", "Bring messages from outboxes to inboxes."),
    "heartbeat": ("agenttalk.doors.cli.operation.parts:heartbeat_app", "Work through an agent's inbox."),
    "monitor": ("agenttalk.doors.cli.operation.parts:monitor_app", "Publish where plans and agents stand."),
    "status": ("agenttalk.doors.cli.operation.upkeep:status_app", "Show plans, tasks and messages."),
    "honesty": ("agenttalk.doors.cli.proof.honesty:honesty_app", "Show how many claims of agents held."),
    "inbox": ("agenttalk.doors.cli.people.inbox:inbox_app", "List the questions that wait for a person."),
    "answer": ("agenttalk.doors.cli.people.inbox:answer_app", "Answer a question."),
    "approve": ("agenttalk.doors.cli.people.inbox:approve_app", "Say yes to a question, having seen what it is about."),
    "deadletter": ("agenttalk.doors.cli.operation.dead_letters", "List, show and replay messages that were refused."),
    "fsck": ("agenttalk.doors.cli.operation.upkeep:fsck_app", "Check that every message is in exactly one state."),
    "gc": ("agenttalk.doors.cli.operation.upkeep:gc_app", "Remove what plans left behind and nobody needs."),
    "republish": ("agenttalk.doors.cli.operation.upkeep:republish_app", "Write system_runtime/ again from the store."),
    "budget": ("agenttalk.doors.cli.operation.budget", "See and change what a day may cost."),
    "schedule": ("agenttalk.doors.cli.operation.schedule", "Run plans on schedule."),
    "backup": ("agenttalk.doors.cli.operation.backup:backup_app", "Write a whole root into one file."),
    "restore": ("agenttalk.doors.cli.operation.backup:restore_app", "Make a root from a backup."),
    "agent": ("agenttalk.doors.cli.agents.agents", "See which coding agents there are, and try one."),
    "config": ("agenttalk.doors.cli.operation.config", "Show settings and where they were set; reload them."),
    "doctor": (
        "agenttalk.doors.cli.operation.doctor",
        "Say what works on this machine, and what to do about the rest.",
    ),
    "toolchain": ("agenttalk.doors.cli.toolchain.toolchain", "Show tasks that came from forges."),
    "webhook": ("agenttalk.doors.cli.toolchain.webhook", "Send the engine a signed sample, as a forge would."),
    "mail": ("agenttalk.doors.cli.people.mail", "Write, list, read and answer letters."),
    "report": ("agenttalk.doors.cli.agents.remarks:report_app", "Say what was done about a task."),
    "output": ("agenttalk.doors.cli.agents.remarks:output_app", "Hand in something that was made for a task."),
    "dispute": ("agenttalk.doors.cli.agents.remarks:dispute_app", "Say that a check of a task is itself wrong."),
    "audit": ("agenttalk.doors.cli.proof.audit", "Check, anchor, export and replay the ledger."),
    "init": ("agenttalk.doors.cli.operation.init", "Set a repository up for coding agents."),
    "mcp": ("agenttalk.doors.cli.agents.mcp", "Serve MCP on standard input and output."),
    "login": ("agenttalk.doors.cli.people.login", "Make a link that opens the pages of a running engine."),
    "token": ("agenttalk.doors.cli.agents.token", "Make, list and revoke tokens of agents and people."),
    "skill": ("agenttalk.doors.cli.agents.skill", "Install Agent Skills for coding agents."),
    "bench": ("agenttalk.doors.cli.operation.bench", "Measure how fast this machine carries out tasks."),
    "demo": ("agenttalk.demo.command", "A short tour that checks itself."),
}
"""Name → module (and the app in it, if it is not `app`), and what to say of it. Nothing is imported for the list."""

GROUPS: dict[str, str] = {
    "Begin": "demo init doctor config bench",
    "Plans": "run plan status explain pause resume cancel retry abort override rework schedule budget",
    "Proof": "promise verify honesty audit",
    "Code and releases": "diff merge release",
    "People": "inbox answer approve login mail",
    "Forges": "toolchain webhook",
    "The engine and its parts": "serve route heartbeat monitor",
    "Agents": "agent token mcp skill report output dispute",
    "Commands and documents": "command schema",
    "Upkeep": "deadletter fsck gc republish backup restore",
}
"""The same by what somebody wants to do, in the order in which help shows them."""

EXIT_BAD_INPUT = 2
EXIT_FAILED = 1
EXIT_FAULT = 70
EXIT_INTERRUPTED = 130


class LazyGroup(TyperGroup):
    """Lists commands from the table and imports the one that is called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {name: TyperCommand(name, help=text) for name, (_, text) in COMMANDS.items()}

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - as it is called
        """All of them, by groups."""
        for title, names in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:10}", COMMANDS[name][1]) for name in names.split()])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The real command in place of its entry in the list."""
        name, _, rest = super().resolve_command(ctx, args)
        module, _, attribute = COMMANDS[str(name)][0].partition(":")
        command = drop_slow_parts(typer.main.get_command(getattr(import_module(module), attribute or "app")))
        agent_permissions.guard_against_agents(command, str(name))
        return name, command, rest


def drop_slow_parts(command: Any) -> Any:
    """The same command, without what takes longer than the command itself.

    Its help is plain text, which nobody has to draw, and what is plainly right nobody has to look at.
    """
    command.rich_markup_mode = None
    option_values.accept_plain_values(command)
    for each in getattr(command, "commands", {}).values():
        drop_slow_parts(each)
    return command


app = typer.Typer(
    cls=LazyGroup,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    epilog="Exit codes: 0 good, 1 no or failed, 2 bad input, 3 waiting, 70 a fault of AgentTalk, 130 interrupted.",
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
    version: Annotated[  # noqa: ARG001 - handled by its callback
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """The work engine for teams of AI agents in which done is proven, not claimed."""
    ctx.obj = CommonOptions(root=root, as_json=as_json)


def call(arguments: list[str]) -> int:
    """Run the command line; the exit code says how it went. Nothing is raised."""
    out = CommandOutput(as_json="--json" in arguments)
    _tolerate_plain_terminals()
    try:
        code = drop_slow_parts(typer.main.get_command(app)).main(
            arguments, prog_name="agenttalk", standalone_mode=False
        )
    except TyperException as error:
        return _usage(out, error)
    except AgentTalkError as error:
        out.error(error.code, error.message, error.hint)
        if isinstance(error, ContractError) and not out.as_json:
            told = len(error.problems) == 1 and error.problems[0].message in error.message
            out.show_problems(() if told else error.problems)
        return EXIT_BAD_INPUT if isinstance(error, InputError) else EXIT_FAILED
    except (KeyboardInterrupt, typer.Abort):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has enough. Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _unwritable(error)
    except Exception as error:  # the top of everything: say it and end with its own code
        if os.environ.get("AGENTTALK_DEBUG"):
            raise
        out.error(
            Code.UNHANDLED_EXCEPTION,
            f"{type(error).__name__}: {error}",
            "this is a fault of AgentTalk; please report it with what AGENTTALK_DEBUG=1 shows",
        )
        return EXIT_FAULT
    return code if isinstance(code, int) else 0


def _tolerate_plain_terminals() -> None:
    """A terminal that knows no Unicode still gets an answer."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _flushed(code: int) -> int:
    """The exit code, once all output is out; what cannot be written is a failure."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        return _unwritable(error)
    return code


def _unwritable(error: OSError) -> int:
    """Everything else that touches files translates its errors; what is left is our own output."""
    sys.stderr.write(f"agenttalk: cannot write the answer: {error.strerror}\n")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return EXIT_FAILED


def _usage(out: CommandOutput, error: TyperException) -> int:
    message = error.format_message()
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(message, err=True)  # which is the help
        return EXIT_BAD_INPUT
    path = context.command_path if context else "agenttalk"
    out.error(Code.OPTION_INVALID, message, f"see '{path} --help'")
    return EXIT_BAD_INPUT


def run() -> None:
    """The console script."""
    sys.exit(_flushed(call(sys.argv[1:])))
