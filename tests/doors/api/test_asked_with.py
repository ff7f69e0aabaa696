"""What stands behind the question mark of an address is what the address says of itself, or it is refused."""

from __future__ import annotations

from agenttalk.doors.api.route_table import ROUTES
from doors.api.doorkit import Door


def test_no_address_takes_a_filter_that_nobody_knows(door: Door) -> None:
    document = door.get("/api/openapi.json").json["paths"]
    looked = 0
    for route in ROUTES:
        if route.method == "GET" and "operator" in route.roles:
            looked += 1
            answer = door.get(f"{route.path.replace('{', '').replace('}', '')}?stauts=open")
            assert (answer.status, answer.code) == (422, "FIELD_UNKNOWN"), route.path
    assert looked > 40
    assert all(said["summary"] for operations in document.values() for said in operations.values())


WRONG = (
    "/api/mail?limit=many",
    "/api/mail?before=-5",
    "/api/mail?unread=1",
    "/api/mail?kind=letter",
    "/api/mail?status=finished",
    "/api/mail/threads?before=0x1",
    "/api/toolchain/tasks?after=tc-1",
    "/api/toolchain/tasks?status=finished",
    "/api/toolchain/tasks?action_type=review",
    "/api/toolchain/warnings?after=all",
    "/api/toolchain/outgoing?after=1.5",
    "/api/webhooks?state=lost",
    "/api/projects/_toolchain/tasks/tc-1?after=me",
)


def test_a_value_that_nothing_can_have_is_no_empty_list(door: Door) -> None:
    for asked in WRONG:
        answer = door.get(asked)
        assert (answer.status, answer.code) == (422, "FIELD_VALUE"), asked
        assert answer.json["hint"], asked
