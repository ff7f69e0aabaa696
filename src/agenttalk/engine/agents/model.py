"""Jobs of agents that are models: each is asked by a program of ours, which is started for the turn and ended with it.

The program shares everything with those of other agents: files, limits, sandbox, the end of all its processes.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from agenttalk.contracts.core.wire import JsonObject
from agenttalk.contracts.errors import Code, InputError
from agenttalk.contracts.model_use import LlmUse, LocalUse
from agenttalk.engine.agents import inputs
from agenttalk.engine.agents.program import ProgramAgents, read_input_file
from agenttalk.engine.agents.transcript import ENDING, Transcript
from agenttalk.engine.budgets import account_waits
from agenttalk.engine.core.agent_in_plan import AgentInPlan
from agenttalk.engine.core.attempt_paths import AttemptPaths, EngineAddress
from agenttalk.ports.agents import Job, ProgramTurn, TurnEnd
from agenttalk.rules.agents import model_protocol, model_services, results
from agenttalk.rules.agents.model_answers import AnswerSpec
from agenttalk.rules.agents.model_protocol import ModelRequest, ModelRun
from agenttalk.rules.agents.progress_notes import Note
from agenttalk.rules.budgets import provider_limits
from agenttalk.rules.budgets.provider_limits import AccountLimit, ProviderLimit
from agenttalk.rules.prompts.execute import InputText, render_long_inputs
from agenttalk.rules.proof.performance import Performance
from agenttalk.rules.text import turn_words
from agenttalk.rules.text.message import ABOUT

LARGEST: Final = 4 * 1024 * 1024
"""Bytes of all inputs that a model is shown."""
_KEPT: Final = 4096
_SHOWN: Final = 200
"""Characters of the reason for a limit that are kept."""
_UNNEEDED: Final = frozenset({"AGENTTALK_TOKEN", "AGENTTALK_API", "AGENTTALK_SOCKET"})
"""Variables that the program does not need, because it reports nothing by itself."""
_ANSWERED: Final = frozenset(
    {
        Code.ANSWER_INVALID,
        Code.AGENT_SILENT,
        Code.MODEL_REFUSED,
        Code.OUTPUT_MISSING,
        Code.SCORE_INVALID,
        Code.SCORE_MISSING,
    }
)
"""Faults of an answer that came, or of a model that would not give one. Everything else is a turn that failed."""


@dataclass(frozen=True, slots=True)
class ModelAgents(ProgramAgents):
    """Carries out jobs by asking models."""

    program: tuple[str, ...] = field(kw_only=True)
    """How the program that asks is started."""

    async def carry_out(self, seat: AgentInPlan, job: Job, layout: AttemptPaths, turn: ProgramTurn) -> Performance:
        """Ask the model, and take its answer in."""
        try:
            call = await self._call(seat, job, layout, turn)
        except InputError as error:
            return self._not_started(error)
        return await self._judged(call, await call.go())

    @staticmethod
    def _not_started(error: InputError) -> Performance:
        return Performance("not_started", error=ABOUT(subject=str(error.code), what=error.message))

    async def _run(self, seat: AgentInPlan, job: Job, layout: AttemptPaths, turn: ProgramTurn) -> TurnEnd:
        """Ask once, for a judgement. Raises InputError when there is no answer, which is not a judgement."""
        call = await self._call(seat, job, layout, turn)
        ended = await call.go()
        fault = call.fault(ended)
        limited = call.find_limit(self.deps.secret_guard.secrets.redact(fault[1])) if fault is not None else None
        if limited is not None:
            raise account_waits.AccountLimitError(limited)
        if fault is not None and fault[0] not in _ANSWERED:
            raise InputError(*fault)
        return ended

    async def _turn(
        self,
        seat: AgentInPlan,
        job: Job,
        layout: AttemptPaths,
        feedback: str | None,
        api: EngineAddress | None,
        mode: Literal["execute", "validate"] = "execute",
    ) -> ProgramTurn:
        if job.profile.local is not None:  # also in a sandbox
            job = replace(job, readonly=(*job.readonly, seat.root.path.absolute() / job.profile.local.model_file))
        turn = await ProgramAgents._turn(self, seat, job, layout, feedback, api, mode)  # noqa: SLF001 - our own, and super() knows no slots
        env = {name: value for name, value in turn.env.items() if name not in _UNNEEDED}
        return replace(turn, argv=self.program, env=env)

    def _key(self, use: LlmUse | LocalUse) -> dict[str, str]:
        """Return the key of a model's service. It is guarded as a secret from now on."""
        name = model_services.key_of(use) if isinstance(use, LlmUse) else None
        if name is None:
            return {}
        value = self.environ.get(name, "").strip()
        if not value:
            why = turn_words.NO_MODEL_KEY(name=name)
            raise InputError(Code.MODEL_UNUSABLE, why)
        self.deps.secret_guard.register({name: value})
        return {model_protocol.KEY: value}

    async def _call(self, seat: AgentInPlan, job: Job, layout: AttemptPaths, turn: ProgramTurn) -> _Call:
        """Prepare the call of the model. Raises InputError when it cannot be asked, or cannot be shown an input."""
        use = _use_of(job)
        told: JsonObject = use.model_dump(mode="json", exclude_none=True)
        if isinstance(use, LocalUse):
            told["model_file"] = str(seat.root.path.absolute() / use.model_file)
        judges = turn.env.get("AGENTTALK_MODE") == "validate"
        command = job.command
        asked = AnswerSpec(
            command.score_required,
            tuple(dict.fromkeys(results.list_required_outputs(command))),
            tuple(name for name, _ in results.list_possible_outputs(command)),
            may_refuse=job.profile.self_assessment,
        )
        prompt = turn.prompt + await self._appended(seat, job)
        request = ModelRequest(
            job.profile.driver,
            told,
            self.deps.secret_guard.secrets.redact(prompt),
            AnswerSpec(judges=True) if judges else asked,
            job.timeout,
            job.profile.locale,
        )
        env = {**turn.env, **self._key(use)}
        turn = replace(turn, prompt=request.write(), env=env, longest=model_protocol.LONGEST, keep=_KEPT)
        return _Call(self, seat, job, layout, turn, Transcript(seat.root, f"{layout.base}{ENDING}"))

    async def _appended(self, seat: AgentInPlan, job: Job) -> str:
        """Render the inputs that are too long for the prompt itself."""
        long = [each for each in job.inputs if inputs.text_of(each) is None]
        if not long:
            return ""
        read: list[InputText] = []
        room = LARGEST
        for each in long:
            data = await read_input_file(seat, each)
            room -= len(data)
            if room < 0 or not _is_text(data):
                what = "it is not text" if room >= 0 else f"all inputs together have more than {LARGEST:,} bytes"
                why = f"the input {each.input_name!r} ({each.path}) cannot be shown to a model: {what}"
                raise InputError(Code.MODEL_UNUSABLE, why)
            read.append(InputText(each.input_name, inputs.place_of(each), each.sha256, data.decode()))
        return render_long_inputs(read, job.prompt, fence=secrets.token_hex(12), locale=job.profile.locale)

    async def _judged(self, call: _Call, ended: TurnEnd) -> Performance:
        """Judge a call. Its program may end well, but without an answer that counts for nothing."""
        found: dict[str, Any] = {"usage": call.usage(ended), "seconds": ended.seconds, "sandbox": ended.sandbox}
        fault = call.fault(ended)
        if fault is None:
            performance = await self._taken_in(call.seat, call.job, call.layout, replace(ended, stdout=b""))
            return replace(performance, **found)
        code, why = fault
        error = self.deps.secret_guard.secrets.redact(ABOUT(subject=str(code), what=why))
        limited = call.find_limit(error)
        if limited is not None:
            return Performance("limited", error=error, limited=limited, **found)
        if code in _ANSWERED:
            return Performance("finished", code=code, error=error, **found)
        return Performance("not_started" if code is Code.MODEL_UNUSABLE else "crashed", error=error, **found)


