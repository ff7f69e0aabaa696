"""Settings: the file, the environment over it, and mistakes in both."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agenttalk.contracts.errors import Code, ContractError, UsageError
from agenttalk.engine.core.deps import EngineLimits
from agenttalk.rules.operation.retention import RetentionLimit
from agenttalk.wiring import open_configured_root
from agenttalk.wiring.settings import load, origins

FULL = """
locale = "zh"
[server]
port = 0
[store]
url = "postgresql://db/x"
[agents.Reviewer]
driver = "script"
argv = ["python3", "review.py"]
env = ["LANG"]
[limits]
payload_mib = 4
max_running = 2
"""


def problems(root: Path, text: str, environ: dict[str, str] | None = None) -> dict[str, str]:
    (root / "agenttalk.toml").write_text(text, encoding="utf-8")
    with pytest.raises(ContractError) as caught:
        load(root, environ or {})
    return {problem.field: problem.hint for problem in caught.value.problems}


def test_without_a_file_everything_has_its_default(tmp_path: Path) -> None:
    settings = load(tmp_path, {})
    assert (settings.server.host, settings.server.port, settings.server.public) == ("127.0.0.1", 8083, False)
    assert (settings.locale, settings.store_url, settings.limits.max_running) == ("en", "", 8)
    assert settings.agents == {}


def test_a_file_says_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "agenttalk.toml").write_text(FULL, encoding="utf-8")
    settings = load(tmp_path, {})
    assert (settings.locale, settings.server.port, settings.store_url) == ("zh", 0, "postgresql://db/x")
    assert settings.limits.payload_mib == 4
    profile = {"agent_id": "Reviewer", "driver": "folder", "prompt": "You review."}
    assert settings.profile_of("pm", {"agent_id": "pm", "locale": "en"}) == {"agent_id": "pm", "locale": "en"}
    assert settings.profile_of("Reviewer", profile) == {
        "agent_id": "Reviewer",
        "locale": "zh",
        "driver": "script",
        "prompt": "You review.",
        "argv": ["python3", "review.py"],
        "env": ["LANG"],
    }


def test_the_environment_wins(tmp_path: Path) -> None:
    (tmp_path / "agenttalk.toml").write_text(FULL, encoding="utf-8")
    settings = load(
        tmp_path,
        {
            "AGENTTALK__LOCALE": "en",
            "AGENTTALK__SERVER__PORT": "9000",
            "AGENTTALK__SERVER__PUBLIC": "true",
            "AGENTTALK__SERVER__HOST": "10.0.0.1",
            "AGENTTALK__SERVER__NAMES": '["box.example:9000"]',
            "AGENTTALK__AGENTS__REVIEWER__DRIVER": "folder",
            "AGENTTALK__AGENTS__PM__PROMPT": "1234",
            "AGENTTALK_ROOT": "/elsewhere",
        },
    )
    assert (settings.locale, settings.server.port, settings.server.public) == ("en", 9000, True)
    assert (settings.server.host, settings.server.names) == ("10.0.0.1", ("box.example:9000",))
    assert settings.agents["Reviewer"].driver == "folder"
    assert settings.agents["pm"].prompt == "1234"


def test_unknown_keys_are_all_told_with_the_nearest_one(tmp_path: Path) -> None:
    found = problems(tmp_path, '[server]\nprot = 1\n[agents.a]\ndirver = "x"\n[limit]\nx = 1\n[zebra]\n')
    assert found["server.prot"] == "did you mean 'port'?"
    assert found["agents.a.dirver"] == "did you mean 'driver'?"
    assert found["limit"] == "did you mean 'limits'?"
    assert found["zebra"].startswith("there are: locale, sandbox, isolation, server")
    assert problems(tmp_path, "", {"AGENTTALK__SERVER__PROT": "1"}) == {"server.prot": "did you mean 'port'?"}


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('[server]\nport = "80"\n', "server.port"),
        ("[server]\nport = 70000\n", "server.port"),
        ("[server]\nport = true\n", "server.port"),
        ('[store]\nurl = "mysql://x"\n', "store.url"),
        ('locale = "de"\n', "locale"),
        ('agents = "x"\n', "agents"),
        ('[agents."../x"]\n', "agents"),
        ("[limits]\npayload_mib = 0\n", "limits.payload_mib"),
        ("server = 1\n", "server"),
    ],
)
def test_a_wrong_value_is_told_with_its_place(tmp_path: Path, text: str, field: str) -> None:
    assert any(place.startswith(field) for place in problems(tmp_path, text))


def test_variables_that_can_set_nothing_are_told(tmp_path: Path) -> None:
    for name in ("AGENTTALK__", "AGENTTALK__SERVER__", "AGENTTALK__LOCALE__X", "AGENTTALK__SERVER__PORT__X"):
        (tmp_path / "agenttalk.toml").write_text('locale = "en"\n[server]\nport = 1\n', encoding="utf-8")
        with pytest.raises(ContractError):
            load(tmp_path, {name: "1"})


@pytest.mark.parametrize("data", [b"a = ", b"\xff\xfe", b"x" * (1024 * 1024 + 1)])
def test_a_file_that_is_no_toml_is_told_as_such(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "agenttalk.toml").write_bytes(data)
    with pytest.raises(UsageError) as caught:
        load(tmp_path, {})
    assert caught.value.code in {Code.FIELD_VALUE, Code.FILE_TOO_LARGE}
    assert "agenttalk.toml" in caught.value.message


def test_settings_cannot_be_changed_afterwards(tmp_path: Path) -> None:
    settings = load(tmp_path, {})
    with pytest.raises(Exception, match="frozen"):
        settings.server.port = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    "url", ["postgresql://ann:sesame@db/x", "postgres://:sesame@db/x", "postgresql://db/x?user=ann&password=sesame"]
)
def test_a_password_does_not_belong_into_the_file(tmp_path: Path, url: str) -> None:
    assert "url_file" in problems(tmp_path, f'[store]\nurl = "{url}"\n')["store.url"]
    (tmp_path / "agenttalk.toml").unlink()
    assert load(tmp_path, {"AGENTTALK__STORE__URL": url}).store_url == url


def test_a_file_of_its_own_holds_the_url(tmp_path: Path) -> None:
    secret = tmp_path / "elsewhere"
    secret.write_text("postgresql://ann:sesame@db/x\n", encoding="utf-8")
    (tmp_path / "agenttalk.toml").write_text(f'[store]\nurl_file = "{secret}"\n', encoding="utf-8")
    assert load(tmp_path, {}).store_url == "postgresql://ann:sesame@db/x"
    assert load(tmp_path, {"AGENTTALK__STORE__URL": "sqlite"}).store_url == ""
    secret.write_text("mysql://x", encoding="utf-8")
    with pytest.raises(ContractError):
        load(tmp_path, {})
    secret.unlink()
    with pytest.raises(UsageError, match="url_file"):
        load(tmp_path, {})


def test_every_secret_that_is_named_is_known(tmp_path: Path) -> None:
    (tmp_path / "hook").write_text("from-a-file\n")
    (tmp_path / "agenttalk.toml").write_text(
        """
