"""JSON Schemas made from the types of answers: records, documents, lists, literals, unions and plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, Final, Literal, NotRequired, Required, TypeAlias, Union, get_args, get_origin, get_type_hints
from typing import is_typeddict as is_typed_dict

from pydantic import BaseModel

from agenttalk.contracts.core.field_docs import DocumentedJsonSchema

Schema: TypeAlias = dict[str, Any]
REFERENCE: Final = "#/components/schemas/{model}"
_PLAIN: Final[Mapping[Any, Schema]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    NoneType: {"type": "null"},
    Any: {},
    object: {},
}
_OBJECTS: Final = (dict, Mapping)


def build_schema(answer: Any, definitions: dict[str, Schema]) -> Schema:
    """Return the schema of a type. Each record in it is added to `definitions` and referred to by its name.

    A record is a TypedDict, or a dataclass or a NamedTuple whose JSON has all of its fields. A document is a model.
    """
    if answer in _PLAIN:
        return dict(_PLAIN[answer])
    if isinstance(answer, type) and issubclass(answer, BaseModel):
        return _refer_to_document(answer, definitions)
    if is_typed_dict(answer) or is_dataclass(answer) or hasattr(answer, "_fields"):
        return _refer_to(answer, definitions)
    if isinstance(answer, type) and issubclass(answer, StrEnum):
        return {"type": "string"}
    origin, arguments = get_origin(answer), get_args(answer)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, UnionType):
        return {"anyOf": [build_schema(option, definitions) for option in arguments]}
    if answer in _OBJECTS or origin in {*_OBJECTS, Mapping}:
        values = build_schema(arguments[1], definitions) if arguments else {}
        return {"type": "object", **({"additionalProperties": values} if values else {})}
    items = build_schema(arguments[0], definitions) if arguments else {}
    return {"type": "array", **({"items": items} if items else {})}


def _refer_to_document(model: type[BaseModel], definitions: dict[str, Schema]) -> Schema:
    schema = model.model_json_schema(ref_template=REFERENCE, schema_generator=DocumentedJsonSchema)
    definitions |= schema.pop("$defs", {})
    definitions[model.__name__] = schema
    return {"$ref": REFERENCE.format(model=model.__name__)}


def _refer_to(model: Any, definitions: dict[str, Schema]) -> Schema:
    name = model.__name__
    if name not in definitions:
        definitions[name] = {}  # a model may contain itself
        hints = get_type_hints(model, include_extras=True)
        optional = {field for field, hint in hints.items() if get_origin(hint) is NotRequired}
        definitions[name] = {
            "type": "object",
            "required": sorted(hints.keys() - optional),
            "properties": {field: build_schema(_strip(hint), definitions) for field, hint in hints.items()},
        }
    return {"$ref": REFERENCE.format(model=name)}


def _strip(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) in {NotRequired, Required} else hint
