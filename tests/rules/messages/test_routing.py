"""The router's decisions, without folders and without a database."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts.command import Reexecution
from agenttalk.contracts.core import wire
from agenttalk.contracts.dag import TaskDag
from agenttalk.contracts.envelope import ArtifactEnvelope, CommandEnvelope, lift_reexecution
from agenttalk.contracts.errors import Code
from agenttalk.rules.messages import routes
from agenttalk.rules.messages.routes import (
    CommandOrder,
    MessageTally,
    OutboxMessage,
    PlanFacts,
    Rejection,
    check_duplicate,
    is_superseded,
    may_command,
    reject_reexecution,
    route,
    sort_newest_first,
    unpack,
)
from kits.samples import DIGEST, OTHER_DIGEST, artifact, command, envelope

DAG = TaskDag.from_json(
    {
        "schema_version": "1.1",
        "plan_id": "plan_shop",
        "nodes": [
            {
                "task_id": "task_001",
                "assigned_agent_id": "pm",
                "outputs": [
                    {"name": "stories.md", "deliver_to": ["dev", "tester"]},
                    {"name": "all.md", "deliver_to": ["*"]},
                    {"name": "final.md", "deliverable": True},
                    {"name": "lost.md"},
                ],
            },
            {"task_id": "build", "assigned_agent_id": "dev"},
            {"task_id": "test", "assigned_agent_id": "tester"},
        ],
        "routing_rules": [{"match": {"content_type": "text/csv"}, "deliver_to": ["tester"]}],
    }
)
PLAN = PlanFacts(DAG, DIGEST, agents={"pm", "dev", "tester", "lead"}, foreign=True)


def parcel(document: dict[str, Any], owner: str | None = None) -> OutboxMessage:
    unpacked = unpack(wire.write(document), owner=owner or document["producer_agent_id"], plan_id="plan_shop")
    assert isinstance(unpacked, OutboxMessage), unpacked
    return unpacked


def rejection(data: bytes | dict[str, Any], owner: str = "lead") -> Rejection:
    raw = data if isinstance(data, bytes) else wire.write(data)
    unpacked = unpack(raw, owner=owner, plan_id="plan_shop")
    assert isinstance(unpacked, Rejection)
    return unpacked


def target(document: dict[str, Any], plan: PlanFacts = PLAN) -> tuple[str, ...] | Code:
    routed = route(parcel(document), plan)
    return routed.code if isinstance(routed, Rejection) else routed


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"{", Code.ENVELOPE_PARSE_ERROR),
        (b'{"a":1,"a":2}', Code.ENVELOPE_PARSE_ERROR),
        (b"\xff\xfe", Code.ENVELOPE_PARSE_ERROR),
        (b" " * (1024 * 1024 + 1), Code.ENVELOPE_PARSE_ERROR),
        (b"[]", Code.SCHEMA_INVALID),
        (envelope(message_id="a/b"), Code.SCHEMA_INVALID),
        (artifact(output_name=...), Code.SCHEMA_INVALID),
        (envelope(type=...), Code.SCHEMA_INVALID),
        (envelope(type="broadcast"), Code.UNSUPPORTED_MESSAGE_TYPE),
        (envelope(schema_version="2.0"), Code.SCHEMA_VERSION_UNSUPPORTED),
        (artifact(schema_version="2.0"), Code.SCHEMA_VERSION_UNSUPPORTED),
        (artifact(payload={"files": [{"path": "../a", "sha256": DIGEST}]}), Code.PATH_OUTSIDE_FOLDER),
        (envelope(task_id="other"), Code.COMMAND_ENVELOPE_MISMATCH),
        (envelope(payload={"command": command(command_seq=...)}), Code.COMMAND_SEQ_MISSING),
        (envelope(payload={"command": command(command_seq=2)}), Code.COMMAND_SEQ_MISMATCH),
        (envelope(payload={"command": command(send_to="x")}), Code.COMMAND_ROUTES_ITSELF),
        (envelope(payload={"command": command(required_inputs=["../x"])}), Code.PATH_OUTSIDE_FOLDER),
        (envelope(producer_agent_id="dev"), Code.PRODUCER_MISMATCH),
        (envelope(plan_id="other", payload={"command": command(plan_id="other")}), Code.PLAN_MISMATCH),
    ],
    ids=range(19),
)
def test_what_cannot_be_sent_is_refused_with_its_code(data: bytes | dict[str, Any], code: Code) -> None:
    refused = rejection(data)
    assert refused.code is code
    assert refused.message


def test_a_refusal_keeps_every_problem() -> None:
    refused = rejection(envelope(message_id="a/b", payload={"command": command(prompt="", timeout=0)}))
    assert refused.code is Code.COMMAND_FIELD_VALUE
    assert [problem.field for problem in refused.problems] == [
        "message_id",
        "payload.command.prompt",
        "payload.command.timeout",
    ]
    # The first that has a code of its own speaks for all.
    assert refused.message == f"payload.command.prompt: {refused.problems[1].message}"


def test_the_hash_is_that_of_the_file_as_it_lay_there() -> None:
    data = b" " + wire.write(artifact())
    unpacked = unpack(data, owner="pm", plan_id="plan_shop")
    assert isinstance(unpacked, OutboxMessage)
    assert unpacked.sha256 == wire.sha256(data)


def test_duplicates_are_found_by_id_and_hash() -> None:
    message = parcel(envelope())
    assert check_duplicate(message, None) == "new"
    assert check_duplicate(message, message.sha256) == "duplicate"
    reused = check_duplicate(message, OTHER_DIGEST)
    assert isinstance(reused, Rejection)
    assert reused.code is Code.MESSAGE_ID_REUSED_WITH_DIFFERENT_PAYLOAD


def test_a_command_goes_to_the_tasks_agent_and_nowhere_else() -> None:
    hinted = envelope(routing={"intended_recipients": ["dev"]})
    assert target(envelope()) == ("pm",)
    assert target(hinted) == ("pm",)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (artifact(), ("dev", "tester")),
        (artifact("all.md"), ("dev", "pm", "tester")),
        (artifact("final.md"), ()),
        (artifact("lost.md"), Code.ROUTING_NO_TARGET),
        (artifact("undeclared.md"), Code.ROUTING_NO_TARGET),
        (artifact("undeclared.csv", content_type="text/csv"), ("tester",)),
        (artifact(task_id="gone"), Code.TASK_NOT_IN_DAG),
        (envelope(payload={"command": command(dag_ref={"sha256": OTHER_DIGEST})}), Code.COMMAND_DAG_MISMATCH),
    ],
    ids=range(8),
)
def test_messages_are_routed_by_the_dag_alone(document: dict[str, Any], expected: tuple[str, ...] | Code) -> None:
    assert target(document) == expected


def test_a_receiver_without_a_folder_is_told() -> None:
    nobody = PlanFacts(DAG, DIGEST, agents={"pm"}, foreign=True)
    assert target(artifact(), nobody) is Code.TARGET_AGENT_NOT_FOUND
    refused = route(parcel(artifact()), replace(PLAN, agents={"pm", "dev"}))
    assert isinstance(refused, Rejection)
    assert refused.message == "no folder agents/tester: tester"


def test_a_judgement_for_the_engine_needs_no_other_receiver() -> None:
    outputs = [{"name": "artifact_validation_result_x.json"}]
    nodes = [{"task_id": "task_001", "assigned_agent_id": "pm", "outputs": outputs}]
    dag = TaskDag.from_json({"schema_version": "1.1", "plan_id": "plan_shop", "nodes": nodes})
    assert target(artifact(outputs[0]["name"]), replace(PLAN, dag=dag)) == ()


@pytest.mark.parametrize("sender", ["engine", "operator", "system"])
def test_who_has_no_folder_may_always_command(sender: str) -> None:
    assert may_command(sender, PLAN.nodes["build"], replace(PLAN, foreign=False), reexecution=False)


@pytest.mark.parametrize(
    ("sender", "foreign", "commanders", "reexecution", "allowed"),
    [
        ("engine", False, (), False, True),
        ("operator", False, ("lead",), False, True),
        ("lead", True, (), False, True),
        ("pm", True, (), False, False),
        ("pm", True, ("pm",), False, False),
        ("lead", False, (), False, False),
        ("lead", False, ("lead",), False, True),
        ("dev", True, ("lead",), False, False),
        ("dev", False, (), True, True),
        ("lead", False, (), True, True),
        ("tester", False, ("lead",), True, True),
    ],
    ids=range(11),
)
def test_who_may_command(
    sender: str, foreign: bool, commanders: tuple[str, ...], reexecution: bool, allowed: bool
) -> None:
    plan = PlanFacts(DAG, DIGEST, agents=(), foreign=foreign, commanders=commanders)
    assert may_command(sender, plan.nodes["task_001"], plan, reexecution=reexecution) is allowed


def test_a_re_execution_comes_only_from_whoever_receives_the_output() -> None:
    plan = PlanFacts(DAG, DIGEST, agents=())
    assert not may_command("tester", plan.nodes["build"], plan, reexecution=True)


def test_an_order_by_somebody_who_may_not_is_refused() -> None:
    own = PlanFacts(DAG, DIGEST, agents=PLAN.agents)
    assert target(envelope(), own) is Code.COMMAND_NOT_AUTHORISED
    assert target(envelope(), PlanFacts(DAG, DIGEST, agents=PLAN.agents, commanders=["lead"])) == ("pm",)


def test_in_an_engines_own_plan_only_the_tasks_agent_hands_in_what_no_turn_of_its_own_makes() -> None:
    own = PlanFacts(DAG, DIGEST, agents=PLAN.agents)
    node = own.nodes["build"]
    assert routes._not_theirs(made_by(node.assigned_agent_id), node, own, ()) is None
    assert routes._not_theirs(made_by("engine"), node, own, ()) is None
    for sender, driven in (("lead", ()), (node.assigned_agent_id, {node.assigned_agent_id})):
        refused = routes._not_theirs(made_by(sender), node, own, driven)
        assert refused is not None
        assert refused.code is Code.PRODUCER_MISMATCH


def made_by(agent_id: str, **fields: Any) -> ArtifactEnvelope:
    found = parcel({**artifact(), "producer_agent_id": agent_id, **fields}).envelope
    assert isinstance(found, ArtifactEnvelope)
    return found


@pytest.mark.mends("B6")
def test_in_a_foreign_plan_outputs_come_from_whom_the_dag_names() -> None:
    dag = TaskDag.from_json(
        {
            "schema_version": "1.1",
            "plan_id": "plan_shop",
            "nodes": [
                {
                    "task_id": "task_001",
                    "assigned_agent_id": "pm",
                    "failure_policy": {"reexecute_target_agent_id": "spare"},
                    "inputs": [
                        {"name": "wish", "external": True, "selector": {"type": "by_glob", "value": "wish*.md"}},
                        {
                            "name": "kind",
                            "external": True,
                            "selector": {"type": "by_message_type", "type_value": "artifact"},
                        },
                    ],
                    "outputs": [{"name": "stories.md", "deliver_to": ["dev"]}],
                }
            ],
        }
    )
    plan = PlanFacts(dag, DIGEST, agents={"pm", "dev", "eve"}, foreign=True)
    node = plan.nodes["task_001"]
    assert routes._not_theirs(made_by("pm"), node, plan, ()) is None
    assert routes._not_theirs(made_by("spare"), node, plan, ()) is None
    assert routes._not_theirs(made_by("eve", output_name="wishes.md"), node, plan, ()) is None
    refused = routes._not_theirs(made_by("eve"), node, plan, ())
    assert refused is not None
    assert (refused.code, refused.message) == (Code.PRODUCER_MISMATCH, "task 'task_001' is 'pm''s, not 'eve''s")


@pytest.mark.mends("B6")
@pytest.mark.parametrize(
    ("document", "receiver", "code"),
    [
        (envelope(), "pm", None),
        (envelope(), "dev", Code.COMMAND_NOT_AUTHORISED),
        ({**envelope(), "producer_agent_id": "pm"}, "pm", Code.COMMAND_NOT_AUTHORISED),
        (artifact(), "dev", None),
        ({**artifact(), "producer_agent_id": "eve"}, "dev", Code.PRODUCER_MISMATCH),
        ({**artifact(), "producer_agent_id": "agent_human_gateway", "task_id": "other"}, "dev", None),
        ({**artifact(), "task_id": "other"}, "dev", Code.TASK_NOT_IN_DAG),
    ],
)
def test_what_another_router_brought_is_held_against_the_dag(
    document: dict[str, Any], receiver: str, code: Code | None
) -> None:
    refused = routes.reject_arrival(parcel(document), PLAN, receiver)
    assert (refused.code if refused else None) == code


def test_a_command_of_an_earlier_dag_is_fine_only_where_a_router_brought_it() -> None:
    old = parcel(envelope(payload={"command": command(dag_ref={"sha256": OTHER_DIGEST})}))
    assert routes.reject_arrival(old, PLAN, "pm") is None  # it is superseded then
    refused = routes.reject_unrouted(old, PLAN)
    assert refused is not None
    assert refused.code is Code.COMMAND_DAG_MISMATCH
    assert routes.reject_unrouted(parcel(envelope()), PLAN) is None
    assert routes.reject_unrouted(parcel(artifact()), PLAN) is None


orders = st.lists(
    st.builds(
        lambda number, task, seq: CommandOrder(f"m{number}", task, f"cmd_{task}_{seq:03d}", seq),
        st.integers(0, 99),
        st.sampled_from(["a", "b"]),
        st.integers(0, 4),
    ),
    max_size=6,
    unique_by=lambda order: order.message_id,
)


@given(orders, st.randoms())
def test_the_largest_number_counts_whatever_the_order_of_files(found: list[CommandOrder], random: Random) -> None:
    shuffled = random.sample(found, len(found))
    newest: dict[str, CommandOrder] = {}
    late = set()
    for order in sort_newest_first(shuffled, lambda each: each):
        if is_superseded(order, newest.get(order.task_id)):
            late.add(order)
        else:
            newest[order.task_id] = order
    for task in {order.task_id for order in found}:
        assert newest[task].seq == max(order.seq for order in found if order.task_id == task)
    assert late == {order for order in found if order.seq < newest[order.task_id].seq}


def test_of_equal_orders_the_files_do_not_say_which_comes_first() -> None:
    found = [CommandOrder(message_id, "t", "cmd_t_001", 1) for message_id in ("b", "c", "a")]
    assert [each.message_id for each in sort_newest_first(found, lambda each: each)] == ["a", "b", "c"]


@given(st.lists(st.integers(0, 5), min_size=5, max_size=5), st.integers(-2, 2))
def test_every_message_is_accounted_for(places: list[int], lost: int) -> None:
    tally = MessageTally(sum(places) + lost, *places)
    assert tally.lost == lost


# Refusals.


def refusal(**changes: Any) -> Reexecution:
    result = {"validator": "tester", "score": 10, "reason": "no"} | changes.pop("result", {})
    said = {"original_task_id": "build", "original_agent": "dev", "attempt": 1, "validation_result": result}
    return Reexecution.model_validate(said | changes)


REFUSABLE = TaskDag.from_json(
    {
        "schema_version": "1.1",
        "plan_id": "plan_shop",
        "nodes": [
            {
                "task_id": "build",
                "assigned_agent_id": "dev",
                "outputs": [{"name": "a", "deliver_to": ["tester", "spare"]}],
            }
        ],
    }
)


@pytest.mark.parametrize(
    ("sender", "said", "maker", "code"),
    [
        ("tester", refusal(), "dev", None),
        ("spare", refusal(result={"validator": "spare"}), "dev", None),
        ("tester", refusal(original_task_id="other"), "dev", Code.COMMAND_ENVELOPE_MISMATCH),
        ("spare", refusal(), "dev", Code.PRODUCER_MISMATCH),
        ("dev", refusal(result={"validator": "dev"}), "dev", Code.COMMAND_NOT_AUTHORISED),
        ("spare", refusal(original_agent="spare", result={"validator": "spare"}), "spare", Code.COMMAND_NOT_AUTHORISED),
        ("dev", refusal(original_agent="spare", result={"validator": "dev"}), "spare", Code.COMMAND_NOT_AUTHORISED),
        ("pm", refusal(result={"validator": "pm"}), "dev", Code.COMMAND_NOT_AUTHORISED),
        ("tester", refusal(original_agent="pm"), "dev", Code.PRODUCER_MISMATCH),
    ],
)
def test_who_may_have_work_done_again(sender: str, said: Reexecution, maker: str, code: Code | None) -> None:
    plan = PlanFacts(REFUSABLE, DIGEST, agents=())
    refused = reject_reexecution(sender, plan.nodes["build"], maker, said, plan)
    assert (refused.code if refused else None) == code


def test_what_was_refused_may_stand_at_the_top_of_a_command() -> None:
    result = {"validator": "tester", "score": 10, "reason": "no"}
    document = envelope()
    inside = document["payload"]["command"] | {
        "original_task_id": "task_001",
        "original_agent": "pm",
        "validation_result": result,
    }
    written = wire.write({**document, "payload": {"command": inside}})
    found = unpack(written, owner=document["producer_agent_id"], plan_id=document["plan_id"])
    assert isinstance(found, OutboxMessage)
    assert isinstance(found.envelope, CommandEnvelope)
    again = found.envelope.payload.command.reexecute
    assert again is not None
    assert (again.original_agent, again.validation_result.reason) == ("pm", "no")
    assert found.sha256 == wire.sha256(written)
    read_again = CommandEnvelope.from_bytes(written)  # as the store keeps it
    assert read_again.payload.command.reexecute == again
    assert "original_task_id" not in read_again.payload.command.as_json()


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"original_task_id": 1},
        ["original_task_id"],
        {"payload": {"command": {"original_task_id": "x", "reexecute": {}}}},
        {"payload": ["original_task_id"]},
        {"payload": {"command": ["original_task_id"]}},
    ],
)
def test_what_needs_no_lifting_stays_as_it_was(data: Any) -> None:
    assert lift_reexecution(data) is data
