"""What the pages show, and what their forms do."""

from __future__ import annotations

import asyncio
import re
import shutil
from html import unescape
from pathlib import Path
from typing import Any, get_args

import jinja2
import pytest
from jinja2 import nodes

from agenttalk.adapters.drivers.python_calls import Result, Turn
from agenttalk.adapters.store.root import database_path
from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.core import wire
from agenttalk.doors.pages.page import FOLDER
from agenttalk.engine.core import boards
from agenttalk.engine.core.access import Caller
from agenttalk.engine.mail.board import MailBoard
from agenttalk.engine.mail.letters import LetterDraft
from agenttalk.engine.mail.task_kind import MailTaskKind
from agenttalk.engine.operation.service import Service
from agenttalk.engine.people import questions
from agenttalk.engine.views import ledger as view_ledger
from agenttalk.engine.views import plans, task_detail
from agenttalk.engine.views.models.ledger import FactView
from agenttalk.ports.kinds import MailRules
from agenttalk.ports.statements.proof import STALE_TASKS
from agenttalk.rules.mail.letters import BOARD as MAIL
from agenttalk.rules.text import code_words
from agenttalk.rules.text.page_words import PAGE
from agenttalk.wiring import open_root
from doors.pages.pagekit import HOSTILE, Guest, guest, text, visit
from kits.plankit import Engine, plan, task
from kits.provekit import CALC, FIXES, RUNS, SUITE, git, program, promise, repository
from kits.treekit import Tree, node


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo", {"calc.py": CALC, "test_calc.py": SUITE})


async def liar(turn: Turn) -> str:
    """Says that it is done, and has made something else than it was asked for."""
    if turn.attempt:
        turn.outputs["page.html"] = HOSTILE
    return HOSTILE


