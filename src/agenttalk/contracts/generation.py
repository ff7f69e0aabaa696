"""The results of generating and of validating a command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from agenttalk.contracts.command import Command
from agenttalk.contracts.errors import Problem


@dataclass(frozen=True, slots=True)
class Repair:
    """A field that generation filled in, converted or replaced."""

    field: str
    """The field."""
    before: Annotated[Any, Field(serialization_alias="from")]
    """The old value; null if there was none."""
    after: Annotated[Any, Field(serialization_alias="to")]
    """The new value; null if it was removed."""
    why: str
    """Why."""


class ValidateResult(BaseModel):
    """Whether a command is valid as it is."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    ok: bool
    """True exactly when there are no errors."""
    command: Command | None
    """The command, if it is valid."""
    errors: tuple[Problem, ...] = ()
    """Everything that is wrong with it."""
    warnings: tuple[Problem, ...] = ()
    """What is allowed but probably a mistake, such as a misspelt field."""

    def as_json(self) -> dict[str, Any]:
        """Return the answer as JSON values."""
        return self.model_dump(mode="json", by_alias=True)


class GenerateResult(ValidateResult):
    """A complete, valid command with its repairs, or the reasons why there is none."""

    repairs: tuple[Repair, ...] = ()
    """Every field that was filled in, converted or replaced."""
