"""The catalogue of texts: each sentence in both languages, stored by its id, and nothing read back from its words."""

from __future__ import annotations

import ast
import copy
import math
import re
from pathlib import Path
from string import Formatter
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agenttalk
from agenttalk.contracts.command import Command, Reexecution
from agenttalk.contracts.core import wire
from agenttalk.contracts.promise import CompletionPromise
from agenttalk.rules.prompts import reexecution
from agenttalk.rules.proof import done, rework
from agenttalk.rules.proof.done import Evidence
from agenttalk.rules.text import (
    catalogue,
    check_words,
    cli_words,
    code_words,
    forge_words,
    page_words,
    question_words,
    verdict_words,
)
from agenttalk.rules.text.catalogue import CATALOGUE, from_json, to_json
from agenttalk.rules.text.message import (
    ABOUT,
    JOINED,
    LISTED,
    Message,
    Template,
    cut,
    cut_head,
    join,
    join_names,
    mentions,
    read_locale,
    render,
    render_all,
)

SOURCES = Path(agenttalk.__file__).parent
HOSTILE = st.text(max_size=40) | st.sampled_from(
    ["{name}", "{0.__class__}", "%s", "'; it is empty", "a\nb", "\0", "\x1b[31m", "“", "；", '{"id": "verdict.stale"}']
)
NUMBERS = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)


def places(text: str) -> dict[str, tuple[str, str | None]]:
    return {name: (kind or "", conversion) for _, name, kind, conversion in Formatter().parse(text) if name}


@st.composite
def messages(draw: st.DrawFn, depth: int = 2) -> Message:
    """Any message of the catalogue, with hostile texts, numbers and other messages as its parameters."""
    template = CATALOGUE[draw(st.sampled_from(sorted(CATALOGUE)))]
    texts = HOSTILE | messages(depth=depth - 1) if depth else HOSTILE
    values = texts | st.lists(texts, max_size=3) | NUMBERS
    return template(**{name: draw(NUMBERS if kind else values) for name, (kind, _) in places(template.en).items()})


def test_every_sentence_is_in_both_languages_with_the_same_parameters() -> None:
    for name, template in CATALOGUE.items():
        assert template.en, name
        assert template.zh, name
        assert places(template.en) == places(template.zh), name
        has_words = any(re.search("[a-z]{2}", text) for text, *_ in Formatter().parse(template.en))
        assert re.search(r"[\u4e00-\u9fff]", template.zh) or not has_words, name


def test_every_sentence_has_one_id_and_every_id_one_sentence() -> None:
    entries = [entry for module in catalogue.MODULES for entry in vars(module).values()]
    sentences = [entry for entry in entries if isinstance(entry, Template)]
    sentences += [each for entry in entries if isinstance(entry, MappingProxyType) for each in entry.values()]
    assert len(CATALOGUE) == len({id(sentence) for sentence in sentences})
    assert {sentence.id: sentence for sentence in sentences} == dict(CATALOGUE)


