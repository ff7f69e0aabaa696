"""Letters with an engine as a process of its own: command line, HTTP, agents that are programs, deaths."""

from __future__ import annotations

import json
import signal
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from agenttalk.adapters.store import operator_folder
from doors.api.enginekit import Serving, agenttalk, engine, until
from engine.toolchain.kits.bench import asked

PROGRAM = """
import json, os, sys, urllib.error, urllib.request

prompt = sys.stdin.read()

def ask(method, path, body=None, **headers):
    data = None if body is None else json.dumps(body).encode()
    told = {"Authorization": "Bearer " + os.environ["AGENTTALK_TOKEN"], **headers}
    request = urllib.request.Request(os.environ["AGENTTALK_API"] + path, data, told, method=method)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())

[mine] = [each for each in ask("GET", "/api/mail?unread=false&kind=request&status=working")[1]["mails"]]
mail_id = mine["message_id"]
"""
"""The beginning of a program that plays an agent which got a request."""
CURIOUS = f"""{PROGRAM}
seen = {{
    "forged": ask("POST", "/api/mail", {{"from": "pm", "to": ["operator"], "subject": "S", "body": "B"}})[0],
    "notice": ask("POST", "/api/mail", {{"to": ["pm"], "subject": "FYI", "body": "green"}})[0],
    "others": ask("GET", "/api/mail?to=pm&from=operator")[1]["mails"],
    "secret": ask("GET", "/api/mail/secret")[0],
    "answered": ask("POST", "/api/mail/secret/reply", {{"body": "B"}})[0],
    "read": ask("GET", "/api/mail/note")[1]["addressees"][0]["status"],
    "done": ask("POST", "/api/projects/_mail/tasks/" + os.environ["AGENTTALK_TASK_ID"] + "/done", {{}})[0],
    "threads": len(ask("GET", "/api/mail/threads")[1]["threads"]),
}}
assert ask("POST", "/api/mail/" + mail_id + "/reply", {{"body": json.dumps(seen)}})[0] == 201
"""
SAYS_SO = f"""{PROGRAM}
here = "/api/projects/_mail/tasks/" + os.environ["AGENTTALK_TASK_ID"]
for kind in ("general", "action_report"):
    said = {{"author": "mute", "comment_type": kind, "body": "I have answered the letter."}}
    assert ask("POST", here + "/comments", said)[0] == 201
forged = {{"author": "mute", "comment_type": "mail_reply", "body": mail_id}}
assert ask("POST", here + "/comments", forged)[0] == 422
assert ask("POST", here + "/outputs", {{"content": mail_id, "type": "mail_reply"}})[0] == 201
print("I have answered it. Done!")
"""
MUTE = "print('I have answered it. Done!')"
DIES = f"""{PROGRAM}
import pathlib, time
for _ in range(2):
    said = ask("POST", "/api/mail/" + mail_id + "/reply", {{"body": "42"}}, **{{"Idempotency-Key": "answer"}})
    assert said[0] == 201
began = pathlib.Path("began")
if not began.exists():
    began.write_text(said[1]["message_id"])
    time.sleep(600)
"""


def written(root: Path, **programs: str) -> Path:
    lines = []
    for name, program in programs.items():
        folder = root / "agents" / name
        folder.mkdir(parents=True)
        (folder / "work.py").write_text(textwrap.dedent(program), encoding="utf-8")
        lines += [f"[agents.{name}]", 'driver = "script"', f'argv = ["{sys.executable}", "work.py"]']
    (root / "agenttalk.toml").write_text("\n".join(lines), encoding="utf-8")
    return root


@dataclass
class Office:
    """An engine, and the operator's way to it."""

    root: Path
    serving: Serving

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, Any]]:
        token = operator_folder.token_of(self.root) or ""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        told = {"Authorization": f"Bearer {token}", **headers}
        return asked(str(self.serving.told["http"]), method, path, data, told)

    def send(self, to: list[str], kind: str = "inform", **more: Any) -> dict[str, Any]:
        body = {"to": to, "kind": kind, "subject": "Hello", "body": "What is 6 x 7?", **more}
        status, told = self.ask("POST", "/api/mail", body)
        assert status == 201, told
        return told

    def closed(self, mail_id: str) -> dict[str, Any]:
        """A letter once it is over at all of its addressees."""

        def look() -> dict[str, Any] | None:
            status, told = self.ask("GET", f"/api/mail/{mail_id}")
            assert status == 200, told
            return told if all(each["closed_at"] for each in told["addressees"]) else None

        found: dict[str, Any] = until(look, f"{mail_id} is over")
        return found

    def cli(self, *arguments: str) -> Any:
        told = agenttalk("mail", *arguments, "--root", str(self.root), "--json")
        assert told.returncode == 0, told.stdout + told.stderr
        return json.loads(told.stdout)


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    root = written(tmp_path / "root", dev=CURIOUS, mute=SAYS_SO, pm=MUTE)
    with engine(root, quick=True) as serving:
        yield Office(root, serving)


