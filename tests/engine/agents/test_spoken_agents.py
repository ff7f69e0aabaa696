"""Turns of agents that speak the Agent Client Protocol, played by programs: what they ask, say and do to us."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.drivers.acp import AcpDialogue
from agenttalk.engine.agents.acp import AcpConversation, conclude_turn
from agenttalk.engine.people import questions
from agenttalk.ports.agents import TurnEnd
from agenttalk.ports.dialogues import SessionParameters
from agenttalk.rules.agents.permissions import PermissionPolicy
from kits.plankit import Engine, plan, play, states, task
from kits.sandboxkit import needs
from kits.spokenkit import events, run, speaks, told
from kits.standingkit import PlanStanding


def test_from_the_greeting_to_the_end_all_is_written_down(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        """begin()
text("I ")
text("begin.")
tool("t1", "edit", "Write a.py", rawInput={"file_path": "a.py"})
update("tool_call_update", toolCallId="t1", status="completed")
update("usage_update", used=120, size=1000, cost={"amount": 0.25, "currency": "USD"})
text("It is done.")
end(usage={"totalTokens": 300, "inputTokens": 200, "outputTokens": 100})
rest()""",
    )
    assert found["state"] == "COMPLETED", found["reason"]
    usage = found["usage"]
    assert (usage["tokens"], usage["cost_usd"], usage["tool_calls"]) == (300, 0.25, 1)
    assert told(tmp_path) == [
        ("session", ""),
        ("text", "I begin."),
        ("tool", "a.py"),
        ("usage", ""),
        ("text", "It is done."),
        ("usage", ""),
        ("end", ""),
    ]


def test_neither_files_nor_terminals_are_offered_and_asking_for_them_is_answered(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        """begin()
offered = hello["params"]["clientCapabilities"]
tell(id="f1", method="fs/read_text_file", params={"sessionId": session, "path": "/etc/passwd"})
said = heard()
text(json.dumps([offered["fs"], offered["terminal"], said["error"]["code"], hello["params"]["protocolVersion"]]))
end()
rest()""",
    )
    assert found["state"] == "COMPLETED", found["reason"]
    [text] = [each for kind, each in told(tmp_path) if kind == "text"]
    assert json.loads(text) == [{"readTextFile": False, "writeTextFile": False}, False, -32601, 1]


SCOPED = {
    "objective": "It is done",
    "acceptance": [{"id": "said", "description": "It says something", "evidenceRequired": ["result"]}],
    "allowedScope": ["src/**"],
}


@pytest.mark.shows("P13")
def test_what_lies_outside_of_its_scope_is_refused_and_the_reason_stands_on_the_task(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        """begin()
answers = [may("edit", "a", locations=[{"path": "src/a.py"}]), may("edit", "b", locations=[{"path": "docs/b.md"}]),
           may("edit", "c", locations=[{"path": os.environ["AGENTTALK_OUTPUTS"] + "/c"}]),
           may("edit", "d", content=[{"type": "diff", "path": "/etc/d", "oldText": "", "newText": "x"}]),
           may("execute", "run", rawInput={"command": "make"})]
text(str(answers))
end()
rest()""",
        promise=SCOPED,
    )
    assert found["state"] == "FAILED"
    assert found["reason"].startswith(
        "not permitted to the agent: edit (docs/b.md is not in its task's scope): b; "
        "edit (/etc/d is not in its working folder): d; "
        "execute (there is no sandbox to do it in): make (do without it, or permit it by acp.allow)"
    )
    assert ("text", "['yes', 'no', 'yes', 'no', 'no']") in told(tmp_path)
    assert sum(kind == "denied" for kind, _ in told(tmp_path)) == 3


def test_what_its_profile_allows_and_denies_is_said_to_it(tmp_path: Path) -> None:
    rules = {"allow": ["execute:git *", "edit"], "deny": ["execute:git push *"]}
    found = run(
        tmp_path,
        """begin()
text(str([may("execute", "x", rawInput={"command": each}) for each in (
    "git status", ["bash", "-lc", "git log 2>&1 | git shortlog"], "git push --force", "git status; rm -rf /", "git log > /x")]))
