"""JSON Schemas made from the types of answers: TypedDicts, lists, literals, unions and plain values."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Final, Literal, NotRequired, Required, TypeAlias, Union, get_args, get_origin, get_type_hints
from typing import is_typeddict as is_typed_dict

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
    """Return the schema of a type. Each TypedDict in it is added to `definitions` and referred to by its name."""
    if answer in _PLAIN:
        return dict(_PLAIN[answer])
    if is_typed_dict(answer):
        return _refer_to(answer, definitions)
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
