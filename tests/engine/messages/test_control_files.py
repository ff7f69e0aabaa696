"""Control files: receipts, states, decisions, questions and answers are collected and archived, never routed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from agenttalk.contracts.errors import UsageError
from agenttalk.contracts.human import HumanInterventionRequest
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.messages.router import Router
from agenttalk.engine.people import questions
from agenttalk.ports.statements.messages import DELIVERY_OF
from kits.routerkit import Route, alerts, asked, buried, counts, inside, sound, statuses
from kits.treekit import Tree, dumped, node, output, sha256

AT = "2026-01-08T10:30:00Z"
LATER = "2026-01-08T11:30:00Z"
GATEWAY = "agent_human_gateway"


def receipt(message_id: str, status: str = "CONSUMED", agent: str = "dev", **more: Any) -> dict[str, Any]:
    return {
        "plan_id": "plan_shop",
        "message_id": message_id,
        "task_id": "build",
        "consumer_agent_id": agent,
        "status": status,
        "consumed_at": AT,
        **more,
    }


def state(value: str = "RUNNING", at: str = AT, agent: str = "dev", **more: Any) -> dict[str, Any]:
    return {
        "plan_id": "plan_shop",
        "task_id": "build",
        "agent_id": agent,
        "state": value,
        "updated_at": at,
        **more,
    }


def question(request_id: str = "req_1", agent: str = "dev", title: str = "Which colour?") -> dict[str, Any]:
    return {
        "request_id": request_id,
        "created_by": {"agent_id": agent, "task_id": "build"},
        "severity": "HIGH",
        "type": "MISSING_FILE",
        "title": title,
        "needed": {"files": [{"name": "colours.csv", "deliver_to_agent_id": agent}]},
    }


def reply(request_id: str = "req_1", files: dict[str, bytes] | None = None, **more: Any) -> dict[str, Any]:
    provided = [{"name": name, "sha256": sha256(data)} for name, data in (files or {}).items()]
    return {
        "request_id": request_id,
        "responded_at": AT,
        "responder": {"name": "Ada"},
        "decision": "PROVIDE",
        "provided_files": provided,
        **more,
    }


def archived(tree: Tree, folder: str) -> dict[str, Any]:
    """What lies archived in a folder of the plan, by name."""
    path = tree.plan_folder() / folder
    return {each.name: json.loads(each.read_bytes()) for each in path.iterdir()} if path.is_dir() else {}


def read_status_file(tree: Tree) -> list[dict[str, Any]]:
    """What `plan_status.json` says of each task."""
    tasks: list[dict[str, Any]] = json.loads((tree.plan_folder() / "plan_status.json").read_bytes())["tasks"]
    return tasks


def task(tree: Tree) -> str:
    [found] = [each["state"] for each in read_status_file(tree) if each["task_id"] == "build"]
    return str(found)


# Receipts.


@pytest.mark.shows("M09", "M12")
@pytest.mark.parametrize(("status", "ends"), [("SUCCEEDED", "COMPLETED"), ("FAILED", "FAILED")])
def test_a_receipt_goes_from_consumed_to_its_end_and_never_back(
    tree: Tree, route: Route, status: str, ends: str
) -> None:
    message_id = tree.command("lead", "build")
    route()
    name = f"ack_{message_id}.json"
    tree.put("dev", name, receipt(message_id))
    assert route().collected == 1
    assert archived(tree, "acks")[name]["status"] == "CONSUMED"
    assert task(tree) == "RUNNING"
    tree.put("dev", name, receipt(message_id, status, finished_at=LATER))
    assert route().collected == 1
    assert task(tree) == ends
    [written] = [each for each in read_status_file(tree) if each["task_id"] == "build"]
    trust = {name: written[name] for name in ("origin", "board", "proven", "freshness", "isolated") if name in written}
    assert trust == (
        {"origin": "foreign", "board": "done", "proven": False}  # a receipt is the agent's word
        if ends == "COMPLETED"
        else {"origin": "foreign", "board": "failed"}
    )
    other = "FAILED" if status == "SUCCEEDED" else "SUCCEEDED"
    for back in (receipt(message_id), receipt(message_id, other)):
        tree.put("dev", name, back)
        assert route().dead == 1
    assert tree.codes() == ["CONTROL_CHANGED", "CONTROL_CHANGED"]
    assert archived(tree, "acks")[name]["status"] == status
    assert task(tree) == ends
    assert tree.inbox("lead") == []
    assert counts(tree.root) == {"sent": 1, "delivered": 1}
    assert sound(tree.root)


def test_the_same_receipt_again_says_nothing_new(tree: Tree, route: Route) -> None:
    message_id = tree.command("lead", "build")
    route()
    for collected in (1, 0, 0):
        tree.put("dev", f"ack_{message_id}.json", receipt(message_id, "SUCCEEDED"))
        assert (route().collected, tree.codes()) == (collected, [])
    assert tree.names("agents/dev/outbox/plan_shop") == [f"ack_{message_id}.json"]


def test_a_receipt_that_comes_before_the_delivery_is_noted_counts(tree: Tree, route: Route) -> None:
    inbox = tree.agent("dev") / "inbox"
    inbox.symlink_to(tree.root / "nowhere")
    message_id = tree.command("lead", "build")
    route()
    inbox.unlink()
    tree.put("dev", f"ack_{message_id}.json", receipt(message_id, "SUCCEEDED"))
    route()
    assert tree.inbox("dev") == []
    assert statuses(tree, message_id) == ["DELIVERED"]
    assert counts(tree.root) == {"sent": 1, "delivered": 1}
    assert sound(tree.root)


def test_a_receipt_in_somebody_elses_name_is_refused(tree: Tree, route: Route) -> None:
    message_id = tree.command("lead", "build")
    route()
    data = dumped(receipt(message_id, "SUCCEEDED"))
    tree.put("tester", f"ack_{message_id}.json", data)
    route()
    buried(tree, "tester", f"ack_{message_id}.json", "PRODUCER_MISMATCH", data)
    assert task(tree) == "PENDING"
    assert archived(tree, "acks") == {}


def test_a_receipt_for_a_message_that_one_never_got_changes_nothing(tree: Tree, route: Route) -> None:
    message_id = tree.command("lead", "build")
    route()
    tree.put("tester", f"ack_{message_id}.json", receipt(message_id, "SUCCEEDED", agent="tester"))
    assert route().collected == 1
    assert task(tree) == "PENDING"
    [row] = asked(tree.root, DELIVERY_OF, plan_id="plan_shop", message_id=message_id, receiver="dev")
    assert row[1:3] == ("delivered", None)
    tree.put("dev", f"ack_{message_id}.json", receipt(message_id))
    route()
    assert {each["consumer_agent_id"] for each in archived(tree, "acks").values()} == {"dev", "tester"}


def test_every_receiver_of_an_artifact_has_its_own_receipt(tree: Tree, route: Route) -> None:
    message_id = tree.artifact("pm", "design", "design.md", {"design.md": b"x"})
    route()
    for agent in ("dev", "tester"):
        tree.put(agent, f"ack_{message_id}.json", receipt(message_id, "SUCCEEDED", agent))
    assert route().collected == 2
    assert {each["consumer_agent_id"] for each in archived(tree, "acks").values()} == {"dev", "tester"}
    assert task(tree) == "PENDING"  # an artifact's receipt says nothing of a task


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"{", "ENVELOPE_PARSE_ERROR"),
        (dumped({"status": "CONSUMED"}), "SCHEMA_INVALID"),
        (dumped({**receipt("m"), "schema_version": "9.0"}), "SCHEMA_VERSION_UNSUPPORTED"),
        (dumped({**receipt("m"), "plan_id": "plan_other"}), "PLAN_MISMATCH"),
        (b" " * 2 * 1024 * 1024, "FILE_TOO_LARGE"),
    ],
    ids=["json", "schema", "version", "plan", "size"],
)
def test_a_control_file_that_is_none_is_dead_lettered(tree: Tree, route: Route, data: bytes, code: str) -> None:
    tree.put("dev", "ack_m.json", data)
    report = route()
    assert (report.dead, report.collected) == (1, 0)
    buried(tree, "dev", "ack_m.json", code, data)
    assert counts(tree.root) == {}  # control files are no messages


# States.


def test_a_task_state_tells_progress_and_waiting_but_never_done(tree: Tree, route: Route) -> None:
    progress = {"percent": 40, "note": "half way"}
    tree.put("dev", "task_state_build.json", state("BLOCKED_WAITING_INPUT", progress=progress))
    route()
    status = json.loads((tree.plan_folder() / "plan_status.json").read_bytes())
    [shown] = [each for each in status["tasks"] if each["task_id"] == "build"]
    assert (shown["state"], shown["progress"]) == ("BLOCKED_WAITING_INPUT", progress)
    assert status["blocked_summary"]["INPUT"] == 1
    tree.put("dev", "task_state_build.json", state("COMPLETED", LATER))
    route()
    assert task(tree) == "BLOCKED_WAITING_INPUT"
    assert archived(tree, "task_states")["task_state_build.json"]["state"] == "COMPLETED"
    tree.put("dev", "task_state_build.json", state("RUNNING", AT))
    assert route().collected == 0
    assert archived(tree, "task_states")["task_state_build.json"]["state"] == "COMPLETED"


def test_a_state_of_somebody_elses_task_changes_neither_the_task_nor_what_is_archived(tree: Tree, route: Route) -> None:
    tree.put("dev", "task_state_build.json", state())
    route()
    tree.put("tester", "task_state_build.json", state("FAILED", LATER, "tester"))
    tree.put("pm", "task_state_build.json", state("FAILED", LATER, "dev"))
    route()
    assert tree.codes() == ["PRODUCER_MISMATCH"]
    assert task(tree) == "RUNNING"
    assert archived(tree, "task_states")["task_state_build.json"]["agent_id"] == "dev"


# Decisions, releases, alerts.

DECISION = {
    "decision_id": "d1",
    "decision_type": "RELEASE",
    "decision": "APPROVE",
    "decided_by_agent_id": "lead",
    "subject": {"kind": "release", "ref_sha256": sha256(b"")},
}
RELEASE = {
    "release_id": "r1",
    "artifacts": [{"name": "app.zip", "sha256": sha256(b"")}],
    "evidence_required": [],
    "evidence_refs": [],
    "decision": "APPROVE",
}
ALERT = {"alert_id": "a1", "severity": "INFO", "type": "NOTE", "created_at": AT, "message": "Look here."}


@pytest.mark.shows("M12")
@pytest.mark.parametrize(
    ("name", "document", "folder", "change"),
    [
        ("decision_record_d1.json", DECISION, "plans/plan_shop/decisions", {"decision": "REJECT"}),
        ("release_manifest_r1.json", RELEASE, "plans/plan_shop/releases", {"decision": "REJECT"}),
        ("alert_a1.json", ALERT, "alerts/plan_shop", {"message": "Look away."}),
        (
            "human_intervention_request_req_1.json",
            question(agent="lead"),
            "plans/plan_shop/human_requests",
            {"title": "x"},
        ),
    ],
    ids=["decision", "release", "alert", "request"],
)
def test_what_was_said_stands_for_ever(
    tree: Tree, route: Route, name: str, document: dict[str, Any], folder: str, change: dict[str, Any]
) -> None:
    tree.put("lead", name, document)
    assert route().collected == 1
    [before] = tree.documents(folder)
    assert document.items() <= before.items()
    tree.put("lead", name, document)
    assert (route().collected, tree.codes()) == (1, [])
    data = dumped({**document, **change})
    tree.put("lead", name, data)
    assert route().dead == 1
    assert tree.codes() == ["CONTROL_CHANGED"]
    assert before in tree.documents(folder)
    assert not any(each.items() >= change.items() for each in tree.documents(folder))


def test_an_agents_alert_never_takes_the_place_of_one_of_ours(tree: Tree, route: Route) -> None:
    tree.put("dev", "broken.msg.json", b"{")
    route()
    [ours] = alerts(tree, "ENVELOPE_PARSE_ERROR")
    number = ours["alert_id"].removeprefix("alert_")
    tree.put("dev", f"alert_{number}.json", {**ALERT, "alert_id": number})
    assert route().collected == 1
    assert alerts(tree, "ENVELOPE_PARSE_ERROR") == [ours]
    assert len(alerts(tree)) == 2


def test_an_alert_in_somebody_elses_name_is_refused(tree: Tree, route: Route) -> None:
    tree.put("dev", "alert_a1.json", {**ALERT, "source": {"agent_id": "tester"}})
    route()
    assert tree.codes() == ["PRODUCER_MISMATCH"]


# Questions and answers.


def ask(tree: Tree, route: Route) -> None:
    tree.agent(GATEWAY)
    tree.put("dev", "human_intervention_request_req_1.json", question())
    assert route().collected == 1


def test_a_question_lies_in_the_persons_inbox_until_it_is_answered(tree: Tree, route: Route) -> None:
    ask(tree, route)
    assert tree.inbox(GATEWAY) == ["human_intervention_request_req_1.json"]
    [request] = inside(tree.root, questions.list_open)
    assert (request.request_id, request.agent_id, request.state) == ("req_1", "dev", "open")
    tree.put(GATEWAY, "colours.csv", b"red")
    tree.put(GATEWAY, "human_intervention_response_req_1.json", reply(files={"colours.csv": b"red"}))
    report = route()
    assert (report.collected, report.delivered, report.dead) == (1, 2, 0)
    assert tree.inbox(GATEWAY) == []
    inbox = tree.box("dev", "inbox")
    assert (inbox / "colours.csv").read_bytes() == b"red"
    answer = json.loads((inbox / "human_intervention_response_req_1.json").read_bytes())
    assert (answer["decision"], answer["responder"]["name"]) == ("PROVIDE", "Ada")
    assert list(archived(tree, "human_responses")) == ["human_intervention_response_req_1.json"]
    assert inside(tree.root, questions.list_open) == []
    assert counts(tree.root) == {"sent": 2, "delivered": 2}
    assert sound(tree.root)
    again = dumped(reply(notes="second thoughts"))
    tree.put(GATEWAY, "human_intervention_response_req_1.json", again)
    route()
    assert tree.codes() == ["CONTROL_CHANGED"]


def test_no_agent_can_answer_for_the_person(tree: Tree, route: Route) -> None:
    ask(tree, route)
    data = dumped(reply(decision="APPROVE"))
    for agent in ("dev", "lead"):
        tree.put(agent, "human_intervention_response_req_1.json", data)
        route()
        assert not (tree.box(agent, "outbox") / "human_intervention_response_req_1.json").exists()
    assert tree.codes() == ["PRODUCER_MISMATCH", "PRODUCER_MISMATCH"]
    assert tree.inbox(GATEWAY) == ["human_intervention_request_req_1.json"]
    assert [each.state for each in inside(tree.root, questions.list_open)] == ["open"]


@pytest.mark.parametrize(
    ("answer", "files", "code"),
    [
        (reply("req_2"), {}, "ANSWER_REFUSED"),
        (reply(files={"gone.csv": b""}), {}, "MISSING_PAYLOAD"),
        (reply(files={"colours.csv": b"red"}), {"colours.csv": b"blue"}, "PAYLOAD_HASH_MISMATCH"),
        (reply(files={"../../../secret": b""}), {}, "PATH_OUTSIDE_FOLDER"),
        (reply(files={"back\\slash": b"x"}), {"back\\slash": b"x"}, "PATH_OUTSIDE_FOLDER"),
        (
            reply(provided_files=[{"name": "a", "sha256": sha256(b"x"), "deliver_to_agent_id": "ghost"}]),
            {"a": b"x"},
            "TARGET_AGENT_NOT_FOUND",
        ),
        (reply(provided_files=[{"name": "a", "sha256": sha256(b"x")}] * 2), {"a": b"x"}, "ANSWER_REFUSED"),
    ],
    ids=["unknown", "missing", "hash", "outside", "backslash", "ghost", "twice"],
)
def test_an_answer_that_cannot_be_sent_is_refused_and_the_question_stays_open(
    tree: Tree, route: Route, answer: dict[str, Any], files: dict[str, bytes], code: str
) -> None:
    ask(tree, route)
    for name, data in files.items():
        tree.put(GATEWAY, name, data)
    tree.put(GATEWAY, "human_intervention_response_1.json", answer)
    tree.command("lead", "build")
    report = route()
    assert (report.dead, report.accepted, report.problems) == (1, 1, [])
    assert tree.codes() == [code]
    assert not (tree.root / "agents" / "ghost").exists()
    assert [each.state for each in inside(tree.root, questions.list_open)] == ["open"]
    assert sound(tree.root)


def test_a_file_may_be_called_like_the_answer_itself(tree: Tree, route: Route) -> None:
    ask(tree, route)
    tree.put(GATEWAY, "human_answer", b"x")
    tree.put(GATEWAY, "human_intervention_response_1.json", reply(files={"human_answer": b"x"}))
    assert route().delivered == 2


def test_a_question_of_ours_cannot_be_replaced_by_an_agents_under_its_id(tree: Tree, route: Route) -> None:
    route()

    async def ours(deps: Deps) -> None:
        board = await deps.stores.board("default")
        request = HumanInterventionRequest.from_json(question(title="May it be released?"))
        await board.transact(lambda tx: questions.ask(tx, request, plan_id="plan_shop", at=deps.stamp()))

    inside(tree.root, ours)
    tree.put("dev", "human_intervention_request_req_1.json", question(title="May I have tea?"))
    route()
    assert tree.codes() == ["CONTROL_CHANGED"]
    [shown] = archived(tree, "human_requests").values()
    assert shown["title"] == "May it be released?"
    tree.put("dev", "human_intervention_request_req_1.json", question(title="May it be released?"))
    assert route().collected == 1


def test_an_answer_by_an_operator_reaches_the_agent_and_is_bound_to_what_was_shown(tree: Tree, route: Route) -> None:
    ask(tree, route)
    [request] = inside(tree.root, questions.list_open)

    async def answer(deps: Deps, files: dict[str, bytes], seen: str) -> dict[str, Any]:
        return await questions.answer(deps, "req_1", by="Ada", decision="PROVIDE", files=files, seen_sha256=seen)

    for files, seen in (({"a.csv": b"x"}, sha256(b"another")), ({"../a": b"x"}, request.sha256), ({}, request.sha256)):
        with pytest.raises(UsageError) as refused:
            inside(tree.root, lambda deps, files=files, seen=seen: answer(deps, files, seen))  # type: ignore[misc]
        assert refused.value.code == "ANSWER_REFUSED"
        assert refused.value.hint
    inside(tree.root, lambda deps: answer(deps, {"colours.csv": b"red"}, request.sha256))
    assert route().delivered == 2
    assert (tree.box("dev", "inbox") / "colours.csv").read_bytes() == b"red"


def refusal(task_id: str = "make", agent: str = "maker", validator: str = "user") -> dict[str, Any]:
    result = {"validator": validator, "score": 10, "reason": "no price", "issues": ["name one"]}
    return {
        "plan_id": "plan_shop",
        "command_id": "cmd_reexecute_001",
        "original_task_id": task_id,
        "original_agent": agent,
        "validation_result": result,
        "prompt": "Please add the price.",
    }


@pytest.mark.shows("V04")
def test_in_a_plan_that_nobody_runs_a_refusal_becomes_the_next_command(tree: Tree, route: Route) -> None:
    nodes = [node("make", "maker", outputs=[output("text.md", "user")]), node("use", "user", depends_on=["make"])]
    tree.dag(nodes)
    tree.command("user", "make", 1)
    route()
    for _ in range(2):  # the same words again are another round
        tree.put("user", "cmd_reexecute_make.json", refusal())
        route()
    inbox = tree.box("maker", "inbox")
    [command] = [json.loads(each.read_bytes()) for each in inbox.glob("cmd_*.msg.json")]
    again = command["payload"]["command"]
    assert (again["command_seq"], again["prompt"]) == (3, "Please add the price.")
    assert again["reexecute"]["validation_result"]["issues"][0]["description"] == "name one"
    assert sound(tree.root)


@pytest.mark.shows("V01")
@pytest.mark.parametrize(
    ("sender", "document", "code"),
    [
        ("maker", refusal(validator="maker"), "COMMAND_NOT_AUTHORISED"),
        ("user", refusal("use", "user"), "COMMAND_NOT_AUTHORISED"),
        ("user", refusal("none"), "TASK_NOT_IN_DAG"),
        ("user", refusal(agent="user"), "PRODUCER_MISMATCH"),
    ],
)
def test_a_refusal_by_somebody_who_may_not_is_a_dead_letter(
    tree: Tree, route: Route, sender: str, document: dict[str, Any], code: str
) -> None:
    tree.dag([node("make", "maker", outputs=[output("text.md", "user")]), node("use", "user", depends_on=["make"])])
    tree.put(sender, "cmd_reexecute_x.json", document)
    route()
    buried(tree, sender, "cmd_reexecute_x.json", code, dumped(document))
    assert not list(tree.box("maker", "inbox").glob("cmd_*"))


@pytest.mark.mends("A1")
def test_a_file_is_nobodys_answer_unless_the_operator_says_so(tree: Tree, route: Route) -> None:
    ask(tree, route)
    name = "human_intervention_response_req_1.json"
    said = reply(decision="APPROVE")
    tree.put(GATEWAY, name, said)

    async def look(deps: Deps) -> str:
        await Router(replace(deps, answers_by_file=False)).pass_()
        return (await questions.find_question(deps, "req_1"))[1].state

    assert inside(tree.root, look) == "open"
    buried(tree, GATEWAY, name, "PERSON_NEEDED", dumped(said))
