"""Every command answers the same alone and beside a running engine: what it says, and its exit code."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agenttalk.contracts.human import HumanInterventionRequest
from agenttalk.doors.cli.main import call
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.messages.router import Router
from agenttalk.engine.people import questions
from agenttalk.ports.statements.messages import DEADLETTERS
from agenttalk.wiring import open_root
from doors.api.enginekit import engine, programmed
from kits.treekit import Tree, dumped, node, question

COMMAND = {
    "schema_version": "1.0",
    "plan_id": "plan_shop",
    "task_id": "design",
    "command_id": "cmd_design_001",
    "command_seq": 1,
    "prompt": "Draw it.",
    "required_inputs": [],
    "wait_for_inputs": False,
    "score_required": False,
    "timeout": 60,
}


@dataclass(frozen=True)
class Pair:
    """Two copies of one tree, one of them with an engine; and files that commands are given."""

    alone: Path
    beside: Path
    letter: str
    files: Path


@pytest.fixture(scope="module", autouse=True)
def operator_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One operator for all tests of this module, for its engine outlives each of them."""
    runtime = Path(tempfile.mkdtemp(prefix="at-"))
    config = tmp_path_factory.mktemp("config")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(config))
        patch.setenv("XDG_RUNTIME_DIR", str(runtime))
        yield config / "agenttalk"
    shutil.rmtree(runtime)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, operator_folders: Path) -> Iterator[Pair]:
    assert operator_folders.name == "agenttalk"
    folder = tmp_path_factory.mktemp("pair")
    alone, beside = folder / "alone", folder / "beside"
    alone.mkdir()
    letter = prepared(alone)
    shutil.copytree(alone, beside)
    with engine(beside, quick=True):
        yield Pair(alone, beside, letter, folder)


def prepared(root: Path) -> str:
    """A plan under way, two questions and a dead letter (its id)."""
    tree = Tree(root)
    tree.agent("lead")
    tree.dag([node("design", "pm"), node("build", "dev")])
    programmed(tree, "dev", "print('done')\n")
    tree.command("lead", "build")
    tree.command("lead", "deploy")
    assert call(["route", "--once", "--root", str(root), "--json"]) == 0
    assert call(["heartbeat", "--agent", "dev", "--once", "--root", str(root), "--json"]) == 0
    fields = {**COMMAND, "dag_ref": {"sha256": tree.dags["plan_shop"]}}
    (root.parent / "good.json").write_bytes(dumped(fields))
    (root.parent / "sent.json").write_bytes(dumped({**fields, "command_id": "cmd_design_002", "command_seq": 2}))
    (root.parent / "again.json").write_bytes(dumped({**fields, "command_id": "cmd_design_003", "command_seq": 3}))
    (root.parent / "strange.json").write_bytes(dumped({**fields, "task_id": "deploy"}))
    (root.parent / "bad.json").write_bytes(dumped({**fields, "timeout": "soon"}))
    (root.parent / "prices.csv").write_bytes(b"a;1\n")

    async def ask(deps: Deps) -> str:
        store = await deps.stores.board("default")
        for name in ("req_1", "req_2"):
            request = HumanInterventionRequest.from_json(question(name, for_whom="pm"))
            await store.transact(partial(questions.ask, request=request, plan_id="plan_shop", at=deps.stamp()))
        await Router(deps).run_once()  # so that the questions have reached people, whichever test comes first
        [(letter, *_)] = await store.read(DEADLETTERS, before=2**62, limit=10)
        return str(letter)

    async def run() -> str:
        async with open_root(root, witnessed=True) as deps:
            return await ask(deps)

    return asyncio.run(run())


def said(root: Path, arguments: str, pair: Pair, capsys: pytest.CaptureFixture[str]) -> tuple[int, Any]:
    """The exit code and the answer of a command."""
    words = arguments.format(letter=pair.letter, files=pair.files, root=root).split()
    capsys.readouterr()
    code = call([*words, "--root", str(root), "--json"])
    out = capsys.readouterr()
    assert "not logged" not in out.err
    return code, [json.loads(line) for line in out.out.splitlines()] if "export" in words else json.loads(out.out)


