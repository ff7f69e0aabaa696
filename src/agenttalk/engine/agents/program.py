"""Jobs of agents that are programs: lays their files out, runs the program, takes its outputs in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Final, Literal

from agenttalk.contracts.core import root_layout
from agenttalk.contracts.core.wire import JsonObject
from agenttalk.contracts.errors import AgentTalkError, Code, InputError
from agenttalk.engine.agents import attempt_folders, outputs, prompt_record, stray_files
from agenttalk.engine.agents.confinement import ConfinementBuilder
from agenttalk.engine.agents.environment import TurnEnvironment, argv_of, budget_of, limits_of, pick_variables
from agenttalk.engine.core import trace_context
from agenttalk.engine.core.agent_in_plan import AgentInPlan, open_agent_in_plan
from agenttalk.engine.core.attempt_paths import TURNS, AttemptPaths, EngineAddress, open_attempt_socket
from agenttalk.engine.core.deps import Deps
from agenttalk.ports.agents import Driver, InputContent, Job, ProgramTurn, TurnEnd
from agenttalk.rules.agents import results
from agenttalk.rules.agents.results import TurnFault, find_reported_object
from agenttalk.rules.core.task_states import ProgramEnding
from agenttalk.rules.prompts import execute
from agenttalk.rules.proof import rework
from agenttalk.rules.proof.performance import OutputContent, Performance
from agenttalk.rules.text import turn_words, verdict_words

FEEDBACK_PLACE: Final = "{feedback}"
"""In an argument of a program: what was found missing. Empty in the first turn."""
_JUDGEMENT: Final = 1024 * 1024
"""Bytes that a judgement may have."""


@dataclass(frozen=True, slots=True)
class ProgramAgents:
    """Carries out jobs by starting programs."""

    deps: Deps
    driver: Driver
    api: Callable[[], EngineAddress | None] = lambda: None
    """The address for reports of programs, once an engine listens."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """Variables of which a profile may hand some over."""
    confines: ClassVar[bool] = True
    """Its programs can be put into a sandbox."""
    spared: ClassVar[str] = ""
    """A folder of an attempt that its program needs until the end. It is removed then, with everything in it."""

    async def perform(self, job: Job) -> Performance:
        """Lay the files out, run the program, take its outputs in. Every process of it is dead when this returns."""
        seat = await open_agent_in_plan(self.deps, job.agent_id, job.plan_id)
        with self.deps.secret_guard.guard_token(job.token):
            async with open_attempt_socket(self.api(), job.token) as api:
                try:
                    layout, feedback = await self._lay_out(seat, job, paths_of(job))
                    limited = stray_files.is_limited(job)
                    before = await asyncio.to_thread(stray_files.scan_marks, seat.root, layout) if limited else {}
                    turn = await self._turn(seat, job, layout, feedback, api)
                except InputError as error:
                    return replace(self._not_started(error), code=error.code)
                performance = await self.carry_out(seat, job, layout, turn)
                return await self._within(seat, job, layout, before, performance) if limited else performance

    async def _within(
        self, seat: AgentInPlan, job: Job, layout: AttemptPaths, before: stray_files.FileMarks, performance: Performance
    ) -> Performance:
        """Add the files that a job changed outside its scope, for a job that has a scope and no repository."""
        try:
            after = await asyncio.to_thread(stray_files.scan_marks, seat.root, layout)
        except InputError as error:
            return replace(performance, how="crashed", error=error.message)
        return replace(performance, strayed=stray_files.find_strays(job, before, after))

    async def carry_out(self, seat: AgentInPlan, job: Job, layout: AttemptPaths, turn: ProgramTurn) -> Performance:
        """Run a turn whose files are laid out, and take its outputs in."""
        return await self._taken_in(seat, job, layout, await self._run(seat, job, layout, turn))

    @staticmethod
    def _not_started(error: InputError) -> Performance:
        return Performance("not_started", error=error.message)

    async def judge(self, job: Job, input_name: str, prompt: str) -> Any:
        """Run the program before the turn to have it judge an input. Returns its answer if that is an object.

        Raises InputError when it cannot be started.
        """
        seat = await open_agent_in_plan(self.deps, job.agent_id, job.plan_id)
        layout = paths_of(job)
        layout = replace(layout, base=f"{layout.base}-{root_layout.path_segment(input_name)}")
        with self.deps.secret_guard.guard_token(job.token):
            async with open_attempt_socket(self.api(), job.token) as api:
                try:
                    layout, _ = await self._lay_out(seat, job, layout)
                    turn = await self._turn(seat, job, layout, None, api, mode="validate")
                except InputError:
                    return None
                ended = await self._run(seat, job, layout, replace(turn, prompt=f"{prompt}\n{turn.prompt}"))
            if ended.how == "not_started":
                raise InputError(Code.COMMAND_FAILED, ended.error)
            try:
                said = await asyncio.to_thread(_read_judgement, seat, layout, ended.stdout)
                await asyncio.to_thread(outputs.remove_secrets, seat, layout.outputs, layout.cwd, layout.since)
            except InputError:
                return None
            if ended.how != "finished" or ended.exit_code != 0:
                return None
            return self.deps.secret_guard.secrets.redact_json(said)

    async def _run(self, seat: AgentInPlan, job: Job, layout: AttemptPaths, turn: ProgramTurn) -> TurnEnd:  # noqa: ARG002 - others need them
        """Run the program."""
        return self.deps.secret_guard.redact_ended(await self.driver.run(turn))

    async def _lay_out(self, seat: AgentInPlan, job: Job, layout: AttemptPaths) -> tuple[AttemptPaths, str | None]:
        """Make the folders of an attempt and write its inputs. Returns the path of the feedback, too."""
        layout = await asyncio.to_thread(attempt_folders.make_folders, seat.root, job.agent_id, layout, job.command)
        feedback = None
        for file in job.inputs:
            target = f"{layout.inputs}/{root_layout.path_segment(file.input_name)}/{file.path}"
            await asyncio.to_thread(seat.root.write, target, await read_input_file(seat, file), parents=True)
            if _is_feedback(file) and (feedback is None or file.input_name == rework.FEEDBACK_INPUT):
                feedback = target
        return layout, feedback if job.command.reexecute is not None else None

    async def _turn(
        self,
        seat: AgentInPlan,
        job: Job,
        layout: AttemptPaths,
        feedback: str | None,
        api: EngineAddress | None,
        mode: Literal["execute", "validate"] = "execute",
    ) -> ProgramTurn:
        root = seat.root.path.absolute()
        context = await trace_context.make_traceparent(self.deps, job)
        own = TurnEnvironment(root, layout, job.command, job.attempt, job.token, api, feedback, mode, context)
        self.deps.secret_guard.register(pick_variables(job.profile, self.environ))
        findings = execute.render_findings(job.command.reexecute, locale=job.profile.locale)
        argv = tuple(part.replace(FEEDBACK_PLACE, findings) for part in argv_of(seat, job.profile))
        prompt = self.deps.secret_guard.secrets.redact(job.prompt)
        if mode == "execute":
            await asyncio.to_thread(prompt_record.save_prompt, seat.root, layout.base, prompt)
        return ProgramTurn(
            lease=job.lease,
            argv=argv,
            cwd=root / layout.cwd,
            prompt=prompt,
            timeout=job.timeout,
            env=own.variables(job.profile, self.environ),
            limits=limits_of(job.profile),
            budget=budget_of(job.profile, root, layout),
            confinement=await ConfinementBuilder(seat, job.profile, layout, job.command, api, job.readonly).build(),
            hear=job.watch.hear if job.watch is not None else None,
            noted=partial(self._note_agent, job) if job.needs_proof and mode == "execute" else None,
            interruption=job.watch.interruption if job.watch is not None else None,
        )

    def _note_agent(self, job: Job) -> None:
        job.times.note("agent", self.deps.now())

    async def _taken_in(self, seat: AgentInPlan, job: Job, layout: AttemptPaths, ended: TurnEnd) -> Performance:
        may_refuse = job.profile.self_assessment
        failed = ended.how == "finished" and ended.exit_code != 0 and job.has_checks
        if failed:  # a claim that its checks can disprove: take its outputs in as if it had succeeded
            error = ended.error or turn_words.EXIT(code=ended.exit_code)
            remark = verdict_words.SAID_FAILED(error=results.describe_error(error, ended.stderr))
            done = await self._taken_in(seat, job, layout, replace(ended, exit_code=0))
            usage = {"exit_code": ended.exit_code}
            if done.how == "finished" and done.code is None:
                return replace(done, usage=usage, remark=remark, ended_badly="failed")
            return Performance(
                "crashed",
                error=results.describe_error(error, ended.stderr),
                seconds=ended.seconds,
                usage=usage,
                sandbox=ended.sandbox,
            )
        said, files = await outputs.judge_outputs(
            seat,
            job.command,
            layout.outputs,
            layout.result,
            layout.cwd,
            ended,
            may_refuse=may_refuse,
            in_tree=bool(job.cwd),
            since=layout.since,
            spared=f"{layout.base}/{self.spared}" if self.spared else "",
        )
        usage = {"exit_code": ended.exit_code}
        if ended.how != "finished" or ended.exit_code != 0:
            error = said.message if isinstance(said, TurnFault) else ended.error
            how: ProgramEnding = "crashed" if ended.how == "finished" else ended.how
            return Performance(how, error=error, seconds=ended.seconds, usage=usage, sandbox=ended.sandbox)
        if isinstance(said, TurnFault) and said.code is Code.AGENT_UNFIT:
            return Performance("unfit", error=said.message, seconds=ended.seconds, usage=usage, sandbox=ended.sandbox)
        made = tuple(OutputContent(each.output_name, each.path, each.sha256, each.size, each.data) for each in files)
        if isinstance(said, TurnFault):
            return Performance(
                "finished",
                outputs=made,
                code=said.code,
                error=said.message,
                seconds=ended.seconds,
                usage=usage,
                sandbox=ended.sandbox,
            )
        return Performance(
            "finished",
            result=said.value,
            score=said.score,
            explanation=said.explanation,
            outputs=made,
            seconds=ended.seconds,
            usage=usage,
            sandbox=ended.sandbox,
            claims=said.claims,
        )


def _is_feedback(file: InputContent) -> bool:
    """Whether a file is the feedback. Only the engine names the input itself so; other parties send such a file."""
    return file.input_name == rework.FEEDBACK_INPUT or file.path.rpartition("/")[2] == rework.FEEDBACK


def _read_judgement(seat: AgentInPlan, layout: AttemptPaths, stdout: bytes) -> JsonObject | None:
    """Read the judgement that a program wrote, or printed last."""
    try:
        file = seat.root.read(layout.result, _JUDGEMENT) if seat.root.exists(layout.result) else None
    except InputError:  # a file that cannot be read counts as no judgement
        return None
    return find_reported_object(file, stdout, ("decision", "score"))


def paths_of(job: Job) -> AttemptPaths:
    """Return the paths of an attempt's files."""
    own = root_layout.task_folder(job.agent_id, job.plan_id, job.task_id)
    return AttemptPaths(job.cwd or own, f"{own}/{TURNS}/{job.command.command_id}-{job.attempt}")


async def read_input_file(seat: AgentInPlan, file: InputContent) -> bytes:
    """Read the content of an input file. Raises InputError when it cannot be read."""
    if file.data is not None:
        return file.data
    try:
        return await seat.blobs.get(file.sha256)
    except AgentTalkError as error:
        raise InputError(error.code, f"the input {file.input_name!r} cannot be read: {error.message}") from error
