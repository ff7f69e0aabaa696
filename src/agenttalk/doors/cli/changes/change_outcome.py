"""Tells how a run of an agent on a repository ended, with the evidence and the command to type next."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final, Literal

from agenttalk.adapters.workspaces.user_branch import LandingRefusal, LandingResult
from agenttalk.contracts.errors import AgentTalkError
from agenttalk.doors.cli.core import root_access
from agenttalk.doors.cli.core.output import CommandOutput, sanitize, sanitize_line, summarize_lines, tell_check_output
from agenttalk.doors.cli.plans import code
from agenttalk.doors.cli.plans.live_view import describe_usage, join_clauses, shorten_refusal
from agenttalk.rules.changes.change_plan import CHECK
from agenttalk.rules.text import check_words, cli_words
from agenttalk.rules.text.message import join

if TYPE_CHECKING:
    from agenttalk.adapters.workspaces.user_folder import BranchWork
    from agenttalk.doors.cli.changes.prepared_change import PreparedChange
    from agenttalk.doors.cli.changes.pull_request_target import PullRequestTarget
    from agenttalk.doors.cli.plans.watched_plan import WatchedPlan
    from agenttalk.engine.people.dispute_rows import OpenDisputeView
    from agenttalk.engine.views.models.attempts import CheckView

ChangeResult = Literal["proven", "not proven", "green", "unable", "waiting", "interrupted"]
CODES: Final[dict[ChangeResult, int]] = {
    "proven": 0,
    "not proven": 1,
    "green": 2,
    "unable": 2,
    "waiting": 3,
    "interrupted": 130,
}
"""Result → exit code. `green`: the check succeeds before the work; `unable`: it cannot run there."""
EXIT_WAITING: Final = 3
_OPTIONS: Final = {
    "workspace.prepare": "--prepare",
    "workspace.link": "--link",
    "write made_by_work: true": "pass --allow-tests",
    "写 made_by_work: true": "加上 --allow-tests",
}
"""What a plan file says → the option that says it here."""


class ChangeOutcome:
    """The end of a run."""

    def __init__(self, out: CommandOutput, prepared: PreparedChange, standing: WatchedPlan, seconds: float) -> None:
        """`seconds` is how long the whole run took, with its checks."""
        self._out = out
        self._seconds = seconds
        self._prepared = prepared
        self._standing = standing
        self._task = standing["tasks"][0]
        self._disputes: list[OpenDisputeView] = []
        self._merge: LandingResult | LandingRefusal | None = None
        self.result = self._find_result()
        self._work = self._read_work()
        self._address = ""
        """Where the pull request is."""
        self._fault: AgentTalkError | None = None
        """Why no pull request was opened."""
        if self.result == "waiting" and not self._disputes:
            self._disputes = self._read_disputes()

    def _find_result(self) -> ChangeResult:
        result = self._standing["result"]
        if result == "done":
            return "proven" if self._task.get("proven") is True else "not proven"
        reason = self._task["reason"] or ""
        # A running engine answers with the English text alone, so this compares whole sentences of the catalogue.
        if check_words.GREEN_BEFORE(id=CHECK) in reason:
            return "green"
        if check_words.CANNOT_RUN_BEFORE(id=CHECK, why="") in reason:
            return "unable"
        if result == "running":
            return "waiting" if self._standing["questions"] else "interrupted"
        if result in {"waiting", "paused"}:
            return "waiting"
        self._disputes = self._read_disputes()
        return "waiting" if self._disputes else "not proven"

    def _read_disputes(self) -> list[OpenDisputeView]:
        """Read the open disputes of the check by the agent."""
        plan, task, root = self._prepared.plan_id, self._task["task_id"], self._prepared.root
        if not self._standing["questions"]:
            return []
        explained = root_access.ask_root(
            root, f"/api/plans/{plan}/tasks/{task}/explanation", lambda local: local.plans.explain_task(plan, task)
        )
        return [dispute for dispute in explained["disputes"] if dispute["state"] == "open"]

    def tell(self) -> int:
        """Merge the work if that is wanted, print the end, and return the exit code."""
        prepared = self._prepared
        if self._work is not None and prepared.options.merge:
            self._merge = code.land_plan(prepared.root, prepared.plan_id, commit=self._work.commit)
        if self._work is not None and prepared.target is not None:
            self._open_pull_request(prepared.target)
        if self._out.as_json:
            self._out.write_json(self._as_json())
        else:
            self._say()
        left = isinstance(self._merge, LandingRefusal) or self._fault is not None
        return EXIT_WAITING if left else CODES[self.result]

    def _open_pull_request(self, target: PullRequestTarget) -> None:
        """Open the pull request. Work that is proven stays proven when that fails, and a person goes on."""
        prepared = self._prepared
        title = prepared.compiled.manifest.plan_name or prepared.plan_id
        proof = "A person found it good."
        if prepared.check.candidate is not None:
            before = "" if prepared.options.already_green else "failed before this change and "
            proof = f"`{prepared.check.text}` {before}succeeds with it. AgentTalk ran it itself, in a sealed checkout."
        agent, rounds = prepared.agent.agent or prepared.agent.program, self._task["rounds"] + 1
        lines = [proof, "", f"Agent: {agent}, {rounds} of {prepared.options.limits.rounds} rounds."]
        try:
            self._address = target.open(prepared.branch, title, "\n".join(lines))
        except AgentTalkError as error:
            self._fault = error

    def _as_json(self) -> dict[str, object]:
        prepared, work = self._prepared, self._work
        return {
            "ok": self.result == "proven",
            "result": self.result,
            "reason": self._reason(),
            "plan_id": prepared.plan_id,
            "root": str(prepared.root),
            "branch": prepared.branch if work else None,
            "commit": work.commit if work else None,
            "changed_lines": work.lines if work else None,
            "check": prepared.check.text,
            "agent": prepared.agent.agent or prepared.agent.program,
            "rounds": self._task["rounds"] + 1,
            "links": list(prepared.links),
            "usage": self._standing.get("usage"),
            **self._merge_json(),
            **self._pull_request_json(),
        }

    def _pull_request_json(self) -> dict[str, object]:
        if self._fault is not None:
            return {"pull_request": {"ok": False, "why": self._fault.message}}
        return {"pull_request": {"ok": True, "url": self._address}} if self._address else {}

    def _merge_json(self) -> dict[str, object]:
        match self._merge:
            case LandingResult():
                return {"merge": {"ok": True, "commit": self._merge.commit, "how": self._merge.how}}
            case LandingRefusal():
                return {"merge": {"ok": False, "why": self._merge.why, "paths": list(self._merge.paths)}}
        return {}

    def _reason(self) -> str | None:
        disputes = [cli_words.CHANGE["disputes"](why=dispute["reason"]) for dispute in self._disputes]
        return join(disputes) if disputes else self._task["reason"]

    @property
    def _checks(self) -> list[CheckView]:
        """What the engine checked at the end of the last turn; empty if that was not read."""
        explained = self._standing.get("explained", {}).get(self._task["task_id"])
        attempts = explained["attempts"] if explained is not None else []
        return list(attempts[-1].get("checks", ())) if attempts else []

    def _say_evidence(self) -> None:
        """Print what the proof rests on."""
        out = self._out
        for check in self._checks:
            where = out.text("change_run.sealed")
            if not check.get("isolated"):
                where = f"[yellow]{out.text('remark.not_isolated')}[/]"
            now = sanitize_line(out.translate(check.get("detail") or cli_words.CHANGE["succeeds"]()))[:160]
            key = "shown_green" if self._prepared.options.already_green else "shown"
            out.say(f"  [dim]{out.text(f'change_run.{key}', where=where, now=now)}[/]")

    def _read_work(self) -> BranchWork | None:
        from agenttalk.adapters.workspaces.user_folder import read_work

        return read_work(self._prepared.repository.top, self._prepared.branch) if self.result == "proven" else None

    def _say_merged(self) -> None:
        out, say, prepared = self._out, self._out.say, self._prepared
        if self._address:
            say(f"  {out.text('change_run.pull_request', address=sanitize(self._address))}")
            return
        if self._fault is not None:
            why = sanitize(out.translate(self._fault.message))
            say(f"  [yellow]‖[/] {out.text('change_run.no_pull_request', why=why)}")
            if self._fault.hint:
                say(f"  [cyan]→[/] {sanitize(out.translate(self._fault.hint))}")
            return
        match self._merge:
            case LandingResult():
                branch, commit = sanitize(prepared.repository.branch), self._merge.commit[:12]
                say(f"  {out.text('change_run.merged', branch=branch, commit=commit)}")
            case LandingRefusal():
                paths = "".join(f" {sanitize_line(path)}" for path in self._merge.paths[:5])
                why = sanitize(out.translate(self._merge.why))
                say(f"  [yellow]‖[/] {out.text('change_run.not_merged', why=why, paths=paths)}")
                say(f"  [cyan]→[/] {self._describe_merge()}")
            case None:
                say(f"  [cyan]→[/] {self._describe_merge()}")

    def _describe_merge(self) -> str:
        """Describe the command that brings the work into the user's folder.

        Git refuses to merge over uncommitted files, and the branch begins with them: the work alone is applied.
        """
        repository, branch = self._prepared.repository, sanitize(self._prepared.branch)
        if not repository.uncommitted:
            return f"git merge {branch}"
        top = f"-C {'/'.join('..' for _ in repository.inside.split('/'))} " if repository.inside else ""
        return f"git show --binary {branch} | git {top}apply"

    def _say(self) -> None:
        out, say, prepared = self._out, self._out.say, self._prepared
        check = f"[bold]{sanitize(prepared.check.text)}[/]"
        usage = self._standing["usage"]
        took = describe_usage(out, {**usage, "duration_s": self._seconds} if usage else {"duration_s": self._seconds})
        rounds = out.text("remark.round_of", number=self._task["rounds"] + 1, most=prepared.options.limits.rounds)
        summary = join_clauses(out, rounds, took)
        reason = summarize_lines(shorten_refusal(out, self._reason() or cli_words.CHANGE["question"]()), 600)
        root = sanitize(shlex.quote(str(prepared.root)))
        task = f"{prepared.plan_id}/{self._task['task_id']}"
        match self.result:
            case "proven":
                say(f"[green]✓[/] {out.text('change_run.proven', check=check, summary=summary)}")
                self._say_evidence()
                if work := self._work:
                    say(f"  {sanitize(prepared.branch)} {work.commit[:12]}: {sanitize(work.summary)}")
                self._say_merged()
            case "green":
                say(f"[yellow]![/] {out.text('change_run.green')}", err=True)
                say(f"  [cyan]→[/] {out.text('change_run.green_hint')}", err=True)
            case "unable":
                for key, option in _OPTIONS.items():
                    reason = reason.replace(key, option)
                say(f"[bold red]✗[/] {reason}", err=True)
            case "waiting":
                say(f"[yellow]‖[/] {out.text('change_run.waiting', why=reason, summary=summary)}")
                say(f"  [cyan]→[/] {out.text('change_run.waiting_hint', root=root)}")
            case "interrupted":
                say(f"[yellow]![/] {out.text('change_run.interrupted')}")
            case _:
                say(f"[bold red]✗[/] {out.text('change_run.not_proven', check=check, summary=summary)}")
                say(f"  {reason}")
                for check_result in self._checks:
                    if not check_result["passed"] and check_result.get("output"):
                        tell_check_output(self._out, check_result["output"], "  ")
                say(f"  [cyan]→[/] agenttalk explain {sanitize(task)} --root {root}")
