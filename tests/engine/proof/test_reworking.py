"""Work that flows back: what was refused comes along, consumers follow, and a person decides when rounds are used up."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.drivers.python_calls import Turn
from agenttalk.contracts.errors import UsageError
from agenttalk.contracts.validation import ValidationFeedback
from agenttalk.engine.messages import dead_letters
from agenttalk.engine.operation import fsck
from agenttalk.engine.people import questions
from agenttalk.ports.statements.messages import VIEW_BODY
from agenttalk.ports.statements.plans import VERSIONS_BEFORE
from agenttalk.rules.proof.rework import RoundGrant, TaskAbandonment, WorkAcceptance
from kits.plankit import Engine, plan, play, states, task
from kits.provekit import git, repository
from kits.standingkit import PlanStanding, explain_json
from kits.treekit import Tree, sha256

OUT = [{"name": "text.md", "deliverable": True}]
TAKES = [{"name": "text", "from": "text.md"}]
JUDGED = {"text": {"quality_threshold": 70}}
GOOD = {"score": 90, "decision": "ACCEPT", "reason": "fine"}


def bad(*issues: Any, **keys: Any) -> dict[str, Any]:
    """A refusal."""
    return {"score": 10, "decision": "REJECT", "reason": "not yet", "issues": list(issues) or ["no price"], **keys}


class Agents:
    """Functions that count their turns and remember what they were given."""

    def __init__(self) -> None:
        self.ran: Counter[str] = Counter()
        self.given: dict[str, list[str]] = {}
        self.turns: list[Turn] = []

    def writer(self, text: Callable[[int], str] = lambda number: f"version {number}") -> Any:
        async def write(turn: Turn) -> str:
            self._note(turn)
            for each in turn.command.produces or ():
                turn.outputs[each.output_name] = text(self.ran[turn.task_id])
            return "written"

        return write

    def reader(self, judge: Callable[[str], dict[str, Any]] = lambda _: GOOD) -> Any:
        async def read(turn: Turn) -> Any:
            if turn.judges is not None:
                return judge(turn.text("text"))
            self._note(turn)
            for each in turn.command.produces or ():
                turn.outputs[each.output_name] = f"{turn.task_id} of {turn.text('text')}"
            return "read"

        return read

    def _note(self, turn: Turn) -> None:
        self.ran[turn.task_id] += 1
        self.turns.append(turn)
        if "text" in turn.inputs:
            self.given.setdefault(turn.task_id, []).append(turn.text("text"))


def refuses(*texts: str) -> Callable[[str], dict[str, Any]]:
    """Refuses these texts, each with an issue of its own."""
    return lambda text: bad(f"{text} is wrong") if text in texts else GOOD


def judging(*others: dict[str, Any], **keys: Any) -> Any:
    """A writer, somebody who judges what it wrote, and others that use it."""
    judge = task("judge", "j", needs=["write"], inputs=TAKES, validate=JUDGED)
    return plan(task("write", "w", outputs=OUT, **keys), judge, *others)


async def messages(engine: Engine, task_id: str) -> list[tuple[str, dict[str, Any]]]:
    """What a task sent, the oldest first: what became of it, and its envelope."""
    board = await engine.deps.stores.board("default")
    rows = await board.read(VERSIONS_BEFORE, plan_id="p", task_id=task_id, before=10**9)
    found = [(row[3], json.loads(row[5])) for row in rows]
    return sorted(found, key=lambda each: each[1]["created_at"])


# What comes along.


@pytest.mark.shows("V03", "V05", "V06")
def test_what_was_refused_and_why_comes_along_and_the_new_version_says_which_round_it_is(tmp_path: Path) -> None:
    agents = Agents()
    issue = {"severity": "HIGH", "category": "COMPLETENESS", "description": "no price", "suggestion": "name it"}

    async def use(engine: Engine) -> None:
        await engine.submit(judging())
        assert states(await engine.ended()) == {"write": "COMPLETED", "judge": "COMPLETED"}
        (old, first), (new, second) = await messages(engine, "write")
        assert (old, new) == ("superseded", "delivered")
        assert "reexecution" not in first
        assert second["reexecution"]["count"] == 1
        kept = engine.deps.root.path / "system_runtime/plans/p/superseded/write/text.md/cmd_write_001/text.md"
        [view] = await (await engine.deps.stores.board("default")).read(
            VIEW_BODY, path="plans/p/superseded/write/text.md/cmd_write_001/text.md"
        )
        assert view is not None, kept

    judge = agents.reader(lambda text: GOOD if text == "version 2" else bad(issue))
    play(tmp_path, use, proving=True, w=agents.writer(), j=judge)
    first, again = [turn for turn in agents.turns if turn.task_id == "write"]
    assert "validation_feedback" not in first.inputs
    assert again.inputs["previous_output"] == {"text.md/text.md": b"version 1"}
    feedback = ValidationFeedback.from_bytes(again.read("validation_feedback"))
    assert (feedback.validator, feedback.original_agent, feedback.original_task_id) == ("j", "w", "write")
    assert (feedback.decision, feedback.issues[0].suggestion) == ("REJECT", "name it")
    assert feedback.expectations is not None
    assert feedback.expectations.additions == ("name it",)
    assert agents.given["judge"] == ["version 2"]


def test_what_the_validator_expects_is_passed_on_as_it_says(tmp_path: Path) -> None:
    agents = Agents()
    wanted = {"additions": ["a price"], "modifications": ["the title"]}

    async def use(engine: Engine) -> None:
        await engine.submit(judging())
        await engine.ended()

    judge = agents.reader(lambda text: GOOD if text == "version 2" else bad(expectations=wanted))
    play(tmp_path, use, proving=True, w=agents.writer(), j=judge)
    feedback = ValidationFeedback.from_bytes(agents.turns[1].read("validation_feedback"))
    assert feedback.expectations is not None
    assert feedback.expectations.as_json() == wanted


SCRIPT = """
import json, os, pathlib
out = pathlib.Path(os.environ['AGENTTALK_OUTPUTS'], 'text.md')
told = os.environ.get('AGENTTALK_FEEDBACK')
if told is None:
    out.write_text('first')
