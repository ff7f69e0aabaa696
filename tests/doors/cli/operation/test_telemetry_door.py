"""`[telemetry]`: plans are run, and a collector that speaks OTLP over HTTP gets every span, through kills and absences."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import apsw
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

import preloaded
from agenttalk.adapters.store import operator_folder
from agenttalk.doors.cli.main import call
from doors.api.enginekit import engine, until
from kits.sandboxkit import PLAIN_VARIABLE

PATIENCE = 300.0
OUTSIDE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
AGENT = """
import json, os, pathlib
pathlib.Path(os.environ["AGENTTALK_OUTPUTS"], "app.txt").write_text(os.environ.get("TRACEPARENT", "none"))
command = json.loads(pathlib.Path(os.environ["AGENTTALK_COMMAND"]).read_text())
if "reexecute" in command:
    pathlib.Path("price.txt").write_text("80")
print("it is all done, hello-world")
"""


class Collector:
    """Takes spans over HTTP, and reads them as OpenTelemetry's own code does."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.before: Callable[[], None] = lambda: None
        """What happens when something has arrived, and is not answered yet."""
        collector = self

        class Hook(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                assert self.path == "/v1/traces"
                assert self.headers["Content-Type"] == "application/x-protobuf"
                for one in ExportTraceServiceRequest.FromString(body).resource_spans:
                    collector.spans += [span for scoped in one.scope_spans for span in scoped.spans]
                collector.headers.append({name.lower(): value for name, value in self.headers.items()})
                collector.before()
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = HTTPServer(("127.0.0.1", 0), Hook, bind_and_activate=False)
        self._server.server_bind()
        self.port = self._server.server_port
        """Its own from now on, but nobody listens yet."""
        self._thread = threading.Thread(target=self._server.serve_forever)

    def listen(self) -> None:
        self._server.server_activate()
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def named(self, start: str) -> list[Any]:
        return [each for each in self.unique.values() if each.name.startswith(start)]

    @property
    def unique(self) -> dict[str, Any]:
        """Spans by their ids; one may be told again, and then it is the very same."""
        found: dict[str, Any] = {}
        for span in self.spans:
            assert found.setdefault(span.span_id.hex(), span) == span
        return found


@pytest.fixture
def collector() -> Iterator[Collector]:
    found = Collector()
    found.listen()
    yield found
    found.close()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a repository, an agent and a plan, and nothing of ours in the environment."""
    for name in [
        name
        for name in os.environ
        if name.startswith(("AGENTTALK", "XDG_", "OTEL_", "TRACEPARENT")) and name != PLAIN_VARIABLE
    ]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "root").mkdir()
    (tmp_path / "agent.py").write_text(AGENT, encoding="utf-8")
    return tmp_path


def configure(place: Path, port: int, *more: str) -> None:
    lines = ["[telemetry]", f'endpoint = "http://127.0.0.1:{port}/"', *more, ""]
    (place / "root" / "agenttalk.toml").write_text("\n".join(lines), encoding="utf-8")


def plan(place: Path, *, proven: bool = False) -> None:
    """A plan of two tasks; if it is to be proven, the first one is sent back once by a check."""
    tasks: list[dict[str, Any]] = [
        {"id": name, "agent": "dev", "prompt": "Build it.", "outputs": [{"name": "app.txt", "deliverable": True}]}
        for name in ("build", "ship")
    ]
    tasks[1]["needs"] = ["build"]
    document: dict[str, Any] = {
        "plan_id": "shop",
        "agents": {"dev": {"driver": "script", "argv": ["python3", str(place / "agent.py")]}},
        "tasks": tasks,
    }
    if proven:
        repo = place / "shop"
        repo.mkdir()
        (repo / "price.txt").write_text("0", encoding="utf-8")
        named = ("-c", "user.name=me", "-c", "user.email=me@example.org")
        for words in (("init", "-q", "-b", "main"), ("add", "."), (*named, "commit", "-q", "-m", "A price")):
            subprocess.run(["git", *words], cwd=repo, check=True, timeout=PATIENCE)
        document["workspace"] = {"repo": str(repo)}
        tasks[0]["workspace"] = "repo"
        tasks[0]["promise"] = {
            "objective": "The price is right",
            "acceptance": [{"id": "price", "description": "It is 80", "evidenceRequired": ["right-price"]}],
            "allowedScope": ["price.txt"],
            "checks": [{"id": "right-price", "kind": "run", "run": "grep -q 80 price.txt"}],
        }
    (place / "plan.json").write_text(json.dumps(document), encoding="utf-8")


def run(place: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [preloaded.program(), "run", str(place / "plan.json"), "--root", str(place / "root")],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env={**os.environ, **environ},
    )


def values(span: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


def test_a_plan_with_a_failed_check_and_a_rework_is_one_trace(collector: Collector, place: Path) -> None:
    configure(place, collector.port, 'headers_env = "COLLECTOR_HEADERS"', 'service_name = "shop"')
    plan(place, proven=True)
    ended = run(place, COLLECTOR_HEADERS="x-key=Bearer%20canary-0123456789,x-team=a", TRACEPARENT=OUTSIDE)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert collector.headers[0]["x-key"] == "Bearer canary-0123456789"
    assert collector.headers[0]["x-team"] == "a"
    [whole] = collector.named("invoke_workflow")
    assert {each.trace_id.hex() for each in collector.spans} == {OUTSIDE[3:35]}
    assert whole.parent_span_id.hex() == OUTSIDE[36:52]
    turns = collector.named("invoke_agent dev")
    assert [values(each).get("error.type") for each in turns] == ["NOT_FULFILLED", None, None]
    assert {each.parent_span_id for each in turns} == {whole.span_id}
    checks = collector.named("execute_tool right-price")
    assert [values(each).get("error.type") for each in checks] == ["exit_code", None]
    assert [each.parent_span_id for each in checks] == [turns[0].span_id, turns[1].span_id]
    verdicts = [values(each) for turn in turns for each in turn.events]
    done = [each["gen_ai.evaluation.score.label"] for each in verdicts if each["gen_ai.evaluation.name"] == "done"]
    assert done == ["not fulfilled", "fulfilled", "fulfilled"]
    for span in collector.spans:
        assert span.start_time_unix_nano <= span.end_time_unix_nano
    assert "hello-world" not in repr(collector.spans)
    made = place / "root" / "system_runtime" / "artifacts" / "shop" / "ship" / "app.txt" / "app.txt"
    assert made.read_text(encoding="utf-8") == f"00-{OUTSIDE[3:35]}-{turns[2].span_id.hex()}-01"
    database = apsw.Connection(str(place / "root" / "data" / "projects" / "default" / "blackboard.db"))
    rows: list[Any] = database.execute("SELECT envelope FROM messages").fetchall()
    envelopes = [json.loads(row[0]) for row in rows]
    assert {each["type"] for each in envelopes} == {"command", "artifact"}
    assert {each.get("correlation", {}).get("trace_id") for each in envelopes} == {OUTSIDE[3:35]}, envelopes
    stored = b"".join(each.read_bytes() for each in (place / "root" / "data").rglob("*.db*"))
    assert b"canary-0123456789" not in stored


@pytest.mark.rest
def test_an_engine_that_is_killed_between_telling_and_noting_tells_again(collector: Collector, place: Path) -> None:
    configure(place, collector.port)
    plan(place)

    def kill() -> None:
        if not collector.named("invoke_workflow"):
            return  # a turn is under way still, and would be made again
        collector.before = lambda: None
        engine = json.loads((place / "root" / "data" / "engine.json").read_text(encoding="utf-8"))
        os.kill(engine["pid"], signal.SIGKILL)

    collector.before = kill
    killed = run(place)
    assert killed.returncode != 0, killed.stdout + killed.stderr
    before = set(collector.unique)
    assert before
    ended = run(place)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found = collector.unique
    assert before <= found.keys()
    assert len(collector.spans) > len(found)
    names = sorted(each.name for each in found.values())
    assert names == ["invoke_agent dev", "invoke_agent dev", "invoke_workflow shop"]


@pytest.mark.rest
def test_a_collector_that_is_away_holds_up_nothing_and_gets_everything_when_it_is_back(place: Path) -> None:
    collector = Collector()
    configure(place, collector.port)
    plan(place)
    ended = run(place)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    collector.listen()
    try:
        assert run(place).returncode == 0
        names = sorted(each.name for each in collector.unique.values())
        assert names == ["invoke_agent dev", "invoke_agent dev", "invoke_workflow shop"]
    finally:
        collector.close()


def test_an_engine_tells_while_it_runs_and_takes_the_trace_of_who_submits(collector: Collector, place: Path) -> None:
    configure(place, collector.port)
    plan(place)
    root = place / "root"
    with engine(root, quick=True) as serving:
        ended = run(place, TRACEPARENT=OUTSIDE)  # it hands the plan over to the engine
        assert ended.returncode == 0, ended.stdout + ended.stderr
        address = urlsplit(serving.told["http"])

        def taken() -> bool:
            connection = HTTPConnection(str(address.hostname), int(address.port or 0), timeout=PATIENCE)
            token = operator_folder.token_of(root)
            connection.request("GET", "/api/metrics", headers={"Authorization": f"Bearer {token}"})
            lines = connection.getresponse().read().decode().splitlines()
            connection.close()
            assert "agenttalk_spans_dropped_total 0" in lines
            return "agenttalk_spans_sent_total 3" in lines

        until(taken, "the collector took three spans")
    [whole] = collector.named("invoke_workflow")
    assert whole.trace_id.hex() == OUTSIDE[3:35]
    assert whole.parent_span_id.hex() == OUTSIDE[36:52]
    assert len(collector.unique) == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('endpoint = "localhost:4318"', "not an http:// or https:// address"),
        (
            'endpoint = "http://127.0.0.1:1"\nheaders_env = "NOT_SET"',
            "NOT_SET, which telemetry.headers_env names, is not set",
        ),
        ('endpoint = "http://127.0.0.1:1"\nheaders_file = "none.txt"', "cannot read none.txt"),
        ('endpoint = "http://127.0.0.1:1"\nheaders_file = "bad.txt"', "holds no headers"),
        ('headers_file = "bad.txt"\nheaders_env = "NOT_SET"', "not both"),
        ('endpont = "http://127.0.0.1:1"', "did you mean 'endpoint'?"),
    ],
)
def test_settings_of_telemetry_that_are_wrong_say_so(
    place: Path, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    root = place / "root"
    (root / "agents").mkdir()
    (root / "bad.txt").write_text("x-key: Bearer", encoding="utf-8")
    (root / "agenttalk.toml").write_text(f"[telemetry]\n{text}\n", encoding="utf-8")
    assert call(["serve", "--port", "0", "--root", str(root)]) == 2
    assert words in capsys.readouterr().err


def test_headers_may_lie_in_a_file(collector: Collector, place: Path) -> None:
    configure(place, collector.port, 'headers_file = "headers.txt"')
    (place / "root" / "headers.txt").write_text("x-key = one , x-more=two\n", encoding="utf-8")
    plan(place)
    assert run(place).returncode == 0
    assert (collector.headers[0]["x-key"], collector.headers[0]["x-more"]) == ("one", "two")


def test_doctor_says_whether_a_collector_listens(
    collector: Collector, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = place / "root"
    (root / "agents").mkdir()

    def found() -> dict[str, Any] | None:
        call(["doctor", "--json", "--root", str(root)])
        told = json.loads(capsys.readouterr().out)
        return next((each for each in told["probes"] if each["name"] == "telemetry"), None)

    assert found() is None
    configure(place, collector.port)
    assert found() == {
        "name": "telemetry",
        "ok": True,
        "detail": f"127.0.0.1:{collector.port} listens",
        "remedy": "",
        "needed": True,
    }
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        configure(place, taken.getsockname()[1])
        away = found()
    assert away is not None
    assert (away["ok"], away["needed"]) == (False, False)
