"""`agenttalk plan draft`: an agent plans, the engine and a person decide."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import agenttalk
from agenttalk.contracts.planfile import reader
from agenttalk.doors.cli.main import call
from agenttalk.rules.planfile.compiler import compile_plan
from agenttalk.testing import ScriptedModel
from agenttalk.testing.model_script import CallStep
from kits.provekit import repository

TEMPLATES = Path(agenttalk.__file__).parent / "templates"
SPOKEN = {"name", "prompt", "score_criteria", "objective", "description", "question"}
GOAL = "Say when we open"
PLANNER = """
import json, os, pathlib
outputs = pathlib.Path(os.environ["AGENTTALK_OUTPUTS"])
result = {"result": "ok"}
if os.environ["AGENTTALK_TASK_ID"] == "ask":
    result |= {"score": ASKS, "score_explanation": "so many"}
    if ASKS:
        (outputs / "questions.md").write_text("1. At which hour? Otherwise at nine.")
else:
    round = int(os.environ["AGENTTALK_COMMAND_ID"][-3:])
    (outputs / "plan.yaml").write_text(DRAFTS[min(round, len(DRAFTS)) - 1])
pathlib.Path(os.environ["AGENTTALK_RESULT"]).write_text(json.dumps(result))
"""
GOOD = """```yaml
name: Opening
tasks:
  - {id: write, agent: writer, prompt: Write note.txt., outputs: [{name: note.txt, deliverable: true}]}
```
"""
STRANGER = GOOD.replace("writer", "writter")
ARMED = GOOD.replace("name: Opening", "agents: {writer: {driver: script, argv: [touch, owned]}}")
UNSOUND = GOOD.replace(", deliverable: true", "")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("AGENTTALK_ROOT", str(folder))
    monkeypatch.chdir(tmp_path)
    return folder


def team(root: Path, *drafts: str, asks: int = 0) -> None:
    (root.parent / "planner.py").write_text(f"ASKS = {asks}\nDRAFTS = {list(drafts)!r}\n{PLANNER}")
    argv = json.dumps([sys.executable, str(root.parent / "planner.py")])
    write = json.dumps(["sh", "-c", "echo nine > $AGENTTALK_OUTPUTS/note.txt"])
    (root / "agenttalk.toml").write_text(
        f'[agents.planner]\ndriver = "script"\nargv = {argv}\n'
        f'[agents.writer]\ndriver = "script"\nargv = {write}\nprompt = "You write notes."\n'
    )


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    capsys.readouterr()
    code = call([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def draft(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, Any]:
    return told(capsys, "plan", "draft", GOAL, "--planner", "planner", *options)


def asked(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    [only] = told(capsys, "inbox")[1]["requests"]
    request: dict[str, Any] = only["request"]
    return request


def test_a_plan_is_asked_about_sent_back_approved_and_run(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    team(root, STRANGER, UNSOUND, GOOD, asks=1)
    assert draft(capsys)[0] == 3
    question = asked(capsys)
    assert "At which hour?" in question["needed"]["decision"]["question"]
    (root.parent / "answers.md").write_text("At nine.")
    assert told(capsys, "answer", question["request_id"], "--file", "answers.md=answers.md")[0] == 0
    code, standing = draft(capsys)
    assert code == 3, standing
    rounds = {task["task_id"]: task["rounds"] for task in standing["tasks"]}
    assert rounds["draft"] == 2, "once for who is not in the team, once for what nobody receives"
    assert not list(root.parent.glob("*.json")), "nothing is written before it is approved"
    question = asked(capsys)
    assert question["type"] == "APPROVAL"
    code, shown = told(capsys, "approve", question["request_id"])
    assert (code, shown["approved"]) == (3, False), "nothing is approved unseen"
    assert told(capsys, "approve", question["request_id"], "--seen", "sha256:" + "0" * 64)[0] != 0
    assert asked(capsys) == question
    assert told(capsys, "approve", question["request_id"], "--seen", shown["request"]["sha256"])[0] == 0
    code, standing = draft(capsys, "--run", "--out", "opening.json")
    assert (code, standing["result"]) == (0, "done")
    assert [task["task_id"] for task in standing["tasks"]] == ["write"]
    plan = json.loads((root.parent / "opening.json").read_text())
    assert (plan["name"], plan["agents"]) == ("Opening", {"writer": {}})
    explained = told(capsys, "explain", f"draft-{plan['plan_id']}/draft")[1]
    refused = json.dumps([each["checks"] for each in explained["attempts"]])
    assert "did you mean 'writer'?" in refused
    assert "DAG_OUTPUT_UNRECEIVED" in refused


@pytest.mark.rest
@pytest.mark.mends("B2")
def test_a_model_that_plans_may_ask_first(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY_KEY", "sk-canary-7f3a91c2e5")
    team(root, GOOD)
    questions = [{"name": "questions.md", "text": "1. At which hour? Otherwise at nine."}]
    asks = {"result": "One question.", "score": 1, "score_explanation": "one", "outputs": questions}
    plans = {"result": "Planned.", "outputs": [{"name": "plan.yaml", "text": GOOD}]}
    with ScriptedModel([CallStep("answer", asks), CallStep("answer", plans)]) as model:
        use = {"provider": "openai", "model": "gpt-x", "base_url": f"{model.url}/v1", "key_env": "CANARY_KEY"}
        lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in use.items())
        said = (root / "agenttalk.toml").read_text().partition("[agents.writer]")[2]
        (root / "agenttalk.toml").write_text(
            f'[agents.planner]\ndriver = "llm"\n[agents.planner.llm]\n{lines}[agents.writer]{said}'
        )
        assert draft(capsys)[0] == 3
        question = asked(capsys)
        assert "At which hour?" in question["needed"]["decision"]["question"]
        (root.parent / "answers.md").write_text("At nine.")
        assert told(capsys, "answer", question["request_id"], "--file", "answers.md=answers.md")[0] == 0
        assert draft(capsys)[0] == 3
        assert asked(capsys)["type"] == "APPROVAL"
        first = model.requests[0].body["messages"][0]["content"]
    assert '- "questions.md": if score > 0' in first


@pytest.mark.rest
def test_a_planner_cannot_say_what_is_started(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    team(root, ARMED)
    code, standing = draft(capsys)
    assert (code, standing["result"]) in {(1, "failed"), (3, "waiting")}
    assert {task["task_id"]: task["board"] for task in standing["tasks"]}["draft"] != "done"
    assert not list(root.parent.glob("*.json"))
    assert not list(root.parent.rglob("owned"))


@pytest.mark.rest
def test_what_a_person_refuses_is_drafted_again(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    team(root, GOOD, GOOD.replace("Opening", "Better"))
    assert draft(capsys)[0] == 3
    first = asked(capsys)["request_id"]
    assert told(capsys, "answer", first, "--decision", "REJECT", "--note", "A better name.")[0] == 0
    assert draft(capsys)[0] == 3
    second = asked(capsys)["request_id"]
    assert second != first
    assert told(capsys, "answer", second, "--decision", "APPROVE")[0] == 0
    code, answer = draft(capsys)
    assert code == 0
    assert json.loads(Path(answer["file"]).read_text())["name"] == "Better"


@pytest.mark.rest
def test_what_was_changed_after_it_was_approved_is_not_run(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    team(root, GOOD)
    assert draft(capsys)[0] == 3
    assert told(capsys, "answer", asked(capsys)["request_id"], "--decision", "APPROVE")[0] == 0
    assert draft(capsys, "--out", "first.json")[0] == 0
    [made] = [path for path in root.glob("system_runtime/artifacts/*/draft/plan.yaml/plan.yaml") if path.is_file()]
    made.chmod(0o644)
    made.write_text(GOOD.replace("Write note.txt.", "Delete everything."))
    code, answer = draft(capsys, "--out", "second.json", "--run")
    assert (code != 0, answer["error"]["code"]) == (True, "FILE_UNSAFE")
    assert not (root.parent / "second.json").exists()


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--planner", "nobody"], "NAME_UNKNOWN"),
        (["--planner", "planner", "--agent", "nobody"], "NAME_UNKNOWN"),
        (["--planner", "planner", "--reviewer", "nobody"], "NAME_UNKNOWN"),
    ],
)
def test_who_is_not_there_is_named(
    root: Path, capsys: pytest.CaptureFixture[str], options: list[str], code: str
) -> None:
    team(root, GOOD)
    exit_code, answer = told(capsys, "plan", "draft", GOAL, *options)
    assert (exit_code, answer["error"]["code"]) == (2, code)


@pytest.mark.rest
def test_a_planner_that_speaks_chinese_is_asked_in_chinese(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    team(root, GOOD)
    said = (root / "agenttalk.toml").read_text()
    (root / "agenttalk.toml").write_text(f'locale = "zh"\n{said}', encoding="utf-8")
    assert draft(capsys)[0] == 3
    assert "要运行这个计划吗？" in json.dumps(asked(capsys), ensure_ascii=False)
    [prompt] = root.glob("drafts/*/drafting.json")
    assert "- writer (script)：You write notes." in json.loads(prompt.read_bytes())["tasks"][0]["prompt"]


def test_both_languages_draft_by_the_same_plan() -> None:
    english, chinese = (shape(TEMPLATES / name) for name in ("draft.yaml", "draft.zh.yaml"))
    assert english == chinese


def shape(file: Path) -> Any:
    """A template without the words that are meant for somebody: the places that are filled in stay."""

    def bare(key: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: bare(name, each) for name, each in value.items()}
        if isinstance(value, list):
            return [bare(key, each) for each in value]
        spoken = key in SPOKEN and not re.fullmatch(r"[a-z.]+", value)  # files and inputs have names, too
        return re.findall("⟨.*?⟩", value) if spoken else value

    return bare("", reader.parse_source(file.read_bytes(), yaml=True).value)


@pytest.mark.rest_but("en")
@pytest.mark.mends("C9")
@pytest.mark.parametrize("locale", ["en", "zh"])
def test_a_planner_sees_the_repository_and_is_taught_checks_scope_and_protection(
    root: Path, capsys: pytest.CaptureFixture[str], locale: str
) -> None:
    team(root, GOOD)
    (root / "agenttalk.toml").write_text(f'locale = "{locale}"\n' + (root / "agenttalk.toml").read_text())
    repository(root.parent / "shop", {"src/price.py": "", "tests/test_price.py": "", "odd\nname.md": ""})
    (root.parent / "shop/uncommitted.py").write_text("")
    draft(capsys, "--repo", str(root.parent / "shop"))
    prompts = [path.read_text() for path in root.glob("agents/planner/workspace/*/*/.agenttalk/*.prompt.txt")]
    assert len(prompts) == 2, "one for what has to be asked, one for the plan"
    for prompt in prompts:
        assert '- "src/price.py"\n' in prompt
        assert '- "odd\\nname.md"\n' in prompt
        assert "uncommitted" not in prompt
        for word in ("workspace: repo", "protected", "allowedScope", "red_first: required"):
            assert word in prompt


@pytest.mark.mends("C9")
@pytest.mark.parametrize("name", ["draft-repository.md", "draft-repository.zh.md"])
def test_the_example_that_planners_are_taught_by_is_a_sound_plan(name: str) -> None:
    text = (TEMPLATES / name).read_text(encoding="utf-8")
    example = "\n".join(line for line in text.splitlines() if line.startswith("    "))
    plan = f"plan_id: p\nworkspace: {{repo: .}}\nagents: {{dev: {{driver: script, argv: [x]}}}}\ntasks:\n{example}\n"
    compiled = compile_plan(reader.read_plan_file(plan.encode(), yaml=True))
    assert compiled.problems == ()
