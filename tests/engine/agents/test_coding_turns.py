"""Turns of coding agents, played by programs that speak their language: what they tell counts while they run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest

import preloaded
from kits.plankit import Engine, plan, play, states, task
from kits.provekit import FIXES, RUNS, promise
from kits.standingkit import PlanStanding, explain_json

SPEAKS = """import json, os, pathlib, sys, time
prompt = sys.stdin.read()
going_on = "--resume" in sys.argv
number = 0
def tell(**said):
    print(json.dumps(said), flush=True)
def text(words):
    tell(type="assistant", message={"content": [{"type": "text", "text": words}]})
def tool(name, **given):
    global number
    number += 1
    call = {"type": "tool_use", "id": f"t{number}", "name": name, "input": given}
    tell(type="assistant", message={"id": f"m{number}", "content": [call], "usage": {"input_tokens": 100}})
def end(words="", cost=0.5, tokens=100, **more):
    told = {"usage": {"input_tokens": tokens}, "total_cost_usd": cost, "permission_denials": []}
    tell(**{"type": "result", "subtype": "success", "is_error": False, "result": words, **told, **more})
tell(type="system", subtype="init", session_id="ses-1", model="m1")
"""


def speaks(folder: Path, behaviour: str, *, agent: str = "claude", **profile: Any) -> dict[str, Any]:
    """An agent that tells what it does as Claude Code would."""
    path = folder / "speaks.py"
    path.write_text(f"{SPEAKS}{behaviour}\n")
    resume = [str(path), "--resume", "{session}"]
    cli = {"agent": agent, "program": sys.executable, "argv": [str(path)], "resume": resume}
    return {"driver": "cli", "cli": cli, "sandbox": "plain", **profile}


def run(
    folder: Path,
    behaviour: str,
    *,
    profile: dict[str, Any] | None = None,
    day_cost_usd: float | None = None,
    proving: bool = False,
    **keys: Any,
) -> dict[str, Any]:
    """What became of the only task of a plan, whose agent behaves like this."""
    agents = {"dev": speaks(folder, behaviour, **(profile or {}))}
    compiled = plan(task("t", "dev", **{"max_reexecute_times": 0, **keys}), agents=agents)

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(compiled)
        return await engine.ended()

    found: PlanStanding = play(folder / "root", use, day_cost_usd=day_cost_usd, proving=proving)
    return found.tasks[0] | {"states": states(found)}


def events(folder: Path) -> list[dict[str, Any]]:
    """What was written down while the agent ran."""
    [path] = (folder / "root").glob("agents/dev/workspace/p/t/.agenttalk/*.events.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_what_it_tells_is_written_down_and_what_it_used_is_counted(tmp_path: Path) -> None:
    found = run(tmp_path, "tool('Write', file_path='a.py')\ntext('Thinking')\nend('It is done.')")
    assert found["state"] == "COMPLETED"
    usage = found["usage"]
    assert (usage["tokens"], usage["cost_usd"], usage["tool_calls"]) == (100, 0.5, 1)
    told = [(each["kind"], each.get("text", "")) for each in events(tmp_path)]
    assert told == [
        ("session", "ses-1"),
        ("tool", "a.py"),
        ("usage", ""),
        ("text", "Thinking"),
        ("usage", ""),
        ("end", "It is done."),
    ]


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        (
            "end('Done.', permission_denials=[{'tool_name': 'Bash', 'tool_use_id': 'x'}])",
            "not permitted to the agent: Bash",
        ),
        ("end('')", "the agent ended without any output or action"),
        ("end('No credit.', is_error=True)", "the agent failed: No credit."),
        ("end('No credit.', is_error=True)\nsys.exit(1)", "the agent failed: No credit."),
        ("text('I am at it')", "the agent ended without saying how its work ended"),
        ("print('oh no', file=sys.stderr)\nsys.exit(3)", "exit code 3: oh no"),
    ],
)
def test_a_turn_that_is_worth_nothing_says_why(tmp_path: Path, behaviour: str, words: str) -> None:
    found = run(tmp_path, behaviour)
    assert found["state"] == "FAILED"
    assert words in found["reason"]


@pytest.mark.rest
@pytest.mark.shows("P12")
def test_a_budget_stops_it_while_it_runs(tmp_path: Path) -> None:
    shown = [{"id": "said", "description": "It says something", "evidenceRequired": ["result"]}]
    promise = {"objective": "It is done", "acceptance": shown, "budget": {"tokens": 450}}
    found = run(tmp_path, "while True:\n    tool('Bash', command=f'step {number}')", promise=promise)
    assert (found["state"], found["cause"]) == ("FAILED", "ABORTED")
    assert found["reason"] == "budget-exhausted: 500 tokens of the task's budget of 450 tokens"


def test_one_that_tells_only_in_the_end_what_it_cost_is_not_stopped_for_the_day(tmp_path: Path) -> None:
    """It has ended, and a stop would only throw away what was paid for."""
    ends = "tool('Write', file_path='a.py')\nend('It is done.', cost=2.0)\nsys.stdout.close()\ntime.sleep(0.3)"
    found = run(tmp_path, ends, day_cost_usd=1.0)
    assert (found["state"], found["usage"]["cost_usd"]) == ("COMPLETED", 2.0)


@pytest.mark.rest
def test_the_same_again_and_again_is_getting_nowhere(tmp_path: Path) -> None:
    shown = [{"id": "said", "description": "It says something", "evidenceRequired": ["result"]}]
    promise = {"objective": "It is done", "acceptance": shown, "abortWhen": [{"type": "stuck", "target": "10m"}]}
    found = run(tmp_path, "while True:\n    tool('Bash', command='true')", promise=promise)
    assert found["reason"].startswith("stuck: ")


NOTE = [{"name": "note.txt", "deliverable": True}]
CHECKED = {
    "objective": "o",
    "acceptance": [{"id": "a", "description": "d", "evidenceRequired": ["there"]}],
    "checks": [{"id": "there", "kind": "run", "run": "grep -q good note.txt", "red_first": "off"}],
}
LOOKED_AT = """tool("Write", file_path="note.txt")
for folder in (".", os.environ["AGENTTALK_OUTPUTS"]):
    pathlib.Path(folder, "note.txt").write_text("good" if going_on or not LATE else "bad")
