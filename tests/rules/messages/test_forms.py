"""Documents as other parties write them are read, each change is told, and what matters is never made up."""

from __future__ import annotations

from typing import Any

import pytest

from agenttalk.contracts.core.base import Document
from agenttalk.contracts.dag import TaskDag
from agenttalk.contracts.errors import ContractError
from agenttalk.contracts.human import HumanInterventionRequest, HumanInterventionResponse
from agenttalk.contracts.plan import ActiveDagRef, PlanManifest, PlanStatus
from agenttalk.contracts.record import (
    Ack,
    Alert,
    DeadletterEntry,
    DeliveryEntry,
    InputIndex,
    StatusHeartbeat,
    TaskStateReport,
)
from agenttalk.contracts.validation import (
    ArtifactValidationResult,
    DagReviewResult,
    DecisionRecord,
    ReleaseGateResult,
    ReleaseManifest,
)
from agenttalk.rules.messages import foreign_forms
from kits.samples import DIGEST

AT = "2025-01-08T10:30:00Z"
ABOUT = {"schema_version": "1.0", "plan_id": "p"}


def read(kind: type[Document], document: Any) -> tuple[dict[str, Any], list[str]]:
    said, repairs = foreign_forms.normalize_document(kind, document)
    return kind.from_json(said).as_json(), [each.field for each in repairs]


def ack(**fields: Any) -> dict[str, Any]:
    about = {**ABOUT, "message_id": "m", "task_id": None, "consumer_agent_id": "a", "consumed_at": AT}
    return {**about, "status": "SUCCEEDED", "finished_at": AT, **fields}


@pytest.mark.mends("D2")
def test_details_of_a_receipt_become_a_text() -> None:
    found, changed = read(Ack, ack(result={"ok": True, "details": {"ingested_files": ["a.md"]}}))
    assert found["result"] == {"ok": True, "details": '{"ingested_files":["a.md"]}'}
    assert changed == ["result.details"]
    found, changed = read(Ack, ack(result={"details": "fine"}))
    assert (found["result"], changed) == ({"ok": True, "details": "fine"}, ["result.ok"])
    assert read(Ack, ack(result={"ok": False, "details": "no"}))[1] == []
    assert read(Ack, ack(result=None))[1] == []


@pytest.mark.mends("D4")
def test_what_is_missing_becomes_a_list_of_names() -> None:
    state = {**ABOUT, "task_id": "t", "agent_id": "a", "state": "BLOCKED_WAITING_INPUT", "updated_at": AT}
    missing = [{"name": "a.md", "sensitivity": "UNKNOWN"}, "b.md", {"path": "c.md"}, {"what": 1}]
    found, changed = read(TaskStateReport, {**state, "blocking": {"reason": "MISSING_INPUTS", "missing": missing}})
    assert found["blocking"]["missing"] == ["a.md", "b.md", "c.md", '{"what":1}']
    assert changed == ["blocking.missing"]
    found, changed = read(TaskStateReport, {**state, "blocking": {"missing": ["a"]}, "progress": 60})
    assert (found["blocking"]["reason"], changed) == ("BLOCKED_WAITING_INPUT", ["blocking.reason", "progress"])
    assert read(TaskStateReport, {**state, "blocking": "waiting"})[1] == ["blocking"]
    assert read(TaskStateReport, {**state, "blocking": None, "progress": {"percent": 60}})[1] == []


def request(**fields: Any) -> dict[str, Any]:
    about = {**ABOUT, "request_id": "r", "created_by": {"agent_id": "a", "task_id": "t"}, "severity": "HIGH"}
    return {**about, "type": "MISSING_FILE", "title": "Which?", **fields}


@pytest.mark.mends("D4")
@pytest.mark.parametrize(
    ("fields", "title"),
    [
        ({"needed": {"files": [{"name": "a.md"}, {"name": "b.md"}]}}, "t: a.md, b.md"),
        ({"needed": {"decision": {"question": "Which one?"}}}, "Which one?"),
        ({"needed": None}, "t: MISSING_FILE"),
        ({"created_by": {"agent_id": "a"}}, "MISSING_FILE"),
    ],
)
def test_a_question_without_a_title_is_called_after_what_it_asks_for(fields: dict[str, Any], title: str) -> None:
    blocking = {"status": "BLOCKED_WAITING_HUMAN"}
    found, changed = read(HumanInterventionRequest, request(title=None, blocking=blocking, severity=None, **fields))
    assert (found["title"], found["blocking"], found["severity"]) == (title, True, "MEDIUM")
    assert changed == ["title", "blocking", "severity"]
    assert read(HumanInterventionRequest, request(blocking=False))[1] == []
    with pytest.raises(ContractError):
        read(HumanInterventionRequest, request(created_by=None))


