"""Tasks that a person does: the command becomes a question, and the answer is what came of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from agenttalk.contracts.base import moment, write_time
from agenttalk.contracts.human import HumanInterventionRequest, HumanInterventionResponse
from agenttalk.engine import human, records
from agenttalk.engine.deps import Deps
from agenttalk.engine.plans import board_of
from agenttalk.ports import Job, Made, Performance, Store, Tx

POLL: Final = 1.0
"""Seconds between looks for an answer."""


@dataclass(frozen=True, slots=True)
class People:
    """Carries out jobs by asking a person."""

    deps: Deps

    async def perform(self, job: Job) -> Performance:
        """Ask, and wait for the answer however long it takes; the question stays when the engine ends meanwhile."""
        store = await board_of(self.deps, job.plan_id)
        request_id = records.named("req", f"{job.plan_id}/{job.command.command_id}")
        await store.transact(lambda tx: self._ask(tx, job, request_id))
        while True:
            rows = await store.read("request", request_id=request_id)
            if rows and rows[0][7] == "answered":
                response = HumanInterventionResponse.from_bytes(bytes(rows[0][8]))
                return await self._told(store, response)
            await asyncio.sleep(POLL)

    def _ask(self, tx: Tx, job: Job, request_id: str) -> None:
        names = [each.output_name for each in job.command.produces or ()]
        request: dict[str, Any] = {
            "schema_version": "1.0",
            "request_id": request_id,
            "created_at": write_time(moment(self.deps.stamp())),
            "created_by": {
                "agent_id": job.agent_id,
                "task_id": job.task_id,
                "command_id": job.command.command_id,
            },
            "severity": "MEDIUM",
            "type": "MISSING_FILE" if names else "CLARIFY",
            "title": job.command.prompt[:200],
            "blocking": True,
            "needed": {
                "files": [{"name": name, "deliver_to_agent_id": job.agent_id} for name in names],
                "decision": {"question": job.command.prompt},
            },
        }
        human.ask(tx, HumanInterventionRequest.from_json(request), plan_id=job.plan_id, at=self.deps.stamp())

    async def _told(self, store: Store, response: HumanInterventionResponse) -> Performance:
        if response.decision in {"REJECT", "ABORT"}:
            why = response.notes or f"{response.decision} by {response.responder.name}"
            return Performance("crashed", error=why, usage={"by": response.responder.name})
        blobs = await self.deps.stores.blobs(store.name)
        made = []
        for file in response.provided_files:
            data = await blobs.get(file.sha256)
            small = data if len(data) <= records.SMALL else None
            made.append(Made(file.name, file.name, file.sha256, len(data), small))
        answers = [str(each) for each in response.decision_answers]
        said = response.notes or ", ".join(answers) or response.decision
        return Performance("finished", result=said, outputs=tuple(made), usage={"by": response.responder.name})