def test_the_catalogue_names_every_module_of_sentences() -> None:
    texts = {path.stem: path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py") if path.stem != "message"}
    with_sentences = {
        name
        for name, text in texts.items()
        if "from string import Template" not in text and re.search(r" = (Template|make_table)\(", text)
    }
    assert with_sentences == {module.__name__.rpartition(".")[2] for module in catalogue.MODULES} - {"message"}


def calls_of_text(path: Path, node: ast.Call) -> list[tuple[str, Template, set[str | None]]]:
    """The sentence of `out.text("id", ...)`, where the id is written out."""
    match node:
        case ast.Call(func=ast.Attribute(attr="text"), args=[ast.Constant(str(name))]) if name in cli_words.SENTENCES:
            given = {each.arg for each in node.keywords}
            return [(f"{path.name}:{node.lineno}", cli_words.SENTENCES[name], given)]
    return []


def calls() -> list[tuple[str, Template, set[str | None]]]:
    """Every place that makes or renders a text by its name: file, sentence, and what it fills in."""
    modules = {module.__name__.rpartition(".")[2]: vars(module) for module in catalogue.MODULES}
    found = []
    for path in sorted(SOURCES.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "_words" in text or ".text(" in text else ():
            if not isinstance(node, ast.Call):
                continue
            called = node.func
            if isinstance(called, ast.Attribute) and called.attr == "render":
                called = called.value
            key = None
            if isinstance(called, ast.Subscript):
                key = called.slice.value if isinstance(called.slice, ast.Constant) else None
                called = called.value
            match called:
                case ast.Attribute(value=ast.Name(id=module), attr=name) if module in modules:
                    entry = modules[module].get(name)
                    table = entry.values() if isinstance(entry, MappingProxyType) else [entry]
                    table = [entry[key]] if key and isinstance(entry, MappingProxyType) else table
                    given = {each.arg for each in node.keywords}
                    found += [(f"{path.name}:{node.lineno}", each, given) for each in table if type(each) is Template]
            found += calls_of_text(path, node)
    return found


def test_a_caller_fills_in_all_parameters_of_a_sentence() -> None:
    wrong = [
        (place, template.id)
        for place, template, names in calls()
        if None not in names and names != places(template.en).keys()
    ]
    assert wrong == []
    assert len(calls()) > 250


def test_every_sentence_is_used() -> None:
    used = "".join(
        path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py") if not path.stem.endswith("_words")
    )
    modules = [module for module in catalogue.MODULES[1:] if module not in (page_words, code_words, cli_words)]
    names = [(module.__name__.rpartition(".")[2], name) for module in modules for name in vars(module)]
    assert {f"{module}.{name}" for module, name in names if name.isupper() and f"{module}.{name}" not in used} == set()


def test_every_sentence_of_the_command_line_is_used() -> None:
    """By its id; what is computed stands in the documents that it comes from."""
    computed = {f"run.{name}" for name in ("done", "failed", "waiting", "paused", "running", "interrupted")}
    computed |= {f"status.{name}" for name in ("sent", "delivered", "superseded", "duplicate", "dead", "in_flight")}
    computed |= {f"honesty.{name}" for name in cli_words.HONESTY} | {f"prove.{name}" for name in cli_words.PROVE}
    computed |= {f"change_run.{name}" for name in cli_words.CHANGE if name.startswith("race.")}
    computed |= {f"count.{name}" for name in cli_words.COUNTS} | {f"decisions.{name}" for name in cli_words.DECISIONS}
    used = "".join(path.read_text(encoding="utf-8") for path in (SOURCES / "doors" / "cli").rglob("*.py"))
    left = set(cli_words.SENTENCES) - computed
    missing = {name for name in left if f'"{name}"' not in used and f"'{name}'" not in used}
    names = {name.partition(".")[2] for name in missing}
    assert {name for name in names if f'"{name}"' not in used and f"'{name}'" not in used} == set()


def test_an_id_of_the_command_line_names_a_sentence() -> None:
    used = "".join(path.read_text(encoding="utf-8") for path in (SOURCES / "doors" / "cli").rglob("*.py"))
    named = set(re.findall(r"""\.text\(["']([a-z_]+\.[a-z_.-]+)["']""", used))
    assert named - set(cli_words.SENTENCES) == set()
    assert len(named) > 100


@pytest.mark.parametrize(
    ("accepted", "locale"), [("", "en"), ("zh-CN,zh;q=0.9,en;q=0.5", "zh"), ("ZH", "zh"), ("en,zh", "en"), ("fr", "en")]
)
def test_the_language_that_comes_first_is_that_of_the_answer(accepted: str, locale: str) -> None:
    assert read_locale(accepted) == locale


def test_all_messages_of_a_json_value_are_translated_and_other_texts_stay() -> None:
    stale = verdict_words.STALE()
    value = {"reason": stale, "reasons": (stale, "as I said"), "round": 2, "ok": None, "tasks": [{"reason": stale}]}
    assert render_all(value, "zh") == {
        "reason": "已过期", "reasons": ["已过期", "as I said"], "round": 2, "ok": None, "tasks": [{"reason": "已过期"}],
    }  # fmt: skip
    assert type(render_all(value, "zh")["reason"]) is str
    assert render_all(value, "en")["reason"] == "is stale"


def test_nothing_finds_a_sentence_by_its_words() -> None:
    for name in ("rules/text", "doors/pages/page.py"):
        top = SOURCES / name
        for path in top.rglob("*.py") if top.is_dir() else [top]:
            imports = {
                alias.name
                for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
                if isinstance(node, ast.Import)
                for alias in node.names
            }
            assert "re" not in imports, path


def shown(value: Any, place: tuple[str, str | None]) -> list[str]:
    """The texts of others that a parameter brings into the Chinese sentence."""
    kind, conversion = place
    if isinstance(value, Message) and conversion is None:
        return others(value)
    if isinstance(value, tuple) and conversion is None:
        return [text for part in value for text in (others(part) if isinstance(part, Message) else [part])]
    if isinstance(value, tuple | Message):
        return []
    return [repr(value) if conversion else format(value, kind)]


def others(message: Message) -> list[str]:
    return [text for name, place in places(message.template.zh).items() for text in shown(message.params[name], place)]


@given(messages())
def test_a_sentence_in_chinese_has_the_texts_of_others_unchanged(message: Message) -> None:
    chinese = message.render("zh")
    assert [text for text in others(message) if text not in chinese] == []
    assert message.render("en") == str(message)


@given(messages())
def test_a_message_survives_json(message: Message) -> None:
    body = to_json(message)
    again = from_json(wire.read(wire.write(body), limit=10**9), str(message))
    assert again is not None
    assert again == message
    assert (again.id, again.render("zh")) == (message.id, message.render("zh"))
    assert to_json(again) == body


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        "verdict.stale",
        {},
        {"id": "verdict.stale"},
        {"id": "verdict.of_tomorrow", "params": {}},
        {"id": ["verdict.stale"], "params": {}},
        {"id": "verdict.stale", "params": []},
        {"id": "verdict.stale", "params": {}, "more": 1},
        {"id": "verdict.stale", "params": {"name": "x"}},
        {"id": "verdict.is_missing", "params": {}},
        {"id": "verdict.missing", "params": {"name": None}},
        {"id": "verdict.missing", "params": {"name": True}},
        {"id": "verdict.missing", "params": {"name": [1]}},
        {"id": "verdict.missing", "params": {"name": {"id": "verdict.of_tomorrow", "params": {}}}},
        {"id": "answer.took_longer", "params": {"command": "make", "seconds": "long"}},
    ],
)
def test_what_is_not_exactly_a_message_is_not_read_as_one(body: object) -> None:
    assert from_json(body, "the text") is None
    assert catalogue.restore_messages({"reason": "the text", "reason_message": body})["reason"] == "the text"


