"""Forges in the settings: what is wrong is told with the nearest name, and no source starts without a secret."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.errors import Code, ContractError, UsageError
from agenttalk.contracts.forge import ForgeUser
from agenttalk.engine.toolchain.task_kind import ToolchainTaskKind
from agenttalk.rules.prompts.toolchain_steps import ForgeAddresses
from agenttalk.wiring import forge_sources
from agenttalk.wiring import task_kinds as kinds
from agenttalk.wiring.settings import Settings, load
from doors.api.enginekit import started
from engine.toolchain.kits.bench import SECRET, written

SOURCE = '[sources.work]\nkind = "gitea"\nbase_url = "https://git.example.test/"\n'


def loaded(root: Path, text: str) -> Settings:
    (root / "agenttalk.toml").write_text(text, encoding="utf-8")
    return load(root, {})


@pytest.mark.parametrize(
    ("text", "field", "near"),
    [
        ('[sources.work]\nkind = "gitea"\nbase_url = "x"\nsecret_evn = "X"', "sources.work.secret_evn", "secret_env"),
        ('[toolchain]\ndefault_reviwer = "x"', "toolchain.default_reviwer", "default_reviewer"),
        ("[toolchain.risk]\nhihg = []", "toolchain.risk.hihg", "high"),
        ('[agents.dev.forge.work]\nlogni = "x"', "agents.dev.forge.work.logni", "login"),
        ("[limits]\nhop = 3", "limits.hop", "hops"),
    ],
)  # fmt: skip
def test_a_misspelt_key_is_told_with_the_nearest_one(tmp_path: Path, text: str, field: str, near: str) -> None:
    with pytest.raises(ContractError) as caught:
        loaded(tmp_path, text)
    assert {each.field: each.hint for each in caught.value.problems}[field] == f"did you mean {near!r}?"


@pytest.mark.parametrize("text", ['[sources.work]\nkind = "gitlab"\nbase_url = "x"', '[sources.work]\nkind = "gitea"'])
def test_what_a_source_lacks_is_told(tmp_path: Path, text: str) -> None:
    with pytest.raises(ContractError):
        loaded(tmp_path, text)


def test_no_source_starts_without_a_secret_unless_it_says_insecure(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="any sender could forge webhooks") as caught:
        forge_sources.make_sources(tmp_path, loaded(tmp_path, SOURCE), {})
    assert "insecure = true" in caught.value.hint
    with pytest.raises(UsageError, match="the variable HOOK"):
        forge_sources.make_sources(tmp_path, loaded(tmp_path, f'{SOURCE}secret_env = "HOOK"'), {"HOOK": " "})
    with pytest.raises(UsageError, match="cannot read"):
        forge_sources.make_sources(tmp_path, loaded(tmp_path, f'{SOURCE}secret_file = "no.txt"'), {})
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(UsageError, match="holds no secret"):
        forge_sources.make_sources(tmp_path, loaded(tmp_path, f'{SOURCE}secret_file = "empty.txt"'), {})
    open_to_all = forge_sources.make_sources(tmp_path, loaded(tmp_path, f"{SOURCE}insecure = true"), {})["work"]
    assert open_to_all.refusal([], b"{}") == ""
    both = forge_sources.make_sources(
        tmp_path, loaded(tmp_path, f'{SOURCE}insecure = true\nsecret_env = "HOOK"'), {"HOOK": "x"}
    )
    assert both["work"].refusal([], b"{}") != "", "a secret that is there is always asked for"
    assert "x" not in repr(both["work"]).replace("example", "").replace("x-", "")


def test_an_engine_does_not_start_with_a_source_without_a_secret(tmp_path: Path) -> None:
    root = written(tmp_path / "root", {})
    (root / "secret.txt").unlink()
    process = started(root)
    said = process.communicate(timeout=300)
    assert process.returncode == 2, said
    assert "secret.txt" in said[0] + said[1]
    assert SECRET not in said[0] + said[1]


def test_who_is_who_comes_from_the_agents(tmp_path: Path) -> None:
    text = f"""{SOURCE}ci_comment_patterns = {{ "ci-bot" = ["*failed*"] }}
