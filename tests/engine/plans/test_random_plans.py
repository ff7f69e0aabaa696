"""Random plans with random agents, and engines that end in the middle: a simple interpreter says how they end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import effort
from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.drivers.python_calls import PythonPerformer, Result, Turn
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.operation import fsck
from agenttalk.engine.plans import transitions
from agenttalk.engine.plans.definition import PlanDefinition
from agenttalk.engine.plans.transaction import PlanTransaction
from agenttalk.engine.runs.dispatcher import Dispatcher
from agenttalk.ports.agents import Job
from agenttalk.rules.planfile.compiler import CompiledPlan
from agenttalk.rules.proof.performance import Performance
from agenttalk.wiring import open_root
from kits.againkit import retry
from kits.plankit import Engine, plan, states, task
from kits.standingkit import PlanStanding, explain_json
from project.referencekit import ENGINE_ENDS, Reference, Try

TESTS: Final = Path(__file__).parents[2]
SCORES: Final = (0, 49, 50, 70, 100)
CONDITIONS: Final = ("score < 50", "score >= 50", "score >= 70", "score == 100", "score != 49")
Task = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A plan, and what its agents do."""

    tasks: tuple[Task, ...]
    scripts: Mapping[str, tuple[Try, ...]]
    ends: tuple[tuple[int, bool], ...] = ()
    """After how many turns each engine ends, and whether the turn at hand is still finished."""

    def compiled(self) -> CompiledPlan:
        return plan(*self.tasks, policies={"max_reexecute_times": 1})

    def reference(self) -> Reference:
        return Reference(self.compiled().dag, self.scripts, rounds=1)

    def as_json(self) -> dict[str, Any]:
        scripts = {name: [asdict(each) for each in script] for name, script in self.scripts.items()}
        return {"tasks": list(self.tasks), "scripts": scripts}

    @classmethod
    def from_json(cls, said: Any) -> Case:
        scripts = {
            name: tuple(Try(**{**each, "made": tuple(each["made"])}) for each in script)
            for name, script in said["scripts"].items()
        }
        return cls(tuple(said["tasks"]), scripts)


# Plans. What hangs on the order in which agents happen to finish is left out: which of two equal deliveries is the
# latest, and whether a task that nobody has called for yet is lost before nobody calls for it at all.


