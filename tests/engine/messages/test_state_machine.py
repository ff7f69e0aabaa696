"""Whatever arrives, in whatever order: Hypothesis plays senders, receivers, programs, people and accidents.

After every step the invariants are read off the database and the folders, and at the end, when nothing is left to
do, everything that was ever sent is accounted for.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args

import pytest
from hypothesis import Phase, note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from agenttalk.contracts.errors import AgentTalkError, UsageError
from agenttalk.engine.core import access
from agenttalk.engine.messages import dead_letters, recall
from agenttalk.engine.operation import fsck
from agenttalk.engine.people import questions
from agenttalk.engine.runs import recovery
from agenttalk.rules.messages import routes
from effort import cases, tried
from kits.machinekit import (
    DAGS,
    DRIVEN,
    GATEWAY,
    LIMITS,
    MIB,
    NOWHERE,
    READING_CODES,
    SHOP,
    SIDE,
    SIDE_DAG,
    Books,
    Damage,
    Dead,
    Look,
    Lying,
    Mode,
    Oracle,
    Verdict,
    World,
    artifact,
    changed,
    command,
    damaged,
    flawed,
    look,
    lying_in,
    read_blobs,
    strict,
)
from kits.treekit import dumped, sha256

T = TypeVar("T")
OPEN: Final = {"stored", "delivered", "claimed"}
MESSAGE_STEPS: Final[dict[str, set[str]]] = {
    "stored": {"delivered", "superseded"},
    "delivered": {"superseded"},
    "superseded": set(),
}
DELIVERY_STEPS: Final[dict[str, set[str]]] = {
    "stored": {"delivered", "claimed", "processed", "superseded", "dead"},
    "delivered": {"claimed", "processed", "superseded", "dead"},
    "claimed": {"processed", "superseded", "dead"},
    "processed": set(),
    "superseded": set(),
    "dead": set(),
}
RECEIPT_STEPS: Final[dict[str | None, set[str]]] = {
    None: {"CONSUMED", "SUCCEEDED", "FAILED"},
    "CONSUMED": {"SUCCEEDED", "FAILED"},
}
RECEIPTS: Final[dict[str, set[str | None]]] = {
    "stored": {None},
    "delivered": {None},
    "claimed": {None, "CONSUMED"},
    "processed": {"SUCCEEDED", "FAILED"},
    "superseded": {None, "FAILED"},
    "dead": {"FAILED"},
}
"""State of a delivery → receipts that it may have."""
ENDED: Final = {"COMPLETED": "SUCCEEDED", "FAILED": "FAILED"}
"""State of a task → the receipt that makes it so."""
STATES: Final = ("READY", "RUNNING", "BLOCKED_WAITING_REVIEW", "COMPLETED", "FAILED", "SKIPPED")
ROUNDS: Final = 14
"""So often everybody has a turn before what still changes is taken for a fault."""


def pick(found: list[T], number: int) -> T:
    """One of several, the newest for 0."""
    return found[-1 - number % len(found)]


Act: TypeAlias = tuple[str, dict[str, Any]]
"""Something that happens: the name of a method of the machine, and with what."""


def act(name: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Act]:
    return st.tuples(st.just(name), st.fixed_dictionaries(fields))


SOME: Final = st.integers(0, 11)
SOON: Final = st.sampled_from(["", "", "pass", "round", "holds", "waits"])
"""What follows on a step at once; otherwise few runs get far."""
STATUS: Final = st.sampled_from(["CONSUMED", "SUCCEEDED", "FAILED"])
RARELY: Final = st.sampled_from([False, False, False, True])
COMMANDS: Final = act(
    "a_command_is_sent",
    task_id=st.sampled_from(["design", "build", "build", "review", "nothing"]),
    step=st.sampled_from([1, 1, 1, 2, 0, -1]),
    sender=st.sampled_from(["lead", "lead", "lead", "dev"]),
    needs=st.sampled_from([(), (), ("design.md",), ("*.csv",)]),
    retries=st.integers(0, 1),
    soon=SOON,
)
WRONG_COMMANDS: Final = act("a_command_of_the_other_plan_is_sent", seq=st.integers(1, 4), soon=SOON) | act(
    "a_wrong_command_is_sent",
    flaw=st.sampled_from(["schema", "version", "type", "producer", "plan", "dag", "unknown plan"]),
    seq=st.integers(1, 6),
)
ARTIFACTS: Final = act(
    "an_artifact_is_sent",
    sender=st.sampled_from(["pm", "dev", "lead"]),
    made=st.sampled_from([("design", "design.md"), ("design", "spec.md"), ("build", "app.zip"), ("build", "log.txt")]),
    seq=st.integers(0, 3),
    content=st.integers(0, 2),
    flat=st.booleans(),
    key=st.sampled_from([None, "key"]),
    soon=SOON,
)
WRONG_ARTIFACTS: Final = act(
    "a_wrong_artifact_is_sent",
    flaw=st.sampled_from(["task", "output", "missing", "hash", "large", "hidden", "outside", "late"]),
    sender=st.sampled_from(["pm", "dev"]),
)
AGAIN: Final = act("a_message_is_sent_again", which=SOME, soon=SOON) | act(
    "a_damaged_message_is_sent", which=SOME, how=st.sampled_from(get_args(Damage)), place=st.integers(0, 2000)
)
CONTROL_FILES: Final = st.one_of(
    act(
        "a_receipt_is_written_by_hand",
        agent_id=st.sampled_from(["qa", "dev", "pm"]),
        which=SOME,
        status=STATUS,
        foreign=RARELY,
        soon=SOON,
    ),
    act(
        "a_state_is_reported_by_hand",
        agent_id=st.sampled_from(["dev", "pm", "qa"]),
        task_id=st.sampled_from(["design", "build", "nothing"]),
        state=st.sampled_from(STATES),
        stale=st.booleans(),
        foreign=RARELY,
    ),
    act(
        "a_wrong_control_file_is_written",
        how=st.sampled_from(["cut", "message", "answer", "plan"]),
        seq=st.integers(1, 6),
    ),
)
PLANS: Final = act("the_plan_is_switched", version=st.integers(0, 2), torn=RARELY) | act("a_missing_agent_comes")
TIME: Final = act("the_clock_moves", seconds=st.sampled_from([1, 61, 61, 3600, -3600, -1])) | act(
    "everything_starts_again", killed=st.booleans()
)
HANDS: Final = st.one_of(
    act(
        "a_message_is_taken_out_of_an_inbox",
        agent_id=st.sampled_from(["dev", "pm", "qa"]),
        which=SOME,
        payloads=st.booleans(),
    ),
    act("a_person_takes_a_message_and_leaves_a_receipt", which=SOME, status=STATUS),
    act(
        "a_file_is_put_into_an_inbox",
        agent_id=st.sampled_from(DRIVEN),
        how=st.sampled_from(["copy", "changed", "broken", "new", "huge"]),
        which=SOME,
    ),
)
PEOPLE: Final = act("a_person_answers", which=SOME, decision=st.sampled_from(["PROVIDE", "APPROVE", "REJECT"])) | act(
    "a_dead_letter_is_replayed", which=SOME
)
MODES: Final = st.sampled_from(get_args(Mode))
WORK: Final = st.one_of(
    act("the_router_passes"),
    act("an_agent_looks", agent_id=st.sampled_from(DRIVEN), mode=MODES),
    act("everybody_has_a_turn", mode=MODES),
    act("programs_that_hold_go_on"),
    act("an_attempt_speaks", which=SOME),
)
WEIGHTS: Final = [
    *[COMMANDS] * 6,
    *[WRONG_COMMANDS] * 2,
    *[ARTIFACTS] * 5,
    *[WRONG_ARTIFACTS] * 2,
    *[AGAIN] * 4,
    *[CONTROL_FILES] * 3,
    *[PLANS] * 2,
    *[TIME] * 3,
    *[HANDS] * 4,
    *[PEOPLE] * 3,
    *[WORK] * 8,
]
FEW: Final = [*[COMMANDS] * 5, *[AGAIN] * 2, *[TIME] * 2, *[WORK] * 2]


def weighed(kinds: list[st.SearchStrategy[Act]]) -> st.SearchStrategy[Act]:
    """One of them, as often as it is named."""
    return st.integers(0, len(kinds) - 1).flatmap(lambda number: kinds[number])


class Traffic(RuleBasedStateMachine):
    """A root under every kind of traffic.

    One rule for all that can happen: of several, Hypothesis would leave some out in every run, and what matters
    here is how things mix.
    """

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.oracle = Oracle(self.world.root)
        self.sent: list[tuple[str, str, str, bytes]] = []
        """Sender, plan, name and bytes of every message that was put into an outbox."""
        self.dropped: set[str] = set()
        """Hashes of what was put into inboxes by hand."""
        self.unbrought: set[str] = set()
        """Hashes of those that are commands nobody knows: they wait for a router that says that it brought them."""
        self.taken: set[tuple[str, str]] = set()
        """Message and receiver of what was taken out of inboxes by hand."""
        self.receipted: set[tuple[str, str]] = set()
        """Message and receiver of every receipt that was written by hand."""
        self.by_hand: set[str] = set()
        """Tasks whose agents said themselves where they stand; that holds until something else happens to them."""
        self.gone: dict[str, Counter[tuple[str, str, str]]] = {".sent": Counter(), ".rejected": Counter()}
        self.canary = look(self.world.place / "beside")
        self.world.pass_()
        self.old = self.books = self.world.books()

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:
                self._settle()
        finally:
            self.world.remove()

    @rule(happens=weighed(WEIGHTS))
    def step(self, happens: Act) -> None:
        name, fields = happens
        getattr(self, name)(**fields)

    # Senders.

    def _send(self, agent_id: str, name: str, data: bytes, plan_id: str = SHOP) -> None:
        name = self.world.put(agent_id, name, data, plan_id)
        self.sent.append((agent_id, plan_id, name, data))
        note(f"{agent_id} sends {plan_id}/{name}")

    def _command(self, sender: str, plan_id: str, task_id: str, seq: int, **fields: Any) -> dict[str, Any]:
        dag = self.world.tree.dags.get(plan_id, sha256(b""))
        return command(sender, plan_id, task_id, seq, self.world.names.new("msg"), dag, **fields)

    def a_command_is_sent(
        self, task_id: str, step: int, sender: str, needs: tuple[str, ...], retries: int, soon: str
    ) -> None:
        seq = max(1, step + max((each.seq for each in self.oracle.orders if each.task_id == task_id), default=0))
        fields = {"required_inputs": list(needs), "wait_for_inputs": bool(needs), "retry_times": retries}
        document = self._command(sender, SHOP, task_id, seq, **fields)
        self._send(sender, f"cmd_{task_id}_{seq:03d}.msg.json", dumped(document))
        self._soon(soon)

    def a_command_of_the_other_plan_is_sent(self, seq: int, soon: str) -> None:
        self._send("lead", f"cmd_check_{seq:03d}.msg.json", dumped(self._command("lead", SIDE, "check", seq)), SIDE)
        self._soon(soon)

    def a_wrong_command_is_sent(self, flaw: str, seq: int) -> None:
        document = self._command("lead", SHOP, "build", seq)
        name, plan_id = f"cmd_build_{seq:03d}.msg.json", SHOP
        if flaw in READING_CODES:
            document = flawed(document, flaw)
            self.oracle.flawed[sha256(dumped(document))] = READING_CODES[flaw]
        elif flaw == "producer":
            document["producer_agent_id"] = "pm"
        elif flaw == "plan":
            plan_id = SIDE
        elif flaw == "dag":
            document["payload"]["command"]["dag_ref"]["sha256"] = sha256(b"another")
        else:
            document, plan_id = self._command("lead", NOWHERE, "build", seq), NOWHERE
        self._send("lead", name, dumped(document), plan_id)

    def an_artifact_is_sent(
        self, sender: str, made: tuple[str, str], seq: int, content: int, flat: bool, key: str | None, soon: str
    ) -> None:
        self._artifact(sender, *made, seq, f"content {content}".encode(), flat=flat, key=key)
        self._soon(soon)

    def a_wrong_artifact_is_sent(self, flaw: str, sender: str) -> None:
        match flaw:
            case "task":
                self._artifact(sender, "nothing", "design.md", 1, b"x")
            case "output":
                self._artifact(sender, "design", "odd.bin", 1, b"x")
            case "large":
                self._artifact(sender, "design", "design.md", 1, b"x" * (LIMITS.payload_bytes + 1))
            case "late":
                newest = max((each.seq for each in self.oracle.versions if each.output_name == "design.md"), default=1)
                self._artifact(sender, "design", "design.md", max(0, newest - 1), b"late")
            case _:
                self._artifact(sender, "design", "design.md", 1, b"right", flaw=flaw)

    def _artifact(
        self,
        sender: str,
        task_id: str,
        name: str,
        seq: int,
        content: bytes,
        *,
        flat: bool = False,
        key: str | None = None,
        flaw: str = "",
    ) -> None:
        message_id = self.world.names.new("msg")
        path = name if flat else f"{message_id}/{name}"
        path = {"hidden": f".{message_id}", "outside": f"../{message_id}"}.get(flaw, path)
        if flaw not in {"missing", "outside"}:
            self.world.tree.put(sender, path, b"wrong" if flaw == "hash" else content)
        data = dumped(artifact(sender, task_id, name, seq, message_id, {path: sha256(content)}, key))
        if flaw == "outside":
            self.oracle.flawed[sha256(data)] = "PATH_OUTSIDE_FOLDER"
        self._send(sender, f"artifact_{message_id}.msg.json", data)

    def a_message_is_sent_again(self, which: int, soon: str) -> None:
        if not self.sent:
            return
        agent_id, plan_id, name, data = pick(self.sent, which)
        self._send(agent_id, name, data, plan_id)
        self._soon(soon)

    def a_damaged_message_is_sent(self, which: int, how: Damage, place: int) -> None:
        if not self.sent:
            return
        agent_id, plan_id, name, data = pick(self.sent, which)
        if data and len(data) < MIB:
            broken = damaged(data, how, place)
            if sha256(data) in self.oracle.flawed:
                self.oracle.flawed.setdefault(sha256(broken), self.oracle.flawed[sha256(data)])
            self._send(agent_id, name, broken, plan_id)

    # Control files.

    def a_receipt_is_written_by_hand(self, agent_id: str, which: int, status: str, foreign: bool, soon: str) -> None:
        known = sorted(
            self.books.messages[each.message].message_id
            for each in self.books.deliveries.values()
            if each.receiver == agent_id and each.plan_id == SHOP
        )
        self._receipt(agent_id, pick(known or ["msg_unknown"], which), status, "qa2" if foreign else agent_id)
        self._soon(soon)

    def _receipt(self, agent_id: str, message_id: str, status: str, consumer: str = "") -> None:
        if consumer in {"", agent_id}:
            self.receipted.add((message_id, agent_id))
        at = self.world.clock.now().isoformat().replace("+00:00", "Z")
        about = {"plan_id": SHOP, "message_id": message_id, "task_id": "build"}
        document = {**about, "consumer_agent_id": consumer or agent_id, "status": status, "consumed_at": at}
        self.world.put(agent_id, f"ack_{message_id}.json", dumped(document))

    def a_state_is_reported_by_hand(self, agent_id: str, task_id: str, state: str, stale: bool, foreign: bool) -> None:
        at = "2020-01-01T00:00:00Z" if stale else self.world.clock.now().isoformat().replace("+00:00", "Z")
        about = {"plan_id": SHOP, "task_id": task_id, "agent_id": "another" if foreign else agent_id}
        self.by_hand |= {task_id} if not stale and not foreign else set()
        self.world.put(agent_id, f"task_state_{task_id}.json", dumped({**about, "state": state, "updated_at": at}))

    def a_wrong_control_file_is_written(self, how: str, seq: int) -> None:
        match how:
            case "cut":
                self.world.put("qa", "ack_broken.json", b'{"plan_id": ')
            case "message":
                data = dumped(self._command("lead", SHOP, "build", seq))
                self.oracle.flawed[sha256(data)] = "SCHEMA_INVALID"
                self.world.put("lead", "ack_message.json", data)
            case "answer":
                document = {
                    "request_id": "request_nobody_made",
                    "responded_at": "2026-01-08T10:30:00Z",
                    "responder": {"name": "ann"},
                    "decision": "APPROVE",
                }
                self.world.put(GATEWAY, "human_intervention_response_x.json", dumped(document))
            case _:
                about = {"plan_id": SIDE, "task_id": "build", "agent_id": "qa"}
                report = {**about, "state": "READY", "updated_at": "2026-01-08T10:30:00Z"}
                self.world.put("qa", "task_state_build.json", dumped(report))

    # Plans, people, accidents.

    def the_plan_is_switched(self, version: int, torn: bool) -> None:
        self.world.put_dag(SHOP, DAGS[version], pointer=not torn)

    def a_missing_agent_comes(self) -> None:
        self.world.tree.agent("ghost")

    def the_clock_moves(self, seconds: int) -> None:
        self.world.clock.forward(seconds)

    def a_message_is_taken_out_of_an_inbox(self, agent_id: str, which: int, payloads: bool) -> None:
        found = sorted(self.world.inbox(agent_id).items())
        if found:
            self._take(agent_id, *pick(found, which), payloads=payloads)

    def _take(self, agent_id: str, name: str, data: bytes, *, payloads: bool) -> str:
        """Take a message out of an inbox by hand; its id, if it is one."""
        box = self.world.tree.box(agent_id, "inbox")
        (box / name).unlink()
        document = strict(data)
        if isinstance(document, str):
            return ""
        self.taken.add((document["message_id"], agent_id))
        for file in document["payload"].get("files", []) if payloads else []:
            if (box / file["path"]).exists() and self._whose(agent_id, file["path"]) == document["message_id"]:
                (box / file["path"]).unlink()
        return str(document["message_id"])

    def _whose(self, agent_id: str, path: str) -> str:
        """Whose payload lies under a path of an inbox: that of the message which was delivered and not claimed."""
        for each in self.books.deliveries.values():
            message = self.books.messages[each.message]
            files = json.loads(message.envelope)["payload"].get("files", [])
            if (each.receiver, each.state) == (agent_id, "delivered") and path in [file["path"] for file in files]:
                return message.message_id
        return ""

    def a_person_takes_a_message_and_leaves_a_receipt(self, which: int, status: str) -> None:
        found = sorted(self.world.inbox("qa").items())
        if found:
            message_id = self._take("qa", *pick(found, which), payloads=True)
            self._receipt("qa", message_id or "msg_unknown", status)

    def a_file_is_put_into_an_inbox(self, agent_id: str, how: str, which: int) -> None:
        mine = [each.message for each in self.books.deliveries.values() if each.receiver == agent_id]
        copies = [each for each in (self.books.messages[key] for key in mine) if each.plan_id == SHOP]
        if how in {"copy", "changed"}:
            if not copies:
                return
            data = pick(copies, which).envelope
            data = data if how == "copy" else damaged(data, "text", 0)
        elif how == "new":
            data = dumped(self._command("lead", SHOP, "build" if agent_id == "dev" else "design", 1 + which % 6))
        else:
            data = b'{"torn": ' if how == "broken" else b" " * (MIB + 1)
        box = self.world.tree.box(agent_id, "inbox")
        box.mkdir(parents=True, exist_ok=True)
        (box / ".putting").write_bytes(data)
        (box / ".putting").rename(box / f"by_hand_{self.world.names.new('n')}.msg.json")
        self.dropped.add(sha256(data))
        self.unbrought |= {sha256(data)} if how == "new" else set()

    def a_person_answers(self, which: int, decision: Literal["PROVIDE", "APPROVE", "REJECT"]) -> None:
        asked = [key for key, state in self.books.requests.items() if state == "open"]
        if not asked:
            return
        request_id = pick(asked, which)
        files = {"design.md": b"by hand"} if decision == "PROVIDE" else {}
        self._run(questions.answer(self.world.deps, request_id, by="ann", decision=decision, files=files))
        new = self._new_messages(self.world.books())
        assert len(new) == 1 + len(files)
        for message in new:
            assert message.producer == GATEWAY
            self.oracle.take(json.loads(message.envelope), message.sha256, "")
            self.oracle.sent[message.plan_id] += 1
        with pytest.raises(UsageError):
            self._run(questions.answer(self.world.deps, request_id, by="bob", decision="APPROVE"))

    def _run(self, work: Any) -> Any:
        return self.world.run(work)

    def a_dead_letter_is_replayed(self, which: int) -> None:
        """Often one that can be delivered by now, if there is one."""
        letters = [(each, self._verdict(each)) for each in self.books.dead.values()]
        better = [each for each in letters if each[1] and each[1].fate != "dead" and each[0].state == "open"]
        if not letters:
            return
        letter, verdict = pick(better if better and which % 3 else letters, which)
        plan = self.oracle.plan(letter.plan_id)
        data = self._original(letter)
        lying = Lying(letter.agent_id, letter.plan_id, letter.name, data)
        note(f"replay {letter} expecting {verdict}")
        try:
            done = self._run(dead_letters.replay(self.world.deps, letter.deadletter_id, by="ada"))
        except UsageError:
            known = (letter.plan_id, letter.message_id) in self.oracle.accepted
            over = letter.tries >= LIMITS.replays or letter.state == "replayed"
            assert verdict is None or known or over
            return
        assert letter.tries < LIMITS.replays
        assert plan is not None
        assert verdict is not None
        if done["ok"]:
            assert done["fate"] == verdict.fate
            self.oracle.note(lying, verdict, plan, again=True)
        else:
            assert done["code"] in verdict.codes | ({"ENVELOPE_PARSE_ERROR"} if len(data) > MIB else set())

    def _verdict(self, letter: Dead) -> Verdict | None:
        """What would become of a dead letter now; None when it cannot be replayed at all."""
        plan = self.oracle.plan(letter.plan_id)
        if plan is None or letter.box != "outbox" or not letter.is_message:
            return None
        data = self._original(letter)
        document = strict(data)
        files = [] if isinstance(document, str) else document.get("payload", {}).get("files", [])
        kept = read_blobs(self.world.root, {each["sha256"] for each in files})
        return self.oracle.judge(Lying(letter.agent_id, letter.plan_id, letter.name, data), plan, frozenset(kept))

    def everything_starts_again(self, killed: bool) -> None:
        before = self.world.books()
        self.world.close(killed=killed)
        self.world.open()
        after = self.world.books()
        if killed:
            assert after == before
        assert (after.messages, after.deliveries, after.dead) == (before.messages, before.deliveries, before.dead)
        assert (after.counts, after.requests, after.halted) == (before.counts, before.requests, before.halted)
        assert self._run(fsck.check_root(self.world.deps)) == []

    def an_attempt_speaks(self, which: int) -> None:
        if not self.world.player.spoken:
            return
        spoken = pick(self.world.player.spoken, which)
        attempt = spoken.caller.attempt
        assert attempt is not None
        row = self.books.tasks[spoken.task.plan_id, spoken.task.task_id]
        lives = (row.epoch, row.lease is not None) == (attempt.epoch, True)
        assert (self._run(access.identify(self.world.deps, spoken.token)) is not None) == lives
        if lives:
            self._run(self.world.player.say(spoken))
        else:
            with pytest.raises(AgentTalkError):
                self._run(self.world.player.say(spoken))

    # The parts at work.

    def the_router_passes(self) -> None:
        self._pass()

    def an_agent_looks(self, agent_id: str, mode: Mode) -> None:
        self._tick(agent_id, mode)

    def everybody_has_a_turn(self, mode: Mode) -> None:
        self._round(mode)

    def programs_that_hold_go_on(self) -> None:
        self.world.let_go()

    def _soon(self, soon: str) -> None:
        if soon == "pass":
            self._pass()
        elif soon:
            self._round("holds" if soon == "holds" else "good")
        if soon == "waits":
            self.everything_holds()
            self.world.clock.forward(61)
            self._round()

    def _round(self, mode: Mode = "good") -> None:
        self._pass()
        for agent_id in DRIVEN:
            self.everything_holds()
            self._tick(agent_id, mode)
        self.everything_holds()
        self._pass()

    def _pass(self) -> None:
        """A pass, foretold by the oracle and compared with what was done."""
        before, seen = self.world.books(), self.world.look()
        files = lying_in(self.world.root)
        judged: list[tuple[Lying, Verdict]] = []
        controls: list[tuple[Lying, frozenset[str | None]]] = []
        for plan_id in sorted({each.plan_id for each in files}):
            plan = self.oracle.plan(plan_id)
            mine = [each for each in files if each.plan_id == plan_id]
            if plan is None:
                continue
            messages = [each for each in mine if each.name.endswith(".msg.json")]
            for each in self.oracle.in_order(messages[: LIMITS.messages_per_pass]):
                verdict = self.oracle.judge(each, plan)
                self.oracle.note(each, verdict, plan)
                judged.append((each, verdict))
            controls += [(each, self.oracle.control(each, before)) for each in mine if each not in messages]
        report = self.world.pass_()
        assert report.problems == []
        after = self.world.books()
        self._compare_fates(judged, before, after)
        self._compare_letters(judged, controls, before, after)
        fates = Counter(verdict.fate for _, verdict in judged)
        assert (report.accepted, report.superseded) == (fates["accepted"], fates["superseded"])
        assert report.duplicate == fates["duplicate"]
        for each, verdict in judged:
            where = ".rejected" if verdict.fate == "dead" else ".sent"
            self.gone[where][each.agent_id, each.plan_id, each.sha256] += 1
        for where, expected in self.gone.items():
            assert self.world.put_away(where) == expected  # type: ignore[arg-type]
        waiting = Counter(each for each in lying_in(self.world.root) if not _stays(each))
        left = Counter(files) - Counter(each for each, _ in [*judged, *controls])
        assert waiting == Counter({each: count for each, count in left.items() if not _stays(each)})
        self._router_stays_in_its_folders(seen)

    @staticmethod
    def _compare_fates(judged: list[tuple[Lying, Verdict]], before: Books, after: Books) -> None:
        """What the oracle said is in the store, and nothing else."""
        new = {each: key for key, each in after.messages.items() if key not in before.messages}
        expected = {}
        for lying, verdict in judged:
            if verdict.fate in {"accepted", "superseded"}:
                expected[lying.plan_id, json.loads(lying.data)["message_id"]] = (lying, verdict)
        assert {(each.plan_id, each.message_id) for each in new} == expected.keys()
        for message, key in new.items():
            lying, verdict = expected[message.plan_id, message.message_id]
            receivers = {each.receiver for each in after.deliveries.values() if each.message == key}
            assert bytes(message.envelope) == lying.data
            assert (message.state == "superseded") == (verdict.fate == "superseded")
            assert receivers == verdict.targets
        for key, delivery in before.deliveries.items():
            recalled = after.deliveries[key].state == "superseded" and delivery.state in OPEN
            if recalled:  # what ran has failed, what nobody took is just gone
                assert after.deliveries[key].ack == ("FAILED" if delivery.state == "claimed" else None)

    def _compare_letters(
        self,
        judged: list[tuple[Lying, Verdict]],
        controls: list[tuple[Lying, frozenset[str | None]]],
        before: Books,
        after: Books,
    ) -> None:
        """Every refusal has its dead letter with the whole original and one of the codes that fit."""
        new = {
            (each.agent_id, each.plan_id, each.name): each for key, each in after.dead.items() if key not in before.dead
        }
        allowed = [(lying, verdict.codes or {None}) for lying, verdict in judged] + [*controls]
        for lying, codes in allowed:
            letter = new.pop((lying.agent_id, lying.plan_id, lying.name), None)
            assert (letter.code if letter else None) in codes, (lying.name, letter)
            if letter:
                assert self._original(letter) == lying.data
                folder = self.world.root / "system_runtime" / "deadletter" / letter.plan_id
                shown = json.loads((folder / f"{letter.deadletter_id}.json").read_bytes())
                assert shown["reason"]["code"] == letter.code
                assert (folder / f"{letter.deadletter_id}.original").read_bytes() == lying.data
        assert new == {}, new

    def _original(self, letter: Dead) -> bytes:
        assert letter.original is not None
        data = read_blobs(self.world.root, {letter.original})[letter.original]
        assert sha256(data) == letter.original
        return data

    def _router_stays_in_its_folders(self, seen: Look) -> None:
        for path in changed(seen, self.world.look()):
            parts = path.split("/")
            assert parts[1] in {"agents", "system_runtime"}, path
            if parts[1] == "agents":
                assert parts[3] in {"inbox", "outbox"}, path
                assert parts[5] not in {".pending", ".processed", ".deadletter"}, path
            assert parts[-1] not in {"task_dag.json", "active_dag_ref.json"}, path

    def _tick(self, agent_id: str, mode: Mode) -> None:
        """One look of an agent; it writes nowhere but in its own folder."""
        before, seen = self.world.books(), self.world.look()
        tick = self.world.tick(agent_id, mode)
        assert tick.errors == []
        assert tick.claimed <= 2 * LIMITS.new_messages_per_tick
        for path in changed(seen, self.world.look()):
            assert path.startswith(f"root/agents/{agent_id}/"), path
        after = self.world.books()
        for message in self._new_messages(after):
            assert message.sha256 in self.dropped
            document = json.loads(message.envelope)
            self.oracle.take(document, message.sha256, document["payload"]["command"]["dag_ref"]["sha256"])
            self.oracle.sent[message.plan_id] += 1
        known = self.dropped | {each.sha256 for each in after.messages.values()}
        for key in after.dead.keys() - before.dead.keys():
            letter = after.dead[key]
            assert (letter.box, letter.agent_id) == ("inbox", agent_id)
            assert sha256(self._original(letter)) in known

    def _new_messages(self, books: Books) -> list[Any]:
        known = self.oracle.accepted
        return [each for each in books.messages.values() if (each.plan_id, each.message_id) not in known]

    # What holds after every step.

    @invariant()
    def everything_holds(self) -> None:
        self.old, self.books = self.books, self.world.books()
        self._the_sums_agree()
        self._states_agree()
        self._only_legal_steps_were_made()
        self._leases_are_single()
        self._only_the_newest_order_is_open()
        self._nothing_torn_is_visible()
        self._dead_letters_are_whole()
        assert look(self.world.place / "beside") == self.canary
        assert {path.name for path in self.world.place.iterdir()} == {"root", "beside"}

    def _the_sums_agree(self) -> None:
        books = self.books
        assert self.oracle.accepted == {
            (each.plan_id, each.message_id): each.sha256 for each in books.messages.values()
        }
        for plan_id, counts in books.counts.items():
            states = Counter(each.state for each in books.messages.values() if each.plan_id == plan_id)
            buried = sum(
                (each.plan_id, each.state, each.box, each.is_message) == (plan_id, "open", "outbox", True)
                for each in books.dead.values()
            )
            assert counts.delivered == states["delivered"]
            assert counts.superseded == states["superseded"]
            assert counts.dead == buried
            assert counts.duplicate == self.oracle.duplicates[plan_id]
            assert counts.sent == self.oracle.sent[plan_id]
            assert counts.sent == sum(counts[1:]) + states["stored"]

    def _states_agree(self) -> None:
        books = self.books
        under_way: Counter[int] = Counter()
        for each in books.deliveries.values():
            assert each.ack in RECEIPTS[each.state]
            under_way[each.message] += each.stored_at is None and each.state != "superseded"
        for key, message in books.messages.items():
            if message.state != "superseded":
                assert (message.state == "stored") == (under_way[key] > 0)

    def _only_legal_steps_were_made(self) -> None:
        old, new = self.old, self.books
        for key, message in old.messages.items():
            now = new.messages[key]
            assert now._replace(state=message.state) == message
            assert now.state == message.state or now.state in MESSAGE_STEPS[message.state]
        for key, delivery in old.deliveries.items():
            then = new.deliveries[key]
            assert (then.message, then.receiver) == (delivery.message, delivery.receiver)
            assert then.state == delivery.state or then.state in DELIVERY_STEPS[delivery.state]
            assert then.ack == delivery.ack or then.ack in RECEIPT_STEPS.get(delivery.ack, set())
        for name, letter in old.dead.items():
            assert new.dead[name]._replace(tries=letter.tries, state=letter.state) == letter
            assert new.dead[name].tries >= letter.tries
            assert letter.state == "open" or new.dead[name].state == "replayed"
        for name, request in old.requests.items():
            assert request == "open" or new.requests[name] == "answered"
        for place, task in new.tasks.items():
            self._task_step_is_legal(place, old.tasks[place].state if place in old.tasks else "PENDING", task.state)

    def _task_step_is_legal(self, place: tuple[str, str], was: str, state: str) -> None:
        """A task ends with a receipt of one of its commands, and is taken up again by a command alone."""
        if state == was:
            return
        assert was != "SKIPPED"
        old, new = self.old, self.books
        moved = [
            each
            for key, each in new.deliveries.items()
            if (self.books.messages[each.message].plan_id, self.books.messages[each.message].task_id) == place
            and self.books.messages[each.message].type == "command"
            and (key not in old.deliveries or old.deliveries[key] != each)
        ]
        if state in ENDED:
            assert any(each.ack == ENDED[state] for each in moved)
        if was in ENDED:
            leased = place in old.tasks and new.tasks[place].epoch > old.tasks[place].epoch
            waiting = new.tasks[place].delivery != old.tasks[place].delivery
            assert moved or leased or waiting, f"{place} went from {was} to {state}"

    def _leases_are_single(self) -> None:
        assert self.world.player.faults == []
        busy: Counter[str] = Counter()
        for place, task in self.books.tasks.items():
            before = self.old.tasks.get(place)
            assert before is None or task.epoch >= before.epoch
            if task.lease is None:
                assert (task.owner, task.token) == (None, None)
                continue
            assert task.state == "RUNNING"
            assert task.delivery is not None
            busy[self.books.deliveries[task.delivery].receiver] += 1
            if before and before.lease not in {None, task.lease}:
                assert task.epoch > before.epoch
        assert all(count == 1 for count in busy.values())

    def _only_the_newest_order_is_open(self) -> None:
        newest: dict[tuple[str, str, str], int] = {}
        orders = [each for each in self.books.messages.items() if each[1].type == "command"]
        for _, each in orders:
            place = (each.plan_id, each.task_id, each.dag_sha256)
            newest[place] = max(newest.get(place, 0), each.seq)
        for delivery in self.books.deliveries.values():
            message = self.books.messages[delivery.message]
            if message.type == "command" and delivery.state in OPEN:
                assert message.seq == newest[message.plan_id, message.task_id, message.dag_sha256]

    def _nothing_torn_is_visible(self) -> None:
        books = self.books
        expected: dict[tuple[str, str], set[str]] = {}
        leaving: set[str] = set()
        for each in books.deliveries.values():
            message = books.messages[each.message]
            if each.state == "superseded" and each.shown == "delivered":  # the next pass takes it back
                leaving.add(message.sha256)
            if each.state != "delivered" or each.shown != "delivered":
                continue
            expected.setdefault((each.receiver, each.plan_id), set()).add(message.sha256)
            if message.type == "artifact" and (message.message_id, each.receiver) not in self.taken:
                box = self.world.tree.box(each.receiver, "inbox", each.plan_id)
                for file in json.loads(message.envelope)["payload"]["files"]:
                    assert sha256((box / file["path"]).read_bytes()) == file["sha256"]
        for box in (self.world.root / "agents").glob("*/inbox/*"):
            place = (box.parent.parent.name, box.name)
            found = {sha256(data) for data in self.world.inbox(*place).values()}
            wanted = expected.pop(place, set())
            # A person may leave a receipt and the file in its place.
            assert found <= wanted | leaving | self.dropped | self._hashes(self.receipted, place[0])
            assert wanted - found <= self._hashes(self.taken, place[0])
        assert expected == {}

    def _hashes(self, handled: set[tuple[str, str]], receiver: str) -> set[str]:
        return {each.sha256 for each in self.books.messages.values() if (each.message_id, receiver) in handled}

    def _dead_letters_are_whole(self) -> None:
        for key in self.books.dead.keys() - self.old.dead.keys():
            letter = self.books.dead[key]
            assert letter.code
            assert letter.reason
            self._original(letter)

    # The end.

    def _settle(self) -> None:
        """Everything that can still happen happens; then everything is accounted for, also after a restart."""
        self.world.put_dag(SHOP, DAGS[0])
        self.world.put_dag(SIDE, SIDE_DAG)
        self.world.let_go()
        self.everything_holds()
        self.everything_starts_again(killed=False)
        for message_id, agent_id in sorted(self.taken - self.receipted):
            if agent_id not in DRIVEN:  # whoever takes a message and leaves its files says at last that he has it
                self._receipt(agent_id, message_id, "SUCCEEDED")
        for _ in range(ROUNDS):
            before = self._outside()
            for agent_id in ("qa", "ghost"):
                for name, data in self.world.inbox(agent_id).items():
                    message_id = self._take(agent_id, name, data, payloads=True)
                    self._receipt(agent_id, message_id or "msg_unknown", "SUCCEEDED")
            self._round()
            self.everything_holds()
            if self._outside() == before:
                break
        else:
            raise AssertionError(f"it does not come to rest in {ROUNDS} rounds")
        self._nothing_is_left_over()
        self._everything_was_logged()
        self._the_same_again_changes_nothing()
        assert self._run(fsck.check_root(self.world.deps)) == []

    def _outside(self) -> tuple[Any, ...]:
        books = self.world.books()
        return books.messages, books.deliveries, books.dead, books.tasks, books.requests, lying_in(self.world.root)

    def _nothing_is_left_over(self) -> None:
        books = self.books
        assert {each.plan_id for each in lying_in(self.world.root) if not _stays(each)} <= {NOWHERE}
        assert (books.handovers, books.leavings) == (0, 0)
        assert not any(each.state == "stored" for each in books.messages.values())
        for each in books.deliveries.values():
            message = books.messages[each.message]
            if each.receiver in DRIVEN and each.state in OPEN:
                waits = books.tasks[each.plan_id, message.task_id].state
                assert (each.state, message.type) == ("claimed", "command")
                said = each.plan_id == SHOP and message.task_id in self.by_hand
                assert said or waits in {"BLOCKED_WAITING_INPUT", "BLOCKED_WAITING_HUMAN"}, message.message_id
        for agent_id in DRIVEN:
            assert {sha256(data) for data in self.world.inbox(agent_id).values()} <= self.unbrought

    def _everything_was_logged(self) -> None:
        """What was delivered and what was taken back or skipped stands in the journal, nothing twice."""
        for plan_id in (SHOP, SIDE):
            lines = self.world.tree.journal(plan_id)
            arrived = Counter(
                (each["message_id"], each.get("to_agent_id")) for each in lines if each["status"] == "DELIVERED"
            )
            assert all(count == 1 for count in arrived.values())
            skipped = {each["message_id"] for each in lines if each["status"] == "SKIPPED_SUPERSEDED"}
            for message in self.books.messages.values():
                if message.plan_id == plan_id and message.state == "superseded" and message.sha256 not in self.dropped:
                    assert message.message_id in skipped

    def _the_same_again_changes_nothing(self) -> None:
        """Every message that was accepted comes again, and is a duplicate, however long ago it was."""
        again = 0
        for agent_id, plan_id, name, data in list(self.sent):
            document = strict(data)
            name_of_it = "" if isinstance(document, str) else document.get("message_id", "")
            if self.oracle.accepted.get((plan_id, name_of_it)) == sha256(data):
                self.world.put(agent_id, name, data, plan_id)
                again += 1
        self.world.clock.forward(10**8)
        before = self.books
        while any(each.plan_id != NOWHERE and not _stays(each) for each in lying_in(self.world.root)):
            self._pass()
            self.everything_holds()
        assert (self.books.messages, self.books.deliveries) == (before.messages, before.deliveries)
        assert (self.books.dead, self.books.tasks) == (before.dead, before.tasks)
        assert sum(each.duplicate for each in self.books.counts.values()) == again + sum(
            each.duplicate for each in before.counts.values()
        )


class Orders(Traffic):
    """Commands and little else, so that a planted fault is met soon."""

    @rule(happens=weighed(FEW))
    def step(self, happens: Act) -> None:
        name, fields = happens
        getattr(self, name)(**fields)


@pytest.mark.random
@pytest.mark.shows("M04", "M07", "M08", "M11", "M15")
def test_the_invariants_hold_under_any_traffic() -> None:
    run_state_machine_as_test(Traffic, settings=tried(cases(12), 40, Phase.generate, Phase.shrink))


# What it found once, in short.


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    world.pass_()
    yield world
    world.let_go()
    world.remove()


def ordered(world: World, task_id: str) -> None:
    """A command in the lead's outbox."""
    data = dumped(command("lead", SHOP, task_id, 1, f"msg_{task_id}_1", world.tree.dags[SHOP]))
    world.put("lead", f"cmd_{task_id}_001.msg.json", data)


