"""Nothing that an agent can do, in whatever order, makes a task done whose promise is not kept.

Hypothesis plays the agents of a plan, who lie wherever they can write, and now and then do their work; the engine is
real. After every step a task that counts as completed is held against what really lies in the store and in the branch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import Phase
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from agenttalk.doors.api import callers
from agenttalk.engine.core import access, records, task_comments
from agenttalk.engine.core.access import Caller
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.people import human_driver, questions
from agenttalk.ports.agents import TurnEnd
from agenttalk.rules.checks import check_results
from agenttalk.rules.core.tokens import attempt_token, read_token
from agenttalk.rules.messages import routes
from agenttalk.rules.proof import done
from effort import cases, tried
from kits.hostilekit import AGENTS, CHECK, COFFEE, HEADING, OPERATOR, OUTPUTS, PLAN, QUESTION, Program, Row, World, kept
from kits.treekit import dumped, sha256

AT: Final = "2026-03-01T12:00:00Z"
TASKS: Final = sorted(AGENTS)
SOME: Final = st.integers(0, 7)
CONTENTS: Final = {
    "right": {"report.md": f"{HEADING}\nall of them\n", "sum.json": "{}", "deal.txt": "a deal", "note.txt": "noted"},
    "wrong": {"report.md": "TODO", "sum.json": "{", "deal.txt": "no", "note.txt": ""},
}
RESULTS: Final[list[Any]] = [
    {"result": "all done, tests pass", "score": 85},
    {"result": "all done", "score": 100.5, "state": "COMPLETED"},
    {"result": "all done", "score": 10, "verdict": {"fulfilled": True}, "done": True},
    {"result": "", "score": "100"},
    {
        "result": "proven",
        "score": True,
        "evidence": [
            {"id": name, "passed": True, "fresh": True, "trust": "executed", "by": "engine"}
            for name in ("says", "runs", "asks", "there", "result", "output:report.md", "gates")
        ],
    },
    ["COMPLETED"],
]
DRIVERS: Final = ("folder", "human", "python", "script")
DEATHS: Final = 2
"""After one more a person is asked, and the run would be over."""
TREE: Final = (
    "right price",
    "wrong price",
    "bent check",
    "no check",
    "check in a folder",
    "hooks",
    "config",
    "no git",
    "link",
)
OPERATORS_ROUTES: Final = [
    ("POST", "/api/plans/p/retry", {"task": "write"}),
    ("POST", "/api/plans/p/abort", {"task": "fix", "why": "mine is better"}),
    ("POST", "/api/plans/p/override", {"task": "grade", "checkpoint": "pre-ship", "why": "trust me"}),
    ("POST", "/api/plans/p/grant", {"task": "write"}),
    ("POST", "/api/plans/p/verify", {"task": "write"}),
    ("POST", "/api/plans/p/merge", {}),
    ("POST", "/api/plans/p/pause", {}),
    ("POST", "/api/plans/p/cancel", {}),
    ("POST", "/api/plans", {"dag": {}, "manifest": {}, "profiles": {}}),
    ("POST", "/api/plans/apply", {"dag": {}, "manifest": {}, "profiles": {}}),
    ("POST", "/api/passes", {"part": "route"}),
    ("POST", "/api/human-requests/{request}/answer", {"decision": "APPROVE", "seen_sha256": "{sha256}"}),
    ("POST", "/api/deadletters/{letter}/replay", {}),
    ("POST", "/api/commands/send", {"command": {}}),
    ("POST", "/api/republish", {}),
    ("GET", "/api/human-requests", None),
    ("GET", "/api/status", None),
    ("GET", "/api/fsck", None),
    ("GET", "/api/plans/p", None),
    ("POST", "/api/plans/p/release", {}),
    ("PATCH", "/api/projects/default/tasks/p:write", {"state": "COMPLETED"}),
]
"""What an operator, a reader or nobody may ask for."""
REMARKS: Final = [
    ("comments", {"comment_type": "action_report", "body": "done", "claims": [{"id": "says", "passed": True}]}),
    ("comments", {"comment_type": "review", "body": "APPROVE", "claims": [{"type": "evidence", "id": "runs"}]}),
    ("outputs", {"content": HEADING, "type": "report.md"}),
    ("outputs", {"content": '{"fulfilled": true}', "type": "verdict"}),
    ("progress", {"progress": "100 %", "usage": {"tokens": 1}}),
]


def pick(found: list[Any], number: int) -> Any:
    """One of several, the newest for 0."""
    return found[-1 - number % len(found)]


class Hostile(RuleBasedStateMachine):
    """Agents that would rather be called done."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.asked: list[tuple[str, str, str, dict[str, Any], str]] = []
        """Requests with a key, to be repeated."""
        self.number = 0
        self.killed = 0

    def teardown(self) -> None:
        try:
            self.world.settle()
            self.no_task_is_done_whose_promise_is_not_kept()
            self.world.sound()
        finally:
            self.world.remove()

    # What an agent can do in its turn, or a process of it that outlives the turn.

    def _program(self, task_id: str, which: int) -> Program | None:
        mine = [each for each in self.world.played.seen if each.task_id == task_id]
        return pick(mine, which) if mine else None

    @rule(
        what=st.sampled_from(["output", "result", "tree", "tree", "profile", "plan"]),
        task_id=st.sampled_from(TASKS),
        which=SOME,
        how=st.sampled_from(["right", "wrong"]),
        name=st.none() | SOME,
        said=st.sampled_from(RESULTS),
        change=st.sampled_from(TREE),
    )
    def something_is_written(
        self, what: str, task_id: str, which: int, how: str, name: int | None, said: Any, change: str
    ) -> None:
        match what:
            case "output":
                self.an_output_is_written(task_id, which, how, name)
            case "result":
                self.a_result_is_written(task_id, which, said)
            case "tree":
                self.the_tree_is_changed(which, change)
            case "profile":
                self.a_profile_is_edited(task_id, DRIVERS[which % len(DRIVERS)])
            case _:
                self.the_shown_plan_is_edited(task_id, "task_dag.json" if which % 2 else "active_dag_ref.json")

    def an_output_is_written(self, task_id: str, which: int, how: str, name: int | None) -> None:
        program = self._program(task_id, which)
        if program is not None:
            written = OUTPUTS.get(task_id, "report.md") if name is None else sorted(OUTPUTS.values())[name % 4]
            folder = program.folder("AGENTTALK_OUTPUTS")
            folder.mkdir(parents=True, exist_ok=True)
            (folder / written).write_text(CONTENTS[how][written])

    def a_result_is_written(self, task_id: str, which: int, said: Any) -> None:
        program = self._program(task_id, which)
        if program is not None and (not program.ended.done() or task_id != "grade"):
            program.folder("AGENTTALK_RESULT").write_text(json.dumps(said))
            program.said = said

    def the_tree_is_changed(self, which: int, how: str) -> None:
        program = self._program("fix", which)
        if program is None or not program.turn.cwd.is_dir():
            return
        tree = program.turn.cwd
        match how:
            case "right price" | "wrong price":
                _write(tree / "price.txt", "price = 3\n" if how == "right price" else "price = 9\n")
            case "bent check":
                _write(tree / "check.sh", "exit 0\n")
            case "no check":
                (tree / "check.sh").unlink(missing_ok=True)
            case "check in a folder":
                _write(tree / "bin" / "sh", "#!/bin/sh\nexit 0\n")
            case "link":
                (tree / "price.txt").unlink(missing_ok=True)
                (tree / "price.txt").symlink_to(self.world.place / "elsewhere")
            case _:
                self._change_git(tree / ".git", how)

    @staticmethod
    def _change_git(folder: Path, how: str) -> None:
        if not folder.is_dir():
            return
        match how:
            case "hooks":
                hook = folder / "hooks" / "post-checkout"
                _write(hook, "#!/bin/sh\nprintf 'price = 9\\n' > price.txt\n")
                hook.chmod(0o755)
            case "config":
                with (folder / "config").open("a") as config:
                    config.write('[core]\n\tfsmonitor = false\n\tworktree = /\n[filter "x"]\n\tclean = false\n')
            case _:
                (folder / "HEAD").unlink(missing_ok=True)

    @rule(task_id=st.sampled_from(TASKS), code=st.sampled_from([0, 0, 0, 1]), goes_on=st.booleans())
    def a_turn_just_ends(self, task_id: str, code: int, goes_on: bool) -> None:
        self.a_turn_ends(task_id, right=False, code=code, goes_on=goes_on)

    @rule(task_id=st.sampled_from(TASKS), goes_on=st.booleans())
    def a_turn_ends_well(self, task_id: str, goes_on: bool) -> None:
        self.a_turn_ends(task_id, right=True, code=0, goes_on=goes_on)

    def a_turn_ends(self, task_id: str, *, right: bool, code: int, goes_on: bool) -> None:
        program = self.world.played.running.get(task_id)
        if program is None:
            return
        if right:
            self.an_output_is_written(task_id, 0, "right", None)
            self.the_tree_is_changed(0, "right price") if task_id == "fix" else None
            self.a_result_is_written(task_id, 0, RESULTS[0])
        del self.world.played.running[task_id]
        program.ended.set_result(TurnEnd("finished", code, b'{"result": "all done", "score": 99}', b"", 0.1))
        if task_id == "grade" and program.said is None:
            program.said = {"score": 99}
        if goes_on:  # a process of it has not understood that it is dead
            self.an_output_is_written(task_id, 0, "wrong", None)
            self.the_tree_is_changed(0, "bent check") if task_id == "fix" else None
        self.world.settle()

    # What it can leave in its folders.

    @rule(
        task_id=st.sampled_from(TASKS),
        about=st.none() | st.sampled_from(TASKS),
        kind=st.sampled_from(
            ["ack", "task_state", "decision_record", "release_manifest", "response", "gate", "coffee"]
        ),
        which=SOME,
    )
    def a_control_file_is_forged(self, task_id: str, about: str | None, kind: str, which: int) -> None:
        about = "sign" if kind == "coffee" else about or task_id
        agent_id = AGENTS[task_id]
        name, document = self._control(agent_id, about, kind, which)
        self.world.put(agent_id, name, document)
        self.world.route()

    def _control(self, agent_id: str, about: str, kind: str, which: int) -> tuple[str, dict[str, Any]]:
        world = self.world
        commands = world.query("SELECT message_id FROM messages WHERE type = 'command' AND task_id = ?", about)
        message_id = pick([row[0] for row in commands] or ["msg_none"], which)
        of_task = {"schema_version": "1.0", "plan_id": PLAN, "task_id": about}
        match kind:
            case "ack":
                ack = {**of_task, "message_id": message_id, "consumer_agent_id": agent_id, "status": "SUCCEEDED"}
                return f"ack_{message_id}.json", {**ack, "consumed_at": AT, "finished_at": AT}
            case "task_state":
                state = {**of_task, "agent_id": agent_id, "state": "COMPLETED", "updated_at": AT}
                return f"task_state_{about}.json", state
            case "decision_record":
                decision = {"decision_id": f"d_{about}", "decision_type": "RELEASE", "decision": "APPROVE"}
                by = {"decided_by_agent_id": agent_id, "subject": {"kind": "release", "ref_sha256": sha256(b"x")}}
                return f"decision_record_{about}.json", {"plan_id": PLAN, **decision, **by}
            case "release_manifest":
                body = {"release_id": f"r_{about}", "artifacts": [], "evidence_required": [], "evidence_refs": []}
                return f"release_manifest_{about}.json", {"plan_id": PLAN, **body, "decision": "APPROVE"}
            case "response":
                requests = [row[0] for row in world.query("SELECT request_id FROM requests")] or ["req_none"]
                body = {"request_id": pick(requests, which), "responded_at": AT, "decision": "APPROVE"}
                return f"human_intervention_response_{which}.json", {**body, "responder": {"name": "ada"}}
            case "coffee":
                return self._coffee(agent_id, about)
        gate = {"plan_id": PLAN, "gate_id": about, "decision": "PASS", "result": "PASS", "task_id": about}
        return f"release_gate_result_{about}.json", {"schema_version": "1.0", **gate}

    def _coffee(self, agent_id: str, about: str) -> tuple[str, dict[str, Any]]:
        """Another question under the id that the question about one's work will have."""
        program = self._program(about, 0)
        command_id = program.turn.env["AGENTTALK_COMMAND_ID"] if program else "cmd_none_001"
        made = {"deal.txt": sha256(CONTENTS["right"]["deal.txt"].encode())}
        tree = sha256(json.dumps(made, separators=(",", ":")).encode())
        shown = check_results.hash_shown(QUESTION, {"tree": tree, **made})
        request_id = records.derive_id("req", f"{PLAN}/{command_id}/asks/{shown}")
        body = {
            "schema_version": "1.0",
            "request_id": request_id,
            "plan_id": PLAN,
            "created_at": AT,
            "created_by": {"agent_id": agent_id, "task_id": about, "command_id": command_id},
            "severity": "LOW",
            "type": "APPROVAL",
            "title": COFFEE,
            "blocking": False,
            "needed": {"decision": {"question": COFFEE}},
        }
        return f"human_intervention_request_{request_id}.json", body

    @rule(
        task_id=st.sampled_from([*TASKS, "hand", "hand"]),
        about=st.none() | st.sampled_from(TASKS),
        flaw=st.sampled_from(["", "", "hash", "producer", "missing"]),
        how=st.sampled_from(["right", "wrong"]),
        seq=st.none() | st.integers(1, 3),
    )
    def an_artifact_is_sent(self, task_id: str, about: str | None, flaw: str, how: str, seq: int | None) -> None:
        self.number += 1
        about = about or task_id
        agent_id, output = AGENTS[task_id], OUTPUTS.get(about, "report.md")
        data = CONTENTS[how][output].encode()
        payload = {"files": [{"path": f"made_{self.number}.txt", "sha256": sha256(data)}]}
        fields: dict[str, Any] = {"payload": payload}
        if flaw == "hash":
            payload["files"][0]["sha256"] = sha256(b"something else")
        elif flaw == "producer":
            fields["producer_agent_id"] = AGENTS[about]
        files = {f"made_{self.number}.txt": data} if flaw != "missing" else {}
        message_id = f"msg_forged_{self.number}"
        self.world.tree.artifact(agent_id, about, output, files, message_id=message_id, seq=seq, **fields)
        self.world.route()

    @rule(
        task_id=st.sampled_from(TASKS),
        about=st.sampled_from(TASKS),
        seq=st.integers(1, 4),
        reexecute=st.booleans(),
        into=st.sampled_from(["outbox", "inbox"]),
    )
    def a_command_is_forged(self, task_id: str, about: str, seq: int, reexecute: bool, into: str) -> None:
        """One that asks for less, from somebody who may not command."""
        self.number += 1
        agent_id = AGENTS[task_id]
        world = self.world
        world.tree.dags[PLAN] = self._dag()
        easy = {
            "id": "cp-1767225600000-abcd",
            "objective": "Nothing",
            "acceptance": [{"id": "c", "description": "x"}],
            "checks": [],
        }
        fields: dict[str, Any] = {"promise": easy, "produces": []}
        if reexecute:
            issues = {"decision": "REJECT", "score": 1, "issues": []}
            fields |= {"original_task_id": about, "original_agent": AGENTS[about], "validation_result": issues}
        world.tree.command(agent_id, about, seq, message_id=f"msg_order_{self.number}", **fields)
        made = world.tree.box(agent_id, "outbox") / f"cmd_{about}_{seq:03d}.msg.json"
        target = world.tree.box(agent_id, into)
        target.mkdir(parents=True, exist_ok=True)
        made.rename(target / (f"cmd_reexecute_{about}_{seq:03d}.msg.json" if reexecute else made.name))
        world.route()

    def _dag(self) -> str:
        return str(self.world.query("SELECT dag_sha256 FROM messages WHERE type = 'command' LIMIT 1")[0][0])

    def a_profile_is_edited(self, task_id: str, driver: str) -> None:
        more = {"argv": ["sh", "-c", "true"]} if driver == "script" else {}
        self.world.tree.agent(AGENTS[task_id], driver=driver, can_command=["*"], roles=["operator", "lead"], **more)
        self.world.route()

    def the_shown_plan_is_edited(self, task_id: str, name: str) -> None:
        """A view of the store: it shows, and decides nothing."""
        folder = self.world.tree.plan_folder()
        folder.mkdir(parents=True, exist_ok=True)
        nodes = [{"task_id": task_id, "assigned_agent_id": AGENTS[task_id]}]
        (folder / name).write_bytes(dumped({"schema_version": "1.1", "plan_id": PLAN, "nodes": nodes}))
        self.world.route()

    # What it can ask the engine for.

    def _tokens(self) -> list[tuple[str, str]]:
        return [(each.token, each.task_id) for each in self.world.played.seen]

    def _live(self, token: str) -> bool:
        """Whether the attempt that a token was given to still has its task; of which tokens that is, is in its words."""
        attempt = read_token(token)
        row = self.world.rows()[attempt.task_id] if attempt else None
        newest = [each.token for each in self.world.played.seen if attempt and each.task_id == attempt.task_id][-1:]
        return bool(attempt and row and row.lease is not None and row.epoch == attempt.epoch and newest == [token])

    @rule(route=st.sampled_from(OPERATORS_ROUTES), which=SOME, forged=st.sampled_from(["", "", "epoch", "task"]))
    def an_operators_route_is_tried(self, route: tuple[str, str, Any], which: int, forged: str) -> None:
        method, path, body = route
        token, _ = pick(self._tokens(), which)
        token = _forged(token, forged)
        requests = self.world.query("SELECT request_id, sha256 FROM requests WHERE state = 'open'") or [("r", "s")]
        letters = self.world.query("SELECT deadletter_id FROM deadletters") or [("dl",)]
        words = {"{request}": requests[-1][0], "{sha256}": requests[-1][1], "{letter}": letters[-1][0]}
        sent = json.dumps(body)
        for word, value in words.items():
            path, sent = path.replace(word, value), sent.replace(word, value)
        before = self.world.rows()
        answer = self.world.ask(method, path, token, json.loads(sent))
        assert answer.status in {401, 403, 404, 405}, (method, path, answer)
        assert self.world.rows() == before

    @rule(
        which=SOME,
        about=st.none() | st.sampled_from(TASKS),
        said=st.sampled_from(REMARKS),
        key=st.none() | st.sampled_from(["k1", "k2"]),
        forged=st.sampled_from(["", "", "", "epoch", "task"]),
    )
    def something_is_said(
        self, which: int, about: str | None, said: tuple[str, dict[str, Any]], key: str | None, forged: str
    ) -> None:
        token, own = pick(self._tokens(), which)
        task_id, (place, body) = about or own, said
        body = {**body, "author": AGENTS[own]} if place == "comments" else body
        self._say(_forged(token, forged), own, task_id, place, body, key)
        self.something_is_said_again(which)
        if key is not None and not forged:
            self.asked.append((token, own, task_id, {"place": place, **body}, key))

    def something_is_said_again(self, which: int) -> None:
        if self.asked:
            token, own, task_id, body, key = pick(self.asked, which)
            self._say(token, own, task_id, body["place"], {k: v for k, v in body.items() if k != "place"}, key)

    def _say(self, token: str, own: str, task_id: str, place: str, body: dict[str, Any], key: str | None) -> None:
        live = self._live(token)
        before, told = self.world.rows(), self._told()
        answer = self.world.ask("POST", f"/api/projects/default/tasks/{PLAN}:{task_id}/{place}", token, body, key=key)
        assert live or answer.status == 401
        assert own == task_id or answer.status in {401, 403}
        changed = {name for name, row in self.world.rows().items() if row != before[name]}
        assert changed <= ({own} if answer.status < 300 else set())
        assert all(row[0] == own and live for row in self._told() - told)

    def _told(self) -> set[tuple[Any, ...]]:
        return set(self.world.query("SELECT task_id, id FROM comments"))

    # What people and the machine do meanwhile.

    @rule(which=SOME)
    def a_person_says_yes(self, which: int) -> None:
        """To a question that was put to her, in the words that she was shown."""
        shown = self.world.ask("GET", "/api/human-requests", OPERATOR).json["requests"]
        asked = [each for each in shown if each["request"]["title"] in {QUESTION, COFFEE}]
        if asked:
            chosen = pick(asked, which)
            body = {"decision": "APPROVE", "seen_sha256": chosen["sha256"]}
            answer = self.world.ask(
                "POST", f"/api/human-requests/{chosen['request']['request_id']}/answer", OPERATOR, body
            )
            assert answer.status == 200, answer
            self.world.approved.append(chosen["request"])
            self.world.settle()

    @rule(what=st.sampled_from(["restart", "kill", "retry", "hour", "week", "back"]), task_id=st.sampled_from(TASKS))
    def the_world_goes_on(self, what: str, task_id: str) -> None:
        match what:
            case "restart":
                self._start_again(killed=False)
            case "kill" if self.killed < DEATHS:
                self.killed += 1
                self._start_again(killed=True)
            case "retry" if self.world.rows()[task_id].state == "FAILED":
                assert self.world.ask("POST", f"/api/plans/{PLAN}/retry", OPERATOR, {"task": task_id}).status == 200
                self.world.settle()
            case "hour" | "week" | "back":
                self.world.clock.forward({"hour": 3600, "week": 604_800, "back": -3600}[what])
                self.world.route()

    def _start_again(self, *, killed: bool) -> None:
        self.world.close(killed=killed)
        self.world.open()

    # What must always be so.

    @invariant()
    def no_task_is_done_whose_promise_is_not_kept(self) -> None:
        for task_id, row in self.world.rows().items():
            if row.state == "COMPLETED":
                assert kept(self.world, task_id), f"{task_id} is completed: {_shown(row)}"

    @invariant()
    def nothing_of_others_was_touched(self) -> None:
        assert self.world.played.faults == []
        assert not (self.world.place / "elsewhere").exists()
        head = (self.world.repo / ".git" / "HEAD").read_text()
        assert head.strip() == "ref: refs/heads/main"
        assert (self.world.repo / "check.sh").read_text() == CHECK