@pytest.mark.mends("D6")
def test_an_answer_without_a_person_comes_from_the_gateways_folder() -> None:
    about = {**ABOUT, "request_id": "r", "responded_at": AT, "decision": "PROVIDE"}
    chosen = [{"question": "Which?", "selected": "B"}, "A", {"question": "And?"}]
    found, changed = read(HumanInterventionResponse, {**about, "decision_answers": chosen})
    assert found["responder"] == {"name": "agent_human_gateway"}
    assert found["decision_answers"] == ["B", "A", {"question": "And?"}]
    assert changed == ["responder", "decision_answers"]
    assert read(HumanInterventionResponse, {**about, "responder": {"name": "Ann"}, "decision_answers": ["A"]})[1] == []
    with pytest.raises(ContractError):
        read(HumanInterventionResponse, {**about, "decision": None})


@pytest.mark.mends("D6")
def test_a_manifest_without_artifacts_has_none() -> None:
    about = {**ABOUT, "release_id": "r", "decision": "REJECT", "artifacts": None, "evidence_required": ["build"]}
    found, changed = read(ReleaseManifest, about)
    assert (found["artifacts"], changed) == ([], ["artifacts", "evidence_refs"])


@pytest.mark.mends("D11")
@pytest.mark.parametrize(
    ("issue", "description"),
    [
        ({"message": "It fails."}, "It fails."),
        ({"suggestion": "Mend it.", "category": "E2E"}, "Mend it."),
        ({"severity": "HIGH"}, "not described"),
    ],
)
def test_an_issue_without_a_description_says_it_otherwise(issue: dict[str, Any], description: str) -> None:
    review = {**ABOUT, "review_id": "r", "reviewer_agent_id": "a", "score": 78, "decision": "REVISE"}
    dag = {"file_name": "task_dag.json", "sha256": DIGEST}
    fine = {"severity": "LOW", "description": "fine"}
    found, changed = read(DagReviewResult, {**review, "dag": dag, "issues": [fine, issue, "bare"]})
    assert [each["description"] for each in found["issues"]] == ["fine", description, "bare"]
    assert changed == ["issues[1].description"]
    assert read(DagReviewResult, {**review, "dag": dag, "issues": None})[1] == []


@pytest.mark.mends("D7")
@pytest.mark.parametrize(
    ("uptime", "read_as", "changed"),
    [(None, None, 0), (7, 7, 0), (7.9, 7, 1), (-3.5, 0, 1), (-3, None, 1), ("long", None, 1), (True, None, 1)],
)
def test_an_uptime_is_whole_seconds_or_nothing(uptime: Any, read_as: int | None, changed: int) -> None:
    sign = {"agent_id": "a", "last_heartbeat": AT, "health": "HEALTHY", "status": "RUNNING", "current_task_ids": None}
    found, fields = read(StatusHeartbeat, {**sign, "uptime_seconds": uptime})
    assert (found.get("uptime_seconds"), len(fields)) == (read_as, changed)


@pytest.mark.mends("D6")
def test_of_a_foreign_manifest_only_the_commanders_have_to_be_in_our_form() -> None:
    accept = {"validated_by_trusted_validator": True}
    manifest = {
        **ABOUT,
        "commanders": ["lead"],
        "agents": [{"agent_id": "lead"}],
        "deliverables": [{"name": "a.md", "accept_if": accept}, {"name": "b.md"}, "c.md"],
        "limits": "none",
        "project": None,
    }
    found, changed = read(PlanManifest, manifest)
    assert found["commanders"] == ["lead"]
    assert changed == ["deliverables", "limits"]
    both = [{"name": "a.md", "accept_if": accept}, {"name": "b.md"}]
    found, changed = read(PlanManifest, {**ABOUT, "deliverables": both})
    assert (found["deliverables"], changed) == (both, ["deliverables[0].accept_if"])
    with pytest.raises(ContractError):
        read(PlanManifest, {**ABOUT, "commanders": "lead"})


def test_a_long_value_is_cut_in_what_people_are_told() -> None:
    _, repairs = foreign_forms.normalize_document(Ack, ack(result={"ok": True, "details": ["x" * 500]}))
    assert str(repairs[0].before).endswith("…")
    assert len(str(repairs[0].before)) < 300


@pytest.mark.parametrize("document", [[], "x", None, 3])
def test_what_is_no_object_is_left_to_the_model(document: Any) -> None:
    assert foreign_forms.normalize_document(Ack, document) == (document, ())