def test_messages_in_messages_are_read_to_a_depth() -> None:
    body: dict[str, Any] = to_json(verdict_words.STALE())
    for _ in range(20):
        body = {"id": "verdict.no_evidence", "params": {"why": body}}
    assert from_json(body) is not None
    for _ in range(20):
        body = {"id": "verdict.no_evidence", "params": {"why": body}}
    assert from_json(body) is None


def test_a_stored_message_keeps_the_english_of_that_time() -> None:
    message = from_json({"id": "verdict.stale", "params": {}}, "has gone off")
    assert message is not None
    assert (message.render("en"), message.render("zh")) == ("has gone off", "已过期")


def test_a_message_is_a_text_that_does_not_change() -> None:
    message = verdict_words.MISSING(name="report")
    assert message == "report is missing"
    assert message.id == "verdict.missing"
    assert copy.deepcopy([message])[0] is message
    assert copy.copy(message) is message
    with pytest.raises(AttributeError):
        message.params = {}


def test_a_parameter_is_a_text_where_a_number_would_not_survive() -> None:
    values = (True, 2**70, 0.5, math.pi, None, ValueError("odd"))
    assert [verdict_words.MISSING(name=value).params["name"] for value in values] == [
        "True", str(2**70), "0.5", str(math.pi), "None", "odd",
    ]  # fmt: skip
    assert verdict_words.MISSING(name=7).params["name"] == 7


def test_a_document_has_messages_beside_its_texts() -> None:
    missing, stale = verdict_words.MISSING(name="x"), verdict_words.STALE()
    body = {"reason": missing, "blockers": (stale, "too short"), "of": {"why": stale}, "n": 3, "list": [{"why": stale}]}
    stored = catalogue.with_messages(body)
    assert stored == {
        "reason": "x is missing",
        "reason_message": {"id": "verdict.missing", "params": {"name": "x"}},
        "blockers": ["is stale", "too short"],
        "blockers_messages": [{"id": "verdict.stale", "params": {}}, None],
        "of": {"why": "is stale", "why_message": {"id": "verdict.stale", "params": {}}},
        "n": 3,
        "list": [{"why": "is stale", "why_message": {"id": "verdict.stale", "params": {}}}],
    }
    assert type(stored["reason"]) is str
    restored = catalogue.restore_messages(wire.read(wire.write(stored)))
    assert restored == {**body, "blockers": ["is stale", "too short"]}
    assert render(restored["reason"], "zh") == "缺少 x"
    assert [render(text, "zh") for text in restored["blockers"]] == ["已过期", "too short"]
    assert render(catalogue.read_text(stored, "reason"), "zh") == "缺少 x"
    assert catalogue.read_text({"reason": "too short"}, "reason") == "too short"