def _write(path: Path, text: str) -> None:
    if path.is_symlink():
        path.unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _forged(token: str, how: str) -> str:
    """A token that says another epoch or another task than it was made for."""
    attempt = read_token(token)
    assert attempt is not None
    secret = token.partition(".")[2]
    if how == "epoch":
        return attempt_token(attempt.board, attempt.plan_id, attempt.task_id, attempt.epoch + 1, secret)
    if how == "task":
        other = TASKS[(TASKS.index(attempt.task_id) + 1) % len(TASKS)]
        return attempt_token(attempt.board, attempt.plan_id, other, attempt.epoch, secret)
    return token


def _shown(row: Row) -> str:
    return f"{row.agent_id}, epoch {row.epoch}"


@pytest.fixture(autouse=True)
def _people_are_heard_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(human_driver, "POLL", 0.01)


@pytest.mark.random
@pytest.mark.shows("P11", "E01")
def test_nothing_that_an_agent_can_do_completes_a_task_whose_promise_is_not_kept() -> None:
    run_state_machine_as_test(Hostile, settings=tried(cases(10), 25, Phase.generate))


# What it found once, in short.


@pytest.fixture
def hostile() -> Iterator[Hostile]:
    found = Hostile()
    yield found
    found.teardown()


@pytest.mark.shows("E10")
def test_a_yes_to_another_question_under_the_same_id_confirms_nothing(hostile: Hostile) -> None:
    hostile.a_control_file_is_forged("sign", "sign", "coffee", 0)
    hostile.a_person_says_yes(0)
    hostile.a_turn_ends("sign", right=True, code=0, goes_on=False)
    row = hostile.world.rows()["sign"]
    assert ([each["title"] for each in hostile.world.approved], row.state, row.phase) == ([COFFEE], "RUNNING", "asking")
    hostile.a_person_says_yes(0)
    assert [each["title"] for each in hostile.world.approved] == [COFFEE, QUESTION]
    assert hostile.world.rows()["sign"].state == "COMPLETED"


