"""Who may do what: roles, attempts, and writes that come too late."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route

from agenttalk.contracts.errors import Code, UsageError
from agenttalk.doors.pages.sessions import PageRoute
from agenttalk.engine.core import access, task_comments
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.task_comments import TaskContribution, TaskName
from agenttalk.ports.statements.core import COMMENTS_OF, FACTS_OF, REVOKE_TOKEN
from agenttalk.rules.core.tokens import attempt_token, token_hash
from doors.api.doorkit import FAR, OPERATOR, VIEWER, WORKER, Door, listening
from kits.treekit import Tree

TASK = "/api/projects/default/tasks/plan_shop:build"
COMMENT = {"author": "dev", "comment_type": "action_report", "body": "I pushed the fix."}
OUTPUT = {"content": "the patch", "type": "text"}
PLAN_PARTS = ("graph", "tasks", "deliveries", "acks", "decisions", "facts", "artifacts")
ROUTES = [
    ("GET", "/api/status", {OPERATOR, VIEWER}),
    ("POST", "/api/passes", {OPERATOR}),
    ("GET", "/api/human-requests", {OPERATOR, VIEWER}),
    ("GET", "/api/human-requests/req_1", {OPERATOR, VIEWER}),
    ("GET", f"/api/human-requests/req_1/files/{'ab' * 32}", {OPERATOR, VIEWER}),
    ("POST", "/api/human-requests/req_1/answer", {OPERATOR}),
    ("GET", "/api/deadletters", {OPERATOR, VIEWER}),
    ("GET", "/api/deadletters/dl_1", {OPERATOR, VIEWER}),
    ("POST", "/api/deadletters/dl_1/replay", {OPERATOR}),
    ("POST", "/api/commands/send", {OPERATOR}),
    ("POST", "/api/commands/log", {OPERATOR}),
    ("GET", "/api/plans", {OPERATOR, VIEWER}),
    ("POST", "/api/plans", {OPERATOR}),
    ("POST", "/api/plans/apply", {OPERATOR}),
    ("GET", "/api/plans/dl_1", {OPERATOR, VIEWER}),
    ("GET", "/api/plans/dl_1/release", {OPERATOR, VIEWER}),
    ("GET", "/api/plans/dl_1/release_manifest", {OPERATOR, VIEWER}),
    ("POST", "/api/plans/dl_1/verify", {OPERATOR}),
    ("POST", "/api/plans/dl_1/settle", {OPERATOR}),
    ("POST", "/api/plans/dl_1/merged", {OPERATOR}),
    ("POST", "/api/plans/dl_1/pause", {OPERATOR}),
    ("POST", "/api/plans/dl_1/override", {OPERATOR}),
    ("POST", "/api/plans/dl_1/abort", {OPERATOR}),
    ("GET", "/api/plans/dl_1/tasks/plan_shop:build/explanation", {OPERATOR, VIEWER}),
    ("GET", "/api/plans/dl_1/tasks/plan_shop:build/log", {OPERATOR, VIEWER}),
    ("GET", "/api/plans/dl_1/tasks/plan_shop:build/prompt", {OPERATOR, VIEWER}),
    ("GET", "/api/plans/dl_1/tasks/plan_shop:build", {OPERATOR, VIEWER}),
    *(("GET", f"/api/plans/dl_1/{what}", {OPERATOR, VIEWER}) for what in PLAN_PARTS),
    ("GET", f"/api/plans/dl_1/artifacts/plan_shop:build/{'ab' * 32}", {OPERATOR, VIEWER}),
    ("GET", "/api/plans/dl_1/repository", {OPERATOR, VIEWER}),
    ("GET", "/api/fsck", {OPERATOR, VIEWER}),
    ("GET", "/api/schedules", {OPERATOR, VIEWER}),
    ("POST", "/api/schedules", {OPERATOR}),
    ("POST", "/api/schedules/dl_1/pause", {OPERATOR}),
    ("POST", "/api/republish", {OPERATOR}),
    ("POST", "/api/gc", {OPERATOR}),
    ("POST", "/api/settings/reload", {OPERATOR}),
    ("GET", "/api/me", {OPERATOR, VIEWER, WORKER, FAR, "agent"}),
    ("POST", "/mcp", {OPERATOR, VIEWER, FAR, "agent"}),
    ("GET", "/api/agent/tasks", {FAR}),
    ("POST", "/api/agent/claim", {FAR}),
    ("POST", "/api/worker/enrol", set()),
    ("POST", "/api/worker/sync", set()),
    ("GET", f"/api/worker/checks/dl_1/files/{'ab' * 32}", set()),
    ("GET", "/api/worker/checks/dl_1/tree.git/info/refs", set()),
    ("POST", "/api/worker/checks/dl_1/tree.git/git-upload-pack", set()),
    ("GET", "/api/workers", {OPERATOR, VIEWER}),
    ("POST", "/api/workers/invitations", {OPERATOR}),
    ("POST", "/api/workers/dl_1/state", {OPERATOR}),
    ("POST", "/api/pools/dl_1", {OPERATOR}),
    ("GET", "/api/events?wait=0", {OPERATOR, VIEWER}),
    ("POST", "/api/login-links", {OPERATOR}),
    ("GET", "/api/tokens", {OPERATOR}),
    ("POST", "/api/tokens", {OPERATOR}),
    ("POST", "/api/tokens/dl_1/revoke", {OPERATOR}),
    ("POST", "/api/promises", {OPERATOR}),
    ("POST", "/api/commands/generate", {OPERATOR}),
    ("POST", "/api/commands/validate", {OPERATOR}),
    ("GET", f"{TASK}/promise", {OPERATOR, VIEWER, "agent"}),
    ("GET", f"{TASK}/explanation", {OPERATOR, VIEWER, "agent"}),
    ("GET", f"{TASK}/inputs", {"agent"}),
    ("POST", f"{TASK}/artifacts", {"agent"}),
    ("GET", f"{TASK}/repository/1.git/info/refs", {"agent"}),
    ("POST", f"{TASK}/repository/1.git/git-upload-pack", {"agent"}),
    ("PUT", f"{TASK}/repository/1/tree", {"agent"}),
    ("PUT", f"{TASK}/repository/1/snapshot", {"agent"}),
    ("PUT", f"{TASK}/log", set()),
    ("POST", f"{TASK}/result", {"agent"}),
    ("POST", f"{TASK}/questions", {"agent"}),
    ("GET", f"{TASK}/questions/req_1", {"agent"}),
    ("POST", f"{TASK}/disputes", {"agent"}),
    ("POST", f"{TASK}/commands/generate", {"agent"}),
    ("POST", f"{TASK}/commands/validate", {"agent"}),
    ("GET", TASK, {OPERATOR, VIEWER, "agent"}),
    ("POST", f"{TASK}/comments", {OPERATOR, "agent"}),
    ("POST", f"{TASK}/outputs", {OPERATOR, "agent"}),
    ("POST", f"{TASK}/progress", {"agent"}),
    ("GET", "/api/webhooks/wh-1", {OPERATOR, VIEWER}),
    ("GET", "/api/webhooks", {OPERATOR, VIEWER}),
    ("POST", "/api/webhooks/wh-1/replay", {OPERATOR}),
    ("GET", "/api/ledger", {OPERATOR, VIEWER}),
    ("GET", "/api/ledger/verify", {OPERATOR, VIEWER}),
    ("GET", "/api/agents", {OPERATOR, VIEWER}),
    ("GET", "/api/agents/dl_1", {OPERATOR, VIEWER}),
    ("GET", "/api/honesty", {OPERATOR, VIEWER}),
    ("GET", "/api/spending", {OPERATOR, VIEWER}),
    ("POST", "/api/spending", {OPERATOR}),
    ("POST", "/api/audit/replay", {OPERATOR}),
    ("GET", "/api/metrics", {OPERATOR, VIEWER}),
    ("POST", "/api/toolchain/events", {OPERATOR, WORKER}),
    ("GET", "/api/toolchain/tasks", {OPERATOR, VIEWER}),
    ("GET", "/api/toolchain/tasks/dl_1", {OPERATOR, VIEWER}),
    ("GET", "/api/toolchain/warnings", {OPERATOR, VIEWER}),
    ("GET", "/api/toolchain/outgoing", {OPERATOR, VIEWER}),
    ("POST", "/api/mail", {OPERATOR, "agent"}),
    ("GET", "/api/mail", {OPERATOR, VIEWER, "agent"}),
    ("GET", "/api/mail/threads", {OPERATOR, VIEWER, "agent"}),
    ("GET", "/api/mail/threads/dl_1", {OPERATOR, VIEWER, "agent"}),
    ("GET", "/api/mail/dl_1", {OPERATOR, VIEWER, "agent"}),
    ("POST", "/api/mail/dl_1/reply", {OPERATOR, "agent"}),
    ("POST", "/api/toolchain/reconcile", {OPERATOR}),
    ("GET", "/api/openapi.json", {OPERATOR, VIEWER, WORKER}),
    ("PATCH", TASK, set()),
    ("PUT", TASK, set()),
    ("DELETE", TASK, set()),
    *((method, f"{TASK}/{what}", set()) for what in ("state", "status", "done") for method in ("POST", "PUT", "PATCH")),
]
"""Nobody sets a state, whatever its token."""
OPEN_TO_ALL = {"/api/me", "/mcp"}
"""Routes about whoever asks, and no task."""
SIGNED = "/api/webhooks/{source}"
"""Takes a signature instead of a token."""


def rows(door: Door) -> list[tuple[Any, ...]]:
    """Everything that was said about the task."""

    async def work(deps: Deps) -> list[tuple[Any, ...]]:
        store = await deps.stores.board("default")
        return await store.read(COMMENTS_OF, plan_id="plan_shop", task_id="build", after=0, limit=100)

    return door.run(work)


def test_every_route_takes_a_token(door: Door) -> None:
    app_routes = {(method, path) for method, path, _ in ROUTES}
    assert len(app_routes) == len(ROUTES)
    for method, path, _ in ROUTES:
        for headers in ({}, {"Authorization": "Bearer"}, {"Authorization": "Basic b3A6b25l"}):
            answer = door.ask(method, path, b"{}" if method == "POST" else None, headers=headers)
            assert (answer.status, answer.code) == (401, "TOKEN_REFUSED"), path
            for_git = path.endswith((".git/info/refs", ".git/git-upload-pack"))
            assert answer.headers["www-authenticate"] == ('Basic realm="AgentTalk"' if for_git else "Bearer")
        for token in ("unknown", "agt_x.y", "x" * 5000, "ü"):
            answer = door.ask(method, path, headers={"Authorization": f"Bearer {token}"})
            assert answer.status == 401, (path, token)


def test_a_token_opens_only_what_its_role_may_do(door: Door) -> None:
    tokens = {OPERATOR: OPERATOR, VIEWER: VIEWER, WORKER: WORKER, FAR: FAR, "agent": door.leased()}
    for method, path, allowed in ROUTES:
        for name, token in tokens.items():
            answer = door.ask(method, path, b"{}" if method == "POST" else None, token=token)
            if name in allowed:
                assert answer.status not in {401, 403}, (path, name)
            else:
                assert (answer.status, answer.code) == (403, "NOT_ALLOWED"), (path, name)


@pytest.mark.parametrize("name", [VIEWER, WORKER, "agent"])
def test_nobody_but_an_operator_decides_on_work_that_was_refused(door: Door, name: str) -> None:
    token = door.leased() if name == "agent" else name
    body = b'{"task": "build", "answer": "accept"}'
    answer = door.ask("POST", "/api/plans/plan_shop/rework", body, token=token)
    assert (answer.status, answer.code) == (403, "NOT_ALLOWED")
    assert door.ask("POST", "/api/plans/plan_shop/rework", body, token=OPERATOR).status not in {401, 403}


@pytest.mark.parametrize(("whose", "expected"), [("expired", (401, "TOKEN_REFUSED")), ("other", (403, "NOT_ALLOWED"))])
def test_no_route_opens_to_an_attempt_that_is_over_or_to_that_of_another_task(
    door: Door, whose: str, expected: tuple[int, str]
) -> None:
    token = door.leased() if whose == "expired" else door.leased("design", agent_id="pm")
    if whose == "expired":
        door.released()
        door.leased()
    for method, path, allowed in ROUTES:
        answer = door.ask(method, path, b"{}" if method == "POST" else None, token=token)
        if whose == "other" and path.startswith(("/api/mail", "/api/openapi")):  # these are no task's
            assert (answer.status not in {401, 403}) == ("agent" in allowed), (method, path)
        elif whose == "other" and path in OPEN_TO_ALL:
            assert answer.status not in {401, 403}, (method, path)
        else:
            assert (answer.status, answer.code) == expected, (method, path)


def test_every_route_of_the_app_has_its_line_with_its_method(door: Door) -> None:
    from agenttalk.doors.api.app import create_app

    def plain(path: str) -> str:
        told = {
            TASK: "/api/projects/{board}/tasks/{task}",
            "plan_shop:build": "{task}",
            "dl_1": "{id}",
            "req_1": "{id}",
            "wh-1": "{id}",
            "ab" * 32: "{sha256}",
            "repository/1": "repository/{epoch}",
        }
        path = path.partition("?")[0]
        for name, field in told.items():
            path = path.replace(name, field)
        return re.sub(r"/(pause|override|abort)$", "/{action}", path)

    found = {
        (method, route.path)
        for route in create_app(door.service).routes
        if isinstance(route, Route) and not isinstance(route, PageRoute)
        for method in (route.methods or set()) - {"HEAD"}
    }
    without = {("GET", "/healthz"), ("GET", "/readyz"), ("POST", SIGNED)}
    assert found == {(method, plain(path)) for method, path, _ in ROUTES} | without


def test_the_routes_of_the_table_are_all_that_there_are(door: Door) -> None:
    from agenttalk.doors.api.app import create_app

    known = {path.partition("?")[0] for _, path, _ in ROUTES} | {"/healthz", "/readyz", SIGNED}
    routes = create_app(door.service).routes
    found = {getattr(route, "path", "") for route in routes if not isinstance(route, PageRoute)}
    named = {
        path.replace("{board}", "default")
        .replace("{task}", "plan_shop:build")
        .replace("{id}", "dl_1")
        .replace("{action}", "pause")
        .replace("{sha256}", "ab" * 32)
        .replace("{epoch}", "1")
        for path in found
    }
    known = {path.replace("/override", "/pause").replace("/abort", "/pause") for path in known}
    assert {path.replace("req_1", "dl_1").replace("wh-1", "dl_1") for path in known} == named


def test_two_tokens_in_one_request_are_none(door: Door) -> None:
    host = door.where.http.removeprefix("http://")
    request = (
        f"GET /api/status HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {OPERATOR}\r\n"
        f"Authorization: Bearer {VIEWER}\r\nConnection: close\r\n\r\n"
    )
    assert door.raw(request.encode()).startswith(b"HTTP/1.1 401 ")


def test_a_revoked_token_is_out_and_stays_out(door: Door) -> None:
    async def revoke(deps: Deps) -> None:
        system = await deps.stores.board("system")
        await system.transact(lambda tx: tx.run(REVOKE_TOKEN, hash=token_hash(VIEWER), at=deps.stamp()))
        await access.admit(deps, VIEWER, "viewer", "viewer")

    assert door.get("/api/status", VIEWER).status == 200
    door.run(revoke)
    assert door.get("/api/status", VIEWER).status == 401


def test_a_revoked_token_of_an_agent_elsewhere_is_out_and_stays_out(door: Door) -> None:
    token = "tok_of_far_that_is_long_enough"
    made = {"agent_id": "far", "token": token}
    answer = door.post("/api/tokens", made)
    assert (answer.status, door.get("/api/me", token).status) == (201, 200)
    assert door.post(f"/api/tokens/{answer.json['id']}/revoke", {}).status == 200
    assert door.get("/api/me", token).status == 401
    door.post("/api/tokens", made)
    assert door.get("/api/me", token).status == 401


def test_tokens_of_people_may_do_what_their_role_may_and_are_revoked(door: Door) -> None:
    """A viewer looks; an operator acts under their own name; nobody takes the name of the engine's own token."""

    def made(role: str, name: str) -> tuple[str, str]:
        token = f"{role[:3]}_{name}_that_is_long_enough"
        answer = door.post("/api/tokens", {"role": role, "name": name, "token": token})
        assert (answer.status, answer.json["role"], answer.json["name"]) == (201, role, name)
        return token, answer.json["id"]

    dashboard, dashboard_id = made("viewer", "dashboard")
    ann, _ = made("operator", "ann")
    assert door.get("/api/me", dashboard).json["role"] == "viewer"
    assert door.get("/api/status", dashboard).status == 200
    assert door.get("/api/tokens", dashboard).status == 403
    assert door.post(f"/api/tokens/{dashboard_id}/revoke", {}, dashboard).status == 403
    assert door.get("/api/me", ann).json["name"] == "ann"
    listed = {(each["role"], each["name"]) for each in door.get("/api/tokens", ann).json["tokens"]}
    assert {("viewer", "dashboard"), ("operator", "ann"), ("agent", "far")} <= listed
    assert not any(name == access.ENGINE_TOKEN_LABEL for _, name in listed), (
        "the engine's own is not for anybody to revoke"
    )
    for wrong in (
        {"role": "operator", "name": access.ENGINE_TOKEN_LABEL},
        {"role": "viewer"},
        {"role": "agent", "name": "ann"},
        {"agent_id": "far", "role": "viewer", "name": "ann"},
        {},
    ):
        answer = door.post("/api/tokens", {**wrong, "token": "tok_that_is_long_enough"})
        assert (answer.status, answer.code) == (422, "FIELD_VALUE"), wrong
    assert door.post(f"/api/tokens/{dashboard_id}/revoke", {}, ann).json["name"] == "dashboard"
    assert door.get("/api/status", dashboard).status == 401
    assert door.post(f"/api/tokens/{token_hash(OPERATOR)[:12]}/revoke", {}, ann).status == 404


