"""Letters on their board: sent once, read, answered, reminded of, failed, found again."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.contracts.errors import AgentTalkError, Code
from agenttalk.engine.core import access
from agenttalk.engine.core.access import Caller
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.mail.board import MailBoard
from agenttalk.engine.runs.dispatcher import Dispatcher
from agenttalk.engine.views import mail as showing
from agenttalk.ports.agents import Job
from agenttalk.ports.statements.core import FACTS_OF
from agenttalk.ports.statements.plans import SET_ENGINE_TASK
from agenttalk.rules.mail.letters import BOARD
from agenttalk.rules.proof.performance import Performance
from engine.mail.mailkit import at, box, by, draft, listed, play, sent, worked
from kits.agentkit import Clock

HOSTILE = "你好 \u202etxt.exe\u202c \x00\x07\x1b[2J\r\n\u2028 مرحبا 𝒳 END 0123 \ufeff"


@pytest.mark.shows("A01")
def test_a_notice_is_done_when_its_addressee_asks_for_it_and_not_when_others_do(tmp_path: Path) -> None:
    async def work(deps: Deps, post: MailBoard) -> None:
        mail_id = await sent(post, draft(to=("dev", "pm", "operator"), sender="visitor"))
        await post.mark_read(mail_id, "visitor")
        await post.mark_read(mail_id, "hand")
        assert {(await at(deps, mail_id, each))["status"] for each in ("dev", "pm", "operator")} == {"pending"}
        for _ in range(2):
            await post.mark_read(mail_id, "dev")
        told = await at(deps, mail_id, "dev")
        assert (told["status"], told["trust"], told["read_how"]) == ("done", "observed", "get")
        assert (await at(deps, mail_id, "pm"))["status"] == "pending"
        await post.mark_read(mail_id, "operator")
        assert (await at(deps, mail_id, "operator"))["status"] == "done"

    play(tmp_path, work)


@pytest.mark.shows("A02")
def test_a_request_is_not_done_by_being_read_but_by_the_answer_of_its_addressee(tmp_path: Path) -> None:
    async def work(deps: Deps, post: MailBoard) -> None:
        mail_id = await sent(post, draft(to=("operator", "visitor"), sender="pm", kind="request"))
        await post.mark_read(mail_id, "operator")
        again = await post.reply(mail_id, draft("pm", (), subject="", body="please!"), by("pm"))
        assert (again["to"], again["thread"]) == (["operator", "visitor"], mail_id)
        assert (await at(deps, mail_id, "operator"))["status"] == "pending"
        answer = await post.reply(mail_id, draft("operator", (), subject="", body="42"), by("operator"))
        assert (answer["to"], answer["subject"]) == (["pm"], "Re: Hello")
        told = await at(deps, mail_id, "operator")
        assert (told["status"], told["trust"], told["reply"]) == ("done", "observed", answer["message_id"])
        assert (await at(deps, mail_id, "visitor"))["status"] == "pending"
        with pytest.raises(AgentTalkError) as refused:
            await post.reply(mail_id, draft("dev", (), subject="", body="I know it!"), by("dev"))
        assert refused.value.code is Code.NAME_UNKNOWN
        assert [each["letters"] for each in (await showing.list_threads(deps))["threads"]] == [3]

    play(tmp_path, work)


@pytest.mark.shows("A01", "A02")
def test_who_only_hands_a_request_on_has_not_answered_it(tmp_path: Path) -> None:
    async def work(deps: Deps, post: MailBoard) -> None:
        asked = await sent(post, draft("pm", ("visitor",), "request"))
        told = await sent(post, draft("pm", ("visitor",)))
        for mail_id in (asked, told):
            await sent(post, draft("visitor", ("operator",), "request", in_reply_to=mail_id, body="You do it."))
            await post.reply(mail_id, draft("visitor", ("operator",), subject="", body="Please!"), by("visitor"))
        one = await at(deps, asked, "visitor")
        assert (one["status"], one["reply"], one["read_how"]) == ("pending", None, "replied")
        two = await at(deps, told, "visitor")
        assert (two["status"], two["reply"], two["read_how"]) == ("done", None, "replied")
        answer = await sent(post, draft("visitor", ("operator", "pm"), in_reply_to=asked, body="42"))
        one = await at(deps, asked, "visitor")
        assert (one["status"], one["trust"], one["reply"]) == ("done", "observed", answer)

    play(tmp_path, work)


@pytest.mark.shows("A02")
def test_who_does_not_answer_is_reminded_once_and_then_it_has_failed(tmp_path: Path) -> None:
    clock = Clock()

    async def work(deps: Deps, post: MailBoard) -> None:
        mail_id = await sent(post, draft(to=("visitor",), kind="request"))
        await post.pass_()
        file = box(tmp_path, "visitor") / f"mail_{mail_id}.json"
        file.unlink()
        clock.forward(599)
        await post.pass_()
        told = await at(deps, mail_id, "visitor")
        assert (told["read_how"], told["reminded_at"], file.exists()) == ("taken", None, False)
        clock.forward(1)
        await post.pass_()
        told = await at(deps, mail_id, "visitor")
        assert (told["status"], told["read_at"]) == ("pending", None)
        assert told["reminded_at"] is not None
        await post.pass_()
        assert file.exists()
        assert await listed(deps, to="visitor", unread=True) == ["What is 6 x 7?"]
        clock.forward(2999)
        await post.pass_()
        assert (await at(deps, mail_id, "visitor"))["status"] == "pending"
        clock.forward(1)
        await post.pass_()
        told = await at(deps, mail_id, "visitor")
        assert (told["status"], "deadline" in told["closed_why"]) == ("failed", True)
        store = await deps.stores.board(BOARD)
        facts = [row[2] for row in await store.read(FACTS_OF, subject=mail_id, after=0, limit=50)]
        assert facts.count("mail.reminded") == 1
        late = await post.reply(mail_id, draft("visitor", (), subject="", body="42, sorry"), by("visitor"))
        told = await at(deps, mail_id, "visitor")
        assert (told["status"], told["reply"]) == ("failed", late["message_id"])

    play(tmp_path, work, clock=clock)


def test_the_same_key_sends_one_letter_and_another_letter_under_it_is_refused(tmp_path: Path) -> None:
    async def work(deps: Deps, post: MailBoard) -> list[str]:
        letter = draft(to=("dev", "pm"))
        first = await asyncio.gather(*(post.send(letter, by("operator"), "key") for _ in range(5)))
        assert all(each == first[0] for each in first)
        other = await sent(post, draft("pm", ("dev",)), "key")  # a key counts for its sender
        assert other != first[0]["message_id"]
        with pytest.raises(AgentTalkError) as refused:
            await post.send(replace(letter, body="another"), by("operator"), "key")
        assert refused.value.code is Code.KEY_REUSED
        return await listed(deps)

    assert len(play(tmp_path, work)) == 2
    assert len(play(tmp_path, work)) == 2  # also after a restart


def test_the_same_letter_under_its_own_id_is_sent_once(tmp_path: Path) -> None:
    async def work(deps: Deps, post: MailBoard) -> None:
        letter = draft(message_id="m.1")
        assert await sent(post, letter) == await sent(post, letter) == "m.1"
        for other in (replace(letter, body="another"), replace(letter, sender="pm")):
            with pytest.raises(AgentTalkError) as refused:
                await sent(post, other)
            assert refused.value.code is Code.MESSAGE_ID_REUSED_WITH_DIFFERENT_PAYLOAD
        assert len(await listed(deps)) == 1

    play(tmp_path, work)


def test_nobody_writes_in_the_name_of_another(tmp_path: Path) -> None:
    async def work(deps: Deps, post: MailBoard) -> None:
        for caller in (Caller("agent", "dev"), Caller("operator", "operator")):
            with pytest.raises(AgentTalkError) as refused:
                await post.send(draft("pm"), caller)
            assert refused.value.code is Code.NOT_ALLOWED
        assert not deps.stores.has_board(BOARD)  # the board is made by its first letter

    play(tmp_path, work)


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_whatever_is_written_comes_out_as_it_was(tmp_path: Path, store: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue("database") if store == "postgres" else ""

    async def work(deps: Deps, post: MailBoard) -> None:
        mail_id = await sent(post, draft(to=("visitor",), subject="主题 \u202etxt", body=HOSTILE))
        large = await sent(post, draft(to=("visitor",), body="很长 " * 200_000))
        found = await showing.read_letter(deps, mail_id, "visitor")
        assert (found["subject"], found["body"]) == ("主题 \u202etxt", HOSTILE)
        await post.pass_()
        document = json.loads((box(tmp_path, "visitor") / f"mail_{mail_id}.json").read_bytes())
        assert (document["body"], document["from"], document["thread"]) == (HOSTILE, "operator", mail_id)
        assert len((await showing.read_letter(deps, large))["body"]) == 600_000
        assert await listed(deps, search="你好") == [HOSTILE]
        assert await listed(deps, search="مرحبا") == [HOSTILE]
        await post.mark_read(mail_id, "visitor")
        assert (await at(deps, mail_id, "visitor"))["status"] == "done"

    play(tmp_path, work, url=url)


def test_lists_go_page_by_page_and_agents_see_their_own_alone(tmp_path: Path) -> None:
    async def work(deps: Deps, post: MailBoard) -> None:
        for number in range(7):
            await sent(post, draft(to=("visitor",), body=f"notice {number} of may"))
            await sent(post, draft("pm", ("operator",), body=f"secret {number} of may"))
        mail_id = await sent(post, draft("dev", ("operator",), kind="request", subject="Bug", body="may I?"))
        await post.reply(mail_id, draft("operator", (), body="yes"), by("operator"))
        notices = [f"notice {number} of may" for number in reversed(range(7))]
        assert await listed(deps, to="visitor") == notices
        assert await listed(deps, "visitor", search="of may") == notices
        assert await listed(deps, search="of may notice 3") == ["notice 3 of may"]
        assert len(await listed(deps, search="may")) == 15
        assert await listed(deps, "dev") == ["yes", "may I?"]
        assert await listed(deps, "dev", sender="pm") == []
        assert await listed(deps, thread=mail_id) == ["yes", "may I?"]
        assert await listed(deps, "pm", thread=mail_id) == []
        assert await listed(deps, kind="request") == await listed(deps, kind="request", status="done") == ["may I?"]
        assert len(await listed(deps, status="open")) == 15
        assert await listed(deps, search="?!") == []
        assert (await showing.list_letters(deps, showing.MailQuery(to="visitor")))["unread"] == 7
        mine = await showing.list_threads(deps, "dev")
        assert [(each["subject"], each["letters"], each["latest_from"]) for each in mine["threads"]] == [
            ("Bug", 2, "operator")
        ]
        first = await showing.list_threads(deps, limit=10)
        rest = await showing.list_threads(deps, before=first["next"] or 0, limit=10)
        assert (len(first["threads"]), len(rest["threads"]), rest["next"]) == (10, 5, None)
        with pytest.raises(AgentTalkError) as unknown:
            await showing.read_letter(deps, mail_id, "pm")
        assert unknown.value.code is Code.NAME_UNKNOWN

    play(tmp_path, work)


class Answering:
    """An agent that gives its answer as its result."""

    def __init__(self, result: Any) -> None:
        self.result = result
        self.prompts: list[str] = []

    async def perform(self, job: Job) -> Performance:
        self.prompts.append(job.prompt)
        return Performance("finished", result=self.result)


@pytest.mark.shows("A01", "A02")
def test_a_request_runs_its_agent_whose_prompt_has_read_the_notices_too(tmp_path: Path) -> None:
    async def work(deps: Deps, post: MailBoard) -> None:
        note = await sent(post, draft(subject="FYI", body=f"the build is green {HOSTILE}"))
        other = await sent(post, draft(subject="FYI", body="and fast"))
        mail_id = await sent(post, draft(kind="request"))
        agent = Answering({"reply": "42"})

        async def ended() -> bool:
            return bool((await at(deps, mail_id))["closed_at"])

        await worked(deps, agent, ended)
        [prompt] = agent.prompts
        assert "What is 6 x 7?" in prompt
        assert "the build is green" in prompt
        assert not {"\x00", "\x1b", "\u202e"} & set(prompt)
        told = await at(deps, mail_id)
        assert (told["status"], told["trust"], told["read_how"]) == ("done", "observed", "injected")
        answer = await showing.read_letter(deps, told["reply"])
        assert (answer["from"], answer["to"], answer["body"], answer["via"]) == ("dev", ["operator"], "42", "result")
        await post.mark_read(other, "dev")  # whoever asks need not wait until somebody looks at everything
        told = await at(deps, other)
        assert (told["status"], told["read_how"]) == ("done", "injected")
        await post.pass_()
        told = await at(deps, note)
        assert (told["status"], told["read_how"]) == ("done", "injected")

    play(tmp_path, work)


@pytest.mark.parametrize("result", ["I have answered it, done!", {"reply": " "}, {"done": True}, None])
def test_an_agent_that_only_says_so_has_not_answered(tmp_path: Path, result: Any) -> None:
    async def work(deps: Deps, post: MailBoard) -> None:
        mail_id = await sent(post, draft(kind="request"))
        agent = Answering(result)

        async def ended() -> bool:
            return bool((await at(deps, mail_id))["closed_at"])

        await worked(deps, agent, ended)
        told = await at(deps, mail_id)
        assert (told["status"], told["reply"], len(agent.prompts)) == ("failed", None, 3)

    play(tmp_path, work)


def test_what_is_answered_before_its_agent_began_is_not_run(tmp_path: Path) -> None:
    async def work(deps: Deps, post: MailBoard) -> None:
        mail_id = await sent(post, draft(kind="request"))
        other = await sent(post, draft(kind="request", body="And 6 x 8?"))
        await post.reply(mail_id, draft("dev", (), subject="", body="42"), by("dev"))
        agent = Answering({"reply": "48"})

        async def ended() -> bool:
            return bool((await at(deps, other))["closed_at"])

        await worked(deps, agent, ended)
        assert len(agent.prompts) == 1
        assert "6 x 8" in agent.prompts[0]

    play(tmp_path, work)


def test_agents_that_answer_agents_with_requests_are_stopped(tmp_path: Path) -> None:
    async def work(_: Deps, post: MailBoard) -> None:
        mail_id, codes = await sent(post, draft("dev", ("pm",), kind="request")), []
        for number in range(4):
            name = ("pm", "dev")[number % 2]
            try:
                told = await post.reply(mail_id, draft(name, (), "request", subject="", body="and you?"), by(name))
                mail_id = told["message_id"]
            except AgentTalkError as error:
                codes.append(error.code)
        assert codes == [Code.MAIL_HOPS_EXCEEDED]

    play(tmp_path, work)


def test_a_token_of_an_attempt_that_is_over_writes_nothing(tmp_path: Path) -> None:
    async def work(deps: Deps, post: MailBoard) -> None:
        mail_id = await sent(post, draft(kind="request"))
        tokens: list[str] = []

        class Leaking:
            async def perform(self, job: Job) -> Performance:
                tokens.append(job.token)
                return Performance("finished", result={"reply": "42"})

        async def ended() -> bool:
            return bool((await at(deps, mail_id))["closed_at"])

        await worked(deps, Leaking(), ended)
        assert await access.identify(deps, tokens[0]) is None

    play(tmp_path, work)


@pytest.mark.shows("A02")
def test_at_the_deadline_the_turn_of_who_has_not_answered_is_ended(tmp_path: Path) -> None:
    clock = Clock()

    async def work(deps: Deps, post: MailBoard) -> None:
        mail_id = await sent(post, draft(kind="request"))
        began, stop = asyncio.Event(), asyncio.Event()

        class Dreaming:
            async def perform(self, _: Job) -> Performance:
                began.set()
                await asyncio.Event().wait()
                raise AssertionError("it does not end by itself")

        dispatcher = Dispatcher(deps, {"played": Dreaming()}, LocalProcesses(), max_running=1)

        async def ended(task_id: str, why: str) -> None:
            await dispatcher.operator.abort(BOARD, task_id, by="the engine", why=why)

        running = asyncio.create_task(dispatcher.run(stop))
        try:
            async with asyncio.timeout(300):
                await began.wait()
                clock.forward(3600)
                await MailBoard(deps, stop=ended).pass_()
                told = await at(deps, mail_id)
        finally:
            stop.set()
            await running
        assert (told["status"], told["reply"]) == ("failed", None)
        assert "deadline" in told["closed_why"]

    play(tmp_path, work, clock=clock)


@pytest.mark.parametrize("state", ["BLOCKED_WAITING_REVIEW", "BLOCKED_WAITING_HUMAN", "BLOCKED_WAITING_INPUT"])
def test_an_answer_ends_a_request_that_waits_for_something_else(tmp_path: Path, state: str) -> None:
    async def work(deps: Deps, post: MailBoard) -> None:
        mail_id = await sent(post, draft(kind="request"))
        about: dict[str, Any] = {"plan_id": BOARD, "task_id": mail_id, "state": state, "cause": "NEEDS_PERSON"}
        about |= {"reason": None, "reason_message": None, "missing": None, "request_id": None, "unproven": 0}
        about["at"] = deps.stamp()
        await (await deps.stores.board(BOARD)).transact(lambda tx: tx.run(SET_ENGINE_TASK, **about))
        await post.reply(mail_id, draft("dev", (), subject="", body="42"), by("dev"))
        assert (await at(deps, mail_id))["status"] == "done"

    play(tmp_path, work)
