"""Commands print for people in the reader's language; what they print for programs stays the same."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import preloaded
from agenttalk.doors.cli.core.language import choose_locale
from doors.cli.changes import shopkit
from doors.cli.changes.changekit import CHECK, RIGHT, make_repo, writes
from preloaded import run

PATIENCE = 300.0
CHINESE = {"LC_ALL": "zh_CN.UTF-8"}
PROGRAM = "import os, sys\nsys.exit(1) if os.environ['AGENTTALK_TASK_ID'] == 'bad' else print('ok')\n"
PLAN: dict[str, Any] = {
    "plan_id": "shop",
    "agents": {"worker": {"driver": "script", "argv": [sys.executable, "work.py"]}, "ada": {"driver": "human"}},
    "tasks": [
        {"id": "good", "agent": "worker", "prompt": "Do it."},
        {"id": "bad", "agent": "worker", "prompt": "Fail."},
        {"id": "ask", "agent": "ada", "prompt": "Which price?"},
    ],
}


@pytest.mark.parametrize(
    ("environment", "locale"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
        ({"LANG": "zh_CN.UTF-8", "LC_MESSAGES": "en_US.UTF-8"}, "en"),
        ({"LANG": "en_US.UTF-8", "LC_MESSAGES": "en_US.UTF-8", "LC_ALL": "zh_TW"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": ""}, "zh"),
        ({"LANG": "en_US.UTF-8", "LANGUAGE": "zh_CN:en"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LANGUAGE": "en:zh"}, "en"),
        ({"LANG": "C.UTF-8", "LANGUAGE": "zh"}, "en"),
        ({"LC_ALL": "POSIX", "LANGUAGE": "zh"}, "en"),
    ],
)
def test_the_language_is_that_of_the_environment_as_gettext_reads_it(environment: dict[str, str], locale: str) -> None:
    assert choose_locale(environment) == locale


@dataclass(frozen=True)
class Desk:
    """A plan whose tasks were done, failed, and wait for a person, and the root in which it ran."""

    folder: Path
    printed: str
    """What the run printed."""

    def __call__(self, *arguments: str, code: int = 0, **environment: str) -> str:
        """Return what a command prints on both streams."""
        ended = run(*arguments, "--root", str(self.folder / "root"), **{**CHINESE, **environment})
        assert ended.returncode == code, ended.stdout + ended.stderr
        return ended.stdout + ended.stderr


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    folder = tmp_path_factory.mktemp("desk")
    (folder / "work.py").write_text(PROGRAM, encoding="utf-8")
    plan = folder / "plan.json"
    plan.write_text(json.dumps(PLAN), encoding="utf-8")
    return Desk(folder, Desk(folder, "")("run", str(plan), "--sandbox", "plain", code=1, HOME=str(folder)))


def test_a_run_is_shown_in_chinese(desk: Desk) -> None:
    assert "shop: 有任务失败 (" in desk.printed
    assert "1 个问题尚未回答：见 'agenttalk inbox'" in desk.printed
    assert "something failed" not in desk.printed


def test_status_explain_and_inbox_are_shown_in_chinese(desk: Desk) -> None:
    status = desk("status")
    assert "已完成" in status
    assert "消息：已发送" in status
    assert "COMPLETED" not in status
    why = desk("explain", "shop/bad")
    assert "cmd_bad_001，第 1 次尝试：崩溃，用时" in why
    assert "shop/bad 的状态：失败：" in why
    assert "→ 可点“重试”，或运行 'agenttalk retry shop/bad'" in why
    assert "按计划，完成意味着：" in why
    inbox = desk("inbox")
    assert "  需要" in inbox
    assert "agenttalk answer " in inbox


def test_errors_say_in_chinese_what_their_code_means(desk: Desk) -> None:
    unknown = desk("status", "shops", code=2)
    assert "✗ 没有计划 'shops' [NAME_UNKNOWN]" in unknown
    assert "→ 是否指 'shop'？" in unknown
    missing = desk("explain", "shop/none", code=2)
    assert "✗ 看板上没有该任务，或它属于另一个智能体。 [TASK_NOT_FOUND]" in missing
    assert "the engine runs no task shop/none" in missing
    request = json.loads(desk("--json", "inbox"))["requests"][0]["request"]["request_id"]
    refused = desk("answer", request, "--decision", "MAYBE", code=2)
    assert "✗ 'MAYBE' 不是一种决定 [OPTION_INVALID]" in refused


def test_what_is_wrong_with_a_plan_is_told_in_the_language_of_the_reader(desk: Desk) -> None:
    plan = desk.folder / "circle.yaml"
    tasks = [
        {"id": name, "agent": "ann", "prompt": "Do.", "needs": [need]}
        for name, need in (("one", "two"), ("two", "one"))
    ]
    plan.write_text(json.dumps({"plan_id": "circle", "agents": {"ada": {"driver": "human"}}, "tasks": tasks}))
    shown = desk("plan", "check", str(plan), code=2)
    assert "任务互相等待，形成循环：one → two → one（第 1 行，第 " in shown
    assert "计划中没有智能体 'ann'（第 1 行" in shown
    assert "被拒绝：" in shown
    english = desk("--language", "en", "plan", "check", str(plan), code=2)
    assert "tasks wait for each other in a circle: one → two → one" in english
    assert desk("run", str(desk.folder / "none.yaml"), code=2).count("请检查路径") == 1


@pytest.mark.parametrize("arguments", [("status",), ("explain", "shop/bad"), ("inbox",), ("status", "shops")])
def test_what_programs_read_is_the_same_in_every_language(desk: Desk, arguments: tuple[str, ...]) -> None:
    code = 2 if arguments[-1] == "shops" else 0
    assert desk("--json", *arguments, code=code) == desk("--json", *arguments, code=code, LC_ALL="C.UTF-8")


def test_the_option_and_its_variable_win_over_the_locale(desk: Desk) -> None:
    assert "messages: " in desk("--language", "en", "status")
    assert "messages: " in desk("status", AGENTTALK_LANGUAGE="en")
    assert "消息：" in desk("--language", "zh", "status", LC_ALL="C.UTF-8")
    assert "✗ 没有计划 'shops'" in desk("--language", "zh", "status", "shops", code=2, LC_ALL="C.UTF-8")


@contextmanager
def serving(root: Path) -> Iterator[None]:
    """Run an engine beside."""
    engine = subprocess.Popen(
        [preloaded.program(), "serve", "--port", "0", "--root", str(root)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert engine.stdout is not None
        assert "listening" in engine.stdout.readline()
        yield
    finally:
        engine.terminate()
        engine.communicate(timeout=PATIENCE)


@pytest.mark.rest
def test_an_engine_answers_in_the_language_of_the_command(desk: Desk) -> None:
    with serving(desk.folder / "root"):
        assert "→ 可点“重试”，或运行 'agenttalk retry shop/bad'" in desk("explain", "shop/bad")
        assert "'agenttalk retry shop/bad' tries it again" in desk("explain", "shop/bad", LC_ALL="C.UTF-8")
        shown = json.loads(desk("--json", "explain", "shop/bad"))
    assert shown["moves_on"] == "'agenttalk retry shop/bad' tries it again"


def test_until_is_shown_in_chinese(tmp_path: Path) -> None:
    shop = make_repo(tmp_path)
    told = shop.until(CHECK, shop.agent(writes(RIGHT)), more=CHINESE)
    assert f"✓ 已证明：{CHECK}（第 1 轮，共 4 轮" in told
    assert "受保护     test_price.py" in told
    assert "proven" not in told


def test_prove_is_shown_in_chinese(tmp_path: Path) -> None:
    shop = shopkit.open_shop(tmp_path)
    shop.write({"price.py": shopkit.TAXED, "tests/test_taxed.py": shopkit.NEW_TEST})
    found = shop.call(LC_ALL="zh_CN.UTF-8")
    assert found.code == 0, found
    assert "· 正在检查改动" in found.err
    assert "已证明" in found.out