def test_an_agent_reads_its_task_and_reports_on_it(door: Door) -> None:
    token = door.leased()
    said = door.post(f"{TASK}/comments", {**COMMENT, "claims": [{"type": "push", "sha": "abc"}]}, token)
    assert (said.status, said.json["author"], said.json["type"]) == (201, "dev", "action_report")
    assert door.post(f"{TASK}/outputs", OUTPUT, token).status == 201
    shown = door.get(TASK, token).json
    assert (shown["state"], shown["running"], shown["agent_id"]) == ("RUNNING", True, "dev")
    assert [(each["body"], each["epoch"]) for each in shown["comments"]] == [("I pushed the fix.", 1)]
    assert shown["comments"][0]["claims"] == [{"type": "push", "sha": "abc"}]
    assert [(each["author"], each["type"], each["body"]) for each in shown["outputs"]] == [("dev", "text", "the patch")]

    async def facts(deps: Deps) -> list[str]:
        store = await deps.stores.board("default")
        return [row[2] for row in await store.read(FACTS_OF, subject="plan_shop/build", after=0, limit=10)]

    assert door.run(facts) == ["task.comment", "task.output"]


def test_the_socket_speaks_the_same(door: Door) -> None:
    token = door.leased()
    assert door.post(f"{TASK}/comments", COMMENT, token, over="socket").status == 201
    assert door.get("/healthz", None, over="socket").json == {"ok": True}