else:
    said = json.loads(pathlib.Path(told).read_text())
    before = next(pathlib.Path(os.environ['AGENTTALK_INPUTS']).glob('previous_output/text.md/*')).read_text()
    out.write_text(before + ', mended: ' + said['issues'][0]['description'])
print('done')
"""


def test_programs_find_the_feedback_and_what_they_made_before(tmp_path: Path) -> None:
    (tmp_path / "write.py").write_text(SCRIPT)
    agents = Agents()
    check = {"id": "mended", "kind": "file", "path": "text.md", "contains": "mended"}
    criteria = [{"id": "c", "description": "mended", "evidenceRequired": ["mended"]}]
    promise = {"objective": "It is mended", "acceptance": criteria, "checks": [check]}
    writer = {"driver": "script", "argv": [sys.executable, str(tmp_path / "write.py")]}

    async def use(engine: Engine) -> None:
        await engine.submit(
            plan(
                task("write", "w", outputs=OUT, promise=promise),
                task("judge", "j", needs=["write"], inputs=TAKES, validate=JUDGED),
                agents={"w": writer},
            )
        )
        assert states(await engine.ended()) == {"write": "COMPLETED", "judge": "COMPLETED"}

    seen: list[str] = []

    def judge(text: str) -> dict[str, Any]:
        seen.append(text)
        return GOOD if "no price" in text else bad("no price")

    play(tmp_path / "root", use, proving=True, j=agents.reader(judge))
    assert seen[0].startswith("first, mended: ")  # the verifier sent it back first, and what was left came along
    assert seen[1] == f"{seen[0]}, mended: no price"


# Consumers of what was replaced.


@pytest.mark.shows("V08")
def test_whoever_was_done_with_a_refused_version_runs_again_and_so_do_those_after_it(tmp_path: Path) -> None:
    agents = Agents()
    others = [
        task("use", "u", needs=["write"], inputs=TAKES, outputs=[{"name": "used.md"}], priority="HIGH"),
        task("after", "u", needs=["use"], inputs=[{"name": "text", "from": "used.md"}], priority="HIGH"),
        task("order", "u", needs=["write"], priority="HIGH"),
    ]
    done = asyncio.Event()

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(judging(*others))
        await engine.until(lambda now: {states(now)[name] for name in ("use", "after", "order")} == {"COMPLETED"})
        done.set()
        return await engine.ended()

    async def judge(turn: Turn) -> Any:
        await done.wait()
        return await agents.reader(refuses("version 1"))(turn)

    async def user(turn: Turn) -> Any:
        if turn.task_id == "order":
            agents.ran["order"] += 1
            return "ok"
        return await agents.reader()(turn)

    found = play(tmp_path, use, proving=True, w=agents.writer(), j=judge, u=user)
    assert (found.result, set(states(found).values())) == ("done", {"COMPLETED"})
    assert agents.given["use"] == ["version 1", "version 2"]
    assert agents.given["after"] == ["use of version 1", "use of version 2"]
    assert agents.ran == {"write": 2, "use": 2, "after": 2, "judge": 1, "order": 1}
    assert {each["task_id"]: each["rounds"] for each in found.tasks if each["rounds"]} == {"write": 1}
    assert (found.counts["open"], found.counts["completed"]) == (0, 5)


def test_whoever_gets_the_same_again_stays_done(tmp_path: Path) -> None:
    agents = Agents()
    outputs = [*OUT, {"name": "same.md", "deliverable": True}]
    others = [task("use", "u", needs=["write"], inputs=[{"name": "text", "from": "same.md"}], priority="HIGH")]
    done = asyncio.Event()

    async def use(engine: Engine) -> PlanStanding:
        judge = task("judge", "j", needs=["write"], inputs=TAKES, validate=JUDGED)
        await engine.submit(plan(task("write", "w", outputs=outputs), judge, *others))
        await engine.until(lambda now: states(now)["use"] == "COMPLETED")
        done.set()
        return await engine.ended()

    async def write(turn: Turn) -> str:
        await agents.writer()(turn)
        turn.outputs["same.md"] = "the same"
        return "written"

    async def judge(turn: Turn) -> Any:
        await done.wait()
        return await agents.reader(refuses("version 1"))(turn)

    found = play(tmp_path, use, proving=True, w=write, j=judge, u=agents.reader())
    assert set(states(found).values()) == {"COMPLETED"}
    assert agents.ran == {"write": 2, "use": 1, "judge": 1}


def alive(file: Path) -> bool:
    """Whether the process lives whose number is in a file."""
    return Path("/proc", file.read_text().strip()).exists()


def test_a_program_that_runs_with_a_refused_version_is_ended_and_runs_with_the_new_one(tmp_path: Path) -> None:
    """The program of the first version never ends by itself; its child would outlive it."""
    agents = Agents()
    (tmp_path / "use.sh").write_text(
        f"cp $AGENTTALK_INPUTS/text/text.md {tmp_path}/given\n"
        f'grep -q "version 1" {tmp_path}/given || {{ echo done; exit 0; }}\n'
        f"sleep 1000 & echo $! > {tmp_path}/child.tmp; mv {tmp_path}/child.tmp {tmp_path}/child\nwait\n"
    )
    others = [task("use", "u", needs=["write"], inputs=TAKES, priority="HIGH")]
    user = {"driver": "script", "argv": ["/bin/sh", str(tmp_path / "use.sh")]}
    judge_task = task("judge", "j", needs=["write"], inputs=TAKES, validate=JUDGED)

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(plan(task("write", "w", outputs=OUT), judge_task, *others, agents={"u": user}))
        found = await engine.ended()
        assert await fsck.check_root(engine.deps) == []
        return found

    async def judge(turn: Turn) -> Any:
        while not (tmp_path / "child").exists():  # noqa: ASYNC110 - a program tells in no other way
            await asyncio.sleep(0.01)
        return await agents.reader(refuses("version 1"))(turn)

    async def write(turn: Turn) -> str:
        """The second version is not made before nothing runs with the first one any more."""
        child = tmp_path / "child"
        while agents.ran["write"] and alive(child):  # noqa: ASYNC110 - a program tells in no other way
            await asyncio.sleep(0.01)
        return str(await agents.writer()(turn))

    found = play(tmp_path / "root", use, proving=True, w=write, j=judge)
    assert set(states(found).values()) == {"COMPLETED"}
    assert (tmp_path / "given").read_text() == "version 2"
    assert not alive(tmp_path / "child")
    assert {each["retries"] for each in found.tasks} == {0}


def test_a_refused_version_reaches_nobody_who_had_not_begun(tmp_path: Path) -> None:
    """The second consumer's agent is busy until the version is refused."""
    agents = Agents()
    refused = asyncio.Event()
    others = [task("busy", "u", priority="HIGH"), task("use", "u", needs=["write"], inputs=TAKES)]

    async def user(turn: Turn) -> Any:
        if turn.task_id == "busy":
            await refused.wait()
            return "ok"
        return await agents.reader()(turn)

    async def judge(turn: Turn) -> Any:
        return await agents.reader(refuses("version 1"))(turn)

    async def write(turn: Turn) -> Any:
        if agents.ran["write"]:
            refused.set()
        return await agents.writer()(turn)

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(judging(*others))
        return await engine.ended()

    found = play(tmp_path, use, proving=True, w=write, j=judge, u=user)
    assert set(states(found).values()) == {"COMPLETED"}
    assert agents.given["use"] == ["version 2"]