def alike(one: Any, other: Any, at: str = "") -> bool:
    """Whether two answers have the same keys, and values of the same kinds under them."""
    assert type(one) is type(other), at
    if isinstance(one, dict):
        assert one.keys() == other.keys(), at
        return all(alike(one[key], other[key], f"{at}.{key}") for key in one)
    if isinstance(one, list):
        return all(alike(mine, theirs, f"{at}[]") for mine, theirs in zip(one, other, strict=False))
    return True


GOOD = [
    "status",
    "status plan_shop",
    "inbox",
    "answer req_1 --file prices.csv={files}/prices.csv --as ann",
    "deadletter list",
    "deadletter list --all --plan plan_shop",
    "deadletter show {letter}",
    "fsck",
    "route --once",
    "heartbeat --agent dev --once",
    "heartbeat --agent pm --once",
    "monitor --once",
    "command generate plan_id=plan_shop task_id=design prompt=Draw.",
    "command validate {files}/good.json",
    "command send {files}/sent.json",
    "command envelope {files}/good.json --from lead --message-id msg_1",
    "audit anchor --to {root}/anchor.json",
    "audit verify",
]
BAD = [
    ("status nowhere", 2),
    ("answer req_9 --note x", 2),
    ("answer req_2 --file prices.csv={files}/prices.csv --seen sha256:0", 2),
    ("deadletter show dl_none", 2),
    ("deadletter replay dl_none", 2),
    ("deadletter replay {letter}", 1),
    ("heartbeat --agent nobody --once", 2),
    ("command generate plan_id=plan_shop task_id=design timeout=soon", 2),
    ("command validate {files}/bad.json", 2),
    ("command send {files}/bad.json", 2),
    ("command send {files}/strange.json", 2),
]


@pytest.mark.parametrize("arguments", GOOD)
def test_a_command_answers_the_same_beside_an_engine(
    pair: Pair, arguments: str, capsys: pytest.CaptureFixture[str]
) -> None:
    alone, beside = (said(root, arguments, pair, capsys) for root in (pair.alone, pair.beside))
    assert (alone[0], beside[0]) == (0, 0), (alone, beside)
    assert alike(alone[1], beside[1])


@pytest.mark.parametrize(("arguments", "code"), BAD)
def test_a_command_is_refused_in_the_same_words_beside_an_engine(
    pair: Pair, arguments: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    alone, beside = (said(root, arguments, pair, capsys) for root in (pair.alone, pair.beside))
    assert (alone[0], beside[0]) == (code, code)
    assert beside[1] == json.loads(json.dumps(alone[1]).replace(str(pair.alone), str(pair.beside)))


def test_what_is_written_anew_is_all_that_there_is(pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    for root in (pair.alone, pair.beside):
        shutil.rmtree(root / "system_runtime/alerts")
        code, answer = said(root, "republish", pair, capsys)
        assert (code, answer["ok"], answer["written"] > 0) == (0, True, True)
        assert list((root / "system_runtime/alerts").rglob("*.json"))


def test_commands_that_are_made_checked_or_refused_are_in_the_ledger(
    pair: Pair, capsys: pytest.CaptureFixture[str]
) -> None:
    for root in (pair.alone, pair.beside):
        said(root, "command generate plan_id=plan_shop task_id=design prompt=secret_words", pair, capsys)
        said(root, "command generate plan_id=plan_shop task_id=design", pair, capsys)
        said(root, "command validate {files}/good.json", pair, capsys)
        _, lines = said(root, "audit export", pair, capsys)
        found = [line for line in lines if line["kind"].startswith("command.") and line["chain"] == "system"]
        kinds = [line["kind"] for line in found[-3:]]
        assert kinds == ["command.generated", "command.refused", "command.validated"]
        assert found[-3]["subject"] == "plan_shop/design"
        assert found[-3]["body"]["repairs"]
        assert "prompt" in [each["field"] for each in found[-2]["body"]["errors"]]
        assert "secret_words" not in json.dumps(found)


def test_a_command_is_sent_once_however_often_it_is_asked_for(pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    for root in (pair.alone, pair.beside):
        code, first = said(root, "command send {files}/again.json", pair, capsys)
        assert (code, first["fate"], first["command_id"]) == (0, "accepted", "cmd_design_003")
        code, second = said(root, "command send {files}/again.json", pair, capsys)
        assert (code, second["errors"][0]["code"]) == (2, "COMMAND_ID_REUSED")
        assert len(list((root / "agents/pm/inbox").rglob("cmd_design_003*.msg.json"))) == 1