def test_the_same_question_in_the_same_words_is_asked_once(hostile: Hostile) -> None:
    hostile.a_turn_ends("sign", right=True, code=0, goes_on=False)
    before = hostile.world.query("SELECT request_id FROM requests")
    hostile.the_world_goes_on("hour", "sign")
    hostile.the_world_goes_on("kill", "sign")
    assert hostile.world.query("SELECT request_id FROM requests") == before


@pytest.mark.shows("M04")
@pytest.mark.parametrize("sender", ["grade", "fix"])
def test_nobody_hands_in_the_output_of_another(hostile: Hostile, sender: str) -> None:
    hostile.an_artifact_is_sent(sender, "hand", "", "right", None)
    assert hostile.world.rows()["hand"].state == "READY"
    assert hostile.world.query("SELECT code FROM deadletters") == [("PRODUCER_MISMATCH",)]
    hostile.an_artifact_is_sent("hand", "hand", "", "right", None)
    assert hostile.world.rows()["hand"].state == "COMPLETED"


@pytest.mark.shows("E01")
def test_what_was_proven_is_not_replaced_from_an_outbox(hostile: Hostile) -> None:
    hostile.a_turn_ends("write", right=True, code=0, goes_on=False)
    hostile.an_artifact_is_sent("write", "write", "", "wrong", 1)
    hostile.an_artifact_is_sent("write", "write", "", "wrong", None)
    assert hostile.world.delivered("write", "report.md") == CONTENTS["right"]["report.md"].encode()
    assert hostile.world.query("SELECT code FROM deadletters") == [("PRODUCER_MISMATCH",)] * 2


