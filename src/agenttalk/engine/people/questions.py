"""The human gateway: questions reach a person, and the answer becomes messages to the agents that wait.

An answer is bound to the hash of what was asked, and recorded with the proof that a person gave it: the
session of a page, a token, or the operator's own folder. No agent's outbox can answer. The gateway's outbox can if the
operator switched that on; then nothing proves that a person wrote there.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple, NotRequired, TypedDict

from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.core.wire import JsonObject
from agenttalk.contracts.dag import EVERYONE
from agenttalk.contracts.envelope import ArtifactEnvelope, CommandEnvelope
from agenttalk.contracts.errors import Code, ContractError, UsageError
from agenttalk.contracts.human import HumanInterventionRequest, HumanInterventionResponse
from agenttalk.engine.core import boards, cursors, outbox_writer, plan_settings, profiles, records
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.people import dispute_rows
from agenttalk.ports.statements.inbox import FINISH_DELIVERY, KNOWN_DELIVERY, ORDER_OF, STOP_WAITING
from agenttalk.ports.statements.messages import ADD_DELIVERY, ADD_MESSAGE, SET_TASK_STATE, TASK
from agenttalk.ports.statements.people import ADD_REQUEST, ANSWER_REQUEST, OPEN_REQUESTS, REQUEST, RequestRow
from agenttalk.ports.statements.plans import ADD_ARRIVED_ARTIFACT, ENGINE_TASK, NOTE_REQUEST, RUN
from agenttalk.ports.storage import Store, Tx, Value
from agenttalk.rules.messages.routes import Rejection
from agenttalk.rules.people import choices
from agenttalk.rules.people.attestation import UNKNOWN, AnswerProof, list_exposed_agents, read_proof
from agenttalk.rules.text import question_words, task_words
from agenttalk.rules.text.catalogue import to_columns, with_messages

AnswerDecision = Literal["PROVIDE", "APPROVE", "REJECT", "ABORT"]
ANSWER_OUTPUT: Final = "human_answer"
"""The output under which the answer itself reaches the agent that asked."""
_DISPUTED: Final = "answer upheld or dismissed"
PAGE: Final = 100
LONGEST_PAGE: Final = 500
_ANY_TIME: Final = "2026-01-01T00:00:00Z"


class QuestionFile(TypedDict):
    """A file that a person is asked for."""

    name: str
    deliver_to_agent_id: NotRequired[str]
    description: NotRequired[str | None]


class QuestionChoice(TypedDict):
    """One way to decide."""

    key: str
    label: str
    impact: NotRequired[str]


class QuestionDecision(TypedDict):
    """A decision that a person is asked for."""

    question: str
    options: NotRequired[Sequence[QuestionChoice]]


class NeededAnswer(TypedDict, total=False):
    """The files or the decision that an answer has to bring."""

    files: Sequence[QuestionFile]
    decision: QuestionDecision
    criteria: Any
    """The facts that people should know to answer it."""


class QuestionAuthor(TypedDict):
    """The agent that asks, and for what."""

    agent_id: str
    task_id: NotRequired[str]
    command_id: NotRequired[str]


class QuestionView(TypedDict):
    """A question to people, with its answer once there is one."""

    board: str
    plan_id: str
    state: str
    asked_at: str
    sha256: str
    request: JsonObject
    response: JsonObject | None
    answered_by: str | None
    proof: AnswerProof | None


@dataclass(frozen=True, slots=True)
class HumanQuestion:
    """A question, as it is shown to people."""

    board: str
    request_id: str
    plan_id: str
    task_id: str | None
    agent_id: str
    sha256: str
    at: str
    state: str
    document: HumanInterventionRequest
    response: JsonObject | None
    answered_by: str | None
    proof: AnswerProof | None = None

    def as_json(self) -> QuestionView:
        """Return the question for programs."""
        proof: Any = self.proof.as_json() if self.proof is not None else None
        return {
            "board": self.board,
            "plan_id": self.plan_id,
            "state": self.state,
            "asked_at": self.at,
            "sha256": self.sha256,
            "request": self.document.as_json(),
            "response": self.response,
            "answered_by": self.answered_by,
            "proof": proof,
        }

    def has_same_answer(
        self, by: str, decision: AnswerDecision, files: Mapping[str, bytes], answers: Sequence[Any], notes: str | None
    ) -> bool:
        """Whether the same person gave exactly this answer."""
        response = self.response or {}
        provided = {file["name"]: file["sha256"] for file in response.get("provided_files", [])}
        return (
            self.answered_by == by
            and response.get("decision") == decision
            and provided == {name: wire.sha256(data) for name, data in files.items()}
            and list(response.get("decision_answers", [])) == list(answers)
            and response.get("notes") == (notes or None)
        )


def ask(tx: Tx, request: HumanInterventionRequest, *, plan_id: str, at: str) -> bool:
    """Put a question to a person. The same question is put once."""
    body = request.as_json()
    data = wire.write(body)
    new = tx.run(
        ADD_REQUEST,
        request_id=request.request_id,
        plan_id=plan_id,
        task_id=request.created_by.task_id,
        agent_id=request.created_by.agent_id,
        body=data,
        sha256=wire.sha256(data),
        at=at,
    )
    if new:
        name = f"human_intervention_request_{request.request_id}.json"
        records.publish_file(tx, f"plans/{plan_id}/human_requests/{name}", body)
        records.publish_file(tx, f"{root_layout.box_folder(root_layout.GATEWAY, 'inbox', plan_id)}/{name}", body)
        tx.record("human.asked", request.request_id, {"plan_id": plan_id, "sha256": wire.sha256(data)})
    return bool(new)


def close(tx: Tx, request_id: str, why: str, *, at: str) -> None:
    """Close a question whose answer is not needed any more. This is recorded as an answer of the engine."""
    [row] = tx.run(REQUEST, request_id=request_id)
    response = HumanInterventionResponse.from_json(
        {
            "schema_version": "1.0",
            "request_id": request_id,
            "responded_at": records.format_time(at),
            "responder": {"name": "engine", "role": "system"},
            "decision": "ABORT",
            "notes": why,
        }
    )
    _settle(tx, response, row.plan_id, by="engine", bound=row.sha256, at=at, proof=AnswerProof("engine"))


def read_request(row: RequestRow) -> HumanInterventionRequest:
    """Read a question from its row (the query `find_question`)."""
    return HumanInterventionRequest.from_bytes(bytes(row.body))


def is_asked(tx: Tx, request: HumanInterventionRequest, *, plan_id: str) -> bool:
    """Whether this very question was put before in this plan, and no other under its id."""
    rows = tx.run(REQUEST, request_id=request.request_id)
    asked = wire.sha256(wire.write(request.as_json()))
    return any(row.plan_id == plan_id and row.sha256 == asked for row in rows)


def make_choices(options: Iterable[str]) -> list[QuestionChoice]:
    """Return ways to decide, each with its label."""
    return [{"key": option, "label": question_words.label_option(option)} for option in options]


def new_request(
    request_id: str,
    kind: str,
    title: str,
    needed: NeededAnswer,
    *,
    author: QuestionAuthor,
    now: str,
    plan_id: str | None = None,
    severity: str = "HIGH",
    blocking: bool = True,
) -> HumanInterventionRequest:
    """Make a question to people; `needed` is what an answer has to bring. A message stands beside its text."""
    body = {
        "schema_version": "1.0",
        "request_id": request_id,
        "created_at": records.format_time(now),
        "created_by": author,
        "severity": severity,
        "type": kind,
        "title": title,
        "blocking": blocking,
        "needed": needed,
    }
    body |= {"plan_id": plan_id} if plan_id else {}
    return HumanInterventionRequest.from_json(with_messages(body))


def ask_own(tx: Tx, request: HumanInterventionRequest, *, plan_id: str, at: str) -> str:
    """Ask a question of the engine's own, and return its id. The same question is put once.

    Its id follows from its subject, so another party that knows it can ask another question under that id first. Then
    ours gets another id: an answer counts only for the words that were shown.
    """
    wanted = request.request_id
    for number in itertools.count(1):
        if ask(tx, request, plan_id=plan_id, at=at) or _says_the_same(tx, request, plan_id):
            break
        request = request.model_copy(update={"request_id": records.derive_id("req", f"{wanted}/{number}")})
    return request.request_id


def _says_the_same(tx: Tx, request: HumanInterventionRequest, plan_id: str) -> bool:
    """Whether the question with this id has the same words; the time it was put at does not matter."""
    row = tx.run(REQUEST, request_id=request.request_id)[0]
    known: Any = wire.read(bytes(row.body))
    asked: Any = wire.read(wire.write(request.as_json()))
    return bool(row.plan_id == plan_id and {**known, "created_at": None} == {**asked, "created_at": None})


async def is_spent(board: Store, request_id: str, *, plan_id: str) -> bool:
    """Whether a question was answered, and the agent that asked has worked through all that the answer sent to it."""
    rows = await board.read(REQUEST, request_id=request_id)
    if not rows or rows[0].state == "open" or rows[0].response is None:
        return False
    asker, response = rows[0].agent_id, HumanInterventionResponse.from_bytes(rows[0].response)
    files = [file.name for file in response.provided_files if file.deliver_to_agent_id in {None, asker}]
    sent = [(f"{request_id}/answer", ANSWER_OUTPUT), *((f"{request_id}/file", name) for name in files)]
    for key, output in sent:
        message_id = records.derive_id("msg", f"{key}/{output}/{asker}")
        found = await board.read(KNOWN_DELIVERY, plan_id=plan_id, message_id=message_id, receiver=asker)
        if not found or found[0].state not in {"processed", "dead"}:
            return False
    return True


class QuestionPage(NamedTuple):
    """A page of open questions, and where the next page begins."""

    requests: list[HumanQuestion]
    next: str | None


async def read_page(deps: Deps, *, after: str = "", limit: int = PAGE) -> QuestionPage:
    """List open questions, the oldest first, from a cursor on. Raises UsageError when the cursor is invalid."""
    match cursors.decode(after) if after else ["", ""]:
        case [str() as at, str() as name]:
            place = {"at": at.replace("\0", ""), "request_id": name.replace("\0", "")}
        case _:
            raise cursors.make_cursor_error()
    size = max(1, min(limit, LONGEST_PAGE))
    found = [
        _request(board.name, row)
        for board in await boards.list_boards(deps)
        for row in await board.read(OPEN_REQUESTS, **place, limit=size + 1)
    ]
    found.sort(key=lambda each: (each.at, each.request_id))
    last = found[size - 1] if len(found) > size else None
    return QuestionPage(found[:size], cursors.encode([last.at, last.request_id]) if last else None)


async def list_open(deps: Deps) -> list[HumanQuestion]:
    """List all open questions, the oldest first."""
    found: list[HumanQuestion] = []
    place: str | None = ""
    while place is not None:
        some, place = await read_page(deps, after=place, limit=LONGEST_PAGE)
        found += some
    return found


async def find_question(deps: Deps, request_id: str) -> tuple[Store, HumanQuestion]:
    """Return a question, open or answered. Raises UsageError when it is not there."""
    for board in await boards.list_boards(deps):
        rows = await board.read(REQUEST, request_id=request_id)
        if rows:
            return board, _request(board.name, rows[0])
    raise UsageError(Code.NAME_UNKNOWN, f"there is no request {request_id!r}", hint="'agenttalk inbox' lists them")


def _request(board: str, row: RequestRow) -> HumanQuestion:
    document = HumanInterventionRequest.from_bytes(bytes(row.body))
    answer: Any = wire.read(bytes(row.response)) if row.response else None
    shown = proof_from_row(row) if row.proof else None
    return HumanQuestion(
        board,
        row.request_id,
        row.plan_id,
        row.task_id,
        row.agent_id,
        row.sha256,
        row.at,
        row.state,
        document,
        answer,
        row.answered_by,
        shown,
    )


def proof_from_row(row: RequestRow) -> AnswerProof:
    """Return the proof that a person answered a question, from its row (the query `find_question`)."""
    return read_proof(wire.read(wire.encode(row.proof)) if row.proof else None)


async def answer(
    deps: Deps,
    request_id: str,
    *,
    by: str,
    proof: AnswerProof = UNKNOWN,
    decision: AnswerDecision,
    files: Mapping[str, bytes] | None = None,
    answers: Sequence[Any] = (),
    notes: str | None = None,
    seen_sha256: str | None = None,
) -> JsonObject:
    """Answer a question once, in a person's name. Raises UsageError when the answer does not fit the question.

    `proof` shows that a person answered; whether an agent could have done so instead is found out here.
    """
    board, asked = await find_question(deps, request_id)
    if seen_sha256 is not None and seen_sha256 != asked.sha256:
        raise _refused(request_id, "it is not the request that was shown", "look at it again with 'agenttalk inbox'")
    if decision == "PROVIDE" and not files and not answers and not notes:
        raise _refused(request_id, "PROVIDE without a file, an answer or a note provides nothing", "give one of them")
    blobs = await deps.stores.blobs(board.name)
    hashes = {name: await blobs.put(data) for name, data in (files or {}).items()}
    receivers = {need.name: need.deliver_to_agent_id for need in asked.document.needed.files}
    response = HumanInterventionResponse.from_json(
        {
            "schema_version": "1.0",
            "request_id": request_id,
            "responded_at": deps.stamp(),
            "responder": {"name": by, "role": "operator"},
            "decision": decision,
            "provided_files": [
                {"name": name, "sha256": sha256, "deliver_to_agent_id": receivers.get(name) or asked.agent_id}
                for name, sha256 in hashes.items()
            ],
            "decision_answers": _meant(asked.document, answers),
            **({"notes": notes} if notes else {}),
        }
    )
    at = deps.stamp()
    of_engine = bool(await board.read(RUN, plan_id=asked.plan_id))  # the engine runs it, so its agents need no folders
    if unfit := _unfit(response, asked.plan_id, None if of_engine else profiles.list_agents(deps.root)):
        raise _refused(request_id, unfit.message, "give each file a plain name, once, and name agents that exist")

    def work(tx: Tx) -> None:
        if lacking := _without_files(tx, asked.document, asked.plan_id, response):
            raise _refused(request_id, lacking, "--file NAME=PATH gives one; --decision REJECT gives the task up")
        if unclear := _unclear(tx, asked.document, asked.plan_id, response):
            raise _refused(request_id, unclear, f"answer one of: {', '.join(_offered(asked.document))}")
        if dispute_rows.find_outcome(tx, response, by=by) == (True, None):
            raise _refused(request_id, "it asks whether a check is wrong", _DISPUTED)
        shown = replace(proof, isolated=not exposed_agents(tx, deps, asked.plan_id))
        if not _settle(tx, response, asked.plan_id, by=by, bound=seen_sha256, at=at, proof=shown):
            raise _refused(request_id, "it was answered before", "'agenttalk inbox' shows what is still open")

    await board.transact(work)
    return response.as_json()


def _refused(request_id: str, why: str, hint: str) -> UsageError:
    return UsageError(Code.ANSWER_REFUSED, f"request {request_id!r} is not answered: {why}", hint=hint)


def _offered(document: HumanInterventionRequest) -> list[str]:
    """List the decisions that a question offers; none where other words may be an answer, too."""
    decision = document.needed.decision
    if decision is None or document.type == "REEXECUTE_LIMIT":  # `rework_decisions` reads any answer
        return []
    return [each.key for each in decision.options]


def _meant(document: HumanInterventionRequest, answers: Sequence[Any]) -> list[Any]:
    """Match answers to the options of the question. An answer that is not one of them stays as it was given."""
    offered = _offered(document)
    return [(choices.find_option(offered, str(each)) or each) if offered else each for each in answers]


def _without_files(
    tx: Tx, document: HumanInterventionRequest, plan_id: str, response: HumanInterventionResponse
) -> str | None:
    """Return why an answer is not enough: a task waits for files, and the answer brings none of them."""
    if document.type != "MISSING_FILE" or response.decision in {"REJECT", "ABORT"}:
        return None
    names = [each.name for each in document.needed.files]
    brings = {each.name for each in response.provided_files}
    if not brings.isdisjoint(names) or not tx.run(RUN, plan_id=plan_id) or not _decides(tx, document, plan_id):
        return None  # the agent of a foreign plan gets the answer, and asks again
    return f"the task cannot run without {', '.join(names)}"


def _unclear(
    tx: Tx, document: HumanInterventionRequest, plan_id: str, response: HumanInterventionResponse
) -> str | None:
    """Return why an answer does not choose one of the options. An unknown word decides nothing.

    An agent that asked may use a note; a task that waits for the decision cannot.
    """
    offered = _offered(document)
    chosen = [str(each) for each in response.decision_answers]
    if not offered:
        return None
    for each in chosen:
        if each not in offered:
            return f"{each[:60]!r} is not one of its options"
    if response.decision != "PROVIDE" or not _decides(tx, document, plan_id):
        return None
    if len(set(chosen)) > 1:
        return "it asks for one decision"
    return None if chosen else "it asks for a decision, and nothing is chosen"


def _decides(tx: Tx, document: HumanInterventionRequest, plan_id: str) -> bool:
    """Whether a task of the engine waits for the answer."""
    task_id = document.created_by.task_id
    rows = tx.run(ENGINE_TASK, plan_id=plan_id, task_id=task_id) if task_id is not None else []
    return bool(rows) and rows[0].request_id == document.request_id


def _unfit(response: HumanInterventionResponse, plan_id: str, agents: Collection[str] | None) -> Rejection | None:
    """Return why the files of an answer cannot be sent as payloads. Any name will do where no agents are named."""
    known: set[tuple[str, str | None]] = set()
    for file in response.provided_files:
        if (file.name, file.deliver_to_agent_id) in known:
            return Rejection(Code.ANSWER_REFUSED, f"it provides {file.name!r} twice")
        known.add((file.name, file.deliver_to_agent_id))
        try:
            ArtifactEnvelope.from_json(
                _envelope("msg", plan_id, "task", file.name, (file.name, file.sha256), _ANY_TIME)
            )
        except ContractError as error:
            return Rejection(Code.PATH_OUTSIDE_FOLDER, f"{file.name!r} cannot be a payload", error.problems)
        if agents is not None and file.deliver_to_agent_id not in {None, *agents}:
            return Rejection(Code.TARGET_AGENT_NOT_FOUND, f"no folder agents/{file.deliver_to_agent_id}")
    return None


def answer_by_file(
    tx: Tx, response: HumanInterventionResponse, *, plan_id: str, at: str, agents: Collection[str] | None
) -> Rejection | None:
    """Read an answer from the gateway's outbox. It is bound to the request's id alone, and recorded so."""
    rows = tx.run(REQUEST, request_id=response.request_id)
    if not rows:
        return Rejection(Code.ANSWER_REFUSED, f"there is no request {response.request_id!r}")
    if rows[0].plan_id != plan_id:
        return Rejection(Code.PLAN_MISMATCH, f"the request belongs to plan {rows[0].plan_id!r}")
    if unfit := _unfit(response, plan_id, agents):
        return unfit
    document = read_request(rows[0])
    response = response.model_copy(update={"decision_answers": tuple(_meant(document, response.decision_answers))})
    if lacking := _without_files(tx, document, plan_id, response):
        return Rejection(Code.ANSWER_REFUSED, lacking)
    if unclear := _unclear(tx, document, plan_id, response):
        return Rejection(Code.ANSWER_REFUSED, f"{unclear}: {', '.join(_offered(document))}")
    if dispute_rows.find_outcome(tx, response, by=response.responder.name) == (True, None):
        return Rejection(Code.ANSWER_REFUSED, f"it asks whether a check is wrong: {_DISPUTED}")
    if not _settle(tx, response, plan_id, by=response.responder.name, bound=None, at=at, proof=AnswerProof("file")):
        return Rejection(Code.ANSWER_REFUSED, f"request {response.request_id!r} was answered before")
    return None


def exposed_agents(tx: Tx, deps: Deps, plan_id: str) -> list[str]:
    """List agents that nothing keeps from the operator's files: those of the plan, and those that ran here so."""
    found = set(deps.exposed)
    profiles = plan_settings.agents_of(tx, plan_id)
    found.update(
        list_exposed_agents(profiles.values()) if profiles is not None else [EVERYONE]
    )  # no profiles are known of a foreign plan
    return sorted(found)


