"""Prompts of agents that read Chinese hold no sentence of ours in English, whatever came before them."""

from __future__ import annotations

import asyncio
import errno
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from string import Formatter
from typing import Any

import pytest

from adapters.forge.test_intake import issue_event
from adapters.forge.world import SOURCE
from agenttalk.adapters.drivers.python_calls import Turn
from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.forge import ForgeUser
from agenttalk.engine.core.access import Caller
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.task_comments import TaskName
from agenttalk.engine.mail.board import MailBoard
from agenttalk.engine.proof import disputes as proof_disputes
from agenttalk.ports.agents import Job
from agenttalk.ports.kinds import KindTask, MailRules
from agenttalk.rules.prompts.toolchain_steps import StepStyle
from agenttalk.rules.proof.done import Evidence
from agenttalk.rules.proof.performance import Performance
from agenttalk.rules.text.catalogue import CATALOGUE
from agenttalk.rules.text.message import ABOUT
from agenttalk.rules.toolchain import forge_facts
from agenttalk.rules.toolchain.forge_facts import ForgeFacts, ForgeQuery
from engine.mail import mailkit
from engine.toolchain.kits import saying
from engine.toolchain.test_board import PROFILES
from kits.plankit import Engine, plan, play, states, task
from kits.provekit import promise

ZH = {"driver": "python", "locale": "zh"}
OUT = [{"name": "page.md", "deliverable": True}]
ENGLISH = re.compile(r"(?:\b[a-z']+[ ,]+){3}[a-z']+")
"""Four words in a row."""


def fragments() -> set[str]:
    """What our English sentences say by themselves."""
    own = [template.en for template in CATALOGUE.values()]
    return {text.strip() for each in own for text, *_ in Formatter().parse(each) if _is_sentence(text)}


def _is_sentence(text: str) -> bool:
    return len(text) > 9 and " " in text.strip() and "{" not in text and '"' not in text


def is_chinese(prompt: str) -> None:
    """Nothing of ours in it is English. Commands are not, and what the system says is not ours."""
    told = re.sub(r"```sh\n.*?\n```", "", prompt, flags=re.DOTALL).replace(os.strerror(errno.ENOENT), "")
    assert [each for each in fragments() if each in told] == []
    assert ENGLISH.findall(told) == []


class Kept:
    """A function that keeps what it was told; it makes what comes next of its pages."""

    def __init__(self, *pages: str) -> None:
        self.prompts: list[str] = []
        self.judged: list[str] = []
        self.pages = list(pages)

    async def work(self, turn: Turn) -> Any:
        if turn.judges is not None:
            self.judged.append(turn.prompt)
            return {"score": 40 if len(self.judged) == 1 else 90, "decision": "ACCEPT", "reason": ""}
        self.prompts.append(turn.prompt)
        for each in turn.command.produces or ():
            page = self.pages.pop(0) if len(self.pages) > 1 else self.pages[0]
            if page:
                turn.outputs[each.output_name] = page
        return "好"


def run(root: Path, compiled: Any, **agents: Any) -> dict[str, str]:
    async def use(engine: Engine) -> dict[str, str]:
        await engine.submit(compiled)
        return states(await engine.ended())

    found: dict[str, str] = play(root, use, proving=True, **agents)
    return found


def test_work_that_checks_refuse_comes_back_in_chinese(tmp_path: Path) -> None:
    checks: list[dict[str, Any]] = [
        {"id": "long", "kind": "file", "path": "page.md", "min_bytes": 9, "contains": "价格"},
        {"id": "fields", "kind": "json", "path": "page.md", "required_fields": ["价"]},
        {"id": "runs", "kind": "run", "run": "echo 坏了; exit 3"},
        {"id": "absent", "kind": "file", "path": "x.md"},
        {"id": "later", "kind": "human", "question": "好吗？"},
    ]
    kept = Kept("", "短", "{}")
    made = task("one", "a", prompt="写一页。", outputs=OUT, promise=promise(*checks), max_reexecute_times=3)
    assert run(tmp_path, plan(made, agents={"a": ZH}), a=kept.work) == {"one": "FAILED"}
    first, *others = kept.prompts
    is_chinese(first)
    assert len(others) == 3
    for each in others:
        is_chinese(each)
    assert "标准 'c2' 未得到证明：'runs' 未通过（以退出码 3 结束" in others[-1]
    assert "'echo 坏了; exit 3' 以退出码 3 结束：\n坏了" in others[-1]
    assert others[-1].count("坏了") == 2, "the command and what it printed, once"


def test_judgements_and_what_a_machine_finds_wrong_are_told_in_chinese(tmp_path: Path) -> None:
    wanted = {"page": {"format": "json", "quality_threshold": 70}}
    writer, reader = Kept("{", "{}", '{"a": 1}'), Kept("")
    compiled = plan(
        task("write", "w", prompt="写。", outputs=OUT),
        task(
            "read", "r", prompt="读。", needs=["write"], inputs=[{"name": "page", "from": "page.md"}], validate=wanted
        ),
        agents={"w": ZH, "r": ZH},
    )
    assert run(tmp_path, compiled, w=writer.work, r=reader.work) == {"write": "COMPLETED", "read": "COMPLETED"}
    assert (len(writer.prompts), len(reader.judged)) == (3, 2)
    # What is wrong with JSON is told as the reader of JSON tells it.
    is_chinese(re.sub(r"JSON：.*?(?=\"|$)", "", writer.prompts[1], flags=re.MULTILINE))
    assert "page.md 不是 JSON：" in writer.prompts[1]
    is_chinese(writer.prompts[2])
    assert "（得分 40，要求 70）" in writer.prompts[2]
    for each in (*reader.judged, *reader.prompts):
        is_chinese(each)