end()
rest()""",
        profile={"acp": rules},
    )
    assert ("text", "['yes', 'yes', 'no', 'no', 'no']") in told(tmp_path)
    assert "execute (its profile denies execute:git push *): git push --force" in found["reason"]


ASKS = """begin()
text(may("execute", "Push", rawInput={"command": "git push"}))
end()
rest()"""


@pytest.mark.parametrize(
    ("answer", "state", "said"),
    [
        ({"decision": "APPROVE"}, "COMPLETED", "yes"),
        ({"decision": "PROVIDE", "answers": ["allow"]}, "COMPLETED", "yes"),
        ({"decision": "PROVIDE", "answers": ["refuse"]}, "FAILED", "no"),
    ],
)
def test_what_a_person_answers_is_passed_on(tmp_path: Path, answer: dict[str, Any], state: str, said: str) -> None:
    agents = {"dev": speaks(tmp_path, ASKS, acp={"ask": ["execute"]})}
    compiled = plan(task("t", "dev", max_reexecute_times=0), agents=agents)

    async def use(engine: Engine) -> tuple[PlanStanding, str]:
        await engine.submit(compiled)
        await engine.asked()
        [request] = await questions.list_open(engine.deps)
        await engine.answer(**answer)
        return await engine.ended(), str(request.document.title)

    found, title = play(tmp_path / "root", use)
    assert title == "May dev do this for t: execute git push"
    assert states(found) == {"t": state}
    assert ("asked", "git push") in told(tmp_path)
    assert ("text", said) in told(tmp_path)
    if said == "no":
        assert "execute (ada refused it): git push" in found.tasks[0]["reason"]


@pytest.mark.parametrize("waits", [True, False], ids=["when it was put", "at once"])
def test_a_question_of_who_does_not_wait_for_the_answer_is_closed(tmp_path: Path, *, waits: bool) -> None:
    go = tmp_path / "go"
    behaviour = f"""begin()
call = {{"toolCallId": "x", "kind": "execute", "title": "Push"}}
tell(id="q", method="session/request_permission", params={{"sessionId": session, "toolCall": call, "options": list(ONCE)}})
while {waits} and not pathlib.Path({str(go)!r}).exists():
    time.sleep(0.02)