# No round left.


def stuck(*others: dict[str, Any], **keys: Any) -> Any:
    return judging(*others, max_reexecute_times=1, **keys)


async def _limit(engine: Engine) -> Any:
    """The question about a task that has no round left."""
    return next(each for each in await questions.list_open(engine.deps) if each.document.type == "REEXECUTE_LIMIT")


@pytest.mark.shows("V07", "V13")
def test_without_rounds_a_person_is_asked_with_the_whole_history(tmp_path: Path) -> None:
    agents = Agents()

    async def use(engine: Engine) -> Any:
        await engine.submit(stuck())
        found = await engine.ended()
        assert states(found) == {"write": "FAILED", "judge": "BLOCKED_WAITING_REVIEW"}
        told = await explain_json(engine.deps, "p", "write")
        assert [each["what"] for each in told["history"]] == ["ordered", "exhausted"]
        return (await _limit(engine)).document

    judge = agents.reader(lambda text: bad(f"{text} is wrong"))
    asked = play(tmp_path, use, proving=True, w=agents.writer(), j=judge)
    history = asked.needed.criteria["history"]
    assert [each["reason"] for each in history] == ["not yet", "not yet"]
    assert [each["by"] for each in history] == ["j", "j"]
    assert [each["issues"][0]["description"] for each in history] == ["version 1 is wrong", "version 2 is wrong"]
    assert history[0]["fingerprint"] != history[1]["fingerprint"]
    assert {"accept", "abort"} < {option.key for option in asked.needed.decision.options}


