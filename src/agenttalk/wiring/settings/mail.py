"""Makes the rules of the mail board from the settings."""

from __future__ import annotations

from agenttalk.contracts.agent import AgentProfile
from agenttalk.ports.kinds import MailRules
from agenttalk.wiring.settings.tables import Settings


def mail_rules(settings: Settings) -> MailRules:
    """Return the rules for letters. Agents are as the settings define them; their own profiles do not count here."""
    profiles = {
        name: AgentProfile.from_json(settings.profile_of(name, {"schema_version": "1.0", "agent_id": name}))
        for name in settings.agents
    }
    driven = frozenset(name for name, each in settings.agents.items() if each.driver is not None)
    return MailRules(profiles, driven, **dict(settings.mail))