pathlib.Path(__file__).with_name("asked").open("a").write(f"{going_on} {prompt}") if going_on else None
end('It is done.')
"""


@pytest.mark.rest_but("our program is broken")
@pytest.mark.mends("C7")
@pytest.mark.parametrize("broken", [True, False], ids=["our program is broken", "our program works"])
def test_a_look_that_crashed_is_not_told_to_the_agent_as_something_that_it_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, broken: bool
) -> None:
    if broken:
        monkeypatch.setattr("agenttalk.wiring.root.OURSELVES", (sys.executable, "-m", "no_such_program"))
    found = run(tmp_path, f"LATE = {not broken}\n{LOOKED_AT}", promise=CHECKED, proving=True, outputs=NOTE)
    assert found["state"] == "COMPLETED", found["reason"]
    asked = tmp_path / "asked"
    assert asked.exists() is not broken
    shown = explained(tmp_path / "root")
    assert ("our check before the agent stopped failed, which is not the agent's fault" in shown) is broken
    assert ("No module named no_such_program" in shown) is broken


def explained(root: Path) -> str:
    """What explain says of the task."""
    command = [preloaded.program(), "explain", "p/t", "--root", str(root)]
    environ = {**os.environ, "COLUMNS": "400"}
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout


ASKED = """if not going_on:
    end('All is written.')
else:
    pathlib.Path(os.environ["AGENTTALK_OUTPUTS"], "note.txt").write_text(prompt)
    tool("Write", file_path="note.txt")
    end('Now it is.', cost=0.75, tokens=40)
"""


def test_who_stops_too_early_is_asked_for_the_rest_in_the_same_session(tmp_path: Path) -> None:
    found = run(tmp_path, ASKED, outputs=[{"name": "note.txt", "deliverable": True}])
    assert found["state"] == "COMPLETED"
    [note] = (tmp_path / "root").glob("agents/dev/workspace/p/t/.agenttalk/*/outputs/note.txt")
    assert "this is still missing:\n\ndeclared but missing: note.txt" in note.read_text()
    usage = found["usage"]
    assert (usage["tokens"], usage["cost_usd"]) == (200, 0.75)  # claude counts costs from the beginning of the session


@pytest.mark.shows("P11")
def test_who_is_asked_twice_and_does_not_do_it_has_not_done_it(tmp_path: Path) -> None:
    found = run(tmp_path, "end('All is written.')", outputs=[{"name": "note.txt", "deliverable": True}])
    assert found["state"] == "FAILED"
    assert found["reason"].startswith("declared but missing: note.txt")
    assert found["reason"].endswith("the agent says that it is finished, but it called no tool")
    assert sum(each["kind"] == "end" for each in events(tmp_path)) == 3


LOOKS = """if going_on:
    pathlib.Path("price.txt").write_text("80")
    tool("Write", file_path="price.txt")
