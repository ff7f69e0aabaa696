"""Reads the docstrings of fields from the source, for JSON Schemas.

Reading them takes as long as the rest of a short command, so it is done only on demand.
"""

from __future__ import annotations

import ast
import inspect
import sys
from functools import lru_cache
from itertools import pairwise
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue


def read_field_docs(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstrings of the fields of a model, by field."""
    said: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        said |= _classes(kind.__module__).get(kind.__qualname__, {}) if issubclass(kind, BaseModel) else {}
    given = {name: field.description for name, field in model.model_fields.items()}
    return {name: text for name in given if (text := given[name] or said.get(name))}


class DocumentedJsonSchema(GenerateJsonSchema):
    """Makes JSON Schemas with the docstrings of fields."""

    def model_schema(self, schema: Any) -> JsonSchemaValue:
        """Return the schema of a model."""
        found, model = super().model_schema(schema), schema["cls"]
        properties = found.get("properties", {})
        for name, text in read_field_docs(model).items():
            field = model.model_fields[name]
            spellings = (field.validation_alias, field.alias, name)
            spelled = next(each for each in spellings if isinstance(each, str) and each in properties)
            properties[spelled]["description"] = text
        return found


@lru_cache(maxsize=128)
def _classes(module: str) -> dict[str, dict[str, str]]:
    """Return the docstrings in a module, by class and field."""
    found: dict[str, dict[str, str]] = {}

    def read(body: list[ast.stmt], above: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef):
                name = f"{above}{node.name}"
                found[name] = dict(_field_texts(node.body))
                read(node.body, f"{name}.")

    read(ast.parse(inspect.getsource(sys.modules[module])).body, "")
    return found


def _field_texts(body: list[ast.stmt]) -> list[tuple[str, str]]:
    return [
        (field.target.id, inspect.cleandoc(text.value.value))
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    ]
