"""AgentTalk in a Python program: build a plan, run it with functions as agents, and await its outcome."""

from __future__ import annotations

import asyncio
import importlib.metadata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from agenttalk import wiring
from agenttalk.adapters.drivers.python_calls import Agent, PythonPerformer, Result, Turn
from agenttalk.adapters.mailbox.plan_file_folder import with_check_files
from agenttalk.contracts.errors import Code, ContractError, UsageError
from agenttalk.contracts.planfile import reader
from agenttalk.contracts.planfile.yaml_text import YamlSource
from agenttalk.rules.planfile.compiler import CompiledPlan, compile_plan
from agenttalk.wiring import settings

if TYPE_CHECKING:
    from agenttalk.engine.core.deps import Deps
    from agenttalk.engine.operation.engine import Engine
    from agenttalk.ports.agents import Performer

__all__ = ["Agent", "Outcome", "Plan", "Result", "Turn", "agent", "entry_points", "run"]

GROUP: Final = "agenttalk.agents"
"""The entry points by which packages offer agents."""
_MARK: Final = "__agenttalk_agent__"
F = TypeVar("F", bound=Callable[..., Any])


def agent(agent_id: str) -> Callable[[F], F]:
    """Declare that a function is an agent. It gets a Turn, and returns its result."""

    def marked(function: F) -> F:
        setattr(function, _MARK, agent_id)
        return function

    return marked


@dataclass(slots=True)
class Plan:
    """A plan that is built in code. Its tasks take the keys of a plan file."""

    plan_id: str
    name: str | None = None
    more: dict[str, Any] = field(default_factory=dict)
    """Other keys of a plan file, e.g. `policies` and `agents`."""
    tasks: list[dict[str, Any]] = field(default_factory=list)

    def task(self, task_id: str, *, agent: str, prompt: str, **keys: Any) -> str:
        """Add a task and return its id, for the `needs` of others. Outputs and inputs may be given by name alone."""
        keys["outputs"] = [_output(output) for output in keys.get("outputs", ())]
        inputs = keys.get("inputs", ())
        pairs = inputs.items() if isinstance(inputs, Mapping) else ()
        keys["inputs"] = [{"name": name, "from": source} for name, source in pairs] or list(inputs)
        self.tasks.append({"id": task_id, "agent": agent, "prompt": prompt, **keys})
        return task_id

    def compiled(self, agents: Iterable[str] = ()) -> CompiledPlan:
        """Compile the plan. Raises ContractError with every problem. `agents` are functions of this program.

        Files of checks are read from the current folder.
        """
        described = dict(self.more.get("agents", {}))
        for name in agents:
            described[name] = {"driver": "python", **described.get(name, {})}
        document = {"plan_id": self.plan_id, "name": self.name, **self.more, "agents": described, "tasks": self.tasks}
        compiled = with_check_files(compile_plan(reader.plan_of(YamlSource(document))), Path.cwd())
        if compiled.problems:
            first = compiled.problems[0]
            raise ContractError(first.code, f"{first.field}: {first.message}", compiled.problems, hint=first.hint)
        return compiled


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a plan."""

    plan_id: str
    result: str
    """`done`, `failed`, or `waiting` for a person or an outside agent."""
    tasks: Mapping[str, Mapping[str, Any]]
    """Task → its status."""
    root: Path

    @property
    def done(self) -> bool:
        """Whether everything is done."""
        return self.result == "done"

    def output(self, task_id: str, name: str, path: str | None = None) -> bytes:
        """Return the content of a deliverable."""
        folder = self.root / "system_runtime/artifacts" / self.plan_id / task_id / name
        return (folder / (path or name)).read_bytes()


async def run(
    plan: Plan | CompiledPlan,
    *,
    root: Path | str,
    agents: Mapping[str, Agent] | Iterable[Agent] = (),
    wait: bool = False,
) -> Outcome:
    """Run a plan in a root, which is created if necessary. Run the same plan again to continue it.

    Returns when the plan has ended, or waits for a person or an outside agent; with `wait`, only when it has ended.
    """
    functions = {**entry_points(), **_named(agents)}
    compiled = plan.compiled(functions) if isinstance(plan, Plan) else plan
    folder = await asyncio.to_thread(_made, Path(root))
    seen: list[dict[str, Any]] = []

    async def job(running: Engine) -> None:
        await running.service.plans.submit(compiled.dag, compiled.manifest, compiled.profiles, compiled.files)
        with running.dispatcher.subscribe_ends() as news:
            while True:
                news.clear()
                read = running.service.plans.read_status if wait else running.service.plans.settle
                seen[:] = [dict(await read(compiled.dag.plan_id))]
                if seen[0]["result"] != "running" and (not wait or seen[0]["state"] == "ENDED"):
                    return
                await news.wait()

    def performers(deps: Deps) -> Mapping[str, Performer]:
        return {"python": PythonPerformer(functions, deps.stores.blobs)}

    loaded = await asyncio.to_thread(settings.load, folder)
    await wiring.serve(folder, loaded, stop=asyncio.Event(), port=0, job=job, performers=performers)
    standing = seen[0]
    tasks = {task["task_id"]: task for task in standing["tasks"]}
    return Outcome(compiled.dag.plan_id, standing["result"], tasks, folder)


def _made(root: Path) -> Path:
    folder = root.absolute()
    for name in ("agents", "system_runtime"):
        (folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def entry_points() -> dict[str, Agent]:
    """Return the agents that installed packages offer."""
    return {found.name: found.load() for found in importlib.metadata.entry_points(group=GROUP)}


def _named(agents: Mapping[str, Agent] | Iterable[Agent]) -> dict[str, Agent]:
    if isinstance(agents, Mapping):
        return dict(agents)
    named = {}
    for function in agents:
        name = getattr(function, _MARK, None)
        if name is None:
            hint = "write @agenttalk.agent('name') above it, or pass a mapping"
            raise UsageError(Code.NAME_UNKNOWN, f"{function!r} does not say which agent it is", hint=hint)
        named[name] = function
    return named


def _output(output: Any) -> Any:
    return {"name": output, "deliverable": True} if isinstance(output, str) else output