@pytest.mark.parametrize(
    "path",
    [
        "/api/projects/default/tasks/plan_shop:design",
        "/api/projects/default/tasks/other:build",
        "/api/projects/other/tasks/plan_shop:build",
        "/api/projects/_mail/tasks/build",
        "/api/projects/default/tasks/build",
        "/api/projects/default/tasks/nothing:here",
        "/api/projects/system/tasks/plan_shop:build",
    ],
)
def test_an_agent_reaches_no_task_but_its_own_and_learns_of_none(door: Door, path: str) -> None:
    token = door.leased()
    for answer in (
        door.get(path, token),
        door.post(f"{path}/comments", COMMENT, token),
        door.post(f"{path}/outputs", OUTPUT, token),
    ):
        assert (answer.status, answer.code) == (403, "NOT_ALLOWED")
        assert "plan_shop:build" in answer.json["hint"]
    assert rows(door) == []


def test_the_token_of_an_earlier_attempt_is_out(door: Door) -> None:
    old = door.leased()
    door.released()
    assert door.get(TASK, old).status == 401
    new = door.leased()
    assert door.post(f"{TASK}/comments", COMMENT, old).status == 401
    assert door.post(f"{TASK}/comments", COMMENT, new).status == 201
    door.released()
    assert door.post(f"{TASK}/comments", COMMENT, new).status == 401
    assert [row[6] for row in rows(door)] == [2]


