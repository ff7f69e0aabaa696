"""The python driver: an agent that is a function of this process."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from types import MappingProxyType
from typing import Any, ClassVar, Final, TypeAlias

from agenttalk.contracts.command import Command
from agenttalk.contracts.core.base import is_path
from agenttalk.contracts.errors import AgentTalkError, Code, UsageError
from agenttalk.ports.agents import InputContent, Job, JobMonitor
from agenttalk.ports.storage import Blobs
from agenttalk.rules.agents.progress_notes import Note, note_of
from agenttalk.rules.agents.results import explain_unfitness
from agenttalk.rules.proof.evidence import read_claims
from agenttalk.rules.proof.performance import OutputContent, Performance
from agenttalk.rules.text import turn_words

SMALL: Final = 64 * 1024
"""Up to this size a content travels with the message; larger ones are stored as blobs."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of an agent."""

    result: Any = None
    score: float | None = None
    score_explanation: str | None = None
    outputs: Mapping[str, bytes | str] = field(default_factory=dict)
    """Outputs by their name."""
    usage: Mapping[str, Any] = field(default_factory=dict)
    self_assessment: Mapping[str, Any] | None = None
    """How well it fits the task, if its profile asks for that: `score` from 0 to 100, and the `reason`."""
    evidence: Sequence[Any] = ()
    """Evidence that it claims: ids, or objects with `id`, `passed` and `detail`. It is weighed as a claim."""


@dataclass(slots=True)
class Turn:
    """What an agent has to do, and where it puts its outputs."""

    plan_id: str
    task_id: str
    attempt: int
    prompt: str
    command: Command
    inputs: Mapping[str, Mapping[str, bytes]]
    """Input name → path → content."""
    outputs: dict[str, bytes | str | Mapping[str, bytes | str]] = field(default_factory=dict)
    """Output name → content, or path → content. Filled by the agent."""
    judges: str | None = None
    """The input to judge before it is used; without one, do the task."""
    tell: Callable[[Note], None] = lambda _: None
    """Receives what `report` reports."""

    def report(
        self,
        progress: str = "",
        *,
        tokens: int | None = None,
        cost_usd: float | None = None,
        tool_calls: int | None = None,
    ) -> None:
        """Report what this turn does, and its usage since it began. A turn that uses too much is cancelled."""
        counts = {"tokens": tokens, "cost_usd": cost_usd, "tool_calls": tool_calls}
        usage = {name: value for name, value in counts.items() if value is not None}
        self.tell(note_of({"usage": usage, "progress": progress}))

    def read(self, name: str) -> bytes:
        """Return the content of an input that is one file."""
        files = self.inputs.get(name, {})
        if len(files) != 1:
            raise LookupError(f"the input {name!r} has {len(files)} files, not one")
        return next(iter(files.values()))

    def text(self, name: str) -> str:
        """Return it as text."""
        return self.read(name).decode()


_PLAIN: Final = partial(Performance, sandbox="plain")
"""How the call of a function ended: in our own process, which nothing confines."""

Agent: TypeAlias = "Callable[[Turn], Awaitable[Any] | Any]"
"""A function that does a turn: async, or plain, which then runs in a thread."""