def test_a_control_file_is_never_replayed_as_a_message(world: World) -> None:
    data = dumped(command("lead", SHOP, "build", 1, "msg_1", world.tree.dags[SHOP]))
    world.put("lead", "ack_message.json", data)
    world.pass_()
    [letter] = world.books().dead
    with pytest.raises(UsageError):
        world.run(dead_letters.replay(world.deps, letter, by="ada"))
    assert world.books().counts[SHOP] == (0, 0, 0, 0, 0)


def test_a_receipt_by_hand_does_not_end_a_task_that_runs(world: World) -> None:
    ordered(world, "build")
    world.pass_()
    world.tick("dev", "holds")
    about = {"plan_id": SHOP, "message_id": "msg_build_1", "task_id": "build", "consumer_agent_id": "dev"}
    receipt = {**about, "status": "SUCCEEDED", "consumed_at": "2026-01-08T10:30:00Z"}
    (world.tree.box("dev", "outbox") / "ack_msg_build_1.json").write_bytes(dumped(receipt))
    world.pass_()
    task = world.books().tasks[SHOP, "build"]
    assert (task.state, task.lease is not None) == ("RUNNING", True)
    assert world.run(fsck.check_root(world.deps)) == []


def test_a_task_that_changes_hands_while_it_runs_is_no_fault(world: World) -> None:
    ordered(world, "build")
    world.pass_()
    world.tick("dev", "holds")
    world.put_dag(SHOP, DAGS[1])
    ordered(world, "design")
    world.pass_()
    world.tick("pm", "holds")
    assert world.run(fsck.check_root(world.deps)) == []


