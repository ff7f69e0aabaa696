"""Tasks that others made moot, or that have to wait for others, at a forge over HTTP with agents that are programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from doors.api.enginekit import until
from engine.toolchain.kits.bench import REPORTS, Bench
from engine.toolchain.kits.forgekit import World, told

CALLS = f"""{REPORTS}
import base64
shown = ask("GET", "")[1]
FACTS = shown["must_haves"]["context"]
ACTION = shown["must_haves"]["action_type"]
FORGE = os.environ["FORGE_URL"] + "/api/v1/repos/" + FACTS["repo"]
TOKEN = os.environ.get("DEV_TOKEN") or os.environ.get("REVIEWER_TOKEN")

def forge(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {{"Authorization": "token " + TOKEN, "Content-Type": "application/json"}}
    request = urllib.request.Request(FORGE + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
"""
MERGES = f"""{CALLS}
if ACTION == "review_result":
    sent = {{"Do": "merge", "head_commit_id": FACTS["head_sha"], "merge_when_checks_succeed": True}}
    report("Asked for the merge: %s" % (forge("POST", "/pulls/%d/merge" % FACTS["pr_number"], sent),))
else:
    report("Did what there was to do.")
print("did it")
"""
IDLE = f"{CALLS}\nreport('There was nothing left to do for me here.')\nprint('did it')\n"
REVIEWS_NOT = f"{CALLS}\nreport('Looked at it for a while.')\nprint('looked')\n"
CLOSES = f"""{CALLS}
if ACTION == "issue_assigned":
    forge("PATCH", "/issues/%d" % FACTS["issue_number"], {{"state": "closed"}})
report("Closed it: nothing to do.")
print("closed")
"""


def of(bench: Bench, action: str) -> list[dict[str, Any]]:
    return [each for each in bench.tasks() if each["must_haves"]["action_type"] == action]


def awaiting(bench: Bench, action: str) -> dict[str, Any] | None:
    return next((each for each in of(bench, action) if each["phase"] == "awaiting"), None)


def turns(bench: Bench, task: dict[str, Any]) -> int:
    status, shown = bench.get(f"/api/projects/_toolchain/tasks/{task['id']}", bench.operator_token())
    assert status == 200, shown
    return int(shown["attempt"])


def quiet(here: World) -> None:
    """Nobody was told at the forge that something was not done."""
    said = [each.body for each in here.repository.comments if each.author.login == "root"]
    assert [each for each in said if each.startswith("@agent-dev")] == []
    assert [each.title for each in here.repository.issues.values() if each.author.login == "root"] == []


def approved(here: World) -> int:
    number = here.pull()
    here.review("maintainer", number, "APPROVED")
    return number


@pytest.mark.mends("E5")
def test_a_merge_that_needs_another_approval_waits_without_turns_and_the_agent_does_other_work(tmp_path: Path) -> None:
    with told(tmp_path, {"dev": MERGES, "reviewer": IDLE}) as (here, bench):
        here.repository.approvals = 2
        number = approved(here)
        waits = until(lambda: awaiting(bench, "review_result"), "the merge waits")
        assert "has 1 of the 2 approvals" in waits["reason"]
        assert turns(bench, waits) == 1
        # Its agent is free meanwhile.
        issue = here.assigned("Another one")
        until(lambda: [each for each in of(bench, "issue_assigned") if turns(bench, each)], "the agent does other work")
        assert here.repository.issues[issue].state == "open"
        here.review("agent-reviewer", number, "APPROVED")
        until(lambda: here.repository.pulls[number].merged, "the second approval has it merged")
        # The second approval calls for the merge again. That task is withdrawn if the first one merges before it begins.
        ended = until(
            lambda: all(each["closed_at"] for each in of(bench, "review_result")) and of(bench, "review_result"),
            "both have ended",
        )
        assert {each["status"] for each in ended} <= {"done", "withdrawn"}, ended
        [first] = [each for each in ended if each["id"] == waits["id"]]
        assert {each["trust"] for each in (first, *ended) if each["status"] == "done"} == {"observed"}
        assert first["status"] == "done"
        assert turns(bench, waits) == 1


@pytest.mark.rest
@pytest.mark.mends("E5")
def test_a_merge_that_is_scheduled_is_done_when_the_checks_are_green(tmp_path: Path) -> None:
    with told(tmp_path, {"dev": MERGES, "reviewer": IDLE}) as (here, bench):
        here.repository.needs_checks = True
        number = here.pull()
        sha = here.head(number)
        status = {"state": "pending", "context": "ci / test (pull_request)"}
        here.do(here.forge.state.pulls.set_status, here.repository, here.user("root"), sha, status)
        here.review("maintainer", number, "APPROVED")
        waits = until(lambda: awaiting(bench, "review_result"), "the merge waits")
        assert "waits for" in waits["reason"]
        here.do(
            here.forge.state.pulls.set_status, here.repository, here.user("root"), sha, {**status, "state": "success"}
        )
        [done] = until(
            lambda: all(each["status"] == "done" for each in of(bench, "review_result")) and of(bench, "review_result"),
            "it is merged",
        )
        assert turns(bench, done) == 1
        quiet(here)


@pytest.mark.rest_but("green", "issue closed")
@pytest.mark.mends("E5", "E2")
@pytest.mark.parametrize(
    "how", ["merged", "closed", "green", "unassigned", "issue closed", "issue deleted", "call deleted", "all deleted"]
)
def test_a_task_that_others_made_moot_while_its_agent_worked_is_closed_with_the_reason(
    tmp_path: Path, how: str
) -> None:
    gate = tmp_path / "go"
    works = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.05)\n{IDLE}"
    actions = {"merged": "review_result", "closed": "review_result", "green": "ci_failure", "call deleted": "mention"}
    action = actions.get(how, "issue_assigned")
    with told(tmp_path, {"dev": works, "reviewer": IDLE}) as (here, bench):
        state, somebody = here.forge.state, here.user("maintainer")
        if action == "issue_assigned":
            number = here.assigned()
        elif action == "mention":  # of a deleted issue the forge answers 500 when its comments are asked for
            number = here.assigned(login="maintainer")
            here.do(
                state.issues.create_comment, here.repository, somebody, number, "@agent-dev please say when we open"
            )
        else:
            number = here.pull()
            red = {"state": "failure", "context": "ci / test (pull_request)"}
            if action == "ci_failure":
                here.do(state.pulls.set_status, here.repository, here.user("root"), here.head(number), red)
            else:
                here.review("maintainer", number, "APPROVED")
        until(lambda: [each for each in of(bench, action) if each["status"] == "working"], "the agent works")
        if how == "merged":
            here.do(state.pulls.merge, here.repository, somebody, number, "")
        elif how in {"closed", "issue closed"}:
            here.do(state.issues.edit_issue, here.repository, somebody, number, {"state": "closed"})
        elif how == "green":
            good = {"state": "success", "context": "ci / test (pull_request)"}
            here.do(state.pulls.set_status, here.repository, here.user("root"), here.head(number), good)
        elif how == "unassigned":
            here.do(state.issues.edit_issue, here.repository, somebody, number, {"assignees": []})
        elif how in {"issue deleted", "call deleted"}:
            here.do(state.issues.delete_issue, here.repository, here.user("root"), number)
        else:
            here.do(state.delete_repository, here.repository, here.user("root"))
        gate.touch()
        [task] = until(lambda: [each for each in of(bench, action) if each["closed_at"]], "the task is closed")
        assert task["status"] == "withdrawn", task
        assert task["closed_why"]
        assert turns(bench, task) == 1
        if how != "all deleted":
            quiet(here)


@pytest.mark.rest_but("deleted")
@pytest.mark.mends("E2")
@pytest.mark.parametrize("answer", ["deleted", "access given"])
def test_a_person_says_whether_a_repository_that_is_not_shown_any_more_was_deleted(tmp_path: Path, answer: str) -> None:
    gate = tmp_path / "go"
    works = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.05)\n{IDLE}"
    with told(tmp_path, {"dev": works, "reviewer": IDLE}, patience=60) as (here, bench):
        numbers = [here.assigned(), here.assigned("Another one")]
        until(lambda: [each for each in bench.tasks() if each["status"] == "working"], "the agent works")
        until(lambda: len(bench.tasks()) == 2, "both are known")
        name, known = here.repository.full_name, here.forge.state.repositories
        hidden = here.do(known.pop, name)  # and nobody is told
        gate.touch()
        until(lambda: all(each["phase"] == "awaiting" for each in bench.tasks()), "both wait, and hold nobody")
        [asked] = until(bench.asked, "a person is asked once")
        decision = asked["needed"]["decision"]
        assert [each["key"] for each in decision["options"]] == ["access given", "deleted"]
        assert "give the account of the source's token read access" in decision["question"]
        assert "If it was deleted, answer 'deleted'" in decision["question"]
        if answer == "access given":
            here.do(known.update, {name: hidden})
        bench.answer(asked["request_id"], answer)
        if answer == "access given":
            for number in numbers:
                here.do(
                    here.forge.state.issues.edit_issue, hidden, here.user("maintainer"), number, {"state": "closed"}
                )
        ended = until(
            lambda: all(each["closed_at"] for each in bench.tasks()) and bench.tasks(), "the tasks are closed"
        )
        assert {each["status"] for each in ended} == {"withdrawn"}
        assert {"deleted" in each["closed_why"] for each in ended} == {answer == "deleted"}, ended
        assert [turns(bench, each) for each in ended] == [1, 1]


@pytest.mark.rest
@pytest.mark.mends("E5")
def test_an_agent_does_not_make_its_own_task_moot(tmp_path: Path) -> None:
    with told(tmp_path, {"dev": CLOSES, "reviewer": IDLE}) as (here, bench):
        here.assigned()
        [task] = until(lambda: [each for each in of(bench, "issue_assigned") if each["closed_at"]], "it has ended")
        assert task["status"] == "failed", task


@pytest.mark.rest
@pytest.mark.mends("E5")
def test_a_conflict_is_a_task_of_the_author_and_no_failure_of_the_merge(tmp_path: Path) -> None:
    with told(tmp_path, {"dev": MERGES, "reviewer": IDLE}) as (here, bench):
        number = here.pull()
        here.do(here.forge.push, "acme/widgets", "main", {"feat_x.py": "x = 2\n"}, "maintainer")
        here.review("maintainer", number, "APPROVED")
        [task] = until(lambda: of(bench, "merge_conflict"), "the author is told of the conflict")
        assert task["assignee"] == "dev"
        [merge] = until(lambda: [each for each in of(bench, "review_result") if each["closed_at"]], "the merge is over")
        assert (merge["status"], turns(bench, merge)) == ("withdrawn", 1)
        assert "conflicts with main" in merge["closed_why"]