# Faults that are planted: each must be found.


def plant_claims_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evidence under the id of a check is taken from what the agent said."""
    honest = done.decide

    def decide(promise: Any, evidence: Any, gates: Any, **more: Any) -> Any:
        said = [replace(each, passed=True) if each.id in {"says", "runs"} else each for each in evidence]
        return honest(promise, said, gates, **more)

    monkeypatch.setattr(done, "decide", decide)


def plant_an_open_route(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has a token may do anything."""
    monkeypatch.setattr(callers, "require_role", lambda *_: None)


def plant_no_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The token of an attempt that is over is as good as that of the one that runs."""

    async def identify(_: Deps, token: str) -> Caller | None:
        attempt = read_token(token)
        return Caller("agent", AGENTS[attempt.task_id], attempt) if attempt else Caller("operator", "ada")

    monkeypatch.setattr(access, "identify", identify)
    monkeypatch.setattr(task_comments, "require_current_attempt", lambda *_: None)


def plant_any_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """A yes counts for whatever was asked under its id."""
    monkeypatch.setattr(questions, "_says_the_same", lambda *_: True)


def plant_any_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs are taken from every outbox."""
    monkeypatch.setattr(routes, "_not_theirs", lambda *_: None)


def lies(hostile: Hostile) -> None:
    """A turn that made the wrong thing."""
    hostile.an_output_is_written("write", 0, "wrong", None)
    hostile.a_turn_ends("write", right=False, code=0, goes_on=False)


