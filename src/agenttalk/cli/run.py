"""`agenttalk run` and what steers a plan that runs: pause, resume, cancel, retry."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agenttalk.cli import decisions
from agenttalk.cli.nearby import near
from agenttalk.cli.output import JsonOption, Output, RootOption, Settings, gist, plain
from agenttalk.cli.prompting import show_prompt
from agenttalk.cli.rework import tell_rounds

if TYPE_CHECKING:
    from agenttalk.cli.engine_client import Client
    from agenttalk.engine.deps import Deps
    from agenttalk.engine.running import Running
    from agenttalk.engine.service import Service
    from agenttalk.rules.planfile import Compiled

run_app = typer.Typer(add_completion=False)
pause_app = typer.Typer(add_completion=False)
resume_app = typer.Typer(add_completion=False)
cancel_app = typer.Typer(add_completion=False)
retry_app = typer.Typer(add_completion=False)
explain_app = typer.Typer(add_completion=False)
PlanArgument = Annotated[str, typer.Argument(metavar="PLAN", help="The plan's id.")]
CODES = {"done": 0, "failed": 1, "waiting": 3, "paused": 3, "running": 130}
"""How a plan stands → how the command ends."""
LINES = 20
"""Lines that are shown of what a program said last."""
SHORTEST = 0.02
"""Seconds between looks at a plan that runs here."""
PACE = 0.25
"""Seconds between looks at a plan that another process runs."""
ABSENCE = 30.0
"""Seconds for which an engine may be away that is followed, or takes to begin."""


@run_app.command("run")
def run(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan file, YAML or JSON.")],
    watch: Annotated[bool, typer.Option("--watch", help="Also wait for people and for agents worked by hand.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check the plan and show it; run nothing.")] = False,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Run a plan to its end, and show how it goes.

    Ends with 0 when everything is done, 1 when something failed, 3 when somebody else is awaited. Running the same
    plan again goes on where it was.
    """
    from agenttalk.cli import beforehand, roots
    from agenttalk.planfiles import compiled_plan

    out = Output(as_json=Settings.merged(ctx, root, as_json).as_json)
    given = Settings.merged(ctx, root, as_json).root or near(Path.cwd())
    compiled = compiled_plan(file, given if given is not None and given.is_dir() else None)
    if compiled.problems:
        return refused(out, compiled)
    if dry_run:
        tasks = [node.task_id for node in compiled.dag.nodes]
        if out.as_json:
            out.data({"ok": True, "plan_id": compiled.dag.plan_id, "tasks": tasks})
        else:
            out.say(f"[green]✓[/] [bold]{plain(compiled.dag.plan_id)}[/]: {len(tasks)} tasks; nothing was run")
        return 0
    beforehand.require_repository(compiled)
    folder = roots.made(ctx, root)
    return CODES[_carried_out(out, compiled, folder, watch=watch)["result"]]


def carried_out(out: Output, file: Path, folder: Path, *, quiet: bool = False) -> dict[str, Any]:
    """Run a plan file in a root until it ends or waits; how it stands. Raises ContractError when it is no good plan."""
    from agenttalk.errors import ContractError
    from agenttalk.planfiles import compiled_plan

    compiled = compiled_plan(file, folder)
    if compiled.problems:
        raise ContractError(compiled.problems[0].code, f"{file} is no plan that can be run", compiled.problems)
    return _carried_out(out, compiled, folder, watch=False, quiet=quiet)


def _carried_out(out: Output, compiled: Compiled, folder: Path, *, watch: bool, quiet: bool = False) -> dict[str, Any]:
    """Run a plan and show how it goes; with `quiet`, what it comes to is left to be told by the caller."""
    from agenttalk.cli import beforehand
    from agenttalk.cli.live import Live
    from agenttalk.rules.planfile import waves

    _warn_of_checks(out, compiled, folder)
    beforehand.warn_of_programs(out, compiled, folder)
    order = [task_id for wave in waves(compiled.dag) for task_id in wave]
    by_hand = {name for name, profile in compiled.profiles.items() if profile.driver == "folder"}
    with Live(out, compiled.dag.plan_id, order=order, by_hand=by_hand, root=folder) as live:
        standing = _followed(folder, compiled, live.show, watch=watch)
    if not quiet:
        live.conclude(standing)
    return standing