@dataclass(slots=True)
class _Call:
    """A call of a model under way."""

    owner: ModelAgents
    seat: AgentInPlan
    job: Job
    layout: AttemptPaths
    turn: ProgramTurn
    transcript: Transcript
    talk: ModelRun = field(default_factory=ModelRun)

    async def go(self) -> TurnEnd:
        """Run the program to its end."""
        discretion = self.owner.deps.secret_guard
        return discretion.redact_ended(await self.owner.driver.run(replace(self.turn, hear=self._hear)))

    def _hear(self, line: bytes) -> None:
        event = self.talk.add_line(line)
        if event is None:
            return
        known = self.owner.deps.secret_guard.secrets
        event = event._replace(text=known.redact(event.text), name=known.redact(event.name)) if known else event
        self.transcript.add(event, self.owner.deps.stamp())
        if self.job.watch is not None and event.kind in {"text", "usage", "warning"}:
            counts = self.talk.used._asdict() | {"seconds": 0}
            self.job.watch.note(Note(counts, event.line, counts_only=event.kind == "usage"))

    def fault(self, ended: TurnEnd) -> tuple[Code, str] | None:
        """Say why there is no answer; None if there is one, or if the end of its program explains it."""
        if ended.how != "finished":
            return None
        if self.talk.fault is not None:
            return self.talk.fault
        if ended.exit_code == 0 and not self.talk.ended:
            return Code.COMMAND_FAILED, turn_words.NO_END()
        return None

    def find_limit(self, error: str) -> AccountLimit | None:
        """Find the limit of the service that left it without an answer."""
        talk, now = self.talk, self.owner.deps.now()
        known = account_waits.identify(self.job.profile, self.owner.environ, None)
        if talk.limit is None or known is None:
            return None
        resets_at = provider_limits.read_epoch(now.timestamp() + talk.retry_after) if talk.retry_after else None
        limit = ProviderLimit(talk.limit, " ".join(error.split())[:_SHOWN], resets_at)
        return AccountLimit(known[1], known[0], limit)

    def usage(self, ended: TurnEnd) -> Mapping[str, Any]:
        """Return the record of the call for the ledger."""
        talk = self.talk
        told = {
            "exit_code": ended.exit_code,
            "agent": self.job.profile.driver,
            "provider": self.job.profile.llm.provider if self.job.profile.llm else None,
            "model": talk.model,
            "tokens": talk.used.tokens,
            "input_tokens": talk.read,
            "output_tokens": talk.written,
            "cost_usd": talk.used.cost_usd,
            "turns": talk.requests if talk.requests > 1 else None,
            "estimated": talk.estimated,
            "fault": talk.fault[0] if talk.fault else None,
            "events": self.transcript.to_json(),
        }
        return {name: value for name, value in told.items() if value or name == "exit_code"}


def _use_of(job: Job) -> LlmUse | LocalUse:
    use = job.profile.llm if job.profile.driver == "llm" else job.profile.local
    try:
        return model_services.check_model_use(use, job.profile.driver)
    except ValueError as error:
        raise InputError(Code.MODEL_UNUSABLE, str(error)) from error


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