def test_nothing_that_an_agent_says_or_makes_is_taken_for_the_page_itself(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        told = plan(
            task("one", prompt=f"Do it. {HOSTILE}", outputs=[{"name": "page.html", "deliver_to": ["b"]}]),
            task("two", "b", inputs=[{"name": "page", "from": "page.html"}]),
        )
        await ada.engine.submit(told)
        await ada.engine.ended()
        shown = [
            await ada.page(path) for path in ("/", "/plans/p", "/plans/p/tasks/one", "/plans/p/tasks/two", "/ledger")
        ]
        links = re.findall(r'href="(/plans/p/tasks/one/files/[^"]+)"', shown[2])
        assert links
        shown.append(await ada.page(links[0]))
        assert sum("&lt;script&gt;alert(1)" in each for each in shown) >= 3
        for each in shown:
            assert "<script>alert" not in each
            assert "<img src=x" not in each
            assert re.findall(r"<script[^>]*>", each) == [re.search(r"<script[^>]*>", each)[0]]  # type: ignore[index]
            assert " style=" not in each
            assert not re.search(r"<[^>]* on\w+=", each)

    visit(tmp_path, use, a=liar)


def test_a_file_is_shown_as_text_or_kept_and_never_run(tmp_path: Path) -> None:
    svg = b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>'

    async def maker(turn: Turn) -> str:
        turn.outputs["made"] = {"a.svg": svg, "b.bin": b"\0\1\2", "c.txt": "ä" * 40_000, "d.txt": b"\xff\xfe"}
        return "ok"

    async def use(ada: Guest) -> None:
        await ada.engine.submit(plan(task("one", outputs=[{"name": "made", "deliverable": True}])))
        await ada.engine.ended()
        shown = await ada.page("/plans/p/tasks/one")
        links = dict(re.findall(r'href="(/plans/p/tasks/one/files/[^"]+)">(?:made/)?([^<]+)<', shown))
        by_name = {name.rsplit("/", 1)[-1]: link for link, name in links.items()}
        assert "&lt;svg xmlns" in await ada.page(by_name["a.svg"])
        assert "only be downloaded" in await ada.page(by_name["b.bin"])
        assert "only be downloaded" in await ada.page(by_name["d.txt"])
        long = await ada.page(by_name["c.txt"])
        assert "Only the beginning is shown" in long
        assert 32_000 <= long.count("ä") <= 32_768
        kept = await ada.get(f"{by_name['a.svg']}/download")
        assert kept.content == svg
        assert kept.headers["content-type"] == "application/octet-stream"
        assert kept.headers["content-disposition"].startswith("attachment; filename=")
        assert kept.headers["x-content-type-options"] == "nosniff"
        other = wire.sha256(b"of somebody else")
        blobs = await ada.engine.deps.stores.blobs(boards.DEFAULT)
        await blobs.put(b"of somebody else")
        assert (await ada.get(f"/plans/p/tasks/one/files/{other}")).status_code == 404
        assert (await ada.get(f"/plans/p/tasks/one/files/{other}/download")).status_code == 404

    visit(tmp_path, use, a=maker)


def test_a_task_tells_why_it_is_not_done_and_who_proved_what(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        promise = {
            "objective": "It works",
            "acceptance": [
                {"id": "there", "description": "The file is there", "evidenceRequired": ["file"]},
                {"id": "good", "description": "It says yes", "evidenceRequired": ["says"]},
            ],
            "checks": [
                {"id": "file", "kind": "artifact", "output": "answer.txt"},
                {"id": "says", "kind": "file", "path": "answer.txt", "contains": "yes"},
            ],
        }
        told = plan(
            task("one", outputs=[{"name": "answer.txt", "deliverable": True}], promise=promise),
            task("two", "b", needs=["one"]),
            policies={"max_reexecute_times": 0},
        )
        await ada.engine.submit(told)
        await ada.engine.ended()
        shown = text(await ada.get("/plans/p/tasks/one"))
        assert "Why it is not done" in shown
        assert "criterion 'good' is not shown" in shown
        assert "Grant rounds" in shown
        [page] = re.findall(r'<ul class="checklist">.*?</ul>', await ada.page("/plans/p/tasks/one"), re.DOTALL)
        assert re.findall(r'<li class="(\w+)"', page) == ["proven", "failed"]
        overview = text(await ada.get("/"))
        assert "p / one" in overview
        answer = await ada.post("/plans/p/steer", action="rework", task="one", answer="accept")
        assert answer.status_code == 303
        done = await ada.engine.ended()
        assert done.result == "done"
        shown = text(await ada.get("/plans/p/tasks/one"))
        assert "Accept as it is: ada" in shown
        facts = text(await ada.get("/ledger?plan=p"))
        assert "ada" in facts

    visit(tmp_path, use, proving=True)


def test_a_question_is_answered_in_the_name_of_who_is_logged_in_and_only_as_it_was_shown(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        outputs = [{"name": "list.csv", "deliverable": True}]
        await ada.engine.submit(plan(task("one", outputs=outputs), agents={"a": {"driver": "human"}}))
        await ada.engine.asked()
        [asked] = await questions.list_open(ada.engine.deps)
        where = f"/inbox/{asked.request_id}"
        assert asked.request_id in await ada.page("/inbox")
        assert asked.sha256 in await ada.page(where)
        given = {"decision": "PROVIDE", "name_0": "list.csv", "text_0": "a,b\r\n1,2\r\n"}
        other = await ada.post(f"{where}/answer", **given, seen_sha256=wire.sha256(b"another question"))
        assert (other.status_code, "not the request that was shown" in text(other)) == (409, True)
        assert (await ada.post(f"{where}/answer", **given)).status_code == 400
        assert (await ada.post(f"{where}/answer", seen_sha256=asked.sha256, decision="MAYBE")).status_code == 400
        assert len(await questions.list_open(ada.engine.deps)) == 1
        done = await ada.post(f"{where}/answer", **given, seen_sha256=asked.sha256)
        assert (done.status_code, done.headers["location"]) == (303, "/inbox")
        assert "Done: Answer." in await ada.page("/inbox")
        assert "Done: Answer." not in await ada.page("/inbox"), "it is told once"
        await ada.engine.until(lambda found: found.result == "done")
        assert "Answered by ada" in text(await ada.get(where))
        again = await ada.post(f"{where}/answer", **given, seen_sha256=asked.sha256)
        assert again.status_code == 409
        link = re.search(r'href="(/plans/p/tasks/one/files/[^"]+)"', await ada.page("/plans/p/tasks/one"))
        assert link
        assert (await ada.get(f"{link[1]}/download")).content == b"a,b\n1,2\n"

    visit(tmp_path, use)


def test_a_file_that_was_chosen_is_taken_as_it_is(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        outputs = [{"name": "photo", "deliverable": True}]
        await ada.engine.submit(plan(task("one", outputs=outputs), agents={"a": {"driver": "human"}}))
        await ada.engine.asked()
        [asked] = await questions.list_open(ada.engine.deps)
        fields = {"form_key": await ada.key(), "decision": "PROVIDE", "name_0": "photo", "seen_sha256": asked.sha256}
        files = {"file_0": ("x.png", b"\x89PNG\r\n\0", "image/png")}
        answer = await ada.client.post(f"/inbox/{asked.request_id}/answer", data=fields, files=files)
        assert answer.status_code == 303
        await ada.engine.until(lambda found: found.result == "done")
        link = re.search(r'href="(/plans/p/tasks/one/files/[^"]+)"', await ada.page("/plans/p/tasks/one"))
        assert link
        assert (await ada.get(f"{link[1]}/download")).content == b"\x89PNG\r\n\0"

    visit(tmp_path, use)


def test_a_plan_is_paused_goes_on_and_is_cancelled(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        await ada.engine.submit(plan(task("one"), task("two", needs=["one"]), agents={"a": {"driver": "human"}}))
        await ada.engine.asked()
        for action, state in (("pause", "PAUSED"), ("resume", "RUNNING")):
            assert (await ada.post("/plans/p/steer", action=action)).status_code == 303
            await ada.engine.until(lambda found, state=state: found.state == state)  # type: ignore[misc]
        assert (await ada.post("/plans/p/steer", action="release")).status_code == 404, "no form asks for that"
        assert (await ada.post("/plans/none/steer", action="pause")).status_code == 404
        assert (await ada.post("/plans/p/steer", action="cancel", why="it is late")).status_code == 303
        await ada.engine.until(lambda found: found.state == "ENDED")
        facts = [each["body"] for each in (await ledger(ada.engine, "plan.cancelled"))]
        assert facts[0]["by"] == "ada"

    visit(tmp_path, use)


async def ledger(found: Engine, kind: str) -> list[FactView]:
    return (await view_ledger.list_ledger(found.deps, boards.DEFAULT, kind=kind))["facts"]


def test_every_page_has_something_to_say_when_there_is_nothing(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        for path in (
            "/",
            "/plans",
            "/inbox",
            "/agents",
            "/toolchain",
            "/mail",
            "/deadletters",
            "/deliveries",
            "/ledger",
        ):
            assert 'class="empty"' in await ada.page(path), path
        for path in ("/plans/none", "/plans/none/tasks/x", "/inbox/none", "/deadletters/none", "/toolchain/none",
                     "/mail/none", "/ledger?board=none", "/plans/..%5c", f"/mail/{'x' * 500}"):  # fmt: skip
            answer = await ada.get(path)
            assert answer.status_code == 404, path
            assert "This did not work" in answer.text

    visit(tmp_path, use)


def test_a_dead_letter_is_looked_at_and_replayed(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.dag([node("design", "pm", outputs=[{"name": "spec.md", "deliver_to": ["dev"]}]), node("build", "dev")])
    box = tree.box("pm", "outbox")
    box.mkdir(parents=True)
    (box / "x.msg.json").write_text(f'{{"type": "artifact", "x": "{HOSTILE[:20]}"}}')

    async def use(ada: Guest) -> None:
        await ada.engine.route()
        listed = await ada.page("/deadletters")
        link = re.search(r'href="(/deadletters/dl_[^"]+)"', listed)
        assert link
        shown = await ada.page(link[1])
        assert "&lt;script&gt;" in shown
        assert (await ada.get(f"{link[1]}/download")).headers["content-disposition"].startswith("attachment")
        answer = await ada.post(f"{link[1]}/replay")
        assert (answer.status_code, answer.headers["location"]) == (303, link[1])
        assert "Not done:" in await ada.page(link[1])
        assert "1 refused and not replayed" in await ada.page("/")
        assert "plan_shop" in await ada.page("/plans")
        assert "design" in await ada.page("/plans/plan_shop"), "also a plan that only lies in folders is drawn"
        assert "nothing is promised" in await ada.page("/plans/plan_shop/tasks/design")

    visit(tmp_path, use)


@pytest.mark.shows("A03")
def test_letters_have_a_page_of_their_own(tmp_path: Path) -> None:
    profile = AgentProfile.from_json({"schema_version": "1.0", "agent_id": "dev", "driver": "folder"})
    rules = MailRules({"dev": profile}, frozenset({"dev"}), remind_after=600, answer_within=3600, retry_times=0, hops=3)

    async def run() -> None:
        (tmp_path / "agents" / "dev").mkdir(parents=True)
        (tmp_path / "system_runtime").mkdir()
        async with open_root(tmp_path, kinds={MAIL: MailTaskKind(rules)}) as deps:
            post = MailBoard(deps)
            sent = LetterDraft(
                "ada", ("dev",), "request", subject=f"Six times seven {HOSTILE}", body=f"What is it? {HOSTILE}"
            )
            letter = await post.send(sent, Caller("operator", "ada"))
            service = Service(deps, post=post)
            ada = guest(None, service)  # type: ignore[arg-type]
            await ada.enter()
            listed = await ada.page("/mail")
            assert "Six times seven" in listed
            assert "not read" in listed
            assert "Six times seven" in await ada.page("/mail?search=seven&to=dev")
            assert 'class="empty"' in await ada.page("/mail?search=eight")
            shown = await ada.page(f"/mail/{letter['message_id']}")
            assert "What is it?" in shown
            for each in (listed, shown):
                assert "<script>alert" not in each
            for path in ("/plans", "/toolchain", "/"):
                assert "Six times seven" not in await ada.page(path), "letters are on no other page"
            await ada.client.aclose()

    asyncio.run(run())


def test_agents_show_how_far_they_can_be_believed(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        promise = {
            "objective": "It works",
            "acceptance": [{"id": "good", "description": "It says so", "evidenceRequired": ["says"]}],
            "checks": [{"id": "says", "kind": "file", "path": "answer.txt", "contains": "yes"}],
        }
        made = [{"name": "answer.txt", "deliverable": True}]
        await ada.engine.submit(
            plan(task("one", promise=promise, outputs=made), task("two", "b"), policies={"max_reexecute_times": 0})
        )
        await ada.engine.ended()
        shown = text(await ada.get("/agents"))
        assert "0 % 0 of 1 held, 0 unproven" in shown
        assert "100 % 1 of 1 held, 0 unproven" in shown
        assert "50 % 1 of 2 held, 0 unproven" in text(await ada.get("/"))

    visit(tmp_path, use, proving=True)


def test_a_plan_can_be_filtered_by_state(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        await ada.engine.submit(
            plan(*(task(f"t{number}") for number in range(5)), task("last", "h"), agents={"h": {"driver": "human"}})
        )
        await ada.engine.asked()
        await ada.engine.until(lambda found: found.counts["completed"] == 5)
        rows = re.search(r'<section class="card" id="tasks".*', await ada.page("/plans/p?state=done"), re.DOTALL)
        assert rows
        assert "/tasks/t0" in rows[0]
        assert "/tasks/last" not in rows[0]

    visit(tmp_path, use)


def test_every_sentence_of_the_pages_is_used_and_filled_in() -> None:
    templates = [jinja2.Environment().parse(path.read_text()) for path in (FOLDER / "templates").iterdir()]
    code = "".join(path.read_text() for path in FOLDER.glob("*.py"))
    used = {each.value for template in templates for each in template.find_all(nodes.Const)}
    assert {key for key in PAGE if key not in used and f'PAGE["{key}"]' not in code} == set()
    for call in [call for template in templates for call in template.find_all(nodes.Call)]:
        if isinstance(call.node, nodes.Name) and call.node.name == "t" and isinstance(call.args[0], nodes.Const):
            assert {each.key for each in call.kwargs} == PAGE[call.args[0].value].formats.keys(), call.args[0].value
    groups = {
        call.args[0].value
        for template in templates
        for call in template.find_all(nodes.Call)
        if isinstance(call.node, nodes.Name) and call.node.name == "c" and isinstance(call.args[0], nodes.Const)
    }
    assert groups == {key.partition(".")[0] for key in code_words.CODES} == set(get_args(code_words.Group))


def test_a_failure_of_ours_is_told_without_its_insides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: Any) -> Any:
        raise ValueError("secret insides")

    monkeypatch.setattr(plans, "list_plans", broken)

    async def use(ada: Guest) -> None:
        answer = await ada.get("/plans")
        assert answer.status_code == 500
        assert "secret insides" not in answer.text

    visit(tmp_path, use)


@pytest.mark.mends("F15")
def test_pages_say_how_much_of_a_release_and_of_an_agents_work_was_not_isolated(tmp_path: Path) -> None:
    async def writes(turn: Turn) -> str:
        turn.outputs["app"] = "hello"
        return "made"

    async def use(ada: Guest) -> None:
        made = [{"name": "app", "deliverable": True}]
        await ada.engine.submit(plan(task("one", outputs=made), release={"gates": {}}))
        await ada.engine.ended()
        assert "Not isolated: 1 of its tasks" in text(await ada.get("/plans/p"))
        assert "未隔离：其中 1 个任务" in text(await ada.get("/plans/p", **{"accept-language": "zh"}))
        assert "0 unproven, 1 not isolated" in text(await ada.get("/agents"))
        assert "0 unproven, 1 not isolated" in text(await ada.get("/"))

    visit(tmp_path, use, proving=True, a=writes)


@pytest.mark.mends("A2")
@pytest.mark.parametrize("path", ["/plans/p", "/plans/p/tasks/fix"])
def test_pages_look_at_the_branch_of_an_ended_plan_before_they_call_it_done(repo: Path, path: str) -> None:
    said = promise({"id": "tests-pass", "kind": "run", "run": RUNS, "red_first": "off"})
    agents = {"dev": program(repo.parent, "dev", FIXES)}

    async def use(ada: Guest) -> None:
        fix = task("fix", "dev", promise=said, workspace="repo")
        await ada.engine.submit(plan(fix, agents=agents, workspace={"repo": str(repo)}))
        await ada.engine.ended()
        assert "badge old" not in await ada.page(path)
        git(repo, "checkout", "-q", "agenttalk/p")
        (repo / "calc.py").write_text(CALC)
        git(repo, "commit", "-qam", "spoil")
        shown = await ada.page(path)
        assert re.search(r'class="badge old">.*?stale</span>', shown), shown
        stored = await ada.engine.deps.stores.board("default")
        assert await stored.read(STALE_TASKS, plan_id="p") == [], "a page only reads"
        await ada.engine.dispatcher.branches.record_stale_tasks()
        assert [row.task_id for row in await stored.read(STALE_TASKS, plan_id="p")] == ["fix"]

    async def gone(ada: Guest) -> None:
        assert "stale" in await ada.page(path)

    visit(repo.parent / "root", use, proving=True)
    shutil.rmtree(repo)
    visit(repo.parent / "root", gone, proving=True)


def test_what_is_done_by_claims_alone_looks_unproven_everywhere(tmp_path: Path) -> None:
    believed = {
        "objective": "It works",
        "acceptance": [
            {"id": "said", "description": "It says so", "evidenceRequired": ["word"], "minTrust": "claimed"}
        ],
    }

    async def claims(_: Turn) -> Result:
        return Result("done", evidence=["word"])

    async def use(ada: Guest) -> None:
        await ada.engine.submit(plan(task("one", promise=believed), plan_id="said"))
        await ada.engine.submit(plan(task("one", promise=believed), task("two", "b"), plan_id="mixed"))
        for name in ("said", "mixed"):
            assert (await ada.engine.ended(name)).counts["unproven"] == 1
        shown = await ada.page("/plans/said")
        assert re.search(r'<a [^>]*class="node unproven"[^>]*aria-label="one: unproven, a"', shown), "the graph"
        assert re.search(r'<rect class="said"[^>]*><title>one: unproven</title>', shown), "the timeline"
        assert re.search(r"<h1>said <span class=\"badge unproven\">.*?unproven</span></h1>", shown)
        assert re.search(r'/tasks/one">one</a></td>.*?<span class="badge unproven">', shown, re.DOTALL), "the list"
        assert 'class="node good' not in shown
        assert 'class="badge good"' not in shown
        mixed = await ada.page("/plans/mixed")
        assert re.search(r"<h1>mixed <span class=\"badge good\">", mixed)
        assert "1 unproven" in mixed
        for path in ("/", "/plans"):
            rows = dict(
                re.findall(r'<tr><td><a href="/plans/(\w+)">.*?<span class="badge (\w+)">', await ada.page(path))
            )
            assert rows == {"said": "unproven", "mixed": "good"}, path
        one = await ada.page("/plans/said/tasks/one")
        assert "It is not verified" in one
        assert 'class="badge good"' not in re.sub(r'<section class="card" id="attempts".*', "", one, flags=re.DOTALL)
        assert (await task_detail.describe_task(ada.engine.deps, "said", "one"))["proven"] is False

    visit(tmp_path, use, a=claims)


def test_a_plan_and_a_task_show_what_is_done_for_it_at_the_moment(tmp_path: Path) -> None:
    at_work, may_end = asyncio.Event(), asyncio.Event()

    async def busy(turn: Turn) -> str:
        turn.report(progress=f"reads {HOSTILE}", tokens=1234)
        at_work.set()
        await may_end.wait()
        return "ok"

    async def use(ada: Guest) -> None:
        await ada.engine.submit(plan(task("one", "dev"), task("two", "dev")))
        await at_work.wait()
        for path in ("/plans/p", "/plans/p/tasks/one"):
            page = await ada.page(path)
            assert HOSTILE not in page
            assert "data-doing" in page
            assert f"reads {HOSTILE} · " in unescape(page)
            assert "1,234 Tokens" in page
        assert "waits until dev is free" in text(await ada.get("/plans/p"))
        assert "等待 dev 空闲" in text(await ada.get("/plans/p", **{"accept-language": "zh"}))
        parts = (await ada.get("/plans/p/parts?task=two")).text
        assert "waits until dev is free" in parts
        found = (await ada.service.plans.read_status("p"))["tasks"]
        assert [each["activity"] and each["activity"]["phase"] for each in found] == ["working", "queued_agent"]
        may_end.set()
        await ada.engine.ended()
        assert "data-doing" not in await ada.page("/plans/p")

    visit(tmp_path, use, dev=busy)


def test_a_reader_of_chinese_sees_in_chinese_why_a_board_cannot_be_read(tmp_path: Path) -> None:
    path = database_path(tmp_path, "_toolchain")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"not a database. " * 512)

    async def use(ada: Guest) -> None:
        shown = text(await ada.get("/", **{"accept-language": "zh"}))
        assert "_toolchain 无法读取" in shown
        assert "已损坏" in shown
        told = text(await ada.get("/"))
        assert "_toolchain cannot be read" in told
        assert "已损坏" not in told

    visit(tmp_path, use)