async def _answered(engine: Engine, *answers: str, decision: str = "PROVIDE") -> None:
    request = await _limit(engine)
    await questions.answer(engine.deps, request.request_id, by="ada", decision=decision, answers=answers)  # type: ignore[arg-type]
    engine.dispatcher.nudge()


@pytest.mark.parametrize("by_answer", [True, False], ids=["an answer", "a command"])
def test_a_person_may_grant_more_rounds(tmp_path: Path, *, by_answer: bool) -> None:
    agents = Agents()

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(stuck())
        await engine.ended()
        if by_answer:
            await _answered(engine, "grant 2")
        else:
            await engine.dispatcher.operator.rework("p", "write", RoundGrant(2), by="ada")
        found = await engine.until(lambda now: now.state == "ENDED")
        assert await questions.list_open(engine.deps) == []
        return found

    judge = agents.reader(refuses("version 1", "version 2", "version 3"))
    found = play(tmp_path, use, proving=True, w=agents.writer(), j=judge)
    assert states(found) == {"write": "COMPLETED", "judge": "COMPLETED"}
    assert agents.given["judge"] == ["version 4"]
    assert agents.turns[2].inputs["previous_output"] == {"text.md/text.md": b"version 2"}


@pytest.mark.shows("V07")
@pytest.mark.parametrize("by_answer", [True, False], ids=["an answer", "a command"])
def test_a_person_may_accept_it_as_it_is_and_nobody_judges_that_again(tmp_path: Path, *, by_answer: bool) -> None:
    agents = Agents()
    judged: list[str] = []

    def judge(text: str) -> dict[str, Any]:
        judged.append(text)
        return bad("the same")

    async def use(engine: Engine) -> Any:
        await engine.submit(stuck(task("use", "u", needs=["write"], inputs=TAKES)))
        await engine.ended()
        if by_answer:
            await _answered(engine, "accept")
        else:
            await engine.dispatcher.operator.rework("p", "write", WorkAcceptance(), by="ada")
        found = await engine.until(lambda now: now.state == "ENDED")
        assert set(states(found).values()) == {"COMPLETED"}
        assert await questions.list_open(engine.deps) == []
        with pytest.raises(UsageError, match="COMPLETED"):
            await engine.dispatcher.operator.rework("p", "write", WorkAcceptance(), by="ada")
        return await explain_json(engine.deps, "p", "write")

    told = play(tmp_path, use, proving=True, w=agents.writer(), j=agents.reader(judge), u=agents.reader())
    assert judged == ["version 1", "version 2"]
    assert agents.given["judge"] == ["version 2"]
    assert agents.given["use"][-1] == "version 2"
    assert told["verdict"]["accepted_by"] == "ada"
    assert told["history"][-1]["what"] == "accepted"
    assert told["history"][-1]["shown"] == told["history"][-2]["shown"]


@pytest.mark.parametrize("by_answer", [True, False], ids=["an answer", "a command"])
def test_a_person_may_abort(tmp_path: Path, *, by_answer: bool) -> None:
    agents = Agents()

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(stuck())
        await engine.ended()
        if by_answer:
            await _answered(engine, decision="ABORT")
            await engine.until(lambda now: now.tasks[1]["request_id"] is None)
        else:
            await engine.dispatcher.operator.rework("p", "write", TaskAbandonment(), by="ada")
        return await engine.ended()

    found = play(tmp_path, use, proving=True, w=agents.writer(), j=agents.reader(lambda _: bad()))
    assert states(found)["write"] == "FAILED"
    assert "ada aborted" in found.tasks[1]["reason"]


