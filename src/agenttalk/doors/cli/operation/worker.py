"""`agenttalk worker`: runs agents on this machine for an engine elsewhere, and looks after such workers."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args
from urllib.parse import quote

import typer

from agenttalk.contracts.errors import Code, MachineError, UsageError
from agenttalk.doors.cli.core import logs, root_access
from agenttalk.doors.cli.core.output import CommandOutput, CommonOptions, JsonOption, RootOption, sanitize

if TYPE_CHECKING:
    from agenttalk.contracts.worker import Enrolled

app = typer.Typer(
    invoke_without_command=True,
    help="Run agents on this machine for an engine elsewhere, and look after such workers.",
    add_completion=False,
)
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name or id of the worker.")]
PoolArgument = Annotated[str, typer.Argument(metavar="POOL", help="The pool.")]


@app.callback()
def run(
    ctx: typer.Context,
    server: Annotated[str | None, typer.Option("--server", metavar="URL", help="Address of the engine.")] = None,
    enrol: Annotated[
        str | None,
        typer.Option(
            "--enrol",
            metavar="TOKEN",
            help="Token of the invitation, for the first start.",
            envvar="AGENTTALK_WORKER_INVITATION",
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--folder", help="Folder of the worker. Default: agenttalk/worker in your state folder."),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Its name. Default: that of this machine.")] = None,
    machine: Annotated[
        str | None,
        typer.Option(
            "--machine",
            metavar="NAME",
            help="Name of a machine of its own, for a container or virtual machine that shares nothing with others.",
        ),
    ] = None,
    slots: Annotated[int, typer.Option("--slots", min=1, max=1000, help="How many tasks it runs at once.")] = 1,
    as_json: JsonOption = False,
) -> int:
    """Run a worker. SIGTERM or Ctrl-C has it finish what it runs and end; the second time it ends at once."""
    if ctx.invoked_subcommand is not None:
        return 0
    import asyncio

    from agenttalk.wiring.worker import WorkerOptions, run_worker

    out = CommandOutput.from_options(CommonOptions.merge(ctx, None, as_json))
    if not server:
        raise UsageError(Code.OPTION_INVALID, "a worker needs its engine", hint="give --server URL")
    logs.configure_logging("console", "info")

    def tell(own: Enrolled) -> None:
        if out.as_json:
            out.write_json({"ok": True, "worker": own.worker, "pool": own.pool, "labels": list(own.labels)})
        else:
            out.say(f"[green]✓[/] worker {own.worker} of the pool {sanitize(own.pool)} works for {sanitize(server)}")
        sys.stdout.flush()

    options = WorkerOptions(
        server, (folder or _default_folder()).absolute(), enrol or "", name or "", slots, machine or ""
    )
    asyncio.run(run_worker(options, tell))
    return 0


def _default_folder() -> Path:
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "agenttalk" / "worker"


@app.command("invite")
def invite(
    ctx: typer.Context,
    pool: Annotated[str, typer.Option("--pool", help="The pool of the new worker.")],
    label: Annotated[
        list[str] | None, typer.Option("--label", help="A label of the new worker, such as gpu. Several are allowed.")
    ] = None,
    role: Annotated[
        str, typer.Option("--role", help="agents: it runs agents. verifier: it makes checks, in a pool of its own.")
    ] = "agents",
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Print the token with which one worker can enrol, once and within 15 minutes."""
    from agenttalk.contracts.worker import WorkerRole

    out, folder = root_access.choose_root(ctx, root, as_json)
    if role not in get_args(WorkerRole):
        raise UsageError(
            Code.OPTION_INVALID, f"{role!r} is not a role of workers", hint=f"one of {', '.join(get_args(WorkerRole))}"
        )
    token = f"inv_{secrets.token_urlsafe(32)}"
    asked = {"pool": pool, "labels": list(label or ()), "role": role, "token": token}
    made = _ask(folder, "/api/workers/invitations", asked)
    if out.as_json:
        out.write_json({"ok": True, **made, "token": token})
    else:
        out.say(f"[green]✓[/] invitation {made['id']} for the pool {sanitize(pool)}; it is shown only once", err=True)
        typer.echo(token)
    return 0


