"""Prints the decisions about a plan: the review of its DAG, and its release."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from agenttalk.doors.cli.core.output import CommandOutput, format_count, sanitize, sanitize_line

if TYPE_CHECKING:
    from agenttalk.contracts.plan import Policies

_REVIEW: Final = {
    "open": "[blue]◆[/] its DAG is being reviewed: 'agenttalk status {review_plan}'",
    "waits": "[yellow]‖[/] its DAG is not approved ({decision} by {decided_by}): question {request_id}",
    "approved": "[green]✓[/] its DAG was approved by {decided_by}",
    "dropped": "[dim]- the review of its DAG was dropped[/]",
}
_RELEASE: Final = {
    "due": "[blue]◆[/] release {release_id} is being decided",
    "approved": "[green]✓[/] release {release_id}: approved",
    "rejected": "[bold red]✗[/] release {release_id}: rejected",
    "revoked": "[bold red]✗[/] release {release_id}: revoked",
}


def tell_decisions(out: CommandOutput, told: dict[str, Any]) -> None:
    """Print the state of review and release with every reason, if there is one."""
    review, release = told.get("review"), told.get("release")
    if review:
        _tell(out, _REVIEW[review["state"]], review, [] if review["state"] == "approved" else review["reasons"])
        if review["state"] == "approved" and review["missing"]:
            out.say(f"    [yellow]![/] without {sanitize(', '.join(review['missing']))}")
    if release:
        _tell(out, _RELEASE[release["state"]], release, release["reasons"])
        _tell_isolation(out, release)


def tell_disputes(out: CommandOutput, disputes: list[dict[str, Any]]) -> None:
    """Print the checks that the agent of a task disputes, and what was decided."""
    for dispute in disputes:
        decision = dispute["state"] + (f" by {sanitize(dispute['answered_by'])}" if dispute["answered_by"] else "")
        note = f": {sanitize_line(dispute['note'])}" if dispute["note"] else ""
        agent, check = sanitize(dispute["agent_id"]), sanitize(dispute["check"])
        out.say(f"  [yellow]?[/] {agent} disputes the check {check}: {decision}{note}")
        out.say(f"      its reason: {sanitize_line(dispute['reason'])}")
        out.say(f"      [cyan]→[/] {sanitize(dispute['moves_on'])}")


def _tell(out: CommandOutput, words: str, told: dict[str, Any], reasons: list[str]) -> None:
    out.say(f"  {words.format(**{key: sanitize(str(value)) for key, value in told.items()})}")
    for reason in reasons:
        out.say(f"    · {sanitize(reason)}")


def _describe_isolation(item: dict[str, Any]) -> str:
    return ", not isolated" if item.get("isolated") is False else ""


def _tell_isolation(out: CommandOutput, release: dict[str, Any]) -> None:
    """Print how many tasks of a release ran without a sandbox."""
    if release["not_isolated"]:
        tasks = format_count(release["not_isolated"], "task")
        out.say(f"    [yellow]![/] {tasks} of the plan not isolated: an agent or a check ran without a sandbox")


def tell_release(out: CommandOutput, plan_id: str, release: dict[str, Any]) -> None:
    """Print the last release of a plan: the decision with its reasons, the shipped files, and each gate."""
    out.say(f"[bold]{sanitize(plan_id)}[/]")
    _tell(out, _RELEASE[release["state"]], release, release["reasons"])
    _tell_isolation(out, release)
    for artifact in release["artifacts"]:
        ships = f"{sanitize(artifact['name'])} of {sanitize(artifact['task_id'])}, {sanitize(artifact['sha256'])}"
        out.say(f"  ships {ships}{_describe_isolation(artifact)}")
    for gate in release["gates"]:
        if "gate" in gate:
            mark = "[green]✓[/]" if gate["decision"] == "PASS" and gate["fresh"] else "[red]✗[/]"
            stale = "" if gate["fresh"] else ", stale"
            detail = f": {sanitize(gate['detail'])}" if gate["detail"] else ""
            decision = f"{gate['decision']} by {sanitize(gate['by'])}{stale}{_describe_isolation(gate)}{detail}"
            out.say(f"  {mark} gate {sanitize(gate['gate'])}: {decision}")


def tell_policies(out: CommandOutput, policies: Policies) -> None:
    """Print the review and release policies of a plan file."""
    review, release = policies.review, policies.release
    if review is not None:
        by = f", {review.coordinator} decides" if review.coordinator else ""
        reviewers = sanitize(", ".join(review.reviewers))
        out.say(f"reviewed first by {reviewers} [dim](at least {review.min_score:g}{sanitize(by)})[/]")
    if release is not None:
        out.say(f"ships {sanitize(', '.join(dict.fromkeys(each.name for each in release.deliverables)))}")
        for name in policies.release_gates_required:
            gate = release.gates.get(name)
            by = "not defined" if gate is None else gate.validator or (gate.check.kind if gate.check else "not defined")
            out.say(f"  gate {sanitize(name)}: {sanitize(by)}")
