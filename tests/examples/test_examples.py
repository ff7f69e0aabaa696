"""Every example is run through the command line, from a copy of its folder: how it ends, in how many rounds, and why."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import preloaded
from agenttalk.doors.cli.main import call

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
PATIENCE = 300.0


@dataclass(frozen=True)
class Example:
    """A copy of the examples, and a root that is made by running one of them."""

    folder: Path
    plan: str

    @property
    def root(self) -> Path:
        return self.folder / "root"

    def program(self, *arguments: str, code: int = 0) -> str:
        """Run something in the folder; what it printed."""
        done = subprocess.run(arguments, cwd=self.folder, capture_output=True, timeout=PATIENCE, check=False)
        assert done.returncode == code, (done.stdout + done.stderr).decode()
        return done.stdout.decode()

    def __call__(self, *arguments: str, code: int = 0) -> Any:
        """What a command says to programs. It need not be a process of its own."""
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        with redirect_stdout(out):
            ended = call([*arguments, "--root", "root", "--json"])
        printed = out.buffer.getvalue().decode()
        assert ended == code, printed
        return json.loads(printed)

    def run(self, *, code: int = 0) -> dict[str, dict[str, Any]]:
        """Run the plan; its tasks by their ids."""
        arguments = ("run", f"examples/{self.plan}", "--root", "root", "--json")
        told = json.loads(self.program(preloaded.program(), *arguments, code=code))
        assert told["ok"] == (code == 0)
        return {task["task_id"]: task for task in told["tasks"]}

    def explain(self, task: str) -> dict[str, Any]:
        told: dict[str, Any] = self("explain", task)
        return told

    def made(self, plan_id: str, task: str, name: str) -> str:
        """What a deliverable says."""
        folder = self.root / "system_runtime" / "artifacts" / plan_id / task / name
        return (folder / name).read_text(encoding="utf-8")

    def facts(self, kind: str) -> list[dict[str, Any]]:
        """What the ledger holds of a kind, in order."""
        self("audit", "export", "--out", str(self.folder / "ledger.jsonl"))
        lines = (self.folder / "ledger.jsonl").read_text(encoding="utf-8").splitlines()
        found = [json.loads(line) for line in lines]
        return [each["body"] for each in found if each.get("kind") == kind]

    def stays(self, tasks: dict[str, dict[str, Any]], *, code: int = 0) -> None:
        """Running it once more changes nothing."""
        before = len(self.facts("turn.ended"))
        assert before > 0
        assert self.run(code=code) == tasks
        assert len(self.facts("turn.ended")) == before
        assert self("fsck")["faults"] == []


@pytest.fixture
def example(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Example:
    for name in [name for name in os.environ if name.startswith(("AGENTTALK", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    ignored = shutil.ignore_patterns("shop", "__pycache__")
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=ignored)
    return Example(tmp_path, request.param)


def of(plan: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("example", [plan], indirect=True, ids=[plan])


def states(tasks: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {name: task["state"] for name, task in tasks.items()}


def commands(told: dict[str, Any]) -> list[tuple[str, str]]:
    return [(attempt["command_id"], attempt["how"]) for attempt in told["attempts"]]


def test_every_example_has_a_page_and_every_page_an_example() -> None:
    folders = {path.parent.name for path in EXAMPLES.glob("*/plan.yaml")}
    pages = {path.stem for path in (EXAMPLES.parent / "docs" / "examples").glob("*.md")} - {"README"}
    assert folders == pages
    index = (EXAMPLES.parent / "docs" / "examples" / "README.md").read_text(encoding="utf-8")
    assert [name for name in sorted(folders) if f"]({name}.md)" not in index] == []


@pytest.mark.parametrize(
    "plan", sorted(EXAMPLES.glob("*/plan*.yaml")), ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_the_plan_is_in_order(plan: Path) -> None:
    done = subprocess.run([preloaded.program(), "plan", "check", str(plan), "--json"], capture_output=True, check=False)
    told = json.loads(done.stdout)
    assert (done.returncode, told["problems"]) == (0, [])
    assert {each["code"] for each in told["warnings"]} <= {"PLAN_DERIVED"}


@pytest.mark.shows("X14", "X16")
@of("consensus/plan.yaml")
def test_the_lead_reads_all_feedback_and_a_low_score_calls_for_a_revision(example: Example) -> None:
    tasks = example.run()
    assert set(states(tasks).values()) == {"COMPLETED"}
    assert tasks["consensus"]["score"] == 40
    report = json.loads(example.made("consensus", "consensus", "consensus.json"))
    assert report["scores"] == {"finance": 90, "operations": 90, "security": 30}
    told = example.explain("consensus/consensus")
    assert told["branch"] == {"when": "score < 70", "activate": ["revise"]}
    assert told["attempts"][0]["score_explanation"] == "security: it says nothing about 'security:'"
    assert "to be answered for security" in example.made("consensus", "revise", "revised.md")
    example.stays(tasks)


@pytest.mark.rest
@of("consensus/plan.yaml")
def test_experts_who_agree_need_no_revision(example: Example) -> None:
    proposal = example.folder / "examples" / "consensus" / "proposal.md"
    proposal.write_text(proposal.read_text() + "- security: the data stays where it is\n", encoding="utf-8")
    tasks = example.run()
    assert (tasks["consensus"]["score"], tasks["revise"]["state"]) == (100, "SKIPPED")
    assert example.explain("consensus/consensus")["branch"] is None
    example.stays(tasks)


@pytest.mark.shows("X03")
@of("tester-waits/plan.yaml")
def test_the_tester_goes_on_by_itself_when_the_package_comes(example: Example) -> None:
    tasks = example.run(code=3)
    wanted = {"specify": "COMPLETED", "deliver": "READY", "announce": "COMPLETED", "test_delivery": "PENDING"}
    assert states(tasks) == wanted
    assert "agents/developer/inbox/tester-waits" in example.explain("tester-waits/deliver")["moves_on"]
    example.stays(tasks, code=3)
    example.program("python3", "examples/tester-waits/deliver.py", "root")
    tasks = example.run()
    assert set(states(tasks).values()) == {"COMPLETED"}
    assert tasks["test_delivery"]["score"] == 100
    assert json.loads(example.made("tester-waits", "test_delivery", "test_report.json"))["failed"] == []
    example.stays(tasks)


@pytest.mark.rest
@pytest.mark.shows("X04")
@of("tester-waits/plan-late.yaml")
def test_a_person_is_asked_for_a_package_that_does_not_come(example: Example) -> None:
    plan = example.folder / "examples" / "tester-waits" / "plan-late.yaml"
    plan.write_text(plan.read_text().replace("timeout: 2", "timeout: 1"), encoding="utf-8")
    tasks = example.run(code=3)
    while tasks["test_delivery"]["request_id"] is None:  # until its second is over
        assert tasks["test_delivery"]["state"] == "BLOCKED_WAITING_INPUT"
        tasks = example.run(code=3)
    assert tasks["test_delivery"]["state"] == "BLOCKED_WAITING_HUMAN"
    [asked] = example("inbox")["requests"]
    assert asked["request"]["type"] == "MISSING_FILE"
    assert [file["name"] for file in asked["request"]["needed"]["files"]] == ["package"]
    example.program("python3", "examples/tester-waits/deliver.py", "--pack")
    example("answer", tasks["test_delivery"]["request_id"], "--file", f"package={example.folder}/delivery_package.zip")
    tasks = example.run()
    assert (tasks["test_delivery"]["state"], tasks["test_delivery"]["score"]) == ("COMPLETED", 100)
    example.stays(tasks)


@of("weekly-summary/plan.yaml")
def test_a_summary_needs_no_score(example: Example) -> None:
    tasks = example.run()
    assert set(states(tasks).values()) == {"COMPLETED"}
    assert {task["score"] for task in tasks.values()} == {None}
    page = example.made("weekly-summary", "summary", "team_week.md")
    assert [name for name in ("ada", "grace", "linus") if f"- {name}:" not in page] == []
    example.stays(tasks)


@pytest.mark.rest
@pytest.mark.shows("V02", "V03", "V05")
@of("requirements-sent-back/plan.yaml")
def test_incomplete_requirements_are_mended_in_the_second_round(example: Example) -> None:
    tasks = example.run()
    assert states(tasks) == {"requirements": "COMPLETED", "implement": "COMPLETED"}
    assert tasks["requirements"]["rounds"] == 1
    first, second = example.facts("inputs.judged")
    refused, accepted = first["inputs"]["requirements"], second["inputs"]["requirements"]
    assert (refused["decision"], refused["score"], first["validator"]) == ("REJECT", 30, "backend_developer")
    assert [(each["severity"], each["category"], each["location"]) for each in refused["issues"]] == [
        ("HIGH", "COMPLETENESS", "requirements.md#login"),
        ("MEDIUM", "CLARITY", "requirements.md#parameters"),
        ("MEDIUM", "COMPLETENESS", "requirements.md#errors"),
    ]
    assert (accepted["decision"], accepted["score"], accepted["issues"]) == ("ACCEPT", 100, [])
    producer = example.explain("requirements-sent-back/requirements")
    assert commands(producer) == [("cmd_requirements_001", "finished"), ("cmd_requirements_002", "finished")]
    assert producer["attempts"][1]["result"] == "fixed: errors, login, parameters"
    consumer = example.explain("requirements-sent-back/implement")
    assert commands(consumer) == [("cmd_implement_001", "refused"), ("cmd_implement_002", "finished")]
    assert len(json.loads(example.made("requirements-sent-back", "implement", "routes.json"))) == 4
    example.stays(tasks)


@pytest.mark.rest
@of("code-under-pass-rate/plan.yaml")
def test_code_under_the_pass_rate_comes_back_and_the_engine_runs_the_suite_itself(example: Example) -> None:
    example.program("sh", "examples/code-under-pass-rate/prepare.sh")
    tasks = example.run()
    assert states(tasks) == {"implement": "COMPLETED", "test": "COMPLETED"}
    assert (tasks["implement"]["rounds"], tasks["test"]["score"]) == (1, 100)
    [first, second] = [each["inputs"]["code"] for each in example.facts("inputs.judged")]
    assert (first["decision"], first["score"]) == ("REJECT", 60)
    assert first["reason"] == "3 of 5 tests pass (60 %); 80 % are asked for"
    assert [each["location"].partition("#")[2] for each in first["issues"]] == [
        "test_less_than_none_is_an_error",
        "test_ten_cost_a_tenth_less",
    ]
    assert (second["decision"], second["score"]) == ("ACCEPT", 100)
    [check] = example.explain("code-under-pass-rate/test")["attempts"][-1]["checks"]
    assert (check["id"], check["passed"], check["trust"], check["detail"]) == (
        "tests-pass",
        True,
        "executed",
        "5 passed",
    )
    example.stays(tasks)
    shop = example.folder / "examples" / "code-under-pass-rate" / "shop"
    assert "return 0" in (shop / "price.py").read_text(encoding="utf-8")
    example("merge", "code-under-pass-rate")
    assert "raise ValueError" in (shop / "price.py").read_text(encoding="utf-8")


@of("design-sent-back/plan.yaml")
def test_a_design_for_one_screen_comes_back_without_anybody_being_asked(example: Example) -> None:
    tasks = example.run()
    assert states(tasks) == {"design": "COMPLETED", "build_page": "COMPLETED"}
    assert tasks["design"]["rounds"] == 1
    [refused] = example.facts("inputs.judged")[0]["inputs"]["design"]["issues"]
    assert (refused["severity"], refused["category"]) == ("HIGH", "FORMAT")
    assert "breakpoints" in refused["description"]
    assert example.made("design-sent-back", "build_page", "page.css").count("@media") == 2
    example.stays(tasks)


@pytest.mark.rest
@pytest.mark.shows("V13")
@of("design-sent-back/plan-stubborn.yaml")
def test_a_design_that_never_gets_better_ends_with_a_question(example: Example) -> None:
    tasks = example.run(code=1)
    assert tasks["design"]["state"] == "FAILED"
    assert "the same issues came back unchanged" in tasks["design"]["reason"]
    assert tasks["design"]["rounds"] == 1
    assert example("inbox")["requests"] != []
    example.stays(tasks, code=1)


@pytest.mark.shows("V10")
@of("release/plan.yaml")
def test_what_passes_five_gates_is_released(example: Example) -> None:
    tasks = example.run()
    assert states(tasks) == {"make": "COMPLETED", "scan": "COMPLETED"}
    [release] = (example.root / "system_runtime" / "artifacts" / "release").glob("rel_*")
    manifest = json.loads((release / "release_manifest.json").read_text(encoding="utf-8"))
    assert manifest["decision"] == "APPROVE"
    assert {each["name"] for each in manifest["evidence_refs"]} == {"build", "deploy", "smoke", "e2e", "security"}
    assert example.program("python3", str(release / "make" / "shop.pyz" / "shop.pyz"), "--version") == "shop 1.0\n"
    example.stays(tasks)


@pytest.mark.rest
@pytest.mark.shows("V11")
@of("release/plan-careless.yaml")
def test_a_careless_program_is_not_released_whatever_its_builder_says(example: Example) -> None:
    tasks = example.run(code=1)
    assert states(tasks) == {"make": "COMPLETED", "scan": "COMPLETED"}
    published = example.root / "system_runtime" / "plans" / "release-refused" / "release_manifest.json"
    assert json.loads(published.read_text(encoding="utf-8"))["decision"] == "REJECT"
    told = example("release", "release-refused", code=1)
    assert [text.partition("'")[2].partition("'")[0] for text in told["reasons"]] == ["e2e", "security"]
    example.stays(tasks, code=1)


@pytest.mark.rest
@of("dag-review/plan.yaml")
def test_nothing_begins_before_the_plan_is_approved(example: Example) -> None:
    tasks = example.run(code=3)
    assert states(tasks) == {"specify": "PENDING", "build": "PENDING"}
    [asked] = example("inbox")["requests"]
    assert "no other agent tests what is built" in json.dumps(asked)
    example.stays(tasks, code=3)
    example("plan", "apply", "examples/dag-review/plan-revised.yaml")
    revised = Example(example.folder, "dag-review/plan-revised.yaml")
    tasks = revised.run()
    assert states(tasks) == {"specify": "COMPLETED", "build": "COMPLETED", "test": "COMPLETED"}
    revised.stays(tasks)
