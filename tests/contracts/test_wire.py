"""Strict reading, canonical writing, hashing."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

import pytest
from hypothesis import given

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import Code, JsonError
from kits.samples import json_values


def refusal(data: bytes, limit: int = wire.ENVELOPE_LIMIT) -> Code:
    with pytest.raises(JsonError) as caught:
        wire.read(data, limit=limit)
    return caught.value.code


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", Code.JSON_SYNTAX),
        (b"{", Code.JSON_SYNTAX),
        (b"{'a': 1}", Code.JSON_SYNTAX),
        (b'{"a": 1,}', Code.JSON_SYNTAX),
        (b'{"a": 1} {"a": 2}', Code.JSON_SYNTAX),
        (b'"\xff"', Code.JSON_SYNTAX),
        (b"\xef\xbb\xbf{}", Code.JSON_SYNTAX),
        ('{"a": 1}'.encode("utf-16"), Code.JSON_SYNTAX),
        (b'"a\nb"', Code.JSON_SYNTAX),
        (b"NaN", Code.JSON_NUMBER),
        (b"[Infinity]", Code.JSON_NUMBER),
        (b"-Infinity", Code.JSON_NUMBER),
        (b"1e999", Code.JSON_NUMBER),
        (b"-1e999", Code.JSON_NUMBER),
        (b"1" * 5000, Code.JSON_NUMBER),
        (b'{"a": 1, "a": 1}', Code.JSON_DUPLICATE_KEY),
        (b'[{"b": {"a": 1, "c": 2, "a": 3}}]', Code.JSON_DUPLICATE_KEY),
        (b'{"a": 1, "\\u0061": 2}', Code.JSON_DUPLICATE_KEY),
        (b'"\\ud800"', Code.JSON_TEXT),
        (b'{"\\udfff": 1}', Code.JSON_TEXT),
        (b'["a", {"b": ["\\uDEAD x"]}]', Code.JSON_TEXT),
        (b"[" * 65 + b"]" * 65, Code.JSON_TOO_DEEP),
        (b'{"a":' * 65 + b"1" + b"}" * 65, Code.JSON_TOO_DEEP),
        (b"[" * 500_000, Code.JSON_TOO_DEEP),
    ],
    ids=range(24),
)
def test_what_two_readers_could_take_differently_is_refused(data: bytes, code: Code) -> None:
    assert refusal(data) is code


def test_a_document_over_its_limit_is_refused_before_it_is_parsed() -> None:
    assert refusal(b" " * 11, limit=10) is Code.JSON_TOO_LARGE
    assert wire.read(b'"' + b"a" * 8 + b'"', limit=10) == "a" * 8


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"[" * 64 + b"]" * 64, None),
        (b'"\\ud83d\\ude00"', "😀"),
        ('"中文 \u2028 \u202e é"'.encode(), "中文 \u2028 \u202e é"),
        (b" \n\t{}\r", {}),
        (b"-0.5e-3", -0.0005),
        (b"9007199254740993", 9007199254740993),
        (b'"' + b"[{" * 100 + b'"', "[{" * 100),
    ],
    ids=range(7),
)
def test_unusual_but_clear_documents_are_read(data: bytes, value: Any) -> None:
    read = wire.read(data)
    assert value is None or read == value


@given(json_values)
def test_what_is_written_reads_back_the_same(value: Any) -> None:
    assert wire.read(wire.write(value)) == value


@given(json_values)
def test_equal_values_have_equal_bytes_whatever_their_order(value: Any) -> None:
    shuffled = json.loads(json.dumps(value), object_pairs_hook=lambda pairs: dict(reversed(pairs)))
    assert wire.write(shuffled) == wire.write(value)


def test_the_canonical_form_is_what_other_languages_can_make_too() -> None:
    value = {"b": [1, 2.5, None, True], "a": {"é": "中", "z": '"\\\n'}, "_": {}}
    expected = b'{"_":{},"a":{"z":"\\"\\\\\\n","\xc3\xa9":"\xe4\xb8\xad"},"b":[1,2.5,null,true]}'
    assert wire.write(value) == expected


def loop() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (math.nan, Code.JSON_NUMBER),
        ([math.inf], Code.JSON_NUMBER),
        (10**4001, Code.JSON_NUMBER),
        ("\ud800", Code.JSON_TEXT),
        ({"\udfff": 1}, Code.JSON_TEXT),
        (["\ud800"], Code.JSON_TEXT),
        ({1: 2}, Code.JSON_VALUE),
        ({"a": b"bytes"}, Code.JSON_VALUE),
        ({"a": {1, 2}}, Code.JSON_VALUE),
        (object(), Code.JSON_VALUE),
        (loop(), Code.JSON_TOO_DEEP),
    ],
    ids=range(11),
)
def test_python_values_that_json_cannot_hold_are_refused(value: Any, code: Code) -> None:
    with pytest.raises(JsonError) as caught:
        wire.require_json(value)
    assert caught.value.code is code


@pytest.mark.parametrize("value", [math.nan, "\ud800", {"a": b"bytes"}, loop(), 10**5000], ids=range(5))
def test_they_cannot_be_written_either(value: Any) -> None:
    with pytest.raises(JsonError) as caught:
        wire.write(value)
    assert caught.value.code is Code.JSON_VALUE


@given(json_values)
def test_every_json_value_is_taken(value: Any) -> None:
    wire.require_json(value)
    wire.require_json((value, 1.5, 3, False))
    assert wire.read(wire.write([value])) == [value]


@pytest.mark.parametrize("value", [None, True, 3, 1.5, "text", "中文"])
def test_a_single_value_is_json_too(value: Any) -> None:
    wire.require_json(value)
    assert wire.read(wire.write(value)) == value


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_python_values_may_be_as_deep_as_documents() -> None:
    wire.require_json(nested(64))
    with pytest.raises(JsonError) as caught:
        wire.require_json(nested(65))
    assert caught.value.code is Code.JSON_TOO_DEEP


@pytest.mark.parametrize("quick", [True, False])
def test_it_is_written_the_same_without_the_quick_encoder(monkeypatch: pytest.MonkeyPatch, *, quick: bool) -> None:
    value = {"b": [1, 2.5, None, True], "a": {"ü": '\n\u2028\\"', "1": {}}}
    if not quick:
        monkeypatch.setattr(json.encoder, "c_make_encoder", None)
    written = wire._encoder()(value)
    assert written == json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    assert written.encode() == wire.write(value)


def test_hashes_are_those_of_the_bytes() -> None:
    assert wire.sha256(b"abc") == "sha256:" + hashlib.sha256(b"abc").hexdigest()


LONG = "x" * 70_000
"""Makes a document so large that keys are counted instead of compared."""


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"long": "%s", "a": 1, "a": 2}', Code.JSON_DUPLICATE_KEY),
        ('{"long":"%s","b":[{"a":1,"a":2}]}', Code.JSON_DUPLICATE_KEY),
        ('{"long":"%s","a" :1,"a":": "}', Code.JSON_DUPLICATE_KEY),
        ('{"long":"%s","a":1,"a" :2}', Code.JSON_DUPLICATE_KEY),
        ('{"long":"%s","a":1,"a"\n:2,"b":":x"}', Code.JSON_DUPLICATE_KEY),
        ('{"long":"%s","a":1e999}', Code.JSON_NUMBER),
        ('{"long":"%s","a":NaN}', Code.JSON_NUMBER),
        ('{"long":"%s","a":1', Code.JSON_SYNTAX),
    ],
    ids=range(8),
)
def test_large_documents_are_read_as_strictly_as_small_ones(text: str, code: Code) -> None:
    assert refusal((text % LONG).encode()) is code


@pytest.mark.parametrize(
    "value",
    [
        {"a": ":", "b": '":', "c": {"a": 1}},
        {'":': '":"', "\\": "\\", "a:": [{"b": ":"}]},
        [{"a": "}{]["}, {"a": '"[', "b": "\\"}] * 40,
    ],
    ids=range(3),
)
@pytest.mark.parametrize("style", [{}, {"indent": 2}, {"separators": (" ,", " :")}], ids=["usual", "indented", "wide"])
def test_large_documents_may_hold_colons_quotes_and_brackets(value: Any, style: dict[str, Any]) -> None:
    whole = {"long": LONG, "value": value}
    assert wire.read(json.dumps(whole, **style).encode()) == whole


def deep(levels: int, inside: str = "1") -> str:
    return "[" * levels + inside + "]" * levels


@pytest.mark.parametrize("before", ["", '"]",' * 70, '"\\"]",' * 70, '{"a":[]},' * 70], ids=range(4))
def test_depth_is_not_hidden_by_texts_or_by_many_brackets(before: str) -> None:
    assert wire.read(f"[{before}{deep(63)}]".encode())
    assert refusal(f"[{before}{deep(64)}]".encode()) is Code.JSON_TOO_DEEP
    mixed = f"[{before}" + '[{"a":' * 32 + "1" + "}]" * 32 + "]"
    assert refusal(mixed.encode()) is Code.JSON_TOO_DEEP


def test_brackets_in_texts_do_not_make_up_for_real_ones() -> None:
    hidden = '["]",' * 64 + "1" + ',"["]' * 64
    assert refusal(f"[{hidden}]".encode()) is Code.JSON_TOO_DEEP
    escaped = '["\\"]\\"",' * 64 + "1" + ',"\\"[\\""]' * 64
    assert refusal(f"[{escaped}]".encode()) is Code.JSON_TOO_DEEP


def test_documents_that_are_put_together_are_those_that_are_written_at_once() -> None:
    value: dict[str, Any] = {"b": [1, "ü\n"], "a": {"x": None}}
    assert wire.encode(wire.object_of({name: wire.to_text(each) for name, each in value.items()})) == wire.write(value)


@pytest.mark.parametrize("value", [float("nan"), {1: 2, "x": 3}, object()], ids=["nan", "mixed keys", "no JSON"])
def test_what_is_no_json_cannot_be_put_together_either(value: Any) -> None:
    with pytest.raises(JsonError) as caught:
        wire.to_text(value)
    assert caught.value.code is Code.JSON_VALUE


def test_half_characters_are_found_when_a_text_becomes_bytes() -> None:
    with pytest.raises(JsonError) as caught:
        wire.encode(wire.to_text("\ud800"))
    assert caught.value.code is Code.JSON_VALUE
