"""Pictures that checks take of pages: bound to their tree, stored, and shown on the page of their task."""

from __future__ import annotations

import re
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from agenttalk.adapters.drivers.python_calls import Turn
from doors.pages.pagekit import Guest, visit
from kits.plankit import plan, task
from kits.provekit import promise
from kits.sandboxkit import needs

CHECK = {
    "id": "looks",
    "kind": "browser",
    "serve": "exec python3 -m http.server --bind 127.0.0.1 $PORT",
    "steps": [{"open": "/index.html"}, {"see": "We open at nine"}, {"screenshot": "front"}],
}


async def maker(turn: Turn) -> str:
    """Makes a page, wrong at first."""
    text = "We open at nine" if turn.inputs else "We are closed"
    turn.outputs["index.html"] = f"<!doctype html><title>Shop</title><h1>{text}</h1>"
    return "made it"


@pytest.mark.rest
@pytest.mark.skipif(
    shutil.which("chromium") is None or find_spec("playwright") is None, reason="no browser here: make browser"
)
def test_a_page_that_the_work_serves_is_proven_with_pictures(tmp_path: Path) -> None:
    needs("bubblewrap")

    async def use(ada: Guest) -> None:
        made = task("one", outputs=[{"name": "index.html", "deliverable": True}], promise=promise(CHECK))
        await ada.engine.submit(plan(made))
        await ada.engine.ended()
        shown = await ada.page("/plans/p/tasks/one")
        links = list(dict.fromkeys(re.findall(r'<img src="(/plans/p/tasks/one/pictures/[^"]+)"', shown)))
        assert len(links) >= 2
        for link in links:
            answer = await ada.get(link)
            assert answer.status_code == 200
            assert answer.headers["Content-Type"] == "image/png"
            assert answer.content.startswith(b"\x89PNG")
        assert "of tree" in shown
        assert "We are closed" in shown  # what the first round showed instead
        assert "FULFILLED" in shown
        strange = links[0].rpartition("/")[0] + "/sha256:" + "0" * 64
        assert (await ada.get(strange)).status_code == 404

    visit(tmp_path, use, proving=True, a=maker)
