"""Webhooks through the real door: stored, decided about, carried out by agents, and ended by the one way to done."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import preloaded
from adapters.forge.test_webhooks import NAMES, sample
from doors.api.enginekit import agenttalk, until
from engine.toolchain.kits.bench import DOES_IT, REPORTS, WAITS, Bench, served, signed, written

TRIES_TO_SET_STATES = f"""{REPORTS}
found = [ask(method, path, {{"state": "COMPLETED", "status": "done"}})[0] for method, path in [
    ("PATCH", ""), ("PUT", ""), ("DELETE", ""), ("POST", "/state"), ("POST", "/status"), ("POST", "/done")]]
strange = ask("POST", "/comments", {{"author": "agent-reviewer", "comment_type": "done", "body": "done"}})[0]
other = report("in the name of somebody else, which is long", author="agent-lead")[0]
report(json.dumps([found, strange, other]), kind="general")
report("Step 1: done.")
"""
SAYS_NOTHING = f"{REPORTS}\nprint('all good')\n"
SECOND_TIME = f"""{REPORTS}
if os.environ["AGENTTALK_COMMAND"] and "_002" in os.environ["AGENTTALK_COMMAND_ID"]:
    assert os.path.exists(os.environ["AGENTTALK_FEEDBACK"]), "what was missing is told"
    report("Step 1: done this time.")