@pytest.mark.parametrize("beside", [[None], {"id": "verdict.stale", "params": {}}, [None, None, None]])
def test_a_list_that_does_not_match_its_messages_stays_as_it_is(beside: object) -> None:
    body = {"blockers": ["a", "b"], "blockers_messages": beside}
    assert catalogue.restore_messages(body) == body
    assert catalogue.restore_messages({"blockers": [1], "blockers_messages": [None]})["blockers"] == [1]


def test_the_row_of_a_task_has_the_message_beside_the_reason() -> None:
    columns = catalogue.to_columns(verdict_words.STALE())
    assert columns == {"reason": "is stale", "reason_message": '{"id":"verdict.stale","params":{}}'}
    assert render(catalogue.read_column(*columns.values()) or "", "zh") == "已过期"
    assert catalogue.to_columns("because") == {"reason": "because", "reason_message": None}
    assert catalogue.read_column("because", "{") == "because"
    assert catalogue.read_column("because", '{"id":"verdict.of_tomorrow","params":{}}') == "because"
    assert catalogue.read_column(None, '{"id":"verdict.stale","params":{}}') is None


def test_joined_texts_are_a_message_if_one_of_them_is() -> None:
    stale = verdict_words.STALE()
    assert join([]) == ""
    assert join(["a", "b"]) == "a; b"
    assert join([stale]) is stale
    assert render(join([stale, "b"]), "zh") == "已过期；b"
    assert render(join([stale, "b"], LISTED), "zh") == "已过期，b"
    assert join(["a", "b"], LISTED) == "a, b"


def test_some_names_stand_for_many() -> None:
    assert join_names(["b", "a"]) == "'a', 'b'"
    assert render(join_names("abcde"), "zh") == "'a', 'b', 'c'，另有 2 个"


def test_a_message_knows_the_sentences_in_it() -> None:
    message = ABOUT(subject="x", what=join([verdict_words.STALE(), "y"]))
    assert mentions(message, verdict_words.STALE)
    assert mentions(message, JOINED)
    assert not mentions(message, verdict_words.MISSING)
    assert not mentions("is stale", verdict_words.STALE)


def promised(*evidence: str) -> CompletionPromise:
    criteria = [{"id": f"c{at}", "description": each, "evidenceRequired": [each]} for at, each in enumerate(evidence)]
    return CompletionPromise.read({"id": "cp-1-00ff", "objective": "o", "acceptance": criteria})


def seen(name: str, detail: str = "", *, passed: bool = False) -> Evidence:
    return Evidence(name, passed, True, "claimed", "engine", "2026-05-01T12:00:00Z", detail)


def test_a_verdict_is_rendered_with_everything_that_it_quotes() -> None:
    names = join_names(["a", "b", "c", "d"])
    counts = join([check_words.COUNT_PASSED(count=1), check_words.COUNT_FAILED(count=2)], LISTED)
    detail = join([check_words.THESE_FAILED(count=4, names=names), counts])
    refused = join([
        ABOUT(subject="scope-drift", what=verdict_words.DRIFTED(paths="a.py")),
        ABOUT(subject="b", what=check_words.NAME_NOT_UTF8()),
    ])  # fmt: skip
    verdict = done.decide(
        promised("tests", "page", "said"),
        [seen("tests", detail), seen("page", "the page (of Bob; and others) is ugly"), seen("said", passed=True)],
        (),
        aborted=verdict_words.NOT_TAKEN(whys=refused),
    )
    assert [render(blocker, "zh") for blocker in verdict.blockers] == [
        "已中止：无法接收它留下的内容：scope-drift：修改了不允许修改的 a.py；b：名称不是 UTF-8",
        "标准 'c0' 未得到证明：'tests' 未通过（4 个测试失败：'a', 'b', 'c'，另有 1 个；1 个通过，2 个失败）",
        "标准 'c1' 未得到证明：'page' 未通过（the page (of Bob; and others) is ugly）",
        "标准 'c2' 未得到证明：'said' 可信度只有 claimed，需要 attested",
    ]


