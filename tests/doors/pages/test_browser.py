"""The pages in a real browser."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agenttalk.adapters.drivers.python_calls import Turn
from agenttalk.engine.core.boards import DEFAULT
from agenttalk.ports.statements.views import FACTS_AFTER
from doors.pages.browserkit import AXE, Eyes, Served, elsewhere, eyes, served
from doors.pages.pagekit import HOSTILE
from kits.plankit import plan, task

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["eyes"]
SAYS_YES = {
    "objective": "The answer is there",
    "acceptance": [{"id": "yes", "description": "It says yes", "evidenceRequired": ["says"]}],
    "checks": [{"id": "says", "kind": "file", "path": "answer.txt", "contains": "yes"}],
}
AGREED = {
    "objective": "It may go out",
    "acceptance": [{"id": "agreed", "description": "A person has agreed", "evidenceRequired": ["agreed"]}],
    "checks": [{"id": "agreed", "kind": "human", "question": "May it go out?"}],
}
MADE = [{"name": "answer.txt", "deliverable": True}]
PAGES = ("/", "/plans", "/plans/p", "/plans/p/tasks/wait", "/plans/p/tasks/lies", "/inbox", "/agents", "/toolchain",
    "/mail", "/deadletters", "/deliveries", "/ledger", "/ledger/replay")  # fmt: skip


class Team:
    """Agents of the plan: one waits until it may go on, one lies, one says what no page should believe."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.agents: dict[str, Any] = {"waiter": self.wait, "liar": self.lie, "maker": self.make, "hostile": self.harm}

    async def wait(self, _: Turn) -> str:
        await asyncio.to_thread(self.go.wait, 60)
        return "ok"

    async def lie(self, turn: Turn) -> str:
        turn.outputs["answer.txt"] = "no"
        return "Done. It says yes."

    async def make(self, turn: Turn) -> str:
        turn.outputs["answer.txt"] = "the page"
        return "ok"

    async def harm(self, turn: Turn) -> str:
        svg = f"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'><script>alert(2)</script></svg>{HOSTILE}"
        turn.outputs["answer.txt"] = svg
        return HOSTILE


PLAN = plan(
    task("wait", "waiter"),
    task("asks", "person", needs=["wait"]),
    task("publish", "maker", needs=["asks"], promise=AGREED, outputs=MADE),
    task("lies", "liar", promise=SAYS_YES, outputs=MADE),
    task("harm", "hostile", prompt=f"Harm. {HOSTILE}", outputs=MADE),
    agents={"person": {"driver": "human"}},
    policies={"max_reexecute_times": 0},
)


@pytest.fixture
def team() -> Team:
    return Team()


@pytest.fixture
def engine(tmp_path: Path, team: Team, eyes: Eyes) -> Iterator[Served]:
    eyes.complaints.clear()
    with served(tmp_path / "root", PLAN, agents=team.agents) as found:
        yield found
        team.go.set()


def state(page: Page, name: str, expected: str) -> None:
    """Wait until the drawing shows a task in a state."""
    page.wait_for_selector(f'#graph a[aria-label^="{name}: {expected}"]')


def test_a_plan_is_followed_live_its_question_answered_and_its_end_approved(
    engine: Served,
    team: Team,
    eyes: Eyes,
) -> None:
    page = eyes.look(engine.link())
    page.click("nav >> text=Plans")
    page.click("main td a")
    page.wait_for_selector(".live.on")
    state(page, "wait", "working")
    page.evaluate("window.untouched = true")
    team.go.set()
    state(page, "wait", "done")
    state(page, "asks", "waiting")
    state(page, "lies", "failed")
    assert page.evaluate("window.untouched"), "nobody loaded the page anew"

    page.click('#graph a[aria-label^="lies"]')
    assert "Why it is not done" in page.inner_text("#why")
    assert "criterion 'yes' is not shown" in page.inner_text("#why")
    assert "refuted" in page.inner_text("#promise .failed")

    page.click("nav >> text=Inbox")
    page.click("main >> text=Do asks.")
    page.fill("textarea[name=notes]", "Like this.")
    page.click("button >> text=Answer")
    page.wait_for_selector(".told >> text=Done")
    page.wait_for_selector("main >> text=May it go out?")
    page.click("main >> text=May it go out?")
    assert "sha256:" in page.inner_text("main")
    page.click("button >> text=Approve")
    page.wait_for_selector(".told >> text=Done")
    page.goto(f"{engine.http}/plans/p")
    state(page, "publish", "done")
    page.goto(f"{engine.http}/plans/p/tasks/publish")
    assert "by ada" in page.inner_text("#promise .proven")
    assert eyes.complaints == []
    page.context.close()


