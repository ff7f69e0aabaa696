"""`agenttalk explain`: why a task is in its state, in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

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
from agenttalk.doors.cli.plans.prompt import show_prompt
from agenttalk.doors.cli.proof.rework import tell_rounds

if TYPE_CHECKING:
    from agenttalk.engine.core.deps import Deps

explain_app = typer.Typer(add_completion=False)
LINES = 20
"""Lines that are shown of what a program said last."""


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
    from agenttalk.doors.cli.core import root_access

    plan, task_id = parse_task_name(task)
    if prompt:
        return show_prompt(*root_access.choose_root(ctx, root, as_json), plan, task_id)

    async def by_hand(deps: Deps) -> dict[str, Any]:
        from agenttalk import wiring

        return dict(await wiring.make_verification_service(folder, deps).plans.explain(plan, task_id))

    out, folder = root_access.choose_root(ctx, root, as_json)
    told = root_access.ask_root(folder, f"/api/plans/{plan}/tasks/{task_id}/explanation", by_hand)
    if _needs_engine(told) and not root_access.is_served(folder):
        told |= {"moves_on": root_access.NOT_SERVED}
    if out.as_json:
        out.write_json({"ok": True, **told})
    else:
        tell_explanation(out, told)
    return 0


def _needs_engine(told: dict[str, Any]) -> bool:
    """Whether a task is said to run, or to begin by itself: both takes somebody who runs it."""
    begins = told["state"] == "READY" and told["moves_on"].startswith("it begins when its agent")
    return begins or (told["state"] == "RUNNING" and told.get("phase") in {"validating", "executing", "verifying"})


def tell_explanation(out: CommandOutput, told: dict[str, Any]) -> None:
    """Why a task is in its state, for people."""
    from agenttalk.doors.cli.plans.live_view import describe_gate, describe_usage

    why = f": {summarize_lines(told['reason'])}" if told["reason"] else ""
    out.say(f"[bold]{sanitize(told['plan_id'])}/{sanitize(told['task_id'])}[/] is [bold]{told['state']}[/]{why}")
    asked = f": {sanitize(told['asked'][:200])}" if told["asked"] else ""
    out.say(f"  {'asked of' if asked else 'a task of'} [bold]{sanitize(told['agent_id'])}[/]{asked}")
    if told["promised"]:
        how = "follows from the plan" if told["promised"]["derived"] else "was promised"
        out.say(f"  what done means {how}:")
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
        out.say(f"  [yellow]![/] it was sent back: {sanitize(told['broke']['reason'][:300])}")
    _tell_verdict(out, told)
    decisions.tell_disputes(out, told.get("disputes", []))
    for name in ("waits_for", "missing"):
        if told[name]:
            words = "waits for" if name == "waits_for" else "is missing"
            out.say(f"  {words}: {sanitize(', '.join(told[name]))}")
    out.say(f"  [cyan]→[/] {sanitize(told['moves_on'])}")
    decisions.tell_decisions(out, told)


def _tell_given(out: CommandOutput, told: dict[str, Any]) -> None:
    """What was chosen for a task, and which commands were taken back."""
    for choice in told.get("choices", ()):
        several = sanitize(", ".join(choice["of"]))
        out.say(f"  the input {sanitize(choice['input'])} is one of what {several} make: {sanitize(choice['pick'])}")
    for order in told.get("superseded", ()):
        why = sanitize((order["why"] or "").removeprefix("SUPERSEDED: ")[:200])
        out.say(f"  {sanitize(order['command_id'])} was superseded before it was carried out: {why}")


def _tell_verdict(out: CommandOutput, told: dict[str, Any]) -> None:
    """What the engine decided of what was shown, and where that led."""
    verdict = told["verdict"]
    if verdict is not None:
        seen = "[green]fulfilled[/]" if verdict["fulfilled"] else "[red]not fulfilled[/]"
        seen += " ([yellow]not isolated[/])" if verdict.get("isolation") == "none" else ""
        seen += f", because {sanitize(verdict['accepted_by'])} accepted it as it is" if "accepted_by" in verdict else ""
        seen += (
            "" if verdict.get("counts", True) else f" of {sanitize(verdict['about'])}, which does not count any more"
        )
        out.say(f"  the engine's verdict: {seen}" + "".join(f"; {sanitize(each)}" for each in verdict["blockers"]))
        if verdict["unverified"]:
            out.say(f"  [yellow]unproven[/], only said: {sanitize(', '.join(verdict['unverified']))}")
    if told.get("branch"):
        activated = sanitize(", ".join(told["branch"]["activate"]))
        out.say(f"  the score decided ({sanitize(told['branch']['when'])}): {activated} had to run")


def _where(tier: str | None) -> str:
    """Where an attempt was made; nothing is said of what was not done on this machine."""
    if tier == "plain":
        return ", [yellow]without a sandbox[/]"
    return f", in the sandbox {sanitize(tier)}" if tier else ""


def _tell_attempt(out: CommandOutput, turn: dict[str, Any]) -> None:
    """How an attempt ended, what was said then, and what was seen of it."""
    from agenttalk.doors.cli.plans.live_view import describe_usage

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
    """What was seen and said of what an attempt left."""
    events = turn.get("usage", {}).get("events")
    if events:
        out.say(f"    [dim]·[/] what it told meanwhile ({events['count']} events): {sanitize(events['file'])}")
    if turn.get("usage", {}).get("self_check"):
        why = summarize_lines(turn["usage"]["self_check"], 200)
        out.say(f"    [yellow]![/] our own look before it stopped failed, which is no fault of its agent: {why}")
    for check in turn.get("checks", ()):
        _tell_check(out, check)
    for claim in turn.get("claims", ()):
        worth = "set aside: what the engine sees decides" if claim["set_aside"] else "a claim, not proven"
        out.say(f"    [dim]·[/] says that {sanitize(claim['id'])} is {'so' if claim['passed'] else 'not so'} ({worth})")
    if "foreign" in turn:
        out.say(f"    [yellow]![/] somebody else's on the plan's branch: {sanitize(', '.join(turn['foreign']))}")
    for remark in turn.get("remarks", ()):
        out.say(f"    [yellow]![/] {sanitize(remark[:400])}")
    if "commit" in turn:
        out.say(f"    merged as {sanitize(turn['commit'][:12])}")


def _tell_gate(out: CommandOutput, gate: dict[str, Any]) -> None:
    """What a checkpoint decided of a turn; only what it had to say something about."""
    if gate["severity"]:
        mark = "[yellow]![/]" if gate["allowed"] else "[red]✗[/]"
        why = sanitize("; ".join(gate["reasons"])[:300])
        out.say(f"    {mark} {gate['checkpoint']} ({gate['severity']}): {why} [dim]{sanitize(gate['trace_id'])}[/]")


def _tell_check(out: CommandOutput, check: dict[str, Any]) -> None:
    """What came of a check of the engine's, and how far it can be trusted."""
    mark = "[green]✓[/]" if check["passed"] else "[red]✗[/]"
    notes = [check["trust"] if check["passed"] else check.get("reason", "failed")]
    notes += [word for word in ("weak", "flaky") if check.get(word)]
    notes += ["not isolated"] if check.get("isolated") is False else []
    notes += [f"as seen at {check['seen_at']} for {check['seen_for']}"] if check.get("seen_at") else []
    detail = f": {sanitize(check['detail'][:160])}" if check.get("detail") else ""
    out.say(f"    {mark} {sanitize(check['id'])} ({sanitize(', '.join(notes))}){detail}")
    if not check["passed"] and check.get("output"):
        tell_check_output(out, check["output"], "      ")


def _tell_messages(out: CommandOutput, told: dict[str, Any]) -> None:
    """What is known of a task of a plan that the engine does not run."""
    out.say("  the engine does not run this plan: only its messages are known")
    command = told["command"]
    if command:
        receipt = f", receipt {command['receipt']}" if command["receipt"] else ""
        out.say(f"  {sanitize(command['command_id'])} is {command['state']}{receipt}")
    if told["running"]:
        out.say(f"  attempt {told['attempt']} runs")
    for output in told["outputs"]:
        out.say(f"  made [bold]{sanitize(output['name'])}[/], {sanitize(output['message_id'])}")