def refused(out: Output, compiled: Compiled) -> int:
    """Say what is wrong with a plan; the exit code."""
    if out.as_json:
        errors = [
            {"code": str(each.code), "field": each.field, "message": each.message, "hint": each.hint}
            for each in compiled.problems
        ]
        out.data({"ok": False, "plan_id": compiled.dag.plan_id, "errors": errors})
    else:
        out.problems(compiled.problems)
        many = len(compiled.problems)
        out.say(f"refused: {many} problem{'s' if many > 1 else ''}", err=True)
    return 2


def _warn_of_checks(out: Output, compiled: Compiled, root: Path) -> None:
    """A check that nobody can make never passes; whoever starts such a plan should know before."""
    named = [
        str(node.task_id)
        for node in compiled.dag.nodes
        if node.promise is not None and any(check.kind == "forge" for check in node.promise.checks)
    ]
    if not named or out.as_json:
        return
    from agenttalk.settings import load

    if not any(each.token_env or each.token_file for each in load(root).sources.values()):
        tasks = plain(", ".join(named[:10]) + (" …" if len(named) > 10 else ""))
        words = "no forge is configured with a token of the engine's, so these tasks are never done"
        out.say(f"[yellow]![/] {words}: [bold]{tasks}[/]", err=True)


def _followed(root: Path, compiled: Compiled, show: Callable[[dict[str, Any]], None], *, watch: bool) -> dict[str, Any]:
    """Have the plan run, here or by the engine that is there, until it ends or waits.

    An engine that only ran another plan may end before: then the next one is followed, or the plan goes on here. One
    that serves is waited for when it ends, because whoever ended it means to start it again, or to have it stopped.
    """
    import time

    from agenttalk.cli import engine_client
    from agenttalk.errors import Code, MachineError
    from agenttalk.store.rootlock import running_parts

    served = False
    gone: MachineError | None = None
    deadline = time.monotonic() + ABSENCE
    while True:
        client = engine_client.running(root)
        try:
            if client is not None:
                return _beside(client, compiled, show, watch=watch)
            if not served:
                return _here(root, compiled, show, watch=watch)
        except MachineError as error:
            if error.code not in {Code.ENGINE_RUNNING, Code.ENGINE_UNREACHABLE}:
                raise
            if client is None and running_parts(root):
                raise  # they have the root, and may have it for ever
            gone = error
        if client is not None and client.answered:
            served, deadline = not client.passing, time.monotonic() + ABSENCE
        if gone is not None and time.monotonic() > deadline:
            raise gone
        time.sleep(PACE)


def _context() -> str:
    """Where whoever called us stands in a trace, if the environment tells it."""
    import os

    from agenttalk.rules.spans import read_traceparent

    told = os.environ.get("TRACEPARENT", "")
    return told if read_traceparent(told) is not None else ""


def _here(root: Path, compiled: Compiled, show: Callable[[dict[str, Any]], None], *, watch: bool) -> dict[str, Any]:
    import asyncio
    import time
    from contextlib import suppress

    from agenttalk import settings, wiring
    from agenttalk.cli import roots

    seen: list[dict[str, Any]] = []

    async def job(running: Running) -> None:
        await running.service.submit(
            compiled.dag, compiled.manifest, compiled.profiles, compiled.files, traceparent=_context()
        )
        with running.dispatcher.followed() as news, running.dispatcher.awaited() as calm:
            while True:
                news.clear()
                calm.clear()
                began = time.monotonic()
                look = running.service.standing if watch else running.service.settled
                standing = await look(compiled.dag.plan_id)
                seen[:] = [standing]
                show(standing)
                if _is_over(standing, watch=watch):
                    return
                await news.wait()
                # Looking costs time that grows with the plan, so that is done less often the longer it takes.
                with suppress(TimeoutError):
                    await asyncio.wait_for(calm.wait(), max(SHORTEST, 5 * (time.monotonic() - began)))

    loaded = settings.load(root)

    def start(stop: asyncio.Event) -> Any:
        return wiring.serve(root, loaded, stop=stop, port=0, job=job)

    code = roots.looped(start)
    if not seen:  # stopped before there was anything to tell
        raise KeyboardInterrupt
    return {**seen[0], "result": "running"} if code == roots.EXIT_INTERRUPTED else seen[0]


