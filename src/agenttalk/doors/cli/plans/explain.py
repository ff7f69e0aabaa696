"""`agenttalk explain`: explains why a task is in its state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

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

if TYPE_CHECKING:
    from agenttalk.engine.views.models.attempts import AttemptUsage, AttemptView, CheckpointView, CheckView
    from agenttalk.engine.views.models.tasks import TaskExplanation

explain_app = typer.Typer(add_completion=False)
LINES = 20
"""How many of the last lines of a program's output are shown."""
_SOURCES: Final = {"output": "from_output", "report": "from_report", "exit-code only": "exit_code_only"}
"""How results came, where that was not over the engine's channel → the remark that says so."""


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
    path = f"/api/plans/{plan}/tasks/{task_id}/explanation"
    explanation = root_access.ask_root(
        folder, path, lambda local: local.plans.explain_task(plan, task_id), locale=out.locale
    )
    if not root_access.is_served(folder) and _needs_engine(explanation):
        from agenttalk.rules.text import cli_words

        explanation |= {"moves_on": cli_words.NOT_SERVED()}
    if out.as_json:
        out.write_json({"ok": True, **explanation})
    else:
        tell_explanation(out, out.translate(explanation))
    return 0


def _needs_engine(explanation: TaskExplanation) -> bool:
    """Return whether a task runs, or would start by itself: both needs an engine."""
    from agenttalk.rules.text.message import mentions
    from agenttalk.rules.text.view_words import AGENT_FREE

    begins = explanation["state"] == "READY" and mentions(explanation["moves_on"], AGENT_FREE)
    return begins or (
        explanation["state"] == "RUNNING" and explanation.get("phase") in {"validating", "executing", "verifying"}
    )


def tell_explanation(out: CommandOutput, explanation: TaskExplanation) -> None:
    """Print why a task is in its state."""
    _tell_state(out, explanation)
    _tell_promise(out, explanation)
    _tell_given(out, explanation)
    for turn in explanation["attempts"]:
        _tell_attempt(out, turn)
    used = describe_usage(out, explanation.get("usage"), timed=False)
    if used and len(explanation["attempts"]) > 1:
        out.say(f"  {out.text('explain.all_attempts', usage=used)}")
    for gate in explanation.get("gates", ()):
        out.say(f"  {describe_gate(out, gate)} [dim]{sanitize(gate['trace_id'])}[/]")
    tell_rounds(out, explanation.get("history", []))
    if broke := explanation.get("broke"):
        out.say(f"  [yellow]![/] {out.text('explain.sent_back', why=sanitize(broke['reason'][:300]))}")
    _tell_verdict(out, explanation)
    decisions.tell_disputes(out, explanation.get("disputes", []))
    for name in ("waits_for", "missing"):
        if explanation[name]:
            out.say(f"  {out.text(f'explain.{name}', names=sanitize(', '.join(explanation[name])))}")
    out.say(f"  [cyan]→[/] {sanitize(explanation['moves_on'])}")
    decisions.tell_decisions(out, explanation)


def _tell_state(out: CommandOutput, explanation: TaskExplanation) -> None:
    """Print the state of a task, its agent and its order."""
    task = f"[bold]{sanitize(explanation['plan_id'])}/{sanitize(explanation['task_id'])}[/]"
    state = f"[bold]{out.code('state', explanation['state'])}[/]"
    if explanation["reason"]:
        out.say(out.text("explain.state_why", task=task, state=state, why=summarize_lines(explanation["reason"])))
    else:
        out.say(out.text("explain.state", task=task, state=state))
    agent = f"[bold]{sanitize(explanation['agent_id'])}[/]"
    if explanation["asked"]:
        out.say(f"  {out.text('explain.asked', agent=agent, what=sanitize(explanation['asked'][:200]))}")
    else:
        out.say(f"  {out.text('explain.agent', agent=agent)}")


def _tell_promise(out: CommandOutput, explanation: TaskExplanation) -> None:
    """Print what done means for a task; of a foreign plan, what its messages show."""
    if explanation["promised"]:
        out.say(f"  {out.text('explain.derived' if explanation['promised']['derived'] else 'explain.promised')}")
        for criterion in explanation["promised"]["criteria"]:
            out.say(f"    · {sanitize(criterion['description'])}")
        for point in explanation["promised"].get("left_open", ()):
            out.say(f"    [yellow]![/] {sanitize(point)}")
    else:
        _tell_messages(out, explanation)


