"""Secrets are nowhere: agents that got hold of them say them wherever they can, and every byte is looked at afterwards."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

SECRETS = {
    "MODEL_KEY": 'sk-"mödel"/4711+x=&y \'z',
    "HOOK_SECRET": "hook-secret/0815+abc=",
    "FORGE_TOKEN": "forge-token-9f3c77aa",
    "DEV_TOKEN": "dev-at-forge-31c9e0",
}
"""Those that are configured, by their variables."""
SETTINGS = """
[sources.forge]
kind = "gitea"
base_url = "http://127.0.0.1:9"
secret_env = "HOOK_SECRET"
token_env = "FORGE_TOKEN"
[agents.dev]
driver = "script"
sandbox = "plain"
env = ["MODEL_KEY"]
[agents.dev.forge.forge]
login = "dev"
token_env = "DEV_TOKEN"
"""
PROGRAM = """
import base64, http.client, json, os, pathlib, socket, sys, urllib.parse
TOP, TASK = pathlib.Path(sys.argv[1]), os.environ["AGENTTALK_TASK_ID"]
OUT, RESULT = pathlib.Path(os.environ["AGENTTALK_OUTPUTS"]), pathlib.Path(os.environ["AGENTTALK_RESULT"])
TOKEN = os.environ["AGENTTALK_TOKEN"]
with (TOP / "tokens.txt").open("a") as file: file.write(TOKEN + "\\n")
operator = next(TOP.glob("config/agenttalk/*/operator.token"), None) or next(TOP.glob("config/agenttalk/*/*token*"))
loot = [*json.loads((TOP / "loot.json").read_text()), TOKEN, TOKEN.rpartition(".")[2], operator.read_text().strip()]
def disguised(text):
    raw = text.encode()
    yield from (text, json.dumps(text), urllib.parse.quote(text, safe=""), urllib.parse.quote_plus(text))
    yield from (raw.hex(), raw.hex().upper(), *(base64.b64encode(b"x" * n + raw).decode() for n in range(3)))