def test_what_became_of_a_dispute_is_told_in_chinese(tmp_path: Path) -> None:
    prompts: list[str] = []
    check = {"id": "long", "kind": "file", "path": "page.md", "min_bytes": 100}
    made = task("one", "a", prompt="写一页。", outputs=OUT, promise=promise(check), max_reexecute_times=3)

    async def use(engine: Engine) -> None:
        async def disputes() -> None:
            about = TaskName("default", "p", "one")
            await proof_disputes.dispute(engine.deps, about, Caller("operator", "a"), "long", "短才对。")

        async def work(turn: Turn) -> str:
            prompts.append(turn.prompt)
            turn.outputs["page.md"] = "短"
            if len(prompts) in {1, 3}:
                await disputes()
            if len(prompts) in {2, 3}:
                await engine.answer("REJECT" if len(prompts) == 2 else "APPROVE", notes="就这样")
            return "好"

        engine.agents["a"] = work
        await engine.submit(plan(made, agents={"a": ZH}))
        assert states(await engine.ended())["one"] == "FAILED"

    play(tmp_path, use, proving=True, a=Kept("短").work)
    for prompt, told in zip(
        prompts, ("# 你的任务", "还没有人裁定", "驳回了异议 (就这样)", "同意检查有误 (就这样)"), strict=True
    ):
        assert told in prompt
        is_chinese(prompt)


def test_a_person_who_says_no_is_told_in_chinese(tmp_path: Path) -> None:
    kept = Kept("一页")
    check = {"id": "fine", "kind": "human", "question": "好吗？"}

    async def use(engine: Engine) -> None:
        made = task("one", "a", prompt="写一页。", outputs=OUT, promise=promise(check), max_reexecute_times=1)
        await engine.submit(plan(made, agents={"a": ZH}))
        for _ in range(2):
            await engine.asked()
            await engine.answer("REJECT")
        assert states(await engine.until(lambda now: states(now)["one"] == "FAILED")) == {"one": "FAILED"}

    play(tmp_path, use, proving=True, a=kept.work)
    assert "'fine' 未通过（ada 不同意）" in kept.prompts[1]
    is_chinese(kept.prompts[1])


def test_a_forge_event_that_was_not_carried_out_comes_back_in_chinese(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiles = {name: each.model_copy(update={"locale": "zh"}) for name, each in PROFILES.items()}
    monkeypatch.setattr(saying, "PROFILES", profiles)
    prompts: list[str] = []

    def played(job: Job) -> Performance:
        prompts.append(job.prompt)
        return Performance("finished", result="好")

    def found(task: KindTask) -> Sequence[Evidence]:
        facts = ForgeFacts(
            {ForgeQuery("pulls_since", "acme/widgets", "2026"): (), ForgeQuery("open_pulls", "acme/widgets", ""): ()}
        )
        by = ForgeUser(source=SOURCE, login="agent-dev")
        answer = forge_facts.check_pull_opened(facts, "acme/widgets", 9, by, since="2026")
        return [
            Evidence(
                "read_back",
                False,
                True,
                "observed",
                "forge",
                task.made_at,
                ABOUT(subject="no_action", what=answer.detail),
            )
        ]

    async def work() -> None:
        async with saying.Stage.set(tmp_path, found=found, player=saying.Player(played)) as stage:
            stage.board.setup = replace(stage.board.setup, style=lambda _: StepStyle("zh"))
            await stage.board.process_events([(issue_event("issue_assigned", 0, "agent-dev"), {})])
            await stage.ran(saying.ended)

    asyncio.run(work())
    assert len(prompts) == 4
    assert "自 2026 起 agent-dev 没有提到 acme/widgets#9 的合并请求" in prompts[-1]
    for each in prompts:
        is_chinese(re.sub(r'"(?:title|body)": ".*"', "", each))


def test_a_letter_that_was_not_answered_comes_back_in_chinese(tmp_path: Path) -> None:
    profiles = {"dev": AgentProfile(agent_id="dev", driver="played", locale="zh")}  # type: ignore[arg-type]
    rules = MailRules(profiles, frozenset(profiles), remind_after=600, answer_within=3600, retry_times=0, hops=3)
    prompts: list[str] = []

    class Silent:
        async def perform(self, job: Job) -> Performance:
            prompts.append(job.prompt)
            return Performance("finished", result="好")

    async def work(deps: Deps, post: MailBoard) -> None:
        await mailkit.sent(post, mailkit.draft(subject="通知", body="构建通过。"))
        mail_id = await mailkit.sent(post, mailkit.draft(kind="request", subject="问题", body="6 x 7？"))

        async def ended() -> bool:
            return bool((await mailkit.at(deps, mail_id))["closed_at"])

        await mailkit.worked(deps, Silent(), ended)

    mailkit.play(tmp_path, work, rules=rules)
    assert len(prompts) > 1
    assert "标准 'reply' 未得到证明：'reply' 不存在" in prompts[-1]
    for each in prompts:
        is_chinese(each)