def test_an_answer_that_means_nothing_is_asked_again(tmp_path: Path) -> None:
    agents = Agents()

    async def use(engine: Engine) -> str:
        await engine.submit(stuck())
        await engine.ended()
        first = (await _limit(engine)).request_id
        await _answered(engine, "grant many")
        await engine.until(lambda now: now.tasks[1]["request_id"] not in {None, first})
        request = await _limit(engine)
        return str(request.document.needed.decision.question)

    said = play(tmp_path, use, proving=True, w=agents.writer(), j=agents.reader(lambda _: bad()))
    assert "not one of those offered" in said


def test_whoever_was_done_with_what_is_lost_in_the_end_is_not_done_any_more(tmp_path: Path) -> None:
    agents = Agents()
    done = asyncio.Event()
    others = [
        task("use", "u", needs=["write"], inputs=TAKES, outputs=[{"name": "used.md"}], on_dependency_failed="SKIP"),
        task("after", "u", needs=["use"], inputs=[{"name": "text", "from": "used.md"}], on_dependency_failed="SKIP"),
    ]

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(judging(*others, max_reexecute_times=0))
        await engine.until(lambda now: states(now)["after"] == "COMPLETED")
        done.set()
        return await engine.ended()

    async def judge(_: Turn) -> Any:
        await done.wait()
        return bad()

    found = play(tmp_path, use, proving=True, w=agents.writer(), j=judge, u=agents.reader())
    assert states(found) == {
        "write": "FAILED",
        "judge": "BLOCKED_WAITING_REVIEW",
        "use": "SKIPPED",
        "after": "SKIPPED",
    }


# Against the verifier.


def promised(*checks: dict[str, Any]) -> dict[str, Any]:
    criteria = [{"id": each["id"], "description": each["id"], "evidenceRequired": [each["id"]]} for each in checks]
    return {"objective": "It works", "acceptance": criteria, "checks": list(checks)}


FOUND = {"id": "priced", "kind": "file", "path": "text.md", "contains": "price"}


@pytest.mark.parametrize("decided", [RoundGrant(1), WorkAcceptance()], ids=["granted", "accepted"])
def test_who_has_no_round_left_against_the_verifier_depends_on_a_person(tmp_path: Path, decided: Any) -> None:
    agents = Agents()

    async def use(engine: Engine) -> Any:
        write = task("write", "w", outputs=OUT, promise=promised(FOUND), max_reexecute_times=0)
        await engine.submit(plan(write, task("use", "u", needs=["write"], inputs=TAKES)))
        found = await engine.ended()
        assert states(found)["write"] == "FAILED"
        await engine.dispatcher.operator.rework("p", "write", decided, by="ada")
        found = await engine.until(lambda now: now.state == "ENDED")
        assert set(states(found).values()) == {"COMPLETED"}
        return await explain_json(engine.deps, "p", "write")

    writer = agents.writer(lambda number: "a price" if number == 2 else "nothing")
    told = play(tmp_path, use, proving=True, w=writer, u=agents.reader())
    assert told["verdict"]["fulfilled"]
    if isinstance(decided, WorkAcceptance):
        assert agents.given["use"] == ["nothing"]
        assert (told["verdict"]["accepted_by"], told["verdict"]["confirmed"]) == ("ada", ["priced"])
    else:
        assert agents.given["use"] == ["a price"]
        assert agents.turns[1].inputs["previous_output"] == {"text.md/text.md": b"nothing"}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo", {"notes.md": "begin\n"})


def program(root: Path, name: str, text: str) -> dict[str, Any]:
    path = root / f"{name}.py"
    path.write_text(
        f"import os, pathlib, time\nattempt = int(os.environ['AGENTTALK_COMMAND_ID'][-3:])\n{text}\nprint('done')\n"
    )
    return {"driver": "script", "argv": [sys.executable, str(path)]}


