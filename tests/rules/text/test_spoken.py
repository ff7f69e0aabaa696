"""Sentences of the engine in Chinese: each can be told, and what others wrote stays as it is."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from string import Formatter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agenttalk
from agenttalk.contracts.command import Command, Reexecution
from agenttalk.contracts.promise import CompletionPromise
from agenttalk.rules.proof import done
from agenttalk.rules.proof.done import Evidence
from agenttalk.rules.text import check_words, forge_words, render, verdict_words
from agenttalk.rules.text.message import MessageTemplate

SAMPLES = {"d": 7, "g": 7.5, ",": 7000, "s": "acme/site#7", "": "Ab-1"}
ALL = render.list_templates()


def facts_of(saying: MessageTemplate) -> dict[str, Any]:
    return {name: SAMPLES[kind or ""] for _, name, kind, _ in Formatter().parse(saying.en) if name}


@pytest.mark.parametrize("saying", ALL, ids=lambda each: each.en[:40])
def test_every_sentence_is_found_again_by_its_words_and_names_the_same(saying: MessageTemplate) -> None:
    facts = facts_of(saying)
    assert set(facts) == {name for _, name, *_ in Formatter().parse(saying.zh) if name}
    shown = {
        name: format(facts[name], kind or "") if not conversion else repr(facts[name])
        for _, name, kind, conversion in Formatter().parse(saying.en)
        if name
    }
    found = render.translate(saying(**facts), "zh")
    assert found == (saying.zh.format(**shown) if saying.letter_count else saying(**facts)), (
        "one without words says nothing"
    )
    assert render.translate(saying(**facts), "en") == saying(**facts)


def test_no_two_sentences_are_the_same_in_english() -> None:
    told = [re.sub(r"\{[^}]*\}", "{}", each.en) for each in ALL if each.letter_count]
    assert len(told) == len(set(told))


def calls() -> list[tuple[str, str, str, set[str | None]]]:
    """Every place where a sentence is said: file, module, sentence, and what is filled in."""
    folder = Path(agenttalk.__file__).parent
    found = []
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "_words" in text else ():
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr=name), keywords=given):
                    if module.endswith("_words") and module != "_words":
                        found.append((str(path), module, name, {each.arg for each in given}))
    return found


def test_whoever_says_a_sentence_fills_in_all_of_its_names() -> None:
    modules = {each.__name__.rpartition(".")[2]: vars(each) for each in render.CATALOGUE}
    wrong = [
        (path, name)
        for path, module, name, given in calls()
        if name.isupper() and None not in given and given != facts_of(modules[module][name]).keys()
    ]
    assert wrong == []
    assert len(calls()) > 150


def test_every_sentence_is_said_somewhere() -> None:
    folder = Path(agenttalk.__file__).parent
    told = "".join(path.read_text() for path in folder.rglob("*.py") if not path.stem.endswith("_words"))
    names = [(each.__name__.rpartition(".")[2], name) for each in render.CATALOGUE for name in vars(each)]
    silent = {f"{module}.{name}" for module, name in names if name.isupper() and f"{module}.{name}" not in told}
    assert silent == {"verdict_words.CODED"}, "which is how a code and a sentence stand together"


def promised(*evidence: str) -> CompletionPromise:
    criteria = [{"id": f"c{at}", "description": each, "evidenceRequired": [each]} for at, each in enumerate(evidence)]
    return CompletionPromise.read({"id": "cp-1-00ff", "objective": "o", "acceptance": criteria})


def seen(name: str, detail: str = "", *, passed: bool = False) -> Evidence:
    return Evidence(name, passed, True, "claimed", "engine", "2026-05-01T12:00:00Z", detail)


def test_a_verdict_is_told_with_everything_that_it_quotes() -> None:
    detail = f"{check_words.THESE_FAILED(count=2, names=check_words.MORE(names='a', count=3))}; 1 passed, 2 failed"
    verdict = done.decide(
        promised("tests", "page", "said"),
        [seen("tests", detail), seen("page", "the page (of Bob; and others) is ugly"), seen("said", passed=True)],
        (),
        aborted=verdict_words.NOT_TAKEN(
            whys="scope-drift: it changed a.py, which it may not; b: its name is not UTF-8"
        ),
    )
    assert [render.translate(each, "zh") for each in verdict.blockers] == [
        "已中止：无法接收它留下的内容：scope-drift：修改了不允许修改的 a.py；b：名称不是 UTF-8",
        "标准 'c0' 未得到证明：'tests' 未通过（2 个测试失败：a 等另外 3 个；1 个通过，2 个失败）",
        "标准 'c1' 未得到证明：'page' 未通过（the page (of Bob; and others) is ugly）",
        "标准 'c2' 未得到证明：'said' 可信度只有 claimed，需要 attested",
    ]
    joined = render.translate("; ".join([*verdict.blockers, "the build is slow", "output:x is missing"]), "zh")
    assert joined.endswith("需要 attested；the build is slow；缺少 output:x")
    assert joined.count("标准") == 3


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("no_action: there is no pull request acme/site#7", "no_action：没有合并请求 acme/site#7"),
        (
            "2 comments wait for an answer, and 0 were written; the head of acme/site#7 is still no commit",
            "有 2 条评论等待回复，只写了 0 条；acme/site#7 的最新提交仍是 没有提交",
        ),
        ("tests printed: it ended with 3; not done (", "tests 的输出：it ended with 3; not done ("),
        ("criterion 'c' is not shown: 'x' failed (odd :( it is)", "标准 'c' 未得到证明：'x' 未通过（odd :( it is）"),
        (
            "the check t of b does not pass any more, since the merge of a: it ended with 1",
            "检查 b 的 t 自合并 a 起不再通过：以退出码 1 结束",
        ),
        (
            "there is no comment on a/b#1 by dev since ever; the last one is bob's",
            "自 有史以来 起 dev 在 a/b#1 没有评论；最后一条是 bob 的",
        ),
        ("too short, please (it scores 40, and 70 is asked for)", "too short, please（得分 40，要求 70）"),
    ],
)
def test_what_stands_inside_a_sentence_is_told_too_unless_others_wrote_it(text: str, told: str) -> None:
    assert render.translate(text, "zh") == told


@pytest.mark.parametrize("text", ["", "Please mend the header; then the footer.", "name: value", "x, y", "它坏了"])
def test_what_others_wrote_stays_as_it_is(text: str) -> None:
    assert render.translate(text, "zh") == text


def test_what_is_very_long_or_has_very_many_parts_is_not_looked_into() -> None:
    long, many = f"{'y ' * 8_000}it ended with 3", "; ".join(["it ended with 3"] * 200)
    assert render.translate(long, "zh") == long
    assert render.translate(f"x printed: {long}", "zh") == f"x 的输出：{long}"
    assert render.translate(many, "zh") == many


@given(st.text(max_size=300) | st.lists(st.sampled_from([each.en for each in ALL]), max_size=8).map("; ".join))
def test_whatever_is_said_can_be_told(text: str) -> None:
    assert render.translate(text, "en") == text
    assert isinstance(render.translate(text, "zh"), str)


def refused(**more: Any) -> dict[str, Any]:
    issues = [{"severity": "HIGH", "category": "check", "description": forge_words.NAMES_NO_COMMIT()}]
    result = {"validator": "engine", "score": 0, "reason": verdict_words.NOT_DONE(), "issues": issues, **more}
    again = {"original_task_id": "t", "original_agent": "a", "attempt": 1, "validation_result": result, "previous": []}
    return {
        "schema_version": "1.1", "plan_id": "p", "task_id": "t", "command_id": "cmd_t_002", "command_seq": 2,
        "prompt": "Do it.", "required_inputs": [], "wait_for_inputs": False, "score_required": False, "timeout": 9,
        "retry_times": 0, "priority": "MEDIUM", "idempotency_key": "k", "created_at": "2026-05-01T12:00:00Z",
        "dag_ref": {"path": "task_dag.json", "sha256": f"sha256:{'0' * 64}"}, "reexecute": again,
    }  # fmt: skip


def test_a_command_is_told_in_the_language_of_who_gets_it() -> None:
    wanted = {"additions": [verdict_words.FAILED_BECAUSE(why="it is empty")], "modifications": ["the header"]}
    command = Command.from_json(refused(expectations=wanted))
    assert render.translate_command(command, "en") is command
    found = render.translate_command(command, "zh").reexecute
    assert isinstance(found, Reexecution)
    result = found.validation_result
    assert (result.reason, result.issues[0].description) == ("没有完成", "没有写明提交")
    assert result.expectations is not None
    assert result.expectations.as_json() == {"additions": ["未通过（它是空的）"], "modifications": ["the header"]}
    again = command.reexecute
    assert again is not None
    assert render.translate_reexecution(again, "en") is again
    plain = command.model_copy(update={"reexecute": None})
    assert render.translate_command(plain, "zh") is plain
    without = Command.from_json(refused()).reexecute
    assert without is not None
    assert render.translate_reexecution(without, "zh").validation_result.expectations is None


def test_a_sentence_knows_how_much_of_it_is_its_own() -> None:
    new = MessageTemplate("{count} tests ran, 7 were due", "{count}")
    assert (new.letter_count, new.length) == (len("testsranweredue"), len(" tests ran, 7 were due"))
    assert new.extract_parameters("3 tests ran, 7 were due") == {"count": "3"}
    assert new.extract_parameters("nothing ran") is None