def test_a_token_that_only_says_the_right_things_is_out(door: Door) -> None:
    door.leased()
    assert door.get(TASK, attempt_token("default", "plan_shop", "build", 1, "guessed")).status == 401
    assert door.get(TASK, attempt_token("default", "plan_shop", "build", 2, "secret")).status == 401


@pytest.mark.parametrize("board", ["nowhere", "system", "_mail", "_other"])
def test_a_token_makes_no_database(door: Door, board: str) -> None:
    before = sorted(path.name for path in (door.root / "data").rglob("*"))
    assert door.get(TASK, attempt_token(board, "plan_shop", "build", 1, "x")).status == 401
    assert door.get(f"/api/projects/{board}/tasks/a:b").status == 404
    assert door.get(f"/api/projects/{board}/tasks/a").status == 404
    assert sorted(path.name for path in (door.root / "data").rglob("*")) == before


def test_a_write_whose_attempt_ended_meanwhile_is_refused_in_its_transaction(door: Door) -> None:
    token = door.leased()
    task = TaskName("default", "plan_shop", "build")

    async def identify(deps: Deps) -> access.Caller | None:
        return await access.identify(deps, token)

    caller = door.run(identify)
    assert caller is not None
    door.released()
    door.leased()

    async def say(deps: Deps) -> None:
        await task_comments.post_contribution(deps, task, TaskContribution("comment", "dev", "general", "late"), caller)

    with pytest.raises(UsageError) as caught:
        door.run(say)
    assert caught.value.code is Code.LEASE_LOST
    assert rows(door) == []


