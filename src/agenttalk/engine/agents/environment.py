"""The arguments, environment, limits and budget of a turn's program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from agenttalk.contracts.agent import AgentProfile, ProgramLimits
from agenttalk.contracts.command import Command
from agenttalk.contracts.core import root_layout
from agenttalk.contracts.errors import AgentTalkError
from agenttalk.engine.core.agent_in_plan import AgentInPlan
from agenttalk.engine.core.attempt_paths import AttemptPaths, EngineAddress
from agenttalk.ports.agents import ResourceBudget

_MIB: Final = 1024 * 1024
_UNLIMITED: Final = ProgramLimits()
_DISK_MIB: Final = 20 * 1024
_MANY_FILES: Final = 1_000_000
_MANY_PROCESSES: Final = 4096
_OUTPUT_MIB: Final = 1024
"""Defaults where a profile sets no limit. The documentation of its limits names them, too."""


def limits_of(profile: AgentProfile) -> dict[str, int]:
    """Return the limits of each process of an agent's program, by the kernel's names. No core dump is written."""
    said = profile.limits or _UNLIMITED
    found = {
        "AS": said.memory_mib and said.memory_mib * _MIB,
        "CPU": said.cpu_seconds,
        "FSIZE": (said.file_mib or said.disk_mib or _DISK_MIB) * _MIB,
        "NOFILE": said.open_files,
        "CORE": 0,
    }
    return {name: value for name, value in found.items() if value is not None}


def budget_of(profile: AgentProfile, root: Path, layout: AttemptPaths) -> ResourceBudget:
    """Return the resources that all processes of an agent's program may use together."""
    said = profile.limits or _UNLIMITED
    cwd, base = root / layout.cwd, root / layout.base
    own = base.is_relative_to(cwd)  # else it works in a clone, which is made again for each attempt
    memory = said.total_memory_mib or said.memory_mib
    return ResourceBudget(
        disk=(said.disk_mib or _DISK_MIB) * _MIB,
        files=said.files or _MANY_FILES,
        processes=said.processes or _MANY_PROCESSES,
        output=(said.output_mib or _OUTPUT_MIB) * _MIB,
        memory=memory and memory * _MIB,
        places=(cwd,) if own else (cwd, base),
        cleared=(base, cwd) if own else (base,),
        kept=(base.parent,),
        exact=any((said.disk_mib, said.files)),
    )


def argv_of(seat: AgentInPlan, profile: AgentProfile) -> tuple[str, ...]:
    """Return the program with its arguments. One that names a file in the agent's folder means that file."""
    folder = root_layout.agent_folder(seat.agent_id)

    def meant(argument: str) -> str:
        if argument.startswith(("/", "-")):
            return argument
        path = f"{folder}/{argument.removeprefix('./')}"
        try:
            entry = seat.root.entry(path)
        except AgentTalkError:
            return argument
        is_file = entry is not None and entry.kind == "regular"
        return str(seat.root.path.absolute() / path) if is_file else argument

    return tuple(meant(argument) for argument in profile.argv)


def pick_variables(profile: AgentProfile, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a profile names, as far as they are set."""
    return {name: environ[name] for name in profile.env if name in environ and not name.upper().startswith("AGENTTALK")}


@dataclass(frozen=True, slots=True)
class TurnEnvironment:
    """The variables that describe an attempt to its program; the names are public."""

    root: Path
    layout: AttemptPaths
    command: Command
    attempt: int
    token: str
    api: EngineAddress | None = None
    feedback: str | None = None
    """The file with the reasons why the work was sent back."""
    mode: Literal["execute", "validate"] = "execute"
    """Whether the program is to do the task, or to judge an input."""
    traceparent: str = ""
    """The place of the attempt in a trace, in the W3C's form; empty without tracing."""

    def variables(self, profile: AgentProfile, environ: Mapping[str, str]) -> dict[str, str]:
        """Return these variables, and those of `environ` that the profile names."""
        own = {
            "AGENTTALK_MODE": self.mode,
            "AGENTTALK_PLAN_ID": self.command.plan_id,
            "AGENTTALK_TASK_ID": self.command.task_id,
            "AGENTTALK_COMMAND_ID": self.command.command_id,
            "AGENTTALK_ATTEMPT": str(self.attempt),
            "AGENTTALK_COMMAND": str(self.root / self.layout.command),
            "AGENTTALK_INPUTS": str(self.root / self.layout.inputs),
            "AGENTTALK_OUTPUTS": str(self.root / self.layout.outputs),
            "AGENTTALK_RESULT": str(self.root / self.layout.result),
            "AGENTTALK_TOKEN": self.token,
        }
        if self.api is not None:
            places = {"AGENTTALK_API": self.api.http, "AGENTTALK_SOCKET": self.api.socket}
            own |= {name: place for name, place in places.items() if place}
        if self.command.reexecute is not None and self.feedback is not None:
            own["AGENTTALK_FEEDBACK"] = str(self.root / self.feedback)
        if self.traceparent:
            own["TRACEPARENT"] = self.traceparent
        return {**pick_variables(profile, environ), **own}