end(prompt if going_on else 'All is written.')
"""


def test_what_its_promise_misses_where_it_works_is_asked_for_before_anybody_looks(tmp_path: Path) -> None:
    check = {"id": "priced", "kind": "file", "path": "price.txt", "contains": "80"}
    shown = [{"id": "said", "description": "It says something", "evidenceRequired": ["result"], "minTrust": "observed"}]
    promise = {"objective": "It is done", "acceptance": shown, "checks": [check]}
    agents = {"dev": speaks(tmp_path, LOOKS)}
    compiled = plan(task("t", "dev", promise=promise), agents=agents)

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(compiled)
        return await engine.ended()

    play(tmp_path / "root", use, proving=True)
    said = [each["text"] for each in events(tmp_path) if each["kind"] == "end"]
    assert said[0] == "All is written."
    assert "the check 'priced' does not pass: price.txt is not there" in said[1]
    assert len(said) == 2


def test_what_it_says_in_a_block_of_code_is_its_result(tmp_path: Path) -> None:
    said = 'Here:\\n```json\\n{\\n  \\"result\\": \\"fine\\",\\n  \\"score\\": 70\\n}\\n```'
    found = run(tmp_path, f'end("{said}")', score_required=True, score_criteria="How good it is")
    assert (found["state"], found["score"]) == ("COMPLETED", 70)


def test_keys_reach_it_and_nothing_that_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-very-secret-1")
    monkeypatch.setenv("OTHER_KEY", "sk-very-secret-2")
    shown = "text(str(sorted(name for name in os.environ if 'KEY' in name)))\n"
    found = run(tmp_path, shown + "end('It is ' + os.environ['ANTHROPIC_API_KEY'])")
    assert found["state"] == "COMPLETED"
    written = json.dumps(events(tmp_path))
    assert "['ANTHROPIC_API_KEY']" in written
    assert "It is [redacted ANTHROPIC_API_KEY]" in written
    assert "very-secret" not in written


def test_a_program_that_is_not_there_is_not_started(tmp_path: Path) -> None:
    cli = {"agent": "claude", "program": "no-such-coding-agent"}
    found = run(tmp_path, "", profile={"cli": cli})
    assert found["state"] == "FAILED"
    assert "'no-such-coding-agent' was not found" in found["reason"]


def test_who_is_promised_our_tools_is_not_started_without_them(tmp_path: Path) -> None:
    found = run(tmp_path, "end('It is done.')", profile={"agent": "gemini", "mcp": True})
    assert found["state"] == "FAILED"
    assert "no engine listens here for an MCP server" in found["reason"]


def test_in_a_sandbox_it_has_a_home_of_its_own_which_is_gone_afterwards(tmp_path: Path) -> None:
    home = "home = pathlib.Path(os.environ['HOME'])\n(home / 'a/b').mkdir(parents=True)\n(home / 'a/link').symlink_to('/etc')\n"
    found = run(tmp_path, f"{home}end(str(home))", profile={"sandbox": "best"})
    assert found["state"] == "COMPLETED"
    told = events(tmp_path)[-1]["text"]
    assert told.startswith(str(tmp_path / "root"))
    assert told != os.environ["HOME"]
    assert not Path(told).exists()
    assert Path("/etc").is_dir()


JUDGES = """if os.environ["AGENTTALK_MODE"] == "validate":
    said = {"decision": "ACCEPT", "score": 90, "reason": "good " + str("--settings" in sys.argv), "issues": []}
    end("I think so.\\n```json\\n" + json.dumps(said, indent=1) + "\\n```")
else:
    end('It is done.')