def test_nobody_speaks_in_anothers_name(door: Door) -> None:
    token = door.leased()
    answer = door.post(f"{TASK}/comments", {**COMMENT, "author": "lead"}, token)
    assert (answer.status, answer.code) == (403, "NOT_ALLOWED")
    assert door.post(f"{TASK}/comments", COMMENT).status == 403
    assert door.post(f"{TASK}/comments", {**COMMENT, "author": "operator"}).status == 201
    assert [(row[2], row[6]) for row in rows(door)] == [("operator", None)]


def test_an_unknown_type_of_comment_is_refused_with_those_that_there_are(door: Door) -> None:
    token = door.leased()
    answer = door.post(f"{TASK}/comments", {**COMMENT, "comment_type": "done"}, token)
    assert (answer.status, answer.code) == (422, "FIELD_VALUE")
    for name in ("general", "handoff", "observation", "review", "rebuttal", "rebuttal_response", "action_report"):
        assert name in answer.json["detail"]
    for name in ("debate_argument", "debate_rebuttal", "debate_judgment"):
        assert name in answer.json["detail"]
        assert door.post(f"{TASK}/comments", {**COMMENT, "comment_type": name}, token).status == 201


def test_no_agent_sets_a_state(door: Door) -> None:
    token = door.leased()
    assert door.post(f"{TASK}/comments", {**COMMENT, "state": "COMPLETED"}, token).status == 422
    for method in ("PUT", "PATCH", "DELETE"):
        assert door.ask(method, TASK, {"state": "COMPLETED"}, token=token).status == 403
    assert door.post(TASK, {"state": "COMPLETED"}, token).status == 405
    assert door.post(f"{TASK}/status", {"status": "done"}, token).code == "NOT_ALLOWED"
    assert door.get(TASK, token).json["state"] == "RUNNING"


