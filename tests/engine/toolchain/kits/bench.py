"""An engine of its own process with forges configured, agents that are programs, and signed deliveries."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import sys
import textwrap
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from adapters.forge.test_webhooks import sample
from doors.api.enginekit import Serving, agenttalk, engine, until

SECRET = "a secret of the hook"
AGENTS = ("agent-dev", "agent-reviewer", "agent-ops", "agent-lead", "agent-second")
ENDED = frozenset({"done", "failed", "withdrawn"})

REPORTS = """
import json, os, sys, urllib.request

prompt = sys.stdin.read()
task = os.environ["AGENTTALK_TASK_ID"]
here = os.environ["AGENTTALK_API"] + "/api/projects/_toolchain/tasks/" + task
headers = {"Authorization": "Bearer " + os.environ["AGENTTALK_TOKEN"], "Content-Type": "application/json"}

def ask(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(here + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())

def report(body, kind="action_report", author=None):
    me = author or os.environ.get("ME") or ask("GET", "")[1]["agent_id"]
    return ask("POST", "/comments", {"author": me, "comment_type": kind, "body": body})
"""
"""The beginning of a program that plays an agent."""
DOES_IT = f"{REPORTS}\nassert report('Step 1: done. Step 2: done.')[0] == 201\nprint('did it')\n"
WAITS = f"{REPORTS}\nimport time\ntime.sleep(600)\n"


@dataclass
class Bench:
    """A root, and the engine that runs on it."""

    root: Path
    serving: Serving | None = None

    @property
    def url(self) -> str:
        assert self.serving is not None
        return str(self.serving.told["http"])

    def send(
        self,
        name: str,
        *,
        source: str = "",
        headers: dict[str, str] | None = None,
        body: bytes | None = None,
        delivery: str = "",
    ) -> tuple[int, dict[str, Any]]:
        """A sample as its forge would send it, signed, under a new number unless one is given; the answer."""
        kind = name.partition("/")[0]
        data = sample(name)
        sent = json.dumps(data["body"]).encode() if body is None else body
        number = delivery or uuid.uuid4().hex
        numbers = {key: number for key in data["headers"] if key.endswith("-Delivery")}
        told = {**data["headers"], **numbers, **(signed(kind, sent) if headers is None else headers)}
        return self.post(f"/api/webhooks/{source or kind}", sent, told)

    def post(self, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
        return asked(self.url, "POST", path, body, headers)

    def get(self, path: str, token: str) -> tuple[int, dict[str, Any]]:
        return asked(self.url, "GET", path, None, {"Authorization": f"Bearer {token}"})

    def operator_token(self) -> str:
        from agenttalk.adapters.store import operator_folder

        return operator_folder.token_of(self.root) or ""

    def tasks(self, query: str = "") -> list[dict[str, Any]]:
        """All tasks, page by page."""
        token, found, after = self.operator_token(), [], 0
        while after is not None:
            status, answer = self.get(f"/api/toolchain/tasks?limit=50&after={after}{query}", token)
            assert status == 200, answer
            found += answer["tasks"]
            after = answer["next"]
        return found

    def listed(self, *options: str) -> list[dict[str, Any]]:
        """What the command line says."""
        found = agenttalk("toolchain", "tasks", "--root", str(self.root), "--json", *options)
        assert found.returncode == 0, found.stdout + found.stderr
        listed: list[dict[str, Any]] = json.loads(found.stdout)
        return listed

    def asked(self) -> list[dict[str, Any]]:
        """The open questions to people, as the command line shows them."""
        found = agenttalk("inbox", "--root", str(self.root), "--json")
        assert found.returncode == 0, found.stdout + found.stderr
        questions: list[dict[str, Any]] = [each["request"] for each in json.loads(found.stdout)["requests"]]
        return questions

    def answer(self, request_id: str, answer: str) -> None:
        """A person answers."""
        found = agenttalk("answer", request_id, "--answer", answer, "--as", "ada", "--root", str(self.root))
        assert found.returncode == 0, found.stdout + found.stderr

    def decided(self, delivery: str) -> dict[str, Any]:
        """A delivery once the engine has decided about it."""
        token = self.operator_token()

        def look() -> dict[str, Any] | None:
            status, found = self.get(f"/api/webhooks/{delivery}", token)
            assert status == 200, found
            return found if found["state"] != "new" else None

        found: dict[str, Any] = until(look, f"{delivery} is decided about")
        return found

    def told(self, name: str, **more: Any) -> dict[str, Any]:
        """Send a sample, and wait until it is decided about."""
        status, answer = self.send(name, **more)
        assert status == 202, answer
        return self.decided(answer["id"])

    def settled(self) -> list[dict[str, Any]]:
        """All tasks once none is open."""

        def look() -> list[dict[str, Any]] | None:
            found = self.tasks()
            return found if found and all(each["status"] in ENDED for each in found) else None

        found: list[dict[str, Any]] = until(look, "all tasks have ended")
        return found


def signed(kind: str, body: bytes, secret: str = SECRET) -> dict[str, str]:
    digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    both = {"X-Hub-Signature-256": f"sha256={digest}"}
    return both if kind == "github" else {"X-Gitea-Signature": digest, **both}


def asked(url: str, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
    where = urlsplit(url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=300)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"{}")
    finally:
        connection.close()


def written(root: Path, programs: dict[str, str], *, more: str = "", locale: str = "en") -> Path:
    """A root with settings for all kinds of forges, and a program for each agent."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "secret.txt").write_text(SECRET)
    lines = [f'locale = "{locale}"']
    for agent in AGENTS:
        program = root / "agents" / agent / "work.py"
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(textwrap.dedent(programs.get(agent, DOES_IT)), encoding="utf-8")
        lines += [f"[agents.{agent}]", 'driver = "script"', f'argv = ["{sys.executable}", "work.py"]']
        lines += ["[agents." + agent + ".forge]"]
        lines += [f'{kind} = {{ login = "{agent}" }}' for kind in ("gitea", "forgejo", "github")]
    for kind in ("gitea", "forgejo", "github"):
        lines += [f"[sources.{kind}]", f'kind = "{kind}"', 'base_url = "https://git.example.test"']
        lines += ['secret_file = "secret.txt"', 'callers = ["*"]']
    lines += ["[toolchain]", 'default_reviewer = "agent-reviewer"', 'ops = "agent-ops"', 'lead = "agent-lead"']
    lines += ['deploy_patterns = ["*deploy*"]', 'repos = ["*"]', more]
    (root / "agenttalk.toml").write_text("\n".join(lines), encoding="utf-8")
    return root


@contextmanager
def served(root: Path) -> Iterator[Bench]:
    with engine(root, quick=True) as serving:
        yield Bench(root, serving)