"""


def test_it_can_judge_what_it_is_given_and_is_not_asked_for_its_own_work_then(tmp_path: Path) -> None:
    dev = speaks(tmp_path, JUDGES)
    dev["cli"]["argv"] += ["{HOOK}"]
    check = {"id": "fine", "kind": "run", "run": "true", "red_first": "off"}
    shown = [{"id": "fine", "description": "It is fine", "evidenceRequired": ["fine"]}]
    promise = {"objective": "It is done", "acceptance": shown, "checks": [check]}
    compiled = plan(
        task("make", "a", outputs=[{"name": "text"}]),
        task(
            "t",
            "dev",
            inputs=[{"name": "text", "from": "text"}],
            validate={"text": {"quality_threshold": 70}},
            promise=promise,
        ),
        agents={"dev": dev},
    )

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(compiled)
        return await engine.ended()

    found: PlanStanding = play(tmp_path / "root", use, proving=True)
    assert states(found) == {"make": "COMPLETED", "t": "COMPLETED"}
    paths = (tmp_path / "root").glob("agents/dev/workspace/p/t/.agenttalk/*.events.jsonl")
    told = {path.name: path.read_text() for path in paths}
    assert len(told) == 2
    assert "good False" in told["cmd_t_001-1-text.events.jsonl"]


@pytest.mark.mends("C8")
def test_a_very_long_last_answer_is_cut_and_the_work_counts(tmp_path: Path) -> None:
    found = run(tmp_path, "tool('Write', file_path='a.py')\nend('x' * 9_000_000)")
    assert found["state"] == "COMPLETED"


@pytest.mark.mends("C8")
def test_an_agent_that_exits_before_its_answer_was_read_loses_nothing_but_its_end(tmp_path: Path) -> None:
    leave = (
        "tool('Write', file_path='a.py')\n"
        "said = json.dumps(dict(type='result', subtype='success', is_error=False, result='x' * 3_000_000))\n"
        "os.set_blocking(1, False)\n"
        "sys.stdout.flush()\n"
        "assert os.write(1, said.encode()) < len(said)\n"
        "os._exit(0)"
    )
    assert run(tmp_path, leave)["state"] == "COMPLETED"


@pytest.mark.mends("C4")
def test_its_last_message_is_its_result_and_it_is_asked_for_no_file(tmp_path: Path) -> None:
    behaviour = "assert 'result.json' not in prompt, prompt\nend('It is well.\\n' + json.dumps(dict(result='ok', score=90, score_explanation='sound')))"
    found = run(tmp_path, behaviour, score_required=True, score_criteria="How sound it is.")
    assert (found["state"], found["score"]) == ("COMPLETED", 90)


SPENDS = """tell(type="system", subtype="init", session_id="ses-1", model="claude-sonnet-4-5")
for number in range(20):
    usage = {"input_tokens": 20_000, "output_tokens": 1_000}
    call = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": f"step {number}"}}
    tell(type="assistant", message={"id": f"m{number}", "content": [call], "usage": usage})