def _settle(
    tx: Tx,
    response: HumanInterventionResponse,
    plan_id: str,
    *,
    by: str,
    bound: str | None,
    at: str,
    proof: AnswerProof,
) -> bool:
    """Close the request and send the answer. False when it was closed before."""
    body = response.as_json()
    data = wire.write(body)
    request_id = response.request_id
    shown = wire.to_text(proof.as_json())
    if not tx.run(ANSWER_REQUEST, request_id=request_id, response=data, at=at, by=by, proof=shown):
        return False
    row = tx.run(REQUEST, request_id=request_id)[0]
    fact = {"by": by, "bound_to": bound, "sha256": wire.sha256(data), **proof.as_json()}
    tx.record("human.answered", request_id, fact)
    dispute_rows.settle(tx, response, by=by, at=at)
    records.publish_file(tx, f"plans/{plan_id}/human_responses/human_intervention_response_{request_id}.json", body)
    gateway = root_layout.box_folder(root_layout.GATEWAY, "inbox", plan_id)
    records.publish_file(tx, f"{gateway}/human_intervention_request_{request_id}.json", None)
    if tx.run(RUN, plan_id=plan_id):  # the dispatcher finds the answer, and moves the task that waits for it
        for file in response.provided_files:
            to = file.deliver_to_agent_id or row.agent_id
            task, key = row.task_id or request_id, f"{request_id}/file"
            send_artifact(tx, key, plan_id, task, file.name, (file.name, file.sha256), to, at, arrived=True)
        _ask_for_the_rest(tx, response, plan_id, at=at)
        return True
    if row.task_id and response.decision in {"REJECT", "ABORT"}:
        _give_up(tx, request_id, WaitingAgent(row.agent_id, plan_id), row.task_id, f"{response.decision} by {by}", at)
    name = f"human_intervention_response_{request_id}.json"
    sha256 = records.store_content(tx, data)
    send_artifact(
        tx, f"{request_id}/answer", plan_id, row.task_id or request_id, ANSWER_OUTPUT, (name, sha256), row.agent_id, at
    )
    for file in response.provided_files:
        to = file.deliver_to_agent_id or row.agent_id
        task, key = row.task_id or request_id, f"{request_id}/file"
        send_artifact(tx, key, plan_id, task, file.name, (file.name, file.sha256), to, at)
    return True