def test_the_same_key_says_it_once(door: Door) -> None:
    token = door.leased()
    key = {"Idempotency-Key": "report-1"}
    first = door.post(f"{TASK}/comments", COMMENT, token, headers=key)
    again = door.post(f"{TASK}/comments", COMMENT, token, headers=key)
    assert (first.status, first.json) == (again.status, again.json)
    other = door.post(f"{TASK}/comments", {**COMMENT, "body": "Something else."}, token, headers=key)
    assert (other.status, other.code) == (409, "KEY_REUSED")
    assert len(rows(door)) == 1
    door.released()
    assert door.post(f"{TASK}/comments", COMMENT, door.leased(), headers=key).status == 201
    assert [row[6] for row in rows(door)] == [1, 2]
    assert door.post(f"{TASK}/comments", COMMENT, token, headers={"Idempotency-Key": "x" * 300}).status == 401


def test_a_task_of_a_virtual_board_is_named_by_its_bare_id(door: Door) -> None:
    token = door.leased("tc-1", plan_id="_toolchain", board="_toolchain", agent_id="dev")
    path = "/api/projects/_toolchain/tasks/tc-1"
    assert door.post(f"{path}/comments", COMMENT, token).status == 201
    assert door.get(path, token).json["comments"][0]["author"] == "dev"
    assert door.get(TASK, token).json["hint"].endswith("/api/projects/_toolchain/tasks/tc-1")


