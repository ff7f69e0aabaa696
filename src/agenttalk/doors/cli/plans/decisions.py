"""Prints the decisions about a plan: the review of its DAG, and its release."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from agenttalk.doors.cli.core.output import CommandOutput, sanitize, sanitize_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agenttalk.contracts.plan import Policies
    from agenttalk.engine.people.dispute_rows import OpenDisputeView
    from agenttalk.engine.plans.dag_reviews import DagReviewView
    from agenttalk.engine.plans.releases import ReleaseView
    from agenttalk.engine.views.models.plans import PlanView
    from agenttalk.engine.views.models.tasks import TaskExplanation

_MARKS: Final = {
    "open": "[blue]◆[/]",
    "waits": "[yellow]‖[/]",
    "dropped": "[dim]-[/]",
    "due": "[blue]◆[/]",
    "approved": "[green]✓[/]",
    "rejected": "[bold red]✗[/]",
    "revoked": "[bold red]✗[/]",
}
"""State of a review or release → its mark."""


def tell_decisions(out: CommandOutput, told: PlanView | TaskExplanation) -> None:
    """Print the state of review and release with every reason, if there is one."""
    review, release = told.get("review"), told.get("release")
    if review:
        _tell(out, "review", review, [] if review["state"] == "approved" else review["reasons"])
        if review["state"] == "approved" and review["missing"]:
            out.say(f"    [yellow]![/] {out.text('decisions.without', names=sanitize(', '.join(review['missing'])))}")
    if release:
        _tell(out, "release", release, release["reasons"])
        _tell_isolation(out, release)


def tell_disputes(out: CommandOutput, disputes: Sequence[OpenDisputeView]) -> None:
    """Print the checks that the agent of a task disputes, and what was decided."""
    for dispute in disputes:
        decision, who = out.code("dispute", dispute["state"]), dispute["answered_by"]
        if who:
            decision = out.text("decisions.decided_by", decision=decision, who=sanitize(who))
        names = {"agent": sanitize(dispute["agent_id"]), "check": sanitize(dispute["check"]), "decision": decision}
        words = out.text("decisions.disputes", **names)
        if dispute["note"]:
            words = out.text("decisions.disputes_note", **names, note=sanitize_line(dispute["note"]))
        out.say(f"  [yellow]?[/] {words}")
        out.say(f"      {out.text('decisions.reason', why=sanitize_line(dispute['reason']))}")
        out.say(f"      [cyan]→[/] {sanitize(dispute['moves_on'])}")


def _tell(out: CommandOutput, kind: str, told: DagReviewView | ReleaseView, reasons: Sequence[str]) -> None:
    words = out.text(f"decisions.{kind}.{told['state']}", **{key: sanitize(str(value)) for key, value in told.items()})
    out.say(f"  {_MARKS[told['state']]} {words}")
    for reason in reasons:
        out.say(f"    · {sanitize(reason)}")


def _describe_isolation(item: Mapping[str, Any]) -> str:
    return ", not isolated" if item.get("isolated") is False else ""


def _tell_isolation(out: CommandOutput, release: ReleaseView) -> None:
    """Print how many tasks of a release ran without a sandbox."""
    if release["not_isolated"]:
        tasks = out.count(release["not_isolated"], "task")
        out.say(f"    [yellow]![/] {out.text('decisions.not_isolated', tasks=tasks)}")


def tell_release(out: CommandOutput, plan_id: str, release: ReleaseView) -> None:
    """Print the last release of a plan: the decision with its reasons, the shipped files, and each gate."""
    out.say(f"[bold]{sanitize(plan_id)}[/]")
    _tell(out, "release", release, release["reasons"])
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