def _ask_for_the_rest(tx: Tx, response: HumanInterventionResponse, plan_id: str, *, at: str) -> None:
    """Ask for the files that an answer did not bring, in place of the question that it closed."""
    [row] = tx.run(REQUEST, request_id=response.request_id)
    document = read_request(row)
    task_id = document.created_by.task_id
    brought = {each.name for each in response.provided_files}
    files = [each for each in document.needed.files if each.name not in brought]
    if not files or document.type != "MISSING_FILE" or response.decision in {"REJECT", "ABORT"}:
        return
    if task_id is None or not _decides(tx, document, plan_id):
        return
    names = ", ".join(each.name for each in files)
    rest = HumanInterventionRequest.from_json(
        {
            **document.as_json(),
            "request_id": records.derive_id("req", f"{response.request_id}/rest"),
            "created_at": records.format_time(at),
            **with_messages({"title": question_words.NEEDS(task=task_id, names=names)}),
            "needed": document.needed.model_copy(update={"files": tuple(files)}).as_json(),
        }
    )
    request_id = ask_own(tx, rest, plan_id=plan_id, at=at)
    about = {"plan_id": plan_id, "task_id": task_id, "request_id": request_id}
    tx.run(NOTE_REQUEST, **about, **to_columns(task_words.WAITS_FOR(names=names)))


