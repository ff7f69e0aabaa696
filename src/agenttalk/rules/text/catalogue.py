"""The one catalogue of texts: every sentence by its id, and messages as JSON.

A document keeps its text in English. Beside a text that is a message stands the same message as JSON, under the name
of the field and `_message` (of a list, `_messages`): `{"id": "verdict.is_missing", "params": {"name": "report"}}`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import JsonError
from agenttalk.rules.text import (
    answer_words,
    change_words,
    check_words,
    cli_words,
    code_words,
    failure_words,
    forge_words,
    mail_words,
    message,
    page_words,
    plan_words,
    prompt_words,
    question_words,
    section_words,
    task_words,
    toolchain_words,
    turn_words,
    verdict_words,
    view_words,
)
from agenttalk.rules.text.message import Message, Parameter, Template

MODULES: Final = (
    message,
    verdict_words,
    task_words,
    failure_words,
    mail_words,
    page_words,
    plan_words,
    prompt_words,
    question_words,
    section_words,
    toolchain_words,
    turn_words,
    change_words,
    check_words,
    cli_words,
    code_words,
    forge_words,
    answer_words,
    view_words,
)


def _sentences() -> Iterator[Template]:
    """Return the sentences of all modules, in tables and beside them."""
    for module in MODULES:
        for entry in vars(module).values():
            if isinstance(entry, Template):
                yield entry
            elif isinstance(entry, MappingProxyType):
                yield from entry.values()


CATALOGUE: Final[Mapping[str, Template]] = MappingProxyType({sentence.id: sentence for sentence in _sentences()})
"""Id → sentence."""
_DEPTH: Final = 32
"""How deep messages may stand in each other in a document."""
_BESIDE: Final = "_message"
_BESIDE_LIST: Final = "_messages"


def to_json(text: Message) -> dict[str, Any]:
    """Return a message as JSON."""
    return {"id": text.id, "params": {name: _value_to_json(value) for name, value in text.params.items()}}


def _value_to_json(value: Parameter) -> Any:
    if isinstance(value, Message):
        return to_json(value)
    return [_value_to_json(part) for part in value] if isinstance(value, tuple) else value


def from_json(body: object, text: str | None = None) -> Message | None:
    """Read a message; `text` is its English as it was stored.

    None if it is not exactly a message of this catalogue: an old or a foreign document has other ids.
    """
    try:
        return _read(body, text, _DEPTH)
    except (KeyError, TypeError, ValueError):
        return None


def _read(body: object, text: str | None, depth: int) -> Message:
    if not isinstance(body, dict) or body.keys() != {"id", "params"} or not isinstance(body["params"], dict):
        raise ValueError
    template = CATALOGUE[body["id"]]
    if body["params"].keys() != template.formats.keys() or not depth:
        raise ValueError
    params = {name: _read_value(value, depth - 1) for name, value in body["params"].items()}
    template.fill(params, "zh")  # a parameter may not fit its place
    return Message(template, params, text)


def _read_value(value: object, depth: int) -> Parameter:
    match value:
        case dict():
            return _read(value, None, depth)
        case list():
            return tuple(part if isinstance(part, str) else _read(part, None, depth) for part in value)
        case str() | int() | float() if not isinstance(value, bool):
            return value
    raise ValueError


def read_text(body: Mapping[str, Any], field: str) -> str:
    """Read the text in a field of a document, as a message if one stands beside it."""
    return from_json(body.get(field + _BESIDE), body[field]) or body[field]


def read_own_text(body: Mapping[str, Any], field: str) -> str:
    """Read the text in a field of a document that another party may have written.

    A message beside it counts only if its English is that text, so that all readers get the same sentence.
    """
    text = read_text(body, field)
    return text if not isinstance(text, Message) or text.template.fill(text.params, "en") == text else str(text)


def to_columns(text: str | None, name: str = "reason") -> dict[str, str | None]:
    """Return a text for a column of a row, and the message for the column beside it, if it is one."""
    message = wire.to_text(to_json(text)) if isinstance(text, Message) else None
    return {name: text, name + _BESIDE: message}


def read_column(reason: str | None, message: str | None) -> str | None:
    """Read what `to_columns` wrote."""
    if reason is None or message is None:
        return reason
    try:
        return from_json(wire.read(message.encode()), reason) or reason
    except JsonError:
        return reason


def with_messages(value: Any) -> Any:
    """Return a JSON value with every message of it beside its text."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, list | tuple):
        return [with_messages(part) for part in value]
    if not isinstance(value, Mapping):
        return value
    body: dict[str, Any] = {}
    for name, part in value.items():
        body[name] = with_messages(part)
        if isinstance(part, Message):
            body[name + _BESIDE] = to_json(part)
        elif isinstance(part, list | tuple) and any(isinstance(text, Message) for text in part):
            body[name + _BESIDE_LIST] = [to_json(text) if isinstance(text, Message) else None for text in part]
    return body


def restore_messages(value: Any) -> Any:
    """Return a JSON value in which texts with a message beside them are messages again; others stay as they are."""
    if isinstance(value, list):
        return [restore_messages(part) for part in value]
    if not isinstance(value, dict):
        return value
    body = {name: restore_messages(part) for name, part in value.items()}
    for name in [name for name in body if name.endswith((_BESIDE, _BESIDE_LIST))]:
        field = name.removesuffix(_BESIDE_LIST).removesuffix(_BESIDE)
        restored = _restore(value.get(field), value[name])
        if restored is not None:
            body[field] = restored
            del body[name]
    return body


def _restore(text: object, beside: object) -> str | list[str] | None:
    """Return what stands in a field as messages; None if that is not what stands beside it."""
    if isinstance(text, str):
        return from_json(beside, text)
    if not isinstance(text, list) or not isinstance(beside, list) or len(text) != len(beside):
        return None
    if not all(isinstance(part, str) for part in text):
        return None
    return [part if body is None else from_json(body, part) or part for part, body in zip(text, beside, strict=True)]