text("Never mind.")
end()
rest()"""
    agents = {"dev": speaks(tmp_path, behaviour, acp={"otherwise": "ask"})}

    async def use(engine: Engine) -> tuple[PlanStanding, int]:
        await engine.submit(plan(task("t", "dev"), agents=agents))
        if waits:
            await engine.asked()
            go.touch()
        return await engine.ended(), len(await questions.list_open(engine.deps))

    found, left = play(tmp_path / "root", use)
    assert (states(found), left) == ({"t": "COMPLETED"}, 0)
    assert ("asked", "Push") in told(tmp_path)


def test_who_offers_no_permission_for_once_gets_none(tmp_path: Path) -> None:
    always = '[{"optionId": "all", "name": "All", "kind": "allow_always"}]'
    found = run(tmp_path, f"begin()\ntext(may('read', 'a', options={always}))\nend()\nrest()")
    assert ("text", "cancelled") in told(tmp_path)
    assert "read (it cannot be permitted only once): a" in found["reason"]


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        ("begin()\nend('refusal')\nrest()", "the agent failed: it refuses to go on (refusal)"),
        ("begin()\nend('max_tokens')\nrest()", "it reached its token limit (max_tokens)"),
        ("begin()\nend('cancelled')\nrest()", "it reports that it was cancelled (cancelled)"),
        ("begin()\nend('tired')\nrest()", "it stopped for an unknown reason: 'tired'"),
        (
            (
                "begin()\nwhy = {'details': 'no credit left'}\n"
                "tell(id=prompt_id, error={'code': -32603, 'message': 'Internal error', 'data': why})\nrest()"
            ),
            "the agent failed: Internal error: no credit left (session/prompt)",
        ),
        ("begin(version=2)\nrest()", "it speaks protocol version 2; version 1 is needed"),
        ("begin(version='1')\nrest()", "it speaks protocol version 1; version 1 is needed"),
        ("begin()\ntell(id=77, result={})\nrest()", "it answered a request that was not made (77)"),
        ("begin()\ntell(id=0, result={'protocolVersion': 1})\nrest()", "it answered a request that was not made (0)"),
        ("tell(id=2, result={'stopReason': 'end_turn'})\nrest()", "it answered a request that was not made (2)"),
        (
            "for each in range(200):\n    print('Hello!', flush=True)\nrest()",
            "more than 100 lines that are not messages, such as: Hello!",
        ),
        (
            "begin()\nwhile True:\n    text('x' * 500_000)",
            "it sent more than 64 MiB or 500000 messages in one prompt",
        ),
        (
            "begin()\nprint('oh no', file=sys.stderr)\nsys.exit(3)",
            "its program ended (exit code 3), and it had not answered session/prompt: oh no",
        ),
        (
            "begin()\nos.kill(os.getpid(), 9)",
            "its program ended (ended by SIGKILL), and it had not answered session/prompt",
        ),
        ("print('{}')\nsys.exit(0)", "its program ended (exit code 0), and it had not answered initialize"),
        ("begin()\nend()\nrest()", "the agent ended without any output or action"),
    ],
)
def test_whatever_it_does_there_is_an_end_with_a_reason(tmp_path: Path, behaviour: str, words: str) -> None:
    found = run(tmp_path, behaviour)
    assert found["state"] == "FAILED"
    assert words in found["reason"]


def test_who_never_answers_is_not_waited_for(tmp_path: Path) -> None:
    found = run(tmp_path, "rest()", profile={"acp": {"start_seconds": 1}}, timeout=60)
    assert found["state"] == "FAILED"
    assert "it was not ready for its prompt after 1 seconds" in found["reason"]
    assert found["fact"]["usage"]["fault"] == "AGENT_PROTOCOL"


def test_who_never_ends_is_ended(tmp_path: Path) -> None:
    found = run(tmp_path, "begin()\nwhile True:\n    heard()", timeout=1)
    assert (found["state"], found["cause"]) == ("FAILED", "FAILED_FOR_GOOD")
    assert "it was ended after 1 seconds" in found["reason"]


def aborted(tmp_path: Path, behaviour: str, **options: Any) -> Path:
    """Have an agent stopped when it says that it is at work; where it worked."""
    agents = {"dev": speaks(tmp_path, behaviour, acp={"ask": ["fetch"]})}
    compiled = plan(task("t", "dev"), agents=agents)
    work = tmp_path / "root/agents/dev/workspace/p/t"

    async def use(engine: Engine) -> tuple[PlanStanding, int]:
        await engine.submit(compiled)
        await engine.until(lambda _: any("at work" in each.read_text() for each in work.glob(".agenttalk/*.jsonl")))
        if "fetch" in behaviour:
            await engine.asked()
        await engine.dispatcher.operator.abort("p", "t", by="ada", why="enough")
        return await engine.ended(), len(await questions.list_open(engine.deps))

    found, left = play(tmp_path / "root", use, **options)
    assert states(found) == {"t": "FAILED"}
    assert left == 0
    return work


OBEYS = """begin()
tool("t1", "execute", "at work", rawInput={"command": "at work"})
pathlib.Path("heard").write_text(heard()["method"])
end("cancelled")
rest()"""


def test_who_is_cancelled_is_told_so(tmp_path: Path) -> None:
    assert (aborted(tmp_path, OBEYS, grace=60) / "heard").read_text() == "session/cancel"


def test_who_is_cancelled_while_it_waits_for_a_person_is_answered_and_the_question_is_closed(tmp_path: Path) -> None:
    asks = """begin()
tool("t1", "fetch", "at work", rawInput={"url": "at work"})
pathlib.Path("answer").write_text(may("fetch", "A page"))
end("cancelled")
rest()"""
    assert (aborted(tmp_path, asks, grace=60) / "answer").read_text() == "cancelled"


STUBBORN = """begin()
sleeps = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", sleeps], start_new_session=True)
pathlib.Path("pids").write_text(f"{os.getpid()} {child.pid}")
tool("t1", "execute", "at work", rawInput={"command": "at work"})
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    time.sleep(600)"""


@pytest.mark.shows("P12")
def test_of_who_does_not_obey_nothing_is_left(tmp_path: Path) -> None:
    work = aborted(tmp_path, STUBBORN)
    for pid in (work / "pids").read_text().split():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


FORGETS = """begin(load=LOAD)
if "still missing" not in prompt:
    text("All is written.")