[sources.a]
kind = "gitea"
base_url = "https://a.example"
secret_file = "hook"
token_env = "ENGINE_TOKEN"
[sources.b]
kind = "github"
base_url = "https://b.example"
secret_env = "NOT_SET"
token_file = "not there"
[agents.dev]
env = ["MODEL_KEY", "HTTP_PROXY", "EDITOR"]
forge.a = {login = "dev", token_env = "DEV_TOKEN"}
"""
    )
    environ = {"ENGINE_TOKEN": "engine-1", "MODEL_KEY": "key-123", "DEV_TOKEN": "dev-12345", "EDITOR": "/bin/vi"}
    password = {"AGENTTALK__STORE__URL": "postgresql://ada:hunter22@db/x", "HTTP_PROXY": "http://p:1"}
    assert load(tmp_path, password).read_secrets(tmp_path, environ | password) == {
        "sources.a.secret_file": "from-a-file",
        "ENGINE_TOKEN": "engine-1",
        "MODEL_KEY": "key-123",
        "DEV_TOKEN": "dev-12345",
        "store.url": "postgresql://ada:hunter22@db/x",
        "the store's password": "hunter22",
    }


def test_what_is_kept_of_garbage_is_said_for_all_or_for_a_kind(tmp_path: Path) -> None:
    (tmp_path / "agenttalk.toml").write_text("[gc]\nkeep_days = 5\nclones = {keep_days = 1, max_bytes = 9}\n")
    keeps = load(tmp_path, {}).gc.keeps
    assert keeps == {
        "clones": RetentionLimit(1, 9),
        "workspaces": RetentionLimit(5),
        "blobs": RetentionLimit(5),
        "transcripts": RetentionLimit(5),
    }


def test_a_root_is_opened_with_the_limits_that_are_set(tmp_path: Path) -> None:
    text = "[limits]\npayload_mib = 1\npoll_interval_seconds = 4\nmax_new_messages_per_tick = 3\n"
    (tmp_path / "agenttalk.toml").write_text(text, encoding="utf-8")

    settings = load(tmp_path, {"AGENTTALK__LIMITS__MAX_RESUME_MESSAGES_PER_TICK": "2"})

    async def limits() -> EngineLimits:
        async with open_configured_root(tmp_path, settings) as deps:
            return deps.limits

    assert asyncio.run(limits()) == EngineLimits(
        payload_bytes=1024 * 1024, new_messages_per_tick=3, resumed_messages_per_tick=2, poll_seconds=4.0
    )


@pytest.mark.parametrize("secret", ["://me:geheim@db/x", "://db/x?password=geheim", "://me:geh@eim@db/x"])
def test_each_setting_tells_where_it_was_set_and_no_password(tmp_path: Path, secret: str) -> None:
    (tmp_path / "agenttalk.toml").write_text(
        '[server]\nport = 9000\n[agents.Dev]\ndriver = "script"\nargv = ["true"]\n[schedules.weekly]\n'
        'plan = "plan.yaml"\ncron = "0 9 * * 1"\n'
    )
    environ = {"AGENTTALK__STORE__URL": f"postgresql{secret}", "AGENTTALK__AGENTS__DEV__LOCALE": "zh"}
    found = {each.key: (each.value, each.origin) for each in origins(tmp_path, environ)}
    assert found["server.port"] == (9000, "agenttalk.toml")
    assert found["server.host"] == ("127.0.0.1", "default")
    assert found["agents.Dev.argv"] == (["true"], "agenttalk.toml")
    assert found["agents.Dev.locale"] == ("zh", "AGENTTALK__AGENTS__DEV__LOCALE")
    assert found["schedules.weekly.cron"] == ("0 9 * * 1", "agenttalk.toml")
    assert found["store.url"] == ("postgresql://***@db/x", "AGENTTALK__STORE__URL")
    assert "agents.Dev.prompt" not in found, "what is not set has no line"


def test_a_url_from_a_file_of_its_own_says_so(tmp_path: Path) -> None:
    (tmp_path / "agenttalk.toml").write_text('[store]\nurl_file = "url"\n')
    (tmp_path / "url").write_text("postgresql://me:geheim@db/x\n")
    found = {each.key: (each.value, each.origin) for each in origins(tmp_path, {})}
    assert found["store.url"] == ("postgresql://***@db/x", "store.url_file")