def _beside(
    client: Client, compiled: Compiled, show: Callable[[dict[str, Any]], None], *, watch: bool
) -> dict[str, Any]:
    import time

    context = _context()
    client.post("/api/plans", documents(compiled), {"traceparent": context} if context else {})
    standing: dict[str, Any] = {}
    try:
        while True:
            standing = client.get(f"/api/plans/{compiled.dag.plan_id}" + ("" if watch else "?settled=true"))
            show(standing)
            if _is_over(standing, watch=watch):
                return standing
            time.sleep(PACE)
    except KeyboardInterrupt:  # only the following ends: the engine goes on
        return {**standing, "result": "running"}


def documents(compiled: Compiled) -> dict[str, Any]:
    """A plan as an engine takes it."""
    import base64

    return {
        "dag": compiled.dag.as_json(),
        "manifest": compiled.manifest.as_json(),
        "profiles": {name: profile.as_json() for name, profile in compiled.profiles.items()},
        "files": [base64.b64encode(data).decode() for data in compiled.files.values()],
    }


def by_hand_service(deps: Deps) -> Service:
    """What steers plans of a root that has no engine. It begins nothing."""
    from agenttalk.drivers.processes import LocalProcesses
    from agenttalk.engine.dispatcher import Dispatcher
    from agenttalk.engine.service import Service

    return Service(deps, dispatcher=Dispatcher(deps, {}, LocalProcesses(), max_running=0))


def _is_over(standing: dict[str, Any], *, watch: bool) -> bool:
    return standing["result"] != "running" and (not watch or standing["state"] == "ENDED")


@pause_app.command("pause")
def pause(ctx: typer.Context, plan: PlanArgument, root: RootOption = None, as_json: JsonOption = False) -> int:
    """Begin nothing new of a plan. What runs goes on to its end."""
    return steered(ctx, root, as_json, plan, "pause", {}, "paused; what runs goes on to its end")


@resume_app.command("resume")
def resume(ctx: typer.Context, plan: PlanArgument, root: RootOption = None, as_json: JsonOption = False) -> int:
    """Let a paused plan go on."""
    return steered(ctx, root, as_json, plan, "resume", {}, "goes on")


