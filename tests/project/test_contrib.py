"""What lies under contrib/ fits this release: names of settings, commands, ports and variables."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from agenttalk.doors.cli.main import COMMANDS, call
from agenttalk.wiring import settings

CONTRIB = Path(__file__).parents[2] / "contrib"


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CONTRIB / "compose" / "compose.yaml").read_text(encoding="utf-8"))
    return found


def test_the_engine_of_the_compose_file_gets_settings_that_exist(compose: dict[str, Any], tmp_path: Path) -> None:
    shutil.copy(CONTRIB / "compose" / "agenttalk.toml", tmp_path)
    engine = compose["services"]["engine"]
    environment = {name: re.sub(r"\$\{[^}]*\}", "x", value) for name, value in engine["environment"].items()}
    loaded = settings.load(tmp_path, environment)
    assert loaded.store_url == "postgresql://agenttalk:x@database:5432/agenttalk"
    assert (loaded.server.port, loaded.server.public, loaded.server.names) == (8083, True, ("engine",))
    assert engine["ports"] == [f"127.0.0.1:{loaded.server.port}:{loaded.server.port}"]
    [source] = loaded.sources.values()
    assert {source.secret_env, source.token_env} <= engine["environment"].keys()
    host = source.base_url.removeprefix("http://").split(":")[0]
    assert host in compose["services"]
    allowed = compose["services"]["gitea"]["environment"]["GITEA__webhook__ALLOWED_HOST_LIST"]
    assert allowed in {*compose["services"], *loaded.server.names}


def test_the_compose_file_holds_together(compose: dict[str, Any]) -> None:
    services = compose["services"]
    named = {
        mount.split(":")[0]
        for service in services.values()
        for mount in service.get("volumes", ())
        if not mount.startswith(("/", "."))
    }
    assert named == compose["volumes"].keys()
    for service in services.values():
        assert service.get("depends_on", {}).keys() <= services.keys()
        assert all(str(port).startswith("127.0.0.1:") for port in service.get("ports", ()))
        for name, value in service["environment"].items():
            if re.search("PASSWORD|SECRET|TOKEN", name):
                assert value.startswith("${"), f"{name} is a secret and comes from .env"
    build = services["engine"]["build"]
    assert (CONTRIB / "compose" / build["context"] / build["dockerfile"]).resolve().is_file()


def test_the_image_starts_a_command_that_exists(capsys: pytest.CaptureFixture[str]) -> None:
    text = (CONTRIB / "compose" / "Dockerfile").read_text(encoding="utf-8")
    [words] = re.findall(r"^CMD (\[.*\])$", text, re.MULTILINE)
    require_command(yaml.safe_load(words), capsys)


def unit() -> dict[str, list[str]]:
    found = defaultdict(list)
    for line in (CONTRIB / "systemd" / "agenttalk.service").read_text(encoding="utf-8").splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found[key].append(value)
    return found


def test_the_unit_starts_a_command_that_exists_and_is_kept_in(capsys: pytest.CaptureFixture[str]) -> None:
    found = unit()
    [command] = found["ExecStart"]
    require_command(command.split(), capsys)
    assert found["NoNewPrivileges"] == ["yes"]
    assert found["ProtectSystem"] == ["strict"]
    assert found["CapabilityBoundingSet"] == [""]
    assert "RestrictNamespaces" not in found  # or bubblewrap would not work
    assert command.split()[command.split().index("--root") + 1].startswith("/var/lib/" + found["StateDirectory"][0])


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    text = (CONTRIB / "systemd" / "agenttalk.service").read_text(encoding="utf-8")
    copy = tmp_path / "agenttalk.service"
    copy.write_text(text.replace("/opt/agenttalk/bin/agenttalk", "/bin/true"), encoding="utf-8")
    ended = subprocess.run([program, "verify", str(copy)], capture_output=True, text=True, check=False)
    assert not [line for line in ended.stderr.splitlines() if copy.name in line and "Unknown" in line], ended.stderr


def require_command(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    name, *options = words[1:]
    assert Path(words[0]).name == "agenttalk"
    assert name in COMMANDS
    assert call([name, "--help"]) == 0
    shown = capsys.readouterr().out
    for option in (each for each in options if each.startswith("--")):
        assert option in shown