def _tell_given(out: CommandOutput, explanation: TaskExplanation) -> None:
    """Print which files were chosen as inputs, and which commands were superseded."""
    for choice in explanation.get("choices", ()):
        tasks, rule = sanitize(", ".join(choice["of"])), sanitize(choice["pick"])
        words = out.text("explain.choice", name=sanitize(choice["input"]), tasks=tasks, rule=rule)
        out.say(f"  {words}")
    for order in explanation.get("superseded", ()):
        why = sanitize((order["why"] or "").removeprefix("SUPERSEDED: ")[:200])
        out.say(f"  {out.text('explain.superseded', command=sanitize(order['command_id']), why=why)}")


def _tell_verdict(out: CommandOutput, explanation: TaskExplanation) -> None:
    """Print the engine's verdict, and the branch that it chose."""
    verdict = explanation["verdict"]
    if verdict is not None:
        if verdict["fulfilled"]:
            words = f"[green]{out.text('explain.fulfilled')}[/]"
        else:
            words = f"[red]{out.text('explain.not_fulfilled')}[/]"
        words += f" ([yellow]{out.text('remark.not_isolated')}[/])" if verdict.get("isolation") == "none" else ""
        if "accepted_by" in verdict:
            words = out.text("explain.accepted_by", verdict=words, who=sanitize(verdict["accepted_by"]))
        if not verdict.get("counts", True):
            words = out.text("explain.not_counting", verdict=words, about=sanitize(verdict["about"]))
        reasons = "".join(f"; {sanitize(reason)}" for reason in verdict["blockers"])
        out.say(f"  {out.text('explain.verdict', verdict=words)}{reasons}")
        if verdict["unverified"]:
            mark, names = f"[yellow]{out.text('remark.unproven')}[/]", sanitize(", ".join(verdict["unverified"]))
            out.say(f"  {out.text('explain.unverified', mark=mark, names=names)}")
    if branch := explanation.get("branch"):
        tasks = sanitize(", ".join(branch["activate"]))
        out.say(f"  {out.text('explain.branch', when=sanitize(branch['when']), tasks=tasks)}")


def _describe_sandbox(out: CommandOutput, tier: str | None) -> str:
    """Return the sandbox of an attempt; nothing for attempts on other machines."""
    if tier == "plain":
        return out.join(("", f"[yellow]{out.text('explain.no_sandbox')}[/]"))
    return out.join(("", out.text("explain.sandbox", tier=sanitize(tier)))) if tier else ""


def _tell_attempt(out: CommandOutput, turn: AttemptView) -> None:
    """Print how an attempt ended, its reason or result, and its evidence."""
    usage: AttemptUsage = {"duration_s": 0, **turn.get("usage", {})}
    result = str(turn.get("reason") or turn.get("result") or "").strip()
    head = out.text(
        "explain.attempt",
        command=sanitize(turn["command_id"]),
        number=turn["attempt"],
        how=out.code("ending", turn["how"]),
        seconds=usage["duration_s"],
        where=_describe_sandbox(out, turn.get("sandbox")),
    )
    used = out.join(
        part for part in (describe_usage(out, usage, timed=False), sanitize(str(usage.get("model") or ""))) if part
    )
    head = f"  {head}{f' ({used})' if used else ''}"
    out.say(out.join((head, summarize_lines(result, 200)), ";"))
    lines = [line for line in result.splitlines() if line.strip()]
    for line in lines[-LINES:] if len(lines) > 2 else ():
        out.say(f"    [dim]│[/] {sanitize(line)}")
    if turn.get("notice"):
        out.say(f"    [dim]{out.text('explain.notice')}[/] {sanitize(turn['notice'][:200])}")
    for gate in turn.get("gates", ()):
        _tell_gate(out, gate)
    if "score" in turn:
        why = summarize_lines(turn.get("score_explanation", ""), 200)
        out.say(f"    {out.text('explain.score', score=turn['score'], why=why)}")
    _tell_seen(out, turn)


