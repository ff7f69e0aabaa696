"""A schedule: a plan file or a single task, with a cron expression."""

from typing import Annotated, Self

from pydantic import AfterValidator, model_validator
from pydantic_core import PydanticCustomError

from agenttalk.contracts.core import cron
from agenttalk.contracts.core.base import IdText, Part, Text
from agenttalk.contracts.errors import Code


def _check_cron(text: str) -> str:
    try:
        cron.parse_cron(text)
    except ValueError as error:
        raise PydanticCustomError(Code.FIELD_VALUE, "{why}", {"why": str(error)}) from error
    return text


class Schedule(Part, extra="forbid"):
    """A schedule. It has a plan file, or an agent and a prompt."""

    cron: Annotated[str, AfterValidator(_check_cron)]
    """The times: minute, hour, day of the month, month, weekday; or `@hourly`, `@daily`, `@weekly`, `@monthly`,
    `@yearly`."""
    timezone: Text = "UTC"
    """The time zone, such as `Europe/Berlin`."""
    plan: Text | None = None
    """A plan file; a relative path starts at the root. Its `plan_id` is replaced for each run."""
    agent: IdText | None = None
    """The agent, if there is no plan file."""
    prompt: Text | None = None
    """The prompt, if there is no plan file."""
    catch_up: bool = True
    """Whether times that passed while no engine ran lead to a run: at most one, however many were missed."""

    @model_validator(mode="after")
    def _check_work(self) -> Self:
        single = self.agent is not None and self.prompt is not None
        if (self.plan is None) != single or (self.plan is not None and (self.agent or self.prompt)):
            raise PydanticCustomError(Code.FIELD_MISSING, "give a plan, or an agent and a prompt")
        return self
