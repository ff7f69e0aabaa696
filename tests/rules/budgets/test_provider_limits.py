"""How the end of a turn is recognised as a limit of its provider, when that passes, and how long to wait."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.rules.agents.cli_table import LIMITED, TABLE
from agenttalk.rules.agents.codecs import make_codec
from agenttalk.rules.agents.events import RunSummary
from agenttalk.rules.budgets import provider_limits
from agenttalk.rules.budgets.provider_limits import (
    LONGEST,
    AccountLimit,
    AccountWait,
    ProviderLimit,
    SignalledLimit,
)
from agenttalk.rules.text import turn_words
from rules.budgets.recorded_limits import MESSAGES, OTHERS, RUNS

NOW = datetime(2026, 11, 19, 14, 20, tzinfo=UTC)


def zones(name: str) -> tzinfo | None:
    """Berlin is where the machine of these tests is."""
    try:
        return ZoneInfo(name or "Europe/Berlin")
    except (ZoneInfoNotFoundError, ValueError):
        return None


def at(hour: int, minute: int, second: int = 0, *, day: int = 19) -> datetime:
    return datetime(2026, 11, day, hour, minute, second, tzinfo=UTC)


@pytest.mark.parametrize(("agent", "lines", "kind", "resets_at"), RUNS, ids=[each[0] for each in RUNS])
def test_a_recorded_run_that_a_limit_ended_is_recognised(
    agent: str, lines: list[bytes], kind: str, resets_at: datetime | None
) -> None:
    entry = TABLE[agent]
    codec, summary = entry.make_codec(), RunSummary()
    for line in lines:
        for event in codec.read_line(line):
            summary.add_event(event)
    found = provider_limits.find_limit(entry.limited, summary.error, summary.limit, now=NOW, zones=zones)
    assert found is not None
    assert (found.kind, found.resets_at) == (kind, resets_at)


@pytest.mark.parametrize(("agent", "text", "kind", "resets_at"), MESSAGES)
def test_a_message_of_an_agent_is_recognised(agent: str, text: str, kind: str, resets_at: datetime | None) -> None:
    found = provider_limits.find_limit(LIMITED[agent], text, None, now=NOW, zones=zones)
    assert found is not None
    assert (found.kind, found.resets_at) == (kind, resets_at)


@pytest.mark.parametrize("agent", sorted(LIMITED))
@pytest.mark.parametrize("text", OTHERS)
def test_every_other_failure_is_an_ordinary_one(agent: str, text: str) -> None:
    assert provider_limits.find_limit(LIMITED[agent], text, None, now=NOW, zones=zones) is None


def test_every_message_names_its_source() -> None:
    assert set(LIMITED) == {"claude", "codex", "gemini", "opencode", "qwen"}
    assert all(each.source.strip() and each.pattern for group in LIMITED.values() for each in group)
    for name, group in LIMITED.items():
        assert TABLE[name].limited == group


@pytest.mark.parametrize(
    ("text", "then"),
    [
        ("resets 6:20pm (Europe/Berlin)", at(17, 21)),
        ("resets 6pm (America/New_York)", at(23, 1)),
        ("resets at 18:20", at(17, 21)),
        ("resets 12am (UTC)", at(0, 1, day=20)),
        ("resets 12pm (UTC)", at(12, 1, day=20)),
        ("resets Nov 24, 3:31pm (Europe/Berlin)", at(14, 32, day=24)),
        ("try again at Nov 24th, 2026 6:19 PM.", at(17, 20, day=24)),
        ("resets Jan 2, 3am (UTC)", datetime(2027, 1, 2, 3, 1, tzinfo=UTC)),
        ("resets 3:16pm", at(14, 17)),  # just now: not a day later
        ("resets 3pm", at(14, 1, day=20)),
        ("Claude AI usage limit reached|1795108848", at(17, 20, 48)),
        ("limit reached|1795108848000", at(17, 20, 48)),
        ("Please retry in 21.4s.", NOW + timedelta(seconds=21.4)),
        ("try again in 2 hours 3 minutes", NOW + timedelta(hours=2, minutes=3)),
        ("will reset after 2h3m4s.", NOW + timedelta(seconds=7384)),
        ("retry in 500ms", NOW + timedelta(seconds=0.5)),
        ("resets in 99999 days", None),
        ("resets 99pm", None),
        ("resets 25:99", None),
        ("resets 3pm (Nowhere/Else)", None),
        ("resets Foo 3, 3pm", None),
        ("resets Feb 31, 3pm", None),
        ("resets Dec 31, 9999 11:59 PM", datetime(9999, 12, 31, 23, 0, tzinfo=UTC)),
        ("resets Jan 1, 0001 0:01 AM", None),
        ("resets 7", None),
        ("", None),
    ],
)
def test_the_reset_is_read_from_a_message(text: str, then: datetime | None) -> None:
    found = provider_limits.find_reset(text, now=NOW, zones=zones)
    assert found == then


@given(st.text(alphabet="resets again in at |0123456789:apmNovDec,()/Uhdm. ", max_size=60))
def test_no_message_breaks_the_reader(text: str) -> None:
    found = provider_limits.find_reset(f"resets {text}", now=NOW, zones=zones)
    assert found is None or found.tzinfo is not None


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -1.0, 0.0, 1e300])
def test_an_epoch_that_no_calendar_has_is_unknown(seconds: float) -> None:
    assert provider_limits.read_epoch(seconds) is None


@pytest.mark.parametrize(
    ("status", "kind", "found"),
    [
        (429, None, "overload"),
        (503, None, "overload"),
        (529, None, "overload"),
        (None, "overloaded_error", "overload"),
        (600, None, None),
        (400, "invalid_request_error", None),
        ("429", None, None),
    ],
)
def test_a_status_shows_an_overload(status: Any, kind: Any, found: str | None) -> None:
    signal = provider_limits.read_status(status, kind)
    assert (signal.kind if signal else None) == found


def test_a_signal_of_the_program_goes_before_its_words() -> None:
    usage = SignalledLimit("usage", NOW.timestamp() + 60)
    found = provider_limits.find_limit((), "whatever it says", usage, now=NOW, zones=zones)
    assert found == ProviderLimit("usage", "whatever it says", NOW + timedelta(minutes=1))
    quota = "You exceeded your current quota, please check your plan"
    found = provider_limits.find_limit(LIMITED["opencode"], quota, SignalledLimit("overload"), now=NOW, zones=zones)
    assert found is not None
    assert found.kind == "usage"
    over = SignalledLimit("overload", float("nan"))
    found = provider_limits.find_limit((), "busy; retry in 7s", over, now=NOW, zones=zones)
    assert found is not None
    assert found.resets_at == NOW + timedelta(seconds=7)


def limit(kind: Any = "usage", resets_at: datetime | None = None) -> AccountLimit:
    return AccountLimit("acc", "claude", ProviderLimit(kind, "why", resets_at))


def test_a_wait_ends_at_the_reset_that_was_told() -> None:
    wait = provider_limits.decide_wait(limit(resets_at=NOW + timedelta(hours=5)), None, now=NOW)
    assert wait == AccountWait("acc", "claude", "usage", "why", NOW + timedelta(hours=5), 1)


def test_after_a_reset_that_has_just_passed_the_next_attempt_is_soon() -> None:
    for off in (timedelta(0), timedelta(minutes=9)):
        wait = provider_limits.decide_wait(limit(resets_at=NOW - off), None, now=NOW)
        assert wait.until == NOW + timedelta(seconds=15)


@pytest.mark.parametrize("off", [-timedelta(days=400), -timedelta(minutes=10), LONGEST + timedelta(seconds=1)])
def test_a_reset_that_cannot_be_true_is_unknown(off: timedelta) -> None:
    wait = provider_limits.decide_wait(limit(resets_at=NOW + off), None, now=NOW)
    assert wait.until == NOW + timedelta(minutes=5)


@pytest.mark.parametrize(
    ("kind", "pauses"),
    [("usage", [300, 600, 1200, 2400, 3600, 3600]), ("overload", [15, 30, 60, 120, 240, 300, 300])],
)
def test_unknown_resets_make_pauses_that_grow_up_to_a_longest(kind: str, pauses: list[int]) -> None:
    before, now = None, NOW
    for pause in pauses:
        wait = provider_limits.decide_wait(limit(kind), before, now=now)
        assert (wait.until - now).total_seconds() == pause
        before, now = wait, wait.until + timedelta(minutes=1)
    assert before is not None
    again = provider_limits.decide_wait(limit(kind), before, now=before.until + timedelta(hours=2))
    assert again.number == 1


def test_agents_that_run_into_the_same_limit_make_one_wait() -> None:
    first = provider_limits.decide_wait(limit(), None, now=NOW)
    second = provider_limits.decide_wait(limit(), first, now=NOW + timedelta(seconds=3))
    assert (second.number, second.until - NOW) == (1, timedelta(seconds=303))
    shorter = provider_limits.decide_wait(limit("overload"), second, now=NOW + timedelta(seconds=4))
    assert shorter == second


def test_a_fallback_that_waits_hands_on_to_its_own() -> None:
    agents = {"a": "b", "b": "c", "c": "a", "d": None, "e": "gone"}
    assert provider_limits.decide_fallback("a", agents, lambda _: False) == "b"
    assert provider_limits.decide_fallback("a", agents, lambda name: name == "b") == "c"
    assert provider_limits.decide_fallback("a", agents, lambda _: True) is None
    assert provider_limits.decide_fallback("d", agents, lambda _: False) is None
    assert provider_limits.decide_fallback("e", agents, lambda _: False) is None


def test_an_account_is_known_by_its_keys_or_its_login_and_shows_neither() -> None:
    one = provider_limits.identify_account("claude", [("ANTHROPIC_API_KEY", "sk-secret")], "/home/ada/.claude")
    assert one == provider_limits.identify_account("claude", [("ANTHROPIC_API_KEY", "sk-secret")], "elsewhere")
    others = [
        provider_limits.identify_account("claude", [("ANTHROPIC_API_KEY", "sk-other")], ""),
        provider_limits.identify_account("codex", [("ANTHROPIC_API_KEY", "sk-secret")], ""),
        provider_limits.identify_account("claude", [], "/home/ada/.claude"),
        provider_limits.identify_account("claude", [], "/home/bob/.claude"),
    ]
    assert len({one, *others}) == 5
    assert "secret" not in one


def test_the_wait_of_a_task_is_read_from_its_message_alone() -> None:
    words = turn_words.ACCOUNT_USED_UP(agent="claude", until="2026-11-19T17:21:00Z", why="it says so")
    assert provider_limits.read_wait(words) == {"agent": "claude", "until": "2026-11-19T17:21:00Z", "why": "it says so"}
    assert provider_limits.read_wait(str(words)) is None
    assert provider_limits.read_wait(turn_words.USED_UP(limit="x")) is None
    assert provider_limits.read_wait(None) is None


def test_a_limit_that_did_not_reject_the_last_request_says_nothing() -> None:
    codec, summary = make_codec("claude"), RunSummary()
    lines = [
        b'{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1795108848}}',
        b'{"type":"rate_limit_event","rate_limit_info":{"status":"allowed","resetsAt":1795108848}}',
        b'{"type":"result","subtype":"success","is_error":true,"api_error":"usage_limit_reached","result":"You\'ve hit"}',
    ]
    for event in (event for line in lines for event in codec.read_line(line)):
        summary.add_event(event)
    assert summary.limit == SignalledLimit("usage", None)