def _tell_seen(out: CommandOutput, turn: AttemptView) -> None:
    """Print the events, checks, claims and remarks of an attempt."""
    usage: AttemptUsage = turn.get("usage", {})
    if events := usage.get("events"):
        words = out.text("explain.events", count=events["count"], file=sanitize(events["file"]))
        out.say(f"    [dim]·[/] {words}")
    if self_check := usage.get("self_check"):
        why = summarize_lines(self_check, 200)
        out.say(f"    [yellow]![/] {out.text('explain.self_check', why=why)}")
    for check in turn.get("checks", ()):
        _tell_check(out, check)
    for claim in turn.get("claims", ()):
        standing = out.text("explain.set_aside" if claim["set_aside"] else "explain.not_proven")
        truth = out.text("explain.true" if claim["passed"] else "explain.false")
        words = out.text("explain.claim", name=sanitize(claim["id"]), truth=truth, standing=standing)
        out.say(f"    [dim]·[/] {words}")
    if "foreign" in turn:
        commits = sanitize(", ".join(turn["foreign"]))
        out.say(f"    [yellow]![/] {out.text('explain.foreign', commits=commits)}")
    for remark in turn.get("remarks", ()):
        out.say(f"    [yellow]![/] {sanitize(remark[:400])}")
    if "commit" in turn:
        out.say(f"    {out.text('explain.merged', commit=sanitize(turn['commit'][:12]))}")


def _tell_gate(out: CommandOutput, gate: CheckpointView) -> None:
    """Print the decision of a checkpoint, if it had objections."""
    if gate["severity"]:
        mark = "[yellow]![/]" if gate["allowed"] else "[red]✗[/]"
        why = sanitize("; ".join(gate["reasons"])[:300])
        severity, trace = out.code("severity", gate["severity"]), sanitize(gate["trace_id"])
        out.say(f"    {mark} {gate['checkpoint']} ({severity}): {why} [dim]{trace}[/]")


def _tell_check(out: CommandOutput, check: CheckView) -> None:
    """Print the result of a check by the engine, and how far it can be trusted."""
    mark = "[green]✓[/]" if check["passed"] else "[red]✗[/]"
    failed = check.get("reason") or out.code("delivery", "failed")
    notes = [out.code("trust", check["trust"]) if check["passed"] else failed]
    notes += [out.text(f"remark.{word}") for word in ("weak", "flaky") if check.get(word)]
    notes += [out.text("remark.not_isolated")] if check.get("isolated") is False else []
    notes += [out.text(f"remark.{_SOURCES[source]}")] if (source := check.get("source")) in _SOURCES else []
    if check.get("seen_at"):
        notes.append(out.text("explain.seen", at=check["seen_at"], whom=check["seen_for"]))
    notes += [
        out.text(
            "explain.sealed",
            name=each["name"],
            machine=each["machine"],
            tier=each["sandbox"],
            key=each["public_key"][:12],
        )
        for each in check.get("seals") or ()
    ]
    notes += [f"{picture['name']}.png {picture['sha256']}" for picture in check.get("pictures") or ()]
    detail = f": {sanitize(check['detail'][:160])}" if check.get("detail") else ""
    out.say(f"    {mark} {sanitize(check['id'])} ({sanitize(out.join(notes))}){detail}")
    if not check["passed"] and check.get("output"):
        tell_check_output(out, check["output"], "      ")


def _tell_messages(out: CommandOutput, explanation: TaskExplanation) -> None:
    """Print what is known of a task of a plan that the engine does not run."""
    out.say(f"  {out.text('explain.not_engine')}")
    command = explanation["command"]
    if command:
        name, state = sanitize(command["command_id"]), out.code("delivery", command["state"])
        words = out.text("explain.command", command=name, state=state)
        if command["receipt"]:
            words = out.text("explain.command_receipt", command=name, state=state, receipt=command["receipt"])
        out.say(f"  {words}")
    if explanation["running"]:
        out.say(f"  {out.text('explain.attempt_runs', number=explanation['attempt'])}")
    for output in explanation["outputs"]:
        name, message = f"[bold]{sanitize(output['name'])}[/]", sanitize(output["message_id"])
        out.say(f"  {out.text('explain.made', name=name, message=message)}")