class PythonPerformer:
    """Carries out jobs by calling functions. Nothing can confine them: they are part of our own process."""

    inside: ClassVar[bool] = True

    def __init__(self, agents: Mapping[str, Agent], blobs: Callable[[str], Awaitable[Blobs]]) -> None:
        """`agents` by their ids; `blobs` opens the contents of a board."""
        self._agents = agents
        self._async = frozenset(name for name, agent in agents.items() if inspect.iscoroutinefunction(agent))
        self._blobs = blobs

    async def perform(self, job: Job) -> Performance:
        """Call the agent's function. It is cancelled at the time limit; a thread cannot be, and is left behind."""
        function = self._agents.get(job.agent_id)
        if function is None:
            return _PLAIN("not_started", error=turn_words.NO_FUNCTION(agent=job.agent_id))
        began = time.monotonic()
        inputs = await self._inputs(job)
        turn = Turn(job.plan_id, job.task_id, job.attempt, job.prompt, job.command, inputs, tell=_told_to(job.watch))
        limit = asyncio.timeout(job.timeout)
        try:
            async with limit:
                result = await self._call(job.agent_id, function, turn)
        except Exception as error:  # noqa: BLE001 - any error of an agent is its failure
            seconds = time.monotonic() - began
            if limit.expired():
                return _PLAIN("timeout", error=turn_words.LATE_ELSEWHERE(seconds=float(job.timeout)), seconds=seconds)
            return _PLAIN("crashed", error=f"{type(error).__name__}: {error}", seconds=seconds)
        return await self._read_answer(job, turn, result, time.monotonic() - began)

    async def judge(self, job: Job, input_name: str, prompt: str) -> Any:
        """Have the function judge an input; return its judgement."""
        function = self._agents.get(job.agent_id)
        if function is None:
            return None
        inputs = await self._inputs(job)
        turn = Turn(
            job.plan_id, job.task_id, job.attempt, f"{prompt}\n{job.prompt}", job.command, inputs, judges=input_name
        )
        turn.tell = _told_to(job.watch)
        try:
            async with asyncio.timeout(job.timeout):
                judgement = await self._call(job.agent_id, function, turn)
        except Exception:  # noqa: BLE001 - any error of an agent means that there is no judgement
            return None
        return judgement.result if isinstance(judgement, Result) else judgement

    async def _call(self, agent_id: str, function: Agent, turn: Turn) -> Any:
        """Call a function, in a thread unless it is async."""
        if agent_id in self._async:
            return await function(turn)
        result = await asyncio.to_thread(function, turn)
        return await result if inspect.isawaitable(result) else result  # for example of an object that can be called

    async def _inputs(self, job: Job) -> Mapping[str, Mapping[str, bytes]]:
        inputs: dict[str, dict[str, bytes]] = {}
        for content in job.inputs:
            inputs.setdefault(content.input_name, {})[content.path] = await self._content(job, content)
        return MappingProxyType(inputs)

    async def _content(self, job: Job, file: InputContent) -> bytes:
        return file.data if file.data is not None else await (await self._blobs(job.board)).get(file.sha256)

    async def _read_answer(self, job: Job, turn: Turn, said: Any, seconds: float) -> Performance:
        result = said if isinstance(said, Result) else Result(result=said)
        unfit = explain_unfitness(result.self_assessment) if job.profile.self_assessment else None
        if unfit is not None:
            return _PLAIN("unfit", error=unfit, seconds=seconds, usage=result.usage)
        try:
            outputs = await self._outputs(job, {**turn.outputs, **result.outputs})
        except (TypeError, AgentTalkError) as error:
            return _PLAIN("crashed", error=str(error), seconds=seconds)
        code, problem = _find_score_problem(job.command, result.score)
        return _PLAIN(
            "finished",
            result=result.result,
            score=None if code else result.score,
            explanation=result.score_explanation,
            outputs=outputs,
            code=code,
            error=problem,
            seconds=seconds,
            usage=result.usage,
            claims=read_claims(list(result.evidence)),
        )

    async def _outputs(self, job: Job, outputs: Mapping[str, Any]) -> tuple[OutputContent, ...]:
        made = []
        for name, content in outputs.items():
            files = content if isinstance(content, Mapping) else {name: content}
            for path, data in files.items():
                if not is_path(path):
                    message = f"the output {name!r} has a file {path[:140]!r}, which is not a path inside it"
                    raise UsageError(Code.PATH_OUTSIDE_FOLDER, message)
                made.append(await self._made(job, name, path, data.encode() if isinstance(data, str) else bytes(data)))
        return tuple(made)

    async def _made(self, job: Job, name: str, path: str, data: bytes) -> OutputContent:
        if len(data) <= SMALL:
            return OutputContent(name, path, f"sha256:{sha256(data).hexdigest()}", len(data), data)
        digest = await (await self._blobs(job.board)).put(data)
        return OutputContent(name, path, digest, len(data), None)


def _told_to(watch: JobMonitor | None) -> Callable[[Note], None]:
    """Return a reporter for the job's monitor, which also works from the thread of a plain function."""
    if watch is None:
        return lambda _: None
    loop = asyncio.get_running_loop()

    def tell(note: Note) -> None:
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is loop:
            watch.note(note)
        elif not loop.is_closed():  # a function that was left behind may still report
            loop.call_soon_threadsafe(watch.note, note)

    return tell


def _find_score_problem(command: Command, score: float | None) -> tuple[str | None, str]:
    """Return the code and the message of what is wrong with a score; no code when nothing is."""
    if not command.score_required:
        return None, ""
    if score is None:
        return Code.SCORE_MISSING, turn_words.NO_SCORE()
    if isinstance(score, bool) or not isinstance(score, (int, float)) or not 0 <= score <= 100:
        return Code.SCORE_INVALID, turn_words.BAD_SCORE(score=score)
    return None, ""