def asks_as_an_operator(hostile: Hostile) -> None:
    for route in OPERATORS_ROUTES:
        hostile.an_operators_route_is_tried(route, 0, "")


def speaks_too_late(hostile: Hostile) -> None:
    hostile.a_turn_ends("write", right=False, code=1, goes_on=False)
    for which in range(len(hostile.world.played.seen)):
        hostile.something_is_said(which, None, REMARKS[0], None, "")


def drinks_coffee(hostile: Hostile) -> None:
    hostile.a_control_file_is_forged("sign", "sign", "coffee", 0)
    hostile.a_person_says_yes(0)
    hostile.a_turn_ends("sign", right=True, code=0, goes_on=False)


def works_for_another(hostile: Hostile) -> None:
    hostile.an_artifact_is_sent("grade", "hand", "", "right", None)


PLANTED: Final = [
    (plant_claims_count, lies),
    (plant_an_open_route, asks_as_an_operator),
    (plant_no_epochs, speaks_too_late),
    (plant_any_words, drinks_coffee),
    (plant_any_sender, works_for_another),
]


@pytest.mark.rest
@pytest.mark.parametrize("planted", [True, False])
@pytest.mark.parametrize(("plant", "do"), PLANTED, ids=lambda each: str(each.__name__))
def test_a_planted_fault_is_found(
    plant: Callable[[pytest.MonkeyPatch], None],
    do: Callable[[Hostile], None],
    planted: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same steps that are no fault without it."""
    if planted:
        plant(monkeypatch)
    hostile = Hostile()
    try:
        with pytest.raises(AssertionError) if planted else nullcontext():
            do(hostile)
            hostile.no_task_is_done_whose_promise_is_not_kept()
    finally:
        hostile.world.remove()
