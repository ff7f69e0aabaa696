"""The OpenAPI document of the HTTP API, made from the route table."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any, Final

from pydantic import BaseModel

from agenttalk.contracts.core.field_docs import DocumentedJsonSchema
from agenttalk.doors.api import bodies
from agenttalk.doors.api.problems import JSON, PROBLEM
from agenttalk.doors.api.route import RouteSpec
from agenttalk.doors.api.schemas import REFERENCE, Schema, build_schema

_PARAMETER: Final = re.compile(r"{(\w+)}")
_TEXT: Final[Schema] = {"type": "string"}
_NUMBER: Final[Schema] = {"type": "integer", "minimum": 0}
PROBLEM_SCHEMA: Final[Schema] = {
    "type": "object",
    "required": ["type", "title", "status", "code", "detail", "hint"],
    "properties": {
        "type": {"type": "string", "pattern": "^urn:agenttalk:[A-Z_0-9]+$"},
        "title": _TEXT,
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "code": {"type": "string", "pattern": "^[A-Z_0-9]+$"},
        "detail": _TEXT,
        "hint": _TEXT,
        "problems": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["code", "field", "hint", "message"],
                "properties": dict.fromkeys(("code", "field", "message", "hint"), _TEXT),
            },
        },
    },
}


def build_document(routes: Iterable[RouteSpec]) -> Schema:
    """Return the OpenAPI document of routes."""
    schemas: dict[str, Schema] = {"Problem": PROBLEM_SCHEMA}
    paths: dict[str, Schema] = {}
    for spec in routes:
        path = spec.shown_path or spec.path
        paths.setdefault(path, {})[spec.method.lower()] = _describe(spec, path, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "AgentTalk",
            "version": version("agenttalk"),
            "description": "The HTTP API of an engine. Errors are problem+json with a code.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "signature": {"type": "apiKey", "in": "header", "name": "X-Hub-Signature-256"},
            },
        },
    }


def _describe(spec: RouteSpec, path: str, schemas: dict[str, Schema]) -> Schema:
    schema = build_schema(spec.answer, schemas) if spec.media == JSON and not spec.is_refused else {}
    answer = {"description": "The answer.", "content": {spec.media: {"schema": schema}}}
    refusal = {
        "description": "The request is refused.",
        "content": {PROBLEM: {"schema": {"$ref": REFERENCE.format(model="Problem")}}},
    }
    operation: Schema = {
        "summary": spec.summary,
        "parameters": list(_list_parameters(spec, path)),
        "responses": {
            **{str(status): refusal if status == 403 else answer for status in spec.statuses},
            "default": refusal,
        },
        "security": _list_security(spec),
    }
    if spec.roles:
        operation["x-roles"] = list(spec.roles)
    if spec.body is not None:
        body = _build_body_schema(spec.body)
        schemas |= body.pop("$defs", {})
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": body}}}
    return operation


def _list_parameters(spec: RouteSpec, path: str) -> Iterable[Schema]:
    for name in _PARAMETER.findall(path):
        yield {"name": name, "in": "path", "required": True, "schema": _TEXT}
    for name in spec.query:
        yield {"name": name, "in": "query", "required": False, "schema": _TEXT if name in spec.filters else _NUMBER}
    if spec.method == "POST" and "operator" in spec.roles:
        key = {"type": "string", "minLength": 1, "maxLength": bodies.LONGEST_KEY}
        yield {"name": "Idempotency-Key", "in": "header", "required": False, "schema": key}


def _list_security(spec: RouteSpec) -> list[Schema]:
    if spec.roles:
        return [{"token": []}]
    return [{"signature": []}] if spec.method == "POST" else []


def _build_body_schema(body: Any) -> Schema:
    if isinstance(body, type) and issubclass(body, BaseModel):
        return body.model_json_schema(ref_template=REFERENCE, schema_generator=DocumentedJsonSchema)
    return {"type": "object"}
