"""Plans that the engine runs: submitted, carried out by functions and programs, steered, and helped by people."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.drivers.python_calls import Agent, PythonPerformer, Result, Turn
from agenttalk.adapters.store.root import list_databases
from agenttalk.engine.core.boards import list_boards
from agenttalk.engine.messages import published_files
from agenttalk.engine.people import questions
from agenttalk.engine.plans import submission
from agenttalk.engine.runs.dispatcher import Dispatcher
from agenttalk.ports.statements.messages import PLANS
from agenttalk.rules.planfile.compiler import CompiledPlan
from crash.life import Life, Scenario, Step, by_hand, route
from crash.snapshot import LOG, opened
from kits.plankit import plan, states, task
from kits.standingkit import PlanStanding, read_standing
from kits.treekit import Tree

P = "p"
FIXED = "system_runtime/fixed"
"""Once this file lies there, what was broken works."""


def submit(*plans: CompiledPlan) -> Step:
    """Hand plans over. Whoever died meanwhile hands them over again."""

    async def do(life: Life) -> None:
        for each in plans:
            await submission.submit(life.deps, each.dag, each.manifest, each.profiles)
            life.say(f"plan.submitted {each.dag.plan_id}")

    return Step(do)


def until(condition: Callable[[PlanStanding], bool], plan_id: str = P) -> Step:
    """Have a plan run until it has come so far."""

    async def do(life: Life) -> None:
        await (await life.engine()).until(plan_id, condition)

    return Step(do)


def ended(found: PlanStanding) -> bool:
    return found.state == "ENDED"


async def show(life: Life) -> None:
    """Write what is shown of plans, as an engine does from time to time."""
    for board in await list_boards(life.deps):
        for plan_id, *_ in await board.read(PLANS):
            await published_files.publish_status(life.deps, board, plan_id)
        await published_files.publish(life.deps, board)


def note(life: Life, turn: Turn) -> None:
    """Note that an agent was called, as programs note it."""
    with (life.tree.root / LOG).open("a", encoding="utf-8") as log:
        log.write(f"{turn.plan_id}/{turn.command.command_id} {turn.attempt}\n")


def kept(root: Path, said: list[str]) -> list[str]:
    """Whatever was said, as a kind of fact and its subject, must be in the ledger."""
    facts: set[str] = set()
    for path in list_databases(root).values():
        connection = opened(path)
        try:
            facts |= {f"{row[0]} {row[1]}" for row in connection.execute("SELECT kind, subject FROM ledger")}
        finally:
            connection.close()
    return [f"{each} was said and is lost" for each in said if each not in facts]


def everybody(does: Callable[[Life, Turn], Awaitable[Any]]) -> Callable[[Life], Mapping[str, Agent]]:
    """All agents are one function, which tells tasks apart."""

    def functions(life: Life) -> Mapping[str, Agent]:
        async def agent(turn: Turn) -> Any:
            note(life, turn)
            return await does(life, turn)

        return dict.fromkeys(("a", "b"), agent)

    return functions


def make(turn: Turn, text: str = "") -> str:
    """Hand over every output that is asked for, made of what was given."""
    given = b" ".join(data for _, files in sorted(turn.inputs.items()) for _, data in sorted(files.items())).decode()
    for each in turn.command.produces or ():
        turn.outputs[each.output_name] = f"{turn.task_id}: {text or given}"
    return "ok"


async def _fine(_: Life, turn: Turn) -> str:
    return make(turn)


def takes(name: str, output: str) -> dict[str, str]:
    return {"name": name, "from": output}


SMALL = plan(
    task("one", outputs=[{"name": "one.md"}]),
    task("two", "b", needs=["one"], inputs=[takes("one", "one.md")]),
    task("three", needs=["two"], gates={"required": True, "branches": [{"when": "score < 50", "activate": ["four"]}]},
         score_required=True, score_criteria="0-100"),
    task("four", needs=["three"]),
    agents={"b": {"driver": "folder"}},
)  # fmt: skip
SUBMITTED = Scenario("submitted", lambda tree: tree.agent("b"), (submit(SMALL), Step(show)), witness=kept)
"""A plan is submitted; it takes more than one transaction."""


def _course() -> CompiledPlan:
    branches = [{"when": "score < 50", "activate": ["again"]}, {"when": "score >= 50", "activate": ["praise"]}]
    failed = {"on_dependency_failed": "SKIP"}
    return plan(
        task("start", outputs=[{"name": "start.md"}]),
        task("left", needs=["start"], inputs=[takes("start", "start.md")], outputs=[{"name": "left.md"}]),
        task("right", "b", needs=["start"], inputs=[takes("start", "start.md")], outputs=[{"name": "right.md"}],
             retry_times=1),
        task("side", "b", needs=["start"]),
        task("join", "b", inputs=[takes("left", "left.md"), takes("right", "right.md")],
             outputs=[{"name": "join.md", "deliverable": True}]),
        task("judge", needs=["join"], score_required=True, score_criteria="0-100",
             gates={"required": True, "thresholds": {"judge_min_score": 70}, "branches": branches}),
        task("again", needs=["judge"]),
        task("praise", needs=["judge"]),
        task("bad", "b", outputs=[{"name": "text.md"}]),
        task("spare", outputs=[{"name": "text.md"}]),
        task("use", needs=["bad"], inputs=[takes("text", "text.md")], on_dependency_failed="FALLBACK", fallback="spare"),
        task("worse", "b"),
        task("lost", needs=["worse"], **failed),
    )  # fmt: skip


async def _work(life: Life, turn: Turn) -> Any:
    """Whether something goes wrong depends on nothing but what the store knows of the task."""
    match turn.task_id:
        case "bad" | "worse":
            raise ValueError(f"no {turn.task_id}")
        case "judge":
            return Result("seen", score=40)
        case "join" if turn.command.reexecute is None:
            return "I am done, all tests pass"
        case "right":
            found = await read_standing(life.deps, turn.plan_id)
            if [each["retries"] for each in found.tasks if each["task_id"] == "right"] == [0]:
                raise OSError("try again")
    return make(turn)


COURSE = Scenario(
    "course",
    lambda _: None,
    (until(ended), Step(show)),
    before=(submit(_course()),),
    functions=everybody(_work),
    witness=kept,
)
"""A chain, a fan-out and its end, a retry, a round of rework, a branch by score, a fallback, and what is skipped."""


def _proven() -> CompiledPlan:
    promise = {
        "objective": "It has a name",
        "acceptance": [{"id": "named", "description": "There is a name", "evidenceRequired": ["has-name"]}],
        "checks": [{"id": "has-name", "kind": "file", "path": "text.json", "contains": "name"}],
    }
    return plan(
        task("write", outputs=[{"name": "text.json"}], promise=promise),
        task("use", "b", inputs=[takes("text", "text.json")], validate={"text": {"format": "json"}}),
        task("after", needs=["use"]),
    )


async def _write(_: Life, turn: Turn) -> str:
    """Nothing, then something that the check takes and the next one does not, then what both take."""
    if turn.task_id != "write":
        return make(turn)
    turn.outputs["text.json"] = ["nothing", "no JSON, but a name", '{"name": 1}'][min(turn.command.command_seq, 3) - 1]
    return "all done"


PROVEN = Scenario(
    "proven",
    lambda _: None,
    (until(ended), Step(show)),
    before=(submit(_proven()),),
    functions=everybody(_write),
    witness=kept,
)
"""Work that a check refuses, and work that the next one refuses, until both take it."""


def _reworked() -> CompiledPlan:
    text, judged = [takes("text", "text.json")], {"text": {"format": "json"}}
    return plan(
        task("write", outputs=[{"name": "text.json", "deliverable": True}]),
        task("early", "b", inputs=text, outputs=[{"name": "early.md"}], priority="HIGH"),
        task("after", "b", inputs=[takes("early", "early.md")], priority="HIGH"),
        task("judge", "b", needs=["after"], inputs=text, validate=judged),
        task("late", "b", needs=["after"], inputs=text, priority="LOW"),
    )


async def _rework(_: Life, turn: Turn) -> Any:
    """The first version is refused when some are done with it, and another is about to begin."""
    if turn.task_id == "write":
        turn.outputs["text.json"] = '{"version": 2}' if turn.command.reexecute else "no JSON"
        return "written"
    return make(turn)


REWORKED = Scenario(
    "reworked",
    lambda _: None,
    (until(ended), Step(show)),
    before=(submit(_reworked()),),
    functions=everybody(_rework),
    witness=kept,
)
"""Work that is refused: who was about to begin with it waits, who was done with it runs again, and so do others."""

PROGRAM = f"""
echo "$AGENTTALK_PLAN_ID/$AGENTTALK_COMMAND_ID $AGENTTALK_ATTEMPT" >> "${{0%/*}}/../../{LOG}"
sleep 1000 & setsid sleep 1000 & env -i sleep 1000 &
[ "$AGENTTALK_TASK_ID" = endless ] && wait
cat /dev/null "$AGENTTALK_INPUTS"/*/* 2>/dev/null > "$AGENTTALK_OUTPUTS/$AGENTTALK_TASK_ID.txt"
echo '{{"result": "fine"}}' > "$AGENTTALK_RESULT"
"""
"""Notes that it began, leaves processes behind that nobody waits for, and hands over what it was given."""
SCRIPT = {"driver": "script", "argv": ["/bin/sh", "work.sh"]}


def _scripts(tree: Tree) -> None:
    (tree.agent("dev") / "work.sh").write_text(PROGRAM, encoding="utf-8")


PROGRAMS = Scenario(
    "programs",
    _scripts,
    (until(ended), Step(show)),
    before=(
        submit(
            plan(
                task("make", "dev", outputs=[{"name": "make.txt"}]),
                task("use", "dev", inputs=[takes("made", "make.txt")],
                     outputs=[{"name": "use.txt", "deliverable": True}]),
                agents={"dev": SCRIPT},
            )
        ),
    ),
    witness=kept,
)  # fmt: skip
"""Programs that leave processes behind, one after the other."""


async def _pause(life: Life) -> None:
    await (await life.engine()).dispatcher.operator.pause(P, by="ann")
    life.say(f"plan.paused {P}")


async def _resume(life: Life) -> None:
    await (await life.engine()).dispatcher.operator.resume(P, by="ann")
    life.say(f"plan.resumed {P}")


async def _retry(life: Life) -> None:
    """Somebody who died with the process looks whether it is being tried again."""
    engine = await life.engine()
    if states(await read_standing(life.deps, P))["one"] == "FAILED":
        await engine.dispatcher.operator.retry(P, "one", by="ann")
    life.say(f"task.retried {P}/one")


async def _begin(life: Life) -> None:
    """Have a program begin that does not end."""
    engine = await life.engine()
    log = life.tree.root / LOG
    before = log.read_text(encoding="utf-8").count("q/")
    await engine.look()
    async with asyncio.timeout(20):
        while log.read_text(encoding="utf-8").count("q/") == before:  # noqa: ASYNC110 - a program tells in no other way
            await asyncio.sleep(0.005)


async def _cancel(life: Life) -> None:
    """Whoever died meanwhile calls it off once more, which does no harm."""
    await (await life.engine()).dispatcher.operator.cancel("q", by="ann", why="too late")
    life.say("plan.cancelled q")


async def _fixable(life: Life, turn: Turn) -> str:
    if not (life.tree.root / FIXED).exists():
        raise ValueError("broken")
    return make(turn)


STEERED = Scenario(
    "steered",
    _scripts,
    (
        Step(_pause),
        until(lambda found: found.result == "paused"),
        Step(_resume),
        until(ended),
        by_hand(lambda tree: (tree.root / FIXED).touch()),
        Step(_retry),
        until(ended),
        submit(plan(task("endless", "dev"), task("after", "dev", needs=["endless"]), plan_id="q",
                    agents={"dev": SCRIPT})),
        Step(_begin),
        Step(_cancel),
        Step(show),
    ),
    before=(submit(plan(task("one"), task("two", needs=["one"], on_dependency_failed="SKIP"))),),
    functions=everybody(_fixable),
    fewer=1,
    witness=kept,
)  # fmt: skip
"""A plan is paused before it begins, goes on and fails, and is tried again; another is called off while it runs."""


async def _answer(life: Life) -> None:
    """Somebody who died with the process answers what is still asked."""
    for request in await questions.list_open(life.deps):
        files = {each.name: b"100" for each in request.document.needed.files}
        await questions.answer(life.deps, request.request_id, by="ann", decision="PROVIDE", files=files, notes="blue")
        life.say(f"human.answered {request.request_id}")


async def _asked(life: Life) -> None:
    """A person is asked to do a task."""
    engine = await life.engine()
    await engine.look()
    async with asyncio.timeout(20):
        while not await questions.list_open(life.deps):  # noqa: ASYNC110 - a person would look again too
            await asyncio.sleep(0.005)


def _draft(tree: Tree) -> None:
    tree.artifact("writer", "draft", "draft.md", {"draft.md": b"Once."}, message_id="msg_draft", plan_id=P)


ASKED = Scenario(
    "asked",
    lambda tree: tree.agent("writer"),
    (
        until(lambda found: states(found)["count"] == "BLOCKED_WAITING_INPUT"),
        Step(_answer),
        until(lambda found: states(found)["choose"] == "RUNNING"),
        Step(_asked),
        Step(_answer),
        until(lambda found: states(found)["draft"] == "READY"),
        route(),
        by_hand(_draft),
        route(),
        until(ended),
        Step(show),
    ),
    before=(
        submit(
            plan(
                task("count", inputs=[{"name": "budget.csv", "file": "budget.csv", "external": True}]),
                task("choose", "agent_human_gateway", needs=["count"]),
                task("draft", "writer", needs=["choose"], outputs=[{"name": "draft.md", "deliver_to": ["b"]}]),
                task("read", "b", inputs=[takes("draft", "draft.md")]),
                agents={"writer": {"driver": "folder"}, "agent_human_gateway": {"driver": "human"}},
            )
        ),
    ),
    functions=everybody(_fine),
    witness=kept,
)
"""A file that only a person has, a task of a person, and one that somebody works on by hand."""


async def _overtake(life: Life) -> None:
    """A turn stalls, its task is given to somebody else, and then it ends as if nothing had happened."""
    given, late = asyncio.Event(), asyncio.Event()

    async def stall(turn: Turn) -> str:
        note(life, turn)
        await second._recovery.recover()
        await second.dispatch_ready()
        await given.wait()
        return make(turn, "stale")

    async def fresh(turn: Turn) -> str:
        note(life, turn)
        given.set()
        await late.wait()
        return make(turn, "fresh")

    def dispatcher(agent: Agent) -> Dispatcher:
        return Dispatcher(
            life.deps, {"python": PythonPerformer({"a": agent}, life.deps.stores.blobs)}, LocalProcesses()
        )

    first, second = dispatcher(stall), dispatcher(fresh)
    await first._recovery.recover()
    await first.dispatch_ready()
    with second.subscribe_changes() as news:
        async with asyncio.timeout(20):
            await asyncio.gather(*first._state.turns.values())
            late.set()
            while not ended(await read_standing(life.deps, P)):
                await news.wait()
                news.clear()
    for each in (first, second):
        await each.close()


OVERTAKEN = Scenario(
    "overtaken",
    lambda _: None,
    (Step(_overtake), Step(show)),
    before=(submit(plan(task("one", outputs=[{"name": "one.md", "deliverable": True}]))),),
    again=1,
    witness=kept,
)
"""A turn goes on although its task was given to somebody else; whoever comes after a death is overtaken once more."""


def _limited(plan_id: str) -> CompiledPlan:
    promise = {
        "objective": "It is done",
        "acceptance": [{"id": "said", "description": "It says something", "evidenceRequired": ["result"]}],
        "budget": {"tokens": 150},
    }
    if plan_id == "q":
        return plan(task("greedy", "b", promise=promise), plan_id=plan_id)
    return plan(
        task("one", promise=promise),
        task("two", needs=["one"]),
        limits={"tool_calls": 3},
    )


async def _spend(_: Life, turn: Turn) -> str:
    if turn.task_id == "greedy":
        turn.report(tokens=200)
        await asyncio.Event().wait()
    turn.report(tokens=100, tool_calls=3)
    return "ok"


async def _override(life: Life) -> None:
    """Somebody who died with the process overrides what is still held up."""
    engine = await life.engine()
    [two] = [each for each in (await read_standing(life.deps, P)).tasks if each["task_id"] == "two"]
    if two["cause"] == "SOFT_DENIED":
        await engine.dispatcher.operator.override(P, "two", checkpoint="pre-act", by="ann", why="it is worth it")
    life.say(f"gate.overridden {P}/two")


LIMITED = Scenario(
    "limited",
    lambda _: None,
    (
        until(ended, "q"),
        until(lambda found: states(found) == {"one": "COMPLETED", "two": "BLOCKED_WAITING_REVIEW"}),
        Step(_override),
        until(ended),
        Step(show),
    ),
    before=(submit(_limited(P), _limited("q")),),
    functions=everybody(_spend),
    witness=kept,
)
"""One that uses too much is stopped, one is held up because the plan has used all, and somebody overrides that."""
SCENARIOS = (SUBMITTED, COURSE, PROVEN, REWORKED, PROGRAMS, STEERED, ASKED, OVERTAKEN, LIMITED)