ALL = [each for text in loot for each in disguised(text)]
TEXT = "\\n".join(ALL)
class Over(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(os.environ["AGENTTALK_SOCKET"])
def ask(path, body):
    connection = Over("agenttalk")
    connection.request("POST", path, json.dumps(body), {"Authorization": "Bearer " + TOKEN})
    answer = connection.getresponse()
    with (TOP / "answers.txt").open("ab") as file: file.write(b"%d " % answer.status + answer.read() + b"\\n")
    return answer.status
"""
TASKS: dict[str, tuple[str, str]] = {
    "stdout": ("COMPLETED", "print(TEXT)"),
    "stderr": ("FAILED", "print(TEXT, file=sys.stderr); sys.exit(3)"),
    "result": (
        "COMPLETED",
        """
said = {'result': {'a': ALL, TEXT: [TEXT]}, 'evidence': [TEXT, {'id': 'x', 'passed': True, 'detail': TEXT}]}
RESULT.write_text(json.dumps(said))
""",
    ),
    "score": ("COMPLETED", "RESULT.write_text(json.dumps({'result': 'r', 'score': 90, 'score_explanation': TEXT}))"),
    "output": ("FAILED", "(OUT / 'note.txt').write_text(TEXT); (OUT / 'more.txt').write_text(ALL[-1]); print('ok')"),
    "large": ("FAILED", "(OUT / 'note.txt').write_bytes(bytes(200_000) + TEXT.encode()); print('ok')"),
    "name": ("FAILED", "(OUT / ('a' + loot[2])).write_text('x'); (OUT / 'note.txt').write_text('x'); print('ok')"),
    "scratch": (
        "COMPLETED",
        """
pathlib.Path('deep/er').mkdir(parents=True); pathlib.Path('deep/er/notes').write_text(TEXT)
os.link('deep/er/notes', 'another'); os.chmod('another', 0)
pathlib.Path('s' + loot[2]).write_text('x'); (OUT.parent / 'beside').write_text(TEXT); print('ok')
""",
    ),
    "late": (
        "FAILED",
        """
import time
pathlib.Path('left').write_text(TEXT); print(TEXT, flush=True)
while True: time.sleep(9)
""",
    ),
    "api": (
        "COMPLETED",
        """
path = '/api/projects/default/tasks/p:api'
say = {'author': 'dev', 'comment_type': 'general', 'body': TEXT}
said = [
    ask(path + '/comments', {**say, 'claims': {TEXT: [TEXT]}}),
    ask(path + '/progress', {'progress': TEXT[:900], 'usage': {}}),
    ask(path + '/outputs', {'content': TEXT, 'type': 'note'}),
    ask('/api/mail', {'to': ['other'], 'subject': loot[0], 'body': TEXT}),
    ask(path + '/questions', {'question': TEXT}),
    ask(path + '/comments', {**say, loot[1]: 1}),
    ask(path + '/comments', {**say, 'author': loot[2]}),
]
print(json.dumps({'agenttalk': {'progress': TEXT}}))
print('said', said)
""",
    ),
}
"""Task → its state in the end, and what its program does."""


NOTE = {"outputs": [{"name": "note.txt", "deliverable": True}]}
KEYS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("output", "large", "name"), NOTE),
    "score": {"score_required": True, "score_criteria": "any"},
    "late": {"timeout": 2},
}
"""What tasks say besides."""


def spelled(text: str) -> Iterator[bytes]:
    """How a secret might stand anywhere."""
    raw = text.encode()
    yield from (raw, json.dumps(text)[1:-1].encode(), quote(text, safe="").encode(), quote_plus(text).encode())
    yield from (raw.hex().encode(), raw.hex().upper().encode())
    for shift in range(3):
        core = base64.b64encode(bytes(shift) + raw)[(0, 2, 3)[shift] : (shift + len(raw)) * 8 // 6]
        yield core


class Top:
    """A root with its settings, and where agents keep what they stole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.root = path / "root"
        for name in ("root/agents/other", "root/system_runtime", "config"):
            (path / name).mkdir(parents=True)
        (self.root / "agenttalk.toml").write_text(SETTINGS)
        (path / "loot.json").write_text(json.dumps(list(SECRETS.values())))
        (path / "dev.py").write_text(f"{PROGRAM}\nexec({ {name: body for name, (_, body) in TASKS.items()}!r}[TASK])\n")

    def call(self, *args: str) -> subprocess.CompletedProcess[bytes]:
        clean = {key: value for key, value in os.environ.items() if not key.startswith("AGENTTALK")}
        return subprocess.run(
            [sys.executable, "-m", "agenttalk", *args, "--root", str(self.root)],
            env={**clean, **SECRETS, "XDG_CONFIG_HOME": str(self.path / "config")},
            capture_output=True,
            timeout=300,
            check=False,
        )

    def secrets(self) -> list[str]:
        """All of them, those that were made meanwhile too."""
        tokens = (self.path / "tokens.txt").read_text().split() if (self.path / "tokens.txt").exists() else []
        own = [path.read_text().strip() for path in (self.path / "config").rglob("*token*") if path.is_file()]
        return [*SECRETS.values(), *own, *tokens, *(each.rpartition(".")[2] for each in tokens)]

    def found(self, *said: bytes) -> list[str]:
        """Where one of them stands, in any spelling: in files under the root, their names, or what was said."""
        spellings = {spelling for secret in self.secrets() for spelling in spelled(secret)}
        files = {str(path): path.read_bytes() for path in self.root.rglob("*") if path.is_file()}
        places = {**files, **{f"what was said ({number})": each for number, each in enumerate(said)}}
        places |= {f"name {path}": os.fsencode(path.name) for path in self.root.rglob("*")}
        return [
            f"{spelling[:30]!r} in {name}"
            for name, data in places.items()
            for spelling in spellings
            if spelling in data
        ]


@pytest.mark.rest
def test_what_agents_say_anywhere_is_kept_and_shown_without_secrets(tmp_path: Path) -> None:
    top = Top(tmp_path)
    agent = {
        "driver": "script",
        "argv": [sys.executable, str(tmp_path / "dev.py"), str(tmp_path)],
        "env": ["MODEL_KEY"],
    }
    shared = {"agent": "dev", "prompt": "Do it.", "retry_times": 0, "max_reexecute_times": 0}
    tasks = [{"id": name, "timeout": 240, **shared, **KEYS.get(name, {})} for name in TASKS]
    (tmp_path / "plan.json").write_text(json.dumps({"plan_id": "p", "agents": {"dev": agent}, "tasks": tasks}))
    ran = top.call("run", str(tmp_path / "plan.json"))
    shown = top.call("status", "--json")
    [plan] = [each for each in json.loads(shown.stdout)["plans"] if each["plan_id"] == "p"]
    states = {each["task_id"]: each["state"] for each in plan["tasks"]}
    assert states == {name: state for name, (state, _) in TASKS.items()}, [ran.stdout, ran.stderr, plan["tasks"]]
    told = [top.call("explain", "p/stderr")]
    answers = (tmp_path / "answers.txt").read_bytes()
    assert [line[:3] for line in answers.splitlines()] == [b"201", b"200", b"201", b"201", b"201", b"422", b"403"]
    said = [each.stdout + each.stderr for each in (ran, shown, *told)]
    assert top.found(*said, answers) == []