def _envelope(message_id: str, plan_id: str, task: str, output: str, file: tuple[str, str], at: str) -> wire.JsonValue:
    return {
        "schema_version": "1.0",
        "message_id": message_id,
        "plan_id": plan_id,
        "producer_agent_id": root_layout.GATEWAY,
        "type": "artifact",
        "created_at": at,
        "task_id": task,
        "output_name": output,
        "payload": {"files": [{"path": file[0], "sha256": file[1]}]},
    }


class WaitingAgent(NamedTuple):
    """An agent that waits for an answer."""

    agent_id: str
    plan_id: str


def _give_up(tx: Tx, request_id: str, waiting: WaitingAgent, task_id: str, why: str, at: str) -> None:
    """Fail the command that waits for an answer, because a person rejected it."""
    rows = tx.run(TASK, plan_id=waiting.plan_id, task_id=task_id)
    if not rows or rows[0].request_id != request_id or rows[0].lease is not None or rows[0].delivery is None:
        return  # no command waits for it any more
    delivery = rows[0].delivery
    done = tx.run(FINISH_DELIVERY, id=delivery, state="processed", ack="FAILED", at=at, details=why, acted=0)
    if not done:
        return
    [(envelope, consumed_at, _)] = tx.run(ORDER_OF, id=delivery)
    command = CommandEnvelope.from_bytes(bytes(envelope))
    about = outbox_writer.ReceiptSubject(command.message_id, task_id, command.command_id, None)
    result = {"ok": False, "details": why}
    outbox_writer.acknowledge(
        tx, waiting, about, "FAILED", consumed_at=consumed_at or at, finished_at=at, result=result
    )
    tx.run(SET_TASK_STATE, plan_id=waiting.plan_id, task_id=task_id, state="FAILED", at=at)
    tx.run(STOP_WAITING, plan_id=waiting.plan_id, task_id=task_id)
    outbox_writer.report_state(tx, waiting, task_id, "FAILED", at=at, message_id=command.message_id)