"""
KEEPS_PROMPT = f"""{REPORTS}
report(prompt, kind="general")
report("Step 1: done.")
"""


@pytest.mark.rest_but("gitea")
@pytest.mark.shows("T01", "T02", "T03", "T15", "T23")
@pytest.mark.parametrize("kind", ["gitea", "forgejo", "github"])
def test_every_sample_becomes_its_task_once_and_is_carried_out(tmp_path: Path, kind: str) -> None:
    for name in [each for each in NAMES if each.startswith(kind)]:
        data = sample(name)
        root = written(tmp_path / name.replace("/", "-"), {})
        with served(root) as bench:
            for before in data["before"]:
                bench.told(f"{kind}/{before}")
            for _ in range(2):
                bench.told(name)
            tasks = bench.settled()
        wanted = sorted(tuple(each) for each in data["expected"])
        live = [each for each in tasks if each["status"] != "withdrawn"]
        assert sorted((each["must_haves"]["action_type"], each["assignee"]) for each in live) == wanted, name
        assert {each["status"] for each in live} == {"done"}, (name, tasks)
        assert {each["trust"] for each in live if each["must_haves"]["steps"]} <= {"claimed"}, "no forge was asked"
        for each in live:
            assert set(each["must_haves"]) == {"event_type", "action_type", "steps", "context", "from", "source"}
            assert each["id"].startswith("tc-")
        assert (root / "data" / "_toolchain" / "blackboard.db").is_file()
        assert not (root / "data" / "_mail").exists()


def task_of(bench: Bench, task_id: str) -> dict[str, Any]:
    status, found = bench.get(f"/api/projects/_toolchain/tasks/{task_id}", bench.operator_token())
    assert status == 200, found
    return found


@pytest.mark.shows("T07", "T10")
def test_no_agent_sets_a_state_or_speaks_for_another(tmp_path: Path) -> None:
    with served(written(tmp_path / "root", {"agent-reviewer": TRIES_TO_SET_STATES})) as bench:
        bench.told("gitea/review_request")
        [task] = bench.settled()
        said = task_of(bench, task["id"])["comments"]
        body = json.dumps({"state": "COMPLETED"}).encode()
        headers = {"Authorization": f"Bearer {bench.operator_token()}"}
        by_operator = bench.post(f"/api/projects/_toolchain/tasks/{task['id']}/state", body, headers)
    found, strange, other = json.loads(said[0]["body"])
    assert found == [403] * 6
    assert strange == 422, "a type of comment that there is not"
    assert other == 403
    assert by_operator[0] == 403
    assert task["status"] == "done"


@pytest.mark.rest
@pytest.mark.shows("T10")
def test_a_turn_without_a_trace_is_sent_back_and_fails_in_the_end(tmp_path: Path) -> None:
    with served(written(tmp_path / "root", {"agent-reviewer": SAYS_NOTHING})) as bench:
        bench.told("gitea/review_request")
        [task] = bench.settled()
        found = task_of(bench, task["id"])
    assert task["status"] == "failed"
    assert found["rounds"] == 2
    assert "has_action_report" in task["closed_why"]


def test_what_was_missing_is_told_and_can_be_made_up_for(tmp_path: Path) -> None:
    with served(written(tmp_path / "root", {"agent-reviewer": SECOND_TIME})) as bench:
        bench.told("gitea/review_request")
        [task] = bench.settled()
        found = task_of(bench, task["id"])
    assert (task["status"], found["rounds"]) == ("done", 1)


@pytest.mark.rest
@pytest.mark.shows("T04", "T05", "T06", "T17")
@pytest.mark.parametrize(
    ("locale", "words"), [("en", "This is work to carry out, not a notice"), ("zh", "这是必须执行的工作")]
)
def test_the_agent_is_told_the_steps_and_where_to_report(tmp_path: Path, locale: str, words: str) -> None:
    with served(written(tmp_path / "root", {"agent-reviewer": KEEPS_PROMPT}, locale=locale)) as bench:
        bench.told("gitea/review_request")
        [task] = bench.settled()
        prompt = task_of(bench, task["id"])["comments"][0]["body"]
    assert words in prompt
    for number, step in enumerate(task["must_haves"]["steps"], 1):
        assert f"{number}. {step}" in prompt
    assert f"$AGENTTALK_API/api/projects/_toolchain/tasks/{task['id']}/comments" in prompt
    assert f"{bench.url}/api/projects/_toolchain/tasks/{task['id']}/comments" in prompt, "in the steps"
    assert '"comment_type": "action_report"' in prompt


@pytest.mark.shows("T09")
def test_a_notice_is_delivered_and_done_without_a_run(tmp_path: Path) -> None:
    with served(written(tmp_path / "root", {"agent-dev": WAITS})) as bench:
        bench.told("gitea/review_merged")
        [task] = [each for each in bench.tasks() if each["must_haves"]["action_type"] == "review_merged"]
        found = task_of(bench, task["id"])
    assert (task["status"], task["closed_why"]) == ("done", "observed")
    assert (found["epoch"], found["attempt"]) == (0, 0), "nobody ran it"


@pytest.mark.shows("T14")
def test_an_account_that_is_nobodys_gets_no_task_and_the_operator_is_told(tmp_path: Path) -> None:
    root = written(tmp_path / "root", {})
    settings = (root / "agenttalk.toml").read_text().replace('login = "agent-reviewer"', 'login = "somebody-else"')
    (root / "agenttalk.toml").write_text(settings)
    with served(root) as bench:
        for _ in range(2):
            assert bench.told("gitea/review_request")["outcome"] == "1 warnings"
        assert bench.tasks() == []
        shown = agenttalk("toolchain", "tasks", "--root", str(root))
        status = agenttalk("status", "--root", str(root), "--json")
    assert "agent-reviewer" in shown.stdout
    assert "2 times" in " ".join(shown.stdout.split())
    assert "agent-reviewer" in json.dumps(json.loads(status.stdout))
    assert list((root / "system_runtime" / "alerts" / "_toolchain").glob("*.json"))


@pytest.mark.shows("T16")
def test_the_dispatcher_wakes_by_itself_for_tasks_that_were_there_before_it(tmp_path: Path) -> None:
    root = written(tmp_path / "root", {"agent-reviewer": WAITS})
    with served(root) as bench:
        bench.told("gitea/review_request")
        until(lambda: bench.tasks()[0]["status"] == "working", "it runs")
    (root / "agents" / "agent-reviewer" / "work.py").write_text(DOES_IT)
    with served(root) as bench:
        [task] = bench.settled()
    assert task["status"] == "done"


@pytest.mark.rest
def test_a_request_by_name_takes_the_place_of_the_default_reviewer(tmp_path: Path) -> None:
    body = sample("gitea/review_request")["body"]
    body["pull_request"]["requested_reviewers"] = []
    opened = json.dumps(body).encode()
    body["pull_request"]["requested_reviewers"] = [{"id": 15, "login": "agent-second", "username": "agent-second"}]
    body |= {"action": "review_requested", "requested_reviewer": body["pull_request"]["requested_reviewers"][0]}
    asked = json.dumps(body).encode()
    other = {"X-Gitea-Event-Type": "pull_request_review_request", "X-Gitea-Delivery": "other"}
    busy = {"agent-reviewer": WAITS, "agent-second": DOES_IT}
    with served(written(tmp_path / "root", busy)) as bench:
        bench.told("gitea/mention", body=mention_of("agent-reviewer"), headers=None)
        until(lambda: bench.tasks()[0]["status"] == "working", "the default reviewer is busy")
        bench.told("gitea/review_request", body=opened)
        bench.told("gitea/review_request", body=asked, headers=signed("gitea", asked) | other)
        tasks = until(lambda: found if (found := bench.tasks())[-1]["status"] == "done" else None, "it is reviewed")
    reviews = [(each["assignee"], each["status"]) for each in tasks if "review" in each["must_haves"]["action_type"]]
    assert reviews == [("agent-reviewer", "withdrawn"), ("agent-second", "done")]
    assert {each["closed_why"] for each in tasks if each["status"] == "withdrawn"} == {"another task takes its place"}


def mention_of(login: str) -> bytes:
    body = sample("gitea/mention")["body"]
    body["comment"] |= {"body": f"@{login} please have a look", "id": 4711}
    return json.dumps(body).encode()


@pytest.mark.rest
@pytest.mark.shows("T03", "T23")
def test_a_pipeline_without_a_webhook_reports(tmp_path: Path) -> None:
    result = {
        "kind": "deploy",
        "repository": "acme/widgets",
        "sha": "a" * 40,
        "outcome": "failure",
        "name": "production",
    }
    with served(written(tmp_path / "root", {})) as bench:
        headers = {"Authorization": f"Bearer {bench.operator_token()}"}
        body = json.dumps({"schema_version": "1.0", **result}).encode()
        assert bench.post("/api/toolchain/events?source=gitea", body, {})[0] == 401
        assert bench.post("/api/toolchain/events", body, headers)[0] == 422, "there are three sources"

        def report(**changes: str) -> list[dict[str, Any]]:
            told = json.dumps({"schema_version": "1.0", **result, **changes}).encode()
            status, answer = bench.post("/api/toolchain/events?source=gitea", told, headers)
            assert status == 202, answer
            bench.decided(answer["id"])
            return bench.settled()

        headers["Idempotency-Key"] = "run 17"
        for _ in range(2):
            [task] = report()
        del headers["Idempotency-Key"]
        assert len(report(name="staging")) == 2, "another place, another task"
        assert len(report(outcome="success")) == 2
        again = report()
        assert len(again) == 3, "what fails once more after its task was done is no old news"
    for task in again:
        assert task["must_haves"]["action_type"] == "deploy_failure"
        assert (task["assignee"], task["status"]) == ("agent-ops", "done")


@pytest.mark.rest
def test_tasks_are_listed_filtered_and_page_by_page(tmp_path: Path) -> None:
    with served(written(tmp_path / "root", {})) as bench:
        for number in range(1, 8):
            body = sample("gitea/issue_assigned")["body"]
            body["issue"]["number"] = number
            bench.told("gitea/issue_assigned", body=json.dumps(body).encode())
        assert len(bench.settled()) == 7
        token = bench.operator_token()
        _, first = bench.get("/api/toolchain/tasks?limit=3", token)
        _, second = bench.get(f"/api/toolchain/tasks?limit=3&after={first['next']}", token)
        assert [len(first["tasks"]), len(second["tasks"])] == [3, 3]
        assert len({each["id"] for each in first["tasks"] + second["tasks"]}) == 6
        assert bench.tasks("&status=open") == []
        assert len(bench.tasks("&status=done&assignee=agent-dev")) == 7
        assert bench.tasks("&assignee=agent-ops") == []
        assert bench.get("/api/toolchain/tasks?colour=red", token)[0] == 422
        listed = bench.listed("--status", "done")
    assert [set(each) >= {"id", "title", "assignee", "status", "must_haves"} for each in listed] == [True] * 7


def test_the_board_can_be_paused_but_never_cancelled(tmp_path: Path) -> None:
    root = written(tmp_path / "root", {})
    with served(root) as bench:
        bench.told("gitea/issue_assigned")
        bench.settled()
        refused = agenttalk("cancel", "_toolchain", "--root", str(root))
        assert agenttalk("pause", "_toolchain", "--root", str(root)).returncode == 0
        bench.told("gitea/review_request")
        assert bench.tasks()[-1]["status"] == "pending"
        assert agenttalk("resume", "_toolchain", "--root", str(root)).returncode == 0
        assert {each["status"] for each in bench.settled()} == {"done"}
    assert refused.returncode == 2
    assert "never ends" in refused.stderr
    assert agenttalk("fsck", "--root", str(root)).returncode == 0
    assert agenttalk("audit", "verify", "--root", str(root)).returncode == 0


def test_a_sample_can_be_sent_to_see_that_everything_works(tmp_path: Path) -> None:
    root = written(tmp_path / "root", {})
    with served(root):
        found = agenttalk("webhook", "test", "github", "--root", str(root), "--json")
        unknown = agenttalk("webhook", "test", "gitlab", "--root", str(root))
    assert found.returncode == 0, found.stdout + found.stderr
    assert json.loads(found.stdout)["state"] == "ignored"
    assert unknown.returncode == 2
    alone = agenttalk("webhook", "test", "github", "--root", str(root))
    assert alone.returncode == 1


def test_people_report_and_hand_in_from_the_command_line(tmp_path: Path) -> None:
    program = f"""{REPORTS}
import subprocess
for what, text in (("report", "Step 1: done."), ("output", "the log")):
    subprocess.run([{preloaded.program()!r}, what, task, text], check=True, stdout=sys.stderr)
"""
    root = written(tmp_path / "root", {"agent-reviewer": program})
    with served(root) as bench:
        bench.told("gitea/review_request")
        [task] = bench.settled()
        said = agenttalk("report", task["id"], "Seen, and fine.", "--type", "general", "--root", str(root))
        found = task_of(bench, task["id"])
    assert said.returncode == 0, said.stderr
    assert task["status"] == "done"
    assert [(each["author"], each["type"]) for each in found["comments"]] == [
        ("agent-reviewer", "action_report"), ("operator", "general"),
    ]  # fmt: skip
    assert [each["body"] for each in found["outputs"]] == ["the log"]