@dataclass
class Draft:
    """A plan on its way."""

    draw: st.DrawFn
    tasks: dict[str, Task] = field(default_factory=dict)
    above: dict[str, set[str]] = field(default_factory=dict)
    """Task → everything before it."""
    spared: set[str] = field(default_factory=set)
    """Tasks that have somebody to stand in for them."""
    spares: set[str] = field(default_factory=set)

    def chance(self, percent: int) -> bool:
        return self.draw(st.integers(0, 99)) >= 100 - percent

    def some(self, names: Collection[str], most: int) -> list[str]:
        return self.draw(st.lists(st.sampled_from(sorted(names)), max_size=most, unique=True)) if names else []

    def add(self) -> None:
        name = f"t{len(self.tasks)}"
        before = [each for each in self.tasks if each not in self.spares]
        guards = self.some([each for each in before if self.tasks[each].get("score_required")], 2)
        if not guards or not self.chance(50):
            guards = []
        for guard in guards:
            before = sorted({*guards, *(each for above in guards for each in self.above[above])})
            gates = self.tasks[guard].setdefault("gates", {"required": self.chance(50)})
            branch = {"when": self.draw(st.sampled_from(CONDITIONS)), "activate": [name]}
            gates.setdefault("branches", []).append(branch)
        needs = self.some([each for each in before if each not in self.spares], 3)
        new = self._task(name, needs)
        if needs and not guards and self.spared.isdisjoint(needs) and self.chance(40):
            self._spare(new, needs)
        self._inputs(new, needs)
        self._thresholds(new, needs)

    def _task(self, name: str, needs: list[str], outputs: list[Task] | None = None) -> Task:
        scored = self.chance(50) if outputs is None else any("when" in each for each in outputs)
        new = task(name, self.draw(st.sampled_from("abc")), needs=needs)
        for key, values in (
            ("retry_times", (0, 0, 1, 2)),
            ("max_reexecute_times", (0, 1, None)),
            ("priority", ("LOW", None, "HIGH")),
            ("on_dependency_failed", (None, "SKIP", "SKIP", "BLOCK", "REPLAN_REQUEST")),
        ):
            value = self.draw(st.sampled_from(values))
            new |= {} if value is None else {key: value}
        if scored:
            new |= {"score_required": True, "score_criteria": "0-100"}
        new["outputs"] = self._outputs(name, scored=scored) if outputs is None else outputs
        self.tasks[name] = new
        self.above[name] = {*needs, *(each for need in needs for each in self.above[need])}
        return new

    def _outputs(self, name: str, *, scored: bool) -> list[Task]:
        found = []
        for number in range(self.draw(st.integers(0, 2))):
            output: Task = {"name": f"{name}_{number}.md", "deliverable": True}
            if scored and self.chance(30):
                output["when"] = self.draw(st.sampled_from(CONDITIONS))
            elif self.chance(15):
                output["optional"] = True
            found.append(output)
        if self.chance(15):
            found.append({"name": "shared.md", "deliverable": True})
        return found

    def _spare(self, new: Task, needs: list[str]) -> None:
        """Give a task somebody to stand in for what it needs."""
        replaced = self.draw(st.sampled_from(needs))
        if len(needs) > 1 and self.tasks[replaced]["outputs"]:
            return  # it would make what another one may have made already
        name = f"s{len(self.tasks)}"
        far = self.above[replaced] - set(needs) - self.spares
        self._task(name, self.some(far, 1), [dict(each) for each in self.tasks[replaced]["outputs"]])
        new |= {"on_dependency_failed": "FALLBACK", "fallback": name}
        self.spared.update(needs)
        self.spares.add(name)

    def _inputs(self, new: Task, needs: list[str]) -> None:
        names = dict.fromkeys(each["name"] for need in needs for each in self.tasks[need]["outputs"])
        inputs: list[Task] = []
        for number, name in enumerate(self.some(names, 2)):
            said: Task = {"name": f"in{number}", "from": name, "required": self.chance(70)}
            if name == "shared.md":
                said["pick"] = "highest_score"
            inputs.append(said)
        if names and self.chance(30):
            glob = self.draw(st.sampled_from(("*.md", "t*_0.md", f"{needs[0]}_*.md")))
            inputs.append({"name": "all", "glob": glob, "required": self.chance(60)})
            made = ([each["name"] for each in self.tasks[need]["outputs"]] for need in needs)
            possible = sum(any(fnmatchcase(each, glob) for each in names) for names in made)
            if not possible:
                inputs.pop()
            elif self.chance(40):
                inputs[-1]["min_count"] = self.draw(st.integers(1, possible))
        if self.chance(4):
            inputs.append({"name": "budget.csv", "external": True})
        new["inputs"] = inputs

    def _thresholds(self, new: Task, needs: list[str]) -> None:
        known = [each for each in (new["id"], *needs) if self.tasks[each].get("score_required")]
        if known and self.chance(30):
            name = f"{self.draw(st.sampled_from(known))}_min_score"
            new["gates"] = {"required": self.chance(80), "thresholds": {name: self.draw(st.sampled_from(SCORES))}}


@st.composite
def cases(draw: st.DrawFn, most: int = 9, engines: int = 2) -> Case:
    draft = Draft(draw)
    for _ in range(draw(st.integers(1, most))):
        draft.add()
    scripts = {name: tuple(_attempts(draft, each)) for name, each in draft.tasks.items()}
    ends = draw(st.lists(st.tuples(st.integers(1, 6), st.booleans()), max_size=engines))
    return Case(tuple(draft.tasks.values()), scripts, tuple(ends))


