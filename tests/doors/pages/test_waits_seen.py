"""The timeline of a plan shows where agents and checks waited."""

from __future__ import annotations

import re
from pathlib import Path

from doors.pages.pagekit import Guest, visit
from kits.plankit import plan, task
from kits.provekit import program, promise, repository


def test_the_timeline_says_how_long_an_agent_and_its_check_waited(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", {"t0.txt": "todo\n"})
    check = {"id": "ok", "kind": "run", "run": "grep -q done t0.txt"}
    one = task("t0", "t0", workspace="repo", promise=promise(check))
    agents = {"t0": program(tmp_path, "t0", "pathlib.Path('t0.txt').write_text('done')")}

    async def use(ada: Guest) -> None:
        await ada.engine.submit(plan(one, agents=agents, workspace={"repo": str(repo)}))
        await ada.engine.ended("p")
        page = (await ada.get("/plans/p")).text
        marks = re.findall(r'<rect class="wait"[^>]*><title>t0: [^<]*</title>', page)
        assert len(marks) == 4
        assert [word for word in ("until its agent began", "to its check", "to its end") if word not in page] == []
        assert re.search(r"<title>t0: done · [^<]* until its agent began · ", page)
        chinese = (await ada.get("/plans/p", **{"accept-language": "zh"})).text
        assert "后智能体开始" in chinese

    visit(tmp_path / "root", use, proving=True)
