"""Who is who at the forges."""

from __future__ import annotations

from agenttalk.contracts.forge import ForgeUser
from agenttalk.rules.toolchain.accounts import CiComment, ForgeIdentity, ForgeRegistry, same_user


def user(login: str, number: int | None = None, source: str = "work") -> ForgeUser:
    return ForgeUser(source=source, login=login, id=number)


REGISTRY = ForgeRegistry(
    identities=(ForgeIdentity("dev", "work", "Agent-Dev", 11), ForgeIdentity("ops", "work", "agent-ops")),
    repositories=("acme/*",),
    deploy_patterns=("deploy*",),
    ci_comments=(CiComment("work", "*build failed*", "ci-bot"),),
)


def test_a_configured_number_decides_and_not_the_name() -> None:
    assert REGISTRY.agent_of(user("renamed", 11)) == "dev"
    assert REGISTRY.agent_of(user("agent-dev", 12)) is None
    assert REGISTRY.agent_of(user("agent-dev")) is None


def test_without_a_number_the_name_decides_in_any_case() -> None:
    assert REGISTRY.agent_of(user("AGENT-OPS", 99)) == "ops"
    assert REGISTRY.agent_of(user("agent-ops", source="other")) is None


def test_accounts_of_the_forge_itself_are_nobody() -> None:
    assert REGISTRY.agent_of(user("agent-ops", -2)) is None


def test_accounts_are_found_by_name_and_by_agent() -> None:
    assert REGISTRY.find_identity("work", "agent-dev") == ForgeIdentity("dev", "work", "Agent-Dev", 11)
    assert REGISTRY.find_identity("other", "agent-dev") is None
    assert REGISTRY.account_of("work", "dev") == user("Agent-Dev", 11)
    assert REGISTRY.account_of("work", None) is None


def test_two_accounts_are_the_same_by_number_or_else_by_name() -> None:
    assert same_user(user("a", 1), user("b", 1))
    assert not same_user(user("a", 1), user("a", 2))
    assert same_user(user("A"), user("a", 2))
    assert not same_user(user("a"), user("a", source="other"))
    assert not same_user(None, user("a"))
    assert not same_user(user("a"), None)


def test_patterns_match_in_any_case_and_nothing_matches_none() -> None:
    assert REGISTRY.covers("Acme/Widgets")
    assert not REGISTRY.covers("other/widgets")
    assert not ForgeRegistry().covers("acme/widgets")
    assert REGISTRY.is_deployment_name("", "Deploy to production")
    assert not REGISTRY.is_deployment_name("", "test")


def test_only_the_named_service_says_by_a_comment_that_something_failed() -> None:
    assert (
        REGISTRY.find_failure_line("work", "CI-bot", "Hello\n  The Build Failed: 3 tests  ")
        == "The Build Failed: 3 tests"
    )
    assert REGISTRY.find_failure_line("work", "ci-bot", "all is well") is None
    assert REGISTRY.find_failure_line("work", "mallory", "build failed") is None
    assert REGISTRY.find_failure_line("other", "ci-bot", "build failed") is None
