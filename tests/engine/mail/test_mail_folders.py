"""Letters through folders: outboxes of agents, files in inboxes, commands for who works by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agenttalk.engine.core.deps import Deps
from agenttalk.engine.mail.board import MailBoard
from agenttalk.engine.messages.dead_letters import list_dead_letters
from agenttalk.engine.messages.router import Router, RouterReport
from agenttalk.engine.views import mail as showing
from agenttalk.ports.agents import Job
from agenttalk.rules.proof.performance import Performance
from engine.mail.mailkit import at, box, draft, left, listed, play, sent, worked
from kits.agentkit import Clock


def routed(root: Path) -> tuple[RouterReport, list[str], list[tuple[str, str]]]:
    """One look of a router: what it says, all letters, and what was dead-lettered, with codes."""

    async def work(deps: Deps, _: MailBoard) -> tuple[RouterReport, list[str], list[tuple[str, str]]]:
        report = await Router(deps).run_once()
        dead = [(each["name"], each["code"]) for each in await list_dead_letters(deps)]
        mails = (await showing.list_letters(deps, showing.MailQuery()))["mails"]
        return report, [each["message_id"] for each in mails], dead

    return play(root, work)


def test_a_letter_in_an_outbox_is_sent_once(tmp_path: Path) -> None:
    left(tmp_path, "visitor", "m1", to=["operator", "dev"], body="你好")
    report, mails, dead = routed(tmp_path)
    assert (report.collected, mails, dead) == (1, ["m1"], [])
    assert (tmp_path / "data/_mail/blackboard.db").is_file()
    outbox = box(tmp_path, "visitor", "outbox")
    assert [each.name for each in (outbox / ".sent").iterdir()] == ["mail_m1.json"]
    left(tmp_path, "visitor", "m1", to=["operator", "dev"], body="你好")
    assert routed(tmp_path)[1:] == (["m1"], [])
    left(tmp_path, "visitor", "m1", body="another")
    _, mails, dead = routed(tmp_path)
    assert (mails, dead) == (["m1"], [("mail_m1.json", "MESSAGE_ID_REUSED_WITH_DIFFERENT_PAYLOAD")])
    reason = json.loads((outbox / ".rejected" / "mail_m1.json.reason.json").read_bytes())
    assert reason["code"] == "MESSAGE_ID_REUSED_WITH_DIFFERENT_PAYLOAD"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"from": "dev"}, "PRODUCER_MISMATCH"),
        ({"from": "operator"}, "PRODUCER_MISMATCH"),
        ({"to": ["nobody"]}, "TARGET_AGENT_NOT_FOUND"),
        ({"to": []}, "SCHEMA_INVALID"),
        ({"kind": "order"}, "SCHEMA_INVALID"),
        ({"schema_version": "9.0"}, "SCHEMA_VERSION_UNSUPPORTED"),
        ({"subject": "a\nb"}, "FIELD_VALUE"),
        ({"in_reply_to": "m0"}, "NAME_UNKNOWN"),
        ({"kind": "request", "deadline": "2001-01-01T00:00:00Z"}, "FIELD_VALUE"),
        ({"message_id": "../m1"}, "SCHEMA_INVALID"),
        ({"body": "x" * 1024 * 1024}, "FILE_TOO_LARGE"),
    ],
)
def test_a_letter_that_is_wrong_is_a_dead_letter_with_its_code(
    tmp_path: Path, changes: dict[str, Any], code: str
) -> None:
    left(tmp_path, "visitor", "m1", **changes)
    left(tmp_path, "visitor", "m2")
    report, mails, dead = routed(tmp_path)
    assert (mails, dead) == (["m2"], [("mail_m1.json", code)])
    assert (report.collected, report.dead) == (1, 1)


def test_what_is_no_letter_does_no_harm(tmp_path: Path) -> None:
    outbox = box(tmp_path, "visitor", "outbox")
    (outbox / "mail_broken.json").write_bytes(b"{")
    (outbox / "mail_twice.json").write_bytes(b'{"from": "visitor", "from": "dev"}')
    (outbox / "mail_half.json").write_bytes(b'{"body": "\\ud800"}')
    (tmp_path / "secret").write_text("{}")
    (outbox / "mail_link.json").symlink_to(tmp_path / "secret")
    left(tmp_path, "visitor", "m2")
    _, mails, dead = routed(tmp_path)
    assert mails == ["m2"]
    assert dict(dead) == {
        "mail_broken.json": "ENVELOPE_PARSE_ERROR",
        "mail_twice.json": "ENVELOPE_PARSE_ERROR",
        "mail_half.json": "ENVELOPE_PARSE_ERROR",
        "mail_link.json": "FILE_UNSAFE",
    }


def test_a_file_of_that_name_in_the_outbox_of_a_plan_is_no_letter(tmp_path: Path) -> None:
    other = tmp_path / "agents/visitor/outbox/plan_shop"
    other.mkdir(parents=True)
    (other / "mail_m1.json").write_text("{}")
    assert routed(tmp_path)[1:] == ([], [])
    assert (other / "mail_m1.json").exists()


@pytest.mark.shows("A01")
def test_a_notice_lies_in_the_inbox_and_was_read_by_who_took_it(tmp_path: Path) -> None:
    async def work(deps: Deps, post: MailBoard) -> None:
        mail_id = await sent(post, draft(to=("visitor", "pm")))
        await post.pass_()
        file = box(tmp_path, "visitor") / f"mail_{mail_id}.json"
        assert file.exists()
        assert not (tmp_path / "agents/pm").exists()  # its driver uses no folders
        await post.pass_()
        assert (await at(deps, mail_id, "visitor"))["status"] == "pending"
        file.rename(file.with_name("taken.json"))
        await post.pass_()
        told = await at(deps, mail_id, "visitor")
        assert (told["status"], told["read_how"]) == ("done", "taken")
        file.unlink(missing_ok=True)
        await post.pass_()
        assert not file.exists()  # it is not laid out again

    play(tmp_path, work)


def test_an_inbox_that_is_gone_has_read_nothing(tmp_path: Path) -> None:
    async def work(deps: Deps, post: MailBoard) -> None:
        mail_id = await sent(post, draft(to=("visitor",)))
        await post.pass_()
        (box(tmp_path, "visitor") / f"mail_{mail_id}.json").unlink()
        box(tmp_path, "visitor").rmdir()
        await post.pass_()
        assert (await at(deps, mail_id, "visitor"))["status"] == "pending"

    play(tmp_path, work)


class Idle:
    """Nobody is run here."""

    async def perform(self, job: Job) -> Performance:
        raise AssertionError(job.task_id)


@pytest.mark.shows("A01", "A02")
def test_who_works_by_hand_gets_commands_and_answers_by_outbox(tmp_path: Path) -> None:
    async def work(deps: Deps, post: MailBoard) -> None:
        router = Router(deps)
        note = await sent(post, draft(to=("hand",), message_id="note"))
        request = await sent(post, draft(to=("hand",), kind="request", message_id="ask"))

        async def brought() -> bool:
            await router.run_once()
            return all((box(tmp_path, "hand") / f"cmd_{each}_001.msg.json").exists() for each in (note, request))

        await worked(deps, Idle(), brought)
        envelope = json.loads((box(tmp_path, "hand") / "cmd_ask_001.msg.json").read_bytes())
        assert "What is 6 x 7?" in envelope["payload"]["command"]["prompt"]
        for name in ("note", "ask"):
            file = box(tmp_path, "hand") / f"cmd_{name}_001.msg.json"
            message = json.loads(file.read_bytes())
            file.unlink()
            ack = {"schema_version": "1.0", "plan_id": "_mail", "message_id": message["message_id"], "task_id": name}
            ack |= {
                "command_id": f"cmd_{name}_001",
                "command_seq": 1,
                "consumer_agent_id": "hand",
                "status": "SUCCEEDED",
            }
            ack |= {
                "consumed_at": "2026-03-01T12:00:00Z",
                "finished_at": "2026-03-01T12:00:00Z",
                "result": {"ok": True},
            }
            (box(tmp_path, "hand", "outbox") / f"ack_{message['message_id']}.json").write_text(json.dumps(ack))
        await router.run_once()
        await post.pass_()

        async def looked() -> bool:
            return bool((await at(deps, note, "hand"))["status"] == "done")

        await worked(deps, Idle(), looked)
        told = await at(deps, request, "hand")
        assert (told["status"], told["read_how"]) == ("pending", "receipt")  # that it is done is only said
        left(tmp_path, "hand", "answer", in_reply_to=request, body="42")
        await router.run_once()
        told = await at(deps, request, "hand")
        assert (told["status"], told["reply"], told["trust"]) == ("done", "answer", "observed")
        assert await listed(deps, thread=request) == ["42", "What is 6 x 7?"]

    play(tmp_path, work)


def test_a_request_by_hand_that_nobody_answers_fails_at_the_deadline(tmp_path: Path) -> None:
    clock = Clock()

    async def work(deps: Deps, post: MailBoard) -> None:
        router = Router(deps)
        request = await sent(post, draft(to=("hand",), kind="request"))

        async def brought() -> bool:
            await router.run_once()
            return (box(tmp_path, "hand") / f"cmd_{request}_001.msg.json").exists()

        await worked(deps, Idle(), brought)
        for _ in range(2):
            clock.forward(3600)
            await post.pass_()
        assert (await at(deps, request, "hand"))["status"] == "failed"
        assert (await router.run_once()).problems == []

    play(tmp_path, work, clock=clock)
