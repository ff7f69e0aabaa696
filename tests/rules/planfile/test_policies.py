"""What a plan file says of its review and release, and everything that is wrong with that."""

from __future__ import annotations

from typing import Any

import pytest

from agenttalk.contracts.errors import ContractError
from agenttalk.contracts.planfile import reader
from agenttalk.contracts.planfile.yaml_text import YamlSource
from agenttalk.rules.planfile.compiler import CompiledPlan, compile_plan

MAKE = {"id": "make", "agent": "dev", "prompt": "Make it.", "outputs": [{"name": "app", "deliverable": True}]}
SCAN = {"id": "scan", "agent": "sec", "prompt": "Scan it.", "outputs": [{"name": "security_gate_result.json"}]}
AGENTS = {name: {"driver": "python"} for name in ("dev", "sec", "qa")}
RUN = {"kind": "run", "run": "make"}


def compiled(*tasks: dict[str, Any], **keys: Any) -> CompiledPlan:
    document = {"plan_id": "p", "agents": AGENTS, "tasks": list(tasks or (MAKE, SCAN)), **keys}
    return compile_plan(reader.plan_of(YamlSource(document)))


def problems(*tasks: dict[str, Any], **keys: Any) -> list[tuple[str, str]]:
    return [(str(each.code), each.field) for each in compiled(*tasks, **keys).problems]


def test_a_plan_without_either_has_neither() -> None:
    policies = compiled().manifest.policies
    assert (policies.release, policies.review, policies.release_gates_required) == (None, None, ())


def test_gates_are_required_as_they_are_described() -> None:
    release = {"gates": {"build": RUN, "security": {"validator": "sec"}}, "accepted_by": ["qa"]}
    done = compiled(release=release, review={"reviewers": ["qa"], "min_score": 80})
    assert done.problems == ()
    policies = done.manifest.policies
    assert policies.release_gates_required == ("build", "security")
    assert policies.release is not None
    assert policies.release.gates["build"].on == "artifacts"
    assert [(each.name, each.from_task_id) for each in policies.release.deliverables] == [("app", "make")]
    assert policies.review is not None
    assert policies.review.min_score == 80


def test_only_some_may_be_required_and_shipped() -> None:
    more = {**MAKE, "outputs": [*MAKE["outputs"], {"name": "log", "deliver_to": ["qa"]}]}
    gates = {"build": {**RUN, "on": "tip"}, "smoke": RUN}
    done = compiled(
        {**more, "workspace": "repo"},
        release={"gates": gates, "deliverables": ["log"]},
        policies={"release_gates_required": ["build"]},
        workspace={"repo": "."},
    )
    assert done.problems == ()
    assert done.manifest.policies.release_gates_required == ("build",)
    assert done.manifest.policies.release is not None
    assert done.manifest.policies.release.gates["smoke"].on == "tip"
    assert [each.name for each in done.manifest.policies.release.deliverables] == ["log"]


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        ({"policies": {"release_gates_required": ["build"]}}, ("FIELD_MISSING", "policies.release_gates_required[0]")),
        (
            {"policies": {"release_gates_required": ["build", "build"]}, "release": {"gates": {"build": RUN}}},
            ("NAME_TAKEN", "policies.release_gates_required[1]"),
        ),
        ({"release": {"deliverables": ["ap"]}}, ("NAME_UNKNOWN", "release.deliverables[0]")),
        ({"release": {"accepted_by": ["nobody"]}}, ("DAG_AGENT_UNKNOWN", "release.accepted_by[0]")),
        ({"release": {"accepted_by": ["dev"]}}, ("JUDGE_NOT_TRUSTED", "release.accepted_by[0]")),
        ({"release": {"gates": {"x": {}}}}, ("FIELD_VALUE", "release.gates.x")),
        ({"release": {"gates": {"x": {**RUN, "validator": "sec"}}}}, ("FIELD_VALUE", "release.gates.x")),
        ({"release": {"gates": {"x": {"kind": "report"}}}}, ("FIELD_VALUE", "release.gates.x.kind")),
        ({"release": {"gates": {"x": {**RUN, "on": "tip"}}}}, ("FIELD_VALUE", "release.gates.x.on")),
        (
            {"release": {"gates": {"security": {"validator": "dev"}}}},
            ("JUDGE_NOT_TRUSTED", "release.gates.security.validator"),
        ),
        ({"release": {"gates": {"e2e": {"validator": "sec"}}}}, ("FIELD_VALUE", "release.gates.e2e.validator")),
        (
            {"policies": {"timeouts": {"release_gate": {"timeout_seconds": 1, "default_decision": "approve"}}}},
            ("FIELD_VALUE", "policies.timeouts.release_gate.default_decision"),
        ),
        (
            {"policies": {"timeouts": {"dag_review": {"timeout_seconds": 1, "default_decision": "YES"}}}},
            ("FIELD_VALUE", "policies.timeouts.dag_review.default_decision"),
        ),
        ({"review": {"reviewers": []}}, ("FIELD_MISSING", "review.reviewers")),
        ({"review": {"reviewers": ["qa", "qa"]}}, ("NAME_TAKEN", "review.reviewers[1]")),
        ({"review": {"reviewers": ["nobody"]}}, ("DAG_AGENT_UNKNOWN", "review.reviewers[0]")),
        (
            {"review": {"reviewers": ["qa"]}, "policies": {"planner": "qa"}},
            ("JUDGE_NOT_TRUSTED", "review.reviewers[0]"),
        ),
        (
            {"review": {"reviewers": ["qa"], "coordinator": "dev"}, "policies": {"planner": "dev"}},
            ("JUDGE_NOT_TRUSTED", "review.coordinator"),
        ),
    ],
)
def test_what_is_wrong_is_named(keys: dict[str, Any], found: tuple[str, str]) -> None:
    assert found in problems(**keys)


def test_a_plan_that_ships_nothing_cannot_be_released() -> None:
    assert ("FIELD_MISSING", "release.deliverables") in problems({**SCAN, "agent": "dev"}, release={})


def test_defaults_of_deciding_that_are_fine() -> None:
    limits = {
        "release_gate": {"timeout_seconds": 1, "default_decision": "REJECT"},
        "dag_review": {"timeout_seconds": 9},
    }
    assert problems(policies={"timeouts": limits}) == []


@pytest.mark.parametrize(
    ("keys", "field"),
    [
        ({"release": {"gates": {"build": {"kind": "run", "run": "x", "runs": 1}}}}, "release.gates.build.runs"),
        ({"release": {"gates": {"build": {"valid": "x"}}}}, "release.gates.build.valid"),
        ({"release": {"gates": {"build": {"check": RUN}}}}, "release.gates.build.check "),
        ({"release": {"gates": {"build": 3}}}, "release.gates.build"),
        ({"release": {"gates": 3}}, "release.gates"),
        ({"release": {"gates": {"build": {"kind": "runn", "run": "x"}}}}, "release.gates.build.kind"),
        ({"release": {"gate": {}}}, "release.gate"),
        ({"review": {"reviewer": "x"}}, "review.reviewer"),
        ({"policies": {"release": {}}}, "policies.release"),
    ],
)
def test_keys_that_nobody_knows_are_named(keys: dict[str, Any], field: str) -> None:
    with pytest.raises(ContractError) as raised:
        compiled(**keys)
    assert field in [each.field for each in raised.value.problems]