else:
    pathlib.Path(os.environ["AGENTTALK_OUTPUTS"], "note.txt").write_text(prompt)
    text(opened)
end()
rest()"""


@pytest.mark.parametrize(("load", "opened"), [("True", "session/load"), ("False", "session/new")])
def test_who_stops_too_early_is_asked_for_the_rest(tmp_path: Path, load: str, opened: str) -> None:
    found = run(tmp_path, FORGETS.replace("LOAD", load), outputs=[{"name": "note.txt", "deliverable": True}])
    assert found["state"] == "COMPLETED", found["reason"]
    assert ("text", opened) in told(tmp_path)
    assert ("text", "what was said before") not in told(tmp_path)
    [note] = (tmp_path / "root").glob("agents/dev/workspace/p/t/.agenttalk/*/outputs/note.txt")
    assert ("Do t." in note.read_text()) == (opened == "session/new")  # a new session is told everything


def test_keys_reach_it_and_nothing_that_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sk-very-secret-1")
    monkeypatch.setenv("OTHER_KEY", "sk-very-secret-2")
    shown = "text(str(sorted(name for name in os.environ if 'KEY' in name)) + os.environ['MY_KEY'])\n"
    wish = "may('execute', 'x', rawInput={'command': 'echo ' + os.environ['MY_KEY']})\n"
    found = run(tmp_path, f"begin()\n{shown}{wish}end()\nrest()", profile={"env": ["MY_KEY"]})
    written = json.dumps(events(tmp_path))
    assert "['MY_KEY'][redacted MY_KEY]" in written
    assert "echo [redacted MY_KEY]" in found["reason"]
    assert "very-secret" not in written + found["reason"]


@pytest.mark.parametrize(
    ("asked", "words"),
    [("execute git push", "; a person had not answered 'execute git push'"), ("", "; it had not answered initialize")],
)
def test_for_whom_it_waited_when_its_time_was_over_is_told(asked: str, words: str) -> None:
    dialogue = AcpDialogue(SessionParameters("/w", "Do it."))
    dialogue.begin()
    speaking = AcpConversation(dialogue, PermissionPolicy(("/w",)), None, lambda _: None, 60.0)
    speaking.pending_question = asked
    ended = TurnEnd("timeout", None, b"", b"", 1.0, "it was ended after 1 seconds")
    assert conclude_turn(ended, speaking, lambda _: None).error == f"it was ended after 1 seconds{words}"


def test_a_long_prompt_arrives_as_a_whole(tmp_path: Path) -> None:
    found = run(tmp_path, "begin()\ntext(str(prompt.count('x')))\nend()\nrest()", prompt="x" * 300_000)
    assert found["state"] == "COMPLETED", found["reason"]
    assert int(told(tmp_path)[1][1]) >= 300_000


def test_without_its_package_it_is_not_started_and_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "agenttalk.adapters.drivers.acp", None)
    found = run(tmp_path, "begin()\nend()\nrest()")
    assert found["state"] == "FAILED"
    assert "needs a package that is not installed; pip install 'agenttalk[acp]'" in found["reason"]


def test_a_program_that_is_not_there_is_not_started(tmp_path: Path) -> None:
    found = run(tmp_path, "", profile={"acp": {"program": "no-such-agent"}})
    assert "'no-such-agent' was not found" in found["reason"]


JUDGES = """begin()
if os.environ["AGENTTALK_MODE"] == "validate":
    text(json.dumps({"decision": "ACCEPT", "score": 90, "reason": "good", "issues": []}))
else:
    text("It is done.")