@pytest.mark.shows("V07")
def test_what_is_accepted_as_it_is_in_a_repository_is_merged(repo: Path) -> None:
    check = {"id": "fails", "kind": "run", "run": "false"}
    dev = program(repo.parent, "dev", "pathlib.Path('new.md').write_text('as it is')")

    async def use(engine: Engine) -> Any:
        fix = task("fix", "dev", workspace="repo", promise=promised(check), max_reexecute_times=0)
        await engine.submit(plan(fix, agents={"dev": dev}, workspace={"repo": str(repo)}))
        assert states(await engine.ended()) == {"fix": "FAILED"}
        assert git(repo, "rev-parse", "agenttalk/p") == git(repo, "rev-parse", "main")
        await _answered(engine, "accept")
        found = await engine.until(lambda now: states(now)["fix"] == "COMPLETED" and now.state == "ENDED")
        assert found.result == "done"
        return await explain_json(engine.deps, "p", "fix")

    told = play(repo.parent / "root", use, proving=True)
    assert git(repo, "show", "agenttalk/p:new.md") == "as it is"
    assert told["verdict"]["confirmed"] == ["fails"]
    assert told["history"][-1]["commit"] == git(repo, "rev-parse", "agenttalk/p")


def test_a_tree_that_cannot_be_taken_cannot_be_accepted(repo: Path) -> None:
    dev = program(repo.parent, "dev", "os.symlink('/etc/passwd', 'link')")

    async def use(engine: Engine) -> None:
        check = {"id": "fails", "kind": "run", "run": "false"}
        fix = task("fix", "dev", workspace="repo", promise=promised(check), max_reexecute_times=0)
        await engine.submit(plan(fix, agents={"dev": dev}, workspace={"repo": str(repo)}))
        await engine.ended()
        with pytest.raises(UsageError, match="cannot be accepted"):
            await engine.dispatcher.operator.rework("p", "fix", WorkAcceptance(), by="ada")
        assert states(await engine.ended()) == {"fix": "FAILED"}

    play(repo.parent / "root", use, proving=True)
    assert git(repo, "rev-parse", "agenttalk/p") == git(repo, "rev-parse", "main")


def test_an_attempt_that_does_not_merge_comes_along_as_a_patch(repo: Path) -> None:
    """The first attempt fails its check; meanwhile somebody else changes the same line."""
    told = repo.parent / "told"
    slow = program(
        repo.parent,
        "slow",
        f"""
path = pathlib.Path('notes.md')
if attempt == 1:
    path.write_text('mine\\n')
    while not pathlib.Path(r'{repo.parent}', 'merged').exists():
        time.sleep(0.01)
else:
    patch = pathlib.Path(os.environ['AGENTTALK_INPUTS'], 'previous_output', 'attempt.patch')
    pathlib.Path(r'{told}').write_text(patch.read_text() if patch.exists() else 'none')
    pathlib.Path('ok').write_text('x')
""",
    )
    quick = program(repo.parent, "quick", "pathlib.Path('notes.md').write_text('theirs\\n')")

    async def use(engine: Engine) -> PlanStanding:
        tasks = [
            task("slow", "slow", workspace="repo", promise=promised({"id": "ok", "kind": "file", "path": "ok"})),
            task("quick", "quick", workspace="repo", promise=promised({"id": "n", "kind": "file", "path": "notes.md"})),
        ]
        await engine.submit(plan(*tasks, agents={"slow": slow, "quick": quick}, workspace={"repo": str(repo)}))
        await engine.until(lambda now: states(now)["quick"] == "COMPLETED")
        (repo.parent / "merged").touch()
        return await engine.ended()

    found = play(repo.parent / "root", use, proving=True)
    assert set(states(found).values()) == {"COMPLETED"}
    assert "+mine" in told.read_text()


# Whoever works in folders.


def in_folders(tree: Tree, **keys: Any) -> Any:
    for name in ("reader", "other"):
        tree.agent(name)
    outputs = [{"name": "text.md", "deliver_to": ["reader"]}]
    return plan(
        task("write", "w", outputs=outputs, **keys),
        task("read", "reader", needs=["write"], inputs=TAKES),
        task("else", "other"),
        agents={"reader": {"driver": "folder"}, "other": {"driver": "folder"}},
    )


async def _handed_over(engine: Engine) -> PlanStanding:
    """Have the output, and then the command, reach the inbox."""
    await engine.until(lambda now: states(now)["write"] == "COMPLETED")
    await engine.route()
    found = await engine.until(lambda now: states(now)["read"] == "READY")
    await engine.route()
    return found


def refusal(**changes: Any) -> dict[str, Any]:
    """In the shape that agents write."""
    result = {"validator": "reader", "score": 30, "reason": "no price", "issues": ["name one"]}
    document = {
        "schema_version": "1.0",
        "command_id": "cmd_reexecute_001",
        "plan_id": "p",
        "idempotency_key": "p:write:reexecute",
        "original_task_id": "write",
        "original_agent": "w",
        "validation_result": result | changes.pop("result", {}),
        "prompt": "Please add the price.",
        "required_inputs": ["previous_output.json", "validation_feedback.json"],
        "wait_for_inputs": True,
        "score_required": False,
        "timeout": 3600,
    }
    return document | changes