def _attempts(draft: Draft, each: Task) -> list[Try]:
    scored = each.get("score_required")
    kinds = ["fine", "fine", "fine", "fine", "fine", "crashed", "timeout", "lazy", "mute"]
    kinds += ["unscored", "overscored"] if scored else []
    found = []
    for kind in draft.draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=4)):
        score = draft.draw(st.sampled_from(SCORES)) if scored else None
        made = tuple(output["name"] for output in each["outputs"])
        match kind:
            case "crashed" | "timeout":
                found.append(Try(kind))
            case "lazy":
                left = draft.draw(st.integers(0, max(0, len(made) - 1)))
                found.append(Try(score=score, made=made[:left]))
            case "mute":
                found.append(Try(said="", score=score))
            case "unscored":
                found.append(Try(made=made))
            case "overscored":
                found.append(Try(score=101, made=made))
            case _:
                found.append(Try(score=score, made=made))
    return found


# Engines.


@dataclass
class Actors:
    """Carries out jobs as their scripts say. How many attempts there were is asked of the engine, which may be new."""

    deps: Deps
    case: Case
    left: int | None = None
    """Turns until this engine is to end."""
    finishing: bool = True
    over: asyncio.Event = field(default_factory=asyncio.Event)
    at_work: set[str] = field(default_factory=set)
    deadly: bool = False
    """Whether the process dies instead."""

    async def perform(self, job: Job) -> Performance:
        """Do what the script says; an agent is never asked for two things at once."""
        assert job.agent_id not in self.at_work
        self.at_work.add(job.agent_id)
        try:
            return await self._acted(job)
        finally:
            self.at_work.discard(job.agent_id)

    async def _acted(self, job: Job) -> Performance:
        told = await explain_json(self.deps, job.plan_id, job.task_id)
        script = self.case.scripts[job.task_id]
        now = script[min(len(told["attempts"]), len(script) - 1)]
        if self.left is not None:
            self.left -= 1
            if self.left <= 0:
                await self._ends()
        if now.how == "timeout":
            return Performance("timeout", error="it was ended after no time at all")
        return await PythonPerformer({job.agent_id: partial(_act, now)}, self.deps.stores.blobs).perform(job)

    async def _ends(self) -> None:
        if self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        self.over.set()
        if not self.finishing:
            await asyncio.Event().wait()


async def _act(now: Try, turn: Turn) -> Result:
    if now.how == "crashed":
        raise RuntimeError("as written")
    turn.outputs.update({name: f"{turn.task_id}/{name}" for name in now.made})
    return Result(now.said, score=now.score)


@asynccontextmanager
async def engine(actors: Actors | Repeating) -> AsyncIterator[Engine]:
    """An engine whose agents have scripts."""
    dispatcher = Dispatcher(actors.deps, {"python": actors}, LocalProcesses())
    stop = asyncio.Event()
    running = asyncio.create_task(dispatcher.run(stop))
    try:
        yield Engine(actors.deps, dispatcher)
    finally:
        stop.set()
        await running
    assert await fsck.check_root(actors.deps) == []


async def lived(
    root: Path, case: Case, *, end: tuple[int, bool] | None = None, deadly: bool = False
) -> PlanStanding | None:
    """One engine: how the plan stands when nothing goes on any more; None when the engine ended before."""
    for name in ("agents", "system_runtime"):
        (root / name).mkdir(parents=True, exist_ok=True)
    async with open_root(root) as deps:
        left, finishing = end or (None, True)
        actors = Actors(deps, case, left, finishing, deadly=deadly)
        async with engine(actors) as found:
            await found.submit(case.compiled())
            ended = asyncio.create_task(found.ended())
            over = asyncio.create_task(actors.over.wait())
            await asyncio.wait({ended, over}, return_when=asyncio.FIRST_COMPLETED)
            over.cancel()
            if actors.over.is_set():
                ended.cancel()
                return None
            return await ended


