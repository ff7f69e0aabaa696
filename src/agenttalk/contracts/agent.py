"""The agent's profile: who it is and how it is driven."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from agenttalk.contracts.base import AgentIdText, Document, Many, Part, Positive, Text

Locale = Literal["en", "zh"]
Tier = Literal["plain", "landlock", "bubblewrap", "best"]
"""How a program is confined; `best` is the best of the others that works where it runs."""
Switch = Literal["on", "off"]


class ProgramLimits(Part):
    """What each process of an agent's program may use. Time is limited by the command."""

    memory_mib: Positive | None = None
    """Memory, in MiB of address space."""
    cpu_seconds: Positive | None = None
    """Time on a processor."""
    file_mib: Positive | None = None
    """Size of a file that it writes, in MiB."""


class AgentProfile(Document):
    """An agent (`agent_profile.json`): its role, its program, and what the program may see."""

    agent_id: AgentIdText
    """The agent; the name of its folder."""
    name: str | None = None
    """What people call it."""
    driver: Text = "folder"
    """How it is driven: `script` starts `argv`, `folder` starts nothing; others are reported as unsupported."""
    argv: Many[str] = ()
    """The program and its arguments. A relative path that lies in the agent's folder means that file."""
    prompt: str | None = None
    """Its role, in words."""
    skills: Many[str] = ()
    """What it can do."""
    inputs: Many[str] = ()
    """Inputs that it handles."""
    outputs: Many[str] = ()
    """Outputs that it makes."""
    locale: Locale = "en"
    """The language of the prompts that it gets."""
    env: Annotated[Many[Text], Field(max_length=100)] = ()
    """Names of variables of ours that its program gets. Never those that begin with AGENTTALK."""
    limits: ProgramLimits | None = None
    """What its program may use."""
    sandbox: Tier = "plain"
    """How its program is confined: `plain` not at all, `landlock`, `bubblewrap`, or `best` of those that work."""
    network: Switch = "on"
    """Whether its program may use the network; `off` leaves it the socket AGENTTALK_SOCKET, and needs a sandbox."""
    self_assessment: bool = False
    """Whether it judges first how fit it is for a command, and may return it."""

    @property
    def confined(self) -> bool:
        """Whether anything keeps its program from what this user may do."""
        return self.sandbox != "plain" or self.network == "off"