end()
rest()"""


def test_it_can_judge_what_it_is_given(tmp_path: Path) -> None:
    compiled = plan(
        task("make", "a", outputs=[{"name": "text"}]),
        task("t", "dev", inputs=[{"name": "text", "from": "text"}], validate={"text": {"quality_threshold": 70}}),
        agents={"dev": speaks(tmp_path, JUDGES)},
    )

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(compiled)
        return await engine.ended()

    assert states(play(tmp_path / "root", use, proving=True)) == {"make": "COMPLETED", "t": "COMPLETED"}


OTHERS = """import asyncio
import acp
from acp import helpers, schema

class Other(acp.Agent):
    def on_connect(self, conn):
        self.conn = conn
    async def initialize(self, protocol_version, client_capabilities=None, client_info=None, **more):
        return schema.InitializeResponse(protocol_version=protocol_version)
    async def new_session(self, cwd, mcp_servers=None, **more):
        return schema.NewSessionResponse(session_id="theirs")
    async def prompt(self, prompt, session_id, **more):
        call = schema.ToolCallUpdate(tool_call_id="t", title="Write", kind="edit", locations=[schema.ToolCallLocation(path="a")])
        options = [schema.PermissionOption(option_id="y", name="Yes", kind="allow_once")]
        said = await self.conn.request_permission(options=options, session_id=session_id, tool_call=call)
        await self.conn.session_update(session_id, helpers.update_agent_message_text(f"I may: {said.outcome.option_id}"))
        return schema.PromptResponse(stop_reason="end_turn")

asyncio.run(acp.run_agent(Other()))
"""


def test_an_agent_that_somebody_else_taught_the_protocol_understands_us(tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text(OTHERS)
    found = run(tmp_path, "", profile={"acp": {"argv": [str(tmp_path / "theirs.py")]}})
    assert found["state"] == "COMPLETED", found["reason"]
    assert ("text", "I may: y") in told(tmp_path)


def test_one_that_speaks_to_us_in_a_sandbox_is_held_there(tmp_path: Path) -> None:
    """What it is permitted to run is held by the sandbox, which its words cannot change."""
    needs("bubblewrap")
    found = run(
        tmp_path,
        """begin()
answer = may("execute", "x", rawInput={"command": "touch docs/b.md"})
try:
    pathlib.Path("docs").mkdir()
    done = "made"
except OSError as error:
    done = "kept"
text(f"{answer} {done} {os.environ['HOME']}")
end()
rest()""",
        profile={"sandbox": "bubblewrap"},
        promise=SCOPED,
    )
    assert found["state"] == "COMPLETED", found["reason"]
    [text] = [each for kind, each in told(tmp_path) if kind == "text"]
    assert text.startswith(f"yes kept {tmp_path}/root")


def test_who_is_not_to_have_our_server_is_told_of_none(tmp_path: Path) -> None:
    behaviour = """begin()
text(json.dumps([opening["params"]["mcpServers"], "_meta" in opening["params"], "MCP" in prompt]))
end()
rest()"""
    found = run(tmp_path, behaviour)
    assert found["state"] == "COMPLETED", found["reason"]
    assert ("text", "[[], false, false]") in told(tmp_path)


def test_who_is_to_have_our_server_is_not_started_where_nobody_listens(tmp_path: Path) -> None:
    found = run(tmp_path, "begin()\nend()\nrest()", profile={"mcp": True})
    assert found["state"] == "FAILED"
    assert "no engine listens here for an MCP server; remove mcp" in found["reason"]


@pytest.mark.parametrize(
    ("work", "limits", "why"),
    [
        (
            "for _ in range(8):\n    if not os.fork():\n        kept = b'x' * (40 << 20)\n        time.sleep(600)\nrest()",
            {"total_memory_mib": 200},
            "its processes took more than 200 MiB of memory together",
        ),
        (
            "for each in range(60):\n    open(f'{each}', 'w').close()\ntext('Done.')\nend()\nrest()",
            {"files": 30},
            "it had more than 30 files and folders",
        ),
    ],
    ids=["memory", "files, and says that it is finished"],
)
def test_who_uses_more_than_it_may_is_ended_for_that_whatever_it_says(
    tmp_path: Path, work: str, limits: dict[str, int], why: str
) -> None:
    found = run(tmp_path, f"begin()\n{work}", profile={"limits": limits})
    assert found["state"] == "FAILED"
    assert found["reason"].startswith(f"it was ended because {why}"), found["reason"]
