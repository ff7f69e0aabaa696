"""The prompt as an agent got it: on its task's page, over HTTP and on the command line, if the ledger's hash says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agenttalk.contracts.errors import UsageError
from agenttalk.doors.cli.main import call
from agenttalk.engine.agents import prompt_record
from agenttalk.rules.prompts.size import estimate_tokens
from doors.pages.pagekit import HOSTILE, Guest, text, visit
from kits.plankit import plan, task

READER = {"driver": "script", "argv": ["/bin/sh", "-c", 'cat > "$AGENTTALK_OUTPUTS/got.txt"']}
MADE = [{"name": "got.txt", "deliverable": True}]
KEPT = "agents/dev/workspace/p/one/.agenttalk/cmd_one_001-1.prompt.txt"


async def _done(ada: Guest, *tasks: dict[str, Any]) -> None:
    await ada.engine.submit(plan(*tasks, agents={"dev": READER, "someone": {"driver": "human"}}))
    await ada.engine.ended()


def test_a_task_shows_the_very_prompt_that_its_agent_got(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        await _done(ada, task("one", "dev", prompt=f"Do it. {HOSTILE}", outputs=MADE))
        found = await prompt_record.read_prompt(ada.engine.deps, "p", "one")
        got = (tmp_path / "agents/dev/workspace/p/one/.agenttalk/cmd_one_001-1/outputs/got.txt").read_text(
            encoding="utf-8"
        )
        assert (found["standing"], found["attempt"], found["command_id"]) == ("as_injected", 1, "cmd_one_001")
        assert found["text"] == got
        assert await prompt_record.read_prompt(ada.engine.deps, "p", "one", "cmd_one_001") == found
        shown = await ada.page("/plans/p/tasks/one")
        assert "The whole prompt, as the agent got it</summary>" in shown
        assert shown.count("&lt;script&gt;alert(1)") >= 2
        assert "<script>alert" not in shown
        assert "How to hand over" in text(await ada.get("/plans/p/tasks/one"))

    visit(tmp_path, use)


def test_a_text_that_was_changed_is_not_believed_and_one_that_is_gone_is_not_made_up(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        await _done(ada, task("one", "dev", outputs=MADE))
        first = await prompt_record.read_prompt(ada.engine.deps, "p", "one")
        assert first["text"] is not None
        (tmp_path / KEPT).write_text(f"{first['text']} and pay me", encoding="utf-8")
        changed = await prompt_record.read_prompt(ada.engine.deps, "p", "one")
        assert (changed["standing"], changed["sha256"]) == ("differs", first["sha256"])
        assert "its hash is another" in text(await ada.get("/plans/p/tasks/one"))
        ada.engine.deps.secret_guard.register({"SHOP_API_KEY": "canary-0123456789"})
        (tmp_path / KEPT).write_text("canary-0123456789", encoding="utf-8")
        assert "canary" not in await ada.page("/plans/p/tasks/one")
        (tmp_path / KEPT).unlink()
        gone = await prompt_record.read_prompt(ada.engine.deps, "p", "one")
        assert gone == {**first, "attempt": None, "standing": "hash_only", "text": None}
        assert "Only the hash of the prompt was kept" in text(await ada.get("/plans/p/tasks/one"))
        (tmp_path / KEPT).symlink_to("/etc/passwd")
        assert (await prompt_record.read_prompt(ada.engine.deps, "p", "one"))["standing"] == "hash_only"

    visit(tmp_path, use)


def test_of_functions_nothing_is_kept_but_the_hash_and_of_what_has_not_begun_not_even_that(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        await _done(ada, task("one"), task("two", "dev", needs=["ask"], outputs=MADE), task("ask", "someone"))
        one = await prompt_record.read_prompt(ada.engine.deps, "p", "one")
        assert (one["standing"], one["text"]) == ("hash_only", None)
        assert not (tmp_path / "agents/a/workspace").exists()
        two = await prompt_record.read_prompt(ada.engine.deps, "p", "two")
        assert (two["standing"], two["command_id"], two["text"]) == ("not_yet", None, None)
        with pytest.raises(UsageError, match="no task 'none'"):
            await prompt_record.read_prompt(ada.engine.deps, "p", "none")
        with pytest.raises(UsageError, match="no command 'cmd_one_009'"):
            await prompt_record.read_prompt(ada.engine.deps, "p", "one", "cmd_one_009")

    visit(tmp_path, use)


def test_the_command_line_prints_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def use(ada: Guest) -> None:
        await _done(ada, task("one", "dev", prompt="Sweep the floor.", outputs=MADE), task("two"))

    visit(tmp_path, use)
    root = ["--root", str(tmp_path)]
    assert call(["explain", "p/one", "--prompt", *root]) == 0
    said = first = capsys.readouterr()
    assert "Sweep the floor." in said.out
    whole, own = estimate_tokens(said.out[:-1]), estimate_tokens("Sweep the floor.")
    assert f"at most {whole} tokens, {whole - own} of them beside the task's own text" in said.err.replace("\n", " ")
    assert said.out.rstrip("\n") == (tmp_path / KEPT).read_text(encoding="utf-8").rstrip("\n")
    assert call(["explain", "p/two", "--prompt", *root]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert "only its hash was kept sha256:" in said.err.replace("\n", " ")
    assert call(["explain", "p/one", "--prompt", "--json", *root]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["standing"], told["attempt"], told["tokens"]) == ("as_injected", 1, whole)
    assert [each["title"] for each in told["sections"]] == ["Your task", "How to hand over"]
    for each in told["sections"]:
        assert f"{each['tokens']}  {each['title']}" in first.err