def test_a_task_that_is_not_there_is_told_to_an_operator(door: Door) -> None:
    for path in ("default/tasks/plan_shop:nothing", "default/tasks/build", "other/tasks/plan_shop:build"):
        answer = door.get(f"/api/projects/{path}")
        assert (answer.status, answer.code) == (404, "TASK_NOT_FOUND")


def test_long_histories_come_in_pages(door: Door) -> None:
    token = door.leased()
    for number in range(task_comments.PAGE + 1):
        door.post(f"{TASK}/comments", {**COMMENT, "body": f"step {number}"}, token)
    first = door.get(TASK, token).json
    assert (len(first["comments"]), first["next"]) == (task_comments.PAGE, first["comments"][-1]["id"])
    rest = door.get(f"{TASK}?after={first['next']}", token).json
    assert ([each["body"] for each in rest["comments"]], rest["next"]) == ([f"step {task_comments.PAGE}"], None)


def test_no_token_is_kept_anywhere(door: Door) -> None:
    token = door.leased()
    door.post(f"{TASK}/comments", COMMENT, token)
    files: list[Path] = [path for path in door.root.rglob("*") if path.is_file()]
    assert len(files) > 3
    for path in files:
        data = path.read_bytes()
        assert OPERATOR.encode() not in data
        assert token.partition(".")[0].encode() not in data


