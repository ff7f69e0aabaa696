"""When schedules are due: fields, days, clocks that are put forward and back, and what was missed."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from agenttalk.contracts.core.cron import NAMED, parse_cron
from agenttalk.contracts.schedule import Schedule
from agenttalk.rules.plans import schedules
from agenttalk.rules.plans.schedules import ScheduleSlot, decide, find_latest_slot, find_next_slot
from effort import cases

BERLIN, UTC_ZONE, LORD_HOWE = ZoneInfo("Europe/Berlin"), ZoneInfo("UTC"), ZoneInfo("Australia/Lord_Howe")
NUMBERS = {"minute": (0, 59), "hour": (0, 23), "day": (1, 28), "month": (1, 12), "weekday": (0, 7)}


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"{text}:00+00:00")


def field(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    span = st.tuples(number, number).map(lambda pair: f"{min(pair)}-{max(pair)}")
    step = st.tuples(st.one_of(st.just("*"), span), st.integers(1, high)).map(lambda pair: f"{pair[0]}/{pair[1]}")
    return st.one_of(
        st.just("*"), st.lists(st.one_of(number.map(str), span, step), min_size=1, max_size=3).map(",".join)
    )


EXPRESSIONS = st.tuples(*(field(low, high) for low, high in NUMBERS.values())).map(" ".join)
MOMENTS = st.integers(0, 8 * 365 * 24 * 60 * 60).map(
    lambda seconds: at("2024-01-01T00:00") + timedelta(seconds=seconds)
)
ZONES = st.sampled_from([BERLIN, UTC_ZONE, LORD_HOWE, ZoneInfo("America/St_Johns")])


@pytest.mark.parametrize(
    ("text", "moment", "expected"),
    [
        ("0 9 * * 1", "2026-11-16T07:59", "2026-11-16T08:00"),
        ("0 9 * * MON", "2026-11-16T08:00", "2026-11-23T08:00"),
        ("*/15 * * * *", "2026-11-16T08:01", "2026-11-16T08:15"),
        ("5/20 * * * *", "2026-11-16T08:26", "2026-11-16T08:45"),
        ("0 12 29 FEB *", "2026-01-01T00:00", "2028-02-29T11:00"),
        ("0 0 1 * 5", "2026-11-02T00:00", "2026-11-05T23:00"),
        ("0 0 * 1-3,12 7", "2026-11-02T00:00", "2026-12-05T23:00"),
        ("@yearly", "2026-11-02T00:00", "2026-12-31T23:00"),
    ],
)
def test_the_next_time_in_berlin(text: str, moment: str, expected: str) -> None:
    found = find_next_slot(parse_cron(text), BERLIN, at(moment))
    assert found is not None
    assert found.at == at(expected)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "0 fields"),
        ("* * * *", "4 fields"),
        ("60 * * * *", "not a valid minute from 0 to 59"),
        ("* * 0 * *", "not a valid day from 1 to 31"),
        ("* * * foo *", "not a valid month"),
        ("*/0 * * * *", "not a valid step"),
        ("*/x * * * *", "not a valid step"),
        ("5-1 * * * *", "goes backwards"),
        ("0 0 30 2 *", "never due"),
        ("٣ * * * *", "not a valid minute"),
        ("001 * * * *", "not a valid minute"),
        (", * * * *", "not a valid minute"),
    ],
)
def test_what_is_no_expression_says_why(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_cron(text)


def test_names_and_sundays() -> None:
    assert [parse_cron(name).hourly for name in NAMED].count(True) == 1
    assert parse_cron("0 0 * * 7") == parse_cron("0 0 * * SUN") == parse_cron("0 0 * * 0")
    assert parse_cron("0 0 31 2 1").either


def test_a_day_in_every_cron_is_either_the_day_of_the_month_or_of_the_week() -> None:
    either, both = parse_cron("0 0 13 * 5"), parse_cron("0 0 */13 * 5")
    friday, thirteenth = date(2026, 11, 6), date(2026, 12, 13)
    assert either.is_on(friday)
    assert either.is_on(thirteenth)
    assert not both.is_on(friday)


def test_a_time_that_the_clock_leaps_over_is_due_once_when_it_would_have_been() -> None:
    night = parse_cron("30 2 * * *")
    found = find_next_slot(night, BERLIN, at("2026-03-28T12:00"))
    assert found == ScheduleSlot(at("2026-03-29T01:30"), "2026-03-29T02-30")
    assert find_next_slot(night, BERLIN, found.at) == ScheduleSlot(at("2026-03-30T00:30"), "2026-03-30T02-30")
    together = find_next_slot(parse_cron("30 2,3 * * *"), BERLIN, at("2026-03-29T01:30"))
    assert together is not None
    assert together.label == "2026-03-30T02-30"


def test_a_time_that_comes_twice_is_due_the_first_time() -> None:
    night = parse_cron("30 2 * * *")
    found = find_next_slot(night, BERLIN, at("2026-10-24T12:00"))
    assert found == ScheduleSlot(at("2026-10-25T00:30"), "2026-10-25T02-30")
    assert find_next_slot(night, BERLIN, found.at) == ScheduleSlot(at("2026-10-26T01:30"), "2026-10-26T02-30")


def test_what_is_due_in_every_hour_goes_by_the_time_that_passes() -> None:
    hourly = parse_cron("0 * * * *")
    moment, labels = at("2026-10-24T23:59"), []
    for _ in range(4):
        found = find_next_slot(hourly, BERLIN, moment)
        assert found is not None
        assert found.at - moment <= timedelta(hours=1)
        moment = found.at
        labels.append(found.label[-8:])
    assert labels == ["25T02-00", "02-00-again"[-8:], "25T03-00", "25T04-00"]
    spring = find_next_slot(hourly, BERLIN, at("2026-03-29T00:00"))
    assert spring == ScheduleSlot(at("2026-03-29T01:00"), "2026-03-29T03-00")


@settings(max_examples=cases(40), deadline=None)
@given(EXPRESSIONS, ZONES, MOMENTS)
def test_there_is_nothing_between_a_time_and_the_next(text: str, zone: ZoneInfo, moment: datetime) -> None:
    try:
        cron = parse_cron(text)
    except ValueError:
        return  # a 29th in a short month, and the like
    found = find_next_slot(cron, zone, moment)
    assert found is not None
    assert found.at > moment
    last = find_latest_slot(cron, zone, found.at)
    assert last is not None
    assert last.at == found.at
    before = find_latest_slot(cron, zone, found.at - timedelta(microseconds=1))
    assert before is None or before.at <= moment
    following = find_next_slot(cron, zone, found.at)
    assert following is not None
    assert following.label != found.label


@settings(max_examples=cases(60), deadline=None)
@given(st.sampled_from(["7 * * * *", "*/20 * * * *", "0 * * * 1-5"]), st.integers(0, 60 * 72))
def test_hours_are_those_that_a_clock_shows(text: str, minutes: int) -> None:
    cron, moment = parse_cron(text), at("2026-10-24T00:00") + timedelta(minutes=minutes)
    local = moment.astimezone(BERLIN)
    shown = local.minute in cron.minutes and cron.is_on(local.date())
    found = find_latest_slot(cron, BERLIN, moment)
    assert found is not None
    assert (found.at == moment) is shown


def test_what_is_due_is_run_once_on_time_and_made_up_for_once_if_wanted() -> None:
    cron, since = parse_cron("0 * * * *"), at("2026-11-16T08:00")
    early = decide(cron, UTC_ZONE, since, at("2026-11-16T08:59"), catch_up=True)
    assert (early.slot, early.run, early.missed) == (None, False, False)
    assert early.upcoming == ScheduleSlot(at("2026-11-16T09:00"), "2026-11-16T09-00")
    on_time = decide(cron, UTC_ZONE, since, at("2026-11-16T09:01"), catch_up=False)
    assert (on_time.slot, on_time.run, on_time.missed) == (early.upcoming, True, False)
    late = decide(cron, UTC_ZONE, since, at("2026-11-16T12:30"), catch_up=True)
    assert (late.slot, late.run, late.missed) == (ScheduleSlot(at("2026-11-16T12:00"), "2026-11-16T12-00"), True, True)
    assert not decide(cron, UTC_ZONE, since, at("2026-11-16T12:30"), catch_up=False).run
    assert late.slot is not None
    assert schedules.make_plan_id("weekly", late.slot) == "weekly-2026-11-16T12-00"


def test_an_expression_that_is_due_on_no_day_of_any_month_has_no_time() -> None:
    never = parse_cron("0 0 1 1 *")
    never = type(never)(never.minutes, never.hours, frozenset({31}), frozenset({2}), never.weekdays, either=False)
    assert find_next_slot(never, UTC_ZONE, at("2026-11-16T08:00")) is None
    assert find_latest_slot(never, UTC_ZONE, at("2026-11-16T08:00")) is None
    assert decide(never, UTC_ZONE, at("2026-11-16T08:00"), at("2026-11-16T09:00"), catch_up=True).slot is None


@pytest.mark.parametrize(
    "said",
    [
        {"cron": "0 9 * * 1"},
        {"cron": "0 9 * * 1", "agent": "dev"},
        {"cron": "0 9 * * 1", "plan": "a.yaml", "prompt": "Do it."},
        {"cron": "0 9 * * 1", "plan": "a.yaml", "agent": "dev", "prompt": "Do it."},
        {"cron": "9", "plan": "a.yaml"},
        {"cron": "0 9 * * 1", "plan": "a.yaml", "strange": 1},
    ],
)
def test_a_schedule_has_a_plan_or_an_agent_and_a_prompt(said: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Schedule.model_validate(said)


def test_schedules_that_are_fine() -> None:
    assert Schedule.model_validate({"cron": "@daily", "plan": "a.yaml"}).catch_up
    assert Schedule.model_validate({"cron": "@daily", "agent": "dev", "prompt": "Do it."}).timezone == "UTC"