time.sleep(600)
"""
"""An agent that spends at most $1.5, then hangs: only the budget can end it in time."""
SAYS = [{"id": "said", "description": "It says something", "evidenceRequired": ["result"]}]
CHEAP = {"objective": "It is done", "acceptance": SAYS, "budget": {"cost_usd": 0.3}}


@pytest.mark.mends("C2")
def test_a_budget_in_dollars_stops_it_while_it_runs(tmp_path: Path) -> None:
    found = run(tmp_path, SPENDS, promise=CHEAP)
    assert (found["state"], found["cause"]) == ("FAILED", "ABORTED")
    assert found["reason"].startswith("budget-exhausted: $0.3")
    assert 0.3 < found["usage"]["cost_usd"] < 3


@pytest.mark.mends("C2")
def test_prices_of_a_profile_count_where_no_others_are_known(tmp_path: Path) -> None:
    unknown = SPENDS.replace("claude-sonnet-4-5", "home-made")
    priced = speaks(tmp_path, unknown)
    priced["cli"] |= {"prices": {"input_per_million": 5.0, "output_per_million": 100.0}}
    found = run(tmp_path, unknown, promise=CHEAP, profile={"cli": priced["cli"]})
    assert found["reason"] == "budget-exhausted: $0.4 of the task's budget of $0.3"


@pytest.mark.mends("C2")
def test_of_a_model_without_a_price_it_is_said_that_nothing_is_known(tmp_path: Path) -> None:
    quiet = "tool('Write', file_path='a.py')\nend('It is done.', cost=0)"
    assert run(tmp_path, quiet)["state"] == "COMPLETED"
    [path] = (tmp_path / "root/data/projects").glob("*/blackboard.db")
    [(body,)] = apsw.Connection(str(path)).execute("select body from ledger where kind = 'turn.ended'")
    assert json.loads(body)["usage"]["unpriced"] == "m1"


@pytest.mark.rest_but("True")
@pytest.mark.mends("A6")
@pytest.mark.parametrize(
    "last",
    ["end('Done.', permission_denials=[{'tool_name': 'Bash', 'tool_use_id': 'x'}])", "end('Full.', is_error=True)"],
)
@pytest.mark.parametrize("fixes", [True, False])
def test_what_a_coding_agent_was_refused_is_a_remark_if_its_work_passes(repo: Path, last: str, *, fixes: bool) -> None:
    agent = speaks(repo.parent, f"{FIXES if fixes else 'pass'}\ntool('Write', file_path='calc.py')\n{last}")
    said = task(
        "fix",
        "dev",
        promise=promise({"id": "tests-pass", "kind": "run", "run": RUNS}),
        workspace="repo",
        max_reexecute_times=0,
    )

    async def use(engine: Engine) -> dict[str, Any]:
        await engine.submit(plan(said, agents={"dev": agent}, workspace={"repo": str(repo)}))
        await engine.ended()
        return await explain_json(engine.deps, "p", "fix")

    told = play(repo.parent / "root", use, proving=True)
    words = "not permitted" if "denials" in last else "the agent failed: Full."
    if fixes:
        assert told["state"] == "COMPLETED", told["reason"]
        assert words in told["verdict"]["remarks"][0]
    else:
        assert told["state"] == "FAILED"
        assert words in told["reason"]


OUT = [{"name": "note.txt", "deliverable": True}]
GOES_ON = """tool('Write', file_path='a.py')
rework = 'What to fix' in prompt
note = pathlib.Path(os.environ["AGENTTALK_OUTPUTS"], "note.txt")
if rework or not note.exists():
    note.write_text(('right' if going_on and rework else 'wrong') + str(sys.argv[2:]))
end('It is done.', cost=0.9 if rework else 0.5)
"""
RIGHT = {
    "objective": "It is right",
    "acceptance": [{"id": "right", "description": "It is right", "evidenceRequired": ["right"]}],
    "checks": [{"id": "right", "kind": "file", "path": "note.txt", "contains": "right"}],
}


@pytest.mark.mends("C3")
def test_rework_goes_on_with_the_session_and_counts_what_is_new(tmp_path: Path) -> None:
    found = run(tmp_path, GOES_ON, outputs=OUT, promise=RIGHT, max_reexecute_times=2, proving=True)
    assert (found["state"], found["rounds"]) == ("COMPLETED", 1)
    assert found["usage"]["cost_usd"] == pytest.approx(0.9), "0.5 and, of what the session has cost by then, 0.4"
    [note] = (tmp_path / "root").glob("agents/dev/workspace/p/t/.agenttalk/cmd_t_002-1/outputs/note.txt")
    assert note.read_text() == "right['ses-1']"


@pytest.mark.rest
@pytest.mark.mends("C3")
def test_rework_begins_anew_where_the_session_is_gone(tmp_path: Path) -> None:
    lost = "if going_on and 'What to fix' in prompt:\n    sys.exit('No conversation found')\n"
    gone = lost + GOES_ON.replace("going_on and rework", "rework")
    found = run(tmp_path, gone, outputs=OUT, promise=RIGHT, max_reexecute_times=2, proving=True)
    assert (found["state"], found["rounds"]) == ("COMPLETED", 1)


LAZY = """note = pathlib.Path("note.txt")
again = note.exists()
if not again:
    note.write_text("wrong")
tool('Write', file_path='note.txt')
end('It is done.')
"""


@pytest.mark.rest
def test_a_file_that_lay_there_before_the_turn_is_not_its_output(tmp_path: Path) -> None:
    found = run(tmp_path, LAZY, outputs=OUT, promise=RIGHT, max_reexecute_times=1, proving=True)
    assert found["state"] == "FAILED"
    assert "note.txt" in found["reason"]
    assert "declared but missing" in found["reason"]