@pytest.mark.rest
def test_what_is_hostile_stays_text(engine: Served, eyes: Eyes) -> None:
    page = eyes.look(engine.link())
    page.goto(f"{engine.http}/plans/p")
    state(page, "harm", "done")
    for path in ("/", "/plans/p", "/plans/p/tasks/harm", "/ledger"):
        page.goto(f"{engine.http}{path}")
        page.wait_for_selector(".live.on")
    page.goto(f"{engine.http}/plans/p/tasks/harm")
    page.click("#outputs a")
    assert "<script>alert(2)</script>" in page.inner_text("pre.file")
    assert page.query_selector("main svg[onload]") is None
    with page.expect_download() as kept:
        page.click("text=Download")
    assert kept.value.suggested_filename == "answer.txt"
    assert eyes.complaints == []
    page.context.close()


@pytest.mark.rest
def test_language_and_theme_are_switched_and_kept(engine: Served, eyes: Eyes) -> None:
    page = eyes.look(engine.link(), color_scheme="light")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("button[name=theme]")
    page.wait_for_selector("html[data-theme=dark]")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert light != dark
    page.click("button >> text=中文")
    page.wait_for_selector('html[lang="zh-Hans"]')
    page.goto(f"{engine.http}/plans")
    assert page.inner_text("h1") == "计划"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == dark
    page.emulate_media(color_scheme="dark")
    page.click("button[name=theme]")
    page.wait_for_selector("html[data-theme=light]")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == light
    assert eyes.complaints == []
    page.context.close()


@pytest.mark.rest
def test_a_page_of_somebody_else_can_do_nothing(engine: Served, eyes: Eyes) -> None:
    evil = f'<form id=f method=post action="{engine.http}/plans/p/steer"><input name=action value=cancel></form><script>f.submit()</script>'
    with elsewhere(evil.encode()) as address:
        page = eyes.look(engine.link())
        page.goto(address)
        page.wait_for_url(f"{engine.http}/plans/p/steer")
        assert "HOST_REFUSED" in page.content()
        page.goto(f"{engine.http}/plans/p")
        assert "Cancel the plan" in page.inner_text("main"), "it was not cancelled"
        frame = f'<iframe src="{engine.http}/" width=500 height=500></iframe>'.encode()
        with elsewhere(frame) as framing:
            page.goto(framing)
            assert "AgentTalk" not in "".join(each.content() for each in page.frames[1:])
        page.context.close()


@pytest.mark.rest
def test_everything_can_be_read_and_done_without_a_script(engine: Served, team: Team, eyes: Eyes) -> None:
    team.go.set()
    page = eyes.look(engine.link(), java_script_enabled=False)
    page.goto(f"{engine.http}/plans/p")
    page.click("text=Pause")
    page.wait_for_selector(".told >> text=Done: Pause.")
    page.click("main >> text=Go on")
    page.wait_for_selector(".told >> text=Done: Go on.")
    assert page.inner_text("h1").startswith("p")
    assert page.query_selector("#graph a") is not None
    page.context.close()


@pytest.mark.rest
def test_it_can_be_used_by_keyboard_and_fits_a_telephone(engine: Served, eyes: Eyes) -> None:
    page = eyes.look(engine.link(), viewport={"width": 390, "height": 844})
    for path in PAGES:
        page.goto(f"{engine.http}{path}")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
    page.goto(f"{engine.http}/plans/p")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('node')"):
            break
    page.keyboard.press("Enter")
    page.wait_for_url("**/plans/p/tasks/*")
    page.context.close()


@pytest.mark.rest
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(engine: Served, eyes: Eyes, scheme: str) -> None:
    if not AXE.exists():
        pytest.skip("no axe-core: 'make browser' installs it")
    page = eyes.look(engine.link(), color_scheme=scheme)
    page.goto(f"{engine.http}/plans/p")
    state(page, "lies", "failed")
    found = {}
    for path in PAGES:
        page.goto(f"{engine.http}{path}")
        page.evaluate(AXE.read_text())
        told = page.evaluate("axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'best-practice']})")
        wrong = {each["id"]: each["nodes"][0]["html"] for each in told["violations"]}
        if wrong:
            found[path] = wrong
    assert found == {}
    page.context.close()


@pytest.mark.rest
def test_a_dead_letter_is_replayed(engine: Served, eyes: Eyes, tmp_path: Path) -> None:
    box = tmp_path / "root/agents/maker/outbox/p"
    box.mkdir(parents=True, exist_ok=True)
    (box / "x.msg.json").write_text('{"type": "artifact"}')
    page = eyes.look(engine.link())
    page.goto(f"{engine.http}/deadletters")
    page.wait_for_selector("main a.row")
    page.click("main a.row")
    page.click("button >> text=Replay")
    page.wait_for_selector(".told >> text=Not done")
    page.context.close()

    async def kinds() -> list[str]:
        store = await engine.running.service.deps.stores.board(DEFAULT)
        return [row[2] for row in await store.read(FACTS_AFTER, after=0, limit=1000)]

    assert "deadletter.replayed" in engine.do(kinds)