def result(**changes: Any) -> dict[str, Any]:
    """The same as a validator's result."""
    subject = {
        "producer_agent_id": "w",
        "task_id": "write",
        "artifact_name": "text.md",
        "artifact_sha256": sha256(b"version 1"),
    }
    return {
        "schema_version": "1.0",
        "validation_id": "v1",
        "validator_agent_id": "reader",
        "validated_at": "2026-01-08T10:30:00Z",
        "subject": subject | changes.pop("subject", {}),
        "score": 30,
        "decision": "REJECT",
        "issues": ["no price"],
    } | changes


def wrapped(document: dict[str, Any], dag_sha256: str) -> dict[str, Any]:
    """The same as a command in an envelope, with what was refused at its top."""
    command_id = "cmd_write_002"
    command = document | {
        "task_id": "write",
        "command_id": command_id,
        "command_seq": 2,
        "dag_ref": {"sha256": dag_sha256},
        "required_inputs": [],
        "wait_for_inputs": False,
    }
    return {
        "schema_version": "1.0",
        "message_id": "msg_again",
        "plan_id": "p",
        "producer_agent_id": "reader",
        "type": "command",
        "created_at": "2026-01-08T10:30:00Z",
        "task_id": "write",
        "command_id": command_id,
        "payload": {"command": command},
    }


@pytest.mark.shows("V04")
@pytest.mark.mends("B4")
@pytest.mark.parametrize("how", ["a command", "an envelope", "a result"])
def test_who_works_in_a_folder_refuses_by_a_file_in_its_outbox(tmp_path: Path, how: str) -> None:
    agents = Agents()
    tree = Tree(tmp_path, plan_id="p")

    async def use(engine: Engine) -> None:
        await engine.submit(in_folders(tree))
        await _handed_over(engine)
        [first] = tree.box("reader", "inbox").glob("artifact_*")
        match how:
            case "a command":
                tree.put("reader", "cmd_reexecute_write.json", refusal())
            case "an envelope":
                sha = json.loads((tmp_path / "system_runtime/plans/p/active_dag_ref.json").read_bytes())
                tree.put("reader", "cmd_reexecute_write_002.msg.json", wrapped(refusal(), sha["task_dag_sha256"]))
            case "a result":
                tree.put("reader", "artifact_validation_result_v1.json", result())
        await engine.route()
        found = await engine.until(
            lambda now: (
                [(each["rounds"], each["state"]) for each in now.tasks if each["task_id"] == "write"]
                == [(1, "COMPLETED")]
            )
        )
        assert agents.turns[1].command.reexecute is not None
        assert agents.turns[1].command.reexecute.validation_result.validator == "reader"
        asked = "The validator's instructions: Please add the price." in agents.turns[1].prompt
        assert asked is (how != "a result")
        assert agents.turns[1].inputs["previous_output"] == {"text.md/text.md": b"version 1"}
        await _handed_over(engine)
        [second] = tree.box("reader", "inbox").glob("artifact_*")
        assert first != second  # what was refused is taken back
        assert json.loads(second.read_bytes())["reexecution"]["count"] == 1
        [command] = tree.box("reader", "inbox").glob("cmd_*.msg.json")
        assert json.loads(command.read_bytes())["command_id"] == "cmd_read_002"
        assert await fsck.check_root(engine.deps) == []
        assert found.counts["failed"] == 0

    play(tmp_path, use, w=agents.writer())


HOSTILE: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "who receives nothing": (
        "other",
        "cmd_reexecute_write.json",
        refusal(result={"validator": "other"}),
        "COMMAND_NOT_AUTHORISED",
    ),
    "in another's name": ("other", "cmd_reexecute_write.json", refusal(), "PRODUCER_MISMATCH"),
    "of another's work": ("reader", "cmd_reexecute_write.json", refusal(original_agent="other"), "PRODUCER_MISMATCH"),
    "what it does not get": (
        "reader",
        "cmd_reexecute_else.json",
        refusal(original_task_id="else", original_agent="other"),
        "COMMAND_NOT_AUTHORISED",
    ),
    "its own work": (
        "reader",
        "cmd_reexecute_read.json",
        refusal(original_task_id="read", original_agent="reader"),
        "COMMAND_NOT_AUTHORISED",
    ),
    "no such task": ("reader", "cmd_reexecute_x.json", refusal(original_task_id="x"), "TASK_NOT_IN_DAG"),
    "another plan": ("reader", "cmd_reexecute_write.json", refusal(plan_id="q"), "PLAN_MISMATCH"),
    "no reason": ("reader", "cmd_reexecute_write.json", refusal(result={"reason": ""}), "SCHEMA_INVALID"),
    "another version": (
        "reader",
        "artifact_validation_result_v1.json",
        result(subject={"artifact_sha256": sha256(b"version 0")}),
        "COMMAND_NOT_AUTHORISED",
    ),
    "who is asked anyway": (
        "w",
        "cmd_reexecute_write.json",
        refusal(result={"validator": "w"}),
        "COMMAND_NOT_AUTHORISED",
    ),
}


