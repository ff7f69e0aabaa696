"""Agents that only send work to each other come to an end, at a forge over HTTP with agents that are programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agenttalk.rules.toolchain.triage import MOST_ISSUES
from doors.api.enginekit import until
from engine.toolchain.kits.bench import Bench
from engine.toolchain.kits.forgekit import World, told
from engine.toolchain.test_moot_and_waiting import CALLS, IDLE, REVIEWS_NOT

ROUNDS = 2
SENDS_BACK = f"""{CALLS}
sent = {{"event": "REQUEST_CHANGES", "body": "Not yet.", "commit_id": FACTS["head_sha"]}}
report("Asked for changes: %s" % (forge("POST", "/pulls/%d/reviews" % FACTS["pr_number"], sent),))
print("reviewed")
"""
PUSHES = f"""{CALLS}
data = {{"branch": FACTS["branch"], "message": "Another try", "content": base64.b64encode(task.encode()).decode()}}
report("Pushed: %s" % (forge("POST", "/contents/%s.py" % task.replace("-", "_"), data),))
print("pushed")
"""
DECIDES = f"""{CALLS}
if FACTS.get("escalation"):
    place = "/issues/%d" % FACTS["issue_number"]
    forge("POST", place + "/comments", {{"body": "A person does it next week; nothing is left to do now."}})
    forge("PATCH", place, {{"state": "closed"}})
report("Said how it goes on, and closed it.")
print("decided")
"""
OPENS = f"""{CALLS}
if ACTION == "issue_assigned":
    branch = "try/%s" % task
    data = {{"new_branch": branch, "branch": "main", "message": "Try", "content": base64.b64encode(task.encode()).decode()}}
    forge("POST", "/contents/%s.py" % task.replace("-", "_"), data)
    title = "See to #%d" % FACTS["issue_number"]
    forge("POST", "/pulls", {{"title": title, "body": "Closes #%d" % FACTS["issue_number"], "head": branch, "base": "main"}})
report("Opened a pull request.")
print("opened")
"""


def questions(bench: Bench) -> list[dict[str, Any]]:
    status, found = bench.get("/api/human-requests", bench.operator_token())
    assert status == 200, found
    asked: list[dict[str, Any]] = found["requests"]
    return asked


def at_rest(bench: Bench) -> list[dict[str, Any]] | None:
    """All tasks, when none of them is open."""
    found = bench.tasks()
    return found if found and all(each["closed_at"] for each in found) else None


def escalations(here: World) -> list[Any]:
    return [each for each in here.repository.issues.values() if each.author.login == "root"]


@pytest.mark.mends("E9")
def test_agents_that_always_send_each_other_back_end_with_one_question(tmp_path: Path) -> None:
    more = f"[limits]\nreview_rounds = {ROUNDS}"
    with told(tmp_path, {"dev": PUSHES, "reviewer": SENDS_BACK}, more=more) as (here, bench):
        number = here.pull()
        [asked] = until(lambda: questions(bench), "a person is asked")
        assert "agents have answered each other" in json.dumps(asked)
        tasks = until(lambda: at_rest(bench), "nobody works any more")
        assert [each["status"] for each in tasks] == ["done"] * len(tasks), tasks
        back = [each for each in tasks if each["must_haves"]["action_type"] == "review_result"]
        assert 0 < len(back) <= ROUNDS
        assert len(tasks) <= 2 * ROUNDS + 1
        assert len(questions(bench)) == 1
        warnings = bench.get("/api/toolchain/warnings", bench.operator_token())[1]["warnings"]
        assert [each["code"] for each in warnings] == ["FORGE_HOPS_EXCEEDED"]
        # A person's word begins anew.
        here.review("maintainer", number, "REQUEST_CHANGES", body="Once more, please.")
        until(lambda: len(bench.tasks()) > len(tasks), "the author is called again")


@pytest.mark.rest
@pytest.mark.mends("E9")
def test_a_lead_ends_an_escalation_with_a_comment_and_by_closing_it(tmp_path: Path) -> None:
    with told(tmp_path, {"dev": IDLE, "reviewer": DECIDES}, more='lead = "reviewer"') as (here, bench):
        here.assigned()
        until(lambda: escalations(here), "the lead has an issue")
        tasks = until(lambda: len(bench.tasks()) == 2 and at_rest(bench), "the lead has decided")
        assert {each["assignee"]: each["status"] for each in tasks} == {"dev": "failed", "reviewer": "done"}
        [issue] = escalations(here)
        assert issue.state == "closed"
        assert [each["trust"] for each in tasks if each["assignee"] == "reviewer"] == ["observed"]


@pytest.mark.rest
@pytest.mark.mends("E9")
def test_a_reviewer_that_never_reviews_makes_no_loop_of_issues(tmp_path: Path) -> None:
    with told(tmp_path, {"dev": OPENS, "reviewer": REVIEWS_NOT}, more='lead = "dev"') as (here, bench):
        here.pull(login="maintainer")
        until(lambda: questions(bench), "a person is asked")
        until(lambda: escalations(here), "the lead is told")
        until(lambda: at_rest(bench), "nobody works any more")
        assert len(escalations(here)) <= MOST_ISSUES
