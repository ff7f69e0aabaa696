"""What the engine serves is what its OpenAPI document says, whatever anybody sends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jsonschema
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS as KNOWN
from schemathesis.checks import load_all_checks
from schemathesis.core.result import Ok

from agenttalk.contracts.core.wire import JsonObject
from agenttalk.contracts.human import HumanInterventionResponse
from agenttalk.doors.api.problems import JSON
from agenttalk.doors.api.route_table import MCP_ROUTE, ROUTES
from agenttalk.doors.api.schemas import build_schema
from agenttalk.engine.core.access import Token
from agenttalk.engine.operation.monitor import MonitorReport
from doors.api.enginekit import until
from effort import cases
from engine.toolchain.kits.bench import REPORTS, Bench, served, written
from kits.sandboxkit import PLAIN_VARIABLE

load_all_checks()
CHECKS: Any = [
    KNOWN.get_one(name)
    for name in (
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_schema_conformance",
    )
]
KEEPS = f"""{REPORTS}
import pathlib, time
pathlib.Path(os.environ["KEPT"]).write_text(os.environ["AGENTTALK_TOKEN"] + " " + task)
time.sleep(3000)
"""
"""An agent that tells us its token, and works on."""


@dataclass(frozen=True)
class At:
    """An engine with an agent at work, and the tokens of both."""

    engine: Bench
    operator: str
    agent: str
    task: str

    def get(self, path: str) -> dict[str, Any]:
        status, answer = self.engine.get(path, self.operator)
        assert status == 200, answer
        return answer


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[At]:
    folder = tmp_path_factory.mktemp("openapi")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KEPT", str(folder / "kept"))
        patch.setenv(PLAIN_VARIABLE, "plain")  # it hands its token out, which a sandbox would not let it do
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        root = written(folder / "root", {"agent-reviewer": KEEPS})
        text = (root / "agenttalk.toml").read_text()
        (root / "agenttalk.toml").write_text(
            text.replace("[agents.agent-reviewer]\n", '[agents.agent-reviewer]\nenv = ["KEPT"]\n')
        )
        with served(root) as found:
            found.told("gitea/review_request")
            kept = until(lambda: (folder / "kept").exists() and (folder / "kept").read_text(), "the agent works")
            token, task = kept.split()
            yield At(found, found.operator_token(), token, task)


def test_the_document_is_one_and_names_every_route(at: At) -> None:
    document = at.get("/api/openapi.json")
    assert document["openapi"] == "3.1.0"
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            for each in operation["responses"].values():
                for content in each["content"].values():
                    schema = {**content["schema"], "components": document["components"]}
                    jsonschema.Draft202012Validator.check_schema(schema)
            if path not in {"/healthz", "/readyz"} and "{name}" not in path:
                assert operation["x-roles"], f"{method} {path} says who may take it"
    names = {name for operations in document["paths"].values() for each in operations.values() for name in each}
    assert names <= {"summary", "parameters", "responses", "security", "requestBody", "x-roles"}


@pytest.mark.rest_but("agent")
@pytest.mark.random
@pytest.mark.parametrize("role", ["operator", "agent"])
def test_no_request_breaks_it_and_answers_are_as_described(at: At, role: str) -> None:
    token = at.operator if role == "operator" else at.agent
    schema = schemathesis.openapi.from_dict(at.get("/api/openapi.json"))
    known = {"id": "_toolchain", "task": at.task, "board": "_toolchain", "name": "wh-1", "action": "pause"}
    tried = 0
    for found in schema.get_all_operations():
        assert isinstance(found, Ok), found
        operation = found.ok()
        if role == "agent" and "agent" not in operation.definition.raw.get("x-roles", ["agent"]):
            continue
        if operation.path == "/api/events":
            continue  # it has no end
        tried += 1
        strategies = [operation.as_strategy(mode) for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)]

        @settings(
            max_examples=cases(4 if operation.body else 2),
            derandomize=True,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(st.one_of(strategies), st.booleans())
        def ask(case: Any, real: bool) -> None:
            if real and case.path_parameters:
                case.path_parameters.update({name: known[name] for name in case.path_parameters if name in known})
            answer = case.call(base_url=at.engine.url, headers={"Authorization": f"Bearer {token}"}, timeout=30)
            case.validate_response(answer, checks=CHECKS)

        ask()
    assert tried >= (40 if role == "operator" else 3)
    shown = at.get("/api/toolchain/tasks")["tasks"]
    assert [each["status"] for each in shown] == ["working"], "nothing that was sent did harm"


def test_every_answer_has_a_type_that_names_its_fields() -> None:
    free = [f"{spec.method} {spec.path}" for spec in ROUTES
            if spec.answer is JsonObject and spec.media == JSON and not spec.is_refused and spec is not MCP_ROUTE]  # fmt: skip
    assert free == []


def test_schemas_are_made_from_records_rows_and_documents() -> None:
    definitions: dict[str, Any] = {}
    assert build_schema(MonitorReport | Token, definitions) == {
        "anyOf": [{"$ref": "#/components/schemas/MonitorReport"}, {"$ref": "#/components/schemas/Token"}]
    }
    assert definitions["Token"]["required"] == ["at", "id", "name", "revoked_at", "role"]
    assert definitions["MonitorReport"]["properties"]["lost"] == {"type": "integer"}
    build_schema(HumanInterventionResponse, definitions)
    assert definitions["HumanInterventionResponse"]["properties"]["decision"]