@pytest.mark.shows("A01", "A02", "T18")
def test_letters_by_command_line_are_run_answered_and_read(office: Office) -> None:
    assert not (office.root / "data/_mail").exists()
    office.send(["dev"], message_id="note")
    office.send(["pm"], message_id="secret")
    request = office.cli("send", "--to", "dev", "--subject", "报告？", "--request", "--deadline", "1h", "怎么样？")
    told = office.closed(request["message_id"])
    assert [(each["status"], each["trust"]) for each in told["addressees"]] == [("done", "observed")]
    [letter] = office.cli("list", "--unread")["mails"]
    assert (letter["in_reply_to"], letter["thread"]) == (request["message_id"], request["message_id"])
    answer = office.cli("read", letter["message_id"])
    seen = json.loads(answer["body"])
    assert seen == {
        "forged": 403,
        "notice": 201,
        "others": [],
        "secret": 404,
        "answered": 404,
        "read": "done",
        "done": 403,
        "threads": 3,
    }
    assert office.ask("GET", "/api/mail?unread=true")[1]["mails"] == []
    more = office.cli("reply", letter["message_id"], "谢谢", "--id", "thanks")
    assert (more["message_id"], more["to"], more["subject"]) == ("thanks", ["dev"], "Re: 报告？")
    thread = office.ask("GET", f"/api/mail/threads/{request['message_id']}")[1]["mails"]
    assert [each["from"] for each in thread] == ["operator", "dev", "operator"]
    found = office.ask("GET", f"/api/mail?search={quote('谢谢')}")[1]["mails"]
    assert [each["message_id"] for each in found] == ["thanks"]
    plain = agenttalk("mail", "list", "--to", "pm", "--root", str(office.root))
    assert "to pm: pending, unread" in plain.stdout
    assert (office.root / "agents/pm/inbox/_mail/mail_secret.json").is_file()
    assert not (office.root / "data/_toolchain").exists()


def test_the_door_refuses_what_is_wrong_and_does_everything_once(office: Office) -> None:
    good = {"to": ["pm"], "subject": "S", "body": "B"}
    bad: list[tuple[Any, int, str]] = [
        ({**good, "to": ["nobody"]}, 422, "TARGET_AGENT_NOT_FOUND"),
        ({**good, "to": []}, 422, "FIELD_VALUE"),
        ({**good, "cc": ["pm"]}, 422, "FIELD_UNKNOWN"),
        ({**good, "subject": "a\nb"}, 422, "FIELD_VALUE"),
        ({**good, "from": "pm"}, 403, "NOT_ALLOWED"),
        ({**good, "in_reply_to": "gone"}, 404, "NAME_UNKNOWN"),
        (b'{"to": ["pm"], "subject": "S", "body": "\\ud800"}', 400, "JSON_TEXT"),
        ({**good, "body": "x" * 1024 * 1024}, 413, "JSON_TOO_LARGE"),
    ]
    for body, status, code in bad:
        told = office.ask("POST", "/api/mail", body)
        assert (told[0], told[1]["code"]) == (status, code), told
        assert "tuple" not in told[1]["detail"], "JSON has no such thing"
    for path in ("/api/mail?size=3", "/api/mail/threads?to=pm"):
        assert office.ask("GET", path)[0] == 422
    for path in ("/api/mail/gone", "/api/mail/threads/gone", f"/api/mail/{quote('../x', safe='')}"):
        assert office.ask("GET", path)[0] == 404
    key = {"Idempotency-Key": "one"}
    first, again = (office.ask("POST", "/api/mail", good, **key) for _ in range(2))
    assert first == again
    assert office.ask("POST", "/api/mail", {**good, "body": "C"}, **key)[1]["code"] == "KEY_REUSED"
    large = json.dumps({**good, "body": "很" * 300_000}, ensure_ascii=False).encode()
    assert office.ask("POST", "/api/mail", large)[0] == 201
    page = office.ask("GET", "/api/mail?to=pm&limit=1")[1]
    assert (len(page["mails"]), page["unread"]) == (1, 2)
    rest = office.ask("GET", f"/api/mail?to=pm&limit=1&before={page['next']}")[1]
    assert [each["message_id"] for each in rest["mails"]] == [first[1]["message_id"]]


@pytest.mark.shows("A02")
def test_saying_that_one_answered_is_no_answer(office: Office) -> None:
    told = office.closed(office.send(["mute"], "request")["message_id"])
    [mute] = told["addressees"]
    assert (mute["status"], mute["reply"], mute["read_how"]) == ("failed", None, "injected")
    status, refused = office.ask("POST", "/api/plans/_mail/retry", {"task": mute["task_id"]})
    assert (status, refused["code"]) == (403, "NOT_ALLOWED")


@pytest.mark.rest
def test_what_was_sent_and_answered_survives_a_death_once(tmp_path: Path) -> None:
    root = written(tmp_path / "root", dev=DIES)
    with engine(root) as serving:
        request = Office(root, serving).send(["dev"], "request")["message_id"]
        until((root / "agents/dev/workspace/_mail" / request / "began").exists, "the agent has answered")
        assert serving.ended(signal.SIGKILL) == -signal.SIGKILL
    with engine(root, quick=True) as serving:
        office = Office(root, serving)
        [dev] = office.closed(request)["addressees"]
        assert (dev["status"], dev["trust"]) == ("done", "observed")
        answers = office.ask("GET", "/api/mail?from=dev")[1]["mails"]
        assert [each["message_id"] for each in answers] == [dev["reply"]]
    assert agenttalk("audit", "verify", "--root", str(root)).returncode == 0
    assert agenttalk("fsck", "--root", str(root)).returncode == 0


def test_without_an_engine_letters_are_written_all_the_same(tmp_path: Path) -> None:
    root = written(tmp_path / "root", dev=MUTE)
    told = agenttalk("mail", "send", "--to", "dev", "--subject", "Hi", "hello", "--root", str(root), "--json")
    mail_id = json.loads(told.stdout)["message_id"]
    assert (root / f"agents/dev/inbox/_mail/mail_{mail_id}.json").is_file()
    shown = agenttalk("mail", "read", mail_id, "--root", str(root))
    assert "hello" in shown.stdout
    wrong = agenttalk("mail", "send", "--to", "nobody", "--subject", "Hi", "hello", "--root", str(root), "--json")
    assert (wrong.returncode, json.loads(wrong.stdout)["error"]["code"]) == (2, "TARGET_AGENT_NOT_FOUND")
