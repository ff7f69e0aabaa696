"""AgentTalk: a work engine for teams of AI agents in which done is proven, not claimed.

>>> import agenttalk
>>> answer = agenttalk.generate_command({"plan_id": "_mail", "task_id": "hello", "prompt": "Say hello."})
>>> answer.command.command_id
'cmd_hello_001'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agenttalk.contracts.errors import AgentTalkError, Code, ContractError, InputError, JsonError, Problem
    from agenttalk.contracts.generation import GenerateResult, Repair, ValidateResult
    from agenttalk.doors.library import Outcome, Plan, Result, Turn, agent, run
    from agenttalk.rules.commands.generation import generate as generate_command
    from agenttalk.rules.commands.validation import Known
    from agenttalk.rules.commands.validation import validate as validate_command

__version__ = "0.1.0"

_HOMES = {
    "AgentTalkError": ("agenttalk.contracts.errors", "AgentTalkError"),
    "Code": ("agenttalk.contracts.errors", "Code"),
    "ContractError": ("agenttalk.contracts.errors", "ContractError"),
    "GenerateResult": ("agenttalk.contracts.generation", "GenerateResult"),
    "InputError": ("agenttalk.contracts.errors", "InputError"),
    "JsonError": ("agenttalk.contracts.errors", "JsonError"),
    "Known": ("agenttalk.rules.commands.validation", "Known"),
    "Outcome": ("agenttalk.doors.library", "Outcome"),
    "Plan": ("agenttalk.doors.library", "Plan"),
    "Problem": ("agenttalk.contracts.errors", "Problem"),
    "Repair": ("agenttalk.contracts.generation", "Repair"),
    "Result": ("agenttalk.doors.library", "Result"),
    "Turn": ("agenttalk.doors.library", "Turn"),
    "ValidateResult": ("agenttalk.contracts.generation", "ValidateResult"),
    "agent": ("agenttalk.doors.library", "agent"),
    "generate_command": ("agenttalk.rules.commands.generation", "generate"),
    "run": ("agenttalk.doors.library", "run"),
    "validate_command": ("agenttalk.rules.commands.validation", "validate"),
}

__all__ = [
    "AgentTalkError",
    "Code",
    "ContractError",
    "GenerateResult",
    "InputError",
    "JsonError",
    "Known",
    "Outcome",
    "Plan",
    "Problem",
    "Repair",
    "Result",
    "Turn",
    "ValidateResult",
    "__version__",
    "agent",
    "generate_command",
    "run",
    "validate_command",
]


def __getattr__(name: str) -> object:
    """Load a public name when it is first used, so that `agenttalk --help` loads none of them."""
    if name not in _HOMES:
        raise AttributeError(f"module 'agenttalk' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    value: object = getattr(import_module(module), attribute)
    globals()[name] = value
    return value
