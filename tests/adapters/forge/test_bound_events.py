"""A signature covers the body alone, so the body decides which event it can be of."""

from __future__ import annotations

from typing import Any

import pytest

from agenttalk.adapters.forge.body_shapes import find_misfit


@pytest.mark.mends("F14")
@pytest.mark.parametrize(
    ("event", "body", "fits"),
    [
        ("issues", {"issue": {}, "action": "opened"}, True),
        ("issues", {"issue": {}, "comment": {"body": "do it"}}, False),
        ("issue_comment", {"issue": {}, "comment": {}}, True),
        ("pull_request", {"pull_request": {}, "review": None}, True),
        ("pull_request", {"pull_request": {}, "review": {"state": "approved"}}, False),
        ("pull_request_review_approved", {"review": {"type": "pull_request_review_approved"}}, True),
        ("pull_request_review_approved", {"review": {"type": "pull_request_review_rejected"}}, False),
        ("pull_request_review_approved", {"review": {"type": "something new"}}, True),
        ("workflow_run", {"workflow_run": {}}, True),
        ("workflow_run", {"workflow_run": {}, "workflow_job": {}}, False),
        ("status", {"sha": "1", "check_run": {}}, False),
    ],
)
def test_a_body_is_read_only_as_what_it_is_about(event: str, body: dict[str, Any], fits: bool) -> None:
    assert (find_misfit(event, body) == "") is fits