def send_artifact(
    tx: Tx,
    key: str,
    plan_id: str,
    task: str,
    output: str,
    file: tuple[str, str],
    receiver: str,
    at: str,
    *,
    arrived: bool = False,
) -> None:
    """Send an artifact from the gateway to one agent. It does not follow the DAG, because a person was asked for it.

    One that has `arrived` needs no folder: the agent's driver reads it from the store.
    """
    message_id = records.derive_id("msg", f"{key}/{output}/{receiver}")
    envelope = wire.write(_envelope(message_id, plan_id, task, output, file, at))
    [(message,)] = tx.run(
        ADD_MESSAGE,
        plan_id=plan_id,
        message_id=message_id,
        sha256=wire.sha256(envelope),
        type="artifact",
        task_id=task,
        command_id=None,
        seq=0,
        output_name=output,
        producer=root_layout.GATEWAY,
        name=root_layout.artifact_name(task, output, message_id),
        envelope=envelope,
        dag_sha256="",
        at=at,
        state="delivered" if arrived else "stored",
    )
    delivery_id = records.derive_id("dlv", f"{message_id}/{receiver}")
    about: dict[str, Value] = {"plan_id": plan_id, "message": message, "receiver": receiver, "delivery_id": delivery_id}
    tx.record("message.accepted", message_id, {"sha256": wire.sha256(envelope), "to": [receiver]})
    if not arrived:
        tx.run(ADD_DELIVERY, **about, priority=1)
        records.count_messages(tx, plan_id, sent=1)
        return
    tx.run(ADD_ARRIVED_ARTIFACT, **about, at=at)
    letter = records.JournalMessage(plan_id, message_id, wire.sha256(envelope), root_layout.GATEWAY, task, None, output)
    records.write_journal_line(tx, letter, "DELIVERED", at=at, delivery_id=delivery_id, to=receiver)
    records.count_messages(tx, plan_id, sent=1, delivered=1)