@app.command("list")
def list_workers(ctx: typer.Context, root: RootOption = None, as_json: JsonOption = False) -> int:
    """List the workers and what they do."""
    out, folder = root_access.choose_root(ctx, root, as_json)
    found = _ask(folder, "/api/workers", None)
    if out.as_json:
        out.write_json(found)
        return 0
    for each in found["workers"]:
        labels = ",".join(each["labels"]) or "-"
        paused = ", pool paused" if each["paused"] else ""
        pool = each["pool"] + (" (verifier)" if each["role"] == "verifier" else "")
        out.say(
            f"{each['id']}  {sanitize(each['name'])}  {sanitize(pool)}  {sanitize(labels)}  "
            f"{each['state']}, {each['liveness']}{paused}  {len(each['attempts'])}/{each['slots']}"
            + "".join(f"  {sanitize(name)}" for name in each["attempts"])
        )
        if each["reason"]:
            out.say(f"  → {sanitize(out.translate(each['reason']))}")
    for task in found["waiting"]:
        out.say(f"{sanitize(task['plan_id'])}/{sanitize(task['task_id'])}  {sanitize(task['pool'])}")
        out.say(f"  → {sanitize(out.translate(task['why']))}")
    return 0


@app.command("drain")
def drain(ctx: typer.Context, name: NameArgument, root: RootOption = None, as_json: JsonOption = False) -> int:
    """Give a worker nothing new. It finishes what it has."""
    return _set_state(ctx, name, "draining", root, as_json=as_json)


@app.command("resume")
def resume(ctx: typer.Context, name: NameArgument, root: RootOption = None, as_json: JsonOption = False) -> int:
    """Give a worker work again, after it was drained or quarantined."""
    return _set_state(ctx, name, "active", root, as_json=as_json)


@app.command("remove")
def remove(ctx: typer.Context, name: NameArgument, root: RootOption = None, as_json: JsonOption = False) -> int:
    """Refuse a worker from now on. What it has is lost, and offered to others."""
    return _set_state(ctx, name, "removed", root, as_json=as_json)


@app.command("pause")
def pause(ctx: typer.Context, pool: PoolArgument, root: RootOption = None, as_json: JsonOption = False) -> int:
    """Give the workers of a pool nothing new."""
    return _pause(ctx, pool, root, paused=True, as_json=as_json)


@app.command("unpause")
def unpause(ctx: typer.Context, pool: PoolArgument, root: RootOption = None, as_json: JsonOption = False) -> int:
    """Give the workers of a pool work again."""
    return _pause(ctx, pool, root, paused=False, as_json=as_json)


def _set_state(ctx: typer.Context, name: str, state: str, root: Path | None, *, as_json: bool) -> int:
    out, folder = root_access.choose_root(ctx, root, as_json)
    done = _ask(folder, f"/api/workers/{quote(name, safe='')}/state", {"state": state})
    if out.as_json:
        out.write_json({"ok": True, **done})
    else:
        out.say(f"[green]✓[/] worker {sanitize(done['name'])} ({done['id']}) is {done['state']}")
    return 0


def _pause(ctx: typer.Context, pool: str, root: Path | None, *, paused: bool, as_json: bool) -> int:
    out, folder = root_access.choose_root(ctx, root, as_json)
    done = _ask(folder, f"/api/pools/{quote(pool, safe='')}", {"paused": paused})
    if out.as_json:
        out.write_json({"ok": True, **done})
    else:
        out.say(f"[green]✓[/] pool {sanitize(pool)} {'is paused' if paused else 'gets work again'}")
    return 0


def _ask(folder: Path, path: str, body: dict[str, Any] | None) -> Any:
    """Ask the engine of a root. Workers exist only beside an engine."""
    from agenttalk.doors.cli.core import engine_client

    client = engine_client.connect_to_running_engine(folder)
    if client is None:
        hint = "start 'agenttalk serve'"
        raise MachineError(Code.ENGINE_UNREACHABLE, f"{folder} has no running engine", hint=hint)
    return client.get(path) if body is None else client.post(path, body)