async def played(root: Path, case: Case) -> PlanStanding:
    """The plan, by as many engines as the case has, and one that lives."""
    for end in case.ends:
        await lived(root, case, end=end)
    found = await lived(root, case)
    assert found is not None
    return found


def told(found: PlanStanding) -> dict[str, tuple[str, int, int]]:
    return {each["task_id"]: (each["state"], each["retries"], each["rounds"]) for each in found.tasks}


def expected(case: Case) -> dict[str, tuple[str, int, int]]:
    fates = case.reference().interpret()
    return {name: (fate.state, fate.retries, fate.reexecutions) for name, fate in fates.items()}


def agree(case: Case, found: PlanStanding) -> None:
    """A plan stands as the interpreter says."""
    assert told(found) == expected(case)
    assert found.result == case.reference().result()
    reasons = {each["task_id"]: each["reason"] for each in found.tasks}
    for name, (state, *_) in told(found).items():
        assert state in {"COMPLETED", "PENDING"} or reasons[name], f"{name} is {state} and nobody is told why"


def memory() -> tempfile.TemporaryDirectory[str]:
    """In memory where that is possible: no machine dies here."""
    shared = Path("/dev/shm")
    return tempfile.TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else None)


def check(case: Case) -> None:
    with memory() as folder:
        agree(case, asyncio.run(played(Path(folder) / "root", case)))


@settings(max_examples=effort.cases(80), suppress_health_check=list(HealthCheck))
@given(cases())
def test_every_plan_ends_as_a_simple_interpreter_says(case: Case) -> None:
    check(case)


def test_a_branch_that_is_not_taken_and_not_skipped_would_be_seen() -> None:
    decide = transitions._decide_conditional

    def forgetful(moves: PlanTransaction, plan: PlanDefinition, task_id: str, chosen: Sequence[str], ends: Any) -> None:
        if task_id in chosen:
            decide(moves, plan, task_id, chosen, ends)

    @settings(max_examples=100, derandomize=True, database=None, phases=[Phase.generate], report_multiple_bugs=False)
    @given(cases(engines=0))
    def search(case: Case) -> None:
        check(case)

    with patch.object(transitions, "_decide_conditional", forgetful), pytest.raises(AssertionError, match="PENDING"):
        search()


# What such plans brought to light.


def scripted(*tasks: Task, **scripts: Try | Sequence[Try]) -> Case:
    """A case in which whoever is not named does all that is asked."""
    known = {name: (script,) if isinstance(script, Try) else tuple(script) for name, script in scripts.items()}
    made = {each["id"]: tuple(output["name"] for output in each.get("outputs", ())) for each in tasks}
    return Case(tasks, {name: known.get(name, (Try(made=names),)) for name, names in made.items()})


