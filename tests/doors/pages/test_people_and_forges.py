"""A person gives a file, and a forge tells of an issue: both are watched in a real browser."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import agenttalk
from agenttalk.adapters.drivers.python_calls import Turn
from doors.api.enginekit import agenttalk as agenttalk_
from doors.pages.browserkit import Eyes, eyes, served
from engine.toolchain.kits.forgekit import told
from kits.plankit import plan, task

pytestmark = pytest.mark.rest

__all__ = ["eyes"]
DEV = Path(agenttalk.__file__).parent / "demo" / "forge_team" / "dev.py"
PHOTO = b"\x89PNG\r\n\x1a\n\0\xff" + bytes(range(256)) * 300
"""No text, and too large for the database."""


def test_a_question_is_answered_with_a_file_and_the_plan_goes_on(tmp_path: Path, eyes: Eyes) -> None:
    seen: list[bytes] = []

    async def uses(turn: Turn) -> str:
        seen.append(turn.read("picture"))
        return "ok"

    eyes.complaints.clear()
    (tmp_path / "my photo.png").write_bytes(PHOTO)
    asks = plan(
        task("asks", "person", outputs=[{"name": "photo.png", "deliver_to": ["user"]}]),
        task("uses", "user", inputs=[{"name": "picture", "from": "photo.png"}]),
        agents={"person": {"driver": "human"}},
    )
    with served(tmp_path / "root", asks, agents={"user": uses}) as engine:
        page = eyes.look(engine.link())
        page.goto(f"{engine.http}/plans/p")
        page.wait_for_selector('#graph a[aria-label^="asks: waiting"]')
        other = page.context.new_page()
        other.goto(f"{engine.http}/inbox")
        other.click("main >> text=Do asks.")
        other.set_input_files("input[name=file_0]", tmp_path / "my photo.png")
        other.click("button >> text=Answer")
        other.wait_for_selector(".told >> text=Done")
        page.wait_for_selector('#graph a[aria-label^="uses: done"]')  # on the page that was open all the time
        page.wait_for_selector('#graph a[aria-label^="asks: done"]')
        assert seen == [PHOTO]
        page.goto(f"{engine.http}/plans/p/tasks/asks")
        page.click("#outputs a")
        with page.expect_download() as kept:
            page.click("text=Download")
        assert kept.value.path().read_bytes() == PHOTO
        assert eyes.complaints == []
        page.context.close()


def test_an_issue_at_a_forge_becomes_a_task_and_is_done_before_ones_eyes(
    tmp_path: Path, eyes: Eyes, monkeypatch: pytest.MonkeyPatch
) -> None:
    if subprocess.run(["git", "--version"], capture_output=True, check=False).returncode:
        pytest.skip("the forge needs git")
    go = tmp_path / "go"
    waits = f"import os, runpy, sys, time\nsys.path.insert(0, {str(DEV.parent)!r})\nwhile not os.path.exists({str(go)!r}):\n    time.sleep(0.05)\n"
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    with told(tmp_path, {"dev": f"{waits}runpy.run_path({str(DEV)!r}, run_name='__main__')\n"}) as (world, bench):
        link = agenttalk_("login", "--root", str(tmp_path / "root")).stdout.strip()
        eyes.complaints.clear()
        page = eyes.look(link)
        page.goto(f"{bench.url}/toolchain")
        page.wait_for_selector(".live.on")
        page.evaluate("window.untouched = true")
        assert page.query_selector("#tasks tbody tr") is None
        world.assigned("The price <b>is</b> wrong")
        page.wait_for_selector("#tasks tbody tr >> text=The price <b>is</b> wrong")
        page.wait_for_selector("#tasks tbody tr >> text=dev")
        assert page.query_selector("#tasks tbody b") is None
        assert page.query_selector("#tasks .badge.good") is None, "nobody has done anything yet"
        go.touch()
        page.wait_for_selector("#tasks .badge.good >> text=done", timeout=60_000)
        page.wait_for_selector("#tasks >> text=observed")
        assert page.evaluate("window.untouched"), "nobody loaded the page anew"
        page.goto(f"{bench.url}/deliveries")
        assert "issues" in page.inner_text("main")
        refused = bench.post(
            "/api/webhooks/work", json.dumps({"action": "opened"}).encode(), {"X-Gitea-Event": "issues"}
        )
        assert refused[0] == 401, "what is not signed is not told"
        assert eyes.complaints == []
        page.context.close()
