"""Has inputs judged before they are used: by checks, then by the agent that uses them, or by a person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

from agenttalk.contracts.command import ValidationCriteria
from agenttalk.contracts.core import wire
from agenttalk.contracts.promise import HumanCheck
from agenttalk.engine.budgets.turn_monitor import start_counting
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.people import human_driver
from agenttalk.engine.plans import rework_rounds
from agenttalk.ports.agents import Job, Judge, Performer
from agenttalk.ports.proof import Confirmer, Exhibit, Prover
from agenttalk.ports.statements.core import LATEST_FACT
from agenttalk.ports.statements.people import REQUEST
from agenttalk.ports.storage import Store
from agenttalk.rules.checks import check_results
from agenttalk.rules.prompts.judge_input import render_judge_prompt
from agenttalk.rules.proof import rework
from agenttalk.rules.proof.rework import Judgement
from agenttalk.rules.text import question_words, task_words

TRIES: Final = 2
"""How often an agent is asked before a person judges."""


@dataclass(frozen=True, slots=True)
class InputReviewer:
    """Has the inputs of jobs judged."""

    deps: Deps
    store: Store
    performers: Mapping[str, Performer]
    prover: Prover
    confirm: Confirmer
    """Asks a person."""

    async def judge(self, job: Job) -> dict[str, Judgement]:
        """Return the judgement of each input of a job that has criteria."""
        found = {}
        blobs = await self.deps.stores.blobs(job.board)
        for name, criteria in job.criteria.items():
            files = {
                each.path: each.data if each.data is not None else await blobs.get(each.sha256)
                for each in job.inputs
                if each.input_name == name
            }
            if files:
                found[name] = await self._review_input(job, name, criteria, files)
        return found

    async def _review_input(
        self, job: Job, name: str, criteria: ValidationCriteria, files: Mapping[str, bytes]
    ) -> Judgement:
        accepted = await self._find_acceptance(job, name)
        if accepted is not None:
            return accepted
        faults = await self.prover.find_faults(criteria, files)
        if faults:
            return rework.make_refusal(faults)
        if not rework.wants_judgement(criteria):
            return Judgement(True, 100, task_words.MACHINE_FINDS_NOTHING())
        if name in job.own_inputs or not hasattr(self.performers.get(job.profile.performer), "judge"):
            return await self._ask_person(job, name, _question(job, name, criteria, files))
        instead = _question(job, name, criteria, files, unusable=TRIES)
        was_asked = await self.store.read(
            REQUEST, request_id=human_driver.make_question_id(job, instead.check.id, instead.shown)
        )
        said = None if was_asked else await self._ask_agent(job, name, criteria)
        return said or await self._ask_person(job, name, instead)

    async def _find_acceptance(self, job: Job, name: str) -> Judgement | None:
        """Find a person's decision that exactly these files are used as they are."""
        paths = [path for each in job.command.resolved_inputs or () if each.input_name == name for path in each.paths]
        known: dict[str, str] = {}
        for task_id in dict.fromkeys(path.partition("/")[0] for path in paths):
            about = {"subject": rework_rounds.ledger_subject(job.plan_id, task_id), "kind": rework_rounds.ACCEPTED}
            for row in await self.store.read(LATEST_FACT, **about):
                body: Any = wire.read(bytes(row.body), limit=wire.DOCUMENT_LIMIT)
                if body["overrules"]["consumer"] is not None:
                    known |= {each["sha256"]: body["by"] for each in body["files"]}
        files = [each.sha256 for each in job.inputs if each.input_name == name]
        if not all(each in known for each in files):
            return None
        return Judgement(True, 100, task_words.ACCEPTED_BY(by=known[files[0]]))

    async def _ask_person(self, job: Job, name: str, question: _Question) -> Judgement:
        """Have a person judge an input, because its user made it itself, cannot judge, or gave no judgement."""
        given = tuple(each for each in job.inputs if each.input_name == name)
        said = await self.confirm(question.check, question.shown, exhibit=Exhibit(given))
        return rework.read_person_judgement(said, unusable=question.unusable)

    async def _ask_agent(self, job: Job, name: str, criteria: ValidationCriteria) -> Judgement | None:
        """Have the agent that uses an input judge it; None if it gave no readable judgement, also when asked again."""
        judge = cast("Judge", self.performers[job.profile.performer])
        for number in range(TRIES):
            watch = start_counting(job)
            prompt = render_judge_prompt(name, criteria, locale=job.profile.locale, again=number > 0)
            try:
                said = await judge.judge(job, name, prompt)
            finally:
                if watch is not None:
                    watch.end_program()
            judgement = rework.read_judgement(criteria, said)
            if judgement is not None:
                return judgement
        return None


class _Question(NamedTuple):
    """The question to a person about an input. `unusable` answers of its user were not judgements."""

    check: HumanCheck
    shown: str
    unusable: int


def _question(
    job: Job, name: str, criteria: ValidationCriteria, files: Mapping[str, bytes], *, unusable: int = 0
) -> _Question:
    if criteria.completeness:
        text = question_words.INPUT_MEETS(name=name, task=job.task_id, criteria=criteria.completeness)
    else:
        text = question_words.INPUT_GOOD(name=name, task=job.task_id)
    if unusable:
        text = question_words.NO_JUDGEMENT(question=text, agent=job.agent_id, count=unusable)
    shown = check_results.hash_shown(text, {path: wire.sha256(data) for path, data in files.items()})
    check = HumanCheck(id=f"input:{name}", kind="human", question=text)
    # A model keeps only the text of a message, except in a copy.
    return _Question(check.model_copy(update={"question": text}), shown, unusable)
