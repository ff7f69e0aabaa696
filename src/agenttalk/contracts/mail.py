"""Mail between agents and people."""

from typing import Annotated, Literal

from pydantic import Field

from agenttalk.contracts.core.base import AgentIdText, Document, Instant, Many, MessageIdText, Text


class Mail(Document):
    """A letter (`mail_<message_id>.json` in `outbox/_mail/`)."""

    message_id: MessageIdText
    """Its id."""
    sender: Annotated[AgentIdText, Field(alias="from")]
    """Who writes."""
    to: Annotated[Many[AgentIdText], Field(min_length=1)]
    """Who reads."""
    kind: Literal["inform", "request"]
    """Whether reading is enough or an answer is needed."""
    subject: Text
    """The subject, in one line."""
    body: str
    """The letter."""
    in_reply_to: MessageIdText | None = None
    """The letter it answers."""
    deadline: Instant | None = None
    """Deadline of the answer to a request."""
