"""Who comes in to the pages, and which forms count."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agenttalk.doors.api.app import create_app
from agenttalk.doors.pages.sessions import PageRoute
from agenttalk.engine.core import access
from agenttalk.engine.operation.service import Service
from agenttalk.engine.operation.sessions import LINK, MOST_LINKS, SESSION
from agenttalk.engine.people import questions
from doors.pages.pagekit import Guest, guest, text, visit
from kits.agentkit import Clock
from kits.plankit import plan, task

OPEN = {"/login", "/static/{name}"}
FORMS_WITHOUT_A_SESSION = {"/logout", "/preferences"}


def addresses(service: Service, method: str) -> list[str]:
    """Every page, with names of things that are not there."""
    found = [each for each in create_app(service).routes if isinstance(each, PageRoute)]
    paths = [each.path for each in found if method in (each.methods or ())]
    return [path.replace("{id}", "p").replace("{task}", "t").replace("{sha256}", "sha256:0") for path in paths]


def test_a_link_opens_the_pages_once(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        link = f"/login?key={ada.service.sessions.make_link('operator', 'ada')}"
        assert (await ada.get("/")).status_code == 401
        answer = await ada.get(link)
        [cookie] = answer.headers.get_list("set-cookie")
        assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {each.strip() for each in cookie.split(";")}
        assert cookie.startswith("agenttalk_session_8083=")
        assert (await ada.get("/")).status_code == 200
        eve = await ada.again()
        assert (await eve.get(link)).status_code == 401
        assert (await eve.get("/")).status_code == 401

    visit(tmp_path, use, entered=False)


def test_a_link_and_a_session_end_with_their_time(tmp_path: Path) -> None:
    clock = Clock()

    async def use(ada: Guest) -> None:
        key = ada.service.sessions.make_link("operator", "ada")
        clock.time += LINK
        assert (await ada.get(f"/login?key={key}")).status_code == 401
        await ada.enter()
        clock.time += SESSION - timedelta(seconds=1)
        assert (await ada.get("/")).status_code == 200
        clock.time += timedelta(seconds=1)
        assert (await ada.get("/")).status_code == 401

    visit(tmp_path, use, entered=False, clock=clock)


def test_the_newest_links_are_kept_when_there_are_too_many(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        keys = [ada.service.sessions.make_link("viewer", "ada") for _ in range(MOST_LINKS + 1)]
        assert await ada.service.sessions.open(keys[0]) is None
        assert await ada.service.sessions.open(keys[1]) is not None

    visit(tmp_path, use, entered=False)


def test_a_session_outlives_the_engine_and_is_stored_as_a_hash(tmp_path: Path) -> None:
    cookies: dict[str, str] = {}

    async def begin(ada: Guest) -> None:
        cookies.update({each.name: each.value or "" for each in ada.client.cookies.jar})

    async def go_on(ada: Guest) -> None:
        ada.client.cookies.update(cookies)
        assert (await ada.get("/")).status_code == 200

    visit(tmp_path, begin)
    visit(tmp_path, go_on, entered=False)
    [secret] = [value for name, value in cookies.items() if "session" in name]
    assert not [each for each in tmp_path.rglob("*") if each.is_file() and secret.encode() in each.read_bytes()]


def test_who_logs_out_is_out_also_with_the_old_cookie(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        cookies = {each.name: each.value or "" for each in ada.client.cookies.jar}
        assert (await ada.post("/logout")).status_code == 200
        ada.client.cookies.update(cookies)
        assert (await ada.get("/")).status_code == 401

    visit(tmp_path, use)


def test_no_token_opens_a_page(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        await access.admit(ada.engine.deps, "op_one", "operator", "operator")
        await access.admit_agent(ada.engine.deps, "rem_one", "far")
        for token in ("op_one", "rem_one", "nothing"):
            assert (await ada.get("/", Authorization=f"Bearer {token}")).status_code == 401

    visit(tmp_path, use, entered=False)


def test_no_page_and_no_form_is_open_to_somebody_unknown(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        for path in addresses(ada.service, "GET"):
            if path not in OPEN:
                assert (await ada.get(path)).status_code == 401, path
        for path in addresses(ada.service, "POST"):
            if path not in FORMS_WITHOUT_A_SESSION:
                assert (await ada.client.post(path, data={})).status_code == 401, path

    visit(tmp_path, use, entered=False)


def test_a_form_counts_only_from_a_page_of_its_own_session(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        eve = await ada.again()
        await eve.enter(name="eve")
        stolen = await eve.key()
        assert stolen != await ada.key()
        for path in addresses(ada.service, "POST"):
            for fields in ({}, {"form_key": ""}, {"form_key": stolen}, {"form_key": "ü" * 64}):
                answer = await ada.client.post(path, data=fields)
                assert answer.status_code == 403, (path, fields)
        assert (await ada.get("/")).status_code == 200, "nobody was logged out"

    visit(tmp_path, use)


def test_a_viewer_looks_and_does_nothing(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        await ada.engine.submit(plan(task("one"), agents={"a": {"driver": "human"}}))
        await ada.engine.asked()
        viewer = await ada.again()
        await viewer.enter("viewer")
        key = await viewer.key()
        for path in ("/", "/plans/p", "/plans/p/tasks/one", "/inbox"):
            shown = await viewer.page(path)
            actions = [each for each in shown.split("<form")[1:] if 'action="/logout"' not in each]
            assert all('action="/preferences"' in each for each in actions), path
        for path in addresses(viewer.service, "POST"):
            if path not in FORMS_WITHOUT_A_SESSION:
                assert (await viewer.client.post(path, data={"form_key": key})).status_code == 403, path
        assert len(await questions.list_open(viewer.engine.deps)) == 1

    visit(tmp_path, use)


def test_every_answer_says_what_a_browser_may_do_with_it(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        answers = [await ada.get(path) for path in ("/", "/login", "/nowhere/x", "/plans/none", "/static/style.css")]
        answers = [each for each in answers if each.headers["content-type"] != "application/problem+json"]
        answers.append(await ada.client.post("/preferences", data={}))
        assert len(answers) == 5
        for answer in answers:
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy
            assert answer.headers["x-frame-options"] == "DENY"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "same-origin"

    visit(tmp_path, use)


@pytest.mark.parametrize(
    "where", ["//evil.example/", "https://evil.example/", "/\\evil.example", "javascript:alert(1)", ""]
)
def test_preferences_lead_nowhere_else(tmp_path: Path, where: str) -> None:
    async def use(ada: Guest) -> None:
        answer = await ada.post("/preferences", where=where, language="zh")
        assert (answer.status_code, answer.headers["location"]) == (303, "/")

    visit(tmp_path, use)


def test_language_and_theme_are_kept(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        assert 'lang="en"' in await ada.page("/")
        answer = await ada.post("/preferences", where="/plans", language="zh", theme="dark")
        assert answer.headers["location"] == "/plans"
        shown = await ada.page("/plans")
        assert '<html lang="zh-Hans" data-theme="dark">' in shown
        assert "还没有计划" in shown
        await ada.post("/preferences", language="xx", theme="pink")
        assert '<html lang="zh-Hans" data-theme="dark">' in await ada.page("/plans")
        stranger = guest(ada.engine, ada.service)
        answer = await stranger.get("/login", **{"Accept-Language": "zh-CN,zh;q=0.9"})
        assert "agenttalk login" in text(answer)
        assert '<html lang="zh-Hans"' in answer.text

    visit(tmp_path, use)


def test_a_form_that_is_too_large_or_no_form_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from agenttalk.doors.pages import sessions

    monkeypatch.setattr(sessions, "LIMIT", 10_000)

    async def use(ada: Guest) -> None:
        answer = await ada.post("/preferences", where="x" * 20_000)
        assert answer.status_code == 413
        kind = {"Content-Type": "multipart/form-data; boundary=x"}
        answer = await ada.client.post("/preferences", content=b"--y\r\n\r\n", headers=kind)
        assert answer.status_code in {400, 403}

    visit(tmp_path, use)


def test_a_link_is_made_for_an_operator_alone(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        await access.admit(ada.engine.deps, "op_one", "operator", "operator")

        async def ask(token: str, body: dict[str, Any]) -> Any:
            told = {"Authorization": f"Bearer {token}"}
            return await ada.client.post("/api/login-links", json=body, headers=told)

        assert (await ask("nobody", {})).status_code == 401
        assert (await ask("op_one", {"role": "worker"})).status_code == 422
        made = await ask("op_one", {"role": "viewer", "by": "grace"})
        assert made.status_code == 201
        assert (await ada.get(made.json()["path"])).status_code == 200
        assert "grace" in await ada.page("/")

    visit(tmp_path, use, entered=False)
