"""What a person's word is worth: known by how it came, and by what its agents could have done."""

from __future__ import annotations

from typing import Any

import pytest

from agenttalk.contracts.agent import AgentProfile
from agenttalk.rules.people.attestation import UNKNOWN, AnswerProof, list_exposed_agents, read_proof


def profile(name: str, **said: Any) -> AgentProfile:
    return AgentProfile.from_json({"schema_version": "1.0", "agent_id": name, **said})


@pytest.mark.parametrize(
    ("proof", "worth"),
    [
        (AnswerProof("page", "ada", isolated=True), "confirmed"),
        (AnswerProof("token", "ada", isolated=True), "confirmed"),
        (AnswerProof("operator", isolated=True), "confirmed"),
        (AnswerProof("page", "ada"), "attested"),
        (AnswerProof("file", isolated=True), "attested"),
        (AnswerProof("engine", isolated=True), "attested"),
        (UNKNOWN, "attested"),
    ],
)
def test_only_what_no_agent_could_have_said_is_confirmed(proof: AnswerProof, worth: str) -> None:
    assert proof.trust == worth
    assert read_proof(proof.as_json()) == proof


@pytest.mark.parametrize("said", [None, {}, {"how": "magic", "credential": "", "isolated": True}, {"how": "page"}])
def test_what_cannot_be_read_proves_nothing(said: object) -> None:
    assert read_proof(said) == UNKNOWN


def test_agents_are_exposed_unless_something_is_known_to_confine_them() -> None:
    team = [
        profile("plain", driver="script", argv=["x"], sandbox="plain"),
        profile("wrapped", driver="script", argv=["x"], sandbox="bubblewrap"),
        profile("coder", driver="cli", cli="claude", sandbox="best"),
        profile("model", driver="llm", llm={"provider": "openai", "model": "m"}),
        profile("person", driver="human"),
        profile("function", driver="python"),
        profile("hands", driver="folder"),
        profile("away", driver="remote"),
    ]
    assert list_exposed_agents(team) == ["away", "function", "hands", "plain"]