login = "engine"
[agents.dev]
forge.work = {{ login = "Agent-Dev", id = 7, token_env = "DEV_TOKEN" }}
env = ["LANG"]
[toolchain]
ops = "dev"
repos = ["acme/*"]
"""
    settings = loaded(tmp_path, text)
    found = forge_sources.build_registry(settings)
    assert found.agent_of(ForgeUser(source="work", login="renamed", id=7)) == "dev"
    assert found.agent_of(ForgeUser(source="work", login="agent-dev", id=8)) is None
    assert found.covers("acme/widgets")
    assert not found.covers("other/widgets")
    assert found.find_failure_line("work", "ci-bot", "fine\nthe build failed") == "the build failed"
    assert found.engines == {"work": "engine"}
    profile = settings.profile_of("dev", {"schema_version": "1.0", "agent_id": "dev"})
    assert profile["env"] == ["LANG"], "its own token reaches it only where its task needs it"
    assert "forge" not in profile
    assert forge_sources.build_task_kind(settings).tokens == {("dev", "work"): "DEV_TOKEN"}
    made = forge_sources.build_setup(
        settings, lambda agent: AgentProfile.from_json(settings.profile_of(agent, profile))
    )
    base = "https://git.example.test"
    assert made.places == {"work": ForgeAddresses("gitea", f"{base}/api/v1", web=(f"{base}/",))}


@pytest.mark.parametrize("role", ["default_reviewer", "ops", "lead"])
def test_roles_and_accounts_name_what_is_there(tmp_path: Path, role: str) -> None:
    with pytest.raises(UsageError, match="not an agent"):
        forge_sources.build_registry(loaded(tmp_path, f'[toolchain]\n{role} = "nobody"'))
    with pytest.raises(UsageError, match="not a source"):
        forge_sources.build_registry(loaded(tmp_path, '[agents.dev]\nforge.work = { login = "dev" }'))


@pytest.mark.shows("T19")
@pytest.mark.parametrize(
    ("one", "other", "holder"),
    [
        ('login = "bot"', 'login = "Bot"', "dev"),
        ('login = "bot", id = 7', 'login = "renamed", id = 7', "dev"),
        ('login = "bot"', 'login = "Engine"', "the engine"),
    ],
)
def test_an_account_is_that_of_one_agent_alone(tmp_path: Path, one: str, other: str, holder: str) -> None:
    text = f'{SOURCE}login = "engine"\n[agents.dev]\nforge.work = {{ {one} }}\n[agents.reviewer]\n'
    with pytest.raises(UsageError, match=f"is the account of {holder}") as refused:
        forge_sources.build_registry(loaded(tmp_path, f"{text}forge.work = {{ {other} }}"))
    assert refused.value.code is Code.NAME_TAKEN
    elsewhere = '[sources.hub]\nkind = "github"\nbase_url = "https://github.com"\n'
    found = forge_sources.build_registry(loaded(tmp_path, f"{elsewhere}{text}forge.hub = {{ {other} }}"))
    assert len(found.identities) == 2, "the same name at another forge is another account"


def test_what_done_takes_follows_from_the_token(tmp_path: Path) -> None:
    def verify(text: str) -> str:
        settings = loaded(tmp_path, text)
        return forge_sources.verification_mode_of(settings, settings.sources["work"])

    assert verify(SOURCE) == "transition"
    assert verify(f'{SOURCE}token_env = "T"') == "observed"
    assert verify(f'{SOURCE}token_env = "T"\n[toolchain]\nverify = "report"') == "report"


def test_the_address_of_the_api_follows_from_the_kind(tmp_path: Path) -> None:
    for kind, base, api in (
        ("forgejo", "https://codeberg.test", "https://codeberg.test/api/v1"),
        ("github", "https://github.com", "https://api.github.com"),
        ("github", "https://ghe.test/", "https://ghe.test/api/v3"),
    ):
        settings = loaded(tmp_path, f'[sources.work]\nkind = "{kind}"\nbase_url = "{base}"')
        assert forge_sources.api_url_of(settings.sources["work"]) == api


def test_clients_are_made_for_sources_with_a_token(tmp_path: Path) -> None:
    text = f'{SOURCE}token_file = "token.txt"\n[sources.hub]\nkind = "github"\nbase_url = "https://github.com"\n'
    (tmp_path / "token.txt").write_text("t0ken\n")
    settings = loaded(tmp_path, f'{text}token_env = "HUB"\n[sources.none]\nkind = "gitea"\nbase_url = "https://x.test"')

    async def names() -> set[str]:
        async with forge_sources.open_clients(tmp_path, settings, {"HUB": "t0ken"}) as found:
            return set(found)

    assert asyncio.run(names()) == {"work", "hub"}


class _Point:
    """An entry point as the registry sees it."""

    def __init__(self, name: str, made: object) -> None:
        self.name = name
        self._made = made

    def load(self) -> object:
        if isinstance(self._made, Exception):
            raise self._made
        return lambda: self._made


@pytest.mark.shows("T16")
def test_kinds_are_found_by_their_boards_and_a_broken_one_does_not_stop_the_others() -> None:
    ours, other = ToolchainTaskKind(), ToolchainTaskKind(name="audit", board="_audit")
    points = [_Point("broken", ImportError("no such module")), _Point("audit", other)]
    installed = kinds.load_installed_kinds(points)  # type: ignore[arg-type]
    assert installed == [other]
    assert kinds.register_kinds([ours, *installed]) == {"_toolchain": ours, "_audit": other}
    with pytest.raises(UsageError, match="both want the board") as caught:
        kinds.register_kinds([ours, ToolchainTaskKind(name="second")])
    assert caught.value.code is Code.FIELD_VALUE
    with pytest.raises(UsageError, match="is not a kind of task"):
        kinds.register_kinds([object()])  # type: ignore[list-item]
    assert kinds.load_installed_kinds() == []