@pytest.mark.shows("V01", "V04")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_refusal_counts_only_of_who_received_it_and_in_its_own_name(tmp_path: Path, name: str) -> None:
    agents = Agents()
    tree = Tree(tmp_path, plan_id="p")
    sender, file, document, code = HOSTILE[name]
    tree.agent("w")

    async def use(engine: Engine) -> None:
        await engine.submit(in_folders(tree))
        await _handed_over(engine)
        tree.put(sender, file, document)
        await engine.route()
        found = await engine.ended()
        assert [each["rounds"] for each in found.tasks] == [0, 0, 0]
        assert [each["code"] for each in await dead_letters.list_dead_letters(engine.deps)] == [code]

    play(tmp_path, use, w=agents.writer())
    assert agents.ran == {"write": 1}


def test_what_is_being_made_again_cannot_be_refused_meanwhile(tmp_path: Path) -> None:
    agents = Agents()
    tree = Tree(tmp_path, plan_id="p")
    go = asyncio.Event()

    async def write(turn: Turn) -> str:
        if agents.ran["write"]:
            await go.wait()
        return str(await agents.writer()(turn))

    async def use(engine: Engine) -> None:
        await engine.submit(in_folders(tree))
        await _handed_over(engine)
        for _ in range(2):
            tree.put("reader", "cmd_reexecute_write.json", refusal())
            await engine.route()
            await engine.until(lambda now: states(now)["write"] == "RUNNING")
        go.set()
        found = await _handed_over(engine)
        assert {each["task_id"]: each["rounds"] for each in found.tasks}["write"] == 1

    play(tmp_path, use, w=write)
    assert agents.ran == {"write": 2}


@pytest.mark.shows("V02")
@pytest.mark.parametrize("decision", ["APPROVE", "REJECT"])
def test_a_person_who_is_to_use_something_is_asked_first(tmp_path: Path, decision: str) -> None:
    agents = Agents()

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(
            plan(
                task("write", "w", outputs=OUT, max_reexecute_times=0),
                task("read", "person", needs=["write"], inputs=TAKES, validate=JUDGED),
                agents={"person": {"driver": "human"}},
            )
        )
        await engine.asked()
        [request] = await questions.list_open(engine.deps)
        assert "good enough" in request.document.title
        await engine.answer(decision)
        if decision == "REJECT":
            return await engine.until(lambda now: states(now)["write"] == "FAILED")
        async with asyncio.timeout(300):
            while await questions.list_open(engine.deps) == [] or "good enough" in await _title(engine):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await engine.answer(notes="read")
        return await engine.ended()

    found = play(tmp_path, use, proving=True, w=agents.writer())
    assert states(found)["write"] == ("COMPLETED" if decision == "APPROVE" else "FAILED")


async def _title(engine: Engine) -> str:
    return str((await questions.list_open(engine.deps))[0].document.title)


@pytest.mark.shows("V01")
def test_who_made_a_version_does_not_judge_it_even_if_the_task_is_another_s_by_now(tmp_path: Path) -> None:
    """The writer's fallback is done by the agent that is to use it."""
    judged: list[str] = []

    async def busy(turn: Turn) -> str:
        if turn.judges is not None:
            judged.append(turn.task_id)
        for each in turn.command.produces or ():
            turn.outputs[each.output_name] = "text"
        return "ok"

    async def fails(_: Turn) -> str:
        raise RuntimeError("no")

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(
            plan(
                task("write", "w", outputs=OUT),
                task("spare", "j", outputs=OUT),
                task(
                    "read", "j", needs=["write"], inputs=TAKES, validate=JUDGED, on_dependency_failed="FALLBACK",
                    fallback="spare",
                ),
            )
        )  # fmt: skip
        await engine.asked()
        [request] = await questions.list_open(engine.deps)
        assert "good enough" in request.document.title
        await engine.answer("APPROVE")
        return await engine.until(lambda now: now.state == "ENDED")

    found = play(tmp_path, use, proving=True, w=fails, j=busy)
    assert states(found)["read"] == "COMPLETED"
    assert judged == []
