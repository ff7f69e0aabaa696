"""Which facts are news, how they are worded, and how they are signed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agenttalk.contracts.errors import UsageError
from agenttalk.rules.operation import notices
from agenttalk.rules.operation.notices import OutboundNotice

ACK = {"plan_id": "shop", "task_id": "build", "consumer_agent_id": "dev"}


@pytest.mark.parametrize(
    ("kind", "subject", "body", "expected"),
    [
        (
            "plan.ended",
            "shop",
            {"completed": 2, "failed": 0, "skipped": 1},
            [("plan.ended", "shop", "", "plan shop has ended: 2 completed, 1 skipped")],
        ),
        ("plan.ended", "shop", {}, [("plan.ended", "shop", "", "plan shop has ended: nothing was to be done")]),
        (
            "plan.cancelled",
            "shop",
            {"reason": "cancelled by\n ada"},
            [("plan.ended", "shop", "", "plan shop was called off: cancelled by ada")],
        ),
        (
            "human.asked",
            "req_1",
            {"plan_id": "shop"},
            [("human.asked", "shop", "", "a person is asked about shop: req_1")],
        ),
        (
            "alert",
            "shop",
            {"type": "COMMAND_FAILED", "plan_id": "shop", "message": "no luck", "source": {"task_id": "build"}},
            [("task.failed", "shop", "build", "no luck")],
        ),
        ("alert", "shop", {"type": "COMMAND_FAILED", "plan_id": "shop"}, [("task.failed", "shop", "", "")]),
        ("alert", "shop", {"type": "VIEW_EDITED", "plan_id": "shop"}, []),
        (
            "turn.ended",
            "",
            {"ack": ACK, "cause": "ABORTED", "reason": "budget-exhausted: $2 of $1"},
            [("budget.stopped", "shop", "build", "shop/build is stopped: budget-exhausted: $2 of $1")],
        ),
        (
            "turn.ended",
            "",
            {"ack": ACK, "how": "finished", "cause": "NOT_FULFILLED", "reason": "the tests fail"},
            [("done.refused", "shop", "build", "dev said that shop/build is done: the tests fail")],
        ),
        ("turn.ended", "", {"ack": ACK, "how": "finished", "cause": "FULFILLED"}, []),
        ("turn.ended", "", {"how": "crashed", "cause": "NOT_FULFILLED"}, []),
        (
            "task.moved",
            "shop/offer",
            {"reason": "budget-exhausted: used up"},
            [("budget.stopped", "shop", "offer", "shop/offer is stopped: budget-exhausted: used up")],
        ),
        ("task.moved", "shop/offer", {"reason": None}, []),
        (
            "account.waits",
            "accounts/1",
            {
                "kind": "usage",
                "plan_id": "shop",
                "task_id": "build",
                "agent": "claude",
                "until": "2026-11-19T17:21:00Z",
                "text": "You've hit it",
            },
            [
                (
                    "account.limited",
                    "shop",
                    "build",
                    "claude: usage limit of the account until 2026-11-19T17:21:00Z; its tasks wait (You've hit it)",
                )
            ],
        ),
        ("account.waits", "accounts/1", {"kind": "overload", "plan_id": "shop"}, []),
        ("delivery", "shop", {}, []),
    ],
)
def test_what_is_news(kind: str, subject: str, body: dict[str, Any], expected: list[tuple[str, ...]]) -> None:
    assert [tuple(each) for each in notices.make_notices(kind, subject, body)] == expected


def test_what_others_say_is_cut() -> None:
    [notice] = notices.make_notices("plan.cancelled", "p", {"reason": "x" * 1000})
    assert len(notice.text) < 350
    assert notice.text.endswith("…")


NOTICE = OutboundNotice("task.failed", "shop", "build", "it <failed> & <!channel> was told")


def test_a_cloud_event_has_what_it_needs() -> None:
    data = notices.render_notice(
        NOTICE, "cloudevents", identity="evt_1", source="urn:agenttalk:x", at="2026-11-16T09:00:00Z"
    )
    assert json.loads(data) == {
        "specversion": "1.0",
        "id": "evt_1",
        "source": "urn:agenttalk:x",
        "type": "agenttalk.task.failed",
        "subject": "shop/build",
        "time": "2026-11-16T09:00:00Z",
        "datacontenttype": "application/json",
        "data": {"plan_id": "shop", "task_id": "build", "text": NOTICE.text},
    }
    of_plan = notices.render_notice(NOTICE._replace(task_id=""), "cloudevents", identity="e", source="s", at="t")
    assert json.loads(of_plan)["subject"] == "shop"
    assert "task_id" not in json.loads(of_plan)["data"]


def test_what_slack_gets_mentions_nobody() -> None:
    data = notices.render_notice(NOTICE, "slack", identity="evt_1", source="", at="")
    assert json.loads(data) == {"text": "[task.failed] it &lt;failed&gt; &amp; &lt;!channel&gt; was told"}


def test_it_is_signed_as_standard_webhooks_has_it() -> None:
    secret, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", b'{"test": 2432232314}'
    found = notices.make_headers("cloudevents", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body, secret)
    assert found == {
        "Content-Type": "application/cloudevents+json",
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    assert "webhook-signature" not in notices.make_headers("slack", "evt_1", 1, body, None)


@given(st.text(min_size=1), st.binary())
def test_any_secret_signs_and_another_body_has_another_signature(secret: str, body: bytes) -> None:
    try:
        secret.encode()
    except UnicodeEncodeError:
        return
    assume(not secret.startswith("whsec_"))
    one = notices.sign_notice(secret, "evt_1", 1, body)
    assert one == notices.sign_notice(secret, "evt_1", 1, body)
    assert one != notices.sign_notice(secret, "evt_1", 1, body + b".")


@pytest.mark.parametrize("secret", ["whsec_", "whsec_not base64", "whsec_é", "whsec_bm9"])
def test_a_secret_that_only_looks_like_base64_signs_nothing(secret: str) -> None:
    with pytest.raises(UsageError, match="whsec_ needs base64 behind it") as refused:
        notices.sign_notice(secret, "e", 1, b"{}")
    assert "bm9" not in refused.value.message
    assert notices.decode_secret("whsec_bm90") == b"not"
    assert notices.decode_secret("plain") == b"plain"


def test_the_id_of_a_notice_stays() -> None:
    assert notices.make_notice_id("default", 7, NOTICE) == notices.make_notice_id("default", 7, NOTICE)
    assert notices.make_notice_id("default", 7, NOTICE) != notices.make_notice_id("default", 8, NOTICE)
