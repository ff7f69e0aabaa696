"""`agenttalk explain`: explains why a task is in its state."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from agenttalk.doors.cli.core import root_access
from agenttalk.doors.cli.core.output import (
    CommandOutput,
    JsonOption,
    RootOption,
    sanitize,
    summarize_lines,
    tell_check_output,
)
from agenttalk.doors.cli.plans import decisions
from agenttalk.doors.cli.plans.control import parse_task_name
from agenttalk.doors.cli.plans.live_view import describe_gate, describe_usage
from agenttalk.doors.cli.plans.prompt import show_prompt
from agenttalk.doors.cli.proof.rework import tell_rounds

explain_app = typer.Typer(add_completion=False)
LINES = 20
"""How many of the last lines of a program's output are shown."""


@explain_app.command("explain")
def explain(
    ctx: typer.Context,
    task: Annotated[str, typer.Argument(metavar="PLAN/TASK", help="The task.")],
    prompt: Annotated[
        bool, typer.Option("--prompt", help="Show its last prompt instead, as its agent got it.")
    ] = False,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Explain why a task is in its state, and what moves it on."""
    plan, task_id = parse_task_name(task)
    if prompt:
        return show_prompt(*root_access.choose_root(ctx, root, as_json), plan, task_id)

    out, folder = root_access.choose_root(ctx, root, as_json)
    told = root_access.ask_root(
        folder, f"/api/plans/{plan}/tasks/{task_id}/explanation", lambda local: local.plans.explain_task(plan, task_id)
    )
    if _needs_engine(told) and not root_access.is_served(folder):
        told |= {"moves_on": root_access.NOT_SERVED}
    if out.as_json:
        out.write_json({"ok": True, **told})
    else:
        tell_explanation(out, told)
    return 0


def _needs_engine(told: dict[str, Any]) -> bool:
    """Return whether a task runs, or would start by itself: both needs an engine."""
    begins = told["state"] == "READY" and told["moves_on"].startswith("it begins when its agent")
    return begins or (told["state"] == "RUNNING" and told.get("phase") in {"validating", "executing", "verifying"})


def tell_explanation(out: CommandOutput, told: dict[str, Any]) -> None:
    """Print why a task is in its state."""
    why = f": {summarize_lines(told['reason'])}" if told["reason"] else ""
    out.say(f"[bold]{sanitize(told['plan_id'])}/{sanitize(told['task_id'])}[/] is [bold]{told['state']}[/]{why}")
    asked = f": {sanitize(told['asked'][:200])}" if told["asked"] else ""
    out.say(f"  {'asked of' if asked else 'a task of'} [bold]{sanitize(told['agent_id'])}[/]{asked}")
    if told["promised"]:
        how = "from the plan" if told["promised"]["derived"] else "as promised"
        out.say(f"  done means, {how}:")
        for criterion in told["promised"]["criteria"]:
            out.say(f"    · {sanitize(criterion['description'])}")
        for each in told["promised"].get("left_open", ()):
            out.say(f"    [yellow]![/] {sanitize(each)}")
    else:
        _tell_messages(out, told)
    _tell_given(out, told)
    for turn in told["attempts"]:
        _tell_attempt(out, turn)
    used = describe_usage(told.get("usage"), timed=False)
    if used and len(told["attempts"]) > 1:
        out.say(f"  in all attempts: {used}")
    for gate in told.get("gates", ()):
        out.say(f"  {describe_gate(gate)} [dim]{sanitize(gate['trace_id'])}[/]")
    tell_rounds(out, told.get("history", []))
    if told.get("broke"):
        out.say(f"  [yellow]![/] sent back: {sanitize(told['broke']['reason'][:300])}")
    _tell_verdict(out, told)
    decisions.tell_disputes(out, told.get("disputes", []))
    for name in ("waits_for", "missing"):
        if told[name]:
            words = "waits for" if name == "waits_for" else "is missing"
            out.say(f"  {words}: {sanitize(', '.join(told[name]))}")
    out.say(f"  [cyan]→[/] {sanitize(told['moves_on'])}")
    decisions.tell_decisions(out, told)


def _tell_given(out: CommandOutput, told: dict[str, Any]) -> None:
    """Print which files were chosen as inputs, and which commands were superseded."""
    for choice in told.get("choices", ()):
        sources, pick = sanitize(", ".join(choice["of"])), sanitize(choice["pick"])
        out.say(f"  input {sanitize(choice['input'])}: one of the outputs of {sources}, chosen by {pick}")
    for order in told.get("superseded", ()):
        why = sanitize((order["why"] or "").removeprefix("SUPERSEDED: ")[:200])
        out.say(f"  {sanitize(order['command_id'])} was superseded before it ran: {why}")


def _tell_verdict(out: CommandOutput, told: dict[str, Any]) -> None:
    """Print the engine's verdict, and the branch that it chose."""
    verdict = told["verdict"]
    if verdict is not None:
        seen = "[green]fulfilled[/]" if verdict["fulfilled"] else "[red]not fulfilled[/]"
        seen += " ([yellow]not isolated[/])" if verdict.get("isolation") == "none" else ""
        seen += (
            f", because {sanitize(verdict['accepted_by'])} accepted the work as it is"
            if "accepted_by" in verdict
            else ""
        )
        seen += "" if verdict.get("counts", True) else f" of {sanitize(verdict['about'])}, which no longer counts"
        out.say(f"  the engine's verdict: {seen}" + "".join(f"; {sanitize(each)}" for each in verdict["blockers"]))
        if verdict["unverified"]:
            out.say(f"  [yellow]unproven[/], claimed only: {sanitize(', '.join(verdict['unverified']))}")
    if told.get("branch"):
        activated = sanitize(", ".join(told["branch"]["activate"]))
        out.say(f"  the score ({sanitize(told['branch']['when'])}) activated {activated}")


def _where(tier: str | None) -> str:
    """Return the sandbox of an attempt; nothing for attempts on other machines."""
    if tier == "plain":
        return ", [yellow]without a sandbox[/]"
    return f", in the sandbox {sanitize(tier)}" if tier else ""


def _tell_attempt(out: CommandOutput, turn: dict[str, Any]) -> None:
    """Print how an attempt ended, its reason or result, and its evidence."""
    usage = {"duration_s": 0, **turn.get("usage", {})}
    said = str(turn.get("reason") or turn.get("result") or "").strip()
    where = _where(turn.get("sandbox"))
    head = f"{sanitize(turn['command_id'])}, attempt {turn['attempt']}: {turn['how']} in {usage['duration_s']} s{where}"
    used = ", ".join(
        part for part in (describe_usage(usage, timed=False), sanitize(str(usage.get("model") or ""))) if part
    )
    out.say(f"  {head}{f' ({used})' if used else ''}; {summarize_lines(said, 200)}")
    lines = [line for line in said.splitlines() if line.strip()]
    for line in lines[-LINES:] if len(lines) > 2 else ():
        out.say(f"    [dim]│[/] {sanitize(line)}")
    if turn.get("notice"):
        out.say(f"    [dim]notice:[/] {sanitize(turn['notice'][:200])}")
    for gate in turn.get("gates", ()):
        _tell_gate(out, gate)
    if "score" in turn:
        out.say(f"    score {turn['score']:g}: {summarize_lines(turn.get('score_explanation', ''), 200)}")
    _tell_seen(out, turn)


def _tell_seen(out: CommandOutput, turn: dict[str, Any]) -> None:
    """Print the events, checks, claims and remarks of an attempt."""
    events = turn.get("usage", {}).get("events")
    if events:
        out.say(f"    [dim]·[/] its events ({events['count']}): {sanitize(events['file'])}")
    if turn.get("usage", {}).get("self_check"):
        why = summarize_lines(turn["usage"]["self_check"], 200)
        out.say(f"    [yellow]![/] our check before the agent stopped failed, which is not the agent's fault: {why}")
    for check in turn.get("checks", ()):
        _tell_check(out, check)
    for claim in turn.get("claims", ()):
        standing = "ignored: the engine's own evidence decides" if claim["set_aside"] else "a claim, not proven"
        truth = "true" if claim["passed"] else "false"
        out.say(f"    [dim]·[/] claims that {sanitize(claim['id'])} is {truth} ({standing})")
    if "foreign" in turn:
        out.say(
            f"    [yellow]![/] commits on the plan's branch that no task made: {sanitize(', '.join(turn['foreign']))}"
        )
    for remark in turn.get("remarks", ()):
        out.say(f"    [yellow]![/] {sanitize(remark[:400])}")
    if "commit" in turn:
        out.say(f"    merged as {sanitize(turn['commit'][:12])}")


def _tell_gate(out: CommandOutput, gate: dict[str, Any]) -> None:
    """Print the decision of a checkpoint, if it had objections."""
    if gate["severity"]:
        mark = "[yellow]![/]" if gate["allowed"] else "[red]✗[/]"
        why = sanitize("; ".join(gate["reasons"])[:300])
        out.say(f"    {mark} {gate['checkpoint']} ({gate['severity']}): {why} [dim]{sanitize(gate['trace_id'])}[/]")


def _tell_check(out: CommandOutput, check: dict[str, Any]) -> None:
    """Print the result of a check by the engine, and how far it can be trusted."""
    mark = "[green]✓[/]" if check["passed"] else "[red]✗[/]"
    notes = [check["trust"] if check["passed"] else check.get("reason", "failed")]
    notes += [word for word in ("weak", "flaky") if check.get(word)]
    notes += ["not isolated"] if check.get("isolated") is False else []
    notes += [f"picture {picture['name']}: {picture['sha256']}" for picture in check.get("pictures") or ()]
    notes += [f"as seen at {check['seen_at']} for {check['seen_for']}"] if check.get("seen_at") else []
    detail = f": {sanitize(check['detail'][:160])}" if check.get("detail") else ""
    out.say(f"    {mark} {sanitize(check['id'])} ({sanitize(', '.join(notes))}){detail}")
    if not check["passed"] and check.get("output"):
        tell_check_output(out, check["output"], "      ")


def _tell_messages(out: CommandOutput, told: dict[str, Any]) -> None:
    """Print what is known of a task of a plan that the engine does not run."""
    out.say("  the engine does not run this plan: it knows only its messages")
    command = told["command"]
    if command:
        receipt = f", receipt {command['receipt']}" if command["receipt"] else ""
        out.say(f"  {sanitize(command['command_id'])} is {command['state']}{receipt}")
    if told["running"]:
        out.say(f"  attempt {told['attempt']} runs")
    for output in told["outputs"]:
        out.say(f"  made [bold]{sanitize(output['name'])}[/], {sanitize(output['message_id'])}")
