"""Tasks that a person does: the command becomes a question, and the answer becomes the result of the turn."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from agenttalk.contracts.human import HumanInterventionResponse
from agenttalk.contracts.promise import HumanCheck
from agenttalk.engine.core import records
from agenttalk.engine.core.boards import board_of
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.people import exhibits, questions
from agenttalk.engine.people.questions import NeededAnswer
from agenttalk.ports.agents import InputContent, Job
from agenttalk.ports.proof import NO_EXHIBIT, Exhibit
from agenttalk.ports.statements.people import REQUEST
from agenttalk.ports.storage import Store, Tx
from agenttalk.rules.agents import results
from agenttalk.rules.people.attestation import AnswerProof
from agenttalk.rules.proof.evidence import Confirmation
from agenttalk.rules.proof.performance import OutputContent, Performance
from agenttalk.rules.text import question_words, task_words
from agenttalk.rules.text.message import cut

POLL: Final = 1.0
"""Seconds between reads of the store for an answer."""
MOST_TEXT: Final = 32_000
"""Bytes of inputs that are shown in a question."""


async def confirm(deps: Deps, job: Job, check: HumanCheck, shown: str, exhibit: Exhibit = NO_EXHIBIT) -> Confirmation:
    """Have a person approve or reject what a job left, whose hash is `shown`; waits for any time.

    The same question about the same work is put once, even after a restart of the engine.
    """
    store = await board_of(deps, job.plan_id)
    request_id = make_question_id(job, check.id, shown)
    question = question_words.WORK(question=check.question, task=job.task_id, hash=shown)
    criteria = exhibits.describe_exhibit(exhibit, deps.secret_guard.secrets, shown=shown)
    needed: NeededAnswer = {"decision": {"question": question}, "criteria": criteria}

    def work(tx: Tx) -> str:
        exhibits.store_files(tx, exhibit)
        return ask_about_job(tx, deps, job, request_id, "APPROVAL", check.question, needed)

    asked = await store.transact(work)
    response, by, proof = await wait_for_answer(store, asked)
    return Confirmation(by, response.decision == "APPROVE", shown, proof.trust)


def make_question_id(job: Job, check_id: str, shown: str) -> str:
    """Return the id of the question about a command's work or inputs. A later attempt at the command has the same."""
    return records.derive_id("req", f"{job.plan_id}/{job.command.command_id}/{check_id}/{shown}")


async def wait_for_answer(store: Store, request_id: str) -> tuple[HumanInterventionResponse, str, AnswerProof]:
    """Return the answer to a question once it is there, who gave it, and what proves that."""
    while True:
        rows = await store.read(REQUEST, request_id=request_id)
        if rows and rows[0].state == "answered" and rows[0].response is not None:
            response = HumanInterventionResponse.from_bytes(rows[0].response)
            return response, rows[0].answered_by or "", questions.proof_from_row(rows[0])
        await asyncio.sleep(POLL)


def ask_about_job(tx: Tx, deps: Deps, job: Job, request_id: str, kind: str, title: str, needed: NeededAnswer) -> str:
    """Put a question about a job. Return its id."""
    now = deps.stamp()
    request = questions.new_request(
        request_id,
        kind,
        cut(title, 200),
        needed,
        author={"agent_id": job.agent_id, "task_id": job.task_id, "command_id": job.command.command_id},
        now=now,
        severity="MEDIUM",
    )
    return questions.ask_own(tx, request, plan_id=job.plan_id, at=now)


@dataclass(frozen=True, slots=True)
class HumanAgents:
    """Carries out jobs by asking a person."""

    deps: Deps

    async def perform(self, job: Job) -> Performance:
        """Ask, and wait for the answer for any time. The question stays when the engine ends meanwhile."""
        store = await board_of(self.deps, job.plan_id)
        names = results.list_required_outputs(job.command)
        told = await self._describe_inputs(job)
        made: dict[str, OutputContent] = {}
        while True:  # a person may send one file after the other
            missing = [name for name in names if name not in made]
            response = await self._ask(store, job, missing, told, whole=not made)
            if response.decision in {"REJECT", "ABORT"}:
                why = response.notes or task_words.DECIDED_BY(decision=response.decision, by=response.responder.name)
                return Performance("crashed", error=why, usage={"by": response.responder.name})
            new = {each.output_name: each for each in await self._read_files(store, response)}
            made |= new
            if not new or made.keys() >= set(names):
                return _make_performance(response, tuple(made.values()))

    async def _ask(
        self, store: Store, job: Job, missing: Sequence[str], told: Sequence[str], *, whole: bool
    ) -> HumanInterventionResponse:
        """Ask for what is missing, and wait. The `whole` question is the first one."""
        name = f"{job.plan_id}/{job.command.command_id}"
        request_id = records.derive_id("req", name if whole else f"{name}/{'/'.join(missing)}")
        prompt = job.command.prompt
        possible = [f"{output}: {when or 'optional'}" for output, when in results.list_possible_outputs(job.command)]
        criteria = (
            exhibits.describe_exhibit(Exhibit(tuple(job.inputs)), self.deps.secret_guard.secrets)
            if job.inputs
            else None
        )
        needed: NeededAnswer = {
            "files": [{"name": name, "deliver_to_agent_id": job.agent_id} for name in missing],
            "decision": {"question": "\n\n".join([prompt, *told, *possible])},
            **({"criteria": criteria} if criteria is not None else {}),
        }
        kind = "MISSING_FILE" if missing else "CLARIFY"
        title = prompt if whole else question_words.NEEDS(task=job.task_id, names=", ".join(missing))
        asked = await store.transact(lambda tx: ask_about_job(tx, self.deps, job, request_id, kind, title, needed))
        return (await wait_for_answer(store, asked))[0]

    async def _describe_inputs(self, job: Job) -> list[str]:
        """Show the inputs to the person: texts as they are up to a limit, anything else by its hash."""
        told, left = [], MOST_TEXT
        for each in job.inputs:
            name = each.input_name if each.path == each.input_name else f"{each.input_name}: {each.path}"
            text = await self._text(job, each) if each.size <= left else None
            left -= each.size if text is not None else 0
            told.append(f"{name}\n{text}" if text is not None else f"{name} ({each.size} bytes, {each.sha256})")
        return told

    async def _text(self, job: Job, handed: InputContent) -> str | None:
        data = handed.data
        if data is None:
            data = await (await self.deps.stores.blobs(job.board)).get(handed.sha256)
        with suppress(UnicodeDecodeError):
            text = data.decode()
            return text if text.isprintable() or all(each.isprintable() or each in "\n\r\t" for each in text) else None
        return None

    async def _read_files(self, store: Store, response: HumanInterventionResponse) -> list[OutputContent]:
        """Read the files of an answer."""
        blobs = await self.deps.stores.blobs(store.name)
        made = []
        for file in response.provided_files:
            data = await blobs.get(file.sha256)
            small = data if len(data) <= records.SMALL else None
            made.append(OutputContent(file.name, file.name, file.sha256, len(data), small))
        return made


def _make_performance(response: HumanInterventionResponse, made: tuple[OutputContent, ...]) -> Performance:
    answers = [str(each) for each in response.decision_answers]
    said = response.notes or ", ".join(answers) or response.decision
    return Performance("finished", result=said, outputs=made, usage={"by": response.responder.name})