GATE = {
    **ABOUT,
    "validation_id": "v",
    "validator_agent_id": "builder",
    "validated_at": AT,
    "decision": "PASS",
    "evidence": {"logs": ["build.log"]},
    "issues": [],
}
ISSUE = {"severity": "HIGH", "category": "E2E", "message": "It fails.", "suggestion": "Mend it."}
FILE = {"path": "a.md", "sha256": DIGEST}
TEMPLATES: list[tuple[type[Document], dict[str, Any]]] = [
    (Ack, ack(status="CONSUMED", finished_at=None, result={"ok": True, "details": "taken"}, command_seq=1)),
    (ActiveDagRef, {**ABOUT, "dag_kind": "meta", "task_dag_sha256": DIGEST, "task_dag_revision": 1, "updated_at": AT}),
    (
        Alert,
        {
            **ABOUT,
            "alert_id": "x",
            "severity": "HIGH",
            "type": "TIMEOUT",
            "created_at": AT,
            "source": {"agent_id": "a", "task_id": "t", "command_id": "cmd_t_001"},
            "message": "waits",
            "details": {"retry_count": 2},
        },
    ),
    (
        ArtifactValidationResult,
        {
            **GATE,
            "subject": {"producer_agent_id": "a", "task_id": "t", "artifact_name": "a.md", "artifact_sha256": DIGEST},
            "score": 65,
            "decision": "REJECT",
            "criteria": {"tests": "must_pass"},
            "issues": [ISSUE],
            "next_action": {"type": "REEXECUTE", "target_agent_id": "a", "prompt": "Again."},
        },
    ),
    (ReleaseGateResult, {**GATE, "subject": {"component": "x", "artifact_name": "a", "artifact_sha256": DIGEST}}),
    (
        DagReviewResult,
        {
            **ABOUT,
            "review_id": "r",
            "reviewer_agent_id": "a",
            "reviewed_at": AT,
            "dag": {"file_name": "task_dag.json", "sha256": DIGEST},
            "score": 78,
            "decision": "REVISE",
            "score_breakdown": [{"key": "io", "name": "闭合", "score": 75, "max": 100}],
            "issues": [ISSUE],
        },
    ),
    (
        DeadletterEntry,
        {
            **ABOUT,
            "deadletter_id": "d",
            "created_at": AT,
            "reason": {"code": "SCHEMA_INVALID", "message": "no"},
            "original": {"file_name": "cmd.json", "message_id": None, "producer_agent_id": "a"},
            "actions": {"retriable": False, "suggested_next": "alert"},
        },
    ),
    (
        DecisionRecord,
        {
            **ABOUT,
            "decision_id": "d",
            "decision_type": "DAG_REVIEW",
            "decision": "APPROVE",
            "decided_by_agent_id": "a",
            "created_at": AT,
            "subject": {"kind": "task_dag", "ref_sha256": DIGEST, "ref_revision": 3},
            "missing_participants": ["b"],
            "evidence_files": ["dag_review_result.json"],
        },
    ),
    (
        DeliveryEntry,
        {
            **ABOUT,
            "delivery_id": "d",
            "message_id": "m",
            "envelope_sha256": DIGEST,
            "task_id": "t",
            "command_id": "cmd_t_001",
            "output_name": "a.md",
            "from_agent_id": "a",
            "to_agent_id": "b",
            "delivered_at": AT,
            "status": "DELIVERED",
            "skip_reason": None,
            "superseded": None,
            "payload": {"files": [FILE]},
        },
    ),
    (
        HumanInterventionRequest,
        request(
            blocking={"status": "BLOCKED_WAITING_HUMAN", "reason": "not there"},
            needed={
                "files": [{"name": ".env", "sensitivity": "CONFIDENTIAL", "deliver_to_agent_id": "a"}],
                "decision": {"question": "Which?", "options": [{"key": "A", "label": "x"}], "default": "A"},
                "criteria": {"acceptance": "it runs"},
            },
            deadline=AT,
            context_refs=[{"kind": "alert", "file": "alert_x.json"}],
        ),
    ),
    (
        HumanInterventionResponse,
        {
            **ABOUT,
            "request_id": "r",
            "responded_at": AT,
            "responder": {"name": "Ann", "role": "owner"},
            "decision": "PROVIDE",
            "provided_files": [{"name": "a.md", "sha256": DIGEST, "deliver_to_agent_id": "a"}],
            "decision_answers": [{"question": "Which?", "selected": "A"}],
            "criteria_updates": {"acceptance": "it runs"},
        },
    ),
    (
        InputIndex,
        {
            **ABOUT,
            "agent_id": "a",
            "updated_at": AT,
            "entries": [
                {
                    "message_id": "m",
                    "task_id": "t",
                    "output_name": "o",
                    "received_at": AT,
                    "files": [{**FILE, "stored_at": "workspace/p/inputs/t/o/a.md"}],
                }
            ],
        },
    ),
    (
        PlanManifest,
        {
            **ABOUT,
            "plan_name": "x",
            "agents": [{"agent_id": "a", "required": True}],
            "tasks": [{"task_id": "t", "assigned_agent_id": "a", "command_id": "cmd_t_001"}],
            "deliverables": [{"name": "a.md", "from_task_id": "t", "accept_if": {"evidence_required": ["x"]}}],
            "policies": {
                "max_reexecute_times": 3,
                "on_blocked": "alert",
                "timeouts": {"dag_review": {"timeout_seconds": 60, "default_decision": "REJECT", "notes": "x"}},
                "release_gates_required": ["build_validation_result.json"],
            },
        },
    ),
    (
        PlanStatus,
        {
            **ABOUT,
            "active_task_dag_sha256": DIGEST,
            "updated_at": AT,
            "blocked_summary": {"INPUT": 1, "REVIEW": 0, "HUMAN": 0},
            "tasks": [
                {"task_id": "t", "assigned_agent_id": "a", "state": "RUNNING", "updated_at": AT, "blocking": None}
            ],
        },
    ),
    (
        ReleaseManifest,
        {
            **ABOUT,
            "release_id": "r",
            "created_at": AT,
            "release_manager_agent_id": "a",
            "artifacts": [{"name": "a.zip", "sha256": DIGEST}],
            "evidence_required": ["build_validation_result.json"],
            "evidence_refs": [{"name": "build_validation_result.json", "sha256": DIGEST}],
            "decision": "APPROVE",
        },
    ),
    (
        StatusHeartbeat,
        {
            "schema_version": "1.0",
            "agent_id": "a",
            "last_heartbeat": AT,
            "health": "HEALTHY",
            "status": "RUNNING",
            "uptime_seconds": 3600,
            "current_plan_ids": ["p"],
            "current_task_ids": ["t"],
            "resource_usage": {"cpu_percent": 12.5},
            "last_error": None,
        },
    ),
    (
        TaskDag,
        {
            "schema_version": "1.1",
            "plan_id": "p",
            "created_at": AT,
            "nodes": [
                {
                    "task_id": "t",
                    "name": "x",
                    "assigned_agent_id": "a",
                    "depends_on": [],
                    "inputs": [
                        {
                            "name": "wish",
                            "selector": {"type": "by_file_name", "value": "wish.md"},
                            "required": True,
                            "pick_policy": "first_seen",
                        }
                    ],
                    "failure_policy": {"on_dependency_failed": "BLOCK", "max_reexecute_times": 3},
                    "gates": {"required": True, "evidence_required": ["r.json"], "thresholds": {"dag_review_min": 80}},
                    "outputs": [
                        {
                            "name": "a.md",
                            "content_type": "text/markdown",
                            "deliver_to": ["b"],
                            "deliverable": True,
                            "idempotency_key": "p:t:a",
                            "versioning": {"mode": "keep_latest", "conflict_policy": "accept_duplicate_if_same_hash"},
                        }
                    ],
                }
            ],
            "routing_rules": [{"match": {"output_name": "a.md"}, "deliver_to": ["b"]}],
        },
    ),
    (
        TaskStateReport,
        {
            **ABOUT,
            "task_id": "t",
            "agent_id": "a",
            "state": "RUNNING",
            "updated_at": AT,
            "message_id": "m",
            "command_id": "cmd_t_001",
            "command_seq": 1,
            "blocking": None,
            "progress": {"percent": 60, "note": "half"},
            "result": None,
        },
    ),
]
"""A document of every kind, with every field that the specification's template of it has."""


@pytest.mark.mends("D6", "D11")
@pytest.mark.parametrize(("kind", "document"), TEMPLATES, ids=lambda each: getattr(each, "__name__", ""))
def test_a_document_in_the_form_of_the_specifications_template_is_read(
    kind: type[Document], document: dict[str, Any]
) -> None:
    read(kind, document)


def test_a_gate_result_that_names_no_artifact_proves_nothing() -> None:
    with pytest.raises(ContractError) as refused:
        ReleaseGateResult.from_json({**GATE, "scope": {"sast": True}})
    assert {problem.field for problem in refused.value.problems} == {"subject"}
