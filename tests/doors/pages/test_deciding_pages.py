"""What people see of what they decide about, and that an answer counts for exactly that."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

import agenttalk
from agenttalk.adapters.drivers.python_calls import Turn
from agenttalk.contracts.core import wire
from agenttalk.doors.pages import diffs, files, page
from agenttalk.doors.pages.diffs import DiffBlock
from agenttalk.engine.people import questions
from agenttalk.engine.plans import releases
from agenttalk.rules.core import task_states
from agenttalk.rules.proof import done
from agenttalk.rules.text import catalogue, question_words, task_words
from agenttalk.rules.text.code_words import CODES, REFUSALS, Group, render_code, render_refusal
from agenttalk.rules.text.message import LOCALES
from doors.pages.pagekit import HOSTILE, Guest, text, visit
from kits.plankit import plan, task
from kits.provekit import CALC, FIXES, program, promise, repository

NICE = {"id": "nice", "kind": "human", "question": "Is it nice?"}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo", {"calc.py": CALC})


@pytest.mark.shows("E10")
def test_files_that_somebody_approves_are_named_hashed_shown_and_can_be_kept(tmp_path: Path) -> None:
    long, binary = f"{HOSTILE}\n" + "ä" * 4_000, b"\0\1\2" * 100_000

    async def maker(turn: Turn) -> str:
        turn.outputs["made"] = {"page.txt": long, "b.bin": binary}
        return "ok"

    async def use(ada: Guest) -> None:
        outputs = [{"name": "made", "deliverable": True}]
        await ada.engine.submit(plan(task("one", outputs=outputs, promise=promise(NICE))))
        await ada.engine.asked()
        [asked] = await questions.list_open(ada.engine.deps)
        where = f"/inbox/{asked.request_id}"
        shown = await ada.page(where)
        assert "&lt;script&gt;alert(1)" in shown
        assert "<script>alert" not in shown
        assert "Only the beginning is shown" in shown
        for name, data in (("page.txt", long.encode()), ("b.bin", binary)):
            digest = wire.sha256(data)
            assert re.search(rf"{name}</td><td><code[^>]*>{digest}<", shown), name
            kept = await ada.get(f"{where}/files/{digest}/download")
            assert (kept.status_code, kept.content) == (200, data)
            assert kept.headers["content-disposition"].startswith(f'attachment; filename="{name}"')
        assert "293.0 KiB" in shown
        other = wire.sha256(b"of somebody else")
        await (await ada.engine.deps.stores.blobs("default")).put(b"of somebody else")
        assert (await ada.get(f"{where}/files/{other}/download")).status_code == 404
        assert (await ada.post(f"{where}/answer", decision="APPROVE", seen_sha256=asked.sha256)).status_code == 303
        await ada.engine.until(lambda found: found.result == "done")
        assert "approved" in text(await ada.get(where))

    visit(tmp_path, use, a=maker, proving=True)


@pytest.mark.shows("E10")
def test_who_approves_work_in_a_repository_sees_what_it_changes(tmp_path: Path, repo: Path) -> None:
    async def use(ada: Guest) -> None:
        told = plan(
            task("fix", "dev", workspace="repo", promise=promise(NICE)),
            agents={"dev": program(tmp_path, "dev", FIXES)},
            workspace={"repo": str(repo)},
        )
        await ada.engine.submit(told)
        await ada.engine.asked()
        [asked] = await questions.list_open(ada.engine.deps)
        where = f"/inbox/{asked.request_id}"
        shown = await ada.page(where)
        assert re.search(r'<del><span class="hidden">removed: </span>-    return 0</del>', shown)
        assert re.search(r'<ins><span class="hidden">added: </span>\+    return a \+ b</ins>', shown)
        stale = await ada.post(f"{where}/answer", decision="APPROVE", seen_sha256=wire.sha256(b"x"), notes="I looked")
        assert stale.status_code == 409
        assert "Your answer does not count" in text(stale)
        assert "it is not the request that was shown" in text(stale)
        assert f'name="seen_sha256" value="{asked.sha256}"' in stale.text, "it is shown as it is now"
        assert ">I looked</textarea>" in stale.text, "nobody writes twice"
        assert (await ada.post(f"{where}/answer", decision="APPROVE", seen_sha256=asked.sha256)).status_code == 303
        await ada.engine.until(lambda found: found.result == "done")
        late = await ada.post(f"{where}/answer", decision="REJECT", seen_sha256=asked.sha256)
        assert late.status_code == 409
        assert "it was answered before" in text(late)
        assert "Answered by ada" in text(late)

    visit(tmp_path / "root", use, proving=True)


def test_who_decides_on_refused_work_sees_it_and_the_rounds_before(tmp_path: Path, repo: Path) -> None:
    async def use(ada: Guest) -> None:
        wanted = {"id": "says", "kind": "file", "path": "calc.py", "contains": "multiply"}
        told = plan(
            task("fix", "dev", workspace="repo", promise=promise(wanted), max_reexecute_times=1),
            agents={"dev": program(tmp_path, "dev", FIXES)},
            workspace={"repo": str(repo)},
        )
        await ada.engine.submit(told)
        await ada.engine.ended()
        [asked] = await questions.list_open(ada.engine.deps)
        shown = text(await ada.get(f"/inbox/{asked.request_id}"))
        assert "no round left" in shown
        assert "Rework rounds" in shown
        assert "added: + return a + b" in shown
        assert "What was left is the commit" in shown
        for where in ("/", "/inbox", f"/inbox/{asked.request_id}"):
            chinese = text(await ada.get(where, **{"accept-language": "zh"}))
            assert "fix 返工后问题依旧。再给几轮、按现状接受还是中止？" in chinese, where
        assert "accept 按现状接受" in chinese
        assert "Grant more rounds" not in chinese

    visit(tmp_path / "root", use, proving=True)


def test_a_question_of_another_party_says_the_same_in_both_languages() -> None:
    message = question_words.NOT_FIT(agent="dev", task="build")
    own = catalogue.with_messages({"title": message})
    assert page.translate_own("zh", own, "title") == "dev 不适合做 build"
    assert page.translate_own("en", own, "title") == "dev is not fit for build"
    lying = own | {"title": "Shall I tidy up?"}
    assert {page.translate_own(language, lying, "title") for language in LOCALES} == {"Shall I tidy up?"}
    assert page.translate_own("zh", {"title": 7}, "title") == ""


def test_a_difference_falls_into_blocks() -> None:
    told = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n same\n-- old\n+++ new\n+more\n\\ No newline"
    assert diffs.split_diff(told) == [
        DiffBlock("file", "diff --git a/x b/x\n--- a/x\n+++ b/x"),
        DiffBlock("place", "@@ -1,2 +1,2 @@"),
        DiffBlock("same", " same"),
        DiffBlock("removed", "-- old"),
        DiffBlock("added", "+++ new\n+more"),
        DiffBlock("same", "\\ No newline"),
    ]
    assert diffs.split_diff("") == []


@pytest.mark.parametrize("mark", ["\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u202e", "\u2066", "\u200b", "\x1b"])
def test_no_character_of_a_changed_line_makes_it_look_like_another_one(mark: str) -> None:
    shown = f"+x = 1\\x{ord(mark):02x}-sold()"
    assert diffs.split_diff(f"@@ -1 +1 @@\n+x = 1{mark}-sold()\n") == [
        DiffBlock("place", "@@ -1 +1 @@"),
        DiffBlock("added", shown),
    ]
    assert files.decode_text(f"+x = 1{mark}-sold()".encode()) == shown


def codes_of(group: Group) -> set[str]:
    return {key.partition(".")[2] for key in CODES if key.startswith(f"{group}.")}


def test_every_code_of_the_engine_has_words() -> None:
    assert codes_of("cause") == set(get_args(task_states.Cause))
    assert codes_of("phase") == set(get_args(task_states.Phase))
    assert codes_of("state") == set(get_args(task_states.State))
    assert codes_of("trust") == set(done.TRUST)
    assert render_code("zh", "cause", "FULFILLED") == "承诺已兑现"
    assert render_code("en", "cause", "NOBODY_KNOWS_IT") == "NOBODY_KNOWS_IT"
    assert render_code("en", "cause", None) == ""


def test_every_code_of_a_refusal_is_explained_in_chinese() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in Path(agenttalk.__file__).parent.rglob("*.py"))
    named = set(re.findall(r"Rejection\(\s*Code\.(\w+)", source))
    assert len(named) > 20
    assert named <= REFUSALS.keys()
    assert render_refusal("zh", "TASK_NOT_IN_DAG") == "计划的 DAG 中没有该任务。"
    assert render_refusal("zh", "OF_ANOTHER_RELEASE") == ""
    assert render_refusal("en", "TASK_NOT_IN_DAG") == "", "its reason is in English already"


def test_a_page_has_messages_in_chinese_and_words_of_others_as_they_are() -> None:
    reason = task_words.TASK_FAILED(task="t")
    assert page.translate("zh", reason) == "t 失败"
    assert page.translate("en", reason) == "t failed"
    assert page.translate("zh", "t failed") == "t failed", "words of others"
    assert page.translate("zh", None) == ""
    stored = catalogue.with_messages({"reason": reason, "note": "t failed"})
    assert [page.translate_field("zh", stored, name) for name in ("reason", "note", "more")] == [
        "t 失败",
        "t failed",
        "",
    ]
    assert page.translate_all("zh", [reason, "odd"]) == "t 失败；odd"


def test_a_reader_of_chinese_sees_in_chinese_why_a_plan_is_not_released(tmp_path: Path) -> None:
    async def writes(turn: Turn) -> str:
        turn.outputs["app"] = "hello"
        return "made"

    async def use(ada: Guest) -> None:
        made = [{"name": "app", "deliverable": True}]
        gates = {"build": {"kind": "file", "path": "app", "contains": "bye"}}
        await ada.engine.submit(plan(task("one", outputs=made), release={"gates": gates}))
        await ada.engine.ended()
        told = text(await ada.get("/plans/p", **{"accept-language": "zh"}))
        assert "关卡 'build' 对 'app' (sha256:" in told
        assert ") 的决定是 REJECT" in told
        assert "gate 'build' says REJECT to 'app'" in text(await ada.get("/plans/p"))
        seen = catalogue.with_messages((await releases.require_release(ada.service.deps, "p")).as_json())
        [stored], [message] = seen["reasons"], seen["reasons_messages"]
        assert stored.startswith("gate 'build' says REJECT")
        assert message["id"] == "text.about", "what the check found stands behind it"
        assert message["params"]["subject"]["id"] == "release.gate_says"

    visit(tmp_path, use, proving=True, a=writes)
