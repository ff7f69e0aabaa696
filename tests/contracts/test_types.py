"""Ids, paths, hashes, times, versions, scores: each with its rule and its code."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from agenttalk.contracts.core import base
from agenttalk.contracts.core.problems import problems_of
from agenttalk.contracts.dag import Receiver, ScoreCondition
from agenttalk.contracts.errors import Code


def codes(kind: Any, value: Any) -> list[Code]:
    try:
        TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        return [problem.code for problem in problems_of(error)]
    return []


@pytest.mark.parametrize("good", ["a", "A-1_b.c", "_mail", "-", "9", "a.", "x" * 128])
def test_ids_that_can_be_file_names_are_taken(good: str) -> None:
    assert codes(base.IdText, good) == []


@pytest.mark.parametrize(
    "bad",
    [
        "",
        ".",
        "..",
        ".a",
        "a..b",
        "a/b",
        "a\\b",
        "a b",
        "a\0",
        "a\n",
        "é",
        "任务",
        "x" * 129,
        "../x",
        "a/../b",
        "~",
        "a:b",
    ],
)
def test_ids_that_are_no_safe_file_names_are_refused(bad: str) -> None:
    assert codes(base.IdText, bad) == [Code.ID_INVALID]


@pytest.mark.parametrize(
    "good", ["a", "a/b.md", "feedback_*.json", "**/x", "中文/é.md", "..a", "a..", "...", "x" * 255, "a b"]
)
def test_paths_inside_the_folder_are_taken(good: str) -> None:
    assert codes(base.RelativePath, good) == []


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "/",
        "/a",
        "a/",
        "a//b",
        ".",
        "./a",
        "a/.",
        "..",
        "../a",
        "a/../b",
        "a/..",
        "a\\b",
        "a\0",
        "a\nb",
        "\x7f",
        "x" * 256,
        "é" * 128,
        "a/" * 600 + "a",
    ],
)
def test_paths_that_lead_elsewhere_are_refused(bad: str) -> None:
    assert codes(base.RelativePath, bad) == [Code.PATH_OUTSIDE_FOLDER]


@given(st.text(max_size=30))
def test_a_path_that_is_taken_stays_inside(text: str) -> None:
    if codes(base.RelativePath, text) == []:
        parts = text.split("/")
        assert ".." not in parts
        assert "" not in parts
        assert not text.startswith("/")


def test_hashes_are_taken_with_and_without_prefix_and_kept_with_it() -> None:
    digits = "0123456789abcdef" * 4
    adapter = TypeAdapter(base.Sha256)
    assert adapter.validate_python(digits) == adapter.validate_python(f"sha256:{digits}") == f"sha256:{digits}"


@pytest.mark.parametrize(
    "bad", ["", "...", "sha256:", "a" * 63, "a" * 65, "A" * 64, "md5:" + "a" * 64, "a" * 64 + "\n", "g" * 64]
)
def test_other_texts_are_no_hashes(bad: str) -> None:
    assert codes(base.Sha256, bad) == [Code.HASH_INVALID]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2026-01-31T09:30:00Z", "2026-01-31T09:30:00Z"),
        ("2026-01-31T09:30:00.5Z", "2026-01-31T09:30:00.500000Z"),
        ("2026-01-31T09:30:00.123456789Z", "2026-01-31T09:30:00.123456Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
    ],
)
def test_times_are_utc_and_written_with_z(text: str, written: str) -> None:
    adapter = TypeAdapter(base.Instant)
    moment = adapter.validate_python(text)
    assert moment.tzinfo is UTC
    assert adapter.dump_python(moment, mode="json") == written


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "2026-01-31",
        "2026-01-31T09:30:00",
        "2026-01-31T09:30:00+00:00",
        "2026-01-31 09:30:00Z",
        "2026-02-31T00:00:00Z",
        "2026-01-31T25:00:00Z",
        "2026-01-31T09:30:00z",
        "２０２６-01-31T09:30:00Z",
        datetime(2026, 1, 1),  # noqa: DTZ001 - a time of no zone is the point
    ],
)
def test_other_texts_are_no_times(bad: Any) -> None:
    assert codes(base.Instant, bad) == [Code.TIME_INVALID]


def test_a_time_that_is_no_text_has_the_wrong_type() -> None:
    assert codes(base.Instant, 1767225600) == [Code.FIELD_TYPE]


def test_a_time_of_another_zone_becomes_utc() -> None:
    shanghai = timezone(timedelta(hours=8))
    moment = TypeAdapter(base.Instant).validate_python(datetime(2026, 1, 1, 8, tzinfo=shanghai))
    assert base.write_time(moment) == "2026-01-01T00:00:00Z"


@pytest.mark.shows("C13")
@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("1.0", []),
        ("1.7", []),
        ("1.999", []),
        ("2.0", [Code.SCHEMA_VERSION_UNSUPPORTED]),
        ("0.9", [Code.SCHEMA_VERSION_UNSUPPORTED]),
        ("1", [Code.FIELD_VALUE]),
        ("1.0.0", [Code.FIELD_VALUE]),
        ("v1.0", [Code.FIELD_VALUE]),
        ("01.0", [Code.FIELD_VALUE]),
        (1.0, [Code.FIELD_TYPE]),
    ],
)
def test_a_newer_minor_is_read_and_another_major_refused(version: Any, expected: list[Code]) -> None:
    assert codes(base.Version, version) == expected


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        (0, []),
        (100, []),
        (85.5, []),
        (-1, [Code.FIELD_VALUE]),
        (100.1, [Code.FIELD_VALUE]),
        (float("nan"), [Code.FIELD_VALUE]),
        (True, [Code.FIELD_TYPE]),
        ("85", [Code.FIELD_TYPE]),
    ],
)
def test_a_score_is_a_number_from_0_to_100(score: Any, expected: list[Code]) -> None:
    assert codes(base.Score, score) == expected


def test_a_whole_score_stays_whole() -> None:
    assert repr(TypeAdapter(base.Score).validate_python(85)) == "85"


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("score < 70", True),
        ("score>=70.5", True),
        (" score == 0 ", True),
        ("score", False),
        ("score < x", False),
        ("__import__('os')", False),
        ("score < 70 or 1", False),
    ],
)
def test_conditions_only_compare_the_score(text: str, good: bool) -> None:
    assert codes(ScoreCondition, text) == ([] if good else [Code.FIELD_VALUE])


@pytest.mark.parametrize(("text", "expected"), [("*", []), ("backend", []), ("**", [Code.ID_INVALID])])
def test_a_receiver_is_an_agent_or_everyone(text: str, expected: list[Code]) -> None:
    assert codes(Receiver, text) == expected


def test_empty_texts_say_nothing() -> None:
    assert codes(base.Text, " \n") == [Code.FIELD_VALUE]