@cancel_app.command("cancel")
def cancel(
    ctx: typer.Context,
    plan: PlanArgument,
    why: Annotated[str | None, typer.Option("--why", help="The reason; it stands on every task.")] = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Call a plan off: programs under way are ended, and everything still open fails."""
    return steered(ctx, root, as_json, plan, "cancel", {"why": why} if why else {}, "cancelled")


@retry_app.command("retry")
def retry(
    ctx: typer.Context,
    task: Annotated[str, typer.Argument(metavar="PLAN/TASK", help="A task that failed.")],
    onwards: Annotated[
        bool, typer.Option("--from", help="Also what is done: run the plan again from this task on.")
    ] = False,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Try a failed task again. What its failure stopped waits for it again.

    With --from the task may also be done or skipped, and everything that depends on it begins anew.
    """
    plan, task_id = named_task(task)
    words = f"runs again from {task_id} on" if onwards else f"{task_id} is tried again"
    more: dict[str, Any] = {"task": task_id, "from": True} if onwards else {"task": task_id}
    return steered(ctx, root, as_json, plan, "retry", more, words)


@explain_app.command("explain")
def explain(
    ctx: typer.Context,
    task: Annotated[str, typer.Argument(metavar="PLAN/TASK", help="The task.")],
    prompt: Annotated[
        bool, typer.Option("--prompt", help="Show its last prompt instead, as the agent got it.")
    ] = False,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Say in plain words why a task is in its state, and what moves it on."""
    from agenttalk.cli import roots

    plan, task_id = named_task(task)
    if prompt:
        return show_prompt(*roots.chosen(ctx, root, as_json), plan, task_id)

    async def by_hand(deps: Deps) -> dict[str, Any]:
        from agenttalk.engine import foreign

        return await foreign.explain(deps, plan, task_id)

    out, folder = roots.chosen(ctx, root, as_json)
    told = roots.asked(folder, f"/api/plans/{plan}/tasks/{task_id}/explanation", by_hand)
    if out.as_json:
        out.data({"ok": True, **told})
    else:
        tell(out, told)
    return 0


def tell(out: Output, told: dict[str, Any]) -> None:
    """Why a task is in its state, for people."""
    from agenttalk.cli.live import gate_line, spent

    why = f": {gist(told['reason'])}" if told["reason"] else ""
    out.say(f"[bold]{plain(told['plan_id'])}/{plain(told['task_id'])}[/] is [bold]{told['state']}[/]{why}")
    asked = f": {plain(told['asked'][:200])}" if told["asked"] else ""
    out.say(f"  {'asked of' if asked else 'a task of'} [bold]{plain(told['agent_id'])}[/]{asked}")
    if told["promised"]:
        how = "follows from the plan" if told["promised"]["derived"] else "was promised"
        out.say(f"  what done means {how}:")
        for criterion in told["promised"]["criteria"]:
            out.say(f"    · {plain(criterion['description'])}")
    else:
        _tell_messages(out, told)
    for turn in told["attempts"]:
        _tell_attempt(out, turn)
    used = spent(told.get("usage"), timed=False)
    if used and len(told["attempts"]) > 1:
        out.say(f"  in all attempts: {used}")
    for gate in told.get("gates", ()):
        out.say(f"  {gate_line(gate)} [dim]{plain(gate['trace_id'])}[/]")
    tell_rounds(out, told.get("history", []))
    if told.get("broke"):
        out.say(f"  [yellow]![/] it was sent back: {plain(told['broke']['reason'][:300])}")
    _tell_verdict(out, told)
    decisions.tell_disputes(out, told.get("disputes", []))
    for name in ("waits_for", "missing"):
        if told[name]:
            words = "waits for" if name == "waits_for" else "is missing"
            out.say(f"  {words}: {plain(', '.join(told[name]))}")
    out.say(f"  [cyan]→[/] {plain(told['moves_on'])}")
    decisions.tell(out, told)


def _tell_verdict(out: Output, told: dict[str, Any]) -> None:
    """What the engine decided of what was shown, and where that led."""
    verdict = told["verdict"]
    if verdict is not None:
        seen = "[green]fulfilled[/]" if verdict["fulfilled"] else "[red]not fulfilled[/]"
        seen += " ([yellow]not isolated[/])" if verdict.get("isolation") == "none" else ""
        seen += f", because {plain(verdict['accepted_by'])} accepted it as it is" if "accepted_by" in verdict else ""
        out.say(f"  the engine's verdict: {seen}" + "".join(f"; {plain(each)}" for each in verdict["blockers"]))
        if verdict["unverified"]:
            out.say(f"  [yellow]unproven[/], only said: {plain(', '.join(verdict['unverified']))}")
    if told.get("branch"):
        activated = plain(", ".join(told["branch"]["activate"]))
        out.say(f"  the score decided ({plain(told['branch']['when'])}): {activated} had to run")


def _tell_attempt(out: Output, turn: dict[str, Any]) -> None:
    """How an attempt ended, what was said then, and what was seen of it."""
    from agenttalk.cli.live import spent

    usage = {"duration_s": 0, **turn.get("usage", {})}
    said = str(turn.get("reason") or turn.get("result") or "").strip()
    where = f", in the sandbox {plain(turn['sandbox'])}" if turn.get("sandbox") else ""
    head = f"{plain(turn['command_id'])}, attempt {turn['attempt']}: {turn['how']} in {usage['duration_s']} s{where}"
    used = ", ".join(part for part in (spent(usage, timed=False), plain(str(usage.get("model") or ""))) if part)
    out.say(f"  {head}{f' ({used})' if used else ''}; {gist(said, 200)}")
    lines = [line for line in said.splitlines() if line.strip()]
    for line in lines[-LINES:] if len(lines) > 2 else ():
        out.say(f"    [dim]│[/] {plain(line)}")
    if turn.get("notice"):
        out.say(f"    [dim]notice:[/] {plain(turn['notice'][:200])}")
    for gate in turn.get("gates", ()):
        _tell_gate(out, gate)
    if "score" in turn:
        out.say(f"    score {turn['score']:g}: {gist(turn.get('score_explanation', ''), 200)}")
    _tell_seen(out, turn)


def _tell_seen(out: Output, turn: dict[str, Any]) -> None:
    """What was seen and said of what an attempt left."""
    events = turn.get("usage", {}).get("events")
    if events:
        out.say(f"    [dim]·[/] what it told meanwhile ({events['count']} events): {plain(events['file'])}")
    for check in turn.get("checks", ()):
        _tell_check(out, check)
    for claim in turn.get("claims", ()):
        worth = "set aside: what the engine sees decides" if claim["set_aside"] else "a claim, not proven"
        out.say(f"    [dim]·[/] says that {plain(claim['id'])} is {'so' if claim['passed'] else 'not so'} ({worth})")
    if "foreign" in turn:
        out.say(f"    [yellow]![/] somebody else's on the plan's branch: {plain(', '.join(turn['foreign']))}")
    if "commit" in turn:
        out.say(f"    merged as {plain(turn['commit'][:12])}")


def _tell_gate(out: Output, gate: dict[str, Any]) -> None:
    """What a checkpoint decided of a turn; only what it had to say something about."""
    if gate["severity"]:
        mark = "[yellow]![/]" if gate["allowed"] else "[red]✗[/]"
        why = plain("; ".join(gate["reasons"])[:300])
        out.say(f"    {mark} {gate['checkpoint']} ({gate['severity']}): {why} [dim]{plain(gate['trace_id'])}[/]")


def _tell_check(out: Output, check: dict[str, Any]) -> None:
    """What came of a check of the engine's, and how far it can be trusted."""
    if "restored" in check:
        out.say(f"    [yellow]![/] put back before it was checked: {plain(', '.join(check['restored']))}")
        return
    mark = "[green]✓[/]" if check["passed"] else "[red]✗[/]"
    notes = [check["trust"] if check["passed"] else check.get("reason", "failed")]
    notes += [word for word in ("weak", "flaky") if check.get(word)]
    notes += ["not isolated"] if check.get("isolated") is False else []
    notes += [f"as seen at {check['seen_at']} for {check['seen_for']}"] if check.get("seen_at") else []
    detail = f": {plain(check['detail'][:160])}" if check.get("detail") else ""
    out.say(f"    {mark} {plain(check['id'])} ({plain(', '.join(notes))}){detail}")


def _tell_messages(out: Output, told: dict[str, Any]) -> None:
    """What is known of a task of a plan that the engine does not run."""
    out.say("  the engine does not run this plan: only its messages are known")
    command = told["command"]
    if command:
        receipt = f", receipt {command['receipt']}" if command["receipt"] else ""
        out.say(f"  {plain(command['command_id'])} is {command['state']}{receipt}")
    if told["running"]:
        out.say(f"  attempt {told['attempt']} runs")
    for output in told["outputs"]:
        out.say(f"  made [bold]{plain(output['name'])}[/], {plain(output['message_id'])}")


def named_task(task: str) -> tuple[str, str]:
    """Plan and task of PLAN/TASK."""
    from agenttalk.errors import Code, UsageError

    plan, slash, task_id = task.partition("/")
    if not slash or not task_id:
        raise UsageError(Code.OPTION_INVALID, f"which task? {task!r} is no PLAN/TASK", hint="e.g. shop/build")
    return plan, task_id


def steered(
    ctx: typer.Context,
    root: Path | None,
    as_json: bool,  # noqa: FBT001 - as given
    plan: str,
    action: str,
    more: dict[str, Any],
    words: str,
) -> int:
    """Have an engine, or the root itself, do something with a plan, and say so."""
    import getpass

    from agenttalk.cli import roots

    out, folder = roots.chosen(ctx, root, as_json)
    by = getpass.getuser()

    async def by_hand(deps: Deps) -> dict[str, Any]:
        from agenttalk.engine.plan_actions import Action

        wanted = Action(
            name=action,
            by=by,
            task_id=more.get("task"),
            onwards=more.get("from", False),
            why=more.get("why", ""),
            checkpoint=more.get("checkpoint"),
            answer=more.get("answer", ""),
        )
        done: dict[str, Any] = await by_hand_service(deps).steer(plan, wanted)
        return done

    answer = roots.asked(folder, f"/api/plans/{plan}/{action}", by_hand, {**more, "by": by})
    if out.as_json:
        out.data({"ok": True, **answer})
    else:
        _say(out, plan, words, answer)
    return 0


def _say(out: Output, plan: str, words: str, answer: dict[str, Any]) -> None:
    if answer.get("changed") is False:
        out.say(f"[bold]{plain(plan)}[/]: nothing changed")
        return
    count = f": {answer['cancelled']} tasks" if "cancelled" in answer else ""
    if len(answer.get("tasks", ())) > 1:
        count = f": {len(answer['tasks'])} tasks"
    out.say(f"[green]✓[/] [bold]{plain(plan)}[/]: {words}{count}")