@pytest.mark.parametrize("text", ["", "is stale", "x is missing", "Please mend the header; then the footer."])
def test_what_others_wrote_stays_as_it_is_even_if_it_reads_like_ours(text: str) -> None:
    assert render(text, "zh") == text


def refused(**more: Any) -> dict[str, Any]:
    issue = rework.make_issue(forge_words.NAMES_NO_COMMIT(), "check").as_json()
    result = {"validator": "engine", "score": 0, "issues": [issue], **more}
    again = {"original_task_id": "t", "original_agent": "a", "attempt": 1, "validation_result": result, "previous": []}
    return {
        "schema_version": "1.1", "plan_id": "p", "task_id": "t", "command_id": "cmd_t_002", "command_seq": 2,
        "prompt": "Do it.", "required_inputs": [], "wait_for_inputs": False, "score_required": False, "timeout": 9,
        "retry_times": 0, "priority": "MEDIUM", "idempotency_key": "k", "created_at": "2026-05-01T12:00:00Z",
        "dag_ref": {"path": "task_dag.json", "sha256": f"sha256:{'0' * 64}"}, "reexecute": again,
    }  # fmt: skip


def test_a_command_is_in_the_language_of_its_agent() -> None:
    wanted = {"additions": ["is stale"], "modifications": ["the header"]}
    ours = catalogue.with_messages({"reason": verdict_words.NOT_DONE()})
    command = Command.from_json(refused(expectations=wanted, **ours))
    assert reexecution.render_command(command, "en") is command
    found = reexecution.render_command(command, "zh").reexecute
    assert isinstance(found, Reexecution)
    result = found.validation_result
    assert (result.reason, result.issues[0].description) == ("没有完成", "没有写明提交")
    assert result.as_json()["issues"] == [{"severity": "HIGH", "category": "check", "description": "没有写明提交"}]
    assert "reason_message" not in result.as_json()
    assert result.expectations is not None
    assert result.expectations.as_json() == wanted, "a validator's own words"
    again = command.reexecute
    assert again is not None
    assert reexecution.render_reexecution(again, "en") is again
    plain = command.model_copy(update={"reexecute": None})
    assert reexecution.render_command(plain, "zh") is plain
    foreign = Command.from_json(refused(reason="not done", reason_message={"id": "verdict.of_tomorrow", "params": {}}))
    shown = reexecution.render_command(foreign, "zh").reexecute
    assert shown is not None
    assert shown.validation_result.reason == "not done"


def test_a_code_without_words_is_shown_as_it_is_and_a_missing_one_not_at_all() -> None:
    assert code_words.render_code("zh", "state", "COMPLETED") == code_words.CODES["state.COMPLETED"].zh
    assert code_words.render_code("en", "state", "OF_TOMORROW") == "OF_TOMORROW"
    assert code_words.render_code("en", "state", None) == ""


def test_a_message_of_another_party_counts_only_if_its_english_is_the_text() -> None:
    own = catalogue.with_messages({"title": question_words.NOT_FIT(agent="dev", task="build")})
    assert render(catalogue.read_own_text(own, "title"), "zh") == "dev 不适合做 build"
    lying = own | {"title": "Shall I tidy up?"}
    assert render(catalogue.read_own_text(lying, "title"), "zh") == "Shall I tidy up?"
    assert catalogue.read_own_text({"title": "as it is"}, "title") == "as it is"


def test_what_is_too_long_is_cut_and_what_is_not_stays_a_message() -> None:
    message = question_words.NOT_FIT(agent="dev", task="build")
    assert cut(message, 100) is message
    assert cut_head(message, 100) is message
    assert (cut(message, 3), cut_head(message, 5)) == ("dev", "build")


def test_an_option_without_a_meaning_of_its_own_means_its_key() -> None:
    assert render(question_words.label_option("give up"), "zh") == "放弃"
    assert question_words.label_option("blue") == "blue"


def test_the_meaning_of_a_refusal_is_added_for_readers_of_chinese() -> None:
    assert code_words.render_refusal("zh", "TASK_NOT_IN_DAG") == "计划的 DAG 中没有该任务。"
    assert code_words.render_refusal("zh", "OF_ANOTHER_RELEASE") == ""
    assert code_words.render_refusal("en", "TASK_NOT_IN_DAG") == ""
