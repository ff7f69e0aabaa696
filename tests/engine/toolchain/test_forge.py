"""Against a forge that answers: its own webhooks, its own accounts, and steps made from what it says."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agenttalk.testing import FakeGitea
from doors.api.enginekit import until
from engine.toolchain.kits.bench import DOES_IT, REPORTS, SECRET, Bench, served

REVIEWS = f"""{REPORTS}
forge = os.environ["FORGE"] + "/api/v1"
shown = json.loads(prompt.partition("\\nBEGIN ")[2].partition("\\nEND ")[0].split("\\n", 3)[3])
marker = prompt.partition("as it is: `")[2].partition("`")[0]
body = {{"event": "REQUEST_CHANGES", "commit_id": shown["head_sha"], "body": "Not yet. " + marker,
        "comments": [{{"path": "src/retry.py", "new_position": 1, "body": "This loops for ever."}}]}}
request = urllib.request.Request(
    forge + "/repos/acme/widgets/pulls/%d/reviews" % shown["pr_number"], json.dumps(body).encode(),
    {{"Authorization": "token " + os.environ["REVIEWER_TOKEN"], "Content-Type": "application/json"}})
urllib.request.urlopen(request).read()
assert report("Step 1 to 3: reviewed.")[0] == 201
"""


def configured(root: Path, url: str, programs: dict[str, str]) -> Path:
    root.mkdir()
    (root / "secret.txt").write_text(SECRET)
    lines = []
    for agent, variable in (("dev", "DEV_TOKEN"), ("reviewer", "REVIEWER_TOKEN")):
        program = root / "agents" / agent / "work.py"
        program.parent.mkdir(parents=True)
        program.write_text(programs.get(agent, DOES_IT), encoding="utf-8")
        lines += [
            f"[agents.{agent}]",
            'driver = "script"',
            f'argv = ["{sys.executable}", "work.py"]',
            'env = ["FORGE"]',
        ]
        lines += [f'forge.work = {{ login = "agent-{agent}", token_env = "{variable}" }}']
    lines += ["[sources.work]", 'kind = "gitea"', f'base_url = "{url}"', 'secret_file = "secret.txt"']
    lines += ['token_env = "ENGINE_TOKEN"', 'login = "root"']
    lines += ["[toolchain]", 'default_reviewer = "reviewer"', 'verify = "report"', 'risk.high = ["src/*"]']
    (root / "agenttalk.toml").write_text("\n".join(lines), encoding="utf-8")
    return root


async def call(url: str, token: str, method: str, path: str, body: Any = None) -> Any:
    async with httpx2.AsyncClient(trust_env=False) as client:
        answer = await client.request(
            method, f"{url}/api/v1/repos/acme/widgets{path}", json=body, headers={"Authorization": f"token {token}"}
        )
    assert answer.status_code < 300, answer.text
    return answer.json()


@pytest.mark.shows("T03", "T17", "T20", "T23")
def test_a_pull_request_goes_from_review_to_rework_with_steps_from_the_forge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> list[dict[str, Any]]:
        async with FakeGitea.running(tmp_path / "forge") as forge:
            tokens = {login: forge.user(login) for login in ("agent-dev", "agent-reviewer")}
            forge.repository("acme/widgets", writers=list(tokens))
            monkeypatch.setenv("FORGE", forge.url)
            monkeypatch.setenv("DEV_TOKEN", tokens["agent-dev"])
            monkeypatch.setenv("REVIEWER_TOKEN", tokens["agent-reviewer"])
            monkeypatch.setenv("ENGINE_TOKEN", forge.admin)
            root = configured(tmp_path / "root", forge.url, {"reviewer": REVIEWS})
            forge.deliveries.copies = 2
            return await asyncio.to_thread(played, root, forge, tokens, asyncio.get_running_loop())

    found = asyncio.run(work())
    wanted = [("review_request", "reviewer"), ("review_result", "dev"), ("ci_failure", "dev")]
    assert [(each["must_haves"]["action_type"], each["assignee"]) for each in found] == wanted
    assert {each["status"] for each in found} == {"done"}
    review, result, failure = (each["must_haves"] for each in found)
    assert review["context"]["changed_files"] == ["src/retry.py"]
    assert review["context"]["risk_level"] == "high"
    [point] = [step for step in result["steps"] if step.startswith("Point 1")]
    assert "on line 1; its file and its text are `review_comments[0]` of the facts" in point
    assert result["context"]["review_comments"][0]["path"] == "src/retry.py"
    assert result["context"]["review_comments"][0]["body"] == "This loops for ever."
    assert any(step.startswith("Repair the job that `failed_jobs[0]` of the facts names") for step in failure["steps"])
    assert "ci.yml / test" in failure["context"]["failed_jobs"][0]["name"]
    for each in found:
        assert "REVIEWER_TOKEN" not in str(each)


def played(
    root: Path, forge: FakeGitea, tokens: dict[str, str], loop: asyncio.AbstractEventLoop
) -> list[dict[str, Any]]:
    """What people do at the forge, and the tasks that came of it."""

    def ask(method: str, path: str, body: Any, login: str = "agent-dev") -> Any:
        return asyncio.run_coroutine_threadsafe(call(forge.url, tokens[login], method, path, body), loop).result(30)

    def deed(do: Any, *arguments: Any, **options: Any) -> Any:
        async def run() -> Any:
            return do(*arguments, **options)

        return asyncio.run_coroutine_threadsafe(run(), loop).result(30)

    with served(root) as bench:
        events = ("pull_request", "pull_request_review", "issues", "issue_comment", "status", "workflow_run")
        deed(forge.hook, "acme/widgets", f"{bench.url}/api/webhooks/work", SECRET, events)
        sha = deed(forge.push, "acme/widgets", "feat/retry", {"src/retry.py": "while True: pass\n"}, "agent-dev")
        ask("POST", "/pulls", {"title": "Add retry", "body": "", "head": "feat/retry", "base": "main"})
        ended(bench, 2)
        deed(forge.finish_workflow, "acme/widgets", sha, pull=1)
        return ended(bench, 3)


def ended(bench: Bench, count: int) -> list[dict[str, Any]]:
    def look() -> list[dict[str, Any]] | None:
        found = bench.tasks()
        return found if len(found) == count and all(each["closed_at"] for each in found) else None

    found: list[dict[str, Any]] = until(look, f"{count} tasks have ended")
    return found