@pytest.mark.parametrize(
    ("board", "plan_id", "task_id", "path"),
    [
        ("_toolchain", "_toolchain", "tc-1", "/api/projects/_toolchain/tasks/tc-1"),
        ("_mail", "_mail", "mail-1", "/api/projects/_mail/tasks/mail-1"),
        ("default", "plan_shop", "build", TASK),
    ],
)
def test_a_restart_forgets_no_task_no_token_and_no_key(
    tree: Tree, board: str, plan_id: str, task_id: str, path: str
) -> None:
    key = {"Idempotency-Key": "report-1"}
    with listening(tree.root) as before:
        token = before.leased(task_id, plan_id=plan_id, board=board)
        first = before.post(f"{path}/comments", COMMENT, token, headers=key)
        assert first.status == 201
        output = before.post(f"{path}/outputs", OUTPUT, token, headers=key)
        assert (output.status, output.code) == (409, "KEY_REUSED")
    with listening(tree.root) as after:
        again = after.post(f"{path}/comments", COMMENT, token, headers=key)
        assert (again.status, again.json) == (201, first.json)
        assert after.post(f"{path}/comments", {**COMMENT, "body": "More."}, token, headers=key).status == 409
        shown = after.get(path).json
        assert ([each["body"] for each in shown["comments"]], shown["running"]) == (["I pushed the fix."], True)
        after.released(task_id, plan_id=plan_id, board=board)
        assert after.post(f"{path}/comments", COMMENT, token, headers=key).status == 401


def test_what_was_made_of_commands_is_logged_without_its_values(door: Door) -> None:
    body = {
        "what": "generated",
        "subject": "plan_shop/build",
        "ok": False,
        "repairs": [{"field": "prompt", "why": "trimmed", "before": "a secret", "after": "secret"}],
        "errors": [{"field": "x" * 2000, "code": "FIELD_UNKNOWN", "message": "a secret"}] * 500,
    }
    assert door.post("/api/commands/log", body).json == {"ok": True}
    assert door.post("/api/commands/log", {**body, "what": "invented"}).status == 422

    async def facts(deps: Deps) -> list[Any]:
        system = await deps.stores.board("system")
        return await system.read(FACTS_OF, subject="plan_shop/build", after=0, limit=10)

    [(_, _, kind, kept)] = door.run(facts)
    assert (kind, b"secret" in kept, len(kept) < 40_000) == ("command.refused", False, True)


def test_a_command_that_is_none_is_not_sent(door: Door) -> None:
    answer = door.post("/api/commands/send", {"command": {"plan_id": "plan_shop"}})
    assert (answer.status, len(answer.json["problems"]) > 1) == (422, True)
    assert door.post("/api/commands/send", {"command": []}).status == 422


def test_a_command_under_a_key_is_sent_once_and_answered_alike(door: Door, tree: Tree) -> None:
    command = {
        "schema_version": "1.0",
        "plan_id": "plan_shop",
        "task_id": "build",
        "command_id": "cmd_build_001",
        "command_seq": 1,
        "dag_ref": {"sha256": tree.dags["plan_shop"]},
        "prompt": "Build it.",
        "required_inputs": [],
        "wait_for_inputs": False,
        "score_required": False,
        "timeout": 60,
    }
    key = {"Idempotency-Key": "send-1"}
    first = door.post("/api/commands/send", {"command": command}, headers=key)
    again = door.post("/api/commands/send", {"command": command}, headers=key)
    assert (first.status, first.json) == (again.status, again.json) == (200, again.json)
    other = door.post("/api/commands/send", {"command": {**command, "prompt": "No."}}, headers=key)
    assert (other.status, other.code) == (409, "KEY_REUSED")
    bare = door.post("/api/commands/send", {"command": command})
    assert bare.json.get("fate") != "accepted"
    assert [name for name in tree.inbox("dev") if name.endswith(".msg.json")] == ["cmd_build_001.msg.json"]
