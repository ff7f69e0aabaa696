"""Secrets are found in every usual spelling."""

from __future__ import annotations

import base64
import json
import shlex
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agenttalk.rules.core import redaction
from agenttalk.rules.core.redaction import NO_SECRETS, Secrets
from agenttalk.rules.text import turn_words
from agenttalk.rules.text.catalogue import to_json
from agenttalk.rules.text.message import LOCALES, Message, join, render

CANARY = "sk-c4n/ary+ü&=9 7\"x'"
KNOWN = Secrets({"API_KEY": CANARY})


@pytest.mark.parametrize(
    "said",
    [
        CANARY,
        json.dumps({"key": CANARY}),
        json.dumps({"key": CANARY}, ensure_ascii=False),
        json.dumps(CANARY).replace("/", "\\/"),
        repr(CANARY),
        shlex.quote(CANARY),
        quote(CANARY),
        quote(CANARY, safe=""),
        quote_plus(CANARY),
        quote(CANARY, safe="").lower().replace(CANARY.lower(), CANARY),
        CANARY.encode().hex(),
        CANARY.encode().hex().upper(),
        base64.b64encode(CANARY.encode()).decode(),
        base64.urlsafe_b64encode(f"user:{CANARY}".encode()).decode(),
        base64.b64encode(f"u:{CANARY}@host".encode()).decode(),
    ],
)
def test_every_usual_spelling_is_made_unreadable(said: str) -> None:
    for text in (said, f"before {said} after"):
        assert KNOWN.redact(text) != text
        assert "[redacted API_KEY]" in KNOWN.redact(text)
        assert KNOWN.find_name(text.encode()) == "API_KEY"
        assert KNOWN.redact_bytes(text.encode()) == KNOWN.redact(text).encode()


def test_masking_keeps_every_offset() -> None:
    known = Secrets({"KEY": "abcdef-secret", "LONGER": "abcdef-secret-and-more"})
    said = b'{"a": "abcdef-secret-and-more", "b": "abcdef-secret"}\nnext'
    shown = known.mask_bytes(said)
    assert shown == b'{"a": "%s", "b": "%s"}\nnext' % (b"*" * 22, b"*" * 13)
    assert NO_SECRETS.mask_bytes(said) == said


def test_a_message_loses_them_in_both_languages_and_stays_one() -> None:
    known = Secrets({"API_KEY": "it's-a-secret"})
    said = join([turn_words.NOT_STARTED["missing"](program="\"it's-a-secret"), turn_words.EXIT(code=7)])
    shown = known.redact(said)
    assert [render(shown, language).count("[redacted API_KEY]") for language in LOCALES] == [1, 1]
    assert "s-a-secret" not in f"{shown}{render(shown, 'zh')}{to_json(shown) if isinstance(shown, Message) else '?'}"
    fine = turn_words.EXIT(code=7)
    assert known.redact(fine) is fine


def test_json_values_lose_them_wherever_they_stand() -> None:
    said = {"a": [1, CANARY, None], CANARY: {"b": (f"x{CANARY}", True)}}
    assert KNOWN.redact_json(said) == {
        "a": [1, "[redacted API_KEY]", None],
        "[redacted API_KEY]": {"b": ("x[redacted API_KEY]", True)},
    }


def test_without_secrets_nothing_changes() -> None:
    assert not NO_SECRETS
    assert (NO_SECRETS.redact("a"), NO_SECRETS.redact_bytes(b"a"), NO_SECRETS.redact_json(["a"])) == ("a", b"a", ["a"])
    assert (NO_SECRETS.find_name(b"a"), NO_SECRETS.longest) == (None, 0)
    assert KNOWN.longest >= 2 * len(CANARY)
    assert KNOWN.find_name(b"nothing here") is None


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("OPENAI_API_KEY", "sk-123456", True),
        ("WHATEVER", "hunter22", True),
        ("DEBUG", "1", False),
        ("HOME", "/home/ada", False),
        ("LC_CTYPE", "en_US.UTF-8", False),
        ("OPENAI_BASE_URL", "http://localhost:8080/v1", False),
        ("DATABASE_URL", "postgres://ada:hunter2@db/shop", True),
        ("NODE_ENV", "production", False),
    ],
)
def test_what_is_a_secret_follows_from_its_name_and_its_length(name: str, value: str, secret: bool) -> None:
    assert redaction.is_secret(name, value) is secret
    assert bool(redaction.collect_secrets({name: value})) is secret


def test_a_secret_is_not_shown_by_what_holds_it() -> None:
    assert CANARY not in repr(KNOWN)


@given(st.text(min_size=6, max_size=40), st.binary(max_size=8), st.binary(max_size=8))
@example("0" * 6, b"", b"")
def test_any_text_is_found_in_base64_whatever_stands_around_it(value: str, before: bytes, after: bytes) -> None:
    try:
        raw = value.encode()
    except UnicodeEncodeError:
        return
    known = Secrets({"X": value})
    assert known.find_name(before + raw + after) == "X"
    if len(raw) >= 8:
        assert known.find_name(base64.b64encode(before + raw + after)) == "X"
    assert value not in known.redact(f"a{value}b") or value in "[redacted X]"


def test_of_a_token_only_what_nobody_could_guess_is_kept_secret() -> None:
    assert redaction.extract_secret_part("agt_eyJ0YXNrIjoxfQ.s3cr3t") == "s3cr3t"
    assert redaction.extract_secret_part("op_token") == "op_token"