def test_a_newer_command_that_nobody_brought_takes_nobodys_place(world: World) -> None:
    """It lies in the inbox of the task's former agent, and no router says that it brought it there."""
    world.put_dag(SHOP, DAGS[1])
    ordered(world, "build")
    world.pass_()
    data = dumped(command("lead", SHOP, "build", 2, "msg_elsewhere", world.tree.dags[SHOP]))
    box = world.tree.box("dev", "inbox")
    box.mkdir(parents=True)
    (box / "cmd_build_002.msg.json").write_bytes(data)
    world.tick("dev", "holds")
    world.pass_()
    [delivery] = world.books().deliveries.values()
    assert (delivery.receiver, delivery.state, delivery.ack) == ("pm", "delivered", None)
    told = [each["status"] for each in world.tree.journal(SHOP) if each["message_id"] == "msg_build_1"]
    assert told == ["DELIVERED"]
    assert (box / "cmd_build_002.msg.json").exists()


def _stays(file: Lying) -> bool:
    """Receipts and states lie where their agents look for them."""
    return file.name.startswith(("ack_", "task_state_"))


def plant_no_duplicates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every message is new, whatever came before."""
    monkeypatch.setattr(routes, "check_duplicate", lambda *_: "new")


def plant_no_supersession(monkeypatch: pytest.MonkeyPatch) -> None:
    """An older order is as good as a newer one."""
    monkeypatch.setattr(routes, "is_superseded", lambda *_: False)


def plant_no_recall(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a newer order replaces stays in the inbox."""
    monkeypatch.setattr(recall, "recall", lambda *_: None)


def plant_no_recovery(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody ends the leases of the dead."""

    async def recover(*_: object) -> recovery.RecoveryResult:
        return recovery.RecoveryResult()

    monkeypatch.setattr(recovery, "end_orphaned_commands", recover)


PLANTED: Final = [plant_no_duplicates, plant_no_supersession, plant_no_recall, plant_no_recovery]


@pytest.mark.rest
@pytest.mark.parametrize("plant", PLANTED)
def test_a_planted_fault_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(Orders, settings=tried(60, 20, Phase.generate))
