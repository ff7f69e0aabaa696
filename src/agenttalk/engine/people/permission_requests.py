"""Questions of a running agent whether it may do something. A person answers; the agent waits, and its time runs."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field

from agenttalk.contracts.core import wire
from agenttalk.contracts.human import HumanInterventionResponse
from agenttalk.engine.core import records
from agenttalk.engine.core.boards import board_of
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.people import human_driver, questions
from agenttalk.engine.people.questions import NeededAnswer
from agenttalk.ports.agents import Job
from agenttalk.ports.statements.people import REQUEST
from agenttalk.ports.storage import Tx
from agenttalk.rules.agents.permissions import ToolRequest
from agenttalk.rules.text import question_words
from agenttalk.rules.text.message import LINES, cut


@dataclass(slots=True)
class PermissionRequests:
    """The permission requests of one attempt.

    The same request of the same command is one question, even after a restart of the engine. When an attempt makes the
    same request again, that is another question. A question that the engine closed itself was not answered.
    """

    deps: Deps
    job: Job
    _wishes: Counter[str] = field(default_factory=Counter)
    _open: set[str] = field(default_factory=set)

    async def ask(self, wish: ToolRequest) -> tuple[bool, str]:
        """Ask a person whether the agent may. Return the decision and who made it. Waits for any time."""
        store = await board_of(self.deps, self.job.plan_id)
        key = wire.sha256(f"{wish.kind}\n{wish.about}\n{sorted(wish.paths)}".encode("utf-8", "replace"))
        number, self._wishes[key] = self._wishes[key], self._wishes[key] + 1

        def work(tx: Tx) -> str:
            asked = self._put_question(tx, wish, key, number)
            self._open.add(asked)  # here, because the waiting caller may be cancelled meanwhile
            return asked

        request_id = await store.submit(work)
        response, by, _ = await human_driver.wait_for_answer(store, request_id)
        self._open.discard(request_id)
        return is_permission(response), by

    async def close(self, why: str) -> None:
        """Close the questions whose answers no caller awaits any more."""
        if not self._open:
            return
        store, at = await board_of(self.deps, self.job.plan_id), self.deps.stamp()
        left, self._open = sorted(self._open), set()

        def work(tx: Tx) -> None:
            for each in left:
                if tx.run(REQUEST, request_id=each):  # its transaction was committed
                    questions.close(tx, each, why, at=at)

        await store.transact(work)

    def _put_question(self, tx: Tx, wish: ToolRequest, key: str, number: int) -> str:
        job = self.job
        for count in itertools.count():
            wanted = records.derive_id("req", f"{job.plan_id}/{job.command.command_id}/may/{key}/{number}/{count}")
            rows = tx.run(REQUEST, request_id=wanted)
            if not rows or rows[0].answered_by != "engine":
                break
        line = self.deps.secret_guard.secrets.redact(wish.line)
        title = question_words.MAY(agent=job.agent_id, task=job.task_id, line=line)
        files = "".join(f"\n- {path}" for path in wish.paths)
        details = self.deps.secret_guard.secrets.redact(f"\n{wish.about}{files}")
        question = LINES(parts=[title, details.removeprefix("\n")])
        options = questions.make_choices(("allow", "refuse"))
        needed: NeededAnswer = {"decision": {"question": cut(question, 4000), "options": options}}
        return human_driver.ask_about_job(tx, self.deps, job, wanted, "APPROVAL", title, needed)


def is_permission(response: HumanInterventionResponse) -> bool:
    """Whether an answer permits it. Only an explicit permission does."""
    if response.decision == "APPROVE":
        return True
    return response.decision == "PROVIDE" and [str(each) for each in response.decision_answers] == ["allow"]
