"""`agenttalk report`, `output` and `dispute`: reports on a task, and outputs and disputes of it.

In a turn, the commands use the agent's token from its environment. Elsewhere they act as the operator.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any
from urllib.parse import quote

import typer

from agenttalk.contracts.errors import Code, MachineError, UsageError
from agenttalk.doors.cli.core import root_access
from agenttalk.doors.cli.core.output import CommandOutput, CommonOptions, JsonOption, RootOption, sanitize

report_app = typer.Typer(add_completion=False)
output_app = typer.Typer(add_completion=False)
dispute_app = typer.Typer(add_completion=False)
TaskArgument = Annotated[
    str, typer.Argument(metavar="TASK", help="PLAN/TASK; only the task's id on _toolchain and _mail, and in a turn.")
]
BoardOption = Annotated[str, typer.Option("--board", help="Project of the task.")]
TextArgument = Annotated[str, typer.Argument(metavar="TEXT", help="The text; - reads standard input.")]


@report_app.command("report")
def report(
    ctx: typer.Context,
    task: TaskArgument,
    text: TextArgument,
    comment_type: Annotated[
        str, typer.Option("--type", help="Type of the comment: action_report, general, handoff, …")
    ] = "action_report",
    claims: Annotated[str | None, typer.Option("--claims", help="Claims about what was done, as JSON.")] = None,
    board: BoardOption = "default",
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Report on the work on a task: an action report, unless --type names another type."""
    from agenttalk.contracts.core import wire

    body: dict[str, Any] = {"comment_type": comment_type, "body": _text(text)}
    if claims is not None:
        body["claims"] = wire.read(claims.encode("utf-8", "surrogateescape"))
    return _say(ctx, root, as_json, task, board, "comments", body)


@output_app.command("output")
def output(
    ctx: typer.Context,
    task: TaskArgument,
    text: TextArgument,
    kind: Annotated[str, typer.Option("--type", help="Type of the output.")] = "text",
    board: BoardOption = "default",
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Hand in a text output of a task."""
    return _say(ctx, root, as_json, task, board, "outputs", {"content": _text(text), "type": kind})


@dispute_app.command("dispute")
def dispute(
    ctx: typer.Context,
    task: TaskArgument,
    check: Annotated[str, typer.Argument(metavar="CHECK", help="Id of the check in the task's promise.")],
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why the check is wrong; - reads standard input.")
    ],
    board: BoardOption = "default",
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Dispute a check of your own task. A person decides; the check stays in force meanwhile."""
    attempt = _as_attempt(ctx, root, as_json)
    if attempt is None:
        hint = "an operator changes a check in the plan file: 'agenttalk plan apply FILE'"
        raise UsageError(Code.NOT_ALLOWED, "only the agent of a task can dispute its checks, in its turn", hint=hint)
    out, client = attempt
    answer = client.post(f"/api/projects/{_place(task, board)}/disputes", {"check": check, "reason": _text(reason)})
    if out.as_json:
        out.write_json({"ok": True, **answer})
    else:
        task, question = sanitize(answer["task"]), sanitize(answer["question_id"])
        out.say(f"[green]✓[/] {out.text('operate.disputed', task=task, check=sanitize(check), question=question)}")
        out.say(f"  {out.text('operate.disputed_until')}")
    return 0


def _text(text: str) -> str:
    return sys.stdin.read() if text == "-" else text


def _say(
    ctx: typer.Context,
    root: Any,
    as_json: bool,  # noqa: FBT001 - as given
    task: str,
    board: str,
    what: str,
    body: dict[str, Any],
) -> int:
    path = f"/api/projects/{_place(task, board)}/{what}"
    attempt = _as_attempt(ctx, root, as_json)
    if attempt is not None:
        out, client = attempt
        author = str(client.get(path.rpartition("/")[0])["agent_id"])
    else:
        out, client = _as_operator(ctx, root, as_json)
        author = "operator"
    comment = client.post(path, {**body, "author": author} if what == "comments" else body)
    if out.as_json:
        out.write_json({"ok": True, **comment})
    else:
        out.say(f"[green]✓[/] {sanitize(comment['task'])}: {sanitize(comment['type'])} {comment['id']}")
    return 0


def _as_attempt(ctx: typer.Context, root: Any, as_json: bool) -> tuple[CommandOutput, Any] | None:  # noqa: FBT001 - as given
    """Return the output and a client with the attempt's token; None when this is not a turn."""
    token, environ = os.environ.get("AGENTTALK_TOKEN", ""), os.environ
    if not token or not (environ.get("AGENTTALK_API") or environ.get("AGENTTALK_SOCKET")):
        return None
    from agenttalk.adapters.store.root_lock import RunningEngine
    from agenttalk.doors.cli.core.engine_client import EngineClient

    out = CommandOutput.from_options(CommonOptions.merge(ctx, root, as_json))
    engine = RunningEngine(pid=0, http=environ.get("AGENTTALK_API", ""), socket=environ.get("AGENTTALK_SOCKET", ""))
    return out, EngineClient(engine, token)


def _as_operator(ctx: typer.Context, root: Any, as_json: bool) -> tuple[CommandOutput, Any]:  # noqa: FBT001 - as given
    from agenttalk.doors.cli.core import engine_client

    out, folder = root_access.choose_root(ctx, root, as_json)
    client = engine_client.connect_to_running_engine(folder)
    if client is None:
        raise MachineError(Code.ENGINE_UNREACHABLE, "no engine runs here", hint="start 'agenttalk serve' first")
    return out, client


def _place(task: str, board: str) -> str:
    """Return the address of a task: `_toolchain/tasks/tc-1` or `default/tasks/plan:task`."""
    plan, slash, name = task.partition("/")
    if not slash:
        plan, name = os.environ.get("AGENTTALK_PLAN_ID", "_toolchain"), task
    if plan.startswith("_"):
        return f"{quote(plan, safe='')}/tasks/{quote(name, safe='')}"
    return f"{quote(board, safe='')}/tasks/{quote(plan, safe='')}:{quote(name, safe='')}"