CRASH: Final = Try("crashed")
TEXT: Final = [{"name": "text.md", "deliverable": True}]
SPARED: Final[Task] = {"on_dependency_failed": "FALLBACK", "fallback": "spare"}
SCORED: Final[Task] = {"score_required": True, "score_criteria": "0-100"}
FOUND: Final[dict[str, tuple[Case, dict[str, str]]]] = {
    "a fallback that fails, too": (
        scripted(
            task("first"),
            task("spare"),
            task("use", needs=["first"], **SPARED),
            task("also", needs=["first"], on_dependency_failed="SKIP"),
            first=CRASH,
            spare=CRASH,
        ),
        {"use": "BLOCKED_WAITING_REVIEW", "also": "SKIPPED"},
    ),
    "a fallback in two places": (
        scripted(
            task("one"), task("two"), task("spare"), task("use", needs=["one", "two"], **SPARED), one=CRASH, two=CRASH
        ),
        {"use": "COMPLETED"},
    ),
    "a fallback that was lost before it was needed": (
        scripted(
            task("a_root"),
            task("z_first", needs=["a_root"], on_dependency_failed="SKIP"),
            task("spare", needs=["a_root"], on_dependency_failed="SKIP"),
            task("use", needs=["z_first"], **SPARED),
            a_root=CRASH,
        ),
        {"use": "BLOCKED_WAITING_REVIEW"},
    ),
    "a fallback for what was skipped": (
        scripted(
            task("root"),
            task("first", needs=["root"], on_dependency_failed="SKIP", outputs=TEXT),
            task("spare", outputs=TEXT),
            task("use", needs=["first"], inputs=[{"name": "text", "from": "text.md"}], **SPARED),
            root=CRASH,
        ),
        {"use": "COMPLETED"},
    ),
    "what is lost before nobody calls for it": (
        scripted(
            task("first", gates={"branches": [{"when": "score > 50", "activate": ["ward"]}]}, **SCORED),
            task(
                "judge",
                needs=["first"],
                on_dependency_failed="SKIP",
                gates={"branches": [{"when": "score > 50", "activate": ["ward"]}]},
                **SCORED,
            ),
            task("ward", needs=["judge"]),
            first=CRASH,
        ),
        {"judge": "SKIPPED", "ward": "BLOCKED_WAITING_REVIEW"},
    ),
    "a score of what failed": (
        scripted(
            task("judge", outputs=TEXT, **SCORED),
            task("spare", outputs=TEXT),
            task("use", needs=["judge"], gates={"required": True, "thresholds": {"judge_min_score": 70}}, **SPARED),
            judge=Try(score=100),
        ),
        {"judge": "FAILED", "use": "BLOCKED_WAITING_REVIEW"},
    ),
    "an output that the score asks for is not there": (
        scripted(task("judge", outputs=[{**TEXT[0], "when": "score >= 50"}], **SCORED), judge=Try(score=70)),
        {"judge": "FAILED"},
    ),
    "an output that the score does not choose": (
        scripted(
            task("judge", outputs=[{**TEXT[0], "when": "score >= 50"}], **SCORED),
            task("use", needs=["judge"], inputs=[{"name": "text", "from": "text.md"}]),
            judge=Try(score=10, made=("text.md",)),
        ),
        {"judge": "COMPLETED", "use": "BLOCKED_WAITING_INPUT"},
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_random_plans_found_stays_right(tmp_path: Path, name: str) -> None:
    case, ends = FOUND[name]
    found = asyncio.run(played(tmp_path, case))
    agree(case, found)
    assert {task_id: states(found)[task_id] for task_id in ends} == ends


def test_an_engine_can_end_before_a_turn_has_begun(tmp_path: Path) -> None:
    case = scripted(task("work"), work=[CRASH, Try()])

    async def use() -> PlanStanding | None:
        assert states(await played(tmp_path, case)) == {"work": "FAILED"}
        async with asyncio.timeout(300), open_root(tmp_path) as deps:
            dispatcher = Dispatcher(deps, {"python": Actors(deps, case)}, LocalProcesses())
            await dispatcher.operator.retry("p", "work", by="ada")  # its turn is given out in the same step
            await dispatcher.close()
        return await lived(tmp_path, case)

    found = asyncio.run(use())
    assert found is not None
    assert (found.result, states(found)) == ("done", {"work": "COMPLETED"})


def test_what_two_failures_stopped_waits_until_both_are_mended(tmp_path: Path) -> None:
    tasks = [task("one"), task("two"), task("both", needs=["one", "two"], on_dependency_failed="SKIP")]
    case = scripted(*tasks, one=[CRASH, Try()], two=[CRASH, Try()])

    async def use() -> list[dict[str, str]]:
        seen = [states(await played(tmp_path, case))]
        for name in ("one", "two"):
            async with open_root(tmp_path) as deps, engine(Actors(deps, case)) as found:
                await found.dispatcher.operator.retry("p", name, by="ada")
                seen.append(states(await found.ended()))
        return seen

    assert asyncio.run(use()) == [
        {"one": "FAILED", "two": "FAILED", "both": "SKIPPED"},
        {"one": "COMPLETED", "two": "FAILED", "both": "SKIPPED"},
        {"one": "COMPLETED", "two": "COMPLETED", "both": "COMPLETED"},
    ]


# Engines that die.


def dies(root: Path, case: Case, turns: int) -> int:
    """Have an engine of its own process die at a turn; how the process ended."""
    code = "import test_random_plans; test_random_plans.live()"
    paths = os.pathsep.join([str(TESTS), str(Path(__file__).parent)])
    ended = subprocess.run(
        [sys.executable, "-c", code, str(root), str(turns)],
        input=json.dumps(case.as_json()).encode(),
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode in {0, -signal.SIGKILL}, ended.stderr.decode()
    return ended.returncode


def live() -> None:
    """What such a process does."""
    case = Case.from_json(json.load(sys.stdin))
    asyncio.run(lived(Path(sys.argv[1]), case, end=(int(sys.argv[2]), True), deadly=True))


@settings(max_examples=effort.cases(4), suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(cases(most=6), st.lists(st.integers(1, 5), min_size=1, max_size=ENGINE_ENDS - 1))
def test_a_plan_whose_engines_are_killed_ends_the_same(case: Case, deaths: list[int]) -> None:
    with memory() as folder:
        root = Path(folder) / "root"
        for turns in deaths:
            dies(root, case, turns)
        agree(case, asyncio.run(played(root, replace(case, ends=()))))


@pytest.mark.rest
def test_a_task_that_kills_the_engine_again_and_again_waits_for_a_person(tmp_path: Path) -> None:
    case = scripted(task("deadly", priority="HIGH"), task("other"))
    for _ in range(ENGINE_ENDS):
        assert dies(tmp_path, case, 1) == -signal.SIGKILL
    found = asyncio.run(lived(tmp_path, case))
    assert found is not None
    [deadly] = [each for each in found.tasks if each["state"] != "COMPLETED"]
    assert (deadly["state"], found.result) == ("BLOCKED_WAITING_HUMAN", "waiting")
    assert f"{ENGINE_ENDS} times" in (deadly["reason"] or "")


# Whoever begins anew and does the same again comes to the same end.


@dataclass
class Repeating:
    """Does what the scripts say; a task that begins anew begins its script anew."""

    deps: Deps
    case: Case
    turns: Counter[str] = field(default_factory=Counter)

    async def perform(self, job: Job) -> Performance:
        script = self.case.scripts[job.task_id]
        now = script[min(self.turns[job.task_id], len(script) - 1)]
        self.turns[job.task_id] += 1
        if now.how == "timeout":
            return Performance("timeout", error="it was ended after no time at all")
        return await PythonPerformer({job.agent_id: partial(_act, now)}, self.deps.stores.blobs).perform(job)


async def begun_anew(root: Path, case: Case, places: list[int]) -> list[PlanStanding]:
    """Run a plan, and then run it again from tasks that ended; how it stood each time."""
    for name in ("agents", "system_runtime"):
        (root / name).mkdir(parents=True, exist_ok=True)
    async with open_root(root) as deps:
        actors = Repeating(deps, case)
        async with engine(actors) as running:
            await running.submit(case.compiled())
            found = [await running.ended()]
            ran = [name for name, state in states(found[0]).items() if state in {"COMPLETED", "FAILED"}]
            for place in places if ran else ():
                for name in await retry(running, ran[place % len(ran)]):
                    actors.turns[name] = 0
                found.append(await running.ended())
        return found


@settings(max_examples=effort.cases(40), suppress_health_check=list(HealthCheck))
@given(cases(engines=0), st.lists(st.integers(0, 8), min_size=1, max_size=3))
def test_what_runs_again_ends_as_it_ended_before(case: Case, places: list[int]) -> None:
    with memory() as folder:
        first, *others = asyncio.run(begun_anew(Path(folder) / "root", case, places))
    for found in others:
        assert (found.result, told(found)) == (first.result, told(first))
