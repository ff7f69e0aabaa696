"""What workers and engines send each other, also between versions."""

from __future__ import annotations

import pytest

from agenttalk.contracts.errors import Code, ContractError
from agenttalk.contracts.worker import SyncAnswer, SyncRequest

SYNC = {"protocol": 1, "slots": 2, "attempts": [{"board": "default", "plan_id": "p", "task_id": "t", "epoch": 1}]}


def test_what_a_later_version_adds_is_kept_and_means_nothing() -> None:
    told = {"protocol": 2, "slots": 1, "colour": "green", "attempts": [], "draining": False, "wait_seconds": 1}
    assert SyncRequest.from_json(told).slots == 1
    answer = {"protocol": 2, "time": "2026", "ttl_seconds": 30, "weather": {"sun": True}}
    assert SyncAnswer.from_json(answer).offers == ()


def test_what_is_wrong_is_named() -> None:
    with pytest.raises(ContractError) as error:
        SyncRequest.from_json(SYNC)
    assert error.value.problems[0].field == "attempts[0].phase"
    assert error.value.code is Code.FIELD_MISSING
