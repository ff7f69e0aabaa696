"""The answers of `generate_command` and of validating a command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from agenttalk.contracts.command import Command
from agenttalk.contracts.errors import Problem


@dataclass(frozen=True, slots=True)
class Repair:
    """One thing that generating filled in, converted or replaced."""

    field: str
    """What was repaired."""
    before: Annotated[Any, Field(serialization_alias="from")]
    """What was there; null where there was nothing."""
    after: Annotated[Any, Field(serialization_alias="to")]
    """What is there now; null where it was removed."""
    why: str
    """Why."""


class ValidateResult(BaseModel):
    """Whether a command may go on its way as it is."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    ok: bool
    """True exactly when there are no errors."""
    command: Command | None
    """The command, when it is good."""
    errors: tuple[Problem, ...] = ()
    """Everything that is wrong with it."""
    warnings: tuple[Problem, ...] = ()
    """What is allowed but probably not meant, such as a misspelt field."""

    def as_json(self) -> dict[str, Any]:
        """The answer as JSON values."""
        return self.model_dump(mode="json", by_alias=True)


class GenerateResult(ValidateResult):
    """A complete, valid command and what was done to make it so; or why there is none."""

    repairs: tuple[Repair, ...] = ()
    """Every field that was filled in, converted or replaced."""
